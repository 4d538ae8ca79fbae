/**
 * Runs against the monthly quota (specification 8, decisions 7): how many a user may still start, and counting one.
 *
 * The quota is the user's; `overage_enabled` and `overage_cap_cents` are the project's, and so is what they bound.
 * A run that was paid as overage takes no place of the quota: after an upgrade in mid-cycle all of the larger quota
 * is there beside it.
 */

import type { Aspect, Model } from '../../schemas/asset.ts';
import { usage as limits } from '../../schemas/limits.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { createLimiter, LimitError, type Limiter } from '../sse/limiter.ts';
import { type Hold, otherProjects, type QuotaStore, type QuotaUser, type RunTotals } from '../store/quota.ts';
import { billingMonth, resetAfterRun, startOfCycle } from './cycle.ts';

/** What of a project decides about runs past the quota. */
export type OverageProject = { id: string; overageEnabled: boolean; overageCapCents: number | null };

export type RunsNow = RunTotals & {
  /** By project; `others` of those too many to tell apart. */
  byProject: Record<string, RunTotals>;
  /** null as long as a free user's cycle has no run. */
  resetAt: number | null;
  startTs: number | null;
};

/**
 * New runs of one user that a process accepts at once. They all write the user's document and are in each other's
 * way: a burst of hundreds at once would take every connection to the store for as long as it lasts.
 */
const maxAtOnce = 8;
/** More that wait are told to come again. */
const maxWaiting = 2_000;
/** Times that a count is tried while the cycle or the plan changes under it. */
const maxTries = 10;

export function createRunQuota(quota: QuotaStore, now: () => number) {
  const lines = new Map<string, Limiter>();

  return {
    /** Whether a run would be accepted now. Writes nothing: a flood of refused runs must leave nothing behind. */
    isOpen(user: QuotaUser, project: OverageProject): boolean {
      const runs = runsOf(user, now());
      return hasRoom(user, runs) || hasOverage(user, project, runs);
    },

    /** Accepts a run in the user's turn, which is handed the user as of then. Answers `busy` when too many wait. */
    async inTurn<Result>(
      userId: string,
      accept: (user: QuotaUser | undefined) => Promise<Result>,
    ): Promise<Result | 'busy'> {
      const line = lines.get(userId) ?? createLimiter(maxAtOnce, maxWaiting);
      lines.set(userId, line);
      try {
        return await line.run(async () => accept(await quota.find(userId)));
      } catch (cause) {
        if (cause instanceof LimitError) return 'busy';
        throw cause;
      } finally {
        if (line.isIdle) lines.delete(userId);
      }
    },

    /**
     * Counts a run, once per key, against what holds in this moment. Answers the hold that counts it.
     *
     * @param found the user as read before, which may be out of date.
     */
    async take(found: QuotaUser, project: OverageProject, key: string): Promise<Hold | 'exhausted'> {
      let user: QuotaUser | undefined = found;
      for (let tries = 0; user && tries < maxTries; tries += 1) {
        // A clock that is behind the one which began the cycle counts at its begin.
        const ts = Math.max(now(), user.cycleTs ?? 0);
        await endPassedCycle(quota, user, ts);
        const taken = await quota.take({ ...toWish(user, project, ts), key, now: ts });
        if (taken !== 'stale') return taken;
        user = await quota.find(user._id);
      }
      if (!user) return 'exhausted';
      throw new Error(`the plan of ${user._id} changes faster than a run can be counted`);
    },
  };
}

/** The runs of a user's present cycle. A cycle that has passed is over, whether or not a run has begun the next one. */
export function runsOf(user: Counted, now: number): RunsNow {
  const { plan, billingDay, resetAt, firstRunTs } = user;
  const isBegun = resetAt !== null && resetAt > now;
  const { used, overageRuns = 0, overageCents = 0, byProject = {} } = isBegun ? user : nothingCounted;
  const totals = { runs: used, overageRuns, overageCents, byProject };
  if (isBegun) return { ...totals, resetAt, startTs: startOfCycle(plan, billingDay, firstRunTs ?? now) };
  // A paid cycle goes by the calendar, used or not.
  if (plan === 'free' || billingDay === null) return { ...totals, resetAt: null, startTs: null };
  const { startTs, endTs } = billingMonth(billingDay, now);
  return { ...totals, resetAt: endTs, startTs };
}

type Counted = Omit<QuotaUser, '_id' | 'holds'>;

const nothingCounted: Pick<Counted, 'used' | 'overageRuns' | 'overageCents' | 'byProject'> = { used: 0 };

/** Ends the user's cycle when its time has passed, as a scheduler does for users who do not come back. Safe to repeat. */
export async function endPassedCycle(quota: QuotaStore, user: QuotaUser, now: number): Promise<void> {
  const { _id, plan, billingDay, resetAt, firstRunTs } = user;
  if (resetAt === null || resetAt > now) return;
  const startTs = startOfCycle(plan, billingDay, firstRunTs ?? resetAt);
  await quota.endCycle(_id, { startTs, endTs: resetAt });
}

/**
 * Whether a run that was accepted on `plan` and is counted may still begin: a plan that has changed since must have
 * its features, and room for the runs that are counted, unless the project pays for overage.
 */
export function mayStillRun(
  user: QuotaUser,
  project: OverageProject,
  run: { plan: PlanName; model: Model; aspect: Aspect },
  now: number,
): boolean {
  const plan = plans[user.plan];
  if (user.plan === run.plan) return true;
  if (!plan.models.includes(run.model) || (run.aspect !== 'source' && !plan.aspectOverride)) return false;
  const { runs, overageRuns } = runsOf(user, now);
  const isWithin = runs - overageRuns <= plan.generationsPerMonth;
  return isWithin || (project.overageEnabled && plan.overageCents !== null);
}

function toWish({ _id: userId, plan, billingDay }: QuotaUser, project: OverageProject, now: number) {
  const { generationsPerMonth, overageCents: cents } = plans[plan];
  const { id: projectId, overageEnabled, overageCapCents: capCents } = project;
  return {
    userId,
    projectId,
    limit: generationsPerMonth,
    overage: overageEnabled && cents !== null ? { cents, capCents } : null,
    resetAt: resetAfterRun(plan, billingDay, now),
    only: { plan, billingDay },
  };
}

function hasRoom({ plan }: Pick<QuotaUser, 'plan'>, { runs, overageRuns }: RunTotals): boolean {
  return runs - overageRuns < plans[plan].generationsPerMonth;
}

/** Whether one more run past the quota is accepted. */
function hasOverage(
  { plan }: QuotaUser,
  { id, overageEnabled, overageCapCents }: OverageProject,
  { byProject }: RunsNow,
): boolean {
  const { overageCents } = plans[plan];
  if (!overageEnabled || overageCents === null) return false;
  if (overageCapCents === null) return true;
  const isFull = Object.keys(byProject).length >= limits.projectsCounted;
  const spent = byProject[id] ?? (isFull ? byProject[otherProjects] : undefined);
  return (spent?.overageCents ?? 0) + overageCents <= overageCapCents;
}
