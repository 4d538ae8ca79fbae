/** Requests with an Idempotency-Key over a real store: one runs, the others are answered by it. */

import { MongoClient } from 'mongodb';
import sharp from 'sharp';
import t from 'tap';
import { z } from 'zod';
import { idempotency as limits } from '../../schemas/limits.ts';
import { reply, route } from '../../src/http/route.ts';
import { type CallOptions, startFront } from '../fixtures/http.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const runs: string[] = [];
const gate: { opened: Promise<void>; open(): void; entered(): void } = {
  opened: Promise.resolve(),
  open: () => undefined,
  entered: () => undefined,
};
const work = route({
  method: 'post',
  path: '/api/test/work/:what',
  idempotent: true,
  body: z.object({ n: z.number().optional() }),
  responses: {
    201: z.object({ run: z.number(), id: z.string(), memo: z.string() }),
    404: z.object({ error: z.string() }),
  },
  async handle({ what, operation }) {
    const id = operation?.id('tst') ?? '';
    const memo = (await operation?.remember(String(runs.length))) ?? '';
    runs.push(id);
    gate.entered();
    await gate.opened;
    if (what === 'missing') return reply(404, { error: 'not found' });
    if (what === 'failing') throw new Error('the process has died');
    return reply(201, { run: runs.length, id, memo }, { 'X-Made': 'yes', 'Set-Cookie': 'secret=1' });
  },
});
const deaf = route({
  method: 'post',
  path: '/api/test/deaf',
  responses: { 200: z.object({ ok: z.boolean() }) },
  handle: ({ operation }) => reply(200, { ok: operation === undefined }),
});

const front = await startFront({ routes: [work, deaf] });
const { clock, call, store } = front;
/** Another process over the same store. */
const other = await startFront({ routes: [work], services: { store, sessions: front.services.sessions } });
const { cookie } = await front.signUp();
t.teardown(async () => {
  await other.close();
  await front.close();
});
const keyed = (key: string, options: CallOptions = {}): CallOptions => ({
  body: {},
  cookie,
  ...options,
  headers: { 'idempotency-key': key, ...options.headers },
});
const post = (key: string, options?: CallOptions, what = 'x', by = front) =>
  by.call('POST', `/api/test/work/${what}`, keyed(key, options));
const newKey = () => `${uniqueName('key')} ~!"`;

function close(): Promise<void> {
  gate.opened = new Promise((resolve) => {
    gate.open = resolve;
  });
  return new Promise((resolve) => {
    gate.entered = resolve;
  });
}

t.test('201 again with Idempotent-Replayed, for a day and no longer', async (t) => {
  const key = newKey();
  const first = await post(key);
  t.equal(first.status, 201);
  t.equal(first.headers.get('idempotent-replayed'), null);
  const before = runs.length;
  clock.now += limits.keptMs - 1;
  const again = await post(key);
  t.equal(again.status, 201);
  t.strictSame(again.body, first.body);
  t.equal(again.headers.get('idempotent-replayed'), 'true');
  t.equal(again.headers.get('x-made'), 'yes');
  t.equal(again.headers.get('set-cookie'), null, 'what let the first one in is not handed out again');
  t.not(again.headers.get('x-request-id'), first.headers.get('x-request-id'));
  t.equal(runs.length, before);
  t.equal(
    (await other.call('POST', '/api/test/work/x', keyed(key))).headers.get('idempotent-replayed'),
    'true',
  );
  clock.now += 1;
  other.clock.now = clock.now;
  const fresh = await post(key);
  t.equal(fresh.headers.get('idempotent-replayed'), null);
  t.not(fresh.body['id'], first.body['id'], 'and makes something new');
});

t.test('50 equal requests at two processes at once: one runs, the others are told so', async (t) => {
  const key = newKey();
  const before = runs.length;
  const inside = close();
  const sent = Array.from({ length: 50 }, (_, n) => post(key, {}, 'x', n % 2 ? front : other));
  await inside;
  const early = await post(key);
  t.match(early, { status: 409, body: { error: /still running/ } });
  t.equal(early.headers.get('retry-after'), '1');
  gate.open();
  const answers = await Promise.all(sent);
  t.equal(runs.length, before + 1);
  const made = answers.filter(({ status }) => status === 201);
  t.equal(made.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1);
  t.equal(answers.filter(({ status }) => status === 409).length, 50 - made.length);
});

t.test(
  '422 for another body, path or query with the same key, whether the first runs or has ended',
  async (t) => {
    const key = newKey();
    const inside = close();
    const first = post(key, { body: { n: 1 } });
    await inside;
    t.match(await post(key, { body: { n: 2 } }), { status: 422, body: { error: /another request/ } });
    gate.open();
    t.equal((await first).status, 201);
    const before = runs.length;
    for (const [body, path] of [
      [{ n: 2 }, 'x'],
      [{}, 'x'],
      [{ n: 1 }, 'y'],
      [{ n: 1 }, 'x?a=b'],
    ] as const) {
      t.equal((await post(key, { body }, path)).status, 422);
    }
    t.equal(runs.length, before);
    t.equal((await post(key, { body: { n: 1 } })).status, 201);
  },
);

t.test('a key belongs to its user and route', async (t) => {
  const key = newKey();
  const first = await post(key);
  const { cookie: theirs } = await front.signUp();
  const foreign = await post(key, { cookie: theirs, body: { n: 5 } });
  t.equal(foreign.status, 201);
  t.not(foreign.body['id'], first.body['id']);
  const project = await call('POST', '/api/projects', keyed(key, { body: { name: 'Keyed' } }));
  t.match(project, { status: 201, body: { project: { name: 'Keyed' } } });
  t.strictSame((await call('POST', '/api/test/deaf', keyed(key))).body, { ok: true }, 'others ignore it');
});

t.test('400 for a key that is empty, too long, not ASCII or sent twice, and nothing runs', async (t) => {
  const before = runs.length;
  for (const key of ['', 'x'.repeat(limits.keyMaxChars + 1), 'a\tb']) {
    t.match(await post(key), { status: 400, body: { error: /Idempotency-Key/ } }, key.slice(0, 9));
  }
  const head = `POST /api/test/work/x HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nContent-Length: 0\r\nConnection: close\r\n`;
  for (const fields of ['a\r\nIdempotency-Key: a', 'caf\u00e9s']) {
    t.match(await front.sendRaw(`${head}Idempotency-Key: ${fields}\r\n\r\n`, 5_000), /^HTTP\/1\.1 400 /);
  }
  t.equal(runs.length, before);
  t.equal((await post('x'.repeat(limits.keyMaxChars))).status, 201);
});

t.test('what is refused leaves the key free', async (t) => {
  const key = newKey();
  t.equal((await post(key, {}, 'missing')).status, 404);
  t.equal((await post(key, { body: { n: 'x' } })).status, 400);
  t.equal((await post(key, { body: { n: 1 } })).status, 201);
  t.equal((await post(key, { body: { n: 1 } })).headers.get('idempotent-replayed'), 'true');
});

t.test('a failure of ours is tried again at once, and goes on with what was begun', async (t) => {
  const key = newKey();
  t.equal((await post(key, {}, 'failing')).status, 500);
  const [failed] = runs.slice(-1);
  t.equal((await post(key, {}, 'failing')).status, 500);
  t.equal(runs.at(-1), failed, 'the same thing is made');
  const next = await post(key, { body: { n: 1 } });
  t.equal(next.status, 201, 'another request may have the key');
  t.not(next.body['id'], failed);
});

t.test('a process that dies keeps the key until its lease is over; its work is not done twice', async (t) => {
  const { mongodbUrl } = await testServers();
  const client = await new MongoClient(mongodbUrl).connect();
  t.teardown(() => client.close());
  const records = client.db(store.assets.actors.collection.dbName).collection('idempotency');
  const key = newKey();
  const body = { name: 'Once' };
  const make = () => call('POST', '/api/projects', keyed(key, { body }));
  const made = await make();
  // As it was just before its answer was kept.
  const leaseTs = clock.now + limits.leaseMs;
  await records.updateOne(
    { 'answer.body': /"Once"/ },
    { $unset: { answer: '' }, $set: { leaseTs } },
    { hint: { _id: 1 } },
  );
  t.equal((await make()).status, 409);
  clock.now += limits.leaseMs + 1;
  const again = await make();
  t.equal(again.status, 201);
  t.strictSame(again.body, made.body);
  t.equal(again.headers.get('idempotent-replayed'), null);
  const { projects } = (await call('GET', '/api/projects', { cookie })).body as {
    projects: { name: string }[];
  };
  t.equal(projects.filter(({ name }) => name === 'Once').length, 1);
  t.equal((await make()).headers.get('idempotent-replayed'), 'true');
});

t.test('an attempt that takes long keeps its lease', async (t) => {
  const id = uniqueName('request');
  const claim = { id, token: 'one', seed: 'op_1', fingerprint: 'f', now: 0 };
  t.match(await store.idempotency.claim(claim), { outcome: 'claimed', seed: 'op_1' });
  await store.idempotency.extend(id, 'one', 20_000);
  const second = { ...claim, token: 'two', seed: 'op_2', now: limits.leaseMs + 1 };
  t.match(await store.idempotency.claim(second), { outcome: 'running' });
  t.equal(await store.idempotency.remember(id, 'one', 'first'), 'first');
  t.match(await store.idempotency.claim({ ...second, now: 20_000 + limits.leaseMs }), { seed: 'op_1' });
  t.equal(await store.idempotency.remember(id, 'two', 'second'), 'first', 'what was written down stays');
  const answer = { status: 200, headers: {}, body: '{}' };
  await store.idempotency.finish({ ...claim, now: 60_000 }, answer);
  t.match(
    await store.idempotency.claim({ ...second, now: 60_001 }),
    { outcome: 'running' },
    'the late one is late',
  );
});

t.test('an upload is the same by its bytes, whatever the boundary', async (t) => {
  const image = (background: string) =>
    sharp({ create: { width: 80, height: 64, channels: 3, background } })
      .png()
      .toBuffer();
  const [blue, red] = [await image('#00f'), await image('#f00')];
  const send = (key: string, bytes: Buffer, name = 'a.png') => {
    const raw = new FormData();
    raw.append('file', new Blob([Buffer.from(bytes)]), name);
    return call('POST', '/api/v1/upload', { raw, cookie, headers: { 'idempotency-key': key } });
  };
  const key = newKey();
  const first = await send(key, blue);
  t.equal(first.status, 200);
  const again = await send(key, blue, 'b.png');
  t.equal(again.headers.get('idempotent-replayed'), 'true');
  t.strictSame(again.body, first.body);
  t.equal((await send(key, red)).status, 422);
  t.equal((await send(key, Buffer.from('no image'))).status, 415);
  const stored: string[] = [];
  for await (const object of front.services.storage.list('uploads/')) stored.push(object.key);
  t.strictSame(stored, [`uploads/${first.body['key']}`], 'one is stored');
});

t.test('503 when the store is away', async (t) => {
  const away = await startFront({ routes: [work] });
  const user = await away.signUp();
  t.equal((await away.call('POST', '/api/test/work/x', { cookie: user.cookie, body: {} })).status, 201);
  const before = runs.length;
  await away.store.close();
  const { status, headers } = await away.call(
    'POST',
    '/api/test/work/x',
    keyed('k', { cookie: user.cookie }),
  );
  t.equal(status, 503);
  t.equal(headers.get('retry-after'), '2');
  t.equal(runs.length, before);
  await away.close();
});

t.test('the document has the header and its answers where it is obeyed', async (t) => {
  const { body } = await call('GET', '/openapi.json');
  const { paths } = body as {
    paths: Record<string, Record<string, { parameters: { name: string }[]; responses: object }>>;
  };
  for (const path of ['/api/projects', '/api/v1/upload']) {
    const { parameters, responses } = paths[path]?.['post'] ?? { parameters: [], responses: {} };
    const key = parameters.find(({ name }) => name === 'Idempotency-Key');
    t.match(key, { in: 'header', required: false });
    t.match(responses, { 409: {}, 422: {} });
  }
  const names = paths['/api/test/deaf']?.['post']?.parameters.map(({ name }) => name);
  t.strictSame(names, ['X-Request-Id']);
});
