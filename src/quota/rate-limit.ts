/**
 * Requests per user over a sliding minute (specification 8, decisions 7): exact within this process. Each
 * bucket keeps the times of its accepted requests, so that no minute, wherever it begins, holds more than the
 * limit. Several processes share their limits by shared-rate-limit.ts.
 */
import { LRUCache } from 'lru-cache';
import { Window } from './window.ts';

export type RateLimit = {
  /**
   * Counts a request of a bucket if there is room for it. What is refused is not counted.
   *
   * @param limit requests a minute; the same for all requests of one bucket.
   * @returns at once, but where other processes have to be asked first.
   */
  take(key: string, limit: number): Turn | Promise<Turn>;
};

/** `waitMs`: 0 for a request that is counted, else the ms until one would be, at most a minute. */
export type Turn = {
  waitMs: number;
  /** Requests that are left, and the ms until there may be more again. */
  remaining: number;
  resetMs: number;
};

/** Buckets kept by default; beyond them the one that has been idle longest is forgotten. */
export const maxBucketsKept = 50_000;

/** @param now monotonic or wall clock, in ms; after a clock has gone back, waits may be up to a minute longer. */
export function createRateLimit({
  now,
  maxBuckets = maxBucketsKept,
}: {
  now(): number;
  maxBuckets?: number;
}) {
  const buckets = new LRUCache<string, Window>({ max: maxBuckets });

  return {
    take(key: string, limit: number): Turn {
      let window = buckets.get(key);
      if (!window) {
        window = new Window();
        buckets.set(key, window);
      }
      const ts = now();
      const count = window.count(ts);
      if (count >= limit) {
        const waitMs = window.waitMs(ts);
        return { waitMs, remaining: 0, resetMs: waitMs };
      }
      window.add(ts);
      return { waitMs: 0, remaining: limit - count - 1, resetMs: window.waitMs(ts) };
    },
  } satisfies RateLimit;
}
