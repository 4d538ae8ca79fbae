/**
 * Waits out an outage of store or bus, an election above all: what is safe to repeat is repeated until it succeeds or
 * the time is up, and only then is the client told to come back.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { http as limits } from '../../schemas/limits.ts';

/**
 * Runs something that may run more than once. Costs nothing where it answers at once.
 *
 * @param isOutage whether a failure will pass
 * @throws what it has thrown last
 */
export function waitOut<Result>(
  run: () => Result | Promise<Result>,
  isOutage: (cause: unknown) => boolean,
): Result | Promise<Result> {
  const first = run();
  if (!(first instanceof Promise)) return first;
  const since = performance.now();
  return first.catch((cause: unknown) => runAgain(run, isOutage, since, cause));
}

async function runAgain<Result>(
  run: () => Result | Promise<Result>,
  isOutage: (cause: unknown) => boolean,
  since: number,
  first: unknown,
): Promise<Result> {
  let cause = first;
  for (let waitMs = minWaitMs; isOutage(cause); waitMs = Math.min(maxWaitMs, waitMs * 2)) {
    if (performance.now() + waitMs - since > limits.waitOutMs) break;
    await sleep(waitMs);
    try {
      return await run();
    } catch (again) {
      cause = again;
    }
  }
  throw cause;
}

const minWaitMs = 50;
const maxWaitMs = 500;
