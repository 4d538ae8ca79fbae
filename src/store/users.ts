/**
 * Users: who has an account. The fields that count runs (`used`, `resetAt`, `billingDay`, `holds`) are made
 * here and changed by quota.ts alone.
 */
import type { ClientSession, Collection, Db, Filter } from 'mongodb';
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

/** `text`: part of the e-mail or the name. */
export type UserFilter = { email?: string | undefined; text?: string | undefined };

/** Where a listing goes on: after this user, newest first. */
export type UserCursor = { createdTs: number; id: string };

export type UserStore = ReturnType<typeof createUserStore>;

type UserDocument = Omit<UserRecord, 'id'> & { _id: string; holds: unknown[] };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
/** Part of a name is looked for in every user. */
const searchMs = 5_000;

export function createUserStore(db: Db) {
  const users: Collection<UserDocument> = db.collection('users');

  return {
    async ensureIndexes(): Promise<void> {
      await users.createIndex({ email: 1 }, { unique: true });
      await users.createIndex({ createdTs: -1, _id: -1 });
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

    /** `session`: the transaction that this is part of. */
    async find(id: string, session?: ClientSession): Promise<UserRecord | undefined> {
      const options = { projection: { holds: 0 }, ...(session ? { session } : {}) };
      return toRecord(await users.findOne({ _id: id }, options));
    },

    /** @param email in lower case. */
    async findByEmail(email: string): Promise<UserRecord | undefined> {
      return toRecord(await users.findOne({ email }, { projection: { holds: 0 } }));
    },

    /** A page of users, newest first. @throws an outage when looking for text takes too long. */
    async list({ email, text }: UserFilter, limit: number, after?: UserCursor): Promise<UserRecord[]> {
      const conditions: Filter<UserDocument>[] = [];
      if (email !== undefined) conditions.push({ email });
      if (text !== undefined) {
        const part = new RegExp(text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'), 'i');
        conditions.push({ $or: [{ email: part }, { name: part }] });
      }
      if (after) {
        const { createdTs, id } = after;
        conditions.push({ $or: [{ createdTs: { $lt: createdTs } }, { createdTs, _id: { $lt: id } }] });
      }
      const found = await users
        .find(conditions.length > 0 ? { $and: conditions } : {}, { projection: { holds: 0 } })
        .sort({ createdTs: -1, _id: -1 })
        .limit(limit)
        .maxTimeMS(searchMs)
        .toArray();
      return found.map(({ _id: id, holds: _, ...rest }) => ({ id, ...rest }));
    },

    /**
     * Sets the plan and, for paid plans, the billing day. Answers false when there is no such user. `session`: the
     * transaction that this is part of.
     */
    async setPlan(
      id: string,
      plan: PlanName,
      billingDay: number | null,
      session?: ClientSession,
    ): Promise<boolean> {
      const options = session ? { session } : durable;
      const result = await users.updateOne({ _id: id }, { $set: { plan, billingDay } }, options);
      return result.matchedCount === 1;
    },
  };
}

function toRecord(document: UserDocument | null): UserRecord | undefined {
  if (!document) return undefined;
  const { _id: id, holds: _, ...rest } = document;
  return { id, ...rest };
}
