/**
 * One record per partition: who owns it, how far its messages are applied and published, and the highest ts
 * that its facts carry (architecture 3a).
 */
import type { Collection, Db } from 'mongodb';
import { isDuplicate } from './actors.ts';

export type PartitionRecord = {
  _id: number;
  owner: string | null;
  epoch: number;
  /** Sequence up to which everything is stored and published. */
  position: number;
  /** Upper bound of the facts' ts up to there. */
  ts: number;
};

export type PartitionStore = ReturnType<typeof createPartitionStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createPartitionStore(db: Db) {
  const partitions: Collection<PartitionRecord> = db.collection('partitions');
  const settings: Collection<{ _id: string; count: number }> = db.collection('settings');

  return {
    /** Makes the records. @throws when the store was made with another number of partitions. */
    async ensure(count: number): Promise<void> {
      await settings
        .updateOne({ _id: 'partitions' }, { $setOnInsert: { count } }, { upsert: true, ...durable })
        .catch((cause: unknown) => {
          if (!isDuplicate(cause)) throw cause;
        });
      const stored = await settings.findOne({ _id: 'partitions' });
      if (stored?.count !== count) {
        throw new Error(`the database has ${stored?.count} partitions, this build has ${count}`);
      }
      await partitions.bulkWrite(
        Array.from({ length: count }, (_, _id) => ({
          updateOne: {
            filter: { _id },
            update: { $setOnInsert: { owner: null, epoch: 0, position: 0, ts: 0 } },
            upsert: true,
          },
        })),
        { ordered: false, ...durable },
      );
    },

    /** Takes those that are free or whose owner is none of `living`; answers the records that are ours now. */
    async claim(wanted: number[], owner: string, living: string[]): Promise<PartitionRecord[]> {
      await partitions.updateMany(
        { _id: { $in: wanted }, owner: { $nin: [...living, owner] } },
        { $set: { owner }, $inc: { epoch: 1 } },
        durable,
      );
      return partitions
        .find({ _id: { $in: wanted }, owner }, { readConcern: { level: 'majority' } })
        .toArray();
    },

    /** Takes them whoever holds them: for a peer that lives and does not let go. */
    async force(wanted: number[], owner: string): Promise<void> {
      await partitions.updateMany(
        { _id: { $in: wanted }, owner: { $ne: owner } },
        { $set: { owner }, $inc: { epoch: 1 } },
        durable,
      );
    },

    async release(dropped: number[], owner: string): Promise<void> {
      await partitions.updateMany({ _id: { $in: dropped }, owner }, { $set: { owner: null } }, durable);
    },

    /**
     * Moves positions of owned partitions forward: one that arrives late moves nothing back. Answers false when one of
     * them is not ours any more.
     */
    async move(
      moves: { partition: number; position: number; ts: number }[],
      owner: string,
    ): Promise<boolean> {
      if (moves.length === 0) return true;
      const result = await partitions.bulkWrite(
        moves.map(({ partition, position, ts }) => ({
          updateOne: { filter: { _id: partition, owner }, update: { $max: { position, ts } } },
        })),
        { ordered: false, ...durable },
      );
      return result.matchedCount === moves.length;
    },

    /** Up to which sequence everything of a partition is stored and published; 0 when there is no such partition. */
    async positionOf(partition: number): Promise<number> {
      return (await partitions.findOne({ _id: partition }))?.position ?? 0;
    },

    async all(): Promise<PartitionRecord[]> {
      return partitions.find().toArray();
    },
  };
}
