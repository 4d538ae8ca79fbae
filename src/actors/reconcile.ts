/**
 * Finds from the documents alone what messages have lost: actors whose first message never arrived, everything that
 * was under way in streams that are gone, and the commands that every position has passed. Two schedulers at once
 * are harmless.
 *
 * A run without progress asks its provider and ends by the timers of its own document (machines/asset.ts), which the
 * owner of its partition sweeps (timers.ts): no message has to arrive for that.
 */
import type { Bus, Log } from '../bus/bus.ts';
import type { Outgoing } from '../bus/publisher.ts';
import type { Touched } from '../store/actors.ts';
import type { PartitionStore } from '../store/partitions.ts';
import type { SeenStreams, StreamStore } from '../store/streams.ts';
import { type Clock, every } from './clock.ts';
import type { ActorKind } from './kind.ts';

export type ReconcilePorts = {
  kinds: ReadonlyMap<string, ActorKind>;
  bus: Pick<Bus, 'publish' | 'publishAll' | 'subjects' | 'trimCommands' | 'streamsMade' | 'send'>;
  records: Pick<PartitionStore, 'all'>;
  streams: Pick<StreamStore, 'seen' | 'note'>;
  /** Starts the webhook deliveries of facts as published. Those that were started before are started by nobody. */
  startDeliveries(facts: readonly unknown[]): Promise<void>;
  clock: Clock;
  log: Log;
  /** Longer than any write is under way, in ms. */
  writesUnderWayMs?: number;
  /** Further duties, each tried once a round. */
  duties: (() => Promise<void>)[];
};

/** A plain message: what was on its way in the streams is lost. */
export const lostSubject = 'streams.lost';

const sweepMs = 2_000;
const unstartedAfterMs = 2_000;
const maxUnstarted = 1_000;
const trimMs = 10_000;
/** How often it is noted that nothing is lost: a loss is looked for from there on. */
const noteEveryMs = 30_000;
/** Clocks of two processes may differ by this much, and a fact may have been on its way for so long. */
const marginMs = 120_000;
const maxTogether = 500;
/** Longer than a write to the database is waited for. */
const storeWaitMs = 15_000;

export function startReconciler({
  kinds,
  bus,
  records,
  streams,
  startDeliveries,
  clock,
  log,
  writesUnderWayMs = storeWaitMs,
  duties,
}: ReconcilePorts): { stop(): Promise<void> } {
  const onError = (err: unknown) => log.error({ err }, 'reconcile failed');
  const stopping = new AbortController();

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

  /** The streams whose loss has been made up for once, and when. */
  let once: { made: string; at: number } | undefined;

  /** Looks whether the streams are those of before. */
  const findLosses = async () => {
    const made = await bus.streamsMade();
    const seen = await streams.seen();
    const lookedTs = clock.now();
    if (seen?.made === made) {
      if (lookedTs - seen.lookedTs > noteEveryMs) await streams.note({ made, lookedTs });
      return;
    }
    await dealWithLoss(seen, { made, lookedTs });
  };

  /** As often as it takes to get through, and once more when every write that was under way then has arrived. */
  const dealWithLoss = async (seen: SeenStreams | undefined, present: SeenStreams) => {
    const { made } = present;
    const before = once?.made === made ? once : undefined;
    if (before && clock.monotonic() - before.at < writesUnderWayMs) return;
    // Nothing noted yet: they may have been lost since the first message, or this is the first start.
    const found = await makeUpFor(seen ?? present, made);
    if (seen !== undefined || found > 0)
      log.warn({ found }, 'streams were lost: what was under way is asked again');
    if (stopping.signal.aborted) return;
    if (before) await streams.note(present);
    else once = { made, at: clock.monotonic() };
  };

  /** Finds what was under way in the documents. Answers how many were touched since the streams were seen last. */
  const makeUpFor = async ({ lookedTs }: SeenStreams, made: string): Promise<number> => {
    const sinceTs = lookedTs - marginMs;
    let found = 0;
    for (const kind of kinds.values()) {
      for await (const documents of inGroups(kind.store.touchedSince(sinceTs))) {
        if (stopping.signal.aborted) return found;
        found += documents.length;
        await bus.publishAll(askAgain(kind, documents, made));
        await startDeliveries(factsSince(kind, documents, sinceTs));
      }
    }
    bus.send(lostSubject, {});
    return found;
  };

  const askAgain = (kind: ActorKind, documents: readonly Touched[], made: string): Outgoing[] =>
    documents
      .filter(({ dueTs }) => kind.lostMessage !== undefined && dueTs !== null)
      .map(({ _id: id, project }) => ({
        subject: bus.subjects.command(project, kind.name, id),
        id: `${id}:lost:${made}`,
        body: kind.lostMessage,
      }));

  const trim = async () => {
    const lowest = Math.min(...(await records.all()).map(({ position }) => position));
    if (Number.isFinite(lowest) && lowest > 0) await bus.trimCommands(lowest + 1);
  };

  const sweeping = every(
    clock,
    sweepMs,
    async () => {
      for (const duty of [startUnstarted, findLosses, ...duties]) await duty().catch(onError);
    },
    onError,
  );
  const trimming = every(clock, trimMs, trim, onError);
  return {
    async stop() {
      stopping.abort();
      await Promise.all([sweeping.stop(), trimming.stop()]);
    },
  };
}

function factsSince(kind: ActorKind, documents: readonly Touched[], sinceTs: number): unknown[] {
  return documents.flatMap(({ _id: id, project, facts }) =>
    facts
      .filter(({ ts }) => ts >= sinceTs)
      .map(({ seq: _, n: __, ...fact }) => kind.publishedFact(fact, { id, project })),
  );
}

async function* inGroups(documents: AsyncIterable<Touched>): AsyncGenerator<Touched[]> {
  let group: Touched[] = [];
  for await (const document of documents) {
    group.push(document);
    if (group.length < maxTogether) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}
