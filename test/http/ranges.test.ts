/**
 * Range and conditional requests for a file, case by case, as RFC 9110 has them; and the same table asked of nginx.
 * Where nginx answers otherwise, the row says how, and why.
 *
 * The half of nginx is skipped, and says so, where it is not installed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../src/demo/free-port.ts';
import { mediaRoutes } from '../../src/http/media.ts';
import { createMediaFiles } from '../../src/http/media-files.ts';
import { createPace } from '../../src/http/pace.ts';
import { createMediaServer } from '../../src/http/serve-media.ts';
import { startServer } from '../../src/http/server.ts';
import type { Services } from '../../src/http/services.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';

const bytes = randomBytes(1_000);
const total = bytes.length;

/** What a server says of the file, and dates around it in the three forms of RFC 9110, 5.6.7. */
type File = {
  etag: string;
  modified: string;
  earlier: string;
  later: string;
  rfc850: string;
  asctime: string;
};
type Headers = Record<string, string>;
/** `200`, `206 0-9` with the bytes of the body, `206 parts` for several, and so on. */
type Outcome = string;
type Case = {
  name: string;
  method?: 'HEAD';
  headers: (file: File) => Headers;
  ours: Outcome;
  /** Where it differs. */
  nginx?: { outcome: Outcome; why: string };
};

const range = (name: string, value: string, ours: Outcome, nginx?: Outcome, why = ''): Case => ({
  name: `${name}: ${value}`,
  headers: () => ({ range: value }),
  ours,
  ...(nginx ? { nginx: { outcome: nginx, why } } : {}),
});

const mayIgnore = '14.2: a range that is not valid may be ignored or refused';
const mayWhole = '14.2: any Range may be ignored, and several are (decisions 4)';
const exactDate = '13.1.3: a copy that is as new or newer still holds; nginx wants the very date';
const getOnly = '14.2: a range is defined for GET alone and must be ignored otherwise';
const unknownCondition =
  '13.2.1: a condition that this service does not look at; it guards changes, and no request changes a file';

const cases: Case[] = [
  { name: 'nothing asked', headers: () => ({}), ours: '200' },
  range('first bytes', 'bytes=0-99', '206 0-99'),
  range('one byte', 'bytes=0-0', '206 0-0'),
  range('the last byte', 'bytes=999-999', '206 999-999'),
  range('all of it, by its numbers', 'bytes=0-999', '206 0-999'),
  range('what video elements ask first', 'bytes=0-', '206 0-999'),
  range('from a byte on', 'bytes=900-', '206 900-999'),
  range('past the end', 'bytes=900-5000', '206 900-999'),
  range('the last hundred', 'bytes=-100', '206 900-999'),
  range('more than there is, from the end', 'bytes=-5000', '206 0-999'),
  range('no bytes from the end', 'bytes=-0', '416'),
  range('the end of the file', 'bytes=1000-', '416'),
  range('beyond the end', 'bytes=5000-6000', '416'),
  range('leading zeros', 'bytes=0010-0019', '206 10-19'),
  range('upper case', 'BYTES=0-9', '206 0-9'),
  range('blanks after the equals sign', 'bytes=  0-9', '206 0-9'),
  range('a start too large for a number', `bytes=${'9'.repeat(30)}-`, '416'),
  range(
    'an end too large for a number',
    `bytes=1-${'9'.repeat(30)}`,
    '206 1-999',
    '416',
    '14.1.2: a last position past the end means the end, however large',
  ),
  range(
    'a suffix too large for a number',
    `bytes=-${'9'.repeat(30)}`,
    '206 0-999',
    '416',
    '14.1.2: a suffix longer than the file means all of it, however large',
  ),
  range('backwards', 'bytes=5-1', '200', '416', mayIgnore),
  range('no numbers', 'bytes=-', '200', '416', mayIgnore),
  range('nothing', 'bytes=', '200'),
  range('letters', 'bytes=a-b', '200', '416', mayIgnore),
  range('a sign', 'bytes=+1-2', '200', '416', mayIgnore),
  range('hexadecimal', 'bytes=0x1-0x2', '200', '416', mayIgnore),
  range('a fraction', 'bytes=0.5-2', '200', '416', mayIgnore),
  range('more after it', 'bytes=0-9;q=1', '200', '416', mayIgnore),
  range('a blank before the equals sign', 'bytes =0-9', '200'),
  range('another unit', 'lines=0-1', '200'),
  range('no unit', '0-9', '200'),
  range('two ranges', 'bytes=0-9,20-29', '200', '206 parts', mayWhole),
  range('first and last byte', 'bytes=0-0,-1', '200', '206 parts', mayWhole),
  range('two that overlap', 'bytes=0-99,50-149', '200', '206 parts', mayWhole),
  range('one of two beyond the end', 'bytes=0-9,5000-6000', '200', '206 0-9', mayWhole),
  range('both beyond the end', 'bytes=5000-,6000-', '200', '416', mayWhole),
  range('an empty one of two', 'bytes=0-9,', '200', '416', mayWhole),
  range(
    'a hundred ranges',
    `bytes=${Array.from({ length: 100 }, (_, n) => `${n * 2}-${n * 2}`).join(',')}`,
    '200',
    '206 parts',
    mayWhole,
  ),
  { name: 'the same tag', headers: ({ etag }) => ({ 'if-none-match': etag }), ours: '304' },
  { name: 'the same tag, weak', headers: ({ etag }) => ({ 'if-none-match': `W/${etag}` }), ours: '304' },
  {
    name: 'one of several tags',
    headers: ({ etag }) => ({ 'if-none-match': `"a", W/"b" ,${etag}, "c"` }),
    ours: '304',
  },
  { name: 'any tag', headers: () => ({ 'if-none-match': '*' }), ours: '304' },
  { name: 'another tag', headers: () => ({ 'if-none-match': '"other"' }), ours: '200' },
  {
    name: 'the tag without its quotes',
    headers: ({ etag }) => ({ 'if-none-match': etag.replaceAll('"', '') }),
    ours: '200',
  },
  {
    name: 'part of the tag',
    headers: ({ etag }) => ({ 'if-none-match': `${etag.slice(0, -2)}"` }),
    ours: '200',
  },
  { name: 'the same date', headers: ({ modified }) => ({ 'if-modified-since': modified }), ours: '304' },
  {
    name: 'the same date as RFC 850 wrote it',
    headers: ({ rfc850 }) => ({ 'if-modified-since': rfc850 }),
    ours: '304',
  },
  {
    name: 'the same date as asctime writes it',
    headers: ({ asctime }) => ({ 'if-modified-since': asctime }),
    ours: '304',
  },
  { name: 'an earlier date', headers: ({ earlier }) => ({ 'if-modified-since': earlier }), ours: '200' },
  {
    name: 'a later date',
    headers: ({ later }) => ({ 'if-modified-since': later }),
    ours: '304',
    nginx: { outcome: '200', why: exactDate },
  },
  { name: 'a date that is none', headers: () => ({ 'if-modified-since': 'yesterday' }), ours: '200' },
  {
    name: 'a date in another form',
    headers: () => ({ 'if-modified-since': '2040-01-01T00:00:00Z' }),
    ours: '200',
  },
  {
    name: 'a day that does not exist',
    headers: () => ({ 'if-modified-since': 'Wed, 99 Oct 2040 07:28:00 GMT' }),
    ours: '200',
  },
  {
    name: 'another tag, the same date',
    headers: ({ modified }) => ({ 'if-none-match': '"other"', 'if-modified-since': modified }),
    ours: '200',
  },
  {
    name: 'the same tag, an earlier date',
    headers: ({ etag, earlier }) => ({ 'if-none-match': etag, 'if-modified-since': earlier }),
    ours: '304',
    nginx: { outcome: '200', why: '13.1.3: If-Modified-Since must be ignored beside If-None-Match' },
  },
  {
    name: 'a range of the same tag',
    headers: ({ etag }) => ({ range: 'bytes=0-9', 'if-range': etag }),
    ours: '206 0-9',
  },
  {
    name: 'a range of another tag',
    headers: () => ({ range: 'bytes=0-9', 'if-range': '"other"' }),
    ours: '200',
  },
  {
    name: 'a range of the same tag, weak',
    headers: ({ etag }) => ({ range: 'bytes=0-9', 'if-range': `W/${etag}` }),
    ours: '200',
  },
  {
    name: 'a range of the same date',
    headers: ({ modified }) => ({ range: 'bytes=0-9', 'if-range': modified }),
    ours: '206 0-9',
  },
  {
    name: 'a range of an earlier date',
    headers: ({ earlier }) => ({ range: 'bytes=0-9', 'if-range': earlier }),
    ours: '200',
  },
  {
    name: 'a range of a later date',
    headers: ({ later }) => ({ range: 'bytes=0-9', 'if-range': later }),
    ours: '200',
  },
  {
    name: 'a range of nothing that is known',
    headers: () => ({ range: 'bytes=0-9', 'if-range': 'x' }),
    ours: '200',
  },
  {
    name: 'a range beyond the end of another tag',
    headers: () => ({ range: 'bytes=5000-', 'if-range': '"other"' }),
    ours: '200',
  },
  {
    name: 'a range beyond the end of the same tag',
    headers: ({ etag }) => ({ range: 'bytes=5000-', 'if-range': etag }),
    ours: '416',
  },
  { name: 'If-Range without a range', headers: () => ({ 'if-range': '"other"' }), ours: '200' },
  {
    name: 'a range, and the tag is known',
    headers: ({ etag }) => ({ range: 'bytes=0-9', 'if-none-match': etag }),
    ours: '304',
  },
  {
    name: 'a range, and another tag is known',
    headers: () => ({ range: 'bytes=0-9', 'if-none-match': '"other"' }),
    ours: '206 0-9',
  },
  {
    name: 'a range beyond the end, and the tag is known',
    headers: ({ etag }) => ({ range: 'bytes=5000-', 'if-none-match': etag }),
    ours: '304',
  },
  { name: 'HEAD', method: 'HEAD', headers: () => ({}), ours: '200' },
  {
    name: 'HEAD with a range',
    method: 'HEAD',
    headers: () => ({ range: 'bytes=0-9' }),
    ours: '200',
    nginx: { outcome: '206', why: getOnly },
  },
  {
    name: 'HEAD with a range beyond the end',
    method: 'HEAD',
    headers: () => ({ range: 'bytes=5000-' }),
    ours: '200',
    nginx: { outcome: '416', why: getOnly },
  },
  {
    name: 'HEAD with the same tag',
    method: 'HEAD',
    headers: ({ etag }) => ({ 'if-none-match': etag }),
    ours: '304',
  },
  {
    name: 'If-Match with another tag',
    headers: () => ({ 'if-match': '"other"' }),
    ours: '200',
    nginx: { outcome: '412', why: unknownCondition },
  },
  {
    name: 'If-Unmodified-Since an earlier date',
    headers: ({ earlier }) => ({ 'if-unmodified-since': earlier }),
    ours: '200',
    nginx: { outcome: '412', why: unknownCondition },
  },
];

t.test('each case, by this service', async (t) => {
  const server = await startOurs(t);
  const file = await describe(server);
  for (const { name, method, headers, ours } of cases)
    t.equal(await outcomeOf(server, method, headers(file)), ours, name);
});

const nginxPath = ['/usr/sbin/nginx', '/usr/local/sbin/nginx'].find((path) => existsSync(path));

t.test('each case, by nginx', { skip: nginxPath ? false : 'nginx is not installed' }, async (t) => {
  const server = await startNginx(t);
  const file = await describe(server);
  for (const { name, method, headers, ours, nginx } of cases) {
    t.equal(await outcomeOf(server, method, headers(file)), nginx?.outcome ?? ours, name);
    if (nginx) t.comment(`${name}: ${ours} here, ${nginx.outcome} there. RFC 9110, ${nginx.why}`);
  }
});

type Server = { port: number; path: string };
type Got = { status: number; headers: Record<string, string | undefined>; body: Buffer };

/** What came back, in a word; anything about it that is not as it must be is in the text too. */
async function outcomeOf(server: Server, method = 'GET', headers: Headers): Promise<Outcome> {
  const got = await send(server, method, headers);
  const { status, body } = got;
  if (method === 'HEAD') return body.length === 0 ? `${status}` : `${status} with a body`;
  return readings[status]?.(got) ?? `${status}`;
}

const readings: Record<number, (got: Got) => Outcome> = {
  200: ({ headers, body }) =>
    body.equals(bytes) && headers['content-range'] === undefined && headers['etag']
      ? '200'
      : '200 but not the file',
  304: ({ headers, body }) =>
    body.length === 0 && headers['content-length'] === undefined && headers['etag']
      ? '304'
      : '304 with a length',
  416: ({ headers }) =>
    headers['content-range'] === `bytes */${total}` ? '416' : `416 of ${headers['content-range']}`,
  206({ headers, body }) {
    if (headers['content-type']?.startsWith('multipart/byteranges')) return '206 parts';
    const part = headers['content-range'] ?? '';
    const [, start, end] = /^bytes (\d+)-(\d+)\/1000$/.exec(part) ?? [];
    const isRight = body.equals(bytes.subarray(Number(start), Number(end) + 1)) && headers['etag'];
    return isRight ? `206 ${start}-${end}` : `206 with other bytes than ${part}`;
  },
};

async function describe(server: Server): Promise<File> {
  const { headers } = await send(server, 'GET', {});
  const modified = headers['last-modified'] ?? '';
  const ts = Date.parse(modified);
  const [, day = '', month = '', year = '', time = ''] = /, (\d+) (\w+) (\d+) (\S+)/.exec(modified) ?? [];
  const weekday = new Date(ts).toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' });
  return {
    etag: headers['etag'] ?? '',
    modified,
    earlier: new Date(ts - 1_000).toUTCString(),
    later: new Date(ts + 1_000).toUTCString(),
    rfc850: `${weekday}, ${day}-${month}-${year.slice(-2)} ${time} GMT`,
    asctime: `${weekday.slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${time} ${year}`,
  };
}

function send({ port, path }: Server, method: string, headers: Headers): Promise<Got> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => {
        const got = answer.headers as Got['headers'];
        resolve({ status: answer.statusCode ?? 0, headers: got, body: Buffer.concat(chunks) });
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

async function startOurs(t: Test): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'ranges-'));
  const storage = await createFileStorage(folder);
  const key = 'media/ast_1/1-0123456789abcdef.mp4';
  await storage.put(key, bytes, { contentType: 'video/mp4', signal: AbortSignal.timeout(5_000) });
  const files = createMediaFiles(storage);
  const note = () => undefined;
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    routes: mediaRoutes({ files, media: createMediaServer(files, createPace()) }),
    services: {
      log: { info: note, warn: note, error: note },
      config: { baseUrl: 'http://localhost:8080', trustedProxies: [] },
    } as unknown as Services,
  });
  t.teardown(async () => {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  });
  return { port: server.port, path: `/${key}` };
}

async function startNginx(t: Test): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'nginx-'));
  await mkdir(join(folder, 'files'));
  const file = join(folder, 'files', 'clip.mp4');
  await writeFile(file, bytes);
  await utimes(file, new Date('2026-01-02T03:04:05Z'), new Date('2026-01-02T03:04:05Z'));
  const port = await freePort();
  const settings = `
    daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
    events {}
    http {
      access_log off; types { video/mp4 mp4; }
      client_body_temp_path ${folder}/a; proxy_temp_path ${folder}/b; fastcgi_temp_path ${folder}/c;
      uwsgi_temp_path ${folder}/d; scgi_temp_path ${folder}/e;
      server { listen 127.0.0.1:${port}; root ${folder}/files; }
    }`;
  await writeFile(join(folder, 'nginx.conf'), settings);
  const child = spawn(nginxPath ?? '', ['-c', join(folder, 'nginx.conf')], { stdio: 'ignore' });
  t.teardown(async () => {
    await stop(child);
    await rm(folder, { recursive: true, force: true });
  });
  const server = { port, path: '/clip.mp4' };
  for (let tries = 0; ; tries += 1) {
    const isUp = await send(server, 'HEAD', {}).then(
      () => true,
      () => false,
    );
    if (isUp) return server;
    if (child.exitCode !== null || tries > 500) throw new Error('nginx does not start');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
