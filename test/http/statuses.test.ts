/**
 * Every endpoint with every status that the document says it may answer: each pair is asked for, and held against the
 * document. What server.ts answers for all routes of a kind is provoked from the operation alone; the rest has a line
 * in `own`. A pair without a way, and a way without a pair, fail by name.
 */
import { request } from 'node:http';
import { MongoNetworkError } from 'mongodb';
import sharp from 'sharp';
import t from 'tap';
import type { PrepareResponse } from '../../schemas/asset.ts';
import { upload as limits } from '../../schemas/limits.ts';
import type { Operation } from '../../schemas/openapi.ts';
import { exampleOf } from '../../src/docs/examples.ts';
import { startServer } from '../../src/http/server.ts';
import { startFront } from '../fixtures/http.ts';
import { productRoutes } from '../fixtures/product.ts';
import { serveSources, startTestService, type TestUser } from '../fixtures/service.ts';

type Sent = {
  method?: string;
  headers?: Record<string, string> | string[];
  cookie?: string;
  /** JSON unless it is bytes or text. */
  body?: unknown;
};
type Got = { status: number; headers: Record<string, string | undefined>; body: Buffer | undefined };
type Endpoint = { method: string; path: string; operation: Operation };
type Way = (endpoint: Endpoint) => Promise<Got>;

// ── The world ───────────────────────────────────────────────────────────────────────────────────

const service = await startTestService(t);
/** One request a minute: a part of one is none that can be counted. */
const limited = await startTestService(t, { RATE_LIMIT_FACTOR: String(1 / 300), ROLE: 'http' });
const { document, contract } = service;
const user = await service.signUp();
const limitedUser = await limited.signUp();

/** Servers of the same routes whose handlers are never reached, or fail. */
const front = await startFront();
const fault = { current: new Error('a fault of ours') };
const failing = await startServer({
  host: '127.0.0.1',
  port: 0,
  routes: productRoutes().map((route) => ({
    ...route,
    handle() {
      throw fault.current;
    },
  })),
  services: front.services,
  bodyMs: 100,
});
const failingUser = await front.signUp();
t.teardown(async () => {
  await failing.close();
  await front.close();
});

const sources = await serveSources(t, (asked, answer) => {
  // The one that hangs keeps its asset pending.
  if (asked.url !== '/hangs.png') answer.writeHead(404).end();
});
const image = (width: number) =>
  sharp({ create: { width, height: 64, channels: 3, background: '#468' } })
    .png()
    .toBuffer();
const small = await image(96);
const origin = 'https://page.example';
const { proxy_key: key } = (
  await user.call<{ project: { proxy_key: string } }>('PUT', `/api/projects/${user.projectId}/proxy-config`, {
    allowed_origins: [origin],
  })
).body.project;

const prepare = async (src: string) => {
  const asked = { project_id: user.projectId, src, dur_seconds: 2, mode: 'animate-in' };
  return (await user.call<PrepareResponse>('POST', '/api/v1/prepare', asked)).body.asset_id;
};
const uploaded = JSON.parse(String((await upload(small)).body)) as { url: string };
const ready = await user.untilEnd(await prepare(uploaded.url));
const failed = await user.untilEnd(await prepare(`${sources}/missing.png`));
const pending = await prepare(`${sources}/hangs.png`);
if (ready.status !== 'ready' || failed.status !== 'failed')
  throw new Error('the world is not as it should be');

/** A project whose owner has used up the month. */
const exhausted = await service.signUp();
await service.store.users.setPlan(exhausted.userId, 'free', 1);
for (let n = 0; n < 5; n += 1) {
  const now = Date.now();
  const resetAt = now + 86_400_000;
  await service.store.quota.take({
    userId: exhausted.userId,
    key: `x:${n}`,
    now,
    limit: 5,
    overage: null,
    resetAt,
  });
}
const exhaustedKey = (
  await exhausted.call<{ project: { proxy_key: string } }>(
    'PUT',
    `/api/projects/${exhausted.projectId}/proxy-config`,
    { allowed_origins: [origin] },
  )
).body.project.proxy_key;

// ── Specific ways ───────────────────────────────────────────────────────────────────────────────

const get = (path: string, sent: Sent = {}) => ask(service.base, path, sent);
const mine = (path: string, sent: Sent = {}) => get(path, as(user, sent));
const encode = (source: string) => Buffer.from(source).toString('base64url');
const fromPage = { headers: { origin } };
const proxied = (rest: string, headers: Record<string, string> = { origin }) =>
  get(`/v1/${key}/${rest}`, { headers });
const email = () => `${Math.random().toString(36).slice(2)}@example.com`;
const account = { email: email(), password: 'correct horse battery', name: 'Status' };

/** Whole, in part, unchanged and out of range: what every file answers. */
const file = (path: string, headers: Record<string, string> = {}): Record<number, Way> => ({
  200: () => get(path, { headers }),
  206: () => get(path, { headers: { ...headers, range: 'bytes=0-9' } }),
  304: async () =>
    get(path, {
      headers: { ...headers, 'if-none-match': (await get(path, { headers })).headers['etag'] ?? '' },
    }),
  416: () => get(path, { headers: { ...headers, range: 'bytes=99999999-' } }),
});
/** A page of this process. */
const page = (path: string): Record<number, Way> => ({
  200: () => get(path),
  304: async () => get(path, { headers: { 'if-none-match': (await get(path)).headers['etag'] ?? '' } }),
});
const nothing: Way = ({ path }) => get(path.replaceAll(/\{\w+\}/g, 'none'), fromPage);
const pathOf = (url: string | null | undefined) => new URL(url ?? '').pathname;

/** `method path` and status of the document to how it comes about. */
const own: Record<string, Record<number, Way>> = {
  'post /api/user/signup': {
    201: () => get('/api/user/signup', { method: 'POST', body: account }),
    409: () => get('/api/user/signup', { method: 'POST', body: account }),
    429: () => throttled('/api/user/signup', { ...account, email: email() }, 25),
  },
  'post /api/user/signin': {
    200: () => get('/api/user/signin', { method: 'POST', body: account }),
    401: () => get('/api/user/signin', { method: 'POST', body: { ...account, password: 'wrong' } }),
    429: () => throttled('/api/user/signin', { email: email(), password: 'wrong' }, 12),
  },
  'post /api/user/signout': {
    200: async () => get('/api/user/signout', as(await service.signUp(), { method: 'POST' })),
  },
  'get /api/user/session': { 200: () => get('/api/user/session') },
  'get /api/user/me': { 200: () => mine('/api/user/me') },
  'get /api/projects': { 200: () => mine('/api/projects') },
  'post /api/projects': { 201: () => mine('/api/projects', { method: 'POST', body: { name: 'New' } }) },
  'get /api/projects/{projectId}': { 200: () => mine(`/api/projects/${user.projectId}`) },
  'put /api/projects/{projectId}': {
    200: () => mine(`/api/projects/${user.projectId}`, { method: 'PUT', body: { name: 'Renamed' } }),
  },
  'delete /api/projects/{projectId}': {
    200: async () => {
      const { body } = await user.call<{ project: { id: string } }>('POST', '/api/projects', {
        name: 'Gone',
      });
      return mine(`/api/projects/${body.project.id}`, { method: 'DELETE' });
    },
  },
  'put /api/projects/{projectId}/proxy-config': {
    200: () => mine(`/api/projects/${user.projectId}/proxy-config`, { method: 'PUT', body: {} }),
  },
  'post /api/projects/{projectId}/keys/rotate': {
    200: async () => {
      const other = await service.signUp();
      return get(`/api/projects/${other.projectId}/keys/rotate?which=proxy`, as(other, { method: 'POST' }));
    },
  },
  'post /api/v1/prepare': {
    200: () =>
      mine('/api/v1/prepare', { method: 'POST', body: { project_id: user.projectId, src: uploaded.url } }),
    404: () => mine('/api/v1/prepare', { method: 'POST', body: { project_id: 'none', src: uploaded.url } }),
  },
  'post /api/assets/{assetId}/regenerate': {
    200: () => mine(`/api/assets/${failed.asset_id}/regenerate`, { method: 'POST' }),
  },
  'post /api/assets/{assetId}/cancel': {
    200: async () => {
      const id = await prepare(`${sources}/hangs.png?other`);
      return mine(`/api/assets/${id}/cancel`, { method: 'POST' });
    },
    409: () => mine(`/api/assets/${ready.asset_id}/cancel`, { method: 'POST' }),
  },
  'get /api/assets/{assetId}': { 200: () => mine(`/api/assets/${ready.asset_id}`) },
  'get /api/assets/{assetId}/timeline': { 200: () => mine(`/api/assets/${ready.asset_id}/timeline`) },
  'get /api/assets': {
    200: () => mine('/api/assets'),
    404: () => mine('/api/assets?project_id=none'),
  },
  'post /api/v1/upload': {
    200: () => upload(small),
    413: () => upload(Buffer.concat([small, Buffer.alloc(limits.maxBytes)])),
    415: () => upload(Buffer.from('GIF89a')),
  },
  'get /uploads/{key}': {
    200: () => get(pathOf(uploaded.url)),
    304: async () =>
      get(pathOf(uploaded.url), {
        headers: { 'if-none-match': (await get(pathOf(uploaded.url))).headers['etag'] ?? '' },
      }),
    404: nothing,
  },
  'get /media/{asset}/{file}': { ...file(pathOf(ready.mp4_url)), 404: nothing },
  'get /v1/{key}/events/{asset}': {
    200: () => get(`/v1/${key}/events/${ready.asset_id}`),
    403: nothing,
    404: () => get(`/v1/${key}/events/none`),
  },
  'get /api/assets/{id}/events': {
    200: () => mine(`/api/assets/${ready.asset_id}/events`),
    404: () => mine('/api/assets/none/events'),
  },
  'get /api/projects/{id}/activity': {
    200: () => mine(`/api/projects/${user.projectId}/activity`),
    404: () => mine('/api/projects/none/activity'),
  },
  'get /v1/{key}/{source}.mp4': {
    ...file(`/v1/${key}/${encode(uploaded.url)}.mp4?dur=2&mode=animate-in`, { origin }),
    202: () => proxied(`${encode(`${sources}/hangs.png`)}.mp4?dur=2&mode=animate-in`),
    403: () => proxied(`${encode(uploaded.url)}.mp4`, { origin: 'https://other.example' }),
    // A GET would begin a run: only HEAD finds nothing.
    404: () => get(`/v1/${key}/${encode(`${sources}/new.png`)}.mp4`, { method: 'HEAD', ...fromPage }),
    429: () => get(`/v1/${exhaustedKey}/${encode(`${sources}/new.png`)}.mp4`, fromPage),
    502: () => proxied(`${encode(`${sources}/missing.png`)}.mp4?dur=2&mode=animate-in`),
  },
  'get /v1/{key}/{source}.jpg': {
    ...file(`/v1/${key}/${encode(uploaded.url)}.jpg`, { origin }),
    403: () => proxied(`${encode(uploaded.url)}.jpg`, {}),
    404: () => proxied(`${encode(`${sources}/missing.png`)}.jpg`),
  },
  'get /v1/{key}/a/{asset_id}.mp4': {
    ...file(`/v1/${key}/a/${ready.asset_id}.mp4`, { origin }),
    202: () => proxied(`a/${pending}.mp4`),
    403: nothing,
    404: () => proxied('a/none.mp4'),
    502: () => proxied(`a/${failed.asset_id}.mp4`),
  },
  'get /v1/{key}/a/{asset_id}.jpg': {
    ...file(`/v1/${key}/a/${ready.asset_id}.jpg`, { origin }),
    403: nothing,
    404: () => proxied('a/none.jpg'),
  },
  'get /healthz': { 200: () => get('/healthz') },
  'get /readyz': { 200: () => get('/readyz') },
  'get /openapi.json': page('/openapi.json'),
  'get /docs': page('/docs'),
  'get /docs/{page}': { ...page('/docs/limits'), 404: nothing },
  'get /docs/errors/{code}': { ...page('/docs/errors/busy'), 404: nothing },
  'get /docs/assets/{file}': { ...page(await stylePath()), 404: nothing },
};

// ── General ways ────────────────────────────────────────────────────────────────────────────────

const failingBase = `http://127.0.0.1:${failing.port}`;

/** By status, for every operation that `isFor` picks and that has no way of its own. */
const general: Record<number, { isFor(endpoint: Endpoint): boolean; way: Way }> = {
  400: { isFor: () => true, way: (endpoint) => askFor(endpoint, service.base, { headers: twoHosts }) },
  401: { isFor: needsSession, way: (endpoint) => askFor(endpoint, service.base, {}) },
  403: { isFor: changes, way: (endpoint) => askFor(endpoint, service.base, as(user, foreign)) },
  404: { isFor: isApi, way: (endpoint) => askFor(endpoint, service.base, as(user)) },
  408: { isFor: changes, way: (endpoint) => askFor(endpoint, failingBase, failingAs(stalled)) },
  413: { isFor: changes, way: (endpoint) => askFor(endpoint, service.base, as(user, announced)) },
  415: { isFor: changes, way: (endpoint) => askFor(endpoint, service.base, as(user, plain)) },
  429: {
    isFor: isApi,
    async way(endpoint) {
      // What all share is used up first: a sign-out that is let through would end the session.
      await limitedUser.call('GET', '/api/projects');
      const first = await askFor(endpoint, limited.base, as(limitedUser));
      return first.status === 429 ? first : askFor(endpoint, limited.base, as(limitedUser));
    },
  },
  500: { isFor: () => true, way: (endpoint) => askFailing(endpoint, new Error('a fault of ours')) },
  503: { isFor: () => true, way: (endpoint) => askFailing(endpoint, new MongoNetworkError('no store')) },
};

const twoHosts = ['Host', 'a', 'Host', 'b'];
const foreign = { headers: { origin: 'https://evil.example', 'content-type': 'application/json' } };
const stalled = { headers: { 'content-type': 'application/json', 'content-length': '100' }, body: '{' };
const announced = {
  headers: { 'content-type': 'application/json', 'content-length': '500000000' },
  body: '{',
};
const plain = { headers: { 'content-type': 'text/plain' }, body: 'x' };
const failingAs = (sent: Sent): Sent => ({ ...sent, cookie: failingUser.cookie });

function needsSession({ operation }: Endpoint): boolean {
  return operation.security.length > 0;
}

function changes({ method }: Endpoint): boolean {
  return method !== 'get';
}

function isApi({ path }: Endpoint): boolean {
  return path.startsWith('/api/');
}

function askFailing(endpoint: Endpoint, cause: Error): Promise<Got> {
  fault.current = cause;
  return askFor(endpoint, failingBase, failingAs({}));
}

// ── The table ───────────────────────────────────────────────────────────────────────────────────

const endpoints = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]): Endpoint => ({ method, path, operation })),
);

function wayOf(endpoint: Endpoint, status: number): Way | undefined {
  const common = general[status];
  const special = own[`${endpoint.method} ${endpoint.path}`]?.[status];
  return special ?? (common?.isFor(endpoint) ? common.way : undefined);
}

t.test('each endpoint answers each status that it documents', async (t) => {
  for (const endpoint of endpoints) {
    for (const status of Object.keys(endpoint.operation.responses).map(Number)) {
      const name = `${status} ${endpoint.method} ${endpoint.path}`;
      const way = wayOf(endpoint, status);
      if (!way) {
        t.fail(`${name}: nothing here makes it answer so`);
        continue;
      }
      // What `ask` throws says what the document and the answer disagree about.
      const outcome = await way(endpoint).then(
        (got) => (got.status === status ? 'right' : `answered ${got.status}: ${got.body}`),
        (cause: Error) => cause.message,
      );
      t.equal(outcome, 'right', name);
    }
  }
});

t.test('nothing here is about what is not documented', async (t) => {
  const documented = new Set(
    endpoints.flatMap(({ method, path, operation }) =>
      Object.keys(operation.responses).map((status) => `${status} ${method} ${path}`),
    ),
  );
  for (const [name, ways] of Object.entries(own)) {
    for (const status of Object.keys(ways)) t.ok(documented.has(`${status} ${name}`), `${status} ${name}`);
  }
});

t.test('405 with Allow for a method that a path does not have, and 204 for OPTIONS', async (t) => {
  for (const path of Object.keys(document.paths)) {
    const target = path.replaceAll(/\{\w+\}/g, 'none');
    const wrong = await ask(service.base, target, { method: 'PATCH' });
    t.equal(wrong.status, 405, path);
    t.match(wrong.headers['allow'], /OPTIONS/);
    t.equal((await ask(service.base, target, { method: 'OPTIONS' })).status, 204, path);
  }
});

// ── Requests ────────────────────────────────────────────────────────────────────────────────────

/** A request that an operation takes, with ids that nothing has; `sent` goes before what it would send itself. */
function askFor({ method, path, operation }: Endpoint, base: string, sent: Sent): Promise<Got> {
  const json = operation.requestBody?.content['application/json'];
  const query = operation.parameters
    .filter((one) => one.in === 'query' && one.required)
    .map((one) => `${one.name}=${exampleOf(one.schema, document)}`);
  const body = json && method !== 'get' && !sent.headers ? { body: exampleOf(json.schema, document) } : {};
  const target = path.replaceAll(/\{\w+\}/g, 'none');
  return ask(base, `${target}?${query.join('&')}`, { method: method.toUpperCase(), ...body, ...sent });
}

/** Sends a request as it is, and holds the answer against the document. A stream is left after its head. */
function ask(
  base: string,
  target: string,
  { method = 'GET', headers = {}, cookie, body }: Sent,
): Promise<Got> {
  const { hostname, port } = new URL(base);
  const isWhole = typeof body === 'string' || body instanceof Uint8Array;
  const bytes = body === undefined || isWhole ? body : JSON.stringify(body);
  const own = Array.isArray(headers)
    ? headers
    : {
        ...(cookie === undefined ? {} : { cookie }),
        ...(body === undefined || isWhole ? {} : { 'content-type': 'application/json' }),
        ...(bytes === undefined ? {} : { 'content-length': String(Buffer.byteLength(bytes)) }),
        ...headers,
      };
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path: target, method, headers: own, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      const finish = (whole: Buffer | undefined) => {
        const got = {
          status: answer.statusCode ?? 0,
          headers: Object.fromEntries(
            Object.entries(answer.headers).map(([name, value]) => [name, value?.toString()]),
          ),
          body: whole,
        };
        asked.destroy();
        try {
          contract.check(method, target, { ...got, header: (name) => got.headers[name] });
          resolve(got);
        } catch (cause) {
          reject(cause);
        }
      };
      if (answer.headers['content-type'] === 'text/event-stream') finish(undefined);
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => finish(Buffer.concat(chunks)));
      answer.on('error', reject);
    });
    asked.on('error', reject);
    if (bytes !== undefined) asked.write(bytes);
    // One that is announced longer than it is stays open.
    if (!Array.isArray(own) && own['content-length'] !== undefined && bytes === '{') return;
    asked.end();
  });
}

/** Sent again and again until it is refused. */
async function throttled(path: string, body: object, times: number): Promise<Got> {
  const headers = { 'x-forwarded-for': '203.0.113.77' };
  let got = await ask(front.url, path, { method: 'POST', body, headers });
  for (let n = 0; n < times && got.status !== 429; n += 1)
    got = await ask(front.url, path, { method: 'POST', body, headers });
  return got;
}

function as(who: TestUser, sent: Sent = {}): Sent {
  return { ...sent, cookie: who.cookie };
}

async function upload(bytes: Uint8Array): Promise<Got> {
  const form = new FormData();
  form.append('file', new Blob([Buffer.from(bytes)]), 'image.png');
  const packed = new Response(form);
  const headers = { 'content-type': packed.headers.get('content-type') ?? '' };
  const body = Buffer.from(await packed.arrayBuffer());
  return ask(service.base, '/api/v1/upload', as(user, { method: 'POST', headers, body }));
}

async function stylePath(): Promise<string> {
  const { body } = await ask(service.base, '/docs', {});
  return /href="(\/docs\/assets\/[^"]+)"/.exec(String(body))?.[1] ?? '';
}
