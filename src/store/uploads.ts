/**
 * Uploads: what users have sent and not used yet. The bytes are in storage; a record here says whose they are,
 * so that unused ones can be bounded per user and removed in time (decisions 3, Upload).
 */
import type { Collection, Db } from 'mongodb';
import { text } from './partial.ts';

/** Times are unix ms. `key` is null while the upload is being received. */
export type UploadRecord = {
  id: string;
  userId: string;
  key: string | null;
  /** As announced while it is being received, then as stored. */
  bytes: number;
  isUsed: boolean;
  /** When an asset began to use it last. */
  usedTs?: number;
  createdTs: number;
};

type UploadDocument = Omit<UploadRecord, 'id'> & { _id: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createUploadStore(db: Db) {
  const uploads: Collection<UploadDocument> = db.collection('uploads');

  const unusedBytes = async (userId: string): Promise<number> => {
    const [sum] = await uploads
      .aggregate<{ bytes: number }>(
        [{ $match: { userId: userId, isUsed: false } }, { $group: { _id: null, bytes: { $sum: '$bytes' } } }],
        { readConcern: { level: 'majority' } },
      )
      .toArray();
    return sum?.bytes ?? 0;
  };

  return {
    /** Bytes of a user's uploads that no asset uses. */
    unusedBytes,

    async ensureIndexes(): Promise<void> {
      await uploads.createIndexes([
        { key: { userId: 1, isUsed: 1, bytes: 1 } },
        { key: { isUsed: 1, createdTs: 1 } },
        { key: { key: 1 }, unique: true, partialFilterExpression: { key: { $type: 'string' } } },
      ]);
    },

    /**
     * Takes room for an upload. Every upload counts the others that have begun, so racing ones never pass the
     * limit together; near it, two that race may both be refused.
     *
     * @returns false, with nothing taken, when the user's unused uploads would be over `maxUnusedBytes`.
     */
    async reserve(upload: Omit<UploadRecord, 'key' | 'isUsed'>, maxUnusedBytes: number): Promise<boolean> {
      const { id, ...rest } = upload;
      await uploads.insertOne({ _id: id, ...rest, key: null, isUsed: false }, durable);
      if ((await unusedBytes(upload.userId)) <= maxUnusedBytes) return true;
      await uploads.deleteOne({ _id: id }, durable);
      return false;
    },

    /** The upload is stored under `key`. Answers false when it was forgotten meanwhile, with its user. */
    async complete(id: string, key: string, bytes: number): Promise<boolean> {
      const result = await uploads.updateOne({ _id: id }, { $set: { key, bytes } }, durable);
      return result.matchedCount === 1;
    },

    /** Forgets an upload. Safe to repeat. */
    async remove(id: string): Promise<void> {
      await uploads.deleteOne({ _id: id }, durable);
    },

    /** An asset uses the upload: it is neither counted nor removed any more. Safe to repeat. */
    async markUsed(key: string, now: number): Promise<void> {
      await uploads.updateOne({ key: text(key) }, { $set: { isUsed: true, usedTs: now } }, durable);
    },

    /**
     * Forgets an upload of a user that no asset uses any more. Safe to repeat.
     *
     * @returns whether its file may go: not when an asset has begun to use it since `beforeTs`, nor when it is
     * somebody else's.
     */
    async removeUsed(key: string, userId: string, beforeTs: number): Promise<boolean> {
      await uploads.deleteOne({ key: text(key), userId, usedTs: { $not: { $gt: beforeTs } } }, durable);
      return (await uploads.findOne({ key: text(key) }, { projection: { _id: 1 } })) === null;
    },

    /** Uploads of a user; those that are still being received only when they began before a time. */
    async ofUser(userId: string, begunBeforeTs: number, limit: number): Promise<UploadRecord[]> {
      const isReceived = [{ key: { $type: 'string' as const } }, { createdTs: { $lt: begunBeforeTs } }];
      const found = await uploads.find({ userId, $or: isReceived }).limit(limit).toArray();
      return found.map(({ _id: id, ...rest }) => ({ id, ...rest }));
    },

    /** Unused uploads made before a time, oldest first; those that were never completed too. */
    async unusedBefore(beforeTs: number, limit: number): Promise<UploadRecord[]> {
      const found = await uploads
        .find({ isUsed: false, createdTs: { $lt: beforeTs } })
        .sort({ createdTs: 1 })
        .limit(limit)
        .toArray();
      return found.map(({ _id: id, ...rest }) => ({ id, ...rest }));
    },
  };
}
