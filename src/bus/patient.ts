/** Waiting for a server that has no leader: it answers nothing, or that nobody can. */
import { NatsError } from 'nats';
import pRetry from 'p-retry';

const patienceMs = 30_000;

/** Asks again for up to half a minute. @throws what is no lack of an answer, and the last of them at the end. */
export function patiently<Result>(ask: () => Promise<Result>): Promise<Result> {
  return pRetry(ask, {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: 100,
    maxTimeout: 1_000,
    maxRetryTime: patienceMs,
    shouldRetry: ({ error }) => isUnanswered(error),
  });
}

const unanswered = new Set(['TIMEOUT', '503']);

function isUnanswered(cause: unknown): boolean {
  return cause instanceof NatsError && unanswered.has(cause.code);
}
