/**
 * Requests per user over a sliding minute (specification 8, decisions 7): exact within this process. Each
 * bucket keeps the times of its last accepted requests, so that no minute, wherever it begins, holds more
 * than the limit.
 */
import { LRUCache } from 'lru-cache';

export type RateLimit = ReturnType<typeof createRateLimit>;

/** Times of the last requests, a ring: `next` is the oldest once it is full. */
type Bucket = { times: number[]; next: number };

const windowMs = 60_000;

/**
 * @param now monotonic or wall clock, in ms; after a clock has gone back, waits may be up to a minute longer.
 * @param maxBuckets buckets kept; beyond them the one that has been idle longest is forgotten.
 */
export function createRateLimit({ now, maxBuckets = 50_000 }: { now(): number; maxBuckets?: number }) {
  const buckets = new LRUCache<string, Bucket>({ max: maxBuckets });

  return {
    /**
     * Counts a request of a bucket if there is room for it.
     *
     * @param limit requests a minute; the same for all requests of one bucket.
     * @returns 0, or the ms until one would be accepted, at most a minute. What is refused is not counted.
     */
    take(key: string, limit: number): number {
      let bucket = buckets.get(key);
      if (!bucket) {
        bucket = { times: [], next: 0 };
        buckets.set(key, bucket);
      }
      const { times } = bucket;
      const ts = now();
      if (times.length < limit) {
        times.push(ts);
        return 0;
      }
      const age = ts - (times[bucket.next] ?? 0);
      if (age < windowMs) return Math.min(windowMs, Math.ceil(windowMs - age));
      times[bucket.next] = ts;
      bucket.next = (bucket.next + 1) % limit;
      return 0;
    },
  };
}
