/** Where a month is heading. */
import type { UsageResponse } from '../../../schemas/usage.ts';

/**
 * What the month comes to when it goes on like this; undefined while too little of it has passed to tell.
 *
 * @param ts now, unix ms
 */
export function forecastOf(
  { used, cycle_started_at, resets_at }: UsageResponse['generations'],
  ts: number,
): number | undefined {
  if (cycle_started_at === null || resets_at === null || used === 0) return undefined;
  const start = Date.parse(cycle_started_at);
  const end = Date.parse(resets_at);
  const passed = ts - start;
  if (passed < leastPassedMs || end <= ts) return undefined;
  return Math.round((used / passed) * (end - start));
}

const leastPassedMs = 24 * 60 * 60_000;
