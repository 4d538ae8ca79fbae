/** What operators see and change of accounts, the same for the endpoints and the command line. */
import type { OperatorUser, OperatorUserSummary } from '../../schemas/operator.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { resetAfterRun } from '../quota/cycle.ts';
import { changePlan as setPlan } from '../quota/plan-change.ts';
import { endPassedCycle } from '../quota/runs.ts';
import type { Author } from '../store/audit.ts';
import type { Store } from '../store/client.ts';
import type { PlanChange, QuotaUser } from '../store/quota.ts';
import type { UserRecord } from '../store/users.ts';

export type OperatorStore = Pick<
  Store,
  'users' | 'projects' | 'sessions' | 'quota' | 'audit' | 'operatorChanges' | 'mailbox'
>;

/** Everything about an account but its secrets; undefined when there is none. `now` is unix ms. */
export async function describeUser(
  store: OperatorStore,
  userId: string,
  now: number,
): Promise<OperatorUser | undefined> {
  const [user, counted, sessions, projects] = await Promise.all([
    store.users.find(userId),
    store.quota.find(userId),
    store.sessions.count(userId, now),
    store.projects.count(userId),
  ]);
  if (!user) return undefined;
  const isOver = isCycleOver(user, now);
  return {
    ...summarise(user, now),
    has_password: user.passwordHash !== null,
    limit: plans[user.plan].generationsPerMonth,
    overage_runs: isOver ? 0 : (counted?.overageRuns ?? 0),
    overage_cents: isOver ? 0 : (counted?.overageCents ?? 0),
    holds: counted?.holds.length ?? 0,
    sessions,
    projects,
  };
}

export function summarise(user: UserRecord, now: number): OperatorUserSummary {
  const isOver = isCycleOver(user, now);
  return {
    id: user.id,
    email: user.email,
    name: user.name,
    email_verified: user.emailVerified,
    plan: user.plan,
    billing_day: user.billingDay,
    used: isOver ? 0 : user.used,
    reset_at: isOver || user.resetAt === null ? null : new Date(user.resetAt).toISOString(),
    created_at: new Date(user.createdTs).toISOString(),
  };
}

/**
 * Changes the plan at once. A paid one begins its months on the day that is named, else on today's; free has none.
 * Answers false when there is no such user.
 */
export async function changePlan(
  store: OperatorStore,
  userId: string,
  { plan, billingDay }: { plan: PlanName; billingDay: number | undefined },
  author: Author,
  now: number,
): Promise<boolean> {
  const day = plan === 'free' ? null : (billingDay ?? new Date(now).getUTCDate());
  const save = (user: QuotaUser, change: PlanChange) =>
    store.operatorChanges.setPlan(user, change, author, now);
  return setPlan(store.quota, userId, { plan, billingDay: day }, () => now, save);
}

/**
 * Sets the runs of the present month. Overage that was recorded stays. Answers false when there is no such user.
 */
export async function changeUsed(
  store: OperatorStore,
  userId: string,
  used: number,
  author: Author,
  now: number,
): Promise<boolean> {
  const user = await store.quota.find(userId);
  if (!user) return false;
  // What is set belongs to the present month: one that is over and that nobody has ended yet would take it along.
  await endPassedCycle(store.quota, user, now);
  // Without an end, runs that are used up would stay so for ever.
  const resetAt = used === 0 ? null : resetAfterRun(user.plan, user.billingDay, now);
  return store.operatorChanges.setUsed(userId, { used, resetAt }, author, now);
}

/** A cycle that has passed is over, whether or not a run has begun the next one. */
function isCycleOver({ resetAt }: UserRecord, now: number): boolean {
  return resetAt !== null && resetAt <= now;
}
