/** The Retry-After header of an answer (RFC 9110, 10.2.3). */

/**
 * The wait that a Retry-After header asks for, in ms from `now` (unix ms), between 0 and `maxMs`.
 * Undefined when there is no header, or one that is neither whole seconds nor a date.
 */
export function readRetryAfter(value: string | undefined, now: number, maxMs: number): number | undefined {
  const text = value?.trim() ?? '';
  // A date begins with the name of a day; Date.parse alone would also take numbers such as "-1" for years.
  const isDate = /^[a-z]{3}/i.test(text);
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : isDate ? Date.parse(text) - now : Number.NaN;

  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), maxMs);
}
