/**
 * What a user has used (decisions 7, additive). Fields in snake_case, times ISO 8601, prices in cents.
 *
 * The endpoint is newer than the user's profile, whose camelCase it does not repeat.
 */
import { z } from 'zod';
import { PlanName } from './plans.ts';

const Time = z.string();

/** Runs of a cycle, overage included. */
const Totals = { runs: z.int(), overage_runs: z.int(), overage_cents: z.int() };

export const UsageResponse = z.object({
  plan: PlanName,
  generations: z.object({
    /** Runs of this cycle, those past the limit included. */
    used: z.int(),
    /** Runs that the plan includes; one that was paid as overage takes no place of them. */
    limit: z.int(),
    /** null on Free as long as the cycle has no run: it begins with the first. */
    cycle_started_at: Time.nullable(),
    resets_at: Time.nullable(),
    overage_runs: z.int(),
    overage_cents: z.int(),
    /** Price of a run past the limit; null when the plan has none. */
    overage_price_cents: z.int().nullable(),
  }),
  crawls: z.object({ used: z.int(), limit: z.int(), resets_at: Time }),
  /** Projects that hold a deep-crawl result. */
  deep_crawl_projects: z.object({ used: z.int(), limit: z.int() }),
  /** Uploads that no asset uses. */
  uploads: z.object({ unused_bytes: z.int(), max_unused_bytes: z.int() }),
  /** The runs of this cycle by project; `project_id` is null for the sum of those too many to tell apart. */
  projects: z.array(z.object({ project_id: z.string().nullable(), ...Totals })),
  /** Past cycles that had a run, newest first, at most twelve. */
  history: z.array(z.object({ plan: PlanName, started_at: Time, ended_at: Time, ...Totals })),
});
export type UsageResponse = z.infer<typeof UsageResponse>;
