/**
 * API tokens: who may call the API without a session. As with sessions only the SHA-256 is stored, and a TTL
 * index removes what has expired.
 */
import type { ClientSession, Collection, Db } from 'mongodb';

/** Times are unix ms. */
export type TokenRecord = {
  /** SHA-256 of the token, base64url. */
  hash: string;
  id: string;
  userId: string;
  name: string;
  /** The token's first characters. */
  preview: string;
  /** The user's epoch when it was made: see UserRecord. */
  epoch: number;
  createdTs: number;
  expiresTs: number | null;
  /** Coarse; null: never. */
  usedTs: number | null;
};

export type TokenStore = ReturnType<typeof createTokenStore>;

type TokenDocument = Omit<TokenRecord, 'hash' | 'expiresTs'> & { _id: string; expiresAt: Date | null };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createTokenStore(db: Db) {
  const tokens: Collection<TokenDocument> = db.collection('tokens');
  const unexpired = (now: number) => ({ $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date(now) } }] });

  return {
    async ensureIndexes(): Promise<void> {
      await tokens.createIndexes([
        { key: { userId: 1, createdTs: 1 } },
        { key: { id: 1 }, unique: true },
        { key: { expiresAt: 1 }, expireAfterSeconds: 0 },
      ]);
    },

    /**
     * Adds a token. Every one counts the others that are there, so racing ones never pass the limit together;
     * at it, two that race may both be refused.
     *
     * @returns false, with nothing added, when the user has `max` already.
     */
    async insert({ hash, expiresTs, ...token }: TokenRecord, max: number, now: number): Promise<boolean> {
      const expiresAt = expiresTs === null ? null : new Date(expiresTs);
      await tokens.insertOne({ _id: hash, ...token, expiresAt }, durable);
      const { userId, epoch } = token;
      if ((await tokens.countDocuments({ userId, epoch, ...unexpired(now) })) <= max) return true;
      await tokens.deleteOne({ _id: hash }, durable);
      return false;
    },

    async find(hash: string): Promise<TokenRecord | undefined> {
      const document = await tokens.findOne({ _id: hash });
      return document ? toRecord(document) : undefined;
    },

    /** A user's tokens that have not expired, oldest first. */
    async list(userId: string, now: number): Promise<TokenRecord[]> {
      const found = await tokens
        .find({ userId, ...unexpired(now) })
        .sort({ createdTs: 1, id: 1 })
        .toArray();
      return found.map(toRecord);
    },

    /** Whether the token of that id is neither revoked nor expired. */
    async isAlive(id: string, now: number): Promise<boolean> {
      return (await tokens.findOne({ id, ...unexpired(now) })) !== null;
    },

    /** Remembers when a token was last used. */
    async see(hash: string, usedTs: number): Promise<void> {
      await tokens.updateOne({ _id: hash }, { $set: { usedTs } });
    },

    /** Revokes a user's token. Answers false when there is none of that id. */
    async remove(userId: string, id: string): Promise<boolean> {
      return (await tokens.deleteOne({ userId, id }, durable)).deletedCount === 1;
    },

    /** Revokes all tokens of a user. `session`: the transaction this is part of. Safe to repeat. */
    async removeAll(userId: string, session?: ClientSession): Promise<void> {
      await tokens.deleteMany({ userId }, session ? { session } : durable);
    },
  };
}

function toRecord({ _id: hash, expiresAt, ...rest }: TokenDocument): TokenRecord {
  return { hash, ...rest, expiresTs: expiresAt?.getTime() ?? null };
}
