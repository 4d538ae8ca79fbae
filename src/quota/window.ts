/** The accepted requests of one sliding minute, by their times. */

/** Every rate limit counts over this time, wherever it begins. */
export const windowMs = 60_000;

/** Dropped times are cut off when they are this many, and most of what is kept. */
const maxDropped = 64;

export class Window {
  private times: number[] = [];
  /** Index of the oldest time that still counts. */
  private first = 0;

  /** Requests of the minute that ends at `ts`. */
  count(ts: number): number {
    const { times } = this;
    while (this.first < times.length && ts - (times[this.first] ?? 0) >= windowMs) this.first += 1;
    if (this.first > maxDropped && this.first * 2 > times.length) {
      this.times = times.slice(this.first);
      this.first = 0;
    }
    return this.times.length - this.first;
  }

  add(ts: number): void {
    this.times.push(ts);
  }

  /** Ms until the oldest request no longer counts, at most a minute; 0 when there is none. To be asked after `count`. */
  waitMs(ts: number): number {
    const oldest = this.times[this.first];
    // Longer only after a clock has gone back.
    return oldest === undefined ? 0 : Math.min(windowMs, Math.max(1, Math.ceil(windowMs - (ts - oldest))));
  }
}
