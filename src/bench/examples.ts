/**
 * A valid request for every operation of an OpenAPI document, to be spoilt: see fuzz.ts and
 * test/http/bad-input.test.ts. Made from the document, so a new route is covered as soon as it is described.
 */

/** What of a JSON Schema matters here. */
export type Schema = {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  format?: string;
  minimum?: number;
  minLength?: number;
  minItems?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
};

export type Example = {
  method: string;
  /** The path as the document has it. */
  template: string;
  /** The path with its parameters filled in. */
  path: string;
  params: string[];
  query: Record<string, Schema>;
  /** Query of required parameters, with its question mark; empty without any. */
  search: string;
  /** Type of the body; undefined without one. */
  contentType: string | undefined;
  bodySchema: Schema | undefined;
  body: unknown;
  /** Statuses that the document lists; 0 for `default`. */
  statuses: number[];
};

export type Document = { paths: Record<string, Record<string, Operation>> };

type Operation = {
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema }[];
  requestBody?: { content?: Record<string, { schema?: Schema }> };
  responses?: Record<string, unknown>;
};

/** @param known values of parameters and fields by their names; others are made up from their schemas. */
export function toExamples({ paths }: Document, known: Record<string, string>): Example[] {
  return Object.entries(paths).flatMap(([template, operations]) =>
    Object.entries(operations).map(([method, operation]) => toExample(method, template, operation, known)),
  );
}

function toExample(
  method: string,
  template: string,
  { parameters = [], requestBody, responses = {} }: Operation,
  known: Record<string, string>,
): Example {
  const params = [...template.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const query = Object.fromEntries(
    parameters.filter((one) => one.in === 'query').map(({ name, schema = {} }) => [name, schema]),
  );
  const required = parameters.filter((one) => one.in === 'query' && one.required);
  const search = new URLSearchParams(
    Object.fromEntries(required.map(({ name, schema = {} }) => [name, String(toValue(schema, name, known))])),
  ).toString();
  const [contentType, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const isJson = contentType === 'application/json';
  return {
    method: method.toUpperCase(),
    template,
    path: template
      .replace(/\{(\w+)\}/g, (_, name: string) => known[name] ?? 'none')
      .replace('*', 'none/none.mp4'),
    params,
    query,
    search: search === '' ? '' : `?${search}`,
    contentType,
    bodySchema: isJson ? content?.schema : undefined,
    body: isJson ? toValue(content?.schema ?? {}, '', known) : undefined,
    statuses: Object.keys(responses).map((status) => (status === 'default' ? 0 : Number(status))),
  };
}

/** A value that fits, with all properties, so that each can be spoilt. */
function toValue(schema: Schema, name: string, known: Record<string, string>): unknown {
  if (known[name] !== undefined) return known[name];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [choice] = (schema.anyOf ?? schema.oneOf ?? []).filter(({ type }) => type !== 'null');
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

function toText({ format, minLength = 1 }: Schema): string {
  if (format === 'email') return 'someone@example.com';
  if (format === 'uri') return 'https://example.com/picture.png';
  if (format === 'date-time') return '2030-01-01T00:00:00.000Z';
  return 'x'.repeat(minLength);
}
