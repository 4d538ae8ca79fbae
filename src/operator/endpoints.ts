/**
 * Endpoints of customers that keep deliveries waiting. While an endpoint fails or is slow, its deliveries wait for their
 * turn, however long that takes: that is for its owner to mend, and nothing here is stuck. An endpoint that was tried
 * lately is one that the sender is at work on.
 */
import { operator as limits } from '../../schemas/limits.ts';
import type { MachineKind } from '../../schemas/operator-console.ts';
import type { OperatorViews } from '../store/operator-views.ts';

export type WaitingForEndpoints = { endpoints: number; deliveries: number };

type Views = Pick<OperatorViews, 'enteredSince' | 'countAhead'>;
type Tried = ReadonlyMap<string, { partition: number }>;

/** The only state in which a delivery waits for somebody else's machine, for as long as that takes. */
export const isForEndpoint = (kind: MachineKind, state: string) => kind === 'delivery' && state === 'sending';

/** Projects to whose endpoints attempts were made lately, whatever came of them; those that failed come first. */
export async function readTried(views: Views, now: number): Promise<Tried> {
  const tried = await Promise.all(
    ['retrying', 'dead', 'delivered'].map((state) =>
      views.enteredSince('delivery', state, now - limits.triedMs, limits.verdictMax),
    ),
  );
  return new Map(tried.flat().map(({ project, partition }) => [project, { partition }]));
}

/** Deliveries that came to be sent before a time (unix ms), and wait for an endpoint that is being tried. */
export async function countWaiting(
  views: Views,
  beforeTs: number,
  now: number,
): Promise<WaitingForEndpoints> {
  const tried = [...(await readTried(views, now))].slice(0, limits.maxEndpoints);
  const counts = await Promise.all(
    tried.map(([project, { partition }]) => views.countAhead({ project, partition, enteredTs: beforeTs })),
  );
  const waiting = counts.filter((count) => count > 0);
  return { endpoints: waiting.length, deliveries: waiting.reduce((sum, count) => sum + count, 0) };
}
