/** Finished media: conditional and range requests, streams, readers that are slow or gone, storage that fails. */
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import t, { type Test } from 'tap';
import { type MediaHead, selectPart } from '../../src/http/conditional.ts';
import { mediaRoutes } from '../../src/http/media.ts';
import { createMediaFiles, type MediaFilesOptions } from '../../src/http/media-files.ts';
import { createPace, type PaceOptions } from '../../src/http/pace.ts';
import { createMediaServer } from '../../src/http/serve-media.ts';
import { startServer } from '../../src/http/server.ts';
import type { Services } from '../../src/http/services.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { type Storage, StorageError } from '../../src/media/storage.ts';
import { ask, openReader, until } from './ask.ts';

const none: MediaHead = { isHead: false, range: '', ifRange: '', ifNoneMatch: '', ifModifiedSince: '' };
const modified = 'Wed, 21 Oct 2026 07:28:00 GMT';
const file = { etag: '"v1"', modifiedTs: Date.parse(modified), total: 1_000 };
const before = 'Wed, 21 Oct 2026 07:27:59 GMT';
const after = 'Wed, 21 Oct 2026 07:28:01 GMT';
const part = (start: number, end: number) => ({ status: 206, start, end });

t.test('what a request gets of a file, case by case', async (t) => {
  const cases: [string, Partial<MediaHead>, object][] = [
    ['no condition', {}, { status: 200 }],
    ['first bytes', { range: 'bytes=0-99' }, part(0, 99)],
    ['one byte', { range: 'bytes=0-0' }, part(0, 0)],
    ['the last byte', { range: 'bytes=999-999' }, part(999, 999)],
    ['from a byte on', { range: 'bytes=900-' }, part(900, 999)],
    ['what video elements ask first', { range: 'bytes=0-' }, part(0, 999)],
    ['past the end', { range: 'bytes=900-5000' }, part(900, 999)],
    ['the last hundred', { range: 'bytes=-100' }, part(900, 999)],
    ['more than there is, from the end', { range: 'bytes=-5000' }, part(0, 999)],
    ['upper case and blanks', { range: 'Bytes= 1-2 ' }, part(1, 2)],
    ['the end of the file', { range: 'bytes=1000-' }, { status: 416 }],
    ['beyond the end', { range: 'bytes=5000-6000' }, { status: 416 }],
    ['no bytes from the end', { range: 'bytes=-0' }, { status: 416 }],
    ['a number too large to be exact', { range: `bytes=${'9'.repeat(30)}-` }, { status: 416 }],
    ['an end too large to be exact', { range: `bytes=1-${'9'.repeat(30)}` }, part(1, 999)],
    ['backwards', { range: 'bytes=5-1' }, { status: 200 }],
    ['several ranges', { range: 'bytes=0-1,5-6' }, { status: 200 }],
    ['another unit', { range: 'lines=0-1' }, { status: 200 }],
    ['no numbers', { range: 'bytes=-' }, { status: 200 }],
    ['letters', { range: 'bytes=a-b' }, { status: 200 }],
    ['a sign', { range: 'bytes=+1-2' }, { status: 200 }],
    ['a range with HEAD', { isHead: true, range: 'bytes=0-1' }, { status: 200 }],
    ['the same tag', { ifNoneMatch: '"v1"' }, { status: 304 }],
    ['the same tag, weak', { ifNoneMatch: 'W/"v1"' }, { status: 304 }],
    ['one of several tags', { ifNoneMatch: '"a", "v1" , "b"' }, { status: 304 }],
    ['any tag', { ifNoneMatch: '*' }, { status: 304 }],
    ['another tag', { ifNoneMatch: '"v2"' }, { status: 200 }],
    ['a tag without quotes', { ifNoneMatch: 'v1' }, { status: 200 }],
    ['the same tag with HEAD', { isHead: true, ifNoneMatch: '"v1"' }, { status: 304 }],
    ['the same tag and a range', { ifNoneMatch: '"v1"', range: 'bytes=0-1' }, { status: 304 }],
    ['another tag and a range', { ifNoneMatch: '"v2"', range: 'bytes=0-1' }, part(0, 1)],
    ['the same date', { ifModifiedSince: modified }, { status: 304 }],
    ['a later date', { ifModifiedSince: after }, { status: 304 }],
    ['an earlier date', { ifModifiedSince: before }, { status: 200 }],
    ['a date that is none', { ifModifiedSince: 'yesterday' }, { status: 200 }],
    ['a date in another form', { ifModifiedSince: '2030-01-01T00:00:00Z' }, { status: 200 }],
    ['a day that does not exist', { ifModifiedSince: 'Wed, 99 Oct 2026 07:28:00 GMT' }, { status: 200 }],
    [
      'another tag wins over the same date',
      { ifNoneMatch: '"v2"', ifModifiedSince: modified },
      { status: 200 },
    ],
    ['a range of the same tag', { range: 'bytes=0-1', ifRange: '"v1"' }, part(0, 1)],
    ['a range of another tag', { range: 'bytes=0-1', ifRange: '"v2"' }, { status: 200 }],
    ['a range of a weak tag', { range: 'bytes=0-1', ifRange: 'W/"v1"' }, { status: 200 }],
    ['a range of the same date', { range: 'bytes=0-1', ifRange: modified }, part(0, 1)],
    ['a range of a later date', { range: 'bytes=0-1', ifRange: after }, { status: 200 }],
    ['a range beyond the end of another tag', { range: 'bytes=5000-', ifRange: '"v2"' }, { status: 200 }],
  ];
  for (const [name, head, expected] of cases)
    t.strictSame(selectPart({ ...none, ...head }, file), expected, name);
});

type Line = { status: number; err?: unknown };

async function start(
  t: Test,
  options: { files?: MediaFilesOptions; pace?: PaceOptions; wrap?: (storage: Storage) => Storage } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'media-'));
  const storage = await createFileStorage(folder);
  const reads: string[] = [];
  const counted: Storage = {
    ...storage,
    head: (key, signal) => {
      reads.push(`head ${key}`);
      return storage.head(key, signal);
    },
    read: (key, signal, max) => {
      reads.push(`read ${key}`);
      return storage.read(key, signal, max);
    },
    get: (key, range, signal) => {
      reads.push(`get ${key}`);
      return storage.get(key, range, signal);
    },
  };
  const used = options.wrap?.(counted) ?? counted;
  const files = createMediaFiles(used, options.files);
  const pace = createPace(options.pace);
  const logged: Line[] = [];
  const note = (line: object) => void logged.push(line as Line);
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    routes: mediaRoutes({ files, media: createMediaServer(files, pace) }),
    services: {
      log: { info: note, warn: note, error: note },
      config: { baseUrl: 'http://localhost:8080', trustedProxies: [] },
    } as unknown as Services,
  });
  t.teardown(async () => {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  });
  return {
    port: server.port,
    files,
    pace,
    reads,
    logged,
    storage,
    async put(name: string, bytes: Uint8Array) {
      const contentType = name.endsWith('.mp4') ? 'video/mp4' : 'image/jpeg';
      await storage.put(`media/${name}`, bytes, { contentType, signal: AbortSignal.timeout(5_000) });
      return `/media/${name}`;
    },
  };
}

const descriptors = () => readdirSync('/proc/self/fd').length;

t.test('a small file: whole, in part, unchanged, unsatisfiable, HEAD and OPTIONS', async (t) => {
  const { port, put } = await start(t);
  const bytes = randomBytes(50_000);
  const path = await put('ast_1/1-0123456789abcdef.mp4', bytes);
  const poster = await put('ast_1/1-0123456789abcdef.jpg', bytes.subarray(0, 10));

  const whole = await ask(port, path, { headers: { 'x-request-id': 'abcd-1' } });
  t.equal(whole.status, 200);
  t.ok(whole.body.equals(bytes));
  t.match(whole.headers, {
    'content-type': 'video/mp4',
    'content-length': '50000',
    'cache-control': 'public, max-age=31536000, immutable',
    'accept-ranges': 'bytes',
    'access-control-allow-origin': '*',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
    'timing-allow-origin': '*',
    'x-request-id': 'abcd-1',
    etag: /^"[^"]+"$/,
    'last-modified': /GMT$/,
  });
  const etag = whole.headers['etag'] ?? '';
  t.match((await ask(port, poster)).headers, { 'content-type': 'image/jpeg', 'content-length': '10' });

  const range = await ask(port, path, { headers: { range: 'bytes=10-19', 'if-range': etag } });
  t.equal(range.status, 206);
  t.ok(range.body.equals(bytes.subarray(10, 20)));
  t.match(range.headers, { 'content-range': 'bytes 10-19/50000', 'content-length': '10', etag });

  const unchanged = await ask(port, path, { headers: { 'if-none-match': etag } });
  t.equal(unchanged.status, 304);
  t.equal(unchanged.body.length, 0);
  t.match(unchanged.headers, { etag, 'cache-control': /immutable/ });
  t.equal(unchanged.headers['content-length'], undefined);
  const since = whole.headers['last-modified'] ?? '';
  t.equal((await ask(port, path, { headers: { 'if-modified-since': since } })).status, 304);

  const beyond = await ask(port, path, { headers: { range: 'bytes=50000-' } });
  t.equal(beyond.status, 416);
  t.match(beyond.headers, { 'content-range': 'bytes */50000', 'access-control-allow-origin': '*' });
  t.match(beyond.json, { error: 'range not satisfiable' });
  t.match(beyond.headers['cache-control'], 'no-store');

  const head = await ask(port, path, { method: 'HEAD', headers: { range: 'bytes=0-1' } });
  t.match({ ...head, body: head.body.length }, { status: 200, body: 0 });
  t.match(head.headers, { 'content-length': '50000', etag });
  const options = await ask(port, path, { method: 'OPTIONS' });
  t.equal(options.status, 204);
  t.match(options.headers['access-control-allow-headers'], /Range/);
  t.equal((await ask(port, path, { method: 'POST' })).status, 405);
});

t.test('a HEAD is followed by other requests on its connection', async (t) => {
  const { port, put } = await start(t);
  const path = await put('ast_1/1-0123456789abcdef.mp4', Buffer.from('the whole file'));
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.on('data', (data) => {
    received += data.toString();
  });
  for (const [n, method] of ['HEAD', 'GET', 'HEAD', 'GET'].entries()) {
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await until(() => received.match(/content-length: 14\r\n/gi)?.length === n + 1);
  }
  await until(() => received.split('the whole file').length === 3);
  t.ok(received.endsWith('\r\n\r\nthe whole file'));
  socket.destroy();
});

t.test('404 for everything that is not the name of a finished file', async (t) => {
  const { port, put, reads } = await start(t);
  await put('ast_1/1-0123456789abcdef.mp4', randomBytes(10));
  const names = [
    'ast_1/1-0123456789abcdee.mp4',
    'ast_1/1-0123456789abcdef.png',
    'ast_1/0123456789abcdef.mp4',
    'ast_1/1-0123456789abcdef.mp4.mp4',
    'ast_1/..%2fast_1%2f1-0123456789abcdef.mp4',
    '..%2fmedia%2fast_1/1-0123456789abcdef.mp4',
    'ast-1/1-0123456789abcdef.mp4',
    `${'a'.repeat(70)}/1-0123456789abcdef.mp4`,
    'ast_1/1-0123456789abcdef.mp4%00',
  ];
  for (const name of names) {
    for (const method of ['GET', 'HEAD']) {
      const answer = await ask(port, `/media/${name}`, { method });
      t.equal(answer.status, 404, `${method} ${name}`);
      t.equal(answer.headers['access-control-allow-origin'], '*');
    }
  }
  t.strictSame(
    reads,
    Array(2).fill('head media/ast_1/1-0123456789abcdee.mp4'),
    'storage is asked for well-formed names alone',
  );
  t.equal((await ask(port, '/media/ast_1/x/y.mp4')).status, 404);
});

t.test(
  'small files are kept from their second use on, within a bound, and forgotten when erased',
  async (t) => {
    const { port, put, reads, files, storage } = await start(t, { files: { maxCachedBytes: 25_000 } });
    const bytes = randomBytes(10_000);
    const path = await put('ast_1/1-aaaaaaaa.mp4', bytes);
    const count = (what: string) => reads.filter((line) => line.startsWith(what)).length;

    await Promise.all(Array.from({ length: 10 }, () => ask(port, path)));
    t.equal(count('head'), 1, 'requests at once share one look');
    const shared = count('read');
    t.ok(shared <= 2, 'and one read');
    for (let n = 0; n < 5; n += 1) t.ok((await ask(port, path)).body.equals(bytes));
    t.ok(count('read') <= 2);
    t.match(files.stats, { bodies: 1, bytes: 10_000 });

    const others = await Promise.all(['b', 'c', 'd'].map((name) => put(`ast_${name}/1-aaaaaaaa.mp4`, bytes)));
    for (const other of others) await ask(port, other);
    t.equal(files.stats.bodies, 1, 'one use fills nothing');
    for (const other of others) await ask(port, other);
    t.match(files.stats, { bodies: 2, bytes: 20_000 });

    await storage.deletePrefix('media/ast_1/');
    await storage.deletePrefix('media/ast_d/');
    files.forget('media/ast_1/');
    files.forget('media/ast_d/');
    t.equal((await ask(port, path)).status, 404);
    t.equal((await ask(port, '/media/ast_d/1-aaaaaaaa.mp4')).status, 404);
  },
);

t.test('a large file is streamed, whole and in part, to quick and slow readers', async (t) => {
  const { port, put, files, logged, pace } = await start(t);
  const bytes = randomBytes(12 * 1024 * 1024);
  const path = await put('ast_1/1-bbbbbbbb.mp4', bytes);
  const fds = descriptors();

  t.ok((await ask(port, path)).body.equals(bytes));
  const range = await ask(port, path, { headers: { range: 'bytes=1000000-9000000' } });
  t.equal(range.status, 206);
  t.ok(range.body.equals(bytes.subarray(1_000_000, 9_000_001)));
  const tail = await ask(port, path, { headers: { range: 'bytes=-5' } });
  t.ok(tail.body.equals(bytes.subarray(-5)));
  t.match((await ask(port, path, { method: 'HEAD' })).headers, { 'content-length': String(bytes.length) });
  t.equal(files.stats.bodies, 0);

  const slow = openReader(port, path);
  await until(() => pace.size === 1);
  slow.resume();
  await until(() => slow.body().length === bytes.length, 10_000);
  t.ok(slow.body().equals(bytes), 'every byte in its place after a pause');
  slow.leave();
  await slow.closed;

  const readers = Array.from({ length: 20 }, () => openReader(port, path));
  await until(() => pace.size === 20);
  for (const reader of readers) reader.leave();
  await until(() => logged.filter(({ status }) => status === 499).length === 20);
  await until(() => descriptors() <= fds + 2);
  t.equal(pace.size, 0, 'readers that leave hold nothing');
});

t.test('pieces of a large file are kept from its second use on, and forgotten with it', async (t) => {
  const { port, put, reads, files, storage } = await start(t, {
    files: { smallBytes: 100, pieceBytes: 1_000, maxCachedBytes: 32_000 },
  });
  const bytes = randomBytes(5_500);
  const path = await put('ast_1/1-ffffffff.mp4', bytes);
  const gets = () => reads.filter((line) => line.startsWith('get')).length;
  t.ok((await ask(port, path)).body.equals(bytes));
  t.equal(gets(), 6);
  t.equal(files.stats.bodies, 0, 'one use keeps nothing');
  for (let n = 0; n < 2; n += 1) t.ok((await ask(port, path)).body.equals(bytes));
  const before = gets();
  const range = await ask(port, path, { headers: { range: 'bytes=999-4000' } });
  t.ok(range.body.equals(bytes.subarray(999, 4_001)));
  t.equal(gets(), before, 'storage is not asked again');
  await storage.deletePrefix('media/ast_1/');
  files.forget('media/ast_1/');
  t.equal((await ask(port, path)).status, 404);
  t.match(files.stats, { bodies: 0, bytes: 0 });
});

t.test('a small file to a reader that pauses, and to one that leaves', async (t) => {
  const { port, put, pace, logged } = await start(t, { files: { smallBytes: 16 * 1024 * 1024 } });
  const bytes = randomBytes(10 * 1024 * 1024);
  const path = await put('ast_1/1-cccccccc.mp4', bytes);
  const slow = openReader(port, path, { range: 'bytes=1-' });
  await until(() => pace.size === 1);
  slow.resume();
  await until(() => slow.body().length === bytes.length - 1, 10_000);
  t.ok(slow.body().equals(bytes.subarray(1)));
  t.equal(pace.size, 0);
  slow.leave();
  const gone = openReader(port, path);
  await until(() => pace.size === 1);
  gone.leave();
  await until(() => logged.some(({ status }) => status === 499));
  t.equal(pace.size, 0);
});

t.test('who reads less than 8 KB a second is cut after the time of grace', async (t) => {
  const { port, put, pace } = await start(t, {
    files: { smallBytes: 100 },
    // As if a thousandth of the time stood for all of it.
    pace: { graceMs: 300, minBytesPerSecond: 10 * 1024 * 1024, checkMs: 50 },
  });
  const path = await put('ast_1/1-dddddddd.mp4', randomBytes(16 * 1024 * 1024));
  const trickling = openReader(port, path);
  await until(() => pace.size === 1);
  const begun = performance.now();
  await until(() => pace.size === 0);
  t.ok(performance.now() - begun >= 200, 'not before');
  trickling.resume();
  await trickling.closed;
  t.ok(trickling.bytes < 16 * 1024 * 1024);
  t.equal((await ask(port, path)).body.length, 16 * 1024 * 1024, 'a quick reader is not');
});

t.test('storage that fails: 503 before the first byte, a cut after it', async (t) => {
  const faults = {
    head: false,
    read: false,
    body: 'whole' as 'whole' | 'error' | 'short' | 'gone',
    /** Where the part of the file begins that cannot be read. */
    from: 0,
  };
  const { port, put, files } = await start(t, {
    files: { smallBytes: 1_000, pieceBytes: 1_000 },
    wrap: (storage) => ({
      ...storage,
      head: (key, signal) => {
        if (faults.head) throw new StorageError('no storage');
        return storage.head(key, signal);
      },
      read: async (key, signal, max) => {
        if (faults.read) throw new StorageError('no storage');
        return faults.body === 'gone' ? undefined : storage.read(key, signal, max);
      },
      get: async (key, range, signal) => {
        if (faults.read) throw new StorageError('no storage');
        if (faults.body === 'gone') return undefined;
        const object = await storage.get(key, range, signal);
        if (!object || faults.body === 'whole' || (range?.start ?? 0) < faults.from) return object;
        object.stream.destroy();
        const stream = new PassThrough();
        stream.write(Buffer.alloc(10));
        if (faults.body === 'short') stream.end();
        else setImmediate(() => stream.destroy(new StorageError('lost on the way')));
        return { ...object, stream };
      },
    }),
  });
  const small = await put('ast_1/1-eeeeeeee.jpg', randomBytes(100));
  const large = await put('ast_1/1-eeeeeeee.mp4', randomBytes(5_000));
  const unread = await put('ast_2/1-eeeeeeee.mp4', randomBytes(5_000));

  faults.head = true;
  const refused = await ask(port, small);
  t.match(refused, { status: 503, json: { error: 'unavailable' } });
  t.match(refused.headers, { 'retry-after': '2', 'access-control-allow-origin': '*' });
  faults.head = false;
  faults.read = true;
  t.equal((await ask(port, small)).status, 503);
  t.equal((await ask(port, large)).status, 503);
  faults.read = false;
  for (const body of ['short', 'error'] as const) {
    faults.body = body;
    faults.from = 2_000;
    await t.rejects(ask(port, large), /aborted|hang up|ECONNRESET/, `${body} body`);
    faults.from = 0;
    t.equal((await ask(port, unread)).status, 503, `${body} from the first byte on`);
  }
  faults.body = 'gone';
  t.equal((await ask(port, small)).status, 404);
  t.equal((await ask(port, unread)).status, 404);
  faults.body = 'whole';
  t.equal((await ask(port, small)).status, 200);
  t.equal((await ask(port, large)).body.length, 5_000);
  t.equal((await ask(port, unread)).status, 200);
  t.equal(files.stats.files, 3);
});

t.test('a file that is deleted while it is looked up is not remembered', async (t) => {
  const info = { total: 1, contentType: 'video/mp4', lastModified: new Date(0), etag: '"v1"' };
  let answer: (found: typeof info | undefined) => void = () => undefined;
  const head = () =>
    new Promise<typeof info | undefined>((resolve) => {
      answer = resolve;
    });
  const files = createMediaFiles({ head } as unknown as Storage);
  const found = files.find('media/ast_1/1-aaaaaaaa.mp4');
  files.forget('media/ast_1/', 'posters/prj_1/a.jpg');
  answer(info);
  t.equal(await found, undefined);
  const other = files.find('media/ast_1/1-bbbbbbbb.mp4');
  answer(info);
  t.match(await other, { total: 1 });
  const again = files.find('media/ast_1/1-aaaaaaaa.mp4');
  t.type(again, Promise, 'storage is asked again');
  answer(undefined);
  t.equal(await again, undefined);
});
