/**
 * Waiting in front of a model provider (wire formats 1, rule 9): until it has a free place, over all processes.
 *
 * Waiting is no attempt. Of all who wait in one process, one asks the store at a time, and they take turns.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Answers 0 when the place is taken, else the ms until it may be worth asking again. */
export type Enter = (name: string, token: string, untilTs: number) => Promise<number>;

const minWaitMs = 100;
const maxWaitMs = 1_000;

export type Gate = {
  /** Waits for a place, to be held until `untilTs` at most. @throws the signal's reason when it aborts first. */
  enter(name: string, token: string, untilTs: number, signal: AbortSignal): Promise<void>;
};

export function createGate(enter: Enter): Gate {
  /** Ends of the queues, by provider. */
  const queues = new Map<string, Promise<void>>();

  const wait = async (name: string, token: string, untilTs: number, signal: AbortSignal): Promise<void> => {
    for (;;) {
      signal.throwIfAborted();
      const waitMs = await enter(name, token, untilTs);
      if (waitMs === 0) return;
      await sleep(Math.min(maxWaitMs, Math.max(minWaitMs, waitMs)), undefined, { signal });
    }
  };

  return {
    async enter(name, token, untilTs, signal) {
      const before = queues.get(name) ?? Promise.resolve();
      const turn = before.then(() => wait(name, token, untilTs, signal));
      // Who gives up lets the next one go on.
      const end = turn.catch(() => undefined);
      queues.set(name, end);
      await turn;
      if (queues.get(name) === end) queues.delete(name);
    },
  };
}
