/**
 * Tokens that were sent by mail: who has one has read the mail. Only the SHA-256 is stored, and a TTL index
 * removes what has expired; readers check the time all the same.
 */
import type { ClientSession, Collection, Db } from 'mongodb';

/** What a token proves, and what it is good for. */
export type MailTokenPurpose =
  /** `email` is the user's. */
  | { kind: 'verify'; email: string }
  /** The user's password may be set anew. */
  | { kind: 'reset'; email: string; epoch: number }
  /** `email` may take the place of `fromEmail`. */
  | { kind: 'email'; email: string; fromEmail: string; epoch: number };

/** Times are unix ms. `epoch`: the user's when the mail was asked for; a later one makes the token worthless. */
export type MailTokenRecord = MailTokenPurpose & {
  /** SHA-256 of the token, base64url. */
  hash: string;
  userId: string;
  expiresTs: number;
};

export type MailTokenStore = ReturnType<typeof createMailTokenStore>;

type MailTokenDocument = MailTokenPurpose & { _id: string; userId: string; expiresAt: Date };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createMailTokenStore(db: Db) {
  const tokens: Collection<MailTokenDocument> = db.collection('mailTokens');

  return {
    async ensureIndexes(): Promise<void> {
      await tokens.createIndexes([{ key: { userId: 1 } }, { key: { expiresAt: 1 }, expireAfterSeconds: 0 }]);
    },

    async insert({ hash, expiresTs, ...token }: MailTokenRecord): Promise<void> {
      await tokens.insertOne({ _id: hash, ...token, expiresAt: new Date(expiresTs) }, durable);
    },

    /** The token of that hash, unless it has expired. */
    async find(hash: string, now: number): Promise<MailTokenRecord | undefined> {
      const document = await tokens.findOne({ _id: hash, expiresAt: { $gt: new Date(now) } });
      if (!document) return undefined;
      const { _id, expiresAt, ...rest } = document;
      return { hash: _id, ...rest, expiresTs: expiresAt.getTime() };
    },

    /**
     * Removes a user's tokens of some kinds. `session`: the transaction this is part of; `exceptHash`: one that
     * stays. Safe to repeat.
     */
    async removeOf(
      userId: string,
      kinds: MailTokenPurpose['kind'][],
      { session, exceptHash = '' }: { session?: ClientSession; exceptHash?: string } = {},
    ): Promise<void> {
      const filter = { userId, kind: { $in: kinds }, _id: { $ne: exceptHash } };
      await tokens.deleteMany(filter, session ? { session } : durable);
    },
  };
}
