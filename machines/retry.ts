/** How long to wait before an attempt (specification 3, decisions 3 "Attempts and waits"). */

/**
 * Delay before attempt n (1-based), in ms: the schedule's entry, or its last when it is shorter, and never
 * less than what the other side asked for.
 */
export function delayBefore(attempt: number, scheduleMs: readonly number[], retryAfterMs = 0): number {
  const planned = scheduleMs[attempt - 1] ?? scheduleMs.at(-1) ?? 0;
  return retryAfterMs > planned ? retryAfterMs : planned;
}
