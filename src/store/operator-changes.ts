/**
 * What operators change of accounts: each change and its entry in the audit are one transaction, so that none goes
 * unrecorded and no entry tells of a change that was not made.
 */
import type { ClientSession, MongoClient } from 'mongodb';
import type { AuditAction, AuditStore, Author } from './audit.ts';
import { inTransaction } from './projects.ts';
import type { PlanChange, QuotaStore, QuotaUser } from './quota.ts';
import type { SessionStore } from './sessions.ts';
import type { UserRecord, UserStore } from './users.ts';

type Parts = { users: UserStore; sessions: SessionStore; quota: QuotaStore; audit: AuditStore };

/** The fields that a change is about, as they are in the audit. */
type Fields = Record<string, unknown>;

export function createOperatorChanges(client: MongoClient, { users, sessions, quota, audit }: Parts) {
  /**
   * Answers false when there is no such user or nothing was changed. `change` answers what was and what is, or
   * undefined when it changed nothing.
   */
  const record = (
    author: Author,
    action: AuditAction,
    userId: string,
    ts: number,
    change: (
      user: UserRecord,
      session: ClientSession,
    ) => Promise<{ before: Fields; after: Fields } | undefined>,
  ): Promise<boolean> =>
    inTransaction(client, async (session) => {
      const user = await users.find(userId, session);
      if (!user) return false;
      const changed = await change(user, session);
      if (!changed) return false;
      const { before, after } = changed;
      const { by, byEmail, requestId } = author;
      await audit.insert({ by, byEmail, requestId, ts, action, userId, before, after }, session);
      return true;
    });

  return {
    /**
     * Sets the plan of a user as read, unless something was counted since. Answers false when there is no such user,
     * as all of these do. `ts` is unix ms.
     */
    setPlan: (read: QuotaUser, to: PlanChange, author: Author, ts: number): Promise<boolean> =>
      record(author, 'user.plan', read._id, ts, async ({ plan, billingDay }, session) => {
        if (!(await quota.setPlan(read, to, session))) return undefined;
        return {
          before: { plan, billing_day: billingDay },
          after: { plan: to.plan, billing_day: to.billingDay },
        };
      }),

    /** Sets the runs of the present cycle. @param resetAt its end, where none is under way at `ts` */
    setUsed: (
      userId: string,
      to: { used: number; resetAt: number | null },
      author: Author,
      ts: number,
    ): Promise<boolean> =>
      record(author, 'user.quota', userId, ts, async ({ used }, session) => {
        await quota.setUsed(userId, { ...to, now: ts }, session);
        return { before: { used }, after: { used: to.used } };
      }),

    /** Ends every session of a user. */
    endSessions: (userId: string, author: Author, ts: number): Promise<boolean> =>
      record(author, 'user.sessions', userId, ts, async (_user, session) => {
        const ended = await sessions.removeAll(userId, session);
        return { before: { sessions: ended }, after: { sessions: 0 } };
      }),
  };
}
