import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import sharp from 'sharp';
import t from 'tap';
import { upload as limits } from '../../schemas/limits.ts';
import { StorageError } from '../../src/media/storage.ts';
import { newId } from '../../src/store/ids.ts';
import { startFront } from '../fixtures/http.ts';

const front = await startFront();
t.teardown(() => front.close());
const { call, services, store, url } = front;
const { cookie, userId } = await front.signUp();

const image = (format: 'png' | 'jpeg' | 'webp') =>
  sharp({ create: { width: 80, height: 64, channels: 3, background: '#468' } })
    .toFormat(format)
    .toBuffer();
const png = await image('png');
/** Noise does not compress: what is sent has this size. */
const bigPng = (bytes: number) => Buffer.concat([png, Buffer.alloc(bytes - png.byteLength, 1)]);

function form(file?: Uint8Array, name = 'file'): FormData {
  const data = new FormData();
  data.append('note', 'a field that nobody asked for');
  if (file) data.append(name, new Blob([Buffer.from(file)]), 'picture.gif');
  return data;
}
const send = (raw: FormData | string, headers: Record<string, string> = {}, as = cookie) =>
  call('POST', '/api/v1/upload', { raw, headers, cookie: as });
const stored = async () => {
  const keys: string[] = [];
  for await (const { key } of services.storage.list('uploads/')) keys.push(key);
  return keys;
};

t.test('200 with a public address for each type, judged by its bytes', async (t) => {
  for (const [format, extension, type] of [
    ['png', 'png', 'image/png'],
    ['jpeg', 'jpg', 'image/jpeg'],
    ['webp', 'webp', 'image/webp'],
  ] as const) {
    const bytes = await image(format);
    const { status, body } = await send(form(bytes));
    t.equal(status, 200);
    t.match(body['key'], new RegExp(`^upl_[0-9A-Za-z]{20}\\.${extension}$`));
    t.equal(body['url'], `http://localhost:8080/uploads/${body['key']}`);

    const read = await fetch(`${url}/uploads/${body['key']}`);
    t.equal(read.status, 200);
    t.equal(read.headers.get('content-type'), type);
    t.equal(read.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    t.equal(read.headers.get('x-content-type-options'), 'nosniff');
    t.equal(read.headers.get('content-length'), String(bytes.byteLength));
    t.match(read.headers.get('x-request-id'), /^req_/);
    t.strictSame(Buffer.from(await read.arrayBuffer()), bytes);

    const etag = read.headers.get('etag') ?? '';
    const same = await fetch(`${url}/uploads/${body['key']}`, { headers: { 'if-none-match': etag } });
    t.equal(same.status, 304);
    t.equal(same.headers.get('content-length'), null);
    const head = await fetch(`${url}/uploads/${body['key']}`, { method: 'HEAD' });
    t.equal(head.headers.get('content-length'), String(bytes.byteLength));
  }
  t.equal((await store.uploads.unusedBefore(front.clock.now + 1, 10)).length, 3);
});

t.test('404 for what is not there, whatever it is called', async (t) => {
  for (const key of [
    'none.png',
    `upl_${'a'.repeat(20)}.png`,
    '..%2f..%2fetc%2fpasswd',
    '%00.png',
    'a.mp4',
    'a',
  ]) {
    t.match(await call('GET', `/uploads/${key}`), { status: 404, body: { error: 'not found' } }, key);
  }
  t.equal((await call('POST', '/uploads/a.png')).status, 405);
});

t.test('401 without a session, and nothing is kept', async (t) => {
  const before = await stored();
  t.equal((await call('POST', '/api/v1/upload', { raw: form(png) })).status, 401);
  t.strictSame(await stored(), before);
});

t.test('403 when another site sends it with the cookie', async (t) => {
  const { status } = await send(form(png), { origin: 'https://evil.example' });
  t.equal(status, 403);
});

t.test('400 without a file, 415 for another type, and nothing is kept', async (t) => {
  const before = await stored();
  const left = (await store.uploads.unusedBefore(front.clock.now + 1, 100)).length;
  const multipart = { 'content-type': 'multipart/form-data; boundary=b' };
  const part = (content: string) =>
    `--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\n${content}`;
  const bad: [number, FormData | string, Record<string, string>?][] = [
    [400, form()],
    [400, form(png, 'picture')],
    [400, form(new Uint8Array())],
    [400, 'nonsense', multipart],
    [400, part('cut short'), multipart],
    [400, '', multipart],
    [400, '{}', { 'content-type': 'application/json' }],
    [400, 'x', { 'content-type': 'multipart/form-data' }],
    [415, form(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"></svg>'))],
    [415, form(Buffer.from('GIF89a and more of the same'))],
  ];
  for (const [want, raw, headers] of bad) {
    const { status, body } = await send(raw, headers);
    t.equal(status, want, JSON.stringify(body));
    t.type(body['error'], 'string');
  }
  t.strictSame(await stored(), before);
  t.equal((await store.uploads.unusedBefore(front.clock.now + 1, 100)).length, left);
});

t.test('413 for more than 10 MB, announced or while it streams', async (t) => {
  const before = await stored();
  t.equal((await send(form(bigPng(limits.maxBytes)))).status, 200, 'ten are fine');
  t.match(await send(form(bigPng(limits.maxBytes + 1))), { status: 413, body: { error: /10 MB/ } });
  t.equal((await send(form(bigPng(limits.maxBytes + 3 * 1024 * 1024)))).status, 413, 'announced');
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(
        Buffer.from('--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\n'),
      );
      controller.enqueue(bigPng(limits.maxBytes * 1.5));
      controller.enqueue(Buffer.from('\r\n--b--\r\n'));
      controller.close();
    },
  });
  const { status } = await call('POST', '/api/v1/upload', {
    raw: body,
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
    cookie,
  });
  t.equal(status, 413, 'in chunks of unknown length');
  t.equal((await stored()).length, before.length + 1);
});

t.test('413 when unused uploads take too much room; used ones do not count', async (t) => {
  const user = await front.signUp();
  const key = `uploads/${newId('upl')}.png`;
  const id = newId('upl');
  const bytes = limits.maxUnusedBytesPerUser - 100;
  const reserve = { id, userId: user.userId, bytes, createdTs: front.clock.now };
  t.equal(await store.uploads.reserve(reserve, limits.maxUnusedBytesPerUser), true);
  await store.uploads.complete(id, key, bytes);
  const refused = await send(form(png), {}, user.cookie);
  t.match(refused, { status: 413, body: { error: /unused uploads/ } });
  await store.uploads.markUsed(key, Date.now());
  t.equal((await send(form(png), {}, user.cookie)).status, 200);
  const kept = await store.uploads.unusedBefore(front.clock.now + 1, 1_000);
  t.equal(kept.filter((one) => one.userId === user.userId).length, 1);
  t.equal(
    kept.some((one) => one.id === id),
    false,
  );
});

t.test('an upload that is cut off leaves nothing behind', async (t) => {
  const before = await stored();
  const left = (await store.uploads.unusedBefore(front.clock.now + 1, 1_000)).length;
  const socket = connect(front.port, '127.0.0.1');
  const lines = front.logged.length;
  socket.write(
    `POST /api/v1/upload HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 4000000\r\n\r\n`,
  );
  socket.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\n');
  socket.write(bigPng(1_000_000));
  await delay(100);
  socket.destroy();
  while (front.logged.length === lines) await delay(5);
  t.match(front.logged.at(-1), { status: 499, route: '/api/v1/upload' });
  const unused = async () => (await store.uploads.unusedBefore(front.clock.now + 1, 1_000)).length;
  while ((await unused()) > left) await delay(10);
  t.strictSame(await stored(), before);
});

t.test('many at once arrive whole, a slow store holds its senders back', async (t) => {
  const fresh = await front.signUp();
  const bytes = bigPng(3 * 1024 * 1024);
  const answers = await Promise.all(Array.from({ length: 8 }, () => send(form(bytes), {}, fresh.cookie)));
  for (const { status, body } of answers) {
    t.equal(status, 200);
    const read = await fetch(`${url}/uploads/${body['key']}`);
    t.ok(Buffer.from(await read.arrayBuffer()).equals(bytes));
  }
  const mine = (await store.uploads.unusedBefore(front.clock.now + 1, 1_000)).filter(
    (one) => one.userId === fresh.userId,
  );
  t.equal(mine.length, 8);
  t.ok(mine.every((one) => one.bytes === bytes.byteLength));
  t.not(fresh.userId, userId);
});

t.test('a reader that stops gets its bytes later; one that goes away frees what it held', async (t) => {
  const { body } = await send(form(bigPng(limits.maxBytes - 1)));
  const request = `GET /uploads/${body['key']} HTTP/1.1\r\nHost: a\r\n\r\n`;
  const slow = connect(front.port, '127.0.0.1');
  slow.write(request);
  await delay(100);
  let received = 0;
  slow.on('data', (data) => {
    received += data.byteLength;
  });
  while (received < limits.maxBytes - 1) await delay(5);
  slow.destroy();

  const gone = connect(front.port, '127.0.0.1');
  gone.pause();
  gone.write(request);
  await delay(50);
  const lines = front.logged.length;
  gone.destroy();
  while (front.logged.length === lines) await delay(5);
  t.match(front.logged.at(-1), { status: 499, route: '/uploads/:key' });
});

t.test('503 when storage cannot be read', async (t) => {
  const broken = await startFront({
    services: {
      storage: {
        ...services.storage,
        head: async () => {
          throw new StorageError('cannot read');
        },
      },
    },
  });
  t.teardown(() => broken.close());
  t.match(await broken.call('GET', `/uploads/upl_${'a'.repeat(20)}.png`), {
    status: 503,
    body: { error: 'unavailable' },
  });
});
