/** Past cycles of users with their totals: what is billed as overage, and the history that users see. */
import type { Collection, Db } from 'mongodb';
import { usage as limits } from '../../schemas/limits.ts';
import type { EndedCycle } from './quota.ts';

type CycleDocument = EndedCycle & { _id: string; userId: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createUsageStore(db: Db) {
  const cycles: Collection<CycleDocument> = db.collection('usage_cycles');

  return {
    async ensureIndexes(): Promise<void> {
      await cycles.createIndex({ userId: 1, endTs: -1 });
    },

    /** Keeps a cycle, once however often it is told, and forgets those of the user that are too old. */
    async record(userId: string, cycle: EndedCycle): Promise<void> {
      const _id = `${userId}:${cycle.endTs}`;
      await cycles.updateOne({ _id }, { $setOnInsert: { userId, ...cycle } }, { upsert: true, ...durable });
      const [oldest] = await cycles
        .find({ userId })
        .sort({ endTs: -1 })
        .skip(limits.historyCycles - 1)
        .limit(1)
        .toArray();
      if (oldest) await cycles.deleteMany({ userId, endTs: { $lt: oldest.endTs } }, durable);
    },

    /** Forgets the cycles of a user. Safe to repeat. */
    async removeOf(userId: string): Promise<void> {
      await cycles.deleteMany({ userId }, durable);
    },

    /** Newest first. */
    async list(userId: string): Promise<EndedCycle[]> {
      const found = await cycles.find({ userId }).sort({ endTs: -1 }).limit(limits.historyCycles).toArray();
      return found.map(({ _id, userId: _, ...cycle }) => cycle);
    },
  };
}
