/**
 * Whether messages of other processes reach this one: it sends a message to itself a few times a second and
 * listens for it. A connection that hangs is found out within a second, long before the client library does.
 */
import type { Clock } from './clock.ts';

export type LivenessPorts = {
  send(name: string, body: unknown): void;
  listen(name: string, onMessage: (body: unknown) => void): { stop(): void };
};

const beatMs = 250;
const lostMs = 800;

/** @param id this process's own, so that no other's message is taken for it: fit for a subject. */
export function createLiveness({ send, listen }: LivenessPorts, id: string, clock: Clock) {
  const name = `live.${id}`;
  let heardAt = Number.NEGATIVE_INFINITY;
  let cancel: () => void;

  const subscription = listen(name, (body) => {
    // When it was sent counts: a queue that is let go of delivers old ones.
    heardAt = Math.max(heardAt, Number((body as { at?: unknown }).at));
  });
  const beat = (): void => {
    send(name, { at: clock.monotonic() });
    cancel = clock.after(beatMs, beat);
  };
  beat();

  return {
    /** Whether what was sent up to about a second ago has arrived. */
    isLive: (): boolean => clock.monotonic() - heardAt < lostMs,
    stop(): void {
      cancel();
      subscription.stop();
    },
  };
}
