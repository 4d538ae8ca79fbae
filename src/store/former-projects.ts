/**
 * Projects that were deleted: whose they were, and nothing else. Their assets go on (decisions 2, Deleting a
 * project) until they or the account are erased, which needs their owner.
 */
import type { ClientSession, Collection, Db } from 'mongodb';

type FormerProject = { _id: string; userId: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createFormerProjects(db: Db) {
  const former: Collection<FormerProject> = db.collection('formerProjects');

  return {
    async ensureIndexes(): Promise<void> {
      await former.createIndex({ userId: 1, _id: 1 });
    },

    /** Safe to repeat. `session`: the transaction that deletes them. */
    async add(ids: string[], userId: string, session?: ClientSession): Promise<void> {
      if (ids.length === 0) return;
      const writes = ids.map((_id) => ({
        updateOne: { filter: { _id }, update: { $set: { userId } }, upsert: true },
      }));
      await former.bulkWrite(writes, session ? { session } : durable);
    },

    async ownerOf(id: string): Promise<string | undefined> {
      return (await former.findOne({ _id: id }))?.userId;
    },

    /** A page of a user's, by id, behind `afterId`. */
    async idsOf(userId: string, afterId: string, limit: number): Promise<string[]> {
      const filter = { userId, _id: { $gt: afterId } };
      const found = await former.find(filter).sort({ _id: 1 }).limit(limit).toArray();
      return found.map(({ _id }) => _id);
    },

    async remove(ids: string[]): Promise<void> {
      await former.deleteMany({ _id: { $in: ids } }, durable);
    },
  };
}
