/**
 * Timers: kept in the documents, fired as commands.
 *
 * A sweep a second finds what is due within the next second in the owned partitions (an index on the due
 * time); those, and the near ones of steps just stored, are set to the millisecond in memory. A sleeper costs
 * nothing here, and nothing is lost with the process: the next owner's sweep finds it. The server's own message
 * schedules were left out: they would be a second path to the same end, and this one is needed anyway.
 */
import type { Outgoing } from '../bus/publisher.ts';
import type { ActorDocument } from '../store/actors.ts';
import { timerMessage } from './apply.ts';
import { type Clock, every } from './clock.ts';
import type { ActorKind } from './kind.ts';

export type TimersPorts = {
  kinds: ReadonlyMap<string, ActorKind>;
  clock: Clock;
  owned(): number[];
  command(project: string, kind: string, id: string): string;
  publish(message: Outgoing): Promise<unknown>;
  onError(cause: unknown): void;
};

export type Timers = {
  /** Sets those timers of a document that are due soon. */
  arm(kind: string, document: Pick<ActorDocument, '_id' | 'project' | 'timers'>): void;
  stop(): Promise<void>;
};

const sweepMs = 1_000;
/** Armed in memory when due within this; a little over the sweep, so that nothing falls between two of them. */
const horizonMs = 1_500;
const maxDue = 5_000;
/** A timer whose firing was lost is fired again by a later sweep. */
const refireMs = 5_000;

export function startTimers({ kinds, clock, owned, command, publish, onError }: TimersPorts): Timers {
  /** Key of an armed or recently fired timer, with what cancels it. */
  const armed = new Map<string, () => void>();
  let stopped = false;

  const arm: Timers['arm'] = (kind, { _id: id, project, timers }) => {
    if (stopped) return;
    const now = clock.now();
    for (const { id: timer, at, armed: version } of timers) {
      const key = `${kind}.${id}:${version}:${timer}`;
      if (at - now > horizonMs || armed.has(key)) continue;
      const fire = () => {
        armed.set(
          key,
          clock.after(refireMs, () => armed.delete(key)),
        );
        publish({
          subject: command(project, kind, id),
          id: `${key}:${Math.floor(clock.now() / refireMs)}`,
          body: { type: timerMessage, timer, armed: version },
        }).catch(onError);
      };
      armed.set(key, clock.after(Math.max(0, at - now), fire));
    }
  };

  const sweep = async () => {
    const partitions = owned();
    if (partitions.length === 0) return;
    for (const kind of kinds.values()) {
      const due = await kind.store.due(partitions, clock.now() + horizonMs, maxDue);
      for (const document of due) arm(kind.name, document);
    }
  };
  const sweeping = every(clock, sweepMs, sweep, onError);

  return {
    arm,
    async stop() {
      stopped = true;
      await sweeping.stop();
      for (const cancel of armed.values()) cancel();
      armed.clear();
    },
  };
}
