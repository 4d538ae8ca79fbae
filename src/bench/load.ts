/**
 * `npm run load`: a day of the service in some minutes, and what each part of it costs.
 *
 *   npm run load -- --minutes 10 [--hits 200] [--streams 500] [--assets 2000]
 *
 * A front end and a worker in processes of their own, real servers, the local provider. First every asset is asked for
 * once and some are made, so that caches and threads have what they need. Then all of it at once for so many minutes:
 * proxy requests over many assets (a few of them most often; conditional and ranged ones among them), open streams, new
 * assets one after the other, and their webhooks, which are received and checked. Then each kind of work alone, for its
 * cost: CPU of the node processes, mongod and nats-server together, less what they take idle. It comes last: memory that
 * a burst leaves behind goes back some minutes later, and would be taken for a slope.
 *
 * Prints one JSON line. Exit code 1 when anything failed, or when a node process grows by more than 1 MB a minute
 * after the first two.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { newKey } from '../auth/secret-box.ts';
import { createClient } from '../client/client.ts';
import { freePort } from '../demo/free-port.ts';
import { createLog } from '../log.ts';
import { openStore } from '../store/client.ts';
import { serveSource, setPlan, signUp } from './client.ts';
import { childrenOf, cpuMsOf, quantile, report, rssMbOf } from './cpu.ts';
import { startServers } from './fronts.ts';
import { askEach, fault, hitProxy, makeRuns, openStreams, startReceiver, type Tally } from './load-client.ts';
import { type Supervised, supervise } from './processes.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    /** Proxy requests a second in the mix. */
    hits: { type: 'string', default: '200' },
    streams: { type: 'string', default: '500' },
    assets: { type: 'string', default: '2000' },
  },
});
const minutes = Number(values.minutes);
const streams = Number(values.streams);
const origin = 'https://shop.example.com';

/** Of a part that is measured alone. */
const aloneMs = Math.min(20_000, minutes * 10_000);
const aloneRuns = 8;
const firstRuns = 8;
const webhookLanes = 8;
/** Seconds between two new assets in the mix. */
const runEverySeconds = 10;
const rssEveryMs = 5_000;
const settledMs = 120_000;
const maxSlopeMbPerMinute = 1;
const webhookPatienceMs = 30_000;

type World = Awaited<ReturnType<typeof openWorld>>;

/** Servers, two processes of the service, an account with a project, and many assets of which one was really made. */
async function openWorld(folder: string) {
  const servers = await startServers(join(folder, 'servers'));
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const settings = {
    MONGODB_URL: servers.mongodbUrl,
    NATS_URL: servers.natsUrl,
    BASE_URL: base,
    DATA_DIR: join(folder, 'service'),
    SECRETS_KEY: newKey(),
    RATE_LIMIT_FACTOR: '100000',
    LOG_LEVEL: 'info',
  };
  const front = supervise(
    'http',
    { ...settings, ROLE: 'http', PORT: String(port) },
    join(folder, 'http.log'),
  );
  const away = { ROLE: 'worker,scheduler', PORT: String(await freePort()) };
  const worker = supervise('worker', { ...settings, ...away }, join(folder, 'worker.log'));
  await Promise.all([front.ready(), worker.ready()]);

  const { email, cookie, project } = await signUp(base, 'load@example.com');
  await setPlan(email, 'team', settings);
  const client = createClient({ baseUrl: base, headers: { cookie } });
  const configured = await client.projects.configureProxy(project, {
    allowed_origins: [origin],
    overage_enabled: true,
  });
  const receiver = await startReceiver();
  const saved = await client.webhooks.set(project, {
    webhook_url: receiver.url,
    webhook_events: ['asset.completed', 'asset.failed'],
    webhooks_enabled: true,
  });
  receiver.setSecret(saved.webhook_secret ?? '');
  const source = await serveSource();
  const first = await makeRuns(client, project, 1, once(`${source.url}/first.jpg`));
  const store = await openStore(servers.mongodbUrl, 'animated_assets', { log: createLog('silent') });
  const assetIds = await copyAsset(store, first.ids[0] ?? '', Number(values.assets));
  await store.close();
  const serverPids = childrenOf(process.pid).filter((pid) => pid !== front.pid() && pid !== worker.pid());
  return {
    base,
    client,
    project,
    key: configured.project.proxy_key ?? '',
    assetIds,
    receiver,
    source,
    front,
    worker,
    serverPids,
    async close() {
      receiver.close();
      source.close();
      await Promise.all([front.stop(), worker.stop()]);
      await servers.stop();
    },
  };
}

function once(src: string): () => string | undefined {
  const rest = [src];
  return () => rest.pop();
}

/** The same animation under many ids: to the proxy they are as different as any. */
async function copyAsset(store: Awaited<ReturnType<typeof openStore>>, id: string, count: number) {
  const { collection } = store.assets.actors;
  const first = await collection.findOne({ _id: id });
  if (!first) throw new Error('the first asset was not made');
  const copies = Array.from({ length: count - 1 }, (_, n) => ({
    ...first,
    _id: `ast_${String(n).padStart(20, '0')}`,
  }));
  await collection.insertMany(copies);
  return [id, ...copies.map(({ _id }) => _id)];
}

/** Fills the caches, and has the threads that render begin. */
async function warmUp({ base, key, assetIds, client, project, source }: World) {
  const sources = Array.from({ length: firstRuns }, (_, n) => `${source.url}/early-${n}.jpg`);
  return {
    firstHits: await askEach(base, key, origin, assetIds),
    firstRuns: (await makeRuns(client, project, 2, () => sources.pop())).made,
  };
}

// ── Each kind of work alone ─────────────────────────────────────────────────────────────────────

/** CPU of everything that serves, in ms: the two processes and the servers. */
function cpuOf({ front, worker, serverPids }: World) {
  return [front.pid(), worker.pid(), ...serverPids].reduce((sum, pid) => sum + cpuMsOf(pid), 0);
}

/** CPU of a piece of work in ms, less what the same time takes idle. */
async function costOf<Result>(world: World, idlePerMs: number, work: () => Promise<Result>) {
  const [startedAt, before] = [performance.now(), cpuOf(world)];
  const result = await work();
  const cpuMs = cpuOf(world) - before - idlePerMs * (performance.now() - startedAt);
  return { result, cpuMs: Math.max(0, cpuMs) };
}

async function measureAlone(world: World) {
  const idle = await costOf(world, 0, () => sleep(aloneMs / 2));
  const idlePerMs = idle.cpuMs / (aloneMs / 2);
  const { base, key, assetIds, client, project, receiver, source } = world;

  const hits = await costOf(world, idlePerMs, () => {
    const endsAt = performance.now() + aloneMs;
    return hitProxy({
      base,
      key,
      origin,
      assetIds,
      connections: 16,
      isOver: () => performance.now() > endsAt,
    });
  });

  const opened = await openStreams(base, key, assetIds, streams);
  const open = opened.open();
  const held = await costOf(world, idlePerMs, () => sleep(aloneMs));
  opened.stop();
  await sleep(1_000);

  const sources = Array.from({ length: aloneRuns }, (_, n) => `${source.url}/alone-${n}.jpg`);
  const runs = await costOf(world, idlePerMs, () => makeRuns(client, project, 2, () => sources.pop()));

  const received = receiver.tally.done;
  const hooks = await costOf(world, idlePerMs, async () => {
    let asked = 0;
    const endsAt = performance.now() + aloneMs;
    const lane = async () => {
      for (; performance.now() < endsAt; asked += 1) await client.webhooks.test(project);
    };
    await Promise.all(Array.from({ length: webhookLanes }, lane));
    const until = performance.now() + webhookPatienceMs;
    while (receiver.tally.done < received + asked && performance.now() < until) await sleep(100);
    return { asked, came: receiver.tally.done - received };
  });

  const { asked, came } = hooks.result;
  if (came < asked) fault(receiver.tally, `${asked - came} of ${asked} webhooks did not come`);
  if (open < streams) fault(opened.tally, `${streams - open} streams did not open`);
  const seconds = (ms: number) => Math.round(ms / 100) / 10;
  return {
    tallies: {
      aloneHits: hits.result,
      aloneStreams: opened.tally,
      aloneRuns: runs.result.made,
      allWebhooks: receiver.tally,
    },
    costs: {
      idleCpuMsPerSecond: Math.round(idlePerMs * 1_000),
      cpuSecondsPerMillionHits: seconds((hits.cpuMs / hits.result.done) * 1e6),
      hitsPerSecond: Math.round(hits.result.done / (aloneMs / 1_000)),
      cpuMsPerSecondPer10kStreams: Math.round((held.cpuMs / aloneMs) * 1_000 * (10_000 / open)),
      cpuSecondsPer1kGenerations: seconds((runs.cpuMs / runs.result.made.done) * 1e3),
      cpuSecondsPerMillionWebhooks: seconds((hooks.cpuMs / came) * 1e6),
    },
  };
}

// ── All of it at once ───────────────────────────────────────────────────────────────────────────

async function runMix(world: World) {
  const { base, key, assetIds, client, project, source, receiver } = world;
  const startedAt = performance.now();
  const isOver = () => performance.now() - startedAt > minutes * 60_000;
  const rss = watchMemory([world.front, world.worker]);
  const opened = await openStreams(base, key, assetIds, streams);
  let made = 0;
  const paced = async () => {
    const runs = [];
    while (!isOver()) {
      made += 1;
      runs.push(makeRuns(client, project, 1, once(`${source.url}/mix-${made}.jpg`)));
      await sleep(runEverySeconds * 1_000);
    }
    return Promise.all(runs);
  };
  const hitting = { base, key, origin, assetIds, connections: 16, perSecond: Number(values.hits), isOver };
  const [hits, runs] = await Promise.all([hitProxy(hitting), paced()]);
  const streamsOpen = opened.open();
  const slopes = rss.stop(startedAt);
  opened.stop();
  const ids = runs.flatMap((one) => one.ids);
  const until = performance.now() + webhookPatienceMs;
  const isTold = (id: string) => receiver.completed.has(id);
  while (!ids.every(isTold) && performance.now() < until) await sleep(100);
  for (const id of ids) if (!isTold(id)) fault(receiver.tally, `nothing came of ${id}`);
  return {
    streamsOpen,
    slopes,
    tallies: {
      hits,
      streams: opened.tally,
      prepares: together(runs.map(({ asked }) => asked)),
      generations: together(runs.map((one) => one.made)),
      // Its errors are told with all webhooks, at the end.
      webhooks: { ...receiver.tally, latenciesMs: [...receiver.tally.latenciesMs], errors: [] },
    },
  };
}

function together(tallies: readonly Tally[]): Tally {
  return {
    done: tallies.reduce((sum, one) => sum + one.done, 0),
    latenciesMs: tallies.flatMap((one) => one.latenciesMs),
    errors: tallies.flatMap((one) => one.errors),
  };
}

/** Of a process: its slope once settled, its last size, and its size at each minute: a settling curve looks different from a leak. */
type Memory = { mbPerMinute: number | null; mb: number; each: number[] };

/** How fast processes grow, in MB a minute, once they have settled: the line with the least squares. */
function watchMemory(processes: readonly Supervised[]) {
  const samples = processes.map(({ name, pid }) => ({ name, pid, points: [] as [number, number][] }));
  const timer = setInterval(() => {
    for (const { pid, points } of samples) points.push([performance.now(), rssMbOf(pid())]);
  }, rssEveryMs);
  return {
    stop(startedAt: number): Record<string, Memory> {
      clearInterval(timer);
      return Object.fromEntries(
        samples.map(({ name, points }) => {
          const settled = points.filter(([at]) => at - startedAt > settledMs);
          const slope = settled.length < 6 ? null : Number((slopeOf(settled) * 60_000).toFixed(2));
          const perMinute = points.filter((_, n) => n % (60_000 / rssEveryMs) === 0);
          const each = perMinute.map(([, mb]) => Math.round(mb));
          return [name, { mbPerMinute: slope, mb: Math.round(points.at(-1)?.[1] ?? 0), each }];
        }),
      );
    },
  };
}

function slopeOf(points: readonly [number, number][]): number {
  const mean = (pick: 0 | 1) => points.reduce((sum, point) => sum + point[pick], 0) / points.length;
  const [meanX, meanY] = [mean(0), mean(1)];
  const over = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return over / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

const folder = await mkdtemp(join(tmpdir(), 'load-'));
const world = await openWorld(folder);
try {
  const first = await warmUp(world);
  const mix = await runMix(world);
  const alone = await measureAlone(world);
  const tallies = { ...first, ...mix.tallies, ...alone.tallies };
  const errors = Object.values(tallies).flatMap((one) => one.errors);
  const restarts = world.front.restarts() + world.worker.restarts();
  const isFlat = Object.values(mix.slopes).every(
    ({ mbPerMinute }) => (mbPerMinute ?? 0) <= maxSlopeMbPerMinute,
  );
  report({
    bench: 'load',
    minutes,
    counts: Object.fromEntries(Object.entries(tallies).map(([name, { done }]) => [name, done])),
    streamsOpen: mix.streamsOpen,
    errors: errors.length,
    firstErrors: errors.slice(0, 5),
    restarts,
    latencyMs: Object.fromEntries(
      Object.entries(mix.tallies).map(([name, { latenciesMs }]) => [
        name,
        { p50: Math.round(quantile(latenciesMs, 0.5)), p99: Math.round(quantile(latenciesMs, 0.99)) },
      ]),
    ),
    ...alone.costs,
    rss: mix.slopes,
  });
  if (errors.length > 0 || restarts > 0 || !isFlat) process.exitCode = 1;
} finally {
  await world.close();
  await rm(folder, { recursive: true, force: true });
}
