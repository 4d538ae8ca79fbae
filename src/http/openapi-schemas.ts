/**
 * Schemas of the document: what zod makes of ours, with the named ones gathered as components.
 *
 * Objects are open: answers gain fields without notice (specification 9), and clients must not mind.
 */
import '../../schemas/described.ts';
import { z } from 'zod';
import type { JsonSchema } from '../../schemas/openapi.ts';

/** Which side of a schema: what is sent, or what comes of it. */
export type Direction = 'input' | 'output';

export type Components = ReturnType<typeof createComponents>;

export function createComponents() {
  const schemas: Record<string, JsonSchema> = {};
  /** Conversions are most of the work of a document, and routes share schemas. */
  const known = { input: new Map<z.ZodType, JsonSchema>(), output: new Map<z.ZodType, JsonSchema>() };

  const convert = (schema: z.ZodType, io: Direction): JsonSchema => {
    const {
      $schema: _,
      $defs = {},
      ...root
    } = z.toJSONSchema(schema, {
      io,
      target: 'draft-2020-12',
      unrepresentable: 'any',
      override: ({ jsonSchema }) => {
        if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
      },
    }) as JsonSchema & { $schema?: string; $defs?: Record<string, JsonSchema & Named> };
    const parts = Object.entries($defs).map(([name, part]) => [name, withFields(part)] as const);
    const names = new Map(parts.map(([name, part]) => [name, freeName(name, part, io)]));
    for (const [name, part] of parts) schemas[names.get(name) ?? name] ??= relinked(part, names);
    return relinked(root, names);
  };

  /** What goes in may differ from what comes out under the same name: it is then a component of its own. */
  const freeName = (name: string, part: JsonSchema, io: Direction): string => {
    const there = schemas[name];
    if (!there || io === 'output') return name;
    return JSON.stringify(relinked(part, new Map())) === JSON.stringify(there) ? name : `${name}Input`;
  };

  return {
    /** A schema as a route uses it; named ones are references. Outputs are to be asked for first. */
    of(schema: z.ZodType, io: Direction): JsonSchema {
      const found = known[io].get(schema) ?? convert(schema, io);
      known[io].set(schema, found);
      return found;
    },
    /** The named ones, in the order of their names. */
    all: (): Record<string, JsonSchema> =>
      Object.fromEntries(Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1))),
  };
}

type Named = { fields?: Record<string, string> };

/** Descriptions of fields stand with the fields. */
function withFields({ fields = {}, ...schema }: JsonSchema & Named): JsonSchema {
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const description = fields[name] ?? property.description;
    return [name, description === undefined ? property : { ...property, description }];
  });
  return schema.properties ? { ...schema, properties: Object.fromEntries(properties) } : schema;
}

/** A schema whose references lead to components. */
function relinked(schema: JsonSchema, names: ReadonlyMap<string, string>): JsonSchema {
  const text = JSON.stringify(schema, (key, value) => {
    if (key !== '$ref' || typeof value !== 'string') return value;
    const name = value.replace('#/$defs/', '');
    return `#/components/schemas/${names.get(name) ?? name}`;
  });
  return JSON.parse(text);
}
