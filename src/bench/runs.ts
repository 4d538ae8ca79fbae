/**
 * `npm run bench runs`: whole runs of durable work, beside Restate when npm has it.
 *
 *   cost       six steps that do nothing, a hundred runs at once: CPU per 1,000 runs, alone, bytes at rest
 *   sleepers   100,000 that wait for a time: what they cost, how late they wake
 *   fairness   one run of a project beside a thousand of another
 *
 * A step is one message to a worker, its answer stored (majority, journalled) and one fact published (sync_interval
 * always). CPU is user and system time of node, mongod and nats-server.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runtime } from '../../schemas/limits.ts';
import { systemClock } from '../actors/clock.ts';
import { type ActorKind, newDocument } from '../actors/kind.ts';
import { startOwner } from '../actors/owner.ts';
import { createSlots } from '../actors/slots.ts';
import { type Effect, startWorker } from '../actors/worker.ts';
import { startEmbedded } from '../embedded/embedded.ts';
import type { ActorDocument } from '../store/actors.ts';
import { cpuMsHere, cpuMsOf, quantile, report, round1, rssMbOf, spread } from './cpu.ts';
import { startRestate } from './runs-restate.ts';
import { openRuntimeRig, type Servers, silent } from './runtime-rig.ts';
import { createStepsKind, type StepsInput, stepsKind } from './steps.ts';

const rounds = 5;
const atOnce = 100;
const runsPerRound = 1_000;
const warmUpRuns = 500;
const aloneRuns = 200;
const projects = 40;
const steps = 6;
const sleepers = 100_000;
const spreadMs = 60_000;
const crowd = 1_000;
const slowStepMs = 100;
const slowSlots = 10;

async function open(servers: Servers, name: string) {
  const rig = await openRuntimeRig(servers, name, 'runs', createStepsKind);
  const { kind, bus, records } = rig;
  return {
    ...rig,
    /** Owner and worker. @param stepMs how long a step takes. */
    async start(stepMs = 0) {
      const kinds = new Map<string, ActorKind>([[kind.name, kind]]);
      const workerId = `bench-${process.pid}-${Date.now()}`;
      const common = { bus, clock: systemClock, log: silent };
      const owner = startOwner({ workerId, partitions: runtime.partitions, kinds, records, ...common });
      const gauge = { running: 0, most: 0, done: 0 };
      const slots = createSlots({ steps: stepMs > 0 ? slowSlots : atOnce });
      const worker = await startWorker({ effects: { work: createStep(stepMs, gauge) }, slots, ...common });
      while (owner.stats().owned < runtime.partitions) await sleep(10);
      return {
        gauge,
        async stop() {
          await worker.stop();
          await owner.stop();
        },
      };
    },
  };
}

type Rig = Awaited<ReturnType<typeof open>>;
type Gauge = { running: number; most: number; done: number };

function createStep(stepMs: number, gauge: Gauge): Effect {
  return {
    slot: 'steps',
    perProject: () => atOnce,
    errorCode: 'merge_failed',
    async run({ stage }: { stage: string }) {
      gauge.running += 1;
      gauge.most = Math.max(gauge.most, gauge.running);
      if (stepMs > 0) await sleep(stepMs);
      gauge.running -= 1;
      gauge.done += 1;
      return { type: 'DONE', stage };
    },
  };
}

/** Resolves runs when their last fact is heard. */
function watch({ bus }: Rig) {
  const waiting = new Map<string, () => void>();
  const subscription = bus.onFacts('*', '*', 'finished', (fact) => {
    waiting.get((fact as { asset_id: string }).asset_id)?.();
  });
  return {
    ended: (id: string) =>
      new Promise<void>((resolve) => {
        waiting.set(id, () => {
          waiting.delete(id);
          resolve();
        });
      }),
    stop: () => subscription.stop(),
  };
}

type Watch = ReturnType<typeof watch>;

const noSleep: StepsInput = { steps, sleepMs: 0 };

/** Accepts a run as the service does: a document, then the message that starts it. */
async function begin({ store, bus, kind }: Rig, id: string, project: string): Promise<void> {
  await store.insert(newDocument(kind, { id, project, input: noSleep, ts: Date.now() }));
  await bus.publish({
    subject: bus.subjects.command(project, stepsKind, id),
    id: `${id}:start`,
    body: { type: 'START' },
  });
}

/** Runs with so many at once. */
async function runMany(rig: Rig, watching: Watch, name: string, count: number, together: number) {
  const tookMs: number[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: together }, async () => {
      while (next < count) {
        const n = next;
        next += 1;
        const id = `${name}_${n}`;
        const ended = watching.ended(id);
        const begunAt = performance.now();
        await begin(rig, id, `prj${n % projects}`);
        await ended;
        tookMs.push(performance.now() - begunAt);
      }
    }),
  );
  return tookMs;
}

type Round = { cpuSeconds: number; perSecond: number };

async function measureRound(cpuMs: () => number, run: () => Promise<unknown>): Promise<Round> {
  const before = cpuMs();
  const begunAt = performance.now();
  await run();
  const seconds = (performance.now() - begunAt) / 1_000;
  // Per 1,000 runs, s: ms a run.
  return { cpuSeconds: (cpuMs() - before) / runsPerRound, perSecond: runsPerRound / seconds };
}

const describe = (all: Round[]) => ({
  cpuSecondsPer1000: spread(all.map(({ cpuSeconds }) => cpuSeconds)),
  runsPerSecond: spread(
    all.map(({ perSecond }) => perSecond),
    0,
  ),
});

async function measureCost(rig: Rig, cpuMs: () => number) {
  const service = await rig.start();
  const watching = watch(rig);
  const peer = await startRestate(steps);
  const ours: Round[] = [];
  const theirs: Round[] = [];
  await runMany(rig, watching, 'warm', warmUpRuns, atOnce);
  if ('run' in peer) await peer.run(warmUpRuns, atOnce);
  for (let round = 0; round < rounds; round += 1) {
    ours.push(await measureRound(cpuMs, () => runMany(rig, watching, `r${round}`, runsPerRound, atOnce)));
    if ('run' in peer) theirs.push(await measureRound(peer.cpuMs, () => peer.run(runsPerRound, atOnce)));
  }
  const alone = await runMany(rig, watching, 'alone', aloneRuns, 1);
  const peerAlone = 'run' in peer ? await peer.run(aloneRuns, 1) : [];
  watching.stop();
  await service.stop();
  const repeated = service.gauge.done - (warmUpRuns + rounds * runsPerRound + aloneRuns) * steps;
  const { restBytes } = await sizeOf(rig);
  const restate = 'run' in peer ? { ...describe(theirs), aloneMs: percentiles(peerAlone) } : peer.missing;
  if ('run' in peer) await peer.stop();
  return {
    ...describe(ours),
    aloneMs: percentiles(alone),
    restBytes,
    stepsRepeated: repeated,
    restate,
    ...(theirs.length > 0 ? { toRestate: compare(ours, theirs) } : {}),
    limits: { cpuSecondsPer1000: 2.2, toRestate: 0.65, p50: 8, p99: 20, restBytes: 1_024 },
  };
}

const compare = (ours: Round[], theirs: Round[]) => ({
  cpu: spread(ours.map(({ cpuSeconds }, n) => cpuSeconds / (theirs[n]?.cpuSeconds ?? 0))),
  runsPerSecond: spread(ours.map(({ perSecond }, n) => perSecond / (theirs[n]?.perSecond ?? 0))),
});

const percentiles = (ms: number[]) => ({ p50: round1(quantile(ms, 0.5)), p99: round1(quantile(ms, 0.99)) });

/** Bytes on disk of a document, with and without its indexes, once everything is written there. */
async function sizeOf({ db }: Rig) {
  await db.admin().command({ fsync: 1 });
  const [stats] = await db
    .collection('runs')
    .aggregate<{
      storageStats: { size: number; count: number; storageSize: number; totalIndexSize: number };
    }>([{ $collStats: { storageStats: {} } }])
    .toArray();
  const { count = 1, storageSize = 0, totalIndexSize = 0 } = stats?.storageStats ?? {};
  return {
    restBytes: Math.round(storageSize / count),
    withIndexesBytes: Math.round((storageSize + totalIndexSize) / count),
  };
}

/** A process of its own, so that what sleepers cost it can be seen. */
async function measureSleepers(rig: Rig, _: () => number, servers: Servers, name: string) {
  const startProcess = async () => {
    const child = fork(fileURLToPath(import.meta.url), ['worker', JSON.stringify(servers), name]);
    const begunAt = performance.now();
    const [readyMs] = (await once(child, 'message')) as [number];
    return { child, readyMs, wholeMs: performance.now() - begunAt, rssMb: rssMbOf(child.pid ?? 0) };
  };
  const stopProcess = async ({ child }: Awaited<ReturnType<typeof startProcess>>) => {
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  const empty = await startProcess();
  await stopProcess(empty);
  const leadMs = 90_000;
  const firstDueTs = Date.now() + leadMs;
  await insertSleepers(rig, firstDueTs);
  const size = await sizeOf(rig);
  const full = await startProcess();
  const before = cpuMsOf(full.child.pid ?? 0);
  const idleMs = Math.max(1_000, firstDueTs - Date.now() - 5_000);
  await sleep(idleMs);
  const idleCpuPercent = ((cpuMsOf(full.child.pid ?? 0) - before) / idleMs) * 100;
  const idleRssMb = rssMbOf(full.child.pid ?? 0);
  const awake = () => rig.store.collection.countDocuments({ state: 'finished' }, { hint: { _id: 1 } });
  while ((await awake()) < sleepers) await sleep(2_000);
  const lateMs: number[] = [];
  const found = rig.store.collection.find({}, { projection: { facts: 1, 'machine.context': 1 } });
  for await (const { facts, machine } of found) {
    const { dueTs = 0 } = machine.context as StepsInput;
    lateMs.push((facts[0]?.ts ?? Number.POSITIVE_INFINITY) - dueTs);
  }
  await stopProcess(full);
  return {
    sleepers,
    storeBytes: size.withIndexesBytes,
    rssMb: { empty: Math.round(empty.rssMb), full: Math.round(idleRssMb) },
    startMs: { empty: Math.round(empty.readyMs), full: Math.round(full.readyMs) },
    idleCpuPercent: round1(idleCpuPercent),
    lateMs: percentiles(lateMs),
    limits: { storeBytes: 1_024, startMs: 1_000, lateP99Ms: 1_000 },
  };
}

/** As the runtime leaves them, due one after the other within a minute. */
async function insertSleepers({ store, kind }: Rig, firstDueTs: number): Promise<void> {
  const now = Date.now();
  const partitionOf = (n: number) => n % runtime.partitions;
  for (let from = 0; from < sleepers; from += 5_000) {
    const some = Array.from({ length: Math.min(5_000, sleepers - from) }, (_, i): ActorDocument => {
      const n = from + i;
      const dueTs = firstDueTs + Math.floor((n * spreadMs) / sleepers);
      const input: StepsInput = { ...noSleep, sleepMs: dueTs - now, dueTs };
      const made = newDocument(kind, { id: `slp_${n}`, project: `prj${n % projects}`, input, ts: now });
      const { snapshot, timers } = kind.stepper.step(made.machine, { type: 'START', ts: now });
      const armed = timers.flatMap((timer) =>
        'set' in timer ? [{ id: timer.set, at: dueTs, armed: 1, event: timer.event }] : [],
      );
      const machine = { version: made.machine.version, ...snapshot };
      const stored = { partition: partitionOf(n % projects), version: 1, seq: 0, machine, state: 'asleep' };
      return { ...made, ...stored, timers: armed, dueTs };
    });
    await store.collection.insertMany(some);
  }
}

async function measureFairness(rig: Rig) {
  const service = await rig.start(slowStepMs);
  const watching = watch(rig);
  const runOne = async (id: string): Promise<number> => {
    const ended = watching.ended(id);
    const begunAt = performance.now();
    await begin(rig, id, 'small');
    await ended;
    return performance.now() - begunAt;
  };
  await runOne('first');
  const alone: number[] = [];
  for (let n = 0; n < rounds; n += 1) alone.push(await runOne(`alone_${n}`));
  await Promise.all(Array.from({ length: crowd }, (_, n) => begin(rig, `crowd_${n}`, 'large')));
  while (service.gauge.running < slowSlots) await sleep(10);
  const beside: number[] = [];
  for (let n = 0; n < rounds; n += 1) beside.push(await runOne(`beside_${n}`));
  watching.stop();
  const { most } = service.gauge;
  await service.stop();
  return {
    aloneMs: spread(alone, 0),
    besideMs: spread(beside, 0),
    ratio: spread(beside.map((ms, n) => ms / (alone[n] ?? 0))),
    mostAtOnce: most,
    limits: { ratio: 2, mostAtOnce: slowSlots },
  };
}

async function runWorker([servers = '', name = '']: string[]): Promise<void> {
  const rig = await open(JSON.parse(servers) as Servers, name);
  const begunAt = performance.now();
  const service = await rig.start();
  process.send?.(performance.now() - begunAt);
  await once(process, 'SIGTERM');
  await service.stop();
  process.exit(0);
}

const modes = { cost: measureCost, sleepers: measureSleepers, fairness: measureFairness };

async function main(mode: string | undefined): Promise<void> {
  const wanted = Object.entries(modes).filter(([name]) => mode === undefined || name === mode);
  if (wanted.length === 0) throw new TypeError(`the mode is one of ${Object.keys(modes).join(', ')}`);
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-runs-'));
  const embedded = await startEmbedded({ dataDir, log: silent, mongodb: true, nats: true });
  const servers = { mongodbUrl: embedded.mongodbUrl ?? '', natsUrl: embedded.natsUrl ?? '' };
  const cpuMs = () => cpuMsHere() + embedded.pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
  try {
    const results: Record<string, unknown> = {};
    for (const [name, measure] of wanted) {
      const database = `runs${process.pid}${name}`;
      const rig = await open(servers, database);
      results[name] = await measure(rig, cpuMs, servers, database);
      await rig.close();
    }
    report({ bench: 'runs', ...results });
  } finally {
    await embedded.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

const [role, ...rest] = process.argv.slice(2);
await (role === 'worker' ? runWorker(rest) : main(role));
