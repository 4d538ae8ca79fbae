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
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort } from '../demo/free-port.ts';
import { createRandom, pick } from '../random.ts';
import {
  type Account,
  countEnds,
  countFlaws,
  type Owned,
  readStream,
  readTimeline,
  readUsed,
  request,
  serveSource,
  setPlan,
  signUp,
  untilAllEnd,
} from './client.ts';
import { childrenOf, report } from './cpu.ts';

const main = fileURLToPath(new URL('../main.js', import.meta.url));

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
    const account = await signUp(rig.base, 'crash@example.com');
    await setPlan(account.email, 'team', { DATA_DIR: dataDir });
    const killing = killAtRandom(rig);
    const accepted = await prepareAll(rig, account, `${source.url}/photo.jpg`);
    const killed = await killing;
    await untilAllEnd(rig.base, accepted);
    const audit = await auditAll(rig, account, accepted);
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
    const target = pick(targets, random);
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

/** An asset counts as accepted when its request was answered 200; the others are asked again. */
async function prepareAll({ base }: Rig, account: Account, src: string): Promise<Owned[]> {
  const accepted: Owned[] = [];
  for (let n = 0; n < assets; n += 1) {
    const body = {
      project_id: account.project,
      src,
      mode: n % 4 === 0 ? 'loop' : 'animate-in',
      dur_seconds: Number(values.seconds),
      seed: n,
    };
    const headers = { cookie: account.cookie };
    const { text } = await request(base, { method: 'POST', path: '/api/v1/prepare', body, headers });
    accepted.push({ id: (JSON.parse(text) as { asset_id: string }).asset_id, account });
    await sleep(random() * 50);
  }
  return accepted;
}

async function auditAll({ base }: Rig, account: Account, accepted: Owned[]) {
  const timelines = [];
  for (const asset of accepted) timelines.push(await readTimeline(base, asset));
  const streamed = await readStream(base, account);
  return {
    ...countEnds(timelines),
    facts: streamed.length,
    ...countFlaws(streamed),
    counted: await readUsed(base, account),
  };
}

process.exitCode = (await run()) ? 0 : 1;
