/**
 * `npm run crash`: kills the service, its database and its message bus at random moments while assets are made,
 * then audits everything.
 *
 *   npm run crash -- --assets 200 --kills 50 [--seconds 2] [--seed 1]
 *
 * Passes when every accepted asset ends in exactly one terminal fact per run, no fact is doubled for a listener,
 * ts strictly increases, and the quota has counted each run once. Prints one JSON line; exit code 1 otherwise.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import sharp from 'sharp';
import { type AssetEvent, isTerminal } from '../../schemas/events.ts';
import { freePort } from '../demo/free-port.ts';
import { childrenOf, report } from './cpu.ts';

const main = fileURLToPath(new URL('../main.js', import.meta.url));
const admin = fileURLToPath(new URL('../cli.js', import.meta.url));
const photo = fileURLToPath(new URL('../demo/photo.jpg', import.meta.url));

/** Longest time without any asset moving before the run counts as stuck: longer than a reconcile takes to come. */
const stuckMs = 360_000;
const minBetweenKillsMs = 300;
const maxBetweenKillsMs = 6_000;

const { values } = parseArgs({
  options: {
    assets: { type: 'string', default: '200' },
    kills: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
  },
});
const assets = Number(values.assets);
const kills = Number(values.kills);
const random = createRandom(Number(values.seed));

type Rig = {
  base: string;
  dataDir: string;
  port: number;
  service: ChildProcess;
  restarts: number;
  stopped: boolean;
};

async function run(): Promise<boolean> {
  const dataDir = await mkdtemp(join(tmpdir(), 'crash-'));
  const port = await freePort();
  const source = await serveSource();
  const rig: Rig = {
    base: `http://127.0.0.1:${port}`,
    dataDir,
    port,
    service: start(dataDir, port),
    restarts: 0,
    stopped: false,
  };
  keepAlive(rig);
  process.once('SIGTERM', () => {
    rig.stopped = true;
    rig.service.once('exit', () => process.exit(1)).kill('SIGTERM');
  });
  try {
    const session = await signUp(rig);
    const project = await firstProject(rig, session);
    const killing = killAtRandom(rig);
    const accepted = await prepareAll(rig, session, project, source.url);
    const killed = await killing;
    await untilAllEnd(rig, session, accepted);
    const audit = await auditAll(rig, session, project, accepted);
    report({ bench: 'crash', assets: accepted.length, kills: killed, restarts: rig.restarts, ...audit });
    return (
      audit.lost === 0 && audit.doubled === 0 && audit.disordered === 0 && audit.counted === accepted.length
    );
  } finally {
    rig.stopped = true;
    rig.service.kill('SIGTERM');
    if (rig.service.exitCode === null) await once(rig.service, 'exit');
    source.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

function start(dataDir: string, port: number): ChildProcess {
  const env = {
    ...process.env,
    DATA_DIR: dataDir,
    PORT: String(port),
    LOG_LEVEL: 'error',
    RATE_LIMIT_FACTOR: '1000',
  };
  return spawn(process.execPath, [main], { env, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Like a supervisor: what ends is started again. */
function keepAlive(rig: Rig): void {
  rig.service.once('exit', () => {
    if (rig.stopped) return;
    rig.restarts += 1;
    rig.service = start(rig.dataDir, rig.port);
    keepAlive(rig);
  });
}

const targets = ['service', 'service', 'service', 'mongod', 'nats-server'] as const;

/** Kills the whole process or one of its servers, without warning, at random moments. */
async function killAtRandom(rig: Rig): Promise<Record<string, number>> {
  const killed: Record<string, number> = {};
  for (let done = 0; done < kills; ) {
    await sleep(minBetweenKillsMs + random() * (maxBetweenKillsMs - minBetweenKillsMs));
    const target = targets[Math.floor(random() * targets.length)] ?? 'service';
    const pid = target === 'service' ? rig.service.pid : await serverPid(rig, target);
    if (pid === undefined || !kill(pid)) continue;
    killed[target] = (killed[target] ?? 0) + 1;
    done += 1;
  }
  return killed;
}

/** Answers false for one that has ended by itself in this very moment. */
function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

async function serverPid({ service }: Rig, name: string): Promise<number | undefined> {
  for (const pid of childrenOf(service.pid ?? 0)) {
    const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    if (name.startsWith(command.trim().slice(0, 11))) return pid;
  }
  return undefined;
}

async function signUp(rig: Rig): Promise<string> {
  const email = 'crash@example.com';
  const body = { email, password: 'crash-test-password', name: 'Crash' };
  const answer = await request(rig, 'POST', '/api/user/signup', body);
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const granted = spawn(process.execPath, [admin, 'user', 'plan', email, 'team'], {
    env: { ...process.env, DATA_DIR: rig.dataDir },
    stdio: 'ignore',
  });
  const [code] = await once(granted, 'exit');
  if (code !== 0) throw new Error('the plan could not be set');
  return cookie;
}

async function firstProject(rig: Rig, session: string): Promise<string> {
  const answer = await request(rig, 'GET', '/api/projects', undefined, session);
  const { projects } = (await answer.json()) as { projects: { id: string }[] };
  return projects[0]?.id ?? '';
}

/** An asset counts as accepted when its request was answered 200; the others are asked again. */
async function prepareAll(rig: Rig, session: string, project: string, src: string): Promise<string[]> {
  const accepted: string[] = [];
  for (let n = 0; n < assets; n += 1) {
    const body = {
      project_id: project,
      src,
      mode: n % 4 === 0 ? 'loop' : 'animate-in',
      dur_seconds: Number(values.seconds),
      seed: n,
    };
    const answer = await request(rig, 'POST', '/api/v1/prepare', body, session);
    accepted.push(((await answer.json()) as { asset_id: string }).asset_id);
    await sleep(random() * 50);
  }
  return accepted;
}

/** Ends early when nothing moves any more: the audit then says what is lost. */
async function untilAllEnd(rig: Rig, session: string, accepted: string[]): Promise<void> {
  const open = new Map(accepted.map((id) => [id, '']));
  let movedAt = performance.now();
  while (open.size > 0 && performance.now() - movedAt < stuckMs) {
    for (const id of [...open.keys()]) {
      const answer = await request(rig, 'GET', `/api/assets/${id}`, undefined, session);
      const { asset } = (await answer.json()) as { asset: { status: string; state: string } };
      if (asset.state !== open.get(id)) movedAt = performance.now();
      if (asset.status === 'pending') open.set(id, asset.state);
      else open.delete(id);
    }
    await sleep(500);
  }
  for (const [id, state] of open) console.error(`${id} is stuck in ${state}`);
}

async function auditAll(rig: Rig, session: string, project: string, accepted: string[]) {
  let lost = 0;
  let ready = 0;
  for (const id of accepted) {
    const answer = await request(rig, 'GET', `/api/assets/${id}/timeline`, undefined, session);
    const { events } = (await answer.json()) as { events: AssetEvent[] };
    const ends = events.filter(({ event }) => isTerminal(event));
    if (ends.length !== 1) lost += 1;
    if (ends[0]?.event === 'ready') ready += 1;
  }
  const me = (await (await request(rig, 'GET', '/api/user/me', undefined, session)).json()) as {
    aiGenerationsUsed: number;
  };
  const streamed = await readStream(rig, session, project);
  const keys = streamed.map(
    ({ asset_id, run, event, stage, attempt }) => `${asset_id}:${run}:${event}:${stage}:${attempt}`,
  );
  const disordered = streamed.filter(({ ts }, n) => n > 0 && ts <= (streamed[n - 1]?.ts ?? 0)).length;
  return {
    ready,
    lost,
    facts: streamed.length,
    // Facts of one asset, run, stage and attempt: each happens once.
    doubled: keys.length - new Set(keys).size,
    disordered,
    counted: me.aiGenerationsUsed,
  };
}

/** Everything that a listener of the project is told, from the beginning. */
async function readStream(rig: Rig, session: string, project: string): Promise<AssetEvent[]> {
  const quiet = new AbortController();
  const answer = await fetch(`${rig.base}/api/projects/${project}/activity?last_event_id=1`, {
    headers: { cookie: session },
    signal: quiet.signal,
  });
  let text = '';
  let timer = setTimeout(() => quiet.abort(), 3_000);
  try {
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk).toString();
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(), 1_500);
    }
  } catch (cause) {
    if (!quiet.signal.aborted) throw cause;
  }
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? '') as AssetEvent);
}

/** Asks until it is answered below 500: the service may be down at any moment. */
async function request(
  rig: Rig,
  method: string,
  path: string,
  body?: object,
  cookie?: string,
): Promise<Response> {
  const givenUpAt = performance.now() + stuckMs;
  while (performance.now() < givenUpAt) {
    const answer = await ask(rig, method, path, body, cookie);
    if (answer && answer.status < 400) return answer;
    if (answer && answer.status < 500)
      throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    await sleep(200);
  }
  throw new Error(`${method} ${path}: no answer for ${stuckMs} ms`);
}

/** One try; undefined when nobody answered. */
async function ask({ base }: Rig, method: string, path: string, body?: object, cookie?: string) {
  try {
    return await fetch(`${base}${path}`, {
      method,
      headers: { ...(cookie ? { cookie } : {}), ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(10_000),
    });
  } catch {
    // Killed, or starting: the caller asks again.
    return undefined;
  }
}

async function serveSource(): Promise<{ url: string; close(): void }> {
  // Small, so that machines are kept busy rather than renderers.
  const bytes = await sharp(photo).resize(480).jpeg().toBuffer();
  const server = createServer((_, response) => response.setHeader('content-type', 'image/jpeg').end(bytes));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/photo.jpg`, close: () => server.close() };
}

/** Numbers from 0 to 1 that are the same for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

process.exitCode = (await run()) ? 0 : 1;
