/**
 * Who owns a partition: presence by heartbeats, rendezvous hashing over the living, a conditional claim in the
 * partition's record (architecture 3a). Correctness does not rest on this; it saves work.
 */
import { createHash } from 'node:crypto';
import { type Beat, beatName } from '../bus/beats.ts';
import type { Subscription } from '../bus/bus.ts';
import type { PartitionRecord } from '../store/partitions.ts';
import { type Clock, every } from './clock.ts';

export type OwnershipPorts = {
  workerId: string;
  /**
   * Of the machines that it drives: a worker of an earlier one owns nothing while there is a later one, whose
   * documents it could not read.
   */
  version: number;
  partitions: number;
  clock: Clock;
  send(name: string, body: unknown): void;
  listen(name: string, onMessage: (body: unknown) => void): Subscription;
  onReconnect(call: () => void): Subscription;
  records: {
    claim(wanted: number[], owner: string, living: string[]): Promise<PartitionRecord[]>;
    force(wanted: number[], owner: string): Promise<void>;
    release(dropped: number[], owner: string): Promise<void>;
  };
  /** Finish the running batch and flush positions: these partitions are about to be let go. */
  beforeDrop(): Promise<void>;
  /** The partitions that are ours now, with their records. Memory of before is void. */
  onChange(records: PartitionRecord[]): Promise<void>;
  onError(cause: unknown): void;
};

export type Ownership = {
  owned(): number[];
  /** Reads the records again and starts anew: after a fence or a failed batch. */
  refresh(): Promise<void>;
  /** Whether no other worker is alive, as far as can be heard. */
  isAlone(): boolean;
  stop(): Promise<void>;
};

const beatMs = 250;
const deadAfterMs = 900;
/** Partitions that are wanted and not had yet are asked for more often than a beat. */
const retryMs = 100;
const forceAfterMs = 1_500;
/** How often the records are compared with what this worker believes to own. */
const verifyMs = 250;

type Peer = { heardAt: number; ready: boolean; version: number };

export function startOwnership(ports: OwnershipPorts): Ownership {
  const { workerId, version, clock } = ports;
  const peers = new Map<string, Peer>();
  let echoAt = clock.monotonic();
  let startedAt = clock.monotonic();
  let isIsolated = false;
  let owned = new Set<number>();
  /** Epochs of the records as they were claimed: another one means that somebody else was here in between. */
  let epochs = new Map<number, number>();
  /** Since when partitions are wanted and not had. */
  let missingSince: number | undefined;
  let lastTick = clock.monotonic();
  let running: Promise<void> = Promise.resolve();
  let stopped = false;
  let beats = 0;

  const isReady = () => !isIsolated && clock.monotonic() - startedAt >= beatMs;
  const living = () => [...peers].filter(([, peer]) => peer.ready).map(([id]) => id);
  const wantedNow = (): Set<number> => {
    const ready = [...peers].filter(([, peer]) => peer.ready);
    const isOld = ready.some(([, peer]) => peer.version > version);
    if (!isReady() || isOld) return new Set();
    const equals = ready.filter(([, peer]) => peer.version === version).map(([id]) => id);
    return wantedBy(workerId, [...equals, workerId], ports.partitions);
  };

  const onBeat = (body: unknown) => {
    const { id, ready, at, version: its } = body as Beat;
    // An echo that lay in a buffer while this process was paused is as old as its sending.
    if (id === workerId) {
      echoAt = at;
      return;
    }
    // Who is new must not take this worker for dead only because its next beat is not due yet.
    if (!peers.has(id)) beat(isReady());
    peers.set(id, { heardAt: clock.monotonic(), ready, version: its });
  };

  /** Notices the dead, and that this process itself was paused or cut off. */
  const judge = () => {
    const now = clock.monotonic();
    // After a long pause of our own the peers' silence means nothing: they are heard anew first.
    if (now - lastTick > deadAfterMs) for (const peer of peers.values()) peer.heardAt = now;
    lastTick = now;
    for (const [id, peer] of peers) if (now - peer.heardAt > deadAfterMs) peers.delete(id);
    const cutOff = now - echoAt > deadAfterMs;
    if (isIsolated && !cutOff) startedAt = now;
    isIsolated = cutOff;
  };

  const balance = async (): Promise<void> => {
    const wanted = wantedNow();
    const dropped = [...owned].filter((partition) => !wanted.has(partition));
    if (dropped.length > 0) {
      await ports.beforeDrop();
      // A cut-off worker cannot write either; its claims are taken over by the others.
      if (!isIsolated) await ports.records.release(dropped, workerId);
      owned = new Set([...owned].filter((partition) => wanted.has(partition)));
      if (!isIsolated) ports.send('own.rel', { id: workerId });
    }
    const records = await claim([...wanted]);
    if (dropped.length > 0 || isChanged(records)) await startWith(records);
  };

  /** Whether partitions were won or lost, or have been somebody else's in between. */
  const isChanged = (records: PartitionRecord[]): boolean =>
    records.length !== owned.size ||
    !records.every(({ _id, epoch }) => owned.has(_id) && epochs.get(_id) === epoch);

  const startWith = async (records: PartitionRecord[]): Promise<void> => {
    owned = new Set(records.map(({ _id }) => _id));
    epochs = new Map(records.map(({ _id, epoch }) => [_id, epoch]));
    await ports.onChange(records);
  };

  /** A worker that was not heard for a moment may have been robbed without noticing. */
  const verify = async (): Promise<void> => {
    if (owned.size === 0) return;
    const records = await claimOwned();
    if (isChanged(records)) await startWith(records);
  };

  const claim = async (wanted: number[]): Promise<PartitionRecord[]> => {
    if (wanted.length === 0) return [];
    const now = clock.monotonic();
    if (now - (missingSince ?? now) > forceAfterMs) await ports.records.force(wanted, workerId);
    const records = await ports.records.claim(wanted, workerId, living());
    noteMissing(records.length < wanted.length);
    return records;
  };
  const noteMissing = (isMissing: boolean) => {
    missingSince = isMissing ? (missingSince ?? clock.monotonic()) : undefined;
  };
  const claimOwned = () =>
    owned.size === 0 ? Promise.resolve([]) : ports.records.claim([...owned], workerId, living());

  const tick = async () => {
    if (stopped) return;
    judge();
    beat(isReady());
    const wanted = wantedNow();
    const isSame = sameMembers(wanted, owned);
    noteMissing(!isSame);
    if (!isSame) await exclusively(balance);
  };

  const beat = (ready: boolean) => {
    beats += 1;
    ports.send(beatName, { id: workerId, ready, at: clock.monotonic(), version, n: beats } satisfies Beat);
  };

  /** One change at a time. One that failed half-way leaves nothing owned: the next beat claims anew. */
  const exclusively = (run: () => Promise<void>): Promise<void> => {
    running = running
      .catch(() => undefined)
      .then(run)
      .catch((cause: unknown) => {
        owned = new Set();
        throw cause;
      });
    return running;
  };

  const subscriptions = [
    ports.listen(beatName, onBeat),
    ports.listen('own.bye', (body) => {
      peers.delete((body as Beat).id);
      void tick().catch(ports.onError);
    }),
    ports.listen('own.rel', () => void tick().catch(ports.onError)),
    // The server that this process has come to may not know all who listen yet.
    ports.onReconnect(() => {
      beats += 1;
    }),
  ];
  beat(false);
  const beating = every(clock, () => (missingSince === undefined ? beatMs : retryMs), tick, ports.onError);
  const verifying = every(clock, verifyMs, () => exclusively(verify), ports.onError);

  return {
    owned: () => [...owned],
    isAlone: () => peers.size === 0,
    refresh: () =>
      exclusively(async () => {
        await startWith(await claimOwned());
      }),
    async stop() {
      stopped = true;
      await Promise.all([beating.stop(), verifying.stop()]);
      await running.catch(ports.onError);
      for (const subscription of subscriptions) subscription.stop();
      await ports.beforeDrop();
      // All that bear its name: a worker that was cut off a moment ago has kept no list of them.
      await ports.records.release(allOf(ports.partitions), workerId).catch(ports.onError);
      owned = new Set();
      ports.send('own.bye', { id: workerId });
      ports.send('own.rel', { id: workerId });
    },
  };
}

const allOf = (partitions: number) => Array.from({ length: partitions }, (_, partition) => partition);

/** Rendezvous hashing: each partition goes to the worker with the highest hash, so few move when one leaves. */
function wantedBy(workerId: string, ids: string[], partitions: number): Set<number> {
  const wanted = new Set<number>();
  for (let partition = 0; partition < partitions; partition += 1) {
    let best = '';
    let bestHash = -1;
    for (const id of ids) {
      const hash = rendezvousHash(id, partition);
      if (hash > bestHash || (hash === bestHash && id > best)) {
        best = id;
        bestHash = hash;
      }
    }
    if (best === workerId) wanted.add(partition);
  }
  return wanted;
}

const hashes = new Map<string, number>();
const maxHashes = 64 * 256;

function rendezvousHash(id: string, partition: number): number {
  const key = `${id}:${partition}`;
  const known = hashes.get(key);
  if (known !== undefined) return known;
  if (hashes.size >= maxHashes) hashes.clear();
  const hash = createHash('sha1').update(key).digest().readUInt32BE(0);
  hashes.set(key, hash);
  return hash;
}

function sameMembers(a: Set<number>, b: Set<number>): boolean {
  return a.size === b.size && [...a].every((member) => b.has(member));
}
