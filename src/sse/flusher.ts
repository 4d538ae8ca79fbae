/**
 * When topics are flushed: at once while the process is idle, joined over up to 20 ms while it is busy.
 *
 * One write per listener costs the same for one event as for ten, so joining is what goes below the price of a
 * write per event (sse-webhooks A: 0.6 instead of 7 µs). A flush to many goes in slices, so that it holds up
 * nobody else.
 */
import type { Clock } from './clock.ts';
import { flush, flushAll, type Topic } from './topic.ts';

const maxWindowMs = 20;
/** A flush that took less leaves the process idle. */
const busyMs = 1;
/** Some 5 ms. */
const writesAtOnce = 512;

export function createFlusher(clock: Clock) {
  /** Topics with something new, and those that are being flushed. */
  let dirty = new Set<Topic>();
  let flushing = new Set<Topic>();
  let isScheduled = false;
  let notBefore = Number.NEGATIVE_INFINITY;
  let tookMs = 0;
  let writes = 0;

  const begin = (): void => {
    [flushing, dirty] = [dirty, flushing];
    tookMs = 0;
    flushSome();
  };

  const flushSome = (): void => {
    const begun = clock.monotonic();
    let left = writesAtOnce;
    for (const topic of flushing) {
      const made = flush(topic, begun, left);
      writes += made;
      left -= made;
      if (!topic.batch) flushing.delete(topic);
      if (left <= 0) break;
    }
    const ended = clock.monotonic();
    tookMs += ended - begun;
    if (flushing.size > 0) {
      clock.soon(flushSome);
      return;
    }
    notBefore = tookMs < busyMs ? ended : ended + Math.min(maxWindowMs, 2 * tookMs);
    isScheduled = false;
    if (dirty.size > 0) plan();
  };

  const plan = (): void => {
    isScheduled = true;
    const waitMs = notBefore - clock.monotonic();
    if (waitMs > 0) clock.after(waitMs, begin);
    else clock.soon(begin);
  };

  return {
    /** The topic has something new. */
    schedule(topic: Topic): void {
      dirty.add(topic);
      if (!isScheduled) plan();
    },
    /** Flushes everything at once. */
    flushAll(): void {
      const now = clock.monotonic();
      for (const topic of [...flushing, ...dirty]) writes += flushAll(topic, now);
      flushing.clear();
      dirty.clear();
    },
    /** Writes to listeners so far. */
    get writes() {
      return writes;
    },
  };
}
