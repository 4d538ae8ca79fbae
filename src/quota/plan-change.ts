/**
 * An operator sets a user's plan (decisions 7, Changing plans). It holds at once, in mid-cycle, up and down:
 *
 *   used      stays: a change of plan neither gives runs back nor takes any. What was paid as overage stays paid.
 *   reset     moves to where the new plan has it: the next billing day, or on Free 30 days after the last run,
 *             which may be now. A cycle whose time has passed before the change ends as what it was.
 *   crawls    likewise: used stays, and the month ends where the new plan's month does.
 */
import type { PlanName } from '../../schemas/plans.ts';
import type { PlanChange, QuotaStore, QuotaUser } from '../store/quota.ts';
import { crawlMonth, resetAfterRun } from './cycle.ts';
import { endPassedCycle } from './runs.ts';

const maxTries = 20;

/**
 * Sets plan and billing day (1 to 31; null on Free). Answers false when there is no such user. Safe to repeat.
 *
 * @param save writes the change if the user is still as read, and answers whether it has.
 * @throws when runs are counted faster than the plan can be set.
 */
export async function changePlan(
  quota: QuotaStore,
  userId: string,
  { plan, billingDay }: { plan: PlanName; billingDay: number | null },
  now: () => number,
  save: (user: QuotaUser, change: PlanChange) => Promise<boolean> = quota.setPlan,
): Promise<boolean> {
  for (let tries = 0; tries < maxTries; tries += 1) {
    const user = await quota.find(userId);
    if (!user) return false;
    const ts = now();
    if (user.resetAt !== null && user.resetAt <= ts) {
      await endPassedCycle(quota, user, ts);
      continue;
    }
    const change = {
      plan,
      billingDay,
      resetAt: newReset(user, plan, billingDay, ts),
      crawlsResetAt: newCrawlReset(user, plan, billingDay, ts),
    };
    if (await save(user, change)) return true;
  }
  throw new Error(`cannot set the plan of ${userId}: its runs are counted faster`);
}

/** Of a cycle that has no run there is nothing to reset. */
function newReset(
  { resetAt, lastRunTs }: QuotaUser,
  plan: PlanName,
  billingDay: number | null,
  now: number,
): number | null {
  if (resetAt === null) return null;
  return resetAfterRun(plan, billingDay, plan === 'free' ? (lastRunTs ?? now) : now);
}

/** A month that has passed stays so. */
function newCrawlReset(
  { crawls }: QuotaUser,
  plan: PlanName,
  billingDay: number | null,
  now: number,
): number {
  if (crawls && crawls.resetAt <= now) return crawls.resetAt;
  return crawlMonth(plan, billingDay, now).endTs;
}
