/**
 * What the benchmark of streams runs against: the whole front end in a process of its own, with mongod, nats-server,
 * an account with a project and assets, and facts published as the runtime publishes them.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Bus, openBus } from '../bus/bus.ts';
import { readConfig } from '../config.ts';
import { freePort } from '../demo/free-port.ts';
import { startEmbedded } from '../embedded/embedded.ts';
import { createLog } from '../log.ts';
import { startService } from '../service.ts';
import { openStore, type Store } from '../store/client.ts';
import { descriptorsOf, waitedMsHere } from './cpu.ts';
import { memoryEnv, nodeOptions } from './processes.ts';
import type { Target } from './sse-tools.ts';

const log = createLog('silent');

type RigOptions = {
  /** Everything that is left behind. */
  folder: string;
  assets: number;
  /** Where to put a profile of the front end's CPU. */
  profile?: string | undefined;
};

export type Rig = Awaited<ReturnType<typeof openRig>>;

let made = 0;

/** Starts servers and front end; signs up, and makes assets. */
export async function openRig({ folder, assets, profile }: RigOptions) {
  const embedded = await startEmbedded({ dataDir: folder, log, mongodb: true, nats: true });
  made += 1;
  const name = `sse${process.pid}x${made}`;
  const port = await freePort();
  const settings = {
    PORT: String(port),
    BASE_URL: `http://127.0.0.1:${port}`,
    DATA_DIR: join(folder, 'service'),
    MONGODB_URL: embedded.mongodbUrl ?? '',
    MONGODB_DATABASE: name,
    NATS_URL: embedded.natsUrl ?? '',
    NATS_PREFIX: `${name}.`,
    LOG_LEVEL: 'info',
    ROLE: 'http',
    RATE_LIMIT_FACTOR: '1000000',
  };
  const settingsFile = join(folder, 'settings.json');
  const frontEnd = (more: Record<string, string> = {}) =>
    startFrontEnd(settingsFile, { ...settings, ...more }, profile);
  const front = await frontEnd();
  const store = await openStore(settings.MONGODB_URL, name, { log });
  const bus = await openBus({
    url: settings.NATS_URL,
    prefix: settings.NATS_PREFIX,
    replicas: 1,
    lastPosition: async () => 0,
    log,
  });
  const owner = await createOwner(settings.BASE_URL, store, assets);
  return {
    port,
    front,
    /** Starts the front end anew, with other settings: at most one at a time. */
    frontEnd,
    store,
    bus,
    ...owner,
    publisher: createPublisher(bus, owner),
    /** Listens as the front end does: how late events are on the bus, in ms. */
    watchBus() {
      const lateMs: number[] = [];
      const subscription = bus.onFacts(owner.projectId, '*', '*', (fact) => {
        lateMs.push(Date.now() - (fact as { ts: number }).ts);
      });
      return {
        stop(): number[] {
          subscription.stop();
          return lateMs;
        },
      };
    },
    async close(): Promise<void> {
      await bus.close();
      await store.close();
      await embedded.stop();
    },
  };
}

// ── The front end ───────────────────────────────────────────────────────────────────────────────

/** What the front end's process says of itself. `stallMs`: how late its loop was, since the last time. */
type Vitals = {
  cpuUs: number;
  /** Time in which it could have run and had no core. */
  waitedMs: number;
  rssKb: number;
  heapKb: number;
  stallMs: { p99: number; p999: number; max: number };
};

async function startFrontEnd(file: string, settings: Record<string, string>, profile?: string) {
  await writeFile(file, JSON.stringify(settings));
  const child = fork(fileURLToPath(import.meta.url), ['front-end', file], {
    env: { ...process.env, ...memoryEnv },
    execArgv: [...nodeOptions, ...(profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`])],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  const ask = async (what: 'vitals' | 'collect' | 'stalls'): Promise<Vitals> => {
    const answered = once(child, 'message');
    child.send(what);
    return (await answered)[0] as Vitals;
  };
  return {
    vitals: () => ask('vitals'),
    /** After full garbage collections. */
    vitalsCollected: () => ask('collect'),
    /** Begins to watch how late its loop is. */
    watchStalls: () => ask('stalls'),
    /** Open files and sockets. */
    descriptors: () => descriptorsOf(child.pid ?? 0),
    /** Stops it as a signal would. */
    stop: () => stop(child),
  };
}

/** Pages that one collection empties are given back by the next. */
const collections = 3;

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = once(child, 'exit');
  child.send('stop');
  await gone;
}

/** Runs in the process of the front end. */
async function runFrontEnd(settings: Record<string, string>): Promise<void> {
  const service = await startService(readConfig(settings), createLog('info'), (cause) => {
    throw cause;
  });
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const resolutionMs = 5;
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  const stall = (share: number) =>
    Math.max(0, Math.round((delay.percentile(share) / 1e6 - resolutionMs) * 10) / 10);
  process.on('disconnect', () => process.exit());
  process.on('message', (message) => {
    if (message === 'stop') void service.stop().then(() => process.disconnect());
    // What it costs is not the front end's: it looks at the clock only from the first time on that it is asked for.
    if (message === 'stalls') delay.enable();
    for (let n = 0; message === 'collect' && n < collections; n += 1) collect();
    const { user, system } = process.cpuUsage();
    const { rss, heapUsed } = process.memoryUsage();
    const vitals: Vitals = {
      cpuUs: user + system,
      waitedMs: waitedMsHere(),
      rssKb: rss / 1_024,
      heapKb: heapUsed / 1_024,
      stallMs: { p99: stall(99), p999: stall(99.9), max: Math.round(delay.max / 1e6 - resolutionMs) },
    };
    delay.reset();
    if (message !== 'stop') process.send?.(vitals);
  });
  process.send?.('ready');
}

// ── An account with assets ──────────────────────────────────────────────────────────────────────

type Owner = { cookie: string; projectId: string; assetIds: string[]; key: string };

async function createOwner(
  base: string,
  store: Store,
  assets: number,
): Promise<Owner & { targets: Targets }> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${base}${path}`, {
      method,
      headers,
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return { answer, body: (await answer.json()) as Record<string, unknown> };
  };
  const account = { email: 'bench@example.com', password: 'correct horse battery', name: 'Bench' };
  const { answer } = await call('POST', '/api/user/signup', account);
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  headers['cookie'] = cookie;
  const { projects } = (await call('GET', '/api/projects')).body as { projects: { id: string }[] };
  const projectId = projects[0]?.id ?? '';
  const { project } = (await call('PUT', `/api/projects/${projectId}/proxy-config`, { allowed_origins: [] }))
    .body as { project: { proxy_key: string } };
  const prepared = await call('POST', '/api/v1/prepare', {
    project_id: projectId,
    src: 'https://example.com/photo.jpg',
    mode: 'loop',
    motion: 'subtle',
  });
  const assetIds = await copyAsset(store, String(prepared.body['asset_id']), assets);
  const owner = { cookie, projectId, assetIds, key: project.proxy_key };
  return { ...owner, targets: createTargets(owner) };
}

async function copyAsset(store: Store, id: string, count: number): Promise<string[]> {
  const { collection } = store.assets.actors;
  const first = await collection.findOne({ _id: id });
  if (!first) throw new Error('the asset is not there');
  const copies = Array.from({ length: count - 1 }, (_, n) => ({
    ...first,
    _id: `ast_${String(n).padStart(20, '0')}`,
  }));
  if (copies.length > 0) await collection.insertMany(copies);
  return [id, ...copies.map(({ _id }) => _id)];
}

type Targets = ReturnType<typeof createTargets>;

function createTargets({ cookie, projectId, assetIds, key }: Owner) {
  return {
    /** The project's stream, by cookie. */
    project: (lastEventId?: number): Target[] => [
      {
        path: `/api/projects/${projectId}/activity`,
        headers: { cookie, ...(lastEventId === undefined ? {} : { 'Last-Event-ID': String(lastEventId) }) },
      },
    ],
    /** The stream of each asset, by key. */
    assets: (): Target[] => assetIds.map((id) => ({ path: `/v1/${key}/events/${id}` })),
  };
}

// ── Facts ───────────────────────────────────────────────────────────────────────────────────────

/** Characters of `error_msg` with which a frame has about 300 bytes. */
const fillerFor300 = 70;

/** Publishes facts as actors do: stored, with a message id, ts strictly increasing within the project. */
function createPublisher(bus: Bus, { projectId, assetIds }: Owner) {
  let lastTs = 0;
  let made = 0;
  const makeFact = (assetId: string, filler: number) => {
    lastTs = Math.max(Date.now(), lastTs + 1);
    made += 1;
    const fact = {
      event: 'stage_failed',
      ts: lastTs,
      attempt: 1,
      request_id: 'req_bench',
      asset_id: assetId,
      project_id: projectId,
      run: 1,
      stage: 'single',
      error_code: 'i2v_failed',
      error_msg: 'x'.repeat(filler),
    };
    return { subject: bus.subjects.fact(projectId, assetId, fact.event), id: `bench:${made}`, body: fact };
  };
  const some = (count: number, filler: number) =>
    Array.from({ length: count }, () => makeFact(assetIds[made % assetIds.length] ?? '', filler));

  return {
    get lastTs() {
      return lastTs;
    },
    /** As many as fit at once. */
    async publish(count: number, filler = fillerFor300): Promise<void> {
      await bus.publishAll(some(count, filler));
    },
    /** A number of facts, each at its time; `until` may end it before. Answers how many there were. */
    async publishEvery(
      periodMs: number,
      count: number,
      filler = fillerFor300,
      until: () => boolean = () => false,
    ): Promise<number> {
      const begunAt = performance.now();
      const sending: Promise<void>[] = [];
      let n = 0;
      for (; n < count && !until(); n += 1) {
        const waitMs = begunAt + n * periodMs - performance.now();
        if (waitMs > 1) await sleep(waitMs);
        sending.push(bus.publishAll(some(1, filler)));
      }
      await Promise.all(sending);
      return n;
    },
  };
}

const [role, file] = process.argv.slice(2);
if (role === 'front-end' && file !== undefined) {
  await runFrontEnd(JSON.parse(await readFile(file, 'utf8')) as Record<string, string>);
}
