/**
 * Accounts that are being erased: the note of what is still to be done (src/erasure).
 *
 * The user's own record goes in the transaction that makes the note, and its projects with it. From then on every
 * other part finds no such user and no such key, without having to know of erasures, and the e-mail is free.
 */
import type { Collection, Db, MongoClient } from 'mongodb';
import { inTransaction, type ProjectRecord, type ProjectStore } from './projects.ts';

/** Times are unix ms. */
export type ErasedAccount = {
  id: string;
  ts: number;
  /** When it is looked at next. */
  dueTs: number;
};

type ErasedAccountDocument = Omit<ErasedAccount, 'id'> & { _id: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createErasedAccounts(db: Db, client: MongoClient, projects: ProjectStore) {
  const accounts: Collection<ErasedAccountDocument> = db.collection('erasedAccounts');
  const users: Collection<{ _id: string }> = db.collection('users');

  return {
    async ensureIndexes(): Promise<void> {
      await accounts.createIndex({ dueTs: 1 });
    },

    /** Ends an account. Answers its projects, or undefined when there is no such account. */
    async begin(id: string, ts: number): Promise<ProjectRecord[] | undefined> {
      return inTransaction(client, async (session) => {
        const { deletedCount } = await users.deleteOne({ _id: id }, { session });
        if (deletedCount === 0) return undefined;
        await accounts.insertOne({ _id: id, ts, dueTs: ts }, { session });
        return projects.removeAll(id, session);
      });
    },

    /** The next one that is due, which nobody else then gets before `leaseMs` are over. */
    async claim(now: number, leaseMs: number): Promise<ErasedAccount | undefined> {
      const found = await accounts.findOneAndUpdate(
        { dueTs: { $lte: now } },
        { $set: { dueTs: now + leaseMs } },
        { sort: { dueTs: 1 }, returnDocument: 'after' },
      );
      if (!found) return undefined;
      const { _id, ...rest } = found;
      return { id: _id, ...rest };
    },

    async postpone(id: string, dueTs: number): Promise<void> {
      await accounts.updateOne({ _id: id }, { $set: { dueTs } });
    },

    /** Nothing is left to be done. Safe to repeat. */
    async finish(id: string): Promise<void> {
      await accounts.deleteOne({ _id: id }, durable);
    },
  };
}
