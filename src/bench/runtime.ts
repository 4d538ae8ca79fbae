/**
 * `npm run bench runtime`: what a durable step costs, and how soon the runtime moves again.
 *
 * A step is one stored transition (majority, journalled) with its fact published (sync_interval always). CPU is
 * user and system time of node, mongod and nats-server. The baseline is a bare loop of the same writes and
 * publishes, without machine, order or recovery, in alternation with the runtime.
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
import { newDocument } from '../actors/kind.ts';
import { startOwner } from '../actors/owner.ts';
import { startEmbedded } from '../embedded/embedded.ts';
import { createCounterKind } from './counter.ts';
import { cpuMsHere, cpuMsOf, quantile, report, round1, spread } from './cpu.ts';
import { openRuntimeRig, type Servers, silent } from './runtime-rig.ts';

const pairs = 5;
const stepsPerRun = 10_000;
const warmUp = 5_000;
/** So many that a document keeps about as many facts as an asset does. */
const actors = 2_000;
const projects = 40;
const lowLoadCommands = 300;
const kills = 5;

async function open(servers: Servers, name: string) {
  const rig = await openRuntimeRig(servers, name, 'counters', (store) => createCounterKind('counter', store));
  const kinds = new Map([[rig.kind.name, rig.kind]]);
  const start = (workerId: string) =>
    startOwner({
      workerId,
      partitions: runtime.partitions,
      kinds,
      bus: rig.bus,
      records: rig.records,
      clock: systemClock,
      log: silent,
    });
  return { ...rig, start };
}

type Rig = Awaited<ReturnType<typeof open>>;

const idOf = (n: number) => ({ id: `cnt${n % actors}`, project: `prj${n % projects}` });

async function fill({ store, kind }: Rig): Promise<void> {
  await store.collection.insertMany(
    Array.from({ length: actors }, (_, n) =>
      newDocument(kind, { ...idOf(n), input: undefined, ts: Date.now() }),
    ),
  );
}

/** The runtime at saturation: the commands wait in the stream, then the owner starts. */
async function runRuntime(rig: Rig, cpuMs: () => number, steps: number, round: number) {
  const { bus } = rig;
  for (let n = 0; n < steps; n += runtime.maxBatch) {
    await bus.publishAll(
      Array.from({ length: Math.min(runtime.maxBatch, steps - n) }, (_, i) => {
        const { id, project } = idOf(n + i);
        return {
          subject: bus.subjects.command(project, 'counter', id),
          id: `${round}:${n + i}`,
          body: { type: 'COUNT' },
        };
      }),
    );
  }
  const owner = rig.start(`bench-${round}`);
  while (owner.stats().steps === 0) await sleep(1);
  const first = owner.stats().steps;
  const begunAt = performance.now();
  const before = cpuMs();
  while (owner.stats().steps < steps) await sleep(5);
  const used = cpuMs() - before;
  const seconds = (performance.now() - begunAt) / 1_000;
  await owner.stop();
  return { usPerStep: (used * 1_000) / (steps - first), perSecond: (steps - first) / seconds };
}

/** The bare loop: the same writes and publishes in groups of the same size. */
async function runBare({ store, bus }: Rig, cpuMs: () => number, steps: number, round: number) {
  const documents = await store.load(Array.from({ length: actors }, (_, n) => idOf(n).id));
  const versions = new Map(documents.map(({ _id, version }) => [_id, version]));
  const begunAt = performance.now();
  const before = cpuMs();
  for (let n = 0; n < steps; n += runtime.maxBatch) {
    const group = Array.from({ length: Math.min(runtime.maxBatch, steps - n) }, (_, i) => idOf(n + i));
    const touched = new Map<string, number>();
    for (const { id } of group) touched.set(id, (touched.get(id) ?? 0) + 1);
    await store.collection.bulkWrite(
      [...touched].map(([_id, count]) => {
        const version = versions.get(_id) ?? 0;
        versions.set(_id, version + count);
        const facts = Array.from({ length: count }, (_, i) => ({
          seq: n,
          n: i,
          ts: Date.now(),
          event: 'counted',
          count: n,
        }));
        const machine = { version: 1, value: 'counting', context: { count: n } };
        return {
          updateOne: {
            filter: { _id, version },
            update: {
              $set: { version: version + count, seq: n, machine, updatedTs: Date.now() },
              $push: { facts: { $each: facts } },
            },
          },
        };
      }),
      { ordered: false, writeConcern: { w: 'majority', journal: true } },
    );
    await bus.publishAll(
      group.map(({ id, project }, i) => ({
        subject: bus.subjects.fact(project, id, 'counted'),
        id: `bare${round}:${n + i}`,
        body: { ts: Date.now(), event: 'counted', count: n, asset_id: id, project_id: project },
      })),
    );
  }
  const used = cpuMs() - before;
  return { usPerStep: (used * 1_000) / steps, perSecond: (steps / (performance.now() - begunAt)) * 1_000 };
}

/** One command at a time: from publishing it to having its fact. */
async function lowLoad(rig: Rig): Promise<number[]> {
  const { bus } = rig;
  const owner = rig.start('low-load');
  while (owner.stats().owned < runtime.partitions) await sleep(20);
  const waiting = new Map<string, (at: number) => void>();
  const subscription = bus.onFacts('*', '*', 'counted', (fact) => {
    waiting.get((fact as { asset_id: string }).asset_id)?.(performance.now());
  });
  await bus.flush();
  const latencies: number[] = [];
  for (let n = 0; n < lowLoadCommands; n += 1) {
    const { id, project } = idOf(n);
    const answered = new Promise<number>((resolve) => waiting.set(id, resolve));
    const sentAt = performance.now();
    await bus.publish({
      subject: bus.subjects.command(project, 'counter', id),
      id: `low:${n}`,
      body: { type: 'COUNT' },
    });
    latencies.push((await answered) - sentAt);
    await sleep(5);
  }
  subscription.stop();
  await owner.stop();
  return latencies;
}

/** Kills the worker process again and again, restarts it at once, and waits for the next fact. */
async function killed(rig: Rig, servers: Servers, name: string): Promise<number[]> {
  const { bus } = rig;
  let lastFactAt = 0;
  const subscription = bus.onFacts('*', '*', 'counted', () => {
    lastFactAt = performance.now();
  });
  let isSending = true;
  const sending = (async () => {
    for (let n = 0; isSending; n += 1) {
      const { id, project } = idOf(n);
      await bus.publish({
        subject: bus.subjects.command(project, 'counter', id),
        id: `kill:${n}`,
        body: { type: 'COUNT' },
      });
      await sleep(5);
    }
  })();
  const startWorker = () =>
    fork(fileURLToPath(import.meta.url), ['worker', JSON.stringify(servers), name], { stdio: 'ignore' });
  let worker = startWorker();
  const gaps: number[] = [];
  while (gaps.length < kills) {
    const aliveFrom = performance.now();
    while (lastFactAt < aliveFrom) await sleep(5);
    await sleep(500);
    worker.kill('SIGKILL');
    await once(worker, 'exit');
    const killedAt = performance.now();
    worker = startWorker();
    // Facts that were on their way when it died do not count.
    await sleep(50);
    const from = performance.now();
    while (lastFactAt < from) await sleep(2);
    gaps.push(lastFactAt - killedAt);
  }
  isSending = false;
  await sending;
  subscription.stop();
  worker.kill('SIGTERM');
  await once(worker, 'exit');
  return gaps;
}

async function main(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-runtime-'));
  const embedded = await startEmbedded({ dataDir, log: silent, mongodb: true, nats: true });
  const servers = { mongodbUrl: embedded.mongodbUrl ?? '', natsUrl: embedded.natsUrl ?? '' };
  const cpuMs = () => cpuMsHere() + embedded.pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
  try {
    const name = `bench${process.pid}`;
    const rig = await open(servers, name);
    await fill(rig);
    await runBare(rig, cpuMs, warmUp, -1);
    await runRuntime(rig, cpuMs, warmUp, -1);
    const bare: Measured[] = [];
    const ours: Measured[] = [];
    for (let round = 0; round < pairs; round += 1) {
      bare.push(await runBare(rig, cpuMs, stepsPerRun, round));
      ours.push(await runRuntime(rig, cpuMs, stepsPerRun, round));
    }
    const ratios = ours.map(({ usPerStep }, n) => usPerStep / (bare[n]?.usPerStep ?? 0));
    const latencies = await lowLoad(rig);
    const gaps = await killed(rig, servers, name);
    await rig.close();
    report({
      bench: 'runtime',
      stepCpuUs: spread(
        ours.map(({ usPerStep }) => usPerStep),
        0,
      ),
      bareCpuUs: spread(
        bare.map(({ usPerStep }) => usPerStep),
        0,
      ),
      ratio: spread(ratios),
      stepsPerSecond: spread(
        ours.map(({ perSecond }) => perSecond),
        0,
      ),
      lowLoadMs: { p50: round1(quantile(latencies, 0.5)), p99: round1(quantile(latencies, 0.99)) },
      afterKillMs: spread(gaps, 0),
      limits: { ratio: 1.5, stepsPerSecond: 3_000, lowLoadP50Ms: 8, afterKillMs: 2_500 },
    });
  } finally {
    await embedded.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

type Measured = { usPerStep: number; perSecond: number };

async function runWorker([servers = '', name = '']: string[]): Promise<void> {
  const rig = await open(JSON.parse(servers) as Servers, name);
  const owner = rig.start(`worker-${process.pid}`);
  await once(process, 'SIGTERM');
  await owner.stop();
  process.exit(0);
}

const [role, ...rest] = process.argv.slice(2);
await (role === 'worker' ? runWorker(rest) : main());
