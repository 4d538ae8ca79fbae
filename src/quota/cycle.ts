/**
 * When quotas begin and reset (specification 8, decisions 7). Pure: times are unix ms, days are UTC, and every
 * cycle is half open: at its end the next one has begun.
 */
import { usage } from '../../schemas/limits.ts';
import type { PlanName } from '../../schemas/plans.ts';

export type Span = { startTs: number; endTs: number };

const dayMs = 86_400_000;
const freeCycleMs = usage.freeCycleDays * dayMs;

/**
 * Reset time after a run accepted at `now`. Free: 30 days after it, so every run moves it. Paid: the next
 * billing day at 00:00 UTC, which is the month's last day where the month is too short.
 */
export function resetAfterRun(plan: PlanName, billingDay: number | null, now: number): number {
  if (plan === 'free' || billingDay === null) return now + freeCycleMs;
  return nextBillingDay(billingDay, now);
}

/** Start of the cycle whose first run was accepted at `firstRunTs`. Free: that run; paid: the billing day before it. */
export function startOfCycle(plan: PlanName, billingDay: number | null, firstRunTs: number): number {
  if (plan === 'free' || billingDay === null) return firstRunTs;
  return billingMonth(billingDay, firstRunTs).startTs;
}

/** The month in which crawls are counted: from the first of the month for Free, from the billing day for paid plans. */
export function crawlMonth(plan: PlanName, billingDay: number | null, now: number): Span {
  return billingMonth(plan === 'free' ? 1 : (billingDay ?? 1), now);
}

/** First 00:00 UTC of a billing day that lies after `now`. */
export function nextBillingDay(billingDay: number, now: number): number {
  return billingMonth(billingDay, now).endTs;
}

/** The billing month that `now` lies in. */
export function billingMonth(billingDay: number, now: number): Span {
  const date = new Date(now);
  const inMonth = (offset: number) =>
    billingDate(date.getUTCFullYear(), date.getUTCMonth() + offset, billingDay);
  const thisMonth = inMonth(0);
  return thisMonth > now
    ? { startTs: inMonth(-1), endTs: thisMonth }
    : { startTs: thisMonth, endTs: inMonth(1) };
}

/** The billing day of a month, 00:00 UTC. Months before January and beyond December are other years'. */
function billingDate(year: number, month: number, billingDay: number): number {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(billingDay, lastDay));
}
