/**
 * Attempts at something that is limited over a sliding time, such as signing in: one record per key with the
 * times of its last attempts. A record goes by itself once its newest attempt no longer counts.
 */
import type { Collection, Db } from 'mongodb';

type AttemptDocument = { _id: string; hits: { id: string; ts: number }[]; expiresAt: Date };

export type AttemptLimit = { key: string; limit: number; windowMs: number };

export type AttemptStore = ReturnType<typeof createAttemptStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createAttemptStore(db: Db) {
  const attempts: Collection<AttemptDocument> = db.collection('attempts');

  return {
    async ensureIndexes(): Promise<void> {
      await attempts.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
    },

    /**
     * Counts an attempt if its key has room, in one conditional write: racing attempts cannot pass together.
     *
     * @returns 0, or the ms until one would be accepted. What is refused is not counted.
     */
    async take({ key, limit, windowMs }: AttemptLimit, id: string, now: number): Promise<number> {
      const recent = {
        $filter: {
          input: { $ifNull: ['$hits', []] },
          as: 'hit',
          cond: { $gt: ['$$hit.ts', now - windowMs] },
        },
      };
      const added = { $concatArrays: ['$hits', [{ id, ts: now }]] };
      const update = [
        { $set: { hits: recent } },
        {
          $set: {
            hits: { $cond: [{ $lt: [{ $size: '$hits' }, limit] }, added, '$hits'] },
            expiresAt: new Date(now + windowMs),
          },
        },
      ];
      const options = { upsert: true, returnDocument: 'after', ...durable } as const;
      const hits = (await attempts.findOneAndUpdate({ _id: key }, update, options))?.hits ?? [];
      if (hits.some((hit) => hit.id === id)) return 0;
      return Math.max(1, (hits[0]?.ts ?? now) + windowMs - now);
    },

    /** Forgets what was counted under a key. Safe to repeat. */
    async forget(key: string): Promise<void> {
      await attempts.deleteOne({ _id: key }, durable);
    },

    /** Takes attempts back that were not to be counted after all. Safe to repeat. */
    async giveBack(keys: string[], id: string): Promise<void> {
      await attempts.updateMany({ _id: { $in: keys } }, { $pull: { hits: { id } } }, durable);
    },
  };
}
