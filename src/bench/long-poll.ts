/**
 * `npm run bench long-poll`: ten thousand requests that wait for an asset. Prints one line of JSON: memory of the
 * process per waiter, reads of what would be a database while they wait, how far from the asked time they are answered,
 * and how soon after the end of the run.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { report, spread } from './cpu.ts';
import { type ProxyProcess, withProxyProcess } from './proxy-child.ts';
import { allowedOrigin, key } from './proxy-world.ts';

const waiters = 10_000;
const waitMs = 8_000;
const lookMs = 200;
const groupSize = 100;
const groupMs = 40;
const startMs = 60_000;

await withProxyProcess({ pending: 1_000 }, async (server) => {
  await ask(server.port, 0);
  const connections = await Promise.all(Array.from({ length: waiters }, () => open(server.port)));
  const before = await server.ask();
  const waiting = await pollAll(connections);
  const during = await untilWaiting(server);
  const answers = await Promise.all(waiting);
  const after = await server.ask();
  const errors = answers.map(({ ms }) => ms - waitMs);

  const again = await pollAll(connections);
  await untilWaiting(server);
  const endedAt = performance.now();
  server.finish('ast_pending');
  const told = await Promise.all(again);
  report({
    bench: 'long-poll',
    waiters,
    bytesEach: Math.round((during.rssBytes - before.rssBytes) / waiters),
    readsWhileWaiting: during.reads - before.reads,
    readsAtTheEnd: after.reads - during.reads,
    statuses: count(answers.map(({ status }) => status)),
    offByMs: spread(errors, 0),
    statusesOfEnd: count(told.map(({ status }) => status)),
    afterEndMs: spread(
      told.map(({ at }) => at - endedAt),
      0,
    ),
  });
  for (const socket of connections) socket.destroy();
});

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket));
    socket.on('error', reject);
  });
}

/** Over some seconds, as clients come. */
async function pollAll(connections: Socket[]): Promise<Promise<Polled>[]> {
  const polls: Promise<Polled>[] = [];
  for (const socket of connections) {
    polls.push(poll(socket));
    if (polls.length % groupSize === 0) await sleep(groupMs);
  }
  return polls;
}

type Polled = { status: number; ms: number; at: number };

function poll(socket: Socket): Promise<Polled> {
  return new Promise((resolve) => {
    const begun = performance.now();
    socket.once('data', (data) => {
      const at = performance.now();
      resolve({ status: Number(data.toString('latin1', 9, 12)), ms: at - begun, at });
    });
    const path = `/v1/${key}/a/ast_pending.mp4?wait_ms=${waitMs}`;
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nOrigin: ${allowedOrigin}\r\n\r\n`);
  });
}

async function ask(port: number, left: number): Promise<void> {
  const socket = await open(port);
  socket.write(
    `GET /v1/${key}/a/ast_pending.mp4?n=${left} HTTP/1.1\r\nHost: a\r\nOrigin: ${allowedOrigin}\r\n\r\n`,
  );
  await new Promise((resolve) => socket.once('data', resolve));
  socket.destroy();
}

async function untilWaiting(server: ProxyProcess) {
  for (const end = performance.now() + startMs; performance.now() < end; await sleep(lookMs)) {
    const told = await server.ask();
    if (told.waiting === waiters) return told;
  }
  throw new Error('not everybody waits');
}

function count(statuses: number[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
