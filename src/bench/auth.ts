/**
 * `npm run bench auth`: what the time of a refused sign-in tells, and what a flood of sign-ins costs.
 *
 * The front end runs in a child process over the real store; this process is the client. Tries of an unknown
 * e-mail and of a wrong password alternate, spread over so many users and addresses that no throttle answers. Then
 * 1,000 right sign-ins come at once.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, constants, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startEmbedded } from '../embedded/embedded.ts';
import { startServer } from '../http/server.ts';
import { createAccess, type HttpConfig, type Services } from '../http/services.ts';
import { userRoutes } from '../http/user.ts';
import { openStore } from '../store/client.ts';
import { newId } from '../store/ids.ts';
import { median, report, rssMbOf } from './cpu.ts';

const users = 50;
const tries = 200;
const warmUp = 20;
const flood = 1_000;
const password = 'correct horse battery';
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** What the front end has seen of itself since it was last asked. */
type Seen = { mostHashes: number; loopDelayP99Ms: number; peakRssMb: number };

async function main(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-auth-'));
  const embedded = await startEmbedded({ dataDir, log: silent, mongodb: true, nats: false });
  const child = fork(fileURLToPath(import.meta.url), ['front', embedded.mongodbUrl ?? '']);
  try {
    const [port] = (await once(child, 'message')) as [number];
    const ask = async (): Promise<Seen> => {
      child.send('seen');
      return ((await once(child, 'message')) as [Seen])[0];
    };
    // Users are elsewhere: who plays them must not take the core of what is measured.
    setPriority(0, constants.priority.PRIORITY_LOW);
    const post = createClient(port);
    for (let n = 0; n < users; n += 1) {
      await post('signup', { email: emailOf(n), password, name: 'Bench' }, n);
    }

    const unknownMs: number[] = [];
    const wrongMs: number[] = [];
    for (let n = -warmUp; n < tries; n += 1) {
      const unknown = await post('signin', { email: `nobody${n}@example.com`, password: 'wrong' }, n);
      const wrong = await post('signin', { email: emailOf(n), password: 'wrong' }, n);
      if (unknown.status !== 401 || wrong.status !== 401) throw new Error('a throttle answered');
      if (n < 0) continue;
      unknownMs.push(unknown.ms);
      wrongMs.push(wrong.ms);
    }

    await ask();
    const restingRssMb = rssMbOf(child.pid ?? 0);
    const answers = await Promise.all(
      Array.from({ length: flood }, (_, n) => post('signin', { email: emailOf(n), password }, n)),
    );
    const { mostHashes, loopDelayP99Ms, peakRssMb } = await ask();
    const byStatus: Record<string, number> = {};
    for (const { status } of answers) byStatus[status] = (byStatus[status] ?? 0) + 1;
    report({
      bench: 'auth',
      unknownMs: round(median(unknownMs)),
      wrongMs: round(median(wrongMs)),
      ratio: round(median(unknownMs) / median(wrongMs)),
      flood: {
        byStatus,
        rssGrowthMb: round(peakRssMb - restingRssMb),
        mostHashes,
        loopDelayP99Ms: round(loopDelayP99Ms),
      },
      limits: {
        ratio: [0.95, 1.05],
        rssGrowthMb: 150,
        mostHashes: availableParallelism(),
        loopDelayP99Ms: 20,
      },
    });
  } finally {
    child.kill();
    await embedded.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

const round = (value: number) => Number(value.toFixed(3));
const emailOf = (n: number) => `user${((n % users) + users) % users}@example.com`;

/** Posts to a front end, every request from an address of its own. */
function createClient(port: number) {
  return async (path: string, body: object, n: number): Promise<{ status: number; ms: number }> => {
    const address = `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
    const startedAt = performance.now();
    const answer = await fetch(`http://127.0.0.1:${port}/api/user/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
      body: JSON.stringify(body),
    });
    await answer.arrayBuffer();
    return { status: answer.status, ms: performance.now() - startedAt };
  };
}

async function serve(mongodbUrl: string): Promise<void> {
  const store = await openStore(mongodbUrl, 'bench', { log: silent });
  const config: HttpConfig = {
    baseUrl: 'http://localhost:8080',
    mode: 'production',
    trustedProxies: ['127.0.0.1'],
  };
  const access = createAccess(store, config, Date.now);
  const services = { ...access, config, log: silent, now: Date.now, newId, store } as unknown as Services;
  const { port } = await startServer({ host: '127.0.0.1', port: 0, routes: userRoutes, services });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let [mostHashes, peakRssMb] = [0, 0];
  process.on('message', () => {
    const loopDelayP99Ms = delay.percentile(99) / 1e6;
    process.send?.({ mostHashes, loopDelayP99Ms, peakRssMb } satisfies Seen);
    [mostHashes, peakRssMb] = [0, 0];
    delay.reset();
  });
  process.on('disconnect', () => process.exit());
  process.send?.(port);
  for (;;) {
    mostHashes = Math.max(mostHashes, access.passwords.running());
    peakRssMb = Math.max(peakRssMb, process.memoryUsage.rss() / 2 ** 20);
    await sleep(2);
  }
}

const [role, mongodbUrl = ''] = process.argv.slice(2);
await (role === 'front' ? serve(mongodbUrl) : main());
