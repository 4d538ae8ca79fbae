/**
 * `npm run bench slow-readers`: readers that stop, and readers that trickle, beside one that does not. Prints one
 * line of JSON: memory of the process per stopped reader, how long after the last had come all of them were gone, the
 * same of trickling ones, and what both do to the 99th percentile of a small request.
 *
 * `--send-buffer 256` does it in a network of its own in which the kernel keeps so many KB of a connection at most
 * (`net.ipv4.tcp_wmem`): needs root.
 */
import { spawnSync } from 'node:child_process';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { quantile, report } from './cpu.ts';
import { type ProxyProcess, withProxyProcess } from './proxy-child.ts';
import { allowedOrigin, key } from './proxy-world.ts';

const { values } = parseArgs({
  options: { readers: { type: 'string', default: '5000' }, 'send-buffer': { type: 'string' } },
});
const stopped = Number(values.readers);
const trickling = 1_000;
const trickleMs = 1_000;
const trickleBytes = 4 * 1024;
const small = 20 * 1024;
const large = 2 * 1024 * 1024;
/** So large that the buffers of the kernel do not take it. */
const huge = 64 * 1024 * 1024;
const limitMs = 60_000;
/** Time in which the kernel's buffers are filled. */
const settleMs = 1_500;
const lookMs = 50;
const maxWaits = 100;
const probes = 300;
const warmUp = 200;
const agent = new Agent({ keepAlive: true });
/** Descriptors that come and go by themselves. */
const spare = 2;

if (values['send-buffer'] === undefined) await measure();
else measureBounded(Number(values['send-buffer']));

/** Runs this program anew where the kernel's send buffers are bounded. @throws when that is not allowed. */
function measureBounded(kilobytes: number): void {
  const prepare = 'ip link set lo up && echo "4096 16384 $0" > /proc/sys/net/ipv4/tcp_wmem && exec "$@"';
  const own = [process.execPath, process.argv[1] ?? '', 'slow-readers', '--readers', values.readers];
  const { status } = spawnSync('unshare', ['-n', 'sh', '-c', prepare, String(kilobytes * 1024), ...own], {
    stdio: 'inherit',
  });
  if (status !== 0)
    throw new Error('a network of its own needs root, and unshare and ip of util-linux and iproute2');
}

async function measure(): Promise<void> {
  await withProxyProcess({ small, large, huge }, compareReaders);
}

async function compareReaders(server: ProxyProcess): Promise<void> {
  await probe(server.port);
  const calm = await probe(server.port);
  const stops = await measureStopped(server);
  const trickles = await measureTrickling(server);
  const worst = Math.max(stops.p99Ms, trickles.p99Ms);
  report({
    bench: 'slow-readers',
    calmP99Ms: round(calm),
    p99Ratio: round(worst / calm),
    stopped: stops,
    trickling: trickles,
  });
}

async function measureStopped(server: ProxyProcess) {
  // What is kept from the second use on, and what the first readers of a process cost.
  for (let n = 0; n < warmUp; n += 1) await get(server.port, 'large');
  const before = await server.ask();
  const idle = server.descriptors();
  const readers = await openReaders(server, stopped, 'large');
  const startedAt = performance.now() - settleMs;
  const openWhenMeasured = server.descriptors() - idle;
  const during = await server.ask();
  const p99Ms = await probe(server.port);
  const goneMs = await untilGone(server, idle, readers, startedAt);
  return {
    readers: stopped,
    openWhenMeasured,
    bytesEach: Math.round((during.rssBytes - before.rssBytes) / openWhenMeasured),
    goneMs,
    p99Ms: round(p99Ms),
  };
}

async function measureTrickling(server: ProxyProcess) {
  const { port } = server;
  const idle = server.descriptors();
  const readers = await openReaders(server, trickling, 'huge');
  const startedAt = performance.now() - settleMs;
  const timer = setInterval(() => {
    for (const socket of readers) socket.read(Math.min(trickleBytes, socket.readableLength));
  }, trickleMs);
  const p99Ms = await probe(port);
  const goneMs = await untilGone(server, idle, readers, startedAt);
  clearInterval(timer);
  return { readers: trickling, bytesPerSecond: trickleBytes, goneMs, p99Ms: round(p99Ms) };
}

async function openReaders(server: ProxyProcess, many: number, size: string): Promise<Socket[]> {
  const { port } = server;
  const wanted = server.descriptors() + many;
  const readers: Socket[] = [];
  for (let n = 0; n < many; n += 1) {
    const socket = connect(port, '127.0.0.1').pause();
    socket.on('error', () => socket.destroy());
    socket.write(`GET /v1/${key}/a/ast_${size}.mp4 HTTP/1.1\r\nHost: a\r\nOrigin: ${allowedOrigin}\r\n\r\n`);
    readers.push(socket);
    if (n % 100 === 99) await sleep(10);
  }
  // Until all are let in, and what the kernel takes at once is written.
  for (let waits = 0; waits < maxWaits && server.descriptors() < wanted; waits += 1) await sleep(lookMs);
  await sleep(settleMs);
  return readers;
}

/** Answers the ms after which the server had let go of the last: a paused socket does not see it. */
async function untilGone(
  server: ProxyProcess,
  idle: number,
  readers: Socket[],
  startedAt: number,
): Promise<number> {
  while (server.descriptors() > idle + spare && performance.now() - startedAt < limitMs) await sleep(100);
  const isOver = server.descriptors() <= idle + spare;
  for (const socket of readers) socket.destroy();
  return isOver ? Math.round(performance.now() - startedAt) : Number.POSITIVE_INFINITY;
}

/** The 99th percentile of small requests one after the other, in ms. */
async function probe(port: number): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < probes; n += 1) {
    const begun = performance.now();
    await get(port, 'small');
    took.push(performance.now() - begun);
  }
  return quantile(took, 0.99);
}

function get(port: number, size: string): Promise<void> {
  const path = `/v1/${key}/a/ast_${size}.mp4`;
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, agent, headers: { origin: allowedOrigin } });
    sent.on('response', (answer) => answer.resume().on('end', resolve).on('error', reject));
    sent.on('error', reject);
    sent.end();
  });
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100;
}
