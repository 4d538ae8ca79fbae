/**
 * How long a new run would wait for a worker: workers say each second who waits with them, front ends add it up.
 * Used to refuse a run with 503 before it is counted, so that our own backlog never ends in pipeline_stalled.
 */

/** What a worker says of itself. `waiting` counts runs by project. */
export type LoadBeat = { workerId: string; threads: number; waiting: Record<string, number> };

export const loadSubject = 'stat.load';
export const loadBeatMs = 1_000;
const loadKeptMs = 5_000;
/** Time that one run keeps one thread busy, in ms. */
const typicalRunMs = 8_000;

export function createLoad(
  listen: (name: string, onMessage: (body: unknown) => void) => unknown,
  now: () => number,
) {
  const heard = new Map<string, LoadBeat & { at: number }>();
  listen(loadSubject, (body) => {
    const beat = body as LoadBeat;
    heard.set(beat.workerId, { ...beat, at: now() });
  });

  return {
    /**
     * Estimated wait of a new run of a project, in ms; 0 when no worker is heard. Projects take turns, so another
     * project's queue counts only as far as it is served before this one's end is reached.
     */
    waitMs(project: string): number {
      let threads = 0;
      const waiting = new Map<string, number>();
      for (const [id, beat] of heard) {
        if (now() - beat.at > loadKeptMs) {
          heard.delete(id);
          continue;
        }
        threads += beat.threads;
        for (const [name, count] of Object.entries(beat.waiting))
          waiting.set(name, (waiting.get(name) ?? 0) + count);
      }
      if (threads === 0) return 0;
      const own = waiting.get(project) ?? 0;
      waiting.delete(project);
      const others = [...waiting.values()].reduce((sum, count) => sum + Math.min(count, own + 1), 0);
      return ((own + others) / threads) * typicalRunMs;
    },
  };
}
