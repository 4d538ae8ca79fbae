/** Identities: which user is who at another provider. Unique per provider and subject. */
import type { Collection, Db } from 'mongodb';

/** Times are unix ms. `email`: as it was when the identity was linked. */
export type IdentityRecord = {
  provider: string;
  subject: string;
  userId: string;
  email: string;
  createdTs: number;
};

type IdentityDocument = IdentityRecord & { _id: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createIdentityStore(db: Db) {
  const identities: Collection<IdentityDocument> = db.collection('identities');

  return {
    async ensureIndexes(): Promise<void> {
      await identities.createIndex({ userId: 1 });
    },

    /** Id of the user that an identity was linked to. */
    async findUserId(provider: string, subject: string): Promise<string | undefined> {
      return (await identities.findOne({ _id: keyOf(provider, subject) }))?.userId;
    },

    /** Links an identity to a user, instead of the one it was linked to before. Safe to repeat. */
    async link(identity: IdentityRecord): Promise<void> {
      const { provider, subject } = identity;
      await identities.replaceOne({ _id: keyOf(provider, subject) }, identity, { upsert: true, ...durable });
    },

    /** Forgets all identities of a user. Safe to repeat. */
    async removeAllOf(userId: string): Promise<void> {
      await identities.deleteMany({ userId }, durable);
    },
  };
}

function keyOf(provider: string, subject: string): string {
  return `${provider}:${subject}`;
}
