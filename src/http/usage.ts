/** What a user has used of the plan (decisions 7, Overage). */
import { ErrorBody } from '../../schemas/errors.ts';
import { upload as uploadLimits, usage as usageLimits } from '../../schemas/limits.ts';
import { plans } from '../../schemas/plans.ts';
import { UsageResponse } from '../../schemas/usage.ts';
import { crawlsOf } from '../quota/crawls.ts';
import { runsOf } from '../quota/runs.ts';
import { type EndedCycle, otherProjects, type RunTotals } from '../store/quota.ts';
import { type AnyRoute, reply, route } from './route.ts';

const readUsage = route({
  method: 'get',
  path: '/api/user/usage',
  summary: 'Runs, overage, crawls and uploads of the present month, and the months before',
  responses: { 200: UsageResponse, 401: ErrorBody },
  async handle({ userId }, { store, now }) {
    const [user, past, deepCrawled, unusedBytes] = await Promise.all([
      store.quota.find(userId),
      store.usage.list(userId),
      store.deepCrawls.count(userId),
      store.uploads.unusedBytes(userId),
    ]);
    // Erased within the second in which its session is still known here.
    if (!user) return reply(401, { error: 'authentication required' });
    const plan = plans[user.plan];
    const runs = runsOf(user, now());
    const crawls = crawlsOf(user, now());
    return reply(200, {
      plan: user.plan,
      generations: {
        used: runs.runs,
        limit: plan.generationsPerMonth,
        cycle_started_at: runs.startTs === null ? null : toTime(runs.startTs),
        resets_at: runs.resetAt === null ? null : toTime(runs.resetAt),
        overage_runs: runs.overageRuns,
        overage_cents: runs.overageCents,
        overage_price_cents: plan.overageCents,
      },
      crawls: { used: crawls.used, limit: plan.crawlsPerMonth, resets_at: toTime(crawls.resetAt) },
      deep_crawl_projects: { used: deepCrawled, limit: plan.deepCrawlProjects },
      uploads: { unused_bytes: unusedBytes, max_unused_bytes: uploadLimits.maxUnusedBytesPerUser },
      projects: Object.entries(runs.byProject)
        .filter(([, totals]) => totals.runs > 0)
        .map(([id, totals]) => ({ project_id: id === otherProjects ? null : id, ...toTotals(totals) })),
      history: newestFirst(past, user.endedCycles ?? []).map((cycle) => ({
        plan: cycle.plan,
        started_at: toTime(cycle.startTs),
        ended_at: toTime(cycle.endTs),
        ...toTotals(cycle),
      })),
    });
  },
});

export const usageRoutes: AnyRoute[] = [readUsage];

/** Recorded cycles, and those that have ended and are not recorded yet: one that is being recorded may be in both. */
function newestFirst(recorded: EndedCycle[], ended: EndedCycle[]): EndedCycle[] {
  const byEnd = new Map([...ended, ...recorded].map((cycle) => [cycle.endTs, cycle]));
  return [...byEnd.values()].sort((a, b) => b.endTs - a.endTs).slice(0, usageLimits.historyCycles);
}

function toTotals({ runs, overageRuns, overageCents }: RunTotals) {
  return { runs, overage_runs: overageRuns, overage_cents: overageCents };
}

const toTime = (ts: number) => new Date(ts).toISOString();
