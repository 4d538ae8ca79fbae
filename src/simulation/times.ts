/** Times of a simulated installation: short, so that a history is over in a minute of its own. */
import type { PipelineTimes } from '../../machines/asset.ts';
import type { DeliveryTimes } from '../../machines/delivery.ts';

export const pipelineTimes: PipelineTimes = {
  maxAttempts: 3,
  backoffMs: [0, 300, 900],
  visionTimeoutMs: 1_500,
  videoTimeoutMs: 2_500,
  mergeTimeoutMs: 1_500,
  reconcileAfterMs: 3_000,
  reconcileEveryMs: 1_000,
  stallAfterMs: 12_000,
};

export const deliveryTimes: DeliveryTimes = { maxAttempts: 5, scheduleMs: [400, 800, 1_200, 2_000] };
