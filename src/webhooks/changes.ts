/**
 * Word of a changed webhook configuration, from who changes it to who sends: the change is in force everywhere
 * when `announce` has answered.
 *
 * Senders are the owners of partitions. All of them have answered, or the time is over for which one that is
 * silent (dead, paused, cut off) may still use what it knew: whichever comes first.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Bus } from '../bus/bus.ts';

const changed = 'webhooks.changed';
const heard = 'webhooks.heard';

const Changed = z.object({ project: z.string(), isNewUrl: z.boolean(), nonce: z.string() });
const Heard = z.object({ nonce: z.string(), worker: z.string() });

export type AnnouncePorts = {
  bus: Pick<Bus, 'send' | 'listen'>;
  /** Workers that own partitions. */
  owners(): Promise<string[]>;
  /** How long a sender may use a configuration that it has read. */
  leaseMs: number;
};

/** Clocks tick differently, and a sender looks at the time before it writes. */
const marginMs = 100;

export type Announce = (project: string, change: { isNewUrl: boolean }) => Promise<void>;

/** To be called when the change is stored on a majority. */
export function createAnnounce({ bus, owners, leaseMs }: AnnouncePorts): Announce {
  return async (project, { isNewUrl }) => {
    const nonce = randomBytes(9).toString('base64url');
    const storedAt = performance.now();
    const answered = new Set<string>();
    let wake: (() => void) | undefined;
    const subscription = bus.listen(heard, (body) => {
      const { data } = Heard.safeParse(body);
      if (data?.nonce !== nonce) return;
      answered.add(data.worker);
      wake?.();
    });
    try {
      bus.send(changed, { project, isNewUrl, nonce });
      const awaited = await owners();
      const hasAll = () => awaited.every((worker) => answered.has(worker));
      const leftMs = storedAt + leaseMs + marginMs - performance.now();
      if (hasAll() || leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        wake = () => {
          if (!hasAll()) return;
          clearTimeout(timer);
          resolve();
        };
      });
    } finally {
      subscription.stop();
    }
  };
}

/** Tells a sender of changes, and whoever makes them that it has heard. */
export function followWebhookChanges(
  bus: Pick<Bus, 'send' | 'listen'>,
  worker: string,
  onChanged: (project: string, isNewUrl: boolean) => void,
): { stop(): void } {
  return bus.listen(changed, (body) => {
    const { data } = Changed.safeParse(body);
    if (!data) return;
    onChanged(data.project, data.isNewUrl);
    bus.send(heard, { nonce: data.nonce, worker });
  });
}
