/** Ends cycles of users who do not come back, and moves the totals of ended cycles to where billing reads them. */
import type { QuotaStore } from '../store/quota.ts';
import type { createUsageStore } from '../store/usage.ts';
import { endPassedCycle } from './runs.ts';

/** One round of it. A cycle is recorded once, however many schedulers do this at once or die in it. */
export async function recordCycles(
  { quota, usage }: { quota: QuotaStore; usage: ReturnType<typeof createUsageStore> },
  now: number,
): Promise<void> {
  for await (const found of quota.withEndedCycles(now)) {
    await endPassedCycle(quota, found, now);
    const user = await quota.find(found._id);
    for (const cycle of user?.endedCycles ?? []) {
      await usage.record(found._id, cycle);
      await quota.forgetEnded(found._id, cycle.endTs);
    }
  }
}
