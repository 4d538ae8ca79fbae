/** Counts for those who watch the service: bounded in time, and read from indexes alone. */
import type { Db } from 'mongodb';
import { countByState, lookMs, type StateCount } from './state-counts.ts';

const options = { maxTimeMS: lookMs };
/** Where assets stay: there may be millions, and their number says nothing about how the service is doing. */
const assetEnds = ['ready', 'failed', 'cancelled', 'erased'];

export function createMeasures(db: Db) {
  const assets = db.collection('assets');
  const deliveries = db.collection('deliveries');
  const mails = db.collection('mailOutbox');

  return {
    /** Assets whose run is under way. */
    assetStates: () => countByState(assets, { state: { $nin: assetEnds } }),

    /** Deliveries that are to be sent, or to be tried again. */
    async deliveryStates(): Promise<StateCount[]> {
      const found = await Promise.all([
        countByState(deliveries, { state: 'sending' }, 'to send'),
        countByState(deliveries, { state: 'retrying' }),
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
