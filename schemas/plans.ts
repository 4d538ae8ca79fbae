/** Plans, their models and quotas (specification 1, decisions 3 and 7). Prices in cents. */
import { z } from 'zod';
import type { LoopMode, Model } from './asset.ts';

export const PlanName = z.enum(['free', 'pro', 'team']);
export type PlanName = z.infer<typeof PlanName>;

export type Plan = {
  pricePerMonthCents: number;
  generationsPerMonth: number;
  models: readonly Model[];
  loopMode: LoopMode;
  aspectOverride: boolean;
  /** null: overage can't be bought on this plan. */
  overageCents: number | null;
  crawlsPerMonth: number;
  deepCrawlProjects: number;
  /** Effects of one project that may run at once; the rest waits its turn. */
  concurrentRuns: number;
};

export const plans: Record<PlanName, Plan> = {
  free: {
    pricePerMonthCents: 0,
    generationsPerMonth: 5,
    models: ['fast'],
    loopMode: 'crossfade',
    aspectOverride: false,
    overageCents: null,
    crawlsPerMonth: 3,
    deepCrawlProjects: 1,
    concurrentRuns: 2,
  },
  pro: {
    pricePerMonthCents: 1900,
    generationsPerMonth: 100,
    models: ['fast', 'standard'],
    loopMode: 'native',
    aspectOverride: true,
    overageCents: 10,
    crawlsPerMonth: 30,
    deepCrawlProjects: 5,
    concurrentRuns: 8,
  },
  team: {
    pricePerMonthCents: 7900,
    generationsPerMonth: 500,
    models: ['fast', 'standard', 'cinema'],
    loopMode: 'native',
    aspectOverride: true,
    overageCents: 8,
    crawlsPerMonth: 150,
    deepCrawlProjects: 25,
    concurrentRuns: 32,
  },
};
