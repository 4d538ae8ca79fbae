/**
 * A valid request for every operation of an OpenAPI document, to be spoilt: see fuzz.ts and
 * test/http/bad-input.test.ts. Made from the document, so a new route is covered as soon as it is described.
 */
import type { JsonSchema, OpenApiDocument, Operation, Parameter } from '../../schemas/openapi.ts';
import { resolve } from '../docs/examples.ts';

export type Example = {
  method: string;
  /** The path as the document has it. */
  template: string;
  /** The path with its parameters filled in. */
  path: string;
  params: string[];
  query: Record<string, JsonSchema>;
  /** Query of required parameters, with its question mark; empty without any. */
  search: string;
  /** Type of the body; undefined without one. */
  contentType: string | undefined;
  /** Of JSON bodies, without references. */
  bodySchema: JsonSchema | undefined;
  body: unknown;
  /** Statuses that the document lists. */
  statuses: number[];
};

/** Deeper than any schema of ours; one that contains itself ends here. */
const maxDepth = 8;

/** @param known values of parameters and fields by their names; others are made up from their schemas. */
export function toExamples(document: OpenApiDocument, known: Record<string, string>): Example[] {
  return Object.entries(document.paths).flatMap(([template, operations]) =>
    Object.entries(operations).map(([method, operation]) =>
      toExample(method, template, operation, document, known),
    ),
  );
}

function toExample(
  method: string,
  template: string,
  { parameters, requestBody, responses }: Operation,
  document: OpenApiDocument,
  known: Record<string, string>,
): Example {
  const params = parameters.filter((one) => one.in === 'path');
  const query = parameters.filter((one) => one.in === 'query');
  const required = query.filter((one) => one.required);
  const valueFor = ({ name, schema, example }: Parameter) =>
    String(known[name] ?? example ?? toValue(whole(schema, document), name, known));
  const search = new URLSearchParams(
    required.map((one): [string, string] => [one.name, valueFor(one)]),
  ).toString();
  const [contentType, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const bodySchema =
    content && contentType === 'application/json' ? whole(content.schema, document) : undefined;
  return {
    method: method.toUpperCase(),
    template,
    path: params.reduce((path, one) => path.replace(`{${one.name}}`, () => valueFor(one)), template),
    params: params.map(({ name }) => name),
    query: Object.fromEntries(query.map(({ name, schema }) => [name, whole(schema, document)])),
    search: search === '' ? '' : `?${search}`,
    contentType,
    bodySchema,
    body: bodySchema && toValue(bodySchema, '', known),
    statuses: Object.keys(responses).map(Number),
  };
}

/** A schema with what its references stand for in their places. */
function whole(schema: JsonSchema, document: OpenApiDocument, depth = 0): JsonSchema {
  if (depth > maxDepth) return {};
  const { items, properties, anyOf, oneOf, allOf, ...rest } = resolve(schema, document);
  const inner = (one: JsonSchema) => whole(one, document, depth + 1);
  return {
    ...rest,
    ...(items && { items: inner(items) }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, inner(one)])),
    }),
    ...(anyOf && { anyOf: anyOf.map(inner) }),
    ...(oneOf && { oneOf: oneOf.map(inner) }),
    ...(allOf && { allOf: allOf.map(inner) }),
  };
}

/** A value that fits, with all properties, so that each can be spoilt. */
function toValue(schema: JsonSchema, name: string, known: Record<string, string>): unknown {
  if (known[name] !== undefined) return known[name];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const choices = (schema.anyOf ?? schema.oneOf ?? []).filter(({ type }) => type !== 'null');
  // Of a time: its smallest number is long ago.
  const choice = choices.find(({ format }) => format === 'date-time') ?? choices[0];
  if (choice) return toValue(choice, name, known);
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== 'null') : schema.type;
  switch (type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, one]) => [key, toValue(one, key, known)]),
      );
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => toValue(schema.items ?? {}, name, known));
    case 'integer':
    case 'number':
      return Math.max(schema.minimum ?? 0, 0);
    case 'boolean':
      return false;
    default:
      return toText(schema);
  }
}

function toText({ format, minLength = 1 }: JsonSchema): string {
  if (format === 'email') return 'someone@example.com';
  if (format === 'uri') return 'https://example.com/picture.png';
  if (format === 'date-time') return '2999-01-01T00:00:00.000Z';
  return 'x'.repeat(minLength);
}
