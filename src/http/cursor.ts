/** Pages of a list that is read newest first: the cursor names the last entry of the page before. */

/** Where an entry stands in its list. `createdTs` is unix ms; the id decides between entries of one millisecond. */
export type Place = { createdTs: number; id: string };

/** The body of the 400 to a cursor that `parseCursor` does not know. */
export const badCursor = { error: 'cursor: not one that was handed out' };

/** undefined for the first page, null for text that is no cursor of ours. */
export function parseCursor(text: string | undefined): Place | undefined | null {
  if (text === undefined) return undefined;
  const [, ts, id] = /^(\d{1,15})\.(\w{1,64})$/.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  return ts !== undefined && id !== undefined ? { createdTs: Number(ts), id } : null;
}

/**
 * A page and the cursor of the next one; null when there is none.
 *
 * @param found one entry more than the limit tells that there is a next page.
 */
export function pageOf<Entry>(
  found: readonly Entry[],
  limit: number,
  placeOf: (entry: Entry) => Place,
): { entries: Entry[]; nextCursor: string | null } {
  const entries = found.slice(0, limit);
  const last = found.length > limit ? entries.at(-1) : undefined;
  return { entries, nextCursor: last ? toCursor(placeOf(last)) : null };
}

function toCursor({ createdTs, id }: Place): string {
  return Buffer.from(`${createdTs}.${id}`).toString('base64url');
}
