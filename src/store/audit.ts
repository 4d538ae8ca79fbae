/** What operators have changed: entries are added, and never changed or removed. */
import type { ClientSession, Collection, Db, Filter } from 'mongodb';
import { newId } from './ids.ts';
import { text } from './partial.ts';

/** Who makes a change. `by` is a user's id, or `cli`. */
export type Author = { by: string; byEmail: string | null; requestId: string | null };

export type AuditAction =
  | 'user.plan'
  | 'user.quota'
  | 'user.sessions'
  | 'secrets.rotate'
  | 'machine.retry'
  | 'machine.retry_from'
  | 'machine.cancel'
  | 'machine.fail'
  | 'machine.redeliver'
  | 'bulk.start'
  | 'bulk.cancel';

/** `before` and `after`: the fields that the change is about. `ts` is unix ms. */
export type NewAuditEntry = Author & {
  ts: number;
  action: AuditAction;
  /** Whose account it is about. */
  userId: string | null;
  /** Id of the machine or bulk job that it is about. */
  target?: string;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
};
export type AuditEntry = NewAuditEntry & { id: string };

/** Where a listing goes on: after this entry, newest first. */
export type AuditCursor = { ts: number; id: string };

type AuditDocument = NewAuditEntry & { _id: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export type AuditStore = ReturnType<typeof createAuditStore>;

export function createAuditStore(db: Db) {
  const entries: Collection<AuditDocument> = db.collection('audit');

  return {
    async ensureIndexes(): Promise<void> {
      await entries.createIndexes([
        { key: { ts: -1, _id: -1 } },
        { key: { userId: 1, ts: -1, _id: -1 } },
        {
          key: { target: 1, ts: -1, _id: -1 },
          partialFilterExpression: { target: { $type: 'string' } },
        },
        {
          key: { requestId: 1, ts: -1, _id: -1 },
          partialFilterExpression: { requestId: { $type: 'string' } },
        },
      ]);
    },

    /** Adds an entry. `session`: the transaction of the change that it tells of. */
    async insert(entry: NewAuditEntry, session?: ClientSession): Promise<void> {
      await entries.insertOne({ _id: newId('aud'), ...entry }, session ? { session } : durable);
    },

    /** The newest entries about a machine or bulk job, or of a request. */
    async about(of: { target: string } | { requestId: string }, limit: number): Promise<AuditEntry[]> {
      const filter = 'target' in of ? { target: text(of.target) } : { requestId: text(of.requestId) };
      const found = await entries.find(filter).sort({ ts: -1, _id: -1 }).limit(limit).toArray();
      return found.map(({ _id: id, ...entry }) => ({ id, ...entry }));
    },

    /** A page of entries, newest first; those about one account when it is named. */
    async list(limit: number, userId?: string, after?: AuditCursor): Promise<AuditEntry[]> {
      const filter: Filter<AuditDocument> = userId === undefined ? {} : { userId };
      if (after) filter.$or = [{ ts: { $lt: after.ts } }, { ts: after.ts, _id: { $lt: after.id } }];
      const found = await entries.find(filter).sort({ ts: -1, _id: -1 }).limit(limit).toArray();
      return found.map(({ _id: id, ...entry }) => ({ id, ...entry }));
    },
  };
}
