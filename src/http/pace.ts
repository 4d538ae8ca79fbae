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

type Watched = { exchange: Exchange; startedAt: number };

export function createPace({
  graceMs = 10_000,
  minBytesPerSecond = 8 * 1024,
  checkMs = 1_000,
}: PaceOptions = {}) {
  const watched = new Set<Watched>();
  let timer: NodeJS.Timeout | undefined;

  const check = (): void => {
    const now = performance.now();
    for (const entry of watched) {
      const { exchange, startedAt } = entry;
      const ms = now - startedAt;
      if (!exchange.isOpen) watched.delete(entry);
      else if (ms > graceMs && exchange.res.getWriteOffset() < (minBytesPerSecond * ms) / 1_000) {
        watched.delete(entry);
        exchange.res.close();
      }
    }
    if (watched.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };

  return {
    /** Watches an answer that its reader could not take at once, until it is stopped or the client is gone. */
    watch(exchange: Exchange): { stop(): void } {
      const entry = { exchange, startedAt: performance.now() };
      watched.add(entry);
      timer ??= setInterval(check, checkMs).unref();
      exchange.onAborted(() => watched.delete(entry));
      return { stop: () => void watched.delete(entry) };
    },
    get size() {
      return watched.size;
    },
  };
}
