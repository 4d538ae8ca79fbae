/**
 * `npm run bench http`: what an authenticated small GET costs, CPU of the server per request, against a handler on bare
 * uWebSockets.js that looks at nothing. Prints one line of JSON.
 *
 * Both servers run as children of this process; wrk is the client. Pairs are interleaved, after one of each that counts
 * nothing. Needs wrk.
 */

import uws from 'uWebSockets.js';
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { sessionCookie } from '../auth/sessions.ts';
import { type AnyRoute, reply, route } from '../http/route.ts';
import { startServer } from '../http/server.ts';
import { createAccess, type HttpConfig, type Services } from '../http/services.ts';
import { createLog } from '../log.ts';
import type { SessionRecord } from '../store/sessions.ts';
import type { UserRecord } from '../store/users.ts';
import { report, spread } from './cpu.ts';
import { memoryEnv, nodeOptions } from './processes.ts';
import { askFor } from './wrk.ts';

const pairs = 7;
const seconds = 2;
const path = '/api/user/session';
const token = randomBytes(32).toString('base64url');
const headers = { Cookie: `${sessionCookie}=${token}` };

const role = process.argv[2];
if (role === 'front' || role === 'bare') await serve(role);
else await measure();

async function measure(): Promise<void> {
  const [bare, front] = await Promise.all([start('bare'), start('front')]);
  const micros: Record<'bare' | 'front', number[]> = { bare: [], front: [] };
  try {
    for (const server of [bare, front]) {
      const { status } = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers });
      if (status !== 200) throw new Error(`answered with ${status}`);
      await cost(server);
    }
    for (let pair = 0; pair < pairs; pair += 1) {
      micros.bare.push(await cost(bare));
      micros.front.push(await cost(front));
    }
  } finally {
    for (const { child } of [bare, front]) child.kill();
  }
  const ratios = micros.front.map((one, pair) => one / (micros.bare[pair] ?? one));
  report({
    bench: 'http',
    bareMicros: spread(micros.bare),
    frontMicros: spread(micros.front),
    ratio: spread(ratios),
    pairs,
  });
}

type Running = { child: ChildProcess; port: number };

async function start(kind: 'front' | 'bare'): Promise<Running> {
  // Its log goes where nobody reads it, through all that writes it.
  const child = fork(fileURLToPath(import.meta.url), [kind, token], {
    stdio: ['ignore', openSync('/dev/null', 'w'), 'inherit', 'ipc'],
    execArgv: nodeOptions,
    env: { ...process.env, ...memoryEnv },
  });
  child.on('exit', (code) => {
    if (code) process.exit(code);
  });
  const [port] = (await once(child, 'message')) as [number];
  return { child, port };
}

/** CPU of the server per request, user and system, in µs. */
async function cost({ child, port }: Running): Promise<number> {
  const before = await cpuOf(child);
  const requests = await askFor(port, path, headers, seconds);
  return ((await cpuOf(child)) - before) / requests;
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send('cpu');
  const [micros] = (await once(child, 'message')) as [number];
  return micros;
}

async function serve(kind: 'front' | 'bare'): Promise<void> {
  const port = kind === 'bare' ? await startBare() : (await startFront(process.argv[3] ?? '')).port;
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    process.send?.(user + system);
  });
  process.on('disconnect', () => process.exit());
  process.send?.(port);
}

function startBare(): Promise<number> {
  const body = JSON.stringify({ id: 'usr_00000000000000000000', email: 'bench@example.com', name: 'Bench' });
  const app = uws.App().get(path, (res) => {
    res.end(body);
  });
  return new Promise((resolve) => {
    app.listen('127.0.0.1', 0, uws.LIBUS_LISTEN_EXCLUSIVE_PORT, (socket) => {
      if (socket) resolve(uws.us_socket_local_port(socket));
    });
  });
}

/** The real front end over a store in memory: the session is answered from its cache, as in a busy process. */
async function startFront(known: string) {
  const session: SessionRecord = {
    hash: known,
    id: 'ses_bench',
    userId: 'usr_00000000000000000000',
    epoch: 0,
    userAgent: null,
    address: null,
    createdTs: Date.now(),
    seenTs: Date.now(),
    touchedTs: Date.now(),
    expiresTs: Date.now() + 3_600_000,
  };
  const user = { id: session.userId, email: 'bench@example.com', name: 'Bench', epoch: 0 } as UserRecord;
  const log = createLog('info');
  const config: HttpConfig = {
    baseUrl: 'http://localhost:8080',
    mode: 'development',
    trustedProxies: [],
    // The bucket of the one user must take every request.
    rateLimitFactor: 100_000,
  };
  const store = { sessions: { find: async () => session }, users: { find: async () => user }, attempts: {} };
  const access = createAccess(store as unknown as Parameters<typeof createAccess>[0], config, Date.now);
  const services = { ...access, config, log, now: Date.now } as unknown as Services;
  const routes: AnyRoute[] = [
    route({
      method: 'get',
      path,
      responses: { 200: z.object({ id: z.string(), email: z.string(), name: z.string() }) },
      handle: ({ session }) => reply(200, session.user),
    }),
  ];
  return startServer({ host: '127.0.0.1', port: 0, routes, services });
}
