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
import {
  account as accountLimits,
  upload as limits,
  oauth as oauthLimits,
  provider as providerLimits,
} from '../../schemas/limits.ts';
import type { Operation } from '../../schemas/openapi.ts';
import { hashOf, newSecret } from '../../src/auth/secret.ts';
import { deriveKey, newKey, parseKeys } from '../../src/auth/secret-box.ts';
import { exampleOf } from '../../src/docs/examples.ts';
import { startServer } from '../../src/http/server.ts';
import { signPlace } from '../../src/model-providers.ts';
import type { MailTokenPurpose } from '../../src/store/mail-tokens.ts';
import { startFront } from '../fixtures/http.ts';
import { productRoutes } from '../fixtures/product.ts';
import { startReceiver } from '../fixtures/receiver.ts';
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

const secretsKey = newKey();
const service = await startTestService(t, {
  OPERATOR_EMAILS: 'boss@example.com',
  TRUSTED_PROXIES: '127.0.0.1',
  OAUTH_GITHUB_CLIENT_ID: 'id',
  OAUTH_GITHUB_CLIENT_SECRET: 'secret',
  SECRETS_KEY: secretsKey,
  VIDEO_PROVIDER: 'local,luma',
  LUMA_API_KEY: 'luma_key',
});
/** One request a minute: a part of one is none that can be counted. */
const limited = await startTestService(t, {
  RATE_LIMIT_FACTOR: String(1 / 300),
  ROLE: 'http',
  OPERATOR_EMAILS: 'boss@example.com',
});
const { document, contract } = service;
const user = await service.signUp();
const boss = await service.signUp('boss@example.com');
const limitedUser = await limited.signUp('boss@example.com');

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
  services: { ...front.services, isOperator: () => true },
  bodyTimes: { bodyMs: 100, streamMs: 100, bodySilenceMs: 100 },
});
const failingUser = await front.signUp();
t.teardown(async () => {
  await failing.close();
  await front.close();
});

const sources = await serveSources(t, (asked, answer) => {
  // The one that hangs keeps its asset pending.
  if (asked.url === '/') answer.setHeader('Content-Type', 'text/html').end('<title>Site</title><p>Hello');
  else if (!asked.url?.startsWith('/hangs.png')) answer.writeHead(404).end();
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
if (ready.status !== 'ready' || failed.status !== 'failed')
  throw new Error('the world is not as it should be');

/** A project whose owner has used up the month. */
const exhausted = await service.signUp();
await service.store.users.setPlan(exhausted.userId, 'free', 1);
/** Right before it is asked for: what no asset stands for is given back in time. */
async function useUp(): Promise<void> {
  const now = Date.now();
  for (let n = 0; n < 5; n += 1) {
    await service.store.quota.take({
      userId: exhausted.userId,
      projectId: exhausted.projectId,
      key: `${now}:${n}`,
      now,
      limit: 5,
      overage: null,
      resetAt: now + 86_400_000,
    });
  }
}
const exhaustedKey = (
  await exhausted.call<{ project: { proxy_key: string } }>(
    'PUT',
    `/api/projects/${exhausted.projectId}/proxy-config`,
    { allowed_origins: [origin] },
  )
).body.project.proxy_key;

/** A user with an endpoint and a delivery to it. */
const receiver = await startReceiver(t);
const webhook = { webhook_url: receiver.url, webhook_events: ['asset.failed'], webhooks_enabled: true };
async function withDelivery() {
  const who = await service.signUp();
  const path = `/api/projects/${who.projectId}/webhooks`;
  await who.call('PUT', path, webhook);
  await who.call('POST', `${path}/test`);
  for (;;) {
    const { body } = await who.call<{ deliveries: { id: string }[] }>('GET', `${path}/deliveries`);
    const [sent] = body.deliveries;
    if (sent) return { who, path, delivery: `${path}/deliveries/${sent.id}` };
  }
}
const hooked = await withDelivery();

/** The address at which a provider may tell of the only attempt of a run. */
const signedPlace = signPlace(deriveKey(parseKeys(secretsKey), 'callbacks of model providers'), 'luma', {
  asset: 'ast_reported',
  project: user.projectId,
  run: 1,
  stage: 'single',
  attempt: 1,
});

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

const secret = 'correct horse battery';
/** As somebody who has just signed up. */
const fresh = async (path: string, method: string, body: object) =>
  get(path, as(await service.signUp(), { method, body }));
/** What asks for the password once more: one that is wrong, and too many of them. */
const confirmed = (path: string, method: string, body: object): Record<number, Way> => ({
  403: () => fresh(path, method, { ...body, current: 'wrong' }),
  429: async () => {
    const asked = as(await service.signUp(), { method, body: { ...body, current: 'wrong' } });
    for (let n = 0; n < 12; n += 1) await get(path, asked);
    return get(path, asked);
  },
});
const mailToken = async (purpose: MailTokenPurpose & { userId: string }): Promise<string> => {
  const token = newSecret();
  await service.store.mailTokens.insert({ ...purpose, hash: hashOf(token), expiresTs: Date.now() + 60_000 });
  return token;
};
const verify = async (purpose: MailTokenPurpose & { userId: string }): Promise<Got> =>
  get('/api/user/email/verify', { method: 'POST', body: { token: await mailToken(purpose) } });
const asBoss = (path: string, sent: Sent = {}) => get(`/api/operator/${path}`, as(boss, sent));
const crawl = (path: string, domain: string) => mine(path, { method: 'POST', body: { domain } });
/** A site on loopback, as crawls name it: found by its port. */
const site = `localhost:${new URL(sources).port}`;
/** More redirects than one address may ask for; loopback is let off only without a proxy in front. */
async function visits(path: string): Promise<Got> {
  for (let n = 0; n < oauthLimits.perAddress; n += 1) await get(path, { headers: behindProxy });
  return get(path, { headers: behindProxy });
}
const hooks = (rest: string, sent: Sent = {}) => get(`${hooked.path}${rest}`, as(hooked.who, sent));
/** Of a project that has no endpoint. */
const withoutUrl = (rest: string, body?: object) =>
  mine(`/api/projects/${user.projectId}/webhooks${rest}`, { method: 'POST', ...(body && { body }) });
const behindProxy = { 'x-forwarded-for': '203.0.113.9' };

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
    408: () =>
      mine('/api/v1/upload', {
        method: 'POST',
        headers: { 'content-type': 'multipart/form-data; boundary=x', 'content-length': '1000' },
        body: '{',
      }),
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
  'get /metrics': {
    200: () => get('/metrics'),
    401: () => get('/metrics', { headers: behindProxy }),
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
    202: () => proxied(`${encode(`${sources}/hangs.png?by-source`)}.mp4?dur=2&mode=animate-in`),
    403: () => proxied(`${encode(uploaded.url)}.mp4`, { origin: 'https://other.example' }),
    // A GET would begin a run: only HEAD finds nothing.
    404: () => get(`/v1/${key}/${encode(`${sources}/new.png`)}.mp4`, { method: 'HEAD', ...fromPage }),
    429: async () => {
      await useUp();
      return get(`/v1/${exhaustedKey}/${encode(`${sources}/new.png`)}.mp4`, fromPage);
    },
    502: () => proxied(`${encode(`${sources}/missing.png`)}.mp4?dur=2&mode=animate-in`),
  },
  'get /v1/{key}/{source}.jpg': {
    ...file(`/v1/${key}/${encode(uploaded.url)}.jpg`, { origin }),
    403: () => proxied(`${encode(uploaded.url)}.jpg`, {}),
    404: () => proxied(`${encode(`${sources}/missing.png`)}.jpg`),
  },
  'get /v1/{key}/a/{asset_id}.mp4': {
    ...file(`/v1/${key}/a/${ready.asset_id}.mp4`, { origin }),
    202: async () => proxied(`a/${await prepare(`${sources}/hangs.png?by-id`)}.mp4`),
    403: nothing,
    404: () => proxied('a/none.mp4'),
    502: () => proxied(`a/${failed.asset_id}.mp4`),
  },
  'get /v1/{key}/a/{asset_id}.jpg': {
    ...file(`/v1/${key}/a/${ready.asset_id}.jpg`, { origin }),
    403: nothing,
    404: () => proxied('a/none.jpg'),
  },
  'put /api/user': { 200: () => mine('/api/user', { method: 'PUT', body: { name: 'New' } }) },
  'delete /api/user': {
    200: () => fresh('/api/user', 'DELETE', { current: secret }),
    ...confirmed('/api/user', 'DELETE', {}),
  },
  'post /api/user/email/verify': {
    200: async () => {
      const { userId, email: theirs } = await service.signUp();
      return verify({ kind: 'verify', userId, email: theirs });
    },
    409: async () => {
      const { userId, email: fromEmail } = await service.signUp();
      return verify({ kind: 'email', userId, email: user.email, fromEmail, epoch: 0 });
    },
  },
  'post /api/user/password/forgot': {
    200: () => get('/api/user/password/forgot', { method: 'POST', body: { email: email() } }),
  },
  'post /api/user/password/reset': {
    200: async () => {
      const { userId, email: theirs } = await service.signUp();
      const token = await mailToken({ kind: 'reset', userId, email: theirs, epoch: 0 });
      return get('/api/user/password/reset', { method: 'POST', body: { token, password: secret } });
    },
  },
  'post /api/user/password': {
    200: () => fresh('/api/user/password', 'POST', { current: secret, password: 'another secret' }),
    409: async () => {
      const asked = as(await service.signUp(), {
        method: 'POST',
        body: { current: secret, password: 'another secret' },
      });
      const both = await Promise.all([get('/api/user/password', asked), get('/api/user/password', asked)]);
      return both.find(({ status }) => status === 409) ?? both[0];
    },
    ...confirmed('/api/user/password', 'POST', { password: 'another secret' }),
  },
  'post /api/user/email': {
    200: () => fresh('/api/user/email', 'POST', { current: secret, email: email() }),
    409: () => fresh('/api/user/email', 'POST', { current: secret, email: user.email }),
    ...confirmed('/api/user/email', 'POST', { email: email() }),
  },
  'get /api/user/sessions': { 200: () => mine('/api/user/sessions') },
  'delete /api/user/sessions/{id}': {
    200: async () => {
      const other = await service.signUp();
      const { sessions } = (await other.call<{ sessions: { id: string }[] }>('GET', '/api/user/sessions'))
        .body;
      return get(`/api/user/sessions/${sessions[0]?.id}`, as(other, { method: 'DELETE' }));
    },
  },
  'post /api/user/tokens': {
    201: () => mine('/api/user/tokens', { method: 'POST', body: { name: 'ci' } }),
    409: async () => {
      const other = as(await service.signUp(), { method: 'POST', body: { name: 'ci' } });
      for (let n = 0; n < accountLimits.maxTokens; n += 1) await get('/api/user/tokens', other);
      return get('/api/user/tokens', other);
    },
  },
  'get /api/user/tokens': { 200: () => mine('/api/user/tokens') },
  'delete /api/user/tokens/{id}': {
    200: async () => {
      const { id } = (await user.call<{ id: string }>('POST', '/api/user/tokens', { name: 'gone' })).body;
      return mine(`/api/user/tokens/${id}`, { method: 'DELETE' });
    },
  },
  'get /api/user/usage': { 200: () => mine('/api/user/usage') },
  'get /api/user/oauth/{provider}': {
    302: () => get('/api/user/oauth/google'),
    404: () => get('/api/user/oauth/none'),
    429: () => visits('/api/user/oauth/github'),
  },
  'get /api/user/oauth/callback/{provider}': {
    302: () => get('/api/user/oauth/callback/google?code=1&state=2'),
    404: () => get('/api/user/oauth/callback/none'),
    429: () => visits('/api/user/oauth/callback/github?state=2'),
  },
  'delete /api/assets/{assetId}': {
    200: async () =>
      mine(`/api/assets/${await prepare(`${sources}/missing.png?erased`)}`, { method: 'DELETE' }),
  },
  'post /api/projects/detect-brand': { 200: () => crawl('/api/projects/detect-brand', site) },
  'post /api/projects/{projectId}/detect-brand': {
    200: () => crawl(`/api/projects/${user.projectId}/detect-brand`, site),
  },
  'post /api/projects/deep-crawl': { 200: () => crawl('/api/projects/deep-crawl', site) },
  'post /api/projects/{projectId}/deep-crawl': {
    200: () => crawl(`/api/projects/${user.projectId}/deep-crawl`, site),
  },
  'get /api/projects/{projectId}/webhooks': { 200: () => hooks('') },
  'put /api/projects/{projectId}/webhooks': {
    200: () => hooks('', { method: 'PUT', body: webhook }),
    400: () => hooks('', { method: 'PUT', body: { ...webhook, webhook_url: 'http://169.254.169.254/' } }),
  },
  'post /api/projects/{projectId}/webhooks/rotate-secret': {
    200: () => hooks('/rotate-secret', { method: 'POST' }),
  },
  'post /api/projects/{projectId}/webhooks/test': {
    200: () => hooks('/test', { method: 'POST' }),
    400: () => withoutUrl('/test'),
  },
  'get /api/projects/{projectId}/webhooks/deliveries': {
    200: () => hooks('/deliveries'),
    400: () => hooks('/deliveries?cursor=none'),
  },
  'get /api/projects/{projectId}/webhooks/deliveries/{deliveryId}': {
    200: () => get(hooked.delivery, as(hooked.who)),
  },
  'post /api/projects/{projectId}/webhooks/deliveries/{deliveryId}/redeliver': {
    200: () => get(`${hooked.delivery}/redeliver`, as(hooked.who, { method: 'POST' })),
    400: async () => {
      const { who, path, delivery } = await withDelivery();
      await who.call('PUT', path, { ...webhook, webhook_url: null, webhooks_enabled: false });
      return get(`${delivery}/redeliver`, as(who, { method: 'POST' }));
    },
  },
  'post /api/projects/{projectId}/webhooks/deliveries/redeliver': {
    200: () => hooks('/deliveries/redeliver', { method: 'POST', body: { since: 0 } }),
    400: () => withoutUrl('/deliveries/redeliver', { since: 0 }),
  },
  'get /api/operator/users': { 200: () => asBoss('users') },
  'get /api/operator/users/{id}': { 200: () => asBoss(`users/${user.userId}`) },
  'put /api/operator/users/{id}/plan': {
    200: () => asBoss(`users/${boss.userId}/plan`, { method: 'PUT', body: { plan: 'team', billing_day: 1 } }),
  },
  'put /api/operator/users/{id}/quota': {
    200: () => asBoss(`users/${boss.userId}/quota`, { method: 'PUT', body: { used: 0 } }),
  },
  'delete /api/operator/users/{id}/sessions': {
    200: async () => asBoss(`users/${(await service.signUp()).userId}/sessions`, { method: 'DELETE' }),
  },
  'get /api/operator/audit': { 200: () => asBoss('audit') },
  'get /api/operator/mailbox': { 200: () => asBoss('mailbox') },
  'get /api/operator/providers': { 200: () => asBoss('providers') },
  'get /api/operator/overview': { 200: () => asBoss('overview') },
  'get /api/operator/machines': { 200: () => asBoss('machines') },
  'get /api/operator/machines/{kind}/{id}': { 200: () => asBoss(`machines/asset/${ready.asset_id}`) },
  'post /api/operator/machines/{kind}/{id}/actions': {
    200: async () => actAs(await prepare(`${sources}/hangs.png?operator`)),
    409: () => actAs(ready.asset_id),
  },
  'get /api/operator/search': { 200: () => asBoss('search?q=ast_none') },
  'get /api/operator/requests/{id}': {
    200: async () => {
      const { body } = await boss.call<{ machine: { request_id: string } }>(
        'GET',
        `/api/operator/machines/asset/${ready.asset_id}`,
      );
      return asBoss(`requests/${body.machine.request_id}`);
    },
  },
  'get /api/operator/partitions': { 200: () => asBoss('partitions') },
  'get /api/operator/streams': { 200: () => asBoss('streams') },
  'get /api/operator/workers': { 200: () => asBoss('workers') },
  'post /api/operator/bulk/preview': {
    200: () => asBoss('bulk/preview', { method: 'POST', body: { filter: {}, action: 'retry' } }),
  },
  'post /api/operator/bulk': { 200: startBulk },
  'get /api/operator/bulk': { 200: () => asBoss('bulk') },
  'get /api/operator/bulk/{id}': { 200: async () => asBoss(`bulk/${idOf(await startBulk())}`) },
  'post /api/operator/bulk/{id}/cancel': {
    200: async () => asBoss(`bulk/${idOf(await startBulk())}/cancel`, { method: 'POST' }),
    409: async () => {
      const path = `bulk/${idOf(await startBulk())}/cancel`;
      await asBoss(path, { method: 'POST' });
      return asBoss(path, { method: 'POST' });
    },
  },
  'post /hooks/video/{provider}': {
    204: () => report(`luma?${signedPlace}`, { body: { id: 'gen_1', state: 'dreaming' } }),
    400: () => report(`luma?${signedPlace}`, { body: [] }),
    401: () => report('luma', { body: {} }),
    404: () => report('nobody', { body: {} }),
    408: () => report('luma', { headers: { 'content-length': '1000' }, body: '{' }),
    413: () => report('luma', { body: Buffer.alloc(providerLimits.callbackMaxBytes + 1) }),
  },
  'get /healthz': { 200: () => get('/healthz') },
  'get /readyz': { 200: () => get('/readyz') },
  'get /embed.js': page('/embed.js'),
  'get /dashboard': page('/dashboard'),
  'get /dashboard/{page}': { ...page('/dashboard/signin'), 404: () => get('/dashboard/none.js') },
  'get /dashboard/assets/{file}': {
    ...page(await scriptPath()),
    404: () => get('/dashboard/assets/none.js'),
  },
  'get /openapi.json': page('/openapi.json'),
  'get /docs': page('/docs'),
  'get /docs/{page}': {
    ...page('/docs/limits'),
    301: () => get('/docs/operating'),
    404: nothing,
  },
  'get /docs/{folder}/{page}': { ...page('/docs/errors/busy'), 404: nothing },
  'get /llms.txt': page('/llms.txt'),
  'get /llms-full.txt': page('/llms-full.txt'),
  'get /docs/assets/{file}': { ...page(await stylePath()), 404: nothing },
};

/** What an operator does to a machine. */
function actAs(id: string) {
  return asBoss(`machines/asset/${id}/actions`, { method: 'POST', body: { action: 'cancel' } });
}

/** A job that finds nothing to do, and yet has a page. */
async function startBulk(): Promise<Got> {
  const { body } = await boss.call<{ token: string }>('POST', '/api/operator/bulk/preview', {
    filter: { state: 'erased' },
    action: 'retry',
  });
  return asBoss('bulk', { method: 'POST', body: { token: body.token } });
}

function idOf({ body }: Got): string {
  return (JSON.parse(String(body)) as { job: { id: string } }).job.id;
}

/** What a model provider says of a prediction. */
function report(to: string, sent: Sent) {
  return get(`/hooks/video/${to}`, { method: 'POST', ...sent });
}

// ── General ways ────────────────────────────────────────────────────────────────────────────────

const failingBase = `http://127.0.0.1:${failing.port}`;

/** By status, for every operation that `isFor` picks and that has no way of its own. */
const general: Record<number, { isFor(endpoint: Endpoint): boolean; way: Way }> = {
  400: { isFor: () => true, way: (endpoint) => askFor(endpoint, service.base, { headers: twoHosts }) },
  401: { isFor: needsSession, way: (endpoint) => askFor(endpoint, service.base, {}) },
  403: { isFor: changes, way: (endpoint) => askFor(endpoint, service.base, asUser(endpoint, foreign)) },
  404: { isFor: isApi, way: (endpoint) => askFor(endpoint, service.base, as(user)) },
  408: { isFor: changes, way: (endpoint) => askFor(endpoint, failingBase, failingAs(stalled)) },
  409: { isFor: isIdempotent, way: (endpoint) => twice(endpoint, 'at once') },
  422: { isFor: isIdempotent, way: (endpoint) => twice(endpoint, 'changed') },
  413: { isFor: changes, way: (endpoint) => askFor(endpoint, service.base, asUser(endpoint, announced)) },
  415: { isFor: changes, way: (endpoint) => askFor(endpoint, service.base, asUser(endpoint, plain)) },
  429: {
    isFor: isApi,
    async way(endpoint) {
      // What all share is used up first: a sign-out that is let through would end the session.
      await limitedUser.call('GET', '/api/projects');
      const first = await askFor(endpoint, limited.base, as(limitedUser));
      return first.status === 429 ? first : askFor(endpoint, limited.base, as(limitedUser));
    },
  },
  431: { isFor: () => true, way: (endpoint) => askFor(endpoint, service.base, { headers: huge }) },
  500: { isFor: () => true, way: (endpoint) => askFailing(endpoint, new Error('a fault of ours')) },
  503: { isFor: () => true, way: (endpoint) => askFailing(endpoint, new MongoNetworkError('no store')) },
};

/** Requests that may be repeated, in as many different forms as are asked for. */
const repeatable: Record<string, (n: number, headers: Record<string, string>) => Promise<Got>> = {
  '/api/projects': (n, headers) =>
    mine('/api/projects', { method: 'POST', headers: { ...json, ...headers }, body: { name: `N${n}` } }),
  '/api/v1/prepare': (n, headers) =>
    mine('/api/v1/prepare', {
      method: 'POST',
      headers: { ...json, ...headers },
      body: { project_id: user.projectId, src: `${sources}/missing.png?${n}` },
    }),
  '/api/assets/{assetId}/regenerate': (n, headers) =>
    mine(`/api/assets/${failed.asset_id}/regenerate`, {
      method: 'POST',
      headers: { ...json, ...headers },
      body: { seed: n },
    }),
  '/api/v1/upload': async (n, headers) => upload(await image(64 + n), headers),
};
const json = { 'content-type': 'application/json' };

function isIdempotent({ operation }: Endpoint): boolean {
  return operation.parameters.some(({ name }) => name === 'Idempotency-Key');
}

/** A key that is used again: for another request, or while the first one runs. */
async function twice({ path }: Endpoint, how: 'changed' | 'at once'): Promise<Got> {
  const send = repeatable[path];
  if (!send) throw new Error(`${path} has no request to repeat here`);
  const headers = { 'idempotency-key': `${path} ${how}` };
  if (how === 'changed') {
    await send(1, headers);
    return send(2, headers);
  }
  const all = await Promise.all(Array.from({ length: 8 }, () => send(3, headers)));
  const refused = all.find(({ status }) => status === 409);
  if (!refused) throw new Error(`answered ${all.map(({ status }) => status)}`);
  return refused;
}

const huge = { 'x-long': 'x'.repeat(32 * 1024) };
/** As somebody who may ask for it. */
const asUser = ({ path }: Endpoint, sent: Sent) => as(path.startsWith('/api/operator/') ? boss : user, sent);
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
    // Who is no operator is not even told which methods there are.
    const isTold = !path.startsWith('/api/operator/');
    const wrong = await ask(service.base, target, { method: 'PATCH' });
    t.equal(wrong.status, isTold ? 405 : 404, path);
    if (isTold) t.match(wrong.headers['allow'], /OPTIONS/);
    t.equal((await ask(service.base, target, { method: 'OPTIONS' })).status, isTold ? 204 : 404, path);
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

async function upload(bytes: Uint8Array, more: Record<string, string> = {}): Promise<Got> {
  const form = new FormData();
  form.append('file', new Blob([Buffer.from(bytes)]), 'image.png');
  const packed = new Response(form);
  const headers = { 'content-type': packed.headers.get('content-type') ?? '', ...more };
  const body = Buffer.from(await packed.arrayBuffer());
  return ask(service.base, '/api/v1/upload', as(user, { method: 'POST', headers, body }));
}

async function scriptPath(): Promise<string> {
  const { body } = await ask(service.base, '/dashboard', {});
  return /src="(\/dashboard\/assets\/[^"]+)"/.exec(String(body))?.[1] ?? '';
}

async function stylePath(): Promise<string> {
  const { body } = await ask(service.base, '/docs', {});
  return /href="(\/docs\/assets\/[^"]+)"/.exec(String(body))?.[1] ?? '';
}
