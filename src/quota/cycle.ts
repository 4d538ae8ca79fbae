/** When a user's quota resets (specification 8, decisions 7). Pure: times are unix ms, days are UTC. */
import type { PlanName } from '../../schemas/plans.ts';

const dayMs = 86_400_000;
const freeCycleDays = 30;

/**
 * Reset time after a run accepted at `now`. Free: 30 days after it, so every run moves it. Paid: the next
 * billing day at 00:00 UTC, which is the month's last day where the month is too short.
 */
export function resetAfterRun(plan: PlanName, billingDay: number | null, now: number): number {
  if (plan === 'free' || billingDay === null) return now + freeCycleDays * dayMs;
  return nextBillingDay(billingDay, now);
}

/** First 00:00 UTC of a billing day that lies after `now`. */
export function nextBillingDay(billingDay: number, now: number): number {
  const date = new Date(now);
  const inMonth = (offset: number) =>
    billingDate(date.getUTCFullYear(), date.getUTCMonth() + offset, billingDay);
  const thisMonth = inMonth(0);
  return thisMonth > now ? thisMonth : inMonth(1);
}

/** The billing day of a month, 00:00 UTC. Months beyond December are the next year's. */
function billingDate(year: number, month: number, billingDay: number): number {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(billingDay, lastDay));
}
