/**
 * Beginnings and ends of runs, of all projects: who waits for one, and whose memory of an asset they outdate.
 *
 * Two facts a run are little, so every front end hears all of them. A wait then needs no subscription of its
 * own: it costs a map entry and a timer, and misses nothing between reading an asset and waiting for it.
 */
import { type EventName, isTerminal } from '../../schemas/events.ts';
import type { Clock } from './clock.ts';
import { toFrame } from './frame.ts';

export type RunEnd = 'ready' | 'failed' | 'cancelled';
export type RunChange = { assetId: string; event: EventName };

export type RunEndsPorts = {
  /** All facts of one name, of every project. */
  onFactsNamed(event: EventName, onFact: (fact: unknown) => void): { stop(): void };
};

/** What of an AbortSignal is used: ten thousand real ones would be twenty megabytes. */
export type LeaveSignal = {
  readonly aborted: boolean;
  addEventListener(type: 'abort', call: () => void, options?: { once: boolean }): void;
  removeEventListener(type: 'abort', call: () => void): void;
};

type Waiter = (end: RunEnd) => void;

const changes: EventName[] = ['queued', 'ready', 'failed', 'cancelled'];

export function createRunEnds({ onFactsNamed }: RunEndsPorts, clock: Pick<Clock, 'after'>) {
  const waiters = new Map<string, Set<Waiter>>();
  const outdated = new Set<(change: RunChange) => void>();
  const giveUps = new Set<() => void>();

  const take = (fact: unknown): void => {
    const frame = toFrame(fact);
    if (!frame) return;
    const { assetId, event } = frame;
    for (const call of outdated) call({ assetId, event });
    if (isTerminal(event)) for (const end of waiters.get(assetId) ?? []) end(event as RunEnd);
  };
  const subscriptions = changes.map((event) => onFactsNamed(event, take));

  return {
    /** Calls back for each run that begins or ends, in no promised order, repetitions included. */
    onChange(call: (change: RunChange) => void): { stop(): void } {
      outdated.add(call);
      return { stop: () => outdated.delete(call) };
    },

    /**
     * Waits for the next end of a run of the asset: `timeout` when none comes in time, when the signal is
     * aborted, or at a stop. An end may be told of twice: read the asset again afterwards.
     */
    waitForEnd(assetId: string, timeoutMs: number, signal?: LeaveSignal): Promise<RunEnd | 'timeout'> {
      if (signal?.aborted) return Promise.resolve('timeout');
      return new Promise((resolve) => {
        const done = (result: RunEnd | 'timeout') => {
          cancel();
          giveUps.delete(giveUp);
          signal?.removeEventListener('abort', giveUp);
          const among = waiters.get(assetId);
          among?.delete(done);
          if (among?.size === 0) waiters.delete(assetId);
          resolve(result);
        };
        const giveUp = () => done('timeout');
        const cancel = clock.after(timeoutMs, giveUp);
        giveUps.add(giveUp);
        signal?.addEventListener('abort', giveUp, { once: true });
        const among = waiters.get(assetId);
        if (among) among.add(done);
        else waiters.set(assetId, new Set([done]));
      });
    },

    get waiting() {
      return giveUps.size;
    },

    stop(): void {
      for (const subscription of subscriptions) subscription.stop();
      for (const giveUp of [...giveUps]) giveUp();
    },
  };
}
