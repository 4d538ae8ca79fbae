/** Tables of fields: name, type, limits and meaning, with the fields of nested objects in their place. */
import type { JsonSchema, OpenApiDocument, Parameter } from '../../schemas/openapi.ts';
import { resolve } from './examples.ts';
import { type Html, html } from './html.ts';
import { toInlineHtml } from './markdown.ts';

export type Row = { name: string; type: string; required: boolean; description: string; limits: string[] };

/** Nested objects further down are told by their type alone. */
const maxDepth = 4;

/** The fields of a body; undefined when it has none. */
export function bodyTable(schema: JsonSchema, document: OpenApiDocument, caption: string): Html | undefined {
  return table(bodyRows(schema, document), caption);
}

export function bodyRows(schema: JsonSchema, document: OpenApiDocument): Row[] {
  return rowsOf(schema, document, '', 0);
}

export function parameterTable(parameters: readonly Parameter[], document: OpenApiDocument, caption: string) {
  return table(parameterRows(parameters, document), caption);
}

export function parameterRows(parameters: readonly Parameter[], document: OpenApiDocument): Row[] {
  return parameters.map(({ name, required, description = '', schema }) =>
    rowOf(name, { ...resolve(schema, document), description }, required, document),
  );
}

function table(rows: Row[], caption: string): Html | undefined {
  if (rows.length === 0) return undefined;
  return html`<table class="fields">
<caption>${caption}</caption>
<colgroup><col class="name"><col class="kind"><col></colgroup>
<thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
<tbody>${rows.map(
    ({ name, type, required, description, limits }) => html`<tr>
<th scope="row"><code>${breakable(name)}</code>${required && html` <span class="required">required</span>`}</th>
<td class="type">${type}</td>
<td>${toInlineHtml(description)}${limits.length > 0 && html` <span class="limits">${limits.join(', ')}</span>`}</td>
</tr>`,
  )}</tbody></table>`;
}

/** Long names may break after a dot. */
function breakable(name: string): Html {
  return html`${name.split('.').map((part, index) => (index === 0 ? html`${part}` : html`<wbr>.${part}`))}`;
}

function rowsOf(schema: JsonSchema, document: OpenApiDocument, prefix: string, depth: number): Row[] {
  const object = objectOf(schema, document);
  if (!object || depth > maxDepth) return [];
  const isRequired = (name: string) => object.required?.includes(name) ?? false;
  const entries = Object.entries(object.properties ?? {});
  // What must be there comes first; otherwise the schema's own order.
  entries.sort(([one], [other]) => Number(isRequired(other)) - Number(isRequired(one)));
  return entries.flatMap(([name, property]) => {
    const path = `${prefix}${name}`;
    const required = isRequired(name);
    const { suffix, inner } = nestedOf(property, document);
    return [
      rowOf(path, { ...resolve(property, document), ...pick(property) }, required, document),
      ...rowsOf(inner, document, `${path}${suffix}.`, depth + 1),
    ];
  });
}

/** What is said where a schema is used counts more than what it says of itself. */
function pick({ description }: JsonSchema): JsonSchema {
  return description === undefined ? {} : { description };
}

function nestedOf(schema: JsonSchema, document: OpenApiDocument): { suffix: string; inner: JsonSchema } {
  const plain = withoutNull(resolve(schema, document), document).schema;
  return plain.type === 'array' ? { suffix: '[]', inner: plain.items ?? {} } : { suffix: '', inner: plain };
}

/** The object that a schema is; of a choice of objects, all their fields. */
function objectOf(schema: JsonSchema, document: OpenApiDocument): JsonSchema | undefined {
  const found = resolve(schema, document);
  if (found.properties) return found;
  const members = (found.anyOf ?? found.oneOf ?? [])
    .map((one) => objectOf(one, document))
    .filter((one) => one);
  if (members.length === 0) return undefined;
  return {
    properties: Object.assign({}, ...members.map((one) => one?.properties)),
    required: (members[0]?.required ?? []).filter((name) =>
      members.every((one) => one?.required?.includes(name)),
    ),
  };
}

function rowOf(name: string, schema: JsonSchema, required: boolean, document: OpenApiDocument): Row {
  const { description = '' } = schema;
  return { name, type: typeOf(schema, document), required, description, limits: limitsOf(schema, document) };
}

function typeOf(schema: JsonSchema, document: OpenApiDocument): string {
  const { schema: plain, isNullable } = withoutNull(resolve(schema, document), document);
  const choice = plain.enum || plain.const !== undefined ? 'string' : 'any';
  const types = [plain.type ?? choice].flat();
  const orNull = isNullable || (types.length > 1 && types.includes('null')) ? ' or null' : '';
  const named = types.filter((type) => type !== 'null' || types.length === 1);
  if (named[0] === 'array')
    return `array of ${plain.items ? `${typeOf(plain.items, document)}s` : 'values'}${orNull}`;
  if (plain.anyOf || plain.oneOf) return `object${orNull}`;
  return `${plain.format === 'uri' ? 'URL' : named.join(' or ')}${orNull}`;
}

function withoutNull(
  schema: JsonSchema,
  document: OpenApiDocument,
): { schema: JsonSchema; isNullable: boolean } {
  const members = schema.anyOf ?? schema.oneOf ?? [];
  const rest = members.filter(({ type }) => type !== 'null');
  const [only] = rest;
  if (only && rest.length === 1) return { schema: resolve(only, document), isNullable: members.length > 1 };
  return { schema, isNullable: false };
}

/** What a value must keep to, in words. */
function limitsOf(schema: JsonSchema, document: OpenApiDocument): string[] {
  const { schema: plain } = withoutNull(resolve(schema, document), document);
  const items = plain.items ? resolve(plain.items, document) : undefined;
  const choices = plain.enum ?? (plain.const === undefined ? items?.enum : [plain.const]);
  return [
    ...(choices ? [choices.map(String).join(' · ')] : []),
    ...range(plain.minimum, plain.maximum, ''),
    ...range(plain.minLength, plain.maxLength, ' characters'),
    ...range(plain.minItems, plain.maxItems, ' entries'),
    ...(plain.default === undefined ? [] : [`default ${String(plain.default)}`]),
  ];
}

function range(from: number | undefined, to: number | undefined, unit: string): string[] {
  const least = from === undefined || from <= Number.MIN_SAFE_INTEGER ? undefined : from;
  const most = to === undefined || to >= Number.MAX_SAFE_INTEGER ? undefined : to;
  if (least !== undefined && most !== undefined) return [`${least} to ${most}${unit}`];
  if (most !== undefined) return [`at most ${most}${unit}`];
  return least === undefined || (least <= 1 && unit !== '') ? [] : [`at least ${least}${unit}`];
}
