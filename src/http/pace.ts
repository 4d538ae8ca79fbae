/**
 * Readers that take almost nothing: cut, so that nobody holds connections and files for ever. uWebSockets.js
 * itself cuts who takes nothing at all for ten seconds, and nobody who takes a little.
 */
import type { Exchange } from './exchange.ts';

export type Pace = ReturnType<typeof createPace>;

export type PaceOptions = {
  /** Time over which the pace is taken, again and again, and the bytes a second that a reader must take in it. */
  graceMs?: number;
  minBytesPerSecond?: number;
  checkMs?: number;
};

/** An answer that its reader could not take at once. */
export type Paced = {
  readonly exchange: Exchange;
  /** Since when the pace is taken, by performance.now(), and the bytes that were taken by then. */
  pacedAt: number;
  pacedBytes: number;
};

export function createPace({
  graceMs = 10_000,
  minBytesPerSecond = 8 * 1024,
  checkMs = 1_000,
}: PaceOptions = {}) {
  const watched = new Set<Paced>();
  let timer: NodeJS.Timeout | undefined;

  const check = (): void => {
    const now = performance.now();
    for (const answer of watched) {
      const { exchange, pacedAt, pacedBytes } = answer;
      if (!exchange.isOpen) watched.delete(answer);
      if (!exchange.isOpen || now - pacedAt < graceMs) continue;
      const bytes = exchange.res.getWriteOffset();
      // Not since the start: what the kernel took at once would make up for minutes of trickling.
      if (bytes - pacedBytes < (minBytesPerSecond * (now - pacedAt)) / 1_000) {
        watched.delete(answer);
        exchange.res.close();
      }
      answer.pacedAt = now;
      answer.pacedBytes = bytes;
    }
    if (watched.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };

  return {
    /** Watches an answer until `leave`. */
    watch(answer: Paced): void {
      watched.add(answer);
      timer ??= setInterval(check, checkMs).unref();
    },
    /** The answer is complete, or its client gone. */
    leave(answer: Paced): void {
      watched.delete(answer);
    },
    get size() {
      return watched.size;
    },
  };
}
