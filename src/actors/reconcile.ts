/**
 * Finds from the documents alone what messages have lost: actors whose first message never arrived, and the
 * commands that every position has passed. Two schedulers at once are harmless.
 */
import type { Bus, Log } from '../bus/bus.ts';
import type { PartitionStore } from '../store/partitions.ts';
import { type Clock, every } from './clock.ts';
import type { ActorKind } from './kind.ts';

export type ReconcilePorts = {
  kinds: ReadonlyMap<string, ActorKind>;
  bus: Pick<Bus, 'publish' | 'subjects' | 'trimCommands'>;
  records: Pick<PartitionStore, 'all'>;
  clock: Clock;
  log: Log;
  /** Further duties, each tried once a round. */
  duties: (() => Promise<void>)[];
};

const sweepMs = 2_000;
const unstartedAfterMs = 2_000;
const maxUnstarted = 1_000;
const trimMs = 10_000;

export function startReconciler({ kinds, bus, records, clock, log, duties }: ReconcilePorts): {
  stop(): Promise<void>;
} {
  const onError = (err: unknown) => log.error({ err }, 'reconcile failed');

  const startUnstarted = async () => {
    for (const kind of kinds.values()) {
      for (const { _id: id, project } of await kind.store.unstarted(
        clock.now() - unstartedAfterMs,
        maxUnstarted,
      )) {
        // Not the id of the first try: that one may be known to a stream which has lost the message since.
        await bus.publish({
          subject: bus.subjects.command(project, kind.name, id),
          id: `${id}:start:${Math.floor(clock.now() / unstartedAfterMs)}`,
          body: kind.startMessage,
        });
      }
    }
  };

  const trim = async () => {
    const lowest = Math.min(...(await records.all()).map(({ position }) => position));
    if (Number.isFinite(lowest) && lowest > 0) await bus.trimCommands(lowest + 1);
  };

  const sweeping = every(
    clock,
    sweepMs,
    async () => {
      for (const duty of [startUnstarted, ...duties]) await duty().catch(onError);
    },
    onError,
  );
  const trimming = every(clock, trimMs, trim, onError);
  return {
    async stop() {
      await Promise.all([sweeping.stop(), trimming.stop()]);
    },
  };
}
