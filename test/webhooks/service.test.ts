/** Webhooks of the whole service: what a receiver gets, what its owner sees, what faults do. */
import { createHmac } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import type { AssetEvent } from '../../schemas/events.ts';
import type { Delivery, DeliveryDetail } from '../../schemas/webhook.ts';
import { type Bus, openBus } from '../../src/bus/bus.ts';
import { verifyWebhook } from '../../src/client/webhooks.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { judgeByPython, whyNoPython } from '../fixtures/python-webhooks.ts';
import { type Received, type Receiver, startReceiver } from '../fixtures/receiver.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { serveSources, startTestService, type TestService, type TestUser } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const all = [
  'asset.queued',
  'asset.stage_completed',
  'asset.completed',
  'asset.failed',
  'asset.retry_scheduled',
];

type Rig = { service: TestService; bus: Bus };

let rig: Rig;

t.before(async () => {
  const { natsUrl } = await testServers();
  const prefix = `${uniqueName('hooks')}.`;
  const service = await startTestService(t, {
    NATS_PREFIX: prefix,
    WEBHOOK_SCHEDULE: '50ms,50ms,50ms,50ms',
    WEBHOOK_TIMEOUT: '2s',
  });
  const bus = await openBus({ url: natsUrl, prefix, replicas: 1, lastPosition: async () => 0, log: silent });
  t.teardown(() => bus.close());
  rig = { service, bus };
});

/** A user with an enabled endpoint. */
async function withEndpoint(t: Test, events: string[] = all) {
  const user = await rig.service.signUp();
  const receiver = await startReceiver(t);
  const path = `/api/projects/${user.projectId}/webhooks`;
  const { body } = await user.call<{ webhook_secret: string }>('PUT', path, {
    webhook_url: receiver.url,
    webhook_events: events,
    webhooks_enabled: true,
  });
  return { user, receiver, path, secret: body.webhook_secret };
}

let count = 0;

/** Publishes a fact as an asset's owner does. */
async function happen(user: TestUser, change: Partial<AssetEvent> = {}, messageId?: string) {
  count += 1;
  const fact = {
    event: 'ready',
    ts: Date.now() + count,
    attempt: 1,
    request_id: 'req_1234abcd',
    asset_id: `ast_${count}`,
    project_id: user.projectId,
    run: 1,
    mp4_url: 'https://example.com/1.mp4',
    bytes: 17,
    loop_mode: 'native',
    ...change,
  };
  const { bus } = rig;
  const subject = bus.subjects.fact(fact.project_id, fact.asset_id, fact.event);
  await bus.publish({ subject, id: messageId ?? uniqueName('fact'), body: fact });
  return fact;
}

async function list(user: TestUser, query = ''): Promise<Delivery[]> {
  const path = `/api/projects/${user.projectId}/webhooks/deliveries${query}`;
  return (await user.call<{ deliveries: Delivery[] }>('GET', path)).body.deliveries;
}

/** The only delivery of a project, once it has come to a status. */
function delivery(user: TestUser, status: Delivery['status']): Promise<DeliveryDetail> {
  return until(async () => {
    const [one] = await list(user);
    if (one?.status !== status) return undefined;
    const path = `/api/projects/${user.projectId}/webhooks/deliveries/${one.id}`;
    return (await user.call<DeliveryDetail>('GET', path)).body;
  });
}

/** A verifier written from the text of specification 5.9 and 5.10 alone. */
function acceptedBySpecification(secret: string, { headers, body }: Received): boolean {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  const ageMs = Math.abs(Date.now() - Number(headers['webhook-timestamp']) * 1_000);
  return String(headers['webhook-signature']).split(' ').includes(expected) && ageMs <= 300_000;
}

t.test('an event reaches its endpoint once, in the shape of the specification', async (t) => {
  const { user, receiver, secret } = await withEndpoint(t);
  const fact = await happen(user);
  // The same fact again, past the stream's own memory of message ids.
  await happen(user, fact as Partial<AssetEvent>);
  await happen(user, { event: 'vision_started' });
  const last = await happen(user, { event: 'failed', error_code: 'i2v_failed', error_msg: 'It failed.' });
  await receiver.until(2);
  const received = receiver.received.map(({ body }) => JSON.parse(body));
  const completed = received.find(({ type }) => type === 'asset.completed');
  t.strictSame(completed, {
    id: completed.id,
    type: 'asset.completed',
    ts: fact.ts,
    asset_id: fact.asset_id,
    project_id: user.projectId,
    request_id: 'req_1234abcd',
    data: { mp4_url: 'https://example.com/1.mp4', bytes: 17, loop_mode: 'native' },
  });
  t.match(completed.id, /^evt_[0-9A-Za-z]{20}$/);
  t.strictSame(received.find(({ type }) => type === 'asset.failed')?.data, {
    error_code: 'i2v_failed',
    error_msg: 'It failed.',
  });
  t.equal(last.event, 'failed');
  const [one] = receiver.received;
  t.match(one?.headers, { 'content-type': 'application/json', 'webhook-id': /^evt_/ });
  t.ok(one && acceptedBySpecification(secret, one));
  await until(async () => (await list(user, '?status=delivered')).length === 2);
  t.equal((await list(user)).length, 2, 'the repeated fact has made no record');
  t.equal(receiver.received.length, 2, 'and no request');
});

t.test('signatures are accepted by the official packages, both secrets sign after a rotation', async (t) => {
  const { user, receiver, path, secret } = await withEndpoint(t);
  const rotated = await user.call<{ webhook_secret: string }>('POST', `${path}/rotate-secret`);
  t.equal(rotated.status, 200);
  const secrets = [rotated.body.webhook_secret, secret];
  await happen(user, { error_msg: 'Ünïcode “quoted” \u2028 text', event: 'failed' });
  const [one] = await receiver.until(1);
  if (!one) return;
  const headers = Object.fromEntries(
    Object.entries(one.headers).map(([name, value]) => [name, String(value)]),
  );
  t.equal(headers['webhook-signature']?.split(' ').length, 2);
  for (const each of secrets) {
    t.ok(new Webhook(each).verify(one.body, headers), 'the package of npm');
    t.ok(acceptedBySpecification(each, one), 'the specification');
    t.equal(verifyWebhook({ payload: one.body, headers, secret: each }).id, one.id, 'the typed helper');
  }
  const [newest, replaced] = secrets.map((each) =>
    new Webhook(each).sign(one.id, signedAt(headers), one.body),
  );
  t.equal(headers['webhook-signature'], `${newest} ${replaced}`, 'new first');
  t.throws(() => new Webhook(`whsec_${btoa('another key')}`).verify(one.body, headers));

  const reason = whyNoPython();
  t.test('the package of PyPI', { skip: reason ?? false }, async (t) => {
    for (const each of secrets) t.equal(judgeByPython(each, one.body, headers), 'accepted');
    t.match(judgeByPython(secret, `${one.body} `, headers), 'refused: No matching signature');
  });
});

const signedAt = (headers: Record<string, string>) => new Date(Number(headers['webhook-timestamp']) * 1_000);

type Fault = {
  name: string;
  answer: Receiver['answer'];
  expect: {
    status: Delivery['status'];
    response_code: number | null;
    failure: string | null;
    attempts: number;
  };
};

const faults: Fault[] = [
  {
    name: 'answers 500 three times, then 204',
    answer: (() => {
      let failures = 0;
      return (_, response) => {
        failures += 1;
        response.writeHead(failures > 3 ? 204 : 500).end();
      };
    })(),
    expect: { status: 'delivered', response_code: 204, failure: null, attempts: 4 },
  },
  {
    name: 'closes at once',
    answer: (_, __, socket) => void socket.destroy(),
    expect: { status: 'dead', response_code: null, failure: 'reset', attempts: 5 },
  },
  {
    name: 'redirects to an address inside',
    answer: (_, response) => response.writeHead(307, { location: 'http://10.0.0.1/' }).end(),
    expect: { status: 'dead', response_code: 307, failure: 'redirect', attempts: 5 },
  },
  {
    name: 'never answers',
    answer: () => undefined,
    expect: { status: 'dead', response_code: null, failure: 'timeout', attempts: 5 },
  },
  {
    name: 'answers 410 like any other failure',
    answer: (_, response) => response.writeHead(410).end('gone'),
    expect: { status: 'dead', response_code: 410, failure: 'status', attempts: 5 },
  },
  {
    name: 'stays in the middle of its headers',
    answer: (_, __, socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-ty'),
    expect: { status: 'dead', response_code: null, failure: 'timeout', attempts: 5 },
  },
  {
    name: 'stays after its headers',
    answer: (_, response) => response.flushHeaders(),
    expect: { status: 'delivered', response_code: 200, failure: null, attempts: 1 },
  },
  {
    name: 'stays in mid-body',
    answer: (_, response) => void response.writeHead(200, { 'content-length': '1000' }).write('half'),
    expect: { status: 'delivered', response_code: 200, failure: null, attempts: 1 },
  },
  {
    name: 'breaks off in mid-body',
    answer(_, response, socket) {
      response.writeHead(200, { 'content-length': '1000' }).write('half');
      setTimeout(() => socket.destroy(), 20);
    },
    expect: { status: 'delivered', response_code: 200, failure: null, attempts: 1 },
  },
  {
    name: 'sends an endless body',
    answer(_, response) {
      const pour = () => {
        while (!response.destroyed && response.write('x'.repeat(16_384)));
      };
      response.on('drain', pour).on('error', () => undefined);
      pour();
    },
    expect: { status: 'delivered', response_code: 200, failure: null, attempts: 1 },
  },
  {
    name: 'sends a gzip bomb',
    answer: (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(20_000_000))),
    expect: { status: 'delivered', response_code: 200, failure: null, attempts: 1 },
  },
  {
    name: 'speaks no HTTP',
    answer: (_, __, socket) => void socket.end('220 smtp.example.com\r\n'),
    expect: { status: 'dead', response_code: null, failure: 'reset', attempts: 5 },
  },
];

t.test('an endpoint that fails is tried by the schedule, with the same bytes, and says why', async (t) => {
  await Promise.all(
    faults.map(async ({ name, answer, expect }) => {
      const { user, receiver } = await withEndpoint(t);
      receiver.answer = answer;
      await happen(user);
      const { attempts, ...wanted } = expect;
      const ended = await delivery(user, expect.status);
      t.match(ended, { ...wanted, attempt: attempts, next_attempt_ts: null }, name);
      t.equal(receiver.received.length, attempts, `${name}: requests`);
      t.equal(new Set(receiver.received.map(({ id, body }) => id + body)).size, 1, `${name}: the same bytes`);
      t.equal(ended.payload_json, receiver.received[0]?.body, `${name}: the bytes are shown`);
    }),
  );
});

t.test('an endpoint where nobody listens has its own class of failure', async (t) => {
  const { user, path } = await withEndpoint(t);
  const webhook_url = `http://127.0.0.1:${await freePort()}/`;
  t.match(await user.call('PUT', path, { webhook_url, webhook_events: all, webhooks_enabled: true }), {
    status: 200,
    body: { webhook_url },
  });
  await happen(user);
  t.match(await delivery(user, 'dead'), { failure: 'connect', response_code: null, attempt: 5 });
});

t.test('the preview is the first kilobyte as text that can be shown', async (t) => {
  const { user, receiver } = await withEndpoint(t);
  receiver.answer = (_, response) =>
    response.end(
      Buffer.concat([Buffer.from('a\u0000\u001b[31mb\n\tc'), Buffer.from([0xff]), Buffer.alloc(2_000, 'x')]),
    );
  await happen(user);
  const { response_body_preview: preview } = await delivery(user, 'delivered');
  t.ok(preview?.startsWith('a[31mb\n\tc\ufffdxxx'));
  t.ok((preview?.length ?? 0) <= 1_024);
});

t.test('the first delivered test of a URL enables webhooks, a later one does not', async (t) => {
  const user = await rig.service.signUp();
  const receiver = await startReceiver(t);
  const path = `/api/projects/${user.projectId}/webhooks`;
  const save = (webhooks_enabled: boolean) =>
    user.call('PUT', path, { webhook_url: receiver.url, webhook_events: [], webhooks_enabled });
  const isEnabled = async () =>
    (await user.call<{ webhooks_enabled: boolean }>('GET', path)).body.webhooks_enabled;

  t.match(await user.call('POST', `${path}/test`), { status: 400 }, '400 without a URL');
  await save(false);
  t.same(await user.call('POST', `${path}/test`), { status: 200, body: { ok: true } });
  const test = await delivery(user, 'delivered');
  t.match(test, { event_type: 'asset.test', asset_id: null, attempt: 1, response_code: 200 });
  t.match(JSON.parse(receiver.received[0]?.body ?? ''), {
    type: 'asset.test',
    asset_id: '',
    data: { message: /test/ },
  });
  await until(isEnabled);

  await save(false);
  await user.call('POST', `${path}/test`);
  await until(async () => (await list(user, '?status=delivered')).length === 2);
  t.equal(await isEnabled(), false, 'a deliberate switch-off stays');
});

t.test('redeliver sends the same record again from every state it can be in', async (t) => {
  const { user, receiver, path } = await withEndpoint(t);
  const again = (id: string) => user.call('POST', `${path}/deliveries/${id}/redeliver`);
  await happen(user);
  const { id } = await delivery(user, 'delivered');
  t.same(await again(id), { status: 200, body: { ok: true } });
  await receiver.until(2);
  t.match(
    await until(async () =>
      (await list(user)).find(({ attempt, status }) => attempt === 2 && status === 'delivered'),
    ),
    { id },
  );
  t.equal(receiver.received[0]?.id, receiver.received[1]?.id);

  receiver.answer = (_, response) => response.writeHead(500).end();
  await again(id);
  await delivery(user, 'dead');
  t.equal(receiver.received.length, 3, 'one attempt, no schedule');
  t.same((await user.call('POST', `${path}/deliveries/redeliver`, { since: Date.now() + 60_000 })).body, {
    ok: true,
    redelivered: 0,
    has_more: false,
  });
  receiver.answer = (_, response) => response.end();
  t.match((await user.call('POST', `${path}/deliveries/redeliver`, { since: 0 })).body, { redelivered: 1 });
  await delivery(user, 'delivered');
  t.equal((await list(user)).length, 1, 'the list does not grow');

  await user.call('PUT', path, { webhook_url: null, webhook_events: all, webhooks_enabled: false });
  t.match(await again(id), { status: 400 });
  t.match(await again('dlv_unknown'), { status: 404 });
});

t.test(
  'after a new URL is saved nothing goes to the old one, and what waits goes to the new one',
  async (t) => {
    const { user, receiver: old, path } = await withEndpoint(t);
    const fresh = await startReceiver(t);
    // Some hang while the URL changes, some wait for their next attempt, some for their turn.
    let n = 0;
    old.answer = (_, response) => {
      n += 1;
      if (n % 2 === 0) response.writeHead(500).end();
    };
    for (let event = 0; event < 30; event += 1) await happen(user);
    await old.until(12);
    await user.call('PUT', path, { webhook_url: fresh.url, webhook_events: all, webhooks_enabled: true });
    const before = old.received.length;
    await until(async () => (await list(user, '?status=delivered')).length === 30);
    t.equal(old.received.length, before);
    t.equal(new Set(fresh.received.map(({ id }) => id)).size, 30, 'each of them has come');
  },
);

t.test('what waits ends with the webhooks: disabled, without a URL, with the project', async (t) => {
  const ends: ((user: TestUser, path: string, url: string) => Promise<unknown>)[] = [
    (user, path, url) =>
      user.call('PUT', path, { webhook_url: url, webhook_events: all, webhooks_enabled: false }),
    (user, path) =>
      user.call('PUT', path, { webhook_url: null, webhook_events: all, webhooks_enabled: false }),
  ];
  for (const end of ends) {
    const { user, receiver, path } = await withEndpoint(t);
    receiver.answer = (_, response) => response.writeHead(500).end();
    // Ten are being sent at once, the others wait for their turn.
    for (let event = 0; event < 15; event += 1) await happen(user);
    await receiver.until(3);
    await end(user, path, receiver.url);
    await until(async () =>
      (await list(user)).every(({ status }) => status === 'cancelled' || status === 'dead'),
    );
    await happen(user);
  }
  const { user, receiver } = await withEndpoint(t);
  receiver.answer = () => undefined;
  await happen(user);
  await receiver.until(1);
  t.match(await user.call('DELETE', `/api/projects/${user.projectId}`), { status: 200 });
  await until(async () => {
    const [one] = await rig.service.store.deliveries.list(user.projectId, {}, 1);
    return one?.state === 'cancelled';
  });
  t.equal(await rig.service.store.webhooks.find(user.projectId).then((found) => found?.url ?? null), null);
});

t.test('its owner sees deliveries in the stream and the timeline, others nothing', async (t) => {
  const { user, receiver, path } = await withEndpoint(t, ['asset.failed']);
  let isFirst = true;
  receiver.answer = (_, response) => {
    response.writeHead(isFirst ? 503 : 200).end();
    isFirst = false;
  };
  const source = await serveSources(t, (_, response) => response.writeHead(404).end());
  const { body } = await user.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
    project_id: user.projectId,
    src: `${source}/none.png`,
  });
  await delivery(user, 'delivered');
  const events = (await user.timeline(body.asset_id)).filter(({ event }) => event.startsWith('webhook_'));
  t.match(events, [
    { event: 'webhook_dispatched', attempt: 1, asset_id: body.asset_id, event_type: 'asset.failed' },
    { event: 'webhook_failed', attempt: 1, response_code: 503, failure: 'status', next_at_ms: Number },
    { event: 'webhook_delivered', attempt: 2, response_code: 200, delivery_id: /^dlv_/, event_id: /^evt_/ },
  ]);
  const streamed = await readStream(user, `/api/assets/${body.asset_id}/events`, 'webhook_delivered');
  t.same(
    streamed.filter(({ event }) => event.startsWith('webhook_')).map(({ event }) => event),
    events.map(({ event }) => event),
  );
  const times = streamed.map(({ ts }) => ts);
  t.same(
    times,
    [...new Set(times)].sort((a, b) => a - b),
    'times strictly increase with the asset’s own',
  );

  const stranger = await rig.service.signUp();
  const [one] = await list(user);
  for (const [method, rest] of [
    ['GET', ''],
    ['POST', '/rotate-secret'],
    ['POST', '/test'],
    ['GET', '/deliveries'],
    ['GET', `/deliveries/${one?.id}`],
    ['POST', `/deliveries/${one?.id}/redeliver`],
  ] as const) {
    t.match(await stranger.call(method, path + rest), { status: 404, body: { error: 'not found' } }, rest);
  }
  t.equal((await fetch(`${rig.service.base}${path}`)).status, 401);
});

/** Events of a stream until one of a name has come. */
async function readStream(user: TestUser, path: string, last: string): Promise<AssetEvent[]> {
  const stop = new AbortController();
  const answer = await fetch(`${rig.service.base}${path}`, {
    headers: { cookie: user.cookie },
    signal: stop.signal,
  });
  let text = '';
  for await (const chunk of answer.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.includes(`event: ${last}\n`) && text.endsWith('\n\n')) break;
  }
  stop.abort();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? '') as AssetEvent);
}

t.test('the list has pages and filters', async (t) => {
  const { user, receiver, path } = await withEndpoint(t);
  receiver.answer = (request, response) =>
    response.writeHead(request.body.includes('asset.failed') ? 500 : 200).end();
  for (let n = 0; n < 4; n += 1) await happen(user, n === 0 ? { event: 'failed' } : {});
  const ended = await until(async () => {
    const found = await list(user);
    const isOver = found.every(({ status }) => status === 'delivered' || status === 'dead');
    return isOver && found.length === 4 && found;
  });
  const ids = ended.map(({ id }) => id);
  const page = await user.call<{ deliveries: Delivery[]; next_cursor: string }>(
    'GET',
    `${path}/deliveries?limit=3`,
  );
  t.same(
    page.body.deliveries.map(({ id }) => id),
    ids.slice(0, 3),
  );
  t.same(
    (await list(user, `?limit=3&cursor=${page.body.next_cursor}`)).map(({ id }) => id),
    ids.slice(3),
  );
  t.match(await list(user, '?status=dead'), [{ event_type: 'asset.failed', status: 'dead' }]);
  t.equal((await list(user, '?event_type=asset.completed')).length, 3);
  t.equal((await list(user, '?asset_id=ast_unknown')).length, 0);
  for (const query of ['limit=51', 'limit=0', 'status=sent', 'cursor=%21']) {
    t.match(await user.call('GET', `${path}/deliveries?${query}`), { status: 400 }, query);
  }
});

t.test('400 for a configuration that cannot be, and nothing is saved', async (t) => {
  const user = await rig.service.signUp();
  const path = `/api/projects/${user.projectId}/webhooks`;
  const good = { webhook_url: 'https://example.com/hook', webhook_events: [], webhooks_enabled: true };
  const bad: object[] = [
    { webhook_url: 'ftp://example.com/' },
    { webhook_url: 'no url' },
    { webhook_url: 'http://10.0.0.1/' },
    { webhook_url: 'http://user:password@example.com/' },
    { webhook_url: `${rig.service.base}/v1/loop` },
    { webhook_url: null },
    { webhook_events: ['asset.completed', 'asset.completed'] },
    { webhook_events: ['asset.test'] },
    { webhook_events: ['webhook_delivered'] },
    { webhooks_enabled: 'yes' },
    { webhook_url: undefined },
  ];
  for (const change of bad) {
    const answer = await user.call('PUT', path, { ...good, ...change });
    t.match(answer, { status: 400, body: { error: String } }, JSON.stringify(change));
  }
  t.strictSame((await user.call('GET', path)).body, {
    webhook_url: null,
    webhook_events: ['asset.completed', 'asset.failed'],
    webhooks_enabled: false,
    webhook_secret_preview: null,
  });
  const saved = await user.call<Record<string, unknown>>('PUT', path, good);
  t.match(saved.body, {
    ...good,
    webhook_secret_preview: /^whsec_.{6}…$/,
    webhook_secret: /^whsec_[\w+/]+=*$/,
  });
  t.notOk('webhook_secret' in (await user.call('PUT', path, good)).body, 'shown once');
});
