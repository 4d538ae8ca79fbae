/**
 * Users: who has an account. The fields that count runs (`used`, `resetAt`, `billingDay`, `holds`) are made
 * here and changed by quota.ts alone.
 */
import type { ClientSession, Collection, Db } from 'mongodb';
import type { PlanName } from '../../schemas/plans.ts';

/** Times are unix ms. `email` is trimmed and in lower case. */
export type UserRecord = {
  id: string;
  email: string;
  name: string;
  /** argon2id, with its parameters. null: the account signs in elsewhere (OAuth). */
  passwordHash: string | null;
  emailVerified: boolean;
  plan: PlanName;
  /** Day of the month on which a paid plan's cycle begins, 1 to 31. */
  billingDay: number | null;
  /** Runs counted in this cycle, and when it ends. */
  used: number;
  resetAt: number | null;
  createdTs: number;
};

export type NewUser = Pick<UserRecord, 'id' | 'email' | 'name' | 'passwordHash' | 'createdTs'>;

export type UserStore = ReturnType<typeof createUserStore>;

type UserDocument = Omit<UserRecord, 'id'> & { _id: string; holds: unknown[] };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createUserStore(db: Db) {
  const users: Collection<UserDocument> = db.collection('users');

  return {
    async ensureIndexes(): Promise<void> {
      await users.createIndex({ email: 1 }, { unique: true });
    },

    /** Adds a user on the free plan. `session`: the transaction this is part of. @throws on a taken e-mail. */
    async insert({ id, ...user }: NewUser, session?: ClientSession): Promise<void> {
      const document: UserDocument = {
        _id: id,
        ...user,
        emailVerified: false,
        plan: 'free',
        billingDay: null,
        used: 0,
        resetAt: null,
        holds: [],
      };
      // A transaction has one write concern, its own: an operation in it may name none.
      await users.insertOne(document, session ? { session } : durable);
    },

    async find(id: string): Promise<UserRecord | undefined> {
      return toRecord(await users.findOne({ _id: id }, { projection: { holds: 0 } }));
    },

    /** @param email in lower case. */
    async findByEmail(email: string): Promise<UserRecord | undefined> {
      return toRecord(await users.findOne({ email }, { projection: { holds: 0 } }));
    },

    /** Sets the plan and, for paid plans, the billing day. Answers false when there is no such user. */
    async setPlan(id: string, plan: PlanName, billingDay: number | null): Promise<boolean> {
      const result = await users.updateOne({ _id: id }, { $set: { plan, billingDay } }, durable);
      return result.matchedCount === 1;
    },
  };
}

function toRecord(document: UserDocument | null): UserRecord | undefined {
  if (!document) return undefined;
  const { _id: id, holds: _, ...rest } = document;
  return { id, ...rest };
}
