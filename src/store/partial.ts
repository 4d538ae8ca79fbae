/**
 * Conditions of partial indexes, to be said again in the queries that they serve: MongoDB does not see that what
 * equals a text is one, and would read the whole collection instead.
 */

/** For an index of texts alone: `{ $type: 'string' }`. */
export const text = (value: string) => ({ $eq: value, $type: 'string' as const });

/** For an index of numbers alone. The driver's types do not know the name for all of them. */
export const isNumber = { $type: 'number' as 'double' };
