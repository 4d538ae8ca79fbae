/** The beats of workers: other workers tell by them who is alive, front ends whether messages go missing. */
import type { Bus } from './bus.ts';

export const beatName = 'own.hb';

/**
 * `at`: when it was sent, ms on the sender's own clock. `n` counts a worker's beats, with a step too many where what
 * it published may not have reached everybody.
 */
export type Beat = { id: string; ready: boolean; at: number; version: number; n: number };

/** A worker that was heard again counts from anew only under another id; these are many more than are ever alive. */
const maxWorkers = 1_000;

/** Calls back when a beat is missing: facts of that time may be, too. */
export function watchBeats(bus: Pick<Bus, 'listen'>, onMissing: () => void): { stop(): void } {
  const last = new Map<string, number>();
  return bus.listen(beatName, (body) => {
    const { id, n } = body as Beat;
    const before = last.get(id);
    // Set anew: the first of them is the one that was silent for longest.
    last.delete(id);
    last.set(id, n);
    for (const known of last.keys()) {
      if (last.size <= maxWorkers) break;
      last.delete(known);
    }
    if (before !== undefined && n > before + 1) onMissing();
  });
}
