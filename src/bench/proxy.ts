/**
 * `npm run bench proxy`: what the public proxy costs, against nginx with the same access check and a handler on bare
 * uWebSockets.js that sends the same head and body. Prints one line of JSON.
 *
 * CPU of each server's process per request, in µs; 50 connections of wrk; each server is warmed by count. Five
 * interleaved rounds, of which the median ratio counts; `--rounds 15` asks for more, `--only 304,403` for some of the
 * cases. Needs nginx-light and wrk.
 */
import uws from 'uWebSockets.js';
import { type ChildProcess, fork } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { signUrl } from '../auth/signed-url.ts';
import { freePort } from '../demo/free-port.ts';
import { cpuMsOf, median, report, spread } from './cpu.ts';
import { checkInstalled, type Nginx, startNginx } from './nginx.ts';
import { memoryEnv, nodeOptions } from './processes.ts';
import { allowedOrigin, key, keyOf, secret, startProxyWorld } from './proxy-world.ts';
import { askFor, connections } from './wrk.ts';

const kilobyte = 1024;
const sizes = { small: 20 * kilobyte, part: 64 * kilobyte, clip: 300 * kilobyte, large: 2048 * kilobyte };

type Case = {
  name: string;
  /** Path at our proxy. */
  path: string;
  /** Path at nginx. */
  peer: string;
  headers: Record<string, string>;
  status: number;
  bytes: number;
  /** Seconds of each measurement. */
  seconds: number;
};

type Name = 'proxy' | 'nginx' | 'raw';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '5' }, only: { type: 'string' } },
});
const rounds = Number(values.rounds);
const [role, folderOfRole] = positionals;
if (role === 'serve') await serve(folderOfRole ?? '');
else await measure();

async function measure(): Promise<void> {
  checkInstalled('nginx', 'nginx-light');
  const folder = await mkdtemp(join(tmpdir(), 'bench-proxy-'));
  const nginxPort = await freePort();
  const ours = fork(fileURLToPath(import.meta.url), ['serve', folder], {
    env: { ...process.env, ...memoryEnv },
    execArgv: nodeOptions,
    stdio: ['ignore', openSync('/dev/null', 'w'), 'inherit', 'ipc'],
  });
  const started = once(ours, 'message') as Promise<[number]>;
  let nginx: Nginx | undefined;
  try {
    await writeFiles(folder);
    nginx = await startNginx(folder, join(folder, 'www'), nginxPort, secret);
    const [port] = await started;
    const wanted = values.only?.split(',');
    const cases = (await toCases(port)).filter(({ name }) => wanted?.includes(name) ?? true);
    if (cases.length === 0) throw new Error(`there is no case ${values.only}`);
    const results: Record<string, unknown> = {};
    for (const one of cases) results[one.name] = await compare(one, ours, port, nginx);
    report({ bench: 'proxy', rounds, connections, results });
  } finally {
    ours.kill();
    nginx?.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The same bytes for us, by storage key, and for nginx, below /open and /signed. */
async function writeFiles(folder: string): Promise<void> {
  for (const [name, bytes] of Object.entries(sizes)) {
    const body = randomBytes(bytes);
    for (const extension of ['mp4', 'jpg'] as const) {
      const own = join(folder, 'objects', keyOf(`ast_${name}`, extension));
      const open = join(folder, 'www', 'open', `${name}.${extension}`);
      const signed = join(folder, 'www', 'signed', `${name}.${extension}`);
      for (const file of [own, open, signed]) {
        await mkdir(dirname(file), { recursive: true });
        await writeFile(file, body);
      }
    }
  }
}

async function toCases(port: number): Promise<Case[]> {
  const origin = { Origin: allowedOrigin };
  const url = (name: string, extension: string) => `/v1/${key}/a/ast_${name}.${extension}`;
  const plain = (
    name: string,
    size: keyof typeof sizes,
    extension: 'mp4' | 'jpg',
    seconds: number,
  ): Case => ({
    name,
    path: url(size, extension),
    peer: `/open/${size}.${extension}`,
    headers: origin,
    status: 200,
    bytes: sizes[size],
    seconds,
  });
  const expiresTs = Date.now() + 3_600_000;
  const expires = Math.floor(expiresTs / 1_000);
  const digest = createHash('md5').update(`${expires}/signed/small.jpg ${secret}`).digest('base64url');
  const poster = plain('poster 20 KB', 'small', 'jpg', 1);
  const etagOf = async (at: number, path: string) => (await ask(at, path, origin)).etag;
  return [
    poster,
    {
      ...poster,
      name: 'signed poster 20 KB',
      path: signUrl({ key, secret, source: 'asset:ast_small' }, expiresTs, 'jpg'),
      peer: `/signed/small.jpg?exp=${expires}&sig=${digest}`,
      headers: {},
    },
    {
      ...plain('range 64 KB', 'clip', 'mp4', 1),
      headers: { ...origin, Range: `bytes=0-${sizes.part - 1}` },
      status: 206,
      bytes: sizes.part,
    },
    {
      ...poster,
      name: '304',
      headers: { ...origin, 'If-None-Match': await etagOf(port, poster.path) },
      status: 304,
      bytes: 0,
    },
    { ...poster, name: '403', headers: { Origin: 'https://evil.example.org' }, status: 403, bytes: 0 },
    plain('mp4 300 KB', 'clip', 'mp4', 1),
    plain('mp4 2 MB', 'large', 'mp4', 1),
  ];
}

async function compare(one: Case, ours: ChildProcess, port: number, nginx: Nginx) {
  const rawPort = await askChild(ours, { raw: await answerOf(port, one) });
  const pid = ours.pid ?? 0;
  const targets: Record<Name, { port: number; pid: number; path: string; headers: Record<string, string> }> =
    {
      proxy: { port, pid, path: one.path, headers: one.headers },
      nginx: { port: nginx.port, pid: nginx.pid, path: one.peer, headers: one.headers },
      raw: { port: rawPort, pid, path: one.path, headers: one.headers },
    };
  if (one.status === 304) {
    const { etag } = await ask(nginx.port, one.peer, { Origin: allowedOrigin });
    targets.nginx.headers = { ...one.headers, 'If-None-Match': etag };
  }
  const micros: Record<Name, number[]> = { proxy: [], nginx: [], raw: [] };
  for (const { port: at, path, headers } of Object.values(targets)) {
    const { status } = await ask(at, path, headers);
    if (status !== one.status) throw new Error(`${one.name}: ${status} instead of ${one.status} at ${path}`);
    await askFor(at, path, headers, one.seconds);
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ['proxy', 'nginx', 'raw'] as const) {
      const { port: at, pid: of, path, headers } = targets[name];
      const before = cpuMsOf(of);
      const requests = await askFor(at, path, headers, one.seconds);
      micros[name].push(((cpuMsOf(of) - before) * 1_000) / requests);
    }
  }
  const against = (peer: Name) =>
    spread(micros.proxy.map((own, round) => own / (micros[peer][round] ?? own)));
  const gigabytes = { gigabytesPerCpuSecond: Number((one.bytes / median(micros.proxy) / 1_000).toFixed(2)) };
  return {
    micros: { proxy: spread(micros.proxy), nginx: spread(micros.nginx), raw: spread(micros.raw) },
    toNginx: against('nginx'),
    toRaw: against('raw'),
    ...(one.bytes > 0 ? gigabytes : {}),
  };
}

type Asked = { status: number; etag: string; block: string; body: Buffer };

function ask(port: number, path: string, headers: Record<string, string>): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, headers, agent: false }, async (answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk as Buffer);
      // The head as it came, without what uWebSockets.js writes by itself.
      const { rawHeaders } = answer;
      let block = '';
      for (let n = 0; n < rawHeaders.length; n += 2) {
        const [name = '', value = ''] = rawHeaders.slice(n, n + 2);
        if (!/^(date|uwebsockets|content-length|connection)$/i.test(name)) block += `\r\n${name}: ${value}`;
      }
      resolve({
        status: answer.statusCode ?? 0,
        etag: answer.headers.etag ?? '',
        block,
        body: Buffer.concat(chunks),
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** What the bare handler is to send: status, head and body as our own answer has them. */
type RawAnswer = { status: number; block: string; body: string };

async function answerOf(port: number, { path, headers }: Case): Promise<RawAnswer> {
  const { status, block, body } = await ask(port, path, headers);
  return { status, block, body: body.toString('base64') };
}

async function askChild(child: ChildProcess, message: { raw: RawAnswer }): Promise<number> {
  child.send(message);
  const [answer] = (await once(child, 'message')) as [number];
  return answer;
}

async function serve(folder: string): Promise<void> {
  const { server } = await startProxyWorld(folder);
  process.on('disconnect', () => process.exit());
  process.on('message', (message: { raw: RawAnswer }) => {
    void startRaw(message.raw).then((port) => process.send?.(port));
  });
  process.send?.(server.port);
}

/** The least that uWebSockets.js can do: one header call, tryEnd, and the rest as it is taken. */
function startRaw({ status, block, body: text }: RawAnswer): Promise<number> {
  const body = Buffer.from(text, 'base64');
  const [first = '', ...rest] = block.split('\r\n').slice(1);
  const [name = ''] = first.split(': ', 1);
  const value = [first.slice(name.length + 2), ...rest].join('\r\n');
  const app = uws.App().get('/*', (res) => {
    if (status !== 200) res.writeStatus(String(status));
    res.writeHeader(name, value);
    if (body.byteLength === 0) {
      res.endWithoutBody();
      return;
    }
    const [, isDone] = res.tryEnd(body, body.byteLength);
    if (isDone) return;
    res.onAborted(() => undefined);
    res.onWritable((offset) => res.tryEnd(body.subarray(offset), body.byteLength)[0]);
  });
  return new Promise((resolve) => {
    app.listen('127.0.0.1', 0, uws.LIBUS_LISTEN_EXCLUSIVE_PORT, (socket) => {
      if (socket) resolve(uws.us_socket_local_port(socket));
    });
  });
}
