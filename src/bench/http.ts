/**
 * What an authenticated small GET costs: CPU of the server per request, against a handler on bare
 * uWebSockets.js that looks at nothing. Prints one line of JSON.
 *
 *   node dist/src/bench/http.js
 *
 * Both servers run as children of this process, which is the client: 50 keep-alive connections with one
 * request each under way. Pairs are interleaved; each server is warmed by the number of its requests.
 */

import uws from 'uWebSockets.js';
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { sessionCookie } from '../auth/sessions.ts';
import { type AnyRoute, reply, route } from '../http/route.ts';
import { startServer } from '../http/server.ts';
import { createAccess, type HttpConfig, type Services } from '../http/services.ts';
import { createLog } from '../log.ts';
import type { SessionRecord } from '../store/sessions.ts';
import type { UserRecord } from '../store/users.ts';

const connections = 50;
const warmUp = 20_000;
const requests = 30_000;
const pairs = 5;
const path = '/api/user/session';
const token = randomBytes(32).toString('base64url');

const role = process.argv[2];
if (role === 'front' || role === 'bare') await serve(role);
else await measure();

async function measure(): Promise<void> {
  const [bare, front] = await Promise.all([start('bare'), start('front')]);
  const micros: Record<'bare' | 'front', number[]> = { bare: [], front: [] };
  for (const server of [bare, front]) await load(server.port, warmUp);
  for (let pair = 0; pair < pairs; pair += 1) {
    micros.bare.push(await cost(bare));
    micros.front.push(await cost(front));
  }
  const ratios = micros.front.map((one, pair) => one / (micros.bare[pair] ?? one));
  const result = {
    bench: 'http',
    bareMicros: summary(micros.bare),
    frontMicros: summary(micros.front),
    ratio: summary(ratios),
    requests,
    pairs,
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  for (const { child } of [bare, front]) child.kill();
}

type Running = { child: ChildProcess; port: number };

async function start(kind: 'front' | 'bare'): Promise<Running> {
  // Its log goes where nobody reads it, through all that writes it.
  const child = fork(fileURLToPath(import.meta.url), [kind, token], {
    stdio: ['ignore', openSync('/dev/null', 'w'), 'inherit', 'ipc'],
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
  await load(port, requests);
  return ((await cpuOf(child)) - before) / requests;
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send('cpu');
  const [micros] = (await once(child, 'message')) as [number];
  return micros;
}

/** Sends a number of requests; every answer has the length of the first. */
async function load(port: number, count: number): Promise<void> {
  const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nCookie: ${sessionCookie}=${token}\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n`;
  let left = count;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(port, '127.0.0.1').setNoDelay(true);
      let size = 0;
      let received = 0;
      socket.on('data', (data) => {
        received += data.byteLength;
        size ||= data.byteLength;
        if (received < size) return;
        received = 0;
        if (left <= 0) socket.destroy();
        else {
          left -= 1;
          socket.write(request);
        }
      });
      left -= 1;
      socket.write(request);
      await once(socket, 'close');
    }),
  );
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

/** Median, and the smallest and largest. */
function summary(values: number[]): { median: number; min: number; max: number } {
  const sorted = [...values].sort((a, b) => a - b).map((value) => Math.round(value * 100) / 100);
  return {
    median: sorted[Math.floor(sorted.length / 2)] ?? 0,
    min: sorted[0] ?? 0,
    max: sorted.at(-1) ?? 0,
  };
}
