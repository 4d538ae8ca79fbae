/**
 * The owner of partitions: reads their commands in stream order and commits them in groups.
 *
 * Everything it holds is a copy: a fence, a failed write or publish, or a change of ownership throws the memory
 * away, and reading starts again at the stored positions.
 */
import { runtime } from '../../schemas/limits.ts';
import type { Bus, Log } from '../bus/bus.ts';
import type { Command, CommandReader } from '../bus/read.ts';
import type { PartitionRecord, PartitionStore } from '../store/partitions.ts';
import { type BatchMemory, type BatchPorts, FencedError, processBatch } from './batch.ts';
import { type Clock, every, sleep } from './clock.ts';
import type { ActorKind } from './kind.ts';
import { type Ownership, startOwnership } from './ownership.ts';
import { createPositions } from './positions.ts';
import { startTimers } from './timers.ts';

export type OwnerPorts = {
  workerId: string;
  partitions: number;
  kinds: ReadonlyMap<string, ActorKind>;
  bus: Pick<
    Bus,
    | 'publish'
    | 'publishAll'
    | 'readCommands'
    | 'lastCommand'
    | 'lastCommandOf'
    | 'send'
    | 'listen'
    | 'onReconnect'
    | 'subjects'
  >;
  records: Pick<PartitionStore, 'claim' | 'force' | 'release' | 'move'>;
  clock: Clock;
  log: Log;
  /** The partitions that are ours from now on, once what the owner before has left behind is applied. */
  onOwned?(partitions: number[]): void;
  onBatch?(batch: BatchReport): void;
  onStepped?: BatchPorts['onStepped'];
};

export type OwnerStats = { steps: number; batches: number; owned: number; queued: number; failures: number };

/** A group of commands that was committed. */
export type BatchReport = {
  commands: number;
  steps: number;
  published: number;
  ms: number;
  /** When each command had arrived, on the monotonic clock, and when all were committed. */
  arrivedAt: readonly number[];
  committedAt: number;
};

export type Owner = { stats(): OwnerStats; isAlone(): boolean; stop(): Promise<void> };

const flushMs = 250;
/** Of a batch, the requests that its line in the log names. */
const maxIdsLogged = 16;
const liftMs = 2_000;
const maxBackoffMs = 2_000;
/** Commands applied beyond the stored position: a fraction of what the next owner takes as its first batch. */
const maxUnflushed = runtime.maxQueued / 4;
/** Longest wait for everything that a dead owner may have met. */
const catchUpMs = 2_000;
/** An idle partition that is further behind than this is lifted, so that the stream can be trimmed. */
const maxBehind = 10_000;

export function startOwner({
  workerId,
  partitions,
  kinds,
  bus,
  records,
  clock,
  log,
  onOwned = () => undefined,
  onBatch = () => undefined,
  onStepped,
}: OwnerPorts): Owner {
  const positions = createPositions();
  const stats = { steps: 0, batches: 0, failures: 0 };
  const stopping = new AbortController();
  let memory = emptyMemory();
  let queue: Command[] = [];
  /** When each command of the queue arrived. */
  let arrivals: number[] = [];
  let reader: CommandReader | undefined;
  let hasPaused = false;
  /**
   * The first batch after a restart waits for and holds everything that the owner of before may have stored:
   * what that one left unpublished then comes out in the order of ts, below everything new.
   */
  let isFirstBatch = true;
  let isCaughtUp = false;
  let cancelCatchUp: (() => void) | undefined;
  /** No batch begins while partitions are being let go. */
  let isHeld = false;
  /** Commands since positions were stored. */
  let unflushed = 0;
  /** Raised whenever the memory is dropped: a batch of before must not touch what came after. */
  let generation = 0;
  let wake: (() => void) | undefined;
  let current: Promise<void> = Promise.resolve();
  let lastRead = 0;
  /** `onOwned` is to be told. */
  let isNewlyOwned = false;

  const onError = (cause: unknown) => log.error({ err: cause }, 'actors: background task failed');

  /** Until the next restart nothing is applied, and no position is lifted over what was queued. */
  const forget = () => {
    generation += 1;
    queue = [];
    arrivals = [];
    memory = emptyMemory();
    lastRead = 0;
    hasPaused = false;
    isFirstBatch = true;
    isCaughtUp = false;
    cancelCatchUp?.();
  };

  const restart = async (owned: PartitionRecord[]): Promise<void> => {
    await current.catch(() => undefined);
    forget();
    await reader?.stop();
    reader = undefined;
    positions.reset(owned);
    unflushed = 0;
    isHeld = false;
    for (const { _id, ts } of owned) memory.boundTs.set(_id, ts);
    isNewlyOwned = true;
    if (owned.length === 0 || stopping.signal.aborted) return tellOwned();
    const mine = generation;
    lastRead = positions.lowest();
    cancelCatchUp = clock.after(catchUpMs, () => {
      isCaughtUp = true;
      if (queue.length === 0) tellOwned();
      wake?.();
    });
    reader = await bus.readCommands(
      owned.map(({ _id }) => _id),
      lastRead,
      (command) => mine === generation && take(command),
    );
  };

  const tellOwned = (): void => {
    if (isNewlyOwned) onOwned(ownership.owned());
    isNewlyOwned = false;
  };

  const take = (command: Command): boolean => {
    if (positions.isNew(command.partition, command.seq)) {
      queue.push(command);
      arrivals.push(clock.monotonic());
    }
    lastRead = command.seq;
    hasPaused = queue.length >= runtime.maxQueued;
    if (command.pending === 0 || hasPaused) isCaughtUp = true;
    wake?.();
    return !hasPaused;
  };

  const flush = async (): Promise<void> => {
    const moves = positions.unflushed();
    if (moves.length === 0) return;
    const counted = unflushed;
    if (!(await records.move(moves, workerId))) throw new FencedError('a partition has another owner');
    positions.flushed(moves);
    unflushed = Math.max(0, unflushed - counted);
    memory.passed = positions.passed();
  };

  const commit = async (): Promise<void> => {
    const batch = queue.slice(0, isFirstBatch ? runtime.maxQueued : runtime.maxBatch);
    const mine = generation;
    const begunAt = clock.monotonic();
    const requestIds = new Set<string>();
    const { steps, published } = await processBatch(batch, memory, {
      kinds,
      publishAll: bus.publishAll,
      subjects: bus.subjects,
      now: clock.now,
      onTimers: timers.arm,
      onStepped(kind, before, next) {
        const requestId = kinds.get(kind)?.workFields(next.machine).requestId;
        if (requestId !== undefined && requestIds.size < maxIdsLogged) requestIds.add(requestId);
        onStepped?.(kind, before, next);
      },
      onRefused: ({ kind, id, seq, message: { type } }, err) =>
        log.error({ err, kind, id, seq, type }, 'actors: command refused by its machine, passed over'),
    });
    if (mine !== generation) return;
    queue.splice(0, batch.length);
    report({ commands: batch.length, steps, published }, begunAt, requestIds);
    for (const { partition, seq } of batch)
      positions.advance(partition, seq, memory.boundTs.get(partition) ?? 0);
    stats.steps += steps;
    stats.batches += 1;
    isFirstBatch = false;
    tellOwned();
    unflushed += batch.length;
    if (unflushed >= maxUnflushed) await flush();
    if (hasPaused && queue.length < runtime.maxQueued / 2) {
      hasPaused = false;
      reader?.resume();
    }
  };

  const report = (
    counts: { commands: number; steps: number; published: number },
    begunAt: number,
    requestIds: ReadonlySet<string>,
  ): void => {
    const arrivedAt = arrivals.splice(0, counts.commands);
    const committedAt = clock.monotonic();
    const ms = committedAt - begunAt;
    onBatch({ ...counts, ms, arrivedAt, committedAt });
    if (counts.steps === 0) return;
    const waitedMs = Math.round(committedAt - (arrivedAt[0] ?? committedAt));
    log.info({ ...counts, ms: Math.round(ms), waitedMs, requestIds: [...requestIds] }, 'transitions');
  };

  const hasBatch = () => queue.length > 0 && isCaughtUp && !isHeld;

  /** Starts again from the stored positions, tried until it works: what memory holds was never stored. */
  const startAgain = async (): Promise<void> => {
    forget();
    for (let waitMs = 50; !stopping.signal.aborted; waitMs = Math.min(maxBackoffMs, waitMs * 2)) {
      await sleep(clock, waitMs, stopping.signal);
      try {
        await ownership.refresh();
        return;
      } catch (cause) {
        onError(cause);
      }
    }
  };

  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      if (!hasBatch()) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        // What arrived in the same turn belongs to the same group.
        await new Promise<void>((resolve) => clock.nextTurn(resolve));
        continue;
      }
      current = commit();
      try {
        await current;
      } catch (cause) {
        stats.failures += 1;
        log.warn({ err: cause }, 'actors: batch failed, starting again from the stored positions');
        await startAgain();
      }
    }
  };

  const flushOrRefresh = async () => {
    try {
      await flush();
    } catch (cause) {
      if (cause instanceof FencedError) await ownership.refresh();
      else throw cause;
    }
  };

  const timers = startTimers({
    kinds,
    clock,
    owned: () => ownership.owned(),
    command: bus.subjects.command,
    publish: bus.publish,
    onError,
  });
  const ownership: Ownership = startOwnership({
    workerId,
    version: [...kinds.values()].reduce((sum, { machineVersion }) => sum + machineVersion, 0),
    partitions,
    clock,
    send: bus.send,
    listen: bus.listen,
    onReconnect: bus.onReconnect,
    records,
    async beforeDrop() {
      isHeld = true;
      await current.catch(() => undefined);
      await flush().catch(onError);
    },
    onChange: restart,
    onError,
  });
  const flushing = every(clock, flushMs, flushOrRefresh, onError);
  const lifting = every(
    clock,
    liftMs,
    async () => {
      if (queue.length === 0) positions.liftAll(lastRead);
      const head = await bus.lastCommand();
      for (const partition of positions.behind(head - maxBehind))
        positions.liftIdle(partition, await bus.lastCommandOf(partition), head);
    },
    onError,
  );
  const looping = loop();

  return {
    stats: () => ({ ...stats, owned: ownership.owned().length, queued: queue.length }),
    isAlone: () => ownership.isAlone(),
    async stop() {
      await timers.stop();
      stopping.abort();
      cancelCatchUp?.();
      wake?.();
      await looping;
      await Promise.all([flushing.stop(), lifting.stop()]);
      await ownership.stop();
      await reader?.stop();
    },
  };
}

function emptyMemory(): BatchMemory {
  return { documents: new Map(), lastTs: new Map(), boundTs: new Map(), passed: new Map() };
}
