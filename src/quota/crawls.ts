/**
 * Crawls against their monthly quota (specification 8, decisions 7): brand detection and deep crawls share it. A crawl
 * that fails is given back, since the customer got nothing; the limits a minute keep that from being used to hammer.
 */
import { crawl as limits } from '../../schemas/limits.ts';
import { plans } from '../../schemas/plans.ts';
import type { createCrawlQuotaStore } from '../store/crawl-quota.ts';
import type { QuotaStore, QuotaUser } from '../store/quota.ts';
import { crawlMonth } from './cycle.ts';

/** Longer than any crawl takes: a hold that is older is of a process that died. */
const holdKeptMs = 2 * limits.deepMs;

export type CrawlQuota = ReturnType<typeof createCrawlQuota>;
export type CrawlHold = { userId: string; id: string };

export function createCrawlQuota(
  { quota, crawlQuota }: { quota: QuotaStore; crawlQuota: ReturnType<typeof createCrawlQuotaStore> },
  now: () => number,
) {
  return {
    /** Counts a crawl, until it is given back. */
    async take(userId: string): Promise<CrawlHold | 'exhausted'> {
      const user = await quota.find(userId);
      if (!user) return 'exhausted';
      const ts = now();
      const id = await crawlQuota.take({
        userId,
        now: ts,
        limit: plans[user.plan].crawlsPerMonth,
        resetAt: crawlMonth(user.plan, user.billingDay, ts).endTs,
        staleBeforeTs: ts - holdKeptMs,
      });
      return id === 'exhausted' ? id : { userId, id };
    },

    /** The crawl has ended well. Safe to repeat. */
    settle: ({ userId, id }: CrawlHold) => crawlQuota.settle(userId, id),

    /** The crawl came to nothing. Safe to repeat. */
    giveBack: ({ userId, id }: CrawlHold) => crawlQuota.giveBack(userId, id),
  };
}

/** The crawls of a user's present month, and its end (unix ms). */
export function crawlsOf(
  { plan, billingDay, crawls }: Pick<QuotaUser, 'plan' | 'billingDay' | 'crawls'>,
  now: number,
): { used: number; resetAt: number } {
  if (!crawls || crawls.resetAt <= now) return { used: 0, resetAt: crawlMonth(plan, billingDay, now).endTs };
  const stale = crawls.holds.filter(({ ts }) => ts <= now - holdKeptMs).length;
  return { used: crawls.used - stale, resetAt: crawls.resetAt };
}
