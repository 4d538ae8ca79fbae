/** Waiting for a store that cannot be reached: an election of its primary is nobody's failed attempt. */
import pRetry from 'p-retry';
import { isStoreOutage } from './client.ts';

const patienceMs = 60_000;

/**
 * What is safe to repeat, repeated for up to a minute while the store cannot be reached.
 *
 * The driver itself tries once more, at once; an election takes seconds.
 */
export function patient<Given extends unknown[], Result>(
  run: (...given: Given) => Promise<Result>,
): (...given: Given) => Promise<Result> {
  return (...given) =>
    pRetry(() => run(...given), {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: 100,
      maxTimeout: 2_000,
      maxRetryTime: patienceMs,
      unref: true,
      shouldRetry: ({ error }) => isStoreOutage(error),
    });
}
