/** Counts for those who watch the service: bounded in time, and read from indexes alone. */
import type { Db, Document } from 'mongodb';
import { statesIndex } from './operator-views.ts';

/** How many are in a state, and since when the one is that has been there longest (unix ms). */
export type StateCount = { state: string; count: number; sinceTs: number };

const limitMs = 2_000;
const options = { maxTimeMS: limitMs };
/** Where assets stay: there may be millions, and their number says nothing about how the service is doing. */
const assetEnds = ['ready', 'failed', 'cancelled', 'erased'];
const retrying = { state: 'retrying' };

export function createMeasures(db: Db) {
  const assets = db.collection('assets');
  const deliveries = db.collection('deliveries');
  const mails = db.collection('mailOutbox');

  return {
    /** Assets whose run is under way. */
    assetStates: () =>
      count(
        assets.aggregate(byState({ state: { $nin: assetEnds } }), {
          ...options,
          hint: statesIndex,
        }),
      ),

    /** Deliveries that are to be sent, or to be tried again. */
    async deliveryStates(): Promise<StateCount[]> {
      const found = await Promise.all([
        count(deliveries.aggregate(byState({ state: 'sending' }), { ...options, hint: 'to send' })),
        count(deliveries.aggregate(byState(retrying), { ...options, hint: statesIndex })),
      ]);
      return found.flat();
    },

    /** Mails that are not sent yet, and since when the oldest of some is due (unix ms). */
    async outbox(now: number): Promise<{ waiting: number; overdueMs: number }> {
      const [waiting, [first]] = await Promise.all([
        mails.countDocuments({}, { ...options, hint: '_id_' }),
        mails
          .find({}, options)
          .sort({ dueTs: 1 })
          .limit(1)
          .project<{ dueTs: number }>({ dueTs: 1 })
          .toArray(),
      ]);
      return { waiting, overdueMs: first ? Math.max(0, now - first.dueTs) : 0 };
    },
  };
}

function byState(match: Document): Document[] {
  return [
    { $match: match },
    { $group: { _id: '$state', count: { $sum: 1 }, sinceTs: { $min: '$enteredTs' } } },
    { $limit: maxStates },
  ];
}

const maxStates = 100;

async function count(cursor: { toArray(): Promise<Document[]> }): Promise<StateCount[]> {
  const found = await cursor.toArray();
  return found.map(({ _id, count: number, sinceTs }) => ({
    state: String(_id),
    count: Number(number),
    sinceTs: Number(sinceTs),
  }));
}
