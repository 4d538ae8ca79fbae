/**
 * `npm run bench webhooks`: what a delivery costs, how soon it arrives, and what bad endpoints do to good ones.
 *
 * From stored fact to received request. CPU is user and system time of the sending process, mongod and
 * nats-server; the receiver is a process of its own and not counted. The baseline (webhooks-bare.ts) is the same
 * writes, posts and publishes without anything around them, in alternation. The best systems that were measured take
 * 1,290 and 1,640 µs with their stores, and 20 hanging endpoints of 100 multiply their p99 by 195.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { webhook as limits, runtime } from '../../schemas/limits.ts';
import { systemClock } from '../actors/clock.ts';
import { startOwner } from '../actors/owner.ts';
import { createSecretBox } from '../auth/secret-box.ts';
import { openBus } from '../bus/bus.ts';
import { startDeliveries } from '../deliveries.ts';
import { freePort } from '../demo/free-port.ts';
import { startEmbedded } from '../embedded/embedded.ts';
import { createLog } from '../log.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { openStore } from '../store/client.ts';
import { newWebhookSecret } from '../webhooks/sign.ts';
import { cpuMsOf, median, quantile, report, rssMbOf, spread } from './cpu.ts';
import { memoryEnv, nodeOptions } from './processes.ts';
import { bareEvent, startBareDeliveries } from './webhooks-bare.ts';

const endpoints = 100;
const steadyPerSecond = 100;
const steadySeconds = 20;
const hostileDeliveries = 1_000;
/** Before a process is looked at: it tidies up by itself. */
const restMs = 3_000;
const log = createLog('silent');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    events: { type: 'string', default: '5000' },
    /** Of `cost`: each measures all three. */
    rounds: { type: 'string', default: '5' },
    kills: { type: 'string', default: '30' },
    /** Events that wait for an endpoint that is down: in `memory` and `outage`. */
    waiting: { type: 'string', default: '100000' },
    /** Seconds that the endpoint of `outage` is down. */
    down: { type: 'string', default: '60' },
  },
});
const perRound = Number(values.events);
const waiting = Number(values.waiting);
const atOnce = Math.min(waiting, 10_000);

type Servers = { mongodbUrl: string; natsUrl: string; name: string };

async function openParts({ mongodbUrl, natsUrl, name }: Servers) {
  const box = createSecretBox([Buffer.alloc(32, 7)]);
  const store = await openStore(mongodbUrl, name, { log, box });
  await store.partitions.ensure(runtime.partitions);
  const bus = await openBus({
    url: natsUrl,
    prefix: `${name}.`,
    replicas: 1,
    lastPosition: async () => 0,
    log,
  });
  return { store, bus };
}

// ── The sending process ─────────────────────────────────────────────────────────────────────────

async function runWorker(servers: Servers): Promise<void> {
  const { store, bus } = await openParts(servers);
  const outbound = createOutbound({ allow: ['127.0.0.0/8'], denyPorts: [] });
  const webhook = {
    ...limits,
    scheduleMs: [...limits.scheduleMs],
    followsRetryAfter: false,
    egressProxy: undefined,
  };
  const config = { webhook, baseUrl: 'http://localhost:1', isDevelopment: true };
  const workerId = `bench-${process.pid}`;
  const start = async () => {
    const deliveries = await startDeliveries({ config, log, store, bus, outbound }, workerId);
    const owner = startOwner({
      workerId,
      partitions: runtime.partitions,
      kinds: new Map([[deliveries.kind.name, deliveries.kind]]),
      bus,
      records: store.partitions,
      clock: systemClock,
      log,
      onOwned: deliveries.onOwned,
    });
    while (owner.stats().owned < runtime.partitions) await sleep(20);
    return async () => {
      await deliveries.stop();
      await owner.stop();
    };
  };
  let stop = await start();
  process.on('message', (message: string) => {
    const next = message === 'go' ? start : () => startBareDeliveries({ store, bus }, message);
    const turn =
      message === 'pause'
        ? stop()
        : next().then((stopNext) => {
            stop = stopNext;
          });
    void turn.then(() => process.send?.('done'));
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.('done');
}

// ── The receiving process ───────────────────────────────────────────────────────────────────────

/** Answers by the first part of the path, and tells when each event has arrived first (unix ms). */
async function runReceiver(port: number): Promise<void> {
  const arrivals = new Map<string, number>();
  let requests = 0;
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const answers: Record<string, (response: ServerResponse) => void> = {
    ok: (response) => response.end('ok'),
    hang: () => undefined,
    endless: (response) => pour(response, Number.POSITIVE_INFINITY),
    large: (response) => pour(response, 50 * 1024 * 1024),
    bomb: (response) => response.setHeader('content-encoding', 'gzip').end(bomb),
    drip: (response) => drip(response),
  };
  const server = createServer((request, response) => {
    const [, kind = ''] = request.url?.split('/') ?? [];
    request.resume().on('end', () => {
      requests += 1;
      const id = String(request.headers['webhook-id']);
      if (!arrivals.has(id)) arrivals.set(id, Date.now());
      response.on('error', () => undefined);
      answers[kind]?.(response);
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  process.on('message', (message) => {
    if (message === 'count') process.send?.({ count: arrivals.size, requests });
    if (message === 'take') process.send?.({ arrivals: [...arrivals] });
    if (message === 'forget') arrivals.clear();
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.({ port: (server.address() as AddressInfo).port });
}

const block = Buffer.alloc(64 * 1024, 'x');

function pour(response: ServerResponse, bytes: number): void {
  let left = bytes;
  const more = () => {
    while (left > 0 && !response.destroyed) {
      left -= block.length;
      if (!response.write(block)) return void response.once('drain', more);
    }
    response.end();
  };
  more();
}

function drip(response: ServerResponse): void {
  const timer = setInterval(() => response.write('.'), 200);
  response.on('close', () => clearInterval(timer));
}

async function ask<Answer>(child: ChildProcess, question: string): Promise<Answer> {
  const answered = once(child, 'message');
  child.send(question);
  return (await answered)[0] as Answer;
}

// ── The measurements ────────────────────────────────────────────────────────────────────────────

type Rig = Awaited<ReturnType<typeof openParts>> & {
  servers: Servers;
  receiver: ChildProcess;
  port: number;
  serverPids: number[];
};

let issued = 0;

function factsFor(projects: string[], count: number) {
  return Array.from({ length: count }, (_, n) => {
    issued += 1;
    return {
      event: 'ready',
      ts: Date.now() + issued,
      attempt: 1,
      request_id: 'req_bench',
      asset_id: `ast_${String(issued).padStart(20, '0')}`,
      project_id: projects[n % projects.length] ?? '',
      run: 1,
      mp4_url: 'https://example.com/media/an-asset/1-a-rather-long-hash-of-its-bytes.mp4',
      poster_url: 'https://example.com/media/an-asset/1-a-rather-long-hash-of-its-bytes.jpg',
      bytes: 1_234_567,
      loop_mode: 'native',
    };
  });
}

type Fact = ReturnType<typeof factsFor>[number];

async function publish({ bus }: Rig, facts: Fact[], event = 'ready'): Promise<void> {
  await bus.publishAll(
    facts.map((fact) => ({
      subject: bus.subjects.fact(fact.project_id, fact.asset_id, event),
      id: `${fact.asset_id}:1`,
      body: fact,
    })),
  );
}

/** Projects whose endpoint answers in one way. */
async function configure(rig: Rig, name: string, count: number, kind: string, port = rig.port) {
  const projects = Array.from({ length: count }, (_, n) => `${name}${n}`);
  for (const project of projects) {
    const url = `http://127.0.0.1:${port}/${kind}/${project}`;
    await rig.store.webhooks.save(
      project,
      { url, events: ['asset.completed'], isEnabled: true },
      newWebhookSecret(),
      Date.now(),
    );
  }
  return projects;
}

async function startProcess(servers: Servers): Promise<ChildProcess> {
  const worker = fork(fileURLToPath(import.meta.url), ['worker', JSON.stringify(servers)], {
    env: { ...process.env, ...memoryEnv },
    execArgv: nodeOptions,
  });
  await once(worker, 'message');
  return worker;
}

async function stopProcess(worker: ChildProcess): Promise<void> {
  await ask(worker, 'pause');
  worker.disconnect();
  await once(worker, 'exit');
}

/** CPU ms so far, of node and of each server. */
const cpuOf = ({ serverPids }: Rig, worker: ChildProcess) => [worker.pid ?? 0, ...serverPids].map(cpuMsOf);

async function untilReceived({ receiver }: Rig, count: number): Promise<void> {
  while ((await ask<{ count: number }>(receiver, 'count')).count < count) await sleep(20);
}

/** At saturation: the facts wait in the stream, then the sending process, warm, begins to follow them. */
async function saturate(rig: Rig, worker: ChildProcess, projects: string[], count: number, isBare = false) {
  rig.receiver.send('forget');
  await ask(worker, 'pause');
  await publish(rig, factsFor(projects, count), isBare ? bareEvent : 'ready');
  await sleep(500);
  const before = cpuOf(rig, worker);
  worker.send(isBare ? `http://127.0.0.1:${rig.port}/ok` : 'go');
  await untilReceived(rig, 1);
  const begunAt = performance.now();
  await untilReceived(rig, count);
  const seconds = (performance.now() - begunAt) / 1_000;
  while (await rig.store.deliveries.actors.collection.findOne({ state: 'sending' })) await sleep(50);
  const parts = cpuOf(rig, worker).map((ms, n) => ((ms - (before[n] ?? 0)) * 1_000) / count);
  return { us: parts.reduce((sum, us) => sum + us, 0), parts, perSecond: count / seconds };
}

/** At a steady rate: ms from publishing a fact to its request, of the projects that `isCounted`. */
async function steady(rig: Rig, projects: string[], isCounted: (project: string) => boolean) {
  rig.receiver.send('forget');
  const sentAt = new Map<string, number>();
  const facts = factsFor(projects, steadyPerSecond * steadySeconds);
  const begunAt = performance.now();
  const publishing: Promise<void>[] = [];
  for (const [n, fact] of facts.entries()) {
    await sleep(Math.max(0, begunAt + (n * 1_000) / steadyPerSecond - performance.now()));
    sentAt.set(fact.asset_id, Date.now());
    publishing.push(publish(rig, [fact]));
  }
  await Promise.all(publishing);
  const counted = facts.filter(({ project_id }) => isCounted(project_id));
  await sleep(1_500);
  const { arrivals } = await ask<{ arrivals: [string, number][] }>(rig.receiver, 'take');
  const arrivedAt = new Map(arrivals);
  const made = await rig.store.deliveries.actors.collection
    .find({ 'index.assetId': { $in: counted.map(({ asset_id }) => asset_id) } })
    .project<{ index: { assetId: string }; machine: { context: { eventId: string } } }>({
      'index.assetId': 1,
      'machine.context.eventId': 1,
    })
    .toArray();
  const latencies = made.map(({ index, machine }) => {
    const arrived = arrivedAt.get(machine.context.eventId) ?? Number.POSITIVE_INFINITY;
    return arrived - (sentAt.get(index.assetId) ?? 0);
  });
  return {
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    missing: counted.length - made.length,
  };
}

/**
 * Resident memory above what the sending process has at rest, at most, while something goes on. It has made deliveries
 * before: the first of them make any process grow.
 */
async function growth(rig: Rig, warmUp: () => Promise<void>, run: () => Promise<void>): Promise<number> {
  const worker = await startProcess(rig.servers);
  await warmUp();
  await sleep(restMs);
  const before = rssMbOf(worker.pid ?? 0);
  let most = before;
  const watching = setInterval(() => {
    most = Math.max(most, rssMbOf(worker.pid ?? 0));
  }, 100);
  await run();
  clearInterval(watching);
  await stopProcess(worker);
  return Math.round(most - before);
}

async function measureCost(rig: Rig) {
  const one = await configure(rig, 'one', 1, 'ok');
  const many = await configure(rig, 'many', endpoints, 'ok');
  const worker = await startProcess(rig.servers);
  // The baseline's reader begins with what is published after its first call.
  await ask(worker, 'pause');
  await ask(worker, `http://127.0.0.1:${rig.port}/ok`);
  for (const projects of [many, one]) {
    for (const isBare of [true, false]) await saturate(rig, worker, projects, perRound / 4, isBare);
  }
  type Saturated = Awaited<ReturnType<typeof saturate>>;
  const toOne: Saturated[] = [];
  const toMany: Saturated[] = [];
  const bare: Saturated[] = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    toOne.push(await saturate(rig, worker, one, perRound));
    bare.push(await saturate(rig, worker, many, perRound, true));
    toMany.push(await saturate(rig, worker, many, perRound));
  }
  await stopProcess(worker);
  const cpuUs = (all: { us: number }[]) =>
    spread(
      all.map(({ us }) => us),
      0,
    );
  const perSecond = (all: { perSecond: number }[]) =>
    spread(
      all.map((each) => each.perSecond),
      0,
    );
  const describe = (all: { us: number; parts: number[]; perSecond: number }[]) => {
    const medianOf = (part: number) => Math.round(median(all.map(({ parts }) => parts[part] ?? 0)));
    // The servers in the order in which startEmbedded names them.
    const [node, mongod, natsServer] = [0, 1, 2].map(medianOf);
    return { cpuUs: cpuUs(all), node, mongod, natsServer, perSecond: perSecond(all) };
  };
  const ratio = spread(toMany.map(({ us }, n) => us / (bare[n]?.us ?? 0)));
  return { oneEndpoint: describe(toOne), hundredEndpoints: describe(toMany), bare: describe(bare), ratio };
}

async function measureLatency(rig: Rig) {
  const worker = await startProcess(rig.servers);
  const results: Record<string, unknown> = {};
  for (const hanging of [0, 1, 20]) {
    const bad = await configure(rig, `bad${hanging}x`, hanging, 'hang');
    const good = await configure(rig, `good${hanging}x`, endpoints - hanging, 'ok');
    const isGood = new Set(good);
    await steady(rig, good.slice(0, 10), () => true).catch(() => undefined);
    results[`hanging${hanging}`] = await steady(rig, [...bad, ...good], (project) => isGood.has(project));
  }
  await stopProcess(worker);
  return results;
}

/**
 * An endpoint is down while events come, and comes back: how long until it has them all, what was tried in
 * vain meanwhile, and what its owner has to send again because it is dead.
 */
async function measureOutage(rig: Rig) {
  const port = await freePort();
  const [project = ''] = await configure(rig, 'outage', 1, 'ok', port);
  const { collection } = rig.store.deliveries.actors;
  const worker = await startProcess(rig.servers);
  const downAt = performance.now();
  for (let n = 0; n < waiting; n += atOnce) await publish(rig, factsFor([project], atOnce));
  while ((await collection.countDocuments({ project })) < waiting) await sleep(500);
  await sleep(Math.max(0, downAt + Number(values.down) * 1_000 - performance.now()));
  const [most] = await collection
    .find({ project })
    .sort({ 'machine.context.made': -1 })
    .limit(1)
    .project<{ machine: { context: { made: number } } }>({ 'machine.context.made': 1 })
    .toArray();

  const receiver = await startReceiver(port);
  const backAt = performance.now();
  let redelivered = 0;
  while ((await ask<{ count: number }>(receiver, 'count')).count < waiting) {
    await sleep(1_000);
    redelivered += await redeliverDead(rig, project);
  }
  const backSeconds = (performance.now() - backAt) / 1_000;
  while (await collection.findOne({ project, state: { $ne: 'delivered' } })) await sleep(500);
  const { requests } = await ask<{ requests: number }>(receiver, 'count');
  await stopProcess(worker);
  receiver.disconnect();
  return {
    downSeconds: Number(values.down),
    events: waiting,
    mostAttempts: most?.machine.context.made,
    backSeconds: Math.round(backSeconds),
    redelivered,
    repeated: requests - waiting,
  };
}

/** As `POST …/deliveries/redeliver` does. Answers how many. */
async function redeliverDead({ store, bus }: Rig, project: string): Promise<number> {
  const dead = await store.deliveries.inState(project, 'dead', 1_000, {});
  await bus.publishAll(
    dead.map(({ id, made }) => ({
      subject: bus.subjects.command(project, 'delivery', id),
      id: `${id}:dead:${made}`,
      body: { type: 'REDELIVER', isAnnounced: true, made },
    })),
  );
  return dead.length;
}

async function startReceiver(port: number): Promise<ChildProcess> {
  const receiver = fork(fileURLToPath(import.meta.url), ['receiver', String(port)]);
  await once(receiver, 'message');
  return receiver;
}

async function measureMemory(rig: Rig) {
  const deliverTo = async (projects: string[]) => {
    rig.receiver.send('forget');
    await publish(rig, factsFor(projects, hostileDeliveries));
    await untilReceived(rig, hostileDeliveries);
    await sleep(2_000);
  };
  const usual = await configure(rig, 'usual', 20, 'ok');
  const warmUp = () => deliverTo(usual);
  const down = await configure(rig, 'down', 1, 'ok', await freePort());
  const waitingMb = await growth(rig, warmUp, async () => {
    for (let n = 0; n < waiting; n += atOnce) await publish(rig, factsFor(down, atOnce));
    const { collection } = rig.store.deliveries.actors;
    while ((await collection.countDocuments({ project: down[0] ?? '' })) < waiting) await sleep(500);
    await sleep(3_000);
  });
  await rig.store.deliveries.removeAllOf(down);
  const hostile = await Promise.all(
    ['endless', 'large', 'bomb', 'drip'].map((kind) => configure(rig, kind, 5, kind)),
  );
  const hostileMb = await growth(rig, warmUp, () => deliverTo(hostile.flat()));
  // As many good ones, for comparison.
  const usualMb = await growth(rig, warmUp, warmUp);
  return { waitingMb, hostileMb, usualMb };
}

/**
 * Kills the sending process again and again while events come in. Each must arrive, with one record, and no
 * record may have more attempts than the schedule has; a request may be repeated for what a kill has cut off.
 */
async function measureCrash(rig: Rig) {
  const projects = await configure(rig, 'crash', 20, 'ok');
  rig.receiver.send('forget');
  const { requests: before } = await ask<{ requests: number }>(rig.receiver, 'count');
  const kills = Number(values.kills);
  let worker = await startProcess(rig.servers);
  const facts = factsFor(projects, perRound);
  const share = Math.ceil(facts.length / kills);
  for (let kill = 0; kill < kills; kill += 1) {
    const publishing = publish(rig, facts.slice(kill * share, (kill + 1) * share));
    await sleep(Math.random() * 1_500);
    worker.kill('SIGKILL');
    await once(worker, 'exit');
    await publishing;
    worker = await startProcess(rig.servers);
  }
  await untilReceived(rig, facts.length);
  const { collection } = rig.store.deliveries.actors;
  const of = { project: { $in: projects } };
  while ((await collection.countDocuments({ ...of, state: 'delivered' })) < facts.length) await sleep(100);
  await sleep(2_000);
  const { count, requests } = await ask<{ count: number; requests: number }>(rig.receiver, 'count');
  const [most] = await collection.find(of).sort({ 'machine.context.made': -1 }).limit(1).toArray();
  const made = (most?.machine.context as { made: number } | undefined)?.made;
  await stopProcess(worker);
  const records = await collection.countDocuments(of);
  return {
    events: facts.length,
    kills,
    arrived: count,
    records,
    repeated: requests - before - count,
    mostAttempts: made,
  };
}

const parts: Record<string, (rig: Rig) => Promise<unknown>> = {
  cost: measureCost,
  latency: measureLatency,
  memory: measureMemory,
  crash: measureCrash,
  outage: measureOutage,
};

async function main(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-webhooks-'));
  const embedded = await startEmbedded({ dataDir, log, mongodb: true, nats: true });
  const receiver = fork(fileURLToPath(import.meta.url), ['receiver', '0']);
  try {
    const [{ port }] = (await once(receiver, 'message')) as [{ port: number }];
    const servers = {
      mongodbUrl: embedded.mongodbUrl ?? '',
      natsUrl: embedded.natsUrl ?? '',
      name: `bench${process.pid}`,
    };
    const rig = { ...(await openParts(servers)), servers, receiver, port, serverPids: embedded.pids };
    const line: Record<string, unknown> = { bench: 'webhooks' };
    for (const [name, measure] of Object.entries(parts)) {
      if (positionals.length === 0 || positionals.includes(name)) line[name] = await measure(rig);
    }
    report({
      ...line,
      limits: {
        cpuUs: 800,
        perSecond: 1_000,
        p99Ms: 50,
        hanging1: 1.5,
        hanging20: 2,
        waitingMb: 100,
        hostileMb: 50,
      },
    });
    await rig.bus.close();
    await rig.store.close();
  } finally {
    receiver.disconnect();
    await embedded.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

const [role, servers = ''] = positionals;
if (role === 'worker') await runWorker(JSON.parse(servers) as Servers);
else if (role === 'receiver') await runReceiver(Number(servers));
else await main();
