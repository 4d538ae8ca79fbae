/** Examples made of schemas: JSON bodies, and requests for curl. */
import type {
  HeaderObject,
  JsonSchema,
  OpenApiDocument,
  Operation,
  Parameter,
} from '../../schemas/openapi.ts';

/** Deeper than any body of ours; a schema that contains itself ends here. */
const maxDepth = 8;

/** A value that fits the schema: its own example where it has one. */
export function exampleOf(schema: JsonSchema, document: OpenApiDocument, depth = 0): unknown {
  const { examples, const: constant, enum: choices, default: standard } = schema;
  if (examples?.length) return examples[0];
  if (constant !== undefined) return constant;
  if (standard !== undefined) return standard;
  if (choices) return choices[0];
  if (depth > maxDepth) return null;
  const inner = innerOf(schema, document);
  return inner ? exampleOf(inner, document, depth + 1) : ofType(schema, document, depth);
}

/** What a reference or a choice stands for. */
function innerOf({ $ref, anyOf, oneOf }: JsonSchema, document: OpenApiDocument): JsonSchema | undefined {
  if ($ref !== undefined) return resolve({ $ref }, document);
  return (anyOf ?? oneOf)?.find(({ type }) => type !== 'null');
}

export function resolve(schema: JsonSchema, document: OpenApiDocument): JsonSchema {
  const { $ref, ...beside } = schema;
  if ($ref === undefined) return schema;
  return { ...document.components.schemas[$ref.replace('#/components/schemas/', '')], ...beside };
}

/** What a reference to a header leads to. */
export function headerAt($ref: string | undefined, document: OpenApiDocument): HeaderObject | undefined {
  return $ref === undefined
    ? undefined
    : document.components.headers[$ref.replace('#/components/headers/', '')];
}

function ofType(schema: JsonSchema, document: OpenApiDocument, depth: number): unknown {
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, property]) => [
          name,
          exampleOf(property, document, depth + 1),
        ]),
      );
    case 'array':
      return schema.items ? [exampleOf(schema.items, document, depth + 1)] : [];
    case 'integer':
    case 'number':
      return schema.minimum !== undefined && schema.minimum > 0 ? schema.minimum : 0;
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return textOf(schema);
  }
}

function textOf({ format, minLength = 0 }: JsonSchema): string {
  if (format === 'uri') return 'https://example.com/';
  return format === 'email' ? 'ada@example.com' : 'string'.padEnd(minLength, '.');
}

/**
 * A request as a line for a shell. Parameters of the path are variables named after them, `$PROJECT_ID`; the cookie
 * jar is `cookies.txt`.
 */
export function curlOf(
  method: string,
  path: string,
  operation: Operation,
  document: OpenApiDocument,
): string {
  const url = `${document.servers[0]?.url ?? ''}${path.replace(/\{(\w+)\}/g, (_, name: string) => `$\{${variable(name)}}`)}`;
  const query = operation.parameters.filter((one) => one.in === 'query' && one.required);
  const asked = query
    .map((one) => `${one.name}=${encodeURIComponent(String(exampleValue(one, document)))}`)
    .join('&');
  const parts = [
    `curl ${flagsOf(operation, document)}"${url}${asked === '' ? '' : `?${asked}`}"`,
    ...(method === 'get' || (method === 'post' && operation.requestBody)
      ? []
      : [`-X ${method.toUpperCase()}`]),
    ...headersOf(operation),
    ...bodyOf(operation, document),
  ];
  return parts.join(' \\\n  ');
}

/** `projectId` is `PROJECT_ID`. */
export function variable(name: string): string {
  return name.replace(/([a-z])([A-Z])/g, '$1_$2').toUpperCase();
}

function flagsOf({ security, responses }: Operation, document: OpenApiDocument): string {
  const [, success] = Object.entries(responses).find(([status]) => status.startsWith('2')) ?? [];
  const types = Object.keys(success?.content ?? {});
  const setsCookie = headerAt(success?.headers['Set-Cookie']?.$ref, document)?.required === true;
  const needsCookie = security.length > 0;
  return [
    needsCookie ? '-b cookies.txt ' : '',
    setsCookie ? '-c cookies.txt ' : '',
    types.includes('text/event-stream') ? '-N ' : '',
    types.some((type) => /^(video|image)\//.test(type)) ? '-o out ' : '',
  ].join('');
}

function headersOf({ parameters }: Operation): string[] {
  return parameters.some((one) => one.in === 'header' && one.name === 'Origin')
    ? ["-H 'Origin: https://example.com'"]
    : [];
}

function bodyOf({ requestBody }: Operation, document: OpenApiDocument): string[] {
  const content = requestBody?.content ?? {};
  if (content['multipart/form-data']) return ['-F file=@photo.jpg'];
  const json = content['application/json'];
  if (!json) return [];
  const text = JSON.stringify(exampleOf(json.schema, document), undefined, 2).replaceAll("'", "'\\''");
  return ["-H 'Content-Type: application/json'", `-d '${text.replaceAll('\n', '\n  ')}'`];
}

function exampleValue({ example, schema }: Parameter, document: OpenApiDocument): unknown {
  return example ?? exampleOf(schema, document);
}
