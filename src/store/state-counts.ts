/** How many machines are in each of some states, and since when: read from an index alone, in bounded time. */
import type { Collection, Document, Filter } from 'mongodb';

/** When the one that has been there longest came there, and the one that came last (unix ms). */
export type StateCount = { state: string; count: number; oldestTs: number; newestTs: number };

/** The index `{ state, enteredTs, _id }` of both kinds of machines. */
export const statesIndex = 'operator states';
/** Longest time of one look, in ms. */
export const lookMs = 2_000;
/** A machine has fewer; what is stored of others is not counted. */
const maxStates = 100;

/** @param hint an index that begins with the state */
export async function countByState<Kind extends Document>(
  machines: Collection<Kind>,
  match: Filter<Kind>,
  hint = statesIndex,
): Promise<StateCount[]> {
  const found = await machines
    .aggregate<Omit<StateCount, 'state'> & { _id: string }>(
      [
        { $match: match },
        {
          $group: {
            _id: '$state',
            count: { $sum: 1 },
            oldestTs: { $min: '$enteredTs' },
            newestTs: { $max: '$enteredTs' },
          },
        },
        { $limit: maxStates },
      ],
      { hint, maxTimeMS: lookMs, readConcern: { level: 'local' } },
    )
    .toArray();
  return found.map(({ _id: state, ...rest }) => ({ state, ...rest }));
}
