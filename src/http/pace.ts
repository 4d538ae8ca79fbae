/**
 * Readers that take almost nothing: cut, so that nobody holds connections and files for ever. uWebSockets.js
 * itself cuts who takes nothing at all for ten seconds, and nobody who takes a little.
 */
import type { Exchange } from './exchange.ts';

export type Pace = ReturnType<typeof createPace>;

export type PaceOptions = {
  /** Time in which any pace will do, and the bytes a second that a reader must have taken since its start. */
  graceMs?: number;
  minBytesPerSecond?: number;
  checkMs?: number;
};

/** An answer that its reader could not take at once. `startedAt` is of performance.now(). */
export type Paced = { readonly exchange: Exchange; readonly startedAt: number };

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
      const { exchange, startedAt } = answer;
      const ms = now - startedAt;
      if (!exchange.isOpen) watched.delete(answer);
      else if (ms > graceMs && exchange.res.getWriteOffset() < (minBytesPerSecond * ms) / 1_000) {
        watched.delete(answer);
        exchange.res.close();
      }
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
