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
  /**
   * Counts the changes of the password. Sessions, API tokens and mails that were made under an earlier one are
   * worth nothing: so one write ends them all, also those that are being made at that moment.
   */
  epoch: number;
  plan: PlanName;
  /** Day of the month on which a paid plan's cycle begins, 1 to 31. */
  billingDay: number | null;
  /** Runs counted in this cycle, and when it ends. */
  used: number;
  resetAt: number | null;
  createdTs: number;
};

export type NewUser = Pick<UserRecord, 'id' | 'email' | 'name' | 'passwordHash' | 'createdTs'> &
  Partial<Pick<UserRecord, 'emailVerified'>>;

/** `text`: part of the e-mail or the name. */
export type UserFilter = { email?: string | undefined; text?: string | undefined };

/** Where a listing goes on: after this user, newest first. */
export type UserCursor = { createdTs: number; id: string };

export type UserStore = ReturnType<typeof createUserStore>;

type UserDocument = Omit<UserRecord, 'id' | 'epoch'> & {
  _id: string;
  epoch?: number | null;
  holds: unknown[];
};

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
        emailVerified: false,
        epoch: 0,
        ...user,
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
      return found.map(toUser);
    },

    /**
     * Sets the plan and, for paid plans, the billing day of a user who has counted nothing yet: for others
     * quota/plan-change.ts moves the reset too. Answers false when there is no such user.
     */
    async setPlan(id: string, plan: PlanName, billingDay: number | null): Promise<boolean> {
      const result = await users.updateOne({ _id: id }, { $set: { plan, billingDay } }, durable);
      return result.matchedCount === 1;
    },

    /**
     * Marks an e-mail that was not proven as proven, takes the password away and begins the next epoch. Answers
     * false when it was proven already. `session`: the transaction this is part of.
     */
    async takeOver(id: string, session: ClientSession): Promise<boolean> {
      const epoch = { $add: [{ $ifNull: ['$epoch', 0] }, 1] };
      const result = await users.updateOne(
        { _id: id, emailVerified: false },
        [{ $set: { emailVerified: true, passwordHash: null, epoch } }],
        { session },
      );
      return result.matchedCount === 1;
    },

    async rename(id: string, name: string): Promise<void> {
      await users.updateOne({ _id: id }, { $set: { name } }, durable);
    },

    /**
     * Sets the password and begins the next epoch, if the present one is still `epoch`. `provenEmail`: whoever
     * set it has read a mail to that address, which must still be the user's. `session`: the transaction this
     * is part of.
     *
     * @returns false, with nothing changed, when somebody was first.
     */
    async setPassword(
      { id, epoch, passwordHash, provenEmail }: PasswordChange,
      session: ClientSession,
    ): Promise<boolean> {
      const proven = provenEmail === undefined ? {} : { email: provenEmail };
      const verified = provenEmail === undefined ? {} : { emailVerified: true };
      const result = await users.updateOne(
        { _id: id, ...atEpoch(epoch), ...proven },
        { $set: { passwordHash, epoch: epoch + 1, ...verified } },
        { session },
      );
      return result.matchedCount === 1;
    },

    /** Stores the same password under another hash, unless it has been changed meanwhile. */
    async rehash(id: string, oldHash: string, passwordHash: string): Promise<void> {
      await users.updateOne({ _id: id, passwordHash: oldHash }, { $set: { passwordHash } }, durable);
    },

    /** The user has read a mail to that address. Answers false when it is not theirs (any more). */
    async verifyEmail(id: string, email: string): Promise<boolean> {
      const result = await users.updateOne({ _id: id, email }, { $set: { emailVerified: true } }, durable);
      return result.matchedCount === 1;
    },

    /**
     * Puts a proven e-mail in the place of `fromEmail`, if that and the epoch are still the user's. `session`:
     * the transaction this is part of.
     *
     * @throws isTaken when somebody has it
     */
    async changeEmail(
      { id, email, fromEmail, epoch }: EmailChange,
      session: ClientSession,
    ): Promise<boolean> {
      const result = await users.updateOne(
        { _id: id, email: fromEmail, ...atEpoch(epoch) },
        { $set: { email, emailVerified: true } },
        { session },
      );
      return result.matchedCount === 1;
    },
  };
}

export type PasswordChange = {
  id: string;
  epoch: number;
  passwordHash: string;
  provenEmail?: string;
};

export type EmailChange = { id: string; email: string; fromEmail: string; epoch: number };

/** Users from before epochs were counted are in the first. */
function atEpoch(epoch: number) {
  return epoch === 0 ? { epoch: { $in: [0, null] } } : { epoch };
}

function toRecord(document: UserDocument | null): UserRecord | undefined {
  return document ? toUser(document) : undefined;
}

function toUser({ _id: id, holds: _, epoch, ...rest }: UserDocument): UserRecord {
  return { id, epoch: epoch ?? 0, ...rest };
}
