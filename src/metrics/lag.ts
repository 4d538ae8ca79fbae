/**
 * How far partitions are behind the commands that are stored for them, in seconds: the stream's end is noted whenever
 * somebody looks, and a partition is as old as the first end that it has not reached.
 */

/** Looks that are kept: an hour of one every five seconds. */
const maxKept = 720;

export function createLagWatch() {
  /** Ends of the stream, oldest first; `ts` is when the stream was first seen to reach so far. */
  let ends: { ts: number; end: number }[] = [];

  return {
    /** Notes where the stream ends now (unix ms). */
    note(end: number, ts: number): void {
      const last = ends.at(-1);
      // It was made anew.
      if (last && end < last.end) ends = [];
      if (end !== ends.at(-1)?.end) ends.push({ ts, end });
      // Of those that are too many the oldest stays: what is further behind is at least as old.
      if (ends.length > maxKept) ends.splice(1, 1);
    },

    /** Seconds since the stream went past a position; 0 when it has not. */
    secondsBehind(position: number, now: number): number {
      const passed = ends.find(({ end }) => end > position);
      return passed ? Math.max(0, now - passed.ts) / 1_000 : 0;
    },
  };
}
