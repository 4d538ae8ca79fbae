/** What workers say of themselves: that they live, each second, and what they do, when they are asked. */
import { randomUUID } from 'node:crypto';
import { operator as limits } from '../../schemas/limits.ts';
import { WorkerLook } from '../../schemas/operator-console.ts';
import type { Bus } from '../bus/bus.ts';

/** Plain messages: the question, and where its answers go. */
export const lookSubject = 'stat.look';
export const seenSubject = (ask: string) => `stat.seen.${ask}`;

export type LiveWorker = { id: string; heardTs: number; threads: number; waiting: number };

export type Workers = ReturnType<typeof watchWorkers>;

/** @param loadSubject where workers say each second that they live */
export function watchWorkers(bus: Pick<Bus, 'listen' | 'send'>, loadSubject: string, now: () => number) {
  const heard = new Map<string, LiveWorker>();
  const startedTs = now();
  const listening = bus.listen(loadSubject, (body) => {
    const beat = body as { workerId: string; threads: number; waiting: Record<string, number> };
    const waiting = Object.values(beat.waiting).reduce((sum, count) => sum + count, 0);
    heard.set(beat.workerId, { id: beat.workerId, heardTs: now(), threads: beat.threads, waiting });
  });

  const alive = (): LiveWorker[] => {
    for (const [id, { heardTs }] of heard) if (now() - heardTs > limits.workerMs) heard.delete(id);
    return [...heard.values()];
  };

  return {
    alive,
    listenedMs: () => now() - startedTs,

    /** Asks all of them; waits until those that are alive have answered, or for a moment. */
    look(): Promise<WorkerLook[]> {
      const ask = randomUUID();
      const seen: WorkerLook[] = [];
      const expected = alive().length;
      return new Promise((resolve) => {
        const end = () => {
          clearTimeout(timer);
          subscription.stop();
          resolve(seen);
        };
        const timer = setTimeout(end, limits.lookMs);
        const subscription = bus.listen(seenSubject(ask), (body) => {
          const look = WorkerLook.safeParse(body);
          if (look.success) seen.push(look.data);
          if (seen.length >= Math.max(1, expected)) end();
        });
        bus.send(lookSubject, { ask });
      });
    },

    stop: () => listening.stop(),
  };
}
