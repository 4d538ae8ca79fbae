import type { Collection, Filter } from 'mongodb';

/** So many take far less than the time that an answer of the database is waited for. */
const pieceSize = 2_000;

/**
 * Changes what may be very much, some thousands of documents at a time: all of them in one command may take longer than
 * its answer is waited for. `change` makes its documents match no more.
 */
export async function inPieces<Document extends { _id: string }>(
  collection: Collection<Document>,
  filter: Filter<Document>,
  change: (ids: string[]) => Promise<unknown>,
): Promise<void> {
  for (;;) {
    const found = await collection
      .find(filter)
      .project<{ _id: string }>({ _id: 1 })
      .limit(pieceSize)
      .toArray();
    if (found.length > 0) await change(found.map(({ _id }) => _id));
    if (found.length < pieceSize) return;
  }
}
