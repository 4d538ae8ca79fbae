/** The typed client against a server that answers by a script: retries, time limits, streams; and what it weighs. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundle, minify } from '@swc/core';
import t, { type Test } from 'tap';
import type { AssetEvent } from '../../schemas/events.ts';
import { signUrl as signAtServer } from '../../src/auth/signed-url.ts';
import {
  type Client,
  createClient,
  proxyUrl,
  ServiceError,
  signUrl,
  verifyWebhook,
} from '../../src/client/client.ts';
import { signWebhook, verifyWebhook as verifyInNode } from '../../src/client/webhooks.ts';
import { productDocument } from '../fixtures/product.ts';

/** What a page loads that imports these, as a bundler makes it. */
async function bundleOf(folder: string, names: string): Promise<string> {
  const entry = join(folder, 'entry.ts');
  writeFileSync(entry, `export { ${names} } from '${resolve('src/client/client.ts')}';`);
  const options = { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } } as const;
  const output = { name: 'client', path: folder };
  const made = await bundle({ entry: { client: entry }, output, module: {}, options });
  const code = Object.values(made)[0]?.code ?? '';
  return (await minify(code, { module: true, compress: { passes: 2 }, mangle: true })).code;
}

t.test('a browser loads at most 4 KiB, gzipped, and nothing of node or npm', async (t) => {
  const code = await bundleOf(t.testdir({}), 'createClient, ServiceError, proxyUrl');
  const size = gzipSync(code, { level: 9 }).length;
  t.comment(`${size} bytes`);
  t.ok(size <= 4_096, `${size} bytes`);
  t.notMatch(code, /\bimport\b|require\(/);
  const loaded = (await import(`data:text/javascript,${encodeURIComponent(code)}`)) as {
    createClient: typeof createClient;
  };
  const asked: string[] = [];
  const client = loaded.createClient({
    baseUrl: 'https://s.example/',
    fetch: async (input) => {
      asked.push(String(input));
      return Response.json({ projects: [] });
    },
  });
  t.strictSame(await client.projects.list(), { projects: [] });
  t.strictSame(asked, ['https://s.example/api/projects'], 'what was bundled works');
});

const at = { baseUrl: 'https://s.example' };

/** Every operation of the document, by the call that asks for it. A new endpoint has no row: the test fails. */
const calls: Record<string, (client: Client) => unknown> = {
  postApiUserSignup: (c) => c.account.signUp({ email: 'a@b.example', password: 'x'.repeat(8), name: 'A' }),
  postApiUserSignin: (c) => c.account.signIn({ email: 'a@b.example', password: 'x' }),
  postApiUserSignout: (c) => c.account.signOut(),
  getApiUserSession: (c) => c.account.session(),
  getApiUserMe: (c) => c.account.me(),
  putApiUser: (c) => c.account.update({ name: 'A' }),
  deleteApiUser: (c) => c.account.erase({ current: 'x' }),
  postApiUserEmailVerify: (c) => c.account.verifyEmail({ token: 'x' }),
  postApiUserPasswordForgot: (c) => c.account.forgotPassword({ email: 'a@b.example' }),
  postApiUserPasswordReset: (c) => c.account.resetPassword({ token: 'x', password: 'x'.repeat(8) }),
  postApiUserPassword: (c) => c.account.changePassword({ password: 'x'.repeat(8) }),
  postApiUserEmail: (c) => c.account.changeEmail({ email: 'a@b.example' }),
  getApiUserSessions: (c) => c.account.sessions(),
  deleteApiUserSessionsById: (c) => c.account.endSession('a/b'),
  postApiUserTokens: (c) => c.tokens.create({ name: 'x' }),
  getApiUserTokens: (c) => c.tokens.list(),
  deleteApiUserTokensById: (c) => c.tokens.revoke('x'),
  getApiUserUsage: (c) => c.usage(),
  getApiUserOauthByProvider: (c) => fetchAs(c.account.oauthUrl('github')),
  postApiProjectsDetectBrand: (c) => c.brand.detect('x.example'),
  postApiProjectsByProjectIdDetectBrand: (c) => c.brand.detect('x.example', 'p'),
  postApiProjectsDeepCrawl: (c) => c.brand.crawl('x.example'),
  postApiProjectsByProjectIdDeepCrawl: (c) => c.brand.crawl('x.example', 'p'),
  postApiProjects: (c) => c.projects.create({ name: 'x' }),
  getApiProjects: (c) => c.projects.list(),
  getApiProjectsByProjectId: (c) => c.projects.get('p'),
  putApiProjectsByProjectId: (c) => c.projects.update('p', { name: 'x' }),
  deleteApiProjectsByProjectId: (c) => c.projects.delete('p'),
  putApiProjectsByProjectIdProxyConfig: (c) => c.projects.configureProxy('p', { enable_signing: true }),
  postApiProjectsByProjectIdKeysRotate: (c) => c.projects.rotateProxyKey('p'),
  postApiV1Prepare: (c) => c.assets.prepare({ project_id: 'p', src: 'https://x.example/a.png' }),
  postApiAssetsByAssetIdRegenerate: (c) => c.assets.regenerate('a', { seed: 1 }),
  postApiAssetsByAssetIdCancel: (c) => c.assets.cancel('a'),
  getApiAssetsByAssetId: (c) => c.assets.get('a'),
  deleteApiAssetsByAssetId: (c) => c.assets.delete('a'),
  getApiAssetsByAssetIdTimeline: (c) => c.assets.timeline('a'),
  getApiAssets: (c) => c.assets.list({ project_id: 'p', limit: 2 }),
  postApiV1Upload: (c) => c.assets.upload(new Uint8Array([1])),
  getApiProjectsByProjectIdWebhooks: (c) => c.webhooks.get('p'),
  putApiProjectsByProjectIdWebhooks: (c) =>
    c.webhooks.set('p', { webhook_url: null, webhook_events: [], webhooks_enabled: false }),
  postApiProjectsByProjectIdWebhooksRotateSecret: (c) => c.webhooks.rotateSecret('p'),
  postApiProjectsByProjectIdWebhooksTest: (c) => c.webhooks.test('p'),
  getApiProjectsByProjectIdWebhooksDeliveries: (c) => c.webhooks.deliveries('p', { status: 'dead' }),
  getApiProjectsByProjectIdWebhooksDeliveriesByDeliveryId: (c) => c.webhooks.delivery('p', 'd'),
  postApiProjectsByProjectIdWebhooksDeliveriesByDeliveryIdRedeliver: (c) => c.webhooks.redeliver('p', 'd'),
  postApiProjectsByProjectIdWebhooksDeliveriesRedeliver: (c) => c.webhooks.redeliverDead('p', { since: 0 }),
  getV1ByKeyEventsByAsset: (c) => c.events.byKey('pk_1', 'a').next(),
  getApiAssetsByIdEvents: (c) => c.events.asset('a').next(),
  getApiProjectsByIdActivity: (c) => c.events.project('p', { types: ['ready'] }).next(),
  getV1ByKeyBySourceMp4: () =>
    fetchAs(proxyUrl({ ...at, key: 'pk_1', source: 'https://x.example/a.png', options: { dur: 3 } })),
  getV1ByKeyBySourceJpg: () =>
    fetchAs(proxyUrl({ ...at, key: 'pk_1', source: 'https://x.example/a.png', extension: 'jpg' })),
  getV1ByKeyAByAssetIdMp4: () => fetchAs(proxyUrl({ ...at, key: 'pk_1', source: 'asset:a' })),
  getV1ByKeyAByAssetIdJpg: async () =>
    fetchAs(await signUrl({ ...at, key: 'pk_1', secret: 'sk_1', source: 'asset:a', extension: 'jpg' })),
  getHealthz: (c) => c.service.health(),
  getReadyz: (c) => c.service.ready(),
  getOpenapiJson: (c) => c.service.openApi(),
};
let record: (method: string, url: string) => void = () => undefined;
const fetchAs = (url: string) => record('GET', url);

t.test('every operation that customers call has a method of the client', async (t) => {
  const document = productDocument();
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  // Operators have their pages, providers their callbacks; files and pages are opened by their addresses.
  const isOthers = ({ path, operation }: (typeof operations)[number]) =>
    operation.tags.includes('Operators') ||
    operation.operationId === 'getApiUserOauthCallbackByProvider' ||
    /^\/(hooks|docs|dashboard|media|uploads|embed\.js|llms|metrics)/.test(path);
  const wanted = operations.filter((one) => !isOthers(one));
  t.ok(wanted.length > 50);
  t.strictSame(wanted.map(({ operation }) => operation.operationId).sort(), Object.keys(calls).sort());
  for (const { path, method, operation } of wanted) {
    const asked: { method: string; url: URL }[] = [];
    record = (verb, url) => void asked.push({ method: verb, url: new URL(url) });
    const client = createClient({
      baseUrl: 'https://s.example',
      maxRetries: 0,
      fetch: async (input, init) => {
        record(init?.method ?? 'GET', String(input));
        return new Response('{}', { status: 400 });
      },
    });
    await Promise.resolve(calls[operation.operationId]?.(client)).catch(() => undefined);
    const [first] = asked;
    const form = new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`);
    t.equal(first?.method.toLowerCase(), method, operation.operationId);
    t.match(first?.url.pathname, form, operation.operationId);
    const known = operation.parameters.filter((one) => one.in === 'query').map((one) => one.name);
    for (const name of first?.url.searchParams.keys() ?? [])
      t.ok(known.includes(name), `${operation.operationId} knows ${name}`);
  }
});

// Each waits before it asks again, for its own server: they wait together.
t.jobs = 6;
const beside = { buffered: true };

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

/** A server that gives one answer after the other, the last one for ever; and what it was asked. */
async function startScript(t: Test, ...answers: Answer[]) {
  const asked: { path: string; headers: IncomingMessage['headers']; body: string }[] = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const answer = answers[Math.min(asked.length, answers.length - 1)];
    asked.push({ path: request.url ?? '', headers: request.headers, body });
    answer?.(request, response, body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { asked, baseUrl: `http://127.0.0.1:${port}`, server };
}

const says =
  (status: number, body: object, headers: Record<string, string> = {}): Answer =>
  (_, response) =>
    response
      .writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'req_1', ...headers })
      .end(JSON.stringify(body));
const hangs: Answer = () => undefined;
const cuts: Answer = (request) => request.socket.destroy();
async function failure(promise: Promise<unknown>): Promise<ServiceError> {
  try {
    await promise;
  } catch (cause) {
    return cause as ServiceError;
  }
  throw new Error('it should have failed');
}
const image = { project_id: 'p', src: 'https://x.example/a.png' };

t.test(
  '429 and 503 are asked again when they say when, with everything else as it was',
  beside,
  async (t) => {
    const busy = says(503, { error: 'busy', code: 'busy', retry_after_ms: 20 }, { 'retry-after': '1' });
    const limited = says(429, { error: 'rate limited', code: 'rate_limited', retry_after_ms: 10 });
    const { baseUrl, asked } = await startScript(
      t,
      busy,
      limited,
      says(200, { asset_id: 'a', status: 'pending' }),
    );
    const client = createClient({ baseUrl, token: 'sat_1' });
    t.match(await client.assets.prepare(image), { asset_id: 'a' });
    t.equal(asked.length, 3);
    t.match(asked[0]?.headers, { authorization: 'Bearer sat_1', 'content-type': 'application/json' });
    const keys = asked.map(({ headers }) => headers['idempotency-key']);
    t.ok(keys[0], 'a POST that begins something has a key');
    t.equal(new Set(keys).size, 1, 'the same for every try');
    t.equal(new Set(asked.map(({ body }) => body)).size, 1);
  },
);

t.test(
  'a refusal that waiting does not cure, or not soon, is told at once, with all that is known',
  beside,
  async (t) => {
    const { baseUrl, asked } = await startScript(
      t,
      says(429, { error: 'monthly limit reached', code: 'monthly_limit_reached', upgrade_url: 'https://u' }),
      says(429, { error: 'rate limited', code: 'rate_limited', retry_after_ms: 3_600_000 }),
      says(429, { error: 'slow down' }, { 'retry-after': '7200' }),
      says(400, {
        error: 'invalid',
        code: 'invalid_request',
        docs_url: 'd',
        issues: [{ path: 'src', message: 'm' }],
      }),
      (_, response) => response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>'),
    );
    const client = createClient({ baseUrl });
    const quota = await failure(client.assets.prepare(image));
    t.ok(quota instanceof ServiceError && quota instanceof Error);
    t.match(quota, {
      code: 'monthly_limit_reached',
      status: 429,
      requestId: 'req_1',
      upgradeUrl: 'https://u',
    });
    t.match(await failure(client.usage()), { code: 'rate_limited', retryAfterMs: 3_600_000 });
    t.match(await failure(client.usage()), { code: 'invalid_answer', status: 429, retryAfterMs: 7_200_000 });
    const invalid = { code: 'invalid_request', issues: [{ path: 'src', message: 'm' }], docsUrl: 'd' };
    t.match(await failure(client.usage()), invalid);
    t.match(await failure(client.usage()), { code: 'invalid_answer', status: 404 });
    t.equal(asked.length, 5, 'each was asked once');
  },
);

t.test(
  'what got no answer is asked again where that is safe, and a bounded number of times',
  beside,
  async (t) => {
    const ok = says(200, { ok: true });
    const broken = says(500, { error: 'internal error', code: 'internal_error' });
    const reading = await startScript(t, cuts, broken, ok);
    t.match(await createClient(reading).usage(), { ok: true });
    t.equal(reading.asked.length, 3);

    const writing = await startScript(t, broken);
    t.match(await failure(createClient(writing).webhooks.test('p')), { code: 'internal_error', status: 500 });
    t.equal(writing.asked.length, 1, 'a POST without a key might do it twice');

    const down = await startScript(t, broken);
    const { code } = await failure(createClient({ ...down, maxRetries: 1 }).usage());
    t.equal(code, 'internal_error');
    t.equal(down.asked.length, 2);

    const running = await startScript(t, cuts, says(409, { error: 'still running', code: 'conflict' }), ok);
    t.match(await createClient(running).projects.create({ name: 'x' }), { ok: true });
    const first = await startScript(t, says(409, { error: 'taken', code: 'conflict' }));
    t.equal((await failure(createClient(first).projects.create({ name: 'x' }))).status, 409);

    const deleting = await startScript(t, cuts, says(404, { error: 'not found', code: 'not_found' }));
    t.match(await createClient(deleting).assets.delete('a'), { ok: true }, 'the first try had deleted it');
  },
);

t.test(
  'nobody there, no answer in time, no JSON: each has its code; an abort throws its own reason',
  beside,
  async (t) => {
    const { baseUrl, server } = await startScript(t, hangs);
    const hasty = createClient({ baseUrl, timeoutMs: 50, maxRetries: 1 });
    t.match(await failure(hasty.usage()), { code: 'timeout', status: 0 });
    const leaving = new AbortController();
    const left = failure(createClient({ baseUrl }).usage({ signal: leaving.signal }));
    leaving.abort(new Error('gone'));
    t.equal((await left).message, 'gone');
    t.equal(
      (await failure(hasty.usage({ signal: AbortSignal.abort(new Error('before')) }))).message,
      'before',
    );
    server.close();
    server.closeAllConnections();
    t.match(await failure(hasty.usage()), { code: 'unreachable', status: 0 });

    const slow = await startScript(t, (_, response) => void response.writeHead(200).write('{"half":'));
    t.match(await failure(createClient({ ...slow, timeoutMs: 50, maxRetries: 0 }).usage()), {
      code: 'timeout',
    });
    const page = await startScript(t, (_, response) => response.end('<html>'));
    t.match(await failure(createClient({ ...page, maxRetries: 0 }).usage()), { code: 'invalid_answer' });
  },
);

const frame = (id: number, event: Partial<AssetEvent>) =>
  `id: ${id}\nevent: x\ndata: ${JSON.stringify(event)}\n\n`;
const streams =
  (...chunks: string[]): Answer =>
  (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('retry: 5\n\n');
    for (const chunk of chunks) response.write(chunk);
    setTimeout(() => response.destroy(), 20);
  };

t.test(
  'events go on where a lost stream has ended, whole and once; a refusal ends them',
  beside,
  async (t) => {
    const two = frame(2, { event: 'stage_started' });
    const { baseUrl, asked } = await startScript(
      t,
      streams(': hello\n\n', frame(1, { event: 'queued' }), two.slice(0, 20)),
      says(503, { error: 'unavailable' }, { 'retry-after': '0' }),
      streams(two, frame(3, { event: 'ready' })),
      says(403, { error: 'unknown project key', code: 'unknown_project_key' }),
    );
    const client = createClient({ baseUrl, headers: { cookie: 'c=1' } });
    const seen: string[] = [];
    const ended = await failure(
      (async () => {
        for await (const { event } of client.events.project('p', { types: ['ready', 'queued'] }))
          seen.push(event);
      })(),
    );
    t.match(ended, { code: 'unknown_project_key', status: 403 });
    t.strictSame(seen, ['queued', 'stage_started', 'ready']);
    t.strictSame(
      asked.map(({ headers }) => headers['last-event-id']),
      [undefined, '1', '1', '3'],
    );
    t.equal(asked[0]?.path, '/api/projects/p/activity?types=ready%2Cqueued');
    t.equal(asked[0]?.headers.cookie, 'c=1');

    const endless = await startScript(t, streams(frame(1, { event: 'queued' })));
    const leaving = new AbortController();
    const left = await failure(
      (async () => {
        for await (const _ of createClient(endless).events.asset('a', {
          lastEventId: 7,
          signal: leaving.signal,
        }))
          leaving.abort(new Error('enough'));
      })(),
    );
    t.equal(left.message, 'enough');
    t.equal(endless.asked[0]?.headers['last-event-id'], '7');
    const flooding = await startScript(t, streams('x'.repeat(1_100_000)), says(404, { error: 'not found' }));
    t.equal(
      (await failure(createClient(flooding).events.asset('a').next())).status,
      404,
      'a flood is cut off',
    );
  },
);

const asset = (status: string, more: object = {}) =>
  says(200, { asset: { asset_id: 'a', status, mp4_url: null, poster_url: null, error_code: null, ...more } });
const ready = asset('ready', { mp4_url: 'https://m/1.mp4', poster_url: 'https://m/1.jpg' });

t.test('waitFor is told by the stream, and asks where none comes through', beside, async (t) => {
  const told = await startScript(t, asset('pending'), streams(frame(1, { event: 'ready' })), ready);
  const events: string[] = [];
  const found = await createClient(told).assets.waitFor(
    { asset_id: 'a' },
    { onEvent: ({ event }) => void events.push(event) },
  );
  t.equal(found.mp4_url, 'https://m/1.mp4');
  t.strictSame(events, ['ready']);
  t.strictSame(
    told.asked.map(({ path }) => path),
    ['/api/assets/a', '/api/assets/a/events', '/api/assets/a'],
  );

  const refused = says(502, {});
  const pending = asset('pending');
  const asking = await startScript(t, pending, refused, pending, refused, pending, pending, ready);
  t.equal((await createClient(asking).assets.waitFor('a')).poster_url, 'https://m/1.jpg');
  t.equal(
    asking.asked.filter(({ path }) => path.endsWith('/events')).length,
    2,
    'then streams are left alone',
  );

  const failed = await startScript(t, asset('failed', { error_code: 'source_unfetchable', error_msg: 'm' }));
  t.match(await failure(createClient(failed).assets.waitFor('a')), {
    code: 'source_unfetchable',
    message: 'm',
    assetId: 'a',
  });
  const cancelled = await startScript(t, asset('failed'));
  t.match(await failure(createClient(cancelled).assets.waitFor('a')), { code: 'cancelled' });
  const never = await startScript(t, pending, hangs);
  t.match(await failure(createClient(never).assets.waitFor('a', { timeoutMs: 80 })), { code: 'timeout' });
  const leaving = new AbortController();
  const left = failure(createClient(never).assets.waitFor('a', { signal: leaving.signal }));
  leaving.abort(new Error('gone'));
  t.equal((await left).message, 'gone');
});

t.test('lists of assets are read to their end', async (t) => {
  const { asked, baseUrl } = await startScript(
    t,
    says(200, { assets: [{ asset_id: 'a' }, { asset_id: 'b' }], next_cursor: 'c/1' }),
    says(200, { assets: [{ asset_id: 'c' }], next_cursor: null }),
  );
  const ids: string[] = [];
  for await (const one of createClient({ baseUrl }).assets.all({ project_id: 'p', status: 'ready' }))
    ids.push(one.asset_id);
  t.strictSame(ids, ['a', 'b', 'c']);
  t.equal(asked[1]?.path, '/api/assets?project_id=p&status=ready&cursor=c%2F1');
});

t.test('signed addresses are those of the service, byte for byte', async (t) => {
  const [key, secret, baseUrl] = ['pk_abc', 'sk_secret-ü', 'https://s.example/'];
  const expiresTs = 1_800_000_000_999;
  for (const source of [
    'https://x.example/ä ö.png?a=1&b=2#motion=kinetic',
    'asset:ast_1',
    'https://x.example/????>>>',
  ]) {
    for (const extension of ['mp4', 'jpg'] as const) {
      const made = await signUrl({ baseUrl, key, secret, source, expiresTs, extension });
      t.equal(made, `https://s.example${signAtServer({ key, secret, source }, expiresTs, extension)}`);
    }
  }
  const source = 'https://x.example/a.png#old';
  const withOptions = await signUrl({
    baseUrl,
    key,
    secret,
    source,
    expiresTs,
    options: { motion: 'kinetic', dur: 4 },
  });
  const expected = { key, secret, source: 'https://x.example/a.png#motion=kinetic&dur=4' };
  t.equal(withOptions, `https://s.example${signAtServer(expected, expiresTs)}`);
});

t.test('webhooks are believed or not as the other implementation has it', async (t) => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const event = {
    id: 'evt_1',
    type: 'asset.completed',
    ts: 1,
    asset_id: 'a',
    project_id: 'p',
    request_id: 'r',
  };
  const payload = JSON.stringify({ ...event, data: { bytes: 1 } });
  const now = 1_700_000_000_000;
  const headers = signWebhook(secret, 'evt_1', payload, now);
  const other = 'whsec_c2VjcmV0c2VjcmV0';
  const cases: [string, object][] = [
    ['as it is', {}],
    ['headers of fetch', { headers: new Headers(headers) }],
    ['bytes', { payload: Buffer.from(payload) }],
    ['one of two secrets', { secret: [other, secret] }],
    [
      'one of two signatures',
      { headers: { ...headers, 'webhook-signature': `v1,AA v1a,x ${headers['webhook-signature']}` } },
    ],
    ['four minutes later', { now: now + 240_000 }],
    ['six minutes later', { now: now + 360_000 }],
    ['six minutes before', { now: now - 360_000 }],
    ['another secret', { secret: other }],
    ['an empty secret', { secret: 'whsec_' }],
    ['another body', { payload: `${payload} ` }],
    ['no signature', { headers: { ...headers, 'webhook-signature': '' } }],
    ['no base64', { headers: { ...headers, 'webhook-signature': 'v1,%%%' } }],
    [
      'another version',
      { headers: { ...headers, 'webhook-signature': headers['webhook-signature'].replace('v1', 'v2') } },
    ],
    ['no time', { headers: { ...headers, 'webhook-timestamp': 'soon' } }],
    [
      'another id',
      {
        payload: payload.replace('evt_1', 'evt_2'),
        headers: signWebhook(secret, 'evt_1', payload.replace('evt_1', 'evt_2'), now),
      },
    ],
    ['no JSON', { payload: 'x', headers: signWebhook(secret, 'evt_1', 'x', now) }],
    ['no event', { payload: '{"id":"evt_1"}', headers: signWebhook(secret, 'evt_1', '{"id":"evt_1"}', now) }],
  ];
  let believed = 0;
  for (const [name, more] of cases) {
    const request = { payload, headers, secret, now, ...more } as never;
    const outcome = await verifyWebhook(request).then(
      (one) => one as unknown,
      (cause: Error) => cause.name,
    );
    let expected: unknown;
    try {
      expected = verifyInNode(request);
      believed += 1;
    } catch (cause) {
      expected = (cause as Error).name;
    }
    t.strictSame(outcome, expected, name);
  }
  t.equal(believed, 6);
});
