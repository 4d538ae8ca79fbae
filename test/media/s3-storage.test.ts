/** What an object store may do to its client, and what the client makes of it; addresses, credentials, the check. */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { storage as limits } from '../../schemas/limits.ts';
import { addressIn, parseS3Url } from '../../src/media/s3-place.ts';
import { openS3Storage, type S3StorageOptions } from '../../src/media/s3-storage.ts';
import type { StoredObject } from '../../src/media/storage.ts';
import { refuse, type S3Like, s3Credentials, s3Secrets, startS3Like } from '../fixtures/s3-like.ts';

const never = new AbortController().signal;
const mp4 = { contentType: 'video/mp4', signal: never };
const bin = { contentType: 'application/octet-stream', signal: never };
const bytesOf = (text: string) => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString();
const writeFailed = { name: 'EffectError', code: 'store_write_failed', retry: 'transient' };
const failed = { name: 'StorageError', isTransient: true };
const refused = { name: 'StorageError', isTransient: false };

/** Short, so that silence is soon over; far longer than any answer takes here. */
const times = { ...limits, answerMs: 500, idleMs: 500, callMs: 700, retryMs: 1 };

async function openBucket(t: Test, options: Partial<S3StorageOptions> = {}) {
  const store = await startS3Like(t);
  const tempDir = await mkdtemp(join(tmpdir(), 's3-'));
  const storage = await openS3Storage({
    place: store.place,
    credentials: s3Credentials,
    tempDir,
    times,
    ...options,
  });
  t.teardown(async () => {
    await storage.close();
    await rm(tempDir, { recursive: true });
  });
  store.requests.length = 0;
  return { store, storage, tempDir };
}

type Fault = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Lets the first `count` requests that fit meet a fault; the others are answered. */
function failing(
  store: S3Like,
  count: number,
  fault: Fault,
  fits: (request: IncomingMessage) => boolean = () => true,
) {
  let left = count;
  store.fault = (request, response) => {
    if (left === 0 || !fits(request)) return false;
    left -= 1;
    return fault(request, response);
  };
}

const isSilent: Fault = () => true;
const resets: Fault = (request) => {
  request.socket.resetAndDestroy();
  return true;
};
/** An object of ten bytes, of which some come and then something else happens. */
const breaksOff =
  (then: (response: ServerResponse) => void, length = '10'): Fault =>
  (_, response) => {
    const info = { etag: '"x"', 'last-modified': new Date().toUTCString() };
    response.writeHead(200, { ...info, 'content-length': length });
    response.write('01234', () => then(response));
    return true;
  };

async function drain(stream: Readable): Promise<string> {
  return Buffer.concat(await stream.toArray()).toString();
}

function streamOf(object: StoredObject | undefined): Readable {
  if (!object) throw new Error('no object');
  return object.stream;
}

async function keysOf(list: AsyncIterable<{ key: string }>): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of list) keys.push(key);
  return keys;
}

t.test('what passes is tried again, for every call', async (t) => {
  const { store, storage } = await openBucket(t);
  const slowDown: Fault = (request, response) => {
    request.resume();
    return refuse(response, 503, 'SlowDown');
  };
  const html: Fault = (request, response) => {
    request.resume();
    response.writeHead(502).end('<html>Bad Gateway</html>');
    return true;
  };
  const file = join(t.testdir({ clip: 'from a file' }), 'clip');
  for (const fault of [slowDown, html, resets]) {
    failing(store, 2, fault);
    t.strictSame(await storage.put('a/x.mp4', { file }, mp4), { bytes: 11, created: true });
    failing(store, 2, fault);
    t.equal((await storage.head('a/x.mp4'))?.total, 11);
    failing(store, 2, fault);
    t.equal(textOf(await storage.read('a/x.mp4', never, 11)), 'from a file');
    failing(store, 2, fault);
    const part = await storage.get('a/x.mp4', { start: 5, end: 5 }, never);
    t.equal(part && (await drain(part.stream)), 'a');
    failing(store, 2, fault);
    t.strictSame(await keysOf(storage.list('a/')), ['a/x.mp4']);
    failing(store, 2, fault);
    await storage.deletePrefix('a/');
    failing(store, 2, fault);
    await storage.delete('a/x.mp4');
  }
  failing(store, 1, isSilent);
  t.strictSame(await storage.put('a/x.mp4', { file }, mp4), { bytes: 11, created: true });
  failing(store, 1, isSilent);
  t.equal((await storage.head('a/x.mp4'))?.total, 11);
  failing(store, 1, isSilent);
  t.equal(textOf(await storage.read('a/x.mp4', never, 11)), 'from a file');
});

t.test('what does not pass is an error after four attempts, and one that stays so at once', async (t) => {
  const { store, storage } = await openBucket(t);
  const outcomes: [Fault, typeof failed & { message?: RegExp }, number][] = [
    [(_, response) => refuse(response, 503, 'SlowDown'), failed, 4],
    [resets, failed, 4],
    [(_, response) => refuse(response, 412, 'PreconditionFailed'), refused, 1],
    [(_, response) => refuse(response, 403, 'AccessDenied'), refused, 1],
    [(_, response) => refuse(response, 404, 'NoSuchBucket'), refused, 1],
    [(_, response) => refuse(response, 400, 'RequestTimeout'), failed, 4],
    [
      (_, response) =>
        refuse(response, 301, 'PermanentRedirect', {
          location: 'http://127.0.0.1:9/',
          'x-amz-bucket-region': 'eu-west-9',
        }),
      { ...refused, message: /301 PermanentRedirect \(the bucket is in eu-west-9\)$/ },
      1,
    ],
    [
      (_, response) => {
        response
          .writeHead(403, { 'content-type': 'application/xml' })
          .end(`<Error><Code>${'x'.repeat(5_000_000)}`);
        return true;
      },
      refused,
      1,
    ],
  ];
  for (const [fault, expected, attempts] of outcomes) {
    store.fault = (request, response) => {
      request.resume();
      return fault(request, response);
    };
    for (const run of [
      () => storage.get('x.bin', undefined, never),
      () => storage.read('x.bin', never, 10),
      () => storage.deletePrefix('x/'),
      () => keysOf(storage.list('')),
    ]) {
      store.requests.length = 0;
      await t.rejects(Promise.resolve<unknown>(run()), expected);
      t.equal(store.requests.length, attempts);
    }
    await t.rejects(storage.put('x.bin', bytesOf('x'), bin), writeFailed);
  }
  store.fault = (_, response) => {
    response.writeHead(403).end();
    return true;
  };
  await t.rejects(storage.head('x.bin'), refused);
});

t.test('a body that breaks off is read again, and as a stream is an error', async (t) => {
  const { store, storage } = await openBucket(t);
  await storage.put('x.bin', bytesOf('0123456789'), bin);
  const silent = breaksOff(() => undefined);
  const reset = breaksOff((response) => response.socket?.resetAndDestroy());
  const short = breaksOff((response) => response.socket?.end());
  const isGet = ({ method }: IncomingMessage) => method === 'GET';
  for (const fault of [silent, reset, short]) {
    failing(store, 1, fault, isGet);
    t.equal(textOf(await storage.read('x.bin', never, 10)), '0123456789');

    failing(store, 1, fault, isGet);
    const object = await storage.get('x.bin', undefined, never);
    t.equal(object?.bytes, 10);
    await t.rejects(drain(streamOf(object)));
  }
  failing(
    store,
    1,
    breaksOff(() => undefined, 'many'),
    isGet,
  );
  t.equal(textOf(await storage.read('x.bin', never, 10)), '0123456789', 'a length that is none is no answer');
  failing(
    store,
    1,
    (_, response) => {
      response.writeHead(200, { etag: '"x"', 'last-modified': new Date().toUTCString() }).end('chunks');
      return true;
    },
    isGet,
  );
  await t.rejects(storage.get('x.bin', undefined, never), { ...refused, message: /how long/ });
});

t.test('another part than was asked for is refused', async (t) => {
  const { store, storage } = await openBucket(t);
  const info = { etag: '"x"', 'last-modified': new Date().toUTCString() };
  const answers: [number, Record<string, string>, string][] = [
    [200, {}, '0123456789'],
    [206, {}, '234'],
    [206, { 'content-range': 'bytes 3-5/10' }, '345'],
    [206, { 'content-range': 'bytes 2-3/10' }, '23'],
    [206, { 'content-range': 'bytes 2-4/10' }, '2345'],
    [206, { 'content-range': 'bytes 2-4/*' }, '234'],
  ];
  for (const [status, headers, body] of answers) {
    store.fault = (_, response) => {
      response.writeHead(status, { ...info, ...headers, 'content-length': body.length }).end(body);
      return true;
    };
    await t.rejects(storage.get('x.bin', { start: 2, end: 4 }, never), refused, JSON.stringify(headers));
  }
  store.fault = (_, response) => {
    response.writeHead(200, { ...info, 'content-length': 3 }).end('012');
    return true;
  };
  const whole = await storage.get('x.bin', { start: 0, end: 9 }, never);
  t.strictSame(
    [whole?.bytes, whole?.total, whole && (await drain(whole.stream))],
    [3, 3, '012'],
    'all of it is the part',
  );
  store.fault = (_, response) => {
    response.writeHead(200, { 'content-length': 3 }).end('012');
    return true;
  };
  await t.rejects(storage.head('x.bin'), { ...refused, message: /ETag/ });
});

t.test('a creator whose answer was lost is still the creator', async (t) => {
  const { store, storage } = await openBucket(t);
  let isLost = false;
  store.fault = (request, response) => {
    if (request.method !== 'PUT' || isLost) return false;
    isLost = true;
    // The object is stored; its answer goes nowhere.
    response.end = () => request.socket.destroy() && response;
    return false;
  };
  const create = { ...bin, ifAbsent: true };
  t.strictSame(await storage.put('x.bin', bytesOf('mine'), create), { bytes: 4, created: true });
  t.strictSame(store.requests, ['PUT own/folder/x.bin', 'PUT own/folder/x.bin', 'HEAD own/folder/x.bin']);
  t.strictSame(await storage.put('x.bin', bytesOf('others'), create), { bytes: 4, created: false });
});

t.test('a store that takes no more of a body is given up, and nothing is left behind', async (t) => {
  const { store, storage, tempDir } = await openBucket(t, { times: { ...times, retries: 1 } });
  store.fault = (request) => {
    request.pause();
    return true;
  };
  async function* pieces() {
    for (let i = 0; i < 20; i += 1) yield new Uint8Array(1_000_000);
  }
  await t.rejects(storage.put('x.bin', pieces(), bin), writeFailed);
  t.equal(store.requests.length, 2);

  const control = new AbortController();
  const reason = new Error('given up');
  const put = storage.put('x.bin', new Uint8Array(20_000_000), { ...bin, signal: control.signal });
  while (store.requests.length < 3) await new Promise(setImmediate);
  control.abort(reason);
  await t.rejects(put, reason);
  t.strictSame(await readdir(tempDir), []);
});

t.test('slow readers hold the store back, and hold nobody else', async (t) => {
  const { store, storage } = await openBucket(t, { times: { ...times, connections: 1, streams: 3 } });
  const bytes = new Uint8Array(20_000_000).fill(7);
  await storage.put('x.bin', bytes, bin);
  let sent = 0;
  store.fault = (request, response) => {
    if (request.method !== 'GET') return false;
    const info = {
      etag: '"x"',
      'last-modified': new Date().toUTCString(),
      'content-length': bytes.byteLength,
    };
    response.writeHead(200, info);
    const more = () => {
      for (let goesOn = true; goesOn && sent < bytes.byteLength; sent += 100_000)
        goesOn = response.write(bytes.subarray(0, 100_000));
      if (sent < bytes.byteLength) response.once('drain', more);
    };
    more();
    return true;
  };
  const control = new AbortController();
  const object = await storage.get('x.bin', undefined, control.signal);
  // Longer than silence is borne: a reader that is not ready is no fault of the store.
  await new Promise((resolve) => setTimeout(resolve, 3 * times.idleMs));
  t.ok(sent < bytes.byteLength, `${sent} bytes were sent`);
  store.fault = () => false;
  t.equal((await storage.head('x.bin'))?.total, 20_000_000);
  for (let i = 0; i < 10; i += 1) {
    const early = await storage.get('x.bin', undefined, never);
    early?.stream.destroy();
  }
  t.equal(
    (await storage.get('x.bin', { start: 0, end: 0 }, never))?.bytes,
    1,
    'connections of readers that left are free',
  );

  const reason = new Error('the visitor has gone');
  const ended = t.rejects(drain(streamOf(object)), reason);
  control.abort(reason);
  await ended;
});

t.test('an abort ends a call that waits, and its retries', async (t) => {
  const { store, storage } = await openBucket(t);
  store.fault = isSilent;
  const reason = new Error('given up');
  for (const run of [
    (signal: AbortSignal) => storage.head('x.bin', signal),
    (signal: AbortSignal) => storage.read('x.bin', signal, 1),
    (signal: AbortSignal) => storage.get('x.bin', undefined, signal),
    (signal: AbortSignal) => storage.delete('x.bin', signal),
    (signal: AbortSignal) => storage.deletePrefix('x/', signal),
    (signal: AbortSignal) => keysOf(storage.list('', signal)),
  ]) {
    store.requests.length = 0;
    const control = new AbortController();
    const asked = run(control.signal);
    while (store.requests.length === 0) await new Promise(setImmediate);
    control.abort(reason);
    await t.rejects(Promise.resolve<unknown>(asked), reason);
    t.equal(store.requests.length, 1);
  }
});

t.test('long lists come in pages, and only what was asked for is deleted', async (t) => {
  const { store, storage } = await openBucket(t);
  const object = { bytes: Buffer.from('x'), headers: {}, lastModified: new Date() };
  const names = Array.from({ length: 2_500 }, (_, i) => `a/${String(i).padStart(5, '0')}.mp4`);
  for (const name of names) store.objects.set(`own/folder/${name}`, object);
  // Of others: beside our folder, and in it under names that no key has.
  const others = ['elsewhere/a/1.mp4', 'own/folder2/a/1.mp4', 'own/folder/b/1.mp4'];
  for (const name of [...others, 'own/folder/a/', 'own/folder/a/"<ö & ü>\r.mp4'])
    store.objects.set(name, object);

  t.strictSame(await keysOf(storage.list('a/')), names);
  t.equal(store.requests.length, 3);
  store.requests.length = 0;
  for await (const _ of storage.list('a/')) break;
  t.equal(store.requests.length, 1, 'pages come as they are needed');

  store.pageKeys = 700;
  await storage.deletePrefix('a/');
  t.strictSame([...store.objects.keys()], others);

  const answers: [string, typeof failed][] = [
    ['<html>Welcome</html>', failed],
    ['<ListBucketResult><Contents><Key>own/folder/a/1', failed],
    ['<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>', failed],
    [
      '<ListBucketResult><Contents><Key>elsewhere/a/1.mp4</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>',
      refused,
    ],
    [
      '<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>',
      refused,
    ],
    [`<ListBucketResult>${' '.repeat(5_000_000)}</ListBucketResult>`, refused],
  ];
  for (const [xml, expected] of answers) {
    store.fault = (_, response) => response.end(xml) && true;
    await t.rejects(storage.deletePrefix('a/'), expected, xml.slice(0, 80));
  }
  store.objects.set('own/folder/a/1.mp4', object);
  store.fault = (request, response) =>
    request.method === 'POST' &&
    response.end('<DeleteResult><Error><Key>x</Key><Code>AccessDenied</Code></Error></DeleteResult>') &&
    true;
  await t.rejects(storage.deletePrefix('a/'), { ...failed, message: /AccessDenied/ });
});

t.test('the start is refused in one line that names what is missing and tells no secret', async (t) => {
  const store = await startS3Like(t);
  const quick = { ...times, retries: 1, checkMs: 1_000 };
  const open = (options: Partial<S3StorageOptions> = {}) =>
    openS3Storage({
      place: store.place,
      credentials: s3Credentials,
      tempDir: tmpdir(),
      times: quick,
      ...options,
    });
  const isNo = async (message: RegExp, options?: Partial<S3StorageOptions>) => {
    const cause = await open(options).then(
      () => new Error('it was opened'),
      (error: Error) => error,
    );
    t.match(cause.message, message);
    t.notOk(cause.message.includes('\n'));
    const told = JSON.stringify([cause, (cause.cause as Error | undefined)?.message, cause.stack]);
    for (const secret of [s3Secrets.id, s3Secrets.secret]) t.notOk(told.includes(secret));
  };
  const bucketUrl = `the bucket media cannot be used \\(${store.place.bucketUrl.replaceAll('.', '\\.')}\\)`;
  const other = parseS3Url(store.storageUrl.replace('s3://media', 's3://other'));
  await isNo(/bucket other cannot be used .*404 NoSuchBucket$/, { place: other });
  await isNo(new RegExp(`^${bucketUrl}.*403 InvalidAccessKeyId$`), {
    credentials: { ...s3Credentials, accessKeyId: { text: 'x' } },
  });
  await isNo(/403 SignatureDoesNotMatch$/, {
    credentials: { ...s3Credentials, secretAccessKey: { text: 'x' } },
  });
  await isNo(/400 AuthorizationHeaderMalformed$/, { place: { ...store.place, region: 'us-east-1' } });
  await isNo(/ECONNREFUSED$/, { place: parseS3Url('s3://media?endpoint=http://127.0.0.1:9') });
  const readOnly: Fault = ({ method }, response) => method === 'PUT' && refuse(response, 403, 'AccessDenied');
  store.fault = readOnly;
  await isNo(/cannot store probe-.*403 AccessDenied$/);
  store.fault = isSilent;
  await isNo(/no answer/);
  delete store.fault;
  store.overlooksConditions = true;
  await isNo(/it does not honour If-None-Match$/);
  store.overlooksConditions = false;
  const gone = join(t.testdir(), 'gone');
  await t.rejects(open({ credentials: { ...s3Credentials, secretAccessKey: { file: gone } } }), {
    name: 'StorageError',
    message: /gone cannot be read \(ENOENT\)/,
  });
  store.objects.clear();
  await (await open()).close();
  t.equal(store.objects.size, 0, 'the probe is gone');
});

t.test('credentials come from files, and are read again when they are refused', async (t) => {
  const folder = t.testdir({ id: `${s3Secrets.id}\n`, secret: `${s3Secrets.secret}\n`, token: 'first' });
  const store = await startS3Like(t);
  store.accepted = { ...s3Secrets, token: 'first' };
  const storage = await openS3Storage({
    place: store.place,
    credentials: {
      accessKeyId: { file: join(folder, 'id') },
      secretAccessKey: { file: join(folder, 'secret') },
      sessionToken: { file: join(folder, 'token') },
    },
    tempDir: tmpdir(),
    times: { ...times, connections: 1 },
  });
  t.teardown(() => storage.close());
  await storage.put('x.bin', bytesOf('x'), bin);

  store.accepted = { ...s3Secrets, token: 'second' };
  await t.rejects(storage.head('x.bin'), refused);
  await writeFile(join(folder, 'token'), 'second');
  const found = await Promise.all(Array.from({ length: 5 }, () => storage.head('x.bin')));
  t.strictSame(
    found.map((info) => info?.total),
    [1, 1, 1, 1, 1],
  );
  await writeFile(join(folder, 'token'), 'two\nlines');
  store.accepted = { ...s3Secrets, token: 'third' };
  const put = () => storage.put('x.bin', bytesOf('x'), bin);
  await t.rejects(put(), { ...writeFailed, message: /holds no credential/ });
  await writeFile(join(folder, 'token'), 'third');
  t.strictSame(await put(), { bytes: 1, created: true }, 'the one connection is free again');
});

t.test('an address of storage names bucket, folder, region, endpoint and addressing', async (t) => {
  const keyed = (text: string) => addressIn(parseS3Url(text), { key: 'a/x.mp4' }).href;
  const listed = (text: string) => addressIn(parseS3Url(text), { query: 'prefix=x' }).href;
  t.equal(keyed('s3://media?region=eu-west-1'), 'https://media.s3.eu-west-1.amazonaws.com/a/x.mp4');
  t.equal(listed('s3://media?region=eu-west-1'), 'https://media.s3.eu-west-1.amazonaws.com/?prefix=x');
  t.equal(
    keyed('s3://my.media/a/b/?region=eu-west-1'),
    'https://s3.eu-west-1.amazonaws.com/my.media/a/b/a/x.mp4',
  );
  t.equal(keyed('s3://media?endpoint=http://minio:9000/'), 'http://minio:9000/media/a/x.mp4');
  t.equal(parseS3Url('s3://media?endpoint=http://minio:9000').region, 'us-east-1');
  t.equal(
    listed('s3://media?endpoint=https://x.example/storage/v1/s3'),
    'https://x.example/storage/v1/s3/media?prefix=x',
  );
  t.equal(
    keyed('s3://media/own?endpoint=https://r2.example:8443&region=auto&addressing=virtual'),
    'https://media.r2.example:8443/own/a/x.mp4',
  );
  for (const text of [
    '',
    'media',
    's3://',
    's3://media',
    's3://Media?region=a',
    's3://media:80?region=a',
    's3://id:secret@media?region=a',
    's3://media/a//b?region=a',
    's3://media/a b?region=a',
    's3://media?region=A',
    's3://media?region=a&region=b',
    's3://media?region=a&acl=public',
    's3://media?region=a#x',
    's3://media?endpoint=ftp://x',
    's3://media?endpoint=x',
    's3://media?endpoint=https://id:secret@x',
    's3://media?endpoint=https://x/%2520',
    's3://media?region=a&addressing=dns',
  ]) {
    t.throws(() => parseS3Url(text), TypeError, text);
  }
});
