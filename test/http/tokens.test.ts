/** API tokens in the place of the session's cookie. */
import t from 'tap';
import { account, perMinute } from '../../schemas/limits.ts';
import { bearerIn, createTokens } from '../../src/auth/tokens.ts';
import { readCredential } from '../../src/http/credential.ts';
import { createOpenApi } from '../../src/http/openapi.ts';
import { tokenRoutes } from '../../src/http/tokens.ts';
import { userRoutes } from '../../src/http/user.ts';
import { password, startFront } from '../fixtures/http.ts';

const front = await startFront();
t.teardown(() => front.close());
const { call, clock, store, events } = front;

type Made = { id: string; token: string };
const make = async (cookie: string, more: object = {}) => {
  const { status, body } = await call('POST', '/api/user/tokens', { body: { name: 'ci', ...more }, cookie });
  if (status !== 201) throw new Error(`answered ${status}`);
  return body as Made;
};
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

t.test('201 shows the token once; afterwards its preview and when it was used', async (t) => {
  const { cookie } = await front.signUp();
  const body = { name: '  deploy ', expires_at: new Date(clock.now + 60_000).toISOString() };
  const { status, body: made } = await call('POST', '/api/user/tokens', { body, cookie });
  t.equal(status, 201);
  const { token, id, ...rest } = made as Made;
  t.match(token, /^sat_[\w-]{43}$/);
  t.match(id, /^tok_\w{20}$/);
  const shown = {
    name: 'deploy',
    preview: `${token.slice(0, 12)}…`,
    created_at: clock.now,
    expires_at: clock.now + 60_000,
    last_used_at: null,
  };
  t.strictSame(rest, shown);
  t.strictSame((await call('GET', '/api/user/tokens', { cookie })).body, { tokens: [{ id, ...shown }] });
  t.match((await call('GET', '/api/user/session', bearer(token))).body, { user: { name: 'Test' } });
  const used = clock.now;
  clock.now += 9_000;
  t.match((await call('GET', '/api/user/tokens', bearer(token))).body, { tokens: [{ last_used_at: used }] });
  clock.now += 51_000;
  t.equal((await call('GET', '/api/user/me', bearer(token))).status, 401, 'expired');
  t.strictSame((await call('GET', '/api/user/tokens', { cookie })).body, { tokens: [] });
});

t.test('400 for a bad name or time, 409 for the fifty-first, 401 for nobody', async (t) => {
  const { cookie } = await front.signUp();
  const post = (body: object) => call('POST', '/api/user/tokens', { body, cookie });
  for (const name of [undefined, null, '', ' ', 7, 'x'.repeat(101), 'a\0b', 'a\nb']) {
    t.equal((await post({ name })).status, 400);
  }
  for (const expires_at of [clock.now, 0, -1, 1.5, 1e300, 'soon', '2999-01-01', true, {}]) {
    t.equal((await post({ name: 'x', expires_at })).status, 400, `${expires_at}`);
  }
  t.equal((await call('POST', '/api/user/tokens', { body: { name: 'x' } })).status, 401);
  const all = await Promise.all(
    Array.from({ length: account.maxTokens }, (_, n) => make(cookie, { name: `t${n}` })),
  );
  t.equal(new Set(all.map(({ token }) => token)).size, account.maxTokens);
  t.match(await post({ name: 'x' }), { status: 409, body: { error: 'at most 50 API tokens' } });
  t.equal((await call('DELETE', `/api/user/tokens/${all[0]?.id}`, { cookie })).status, 200);
  t.equal((await post({ name: 'x', expires_at: null })).status, 201);
});

t.test('401 with WWW-Authenticate for another scheme, or a token of nobody', async (t) => {
  const { cookie } = await front.signUp();
  const { token } = await make(cookie);
  for (const authorization of [
    `Basic ${Buffer.from('a:b').toString('base64')}`,
    'Bearer',
    'Bearer ',
    token,
    `Bearer ${token}x`,
    `Bearer sat_${'a'.repeat(43)}`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer ${'x'.repeat(2_000)}`,
  ]) {
    const answer = await call('GET', '/api/user/me', { headers: { authorization } });
    t.equal(answer.status, 401, authorization.slice(0, 40));
    t.equal(answer.headers.get('www-authenticate'), 'Bearer');
    t.match(answer.body, { error: 'authentication required' });
  }
  t.equal((await call('GET', '/api/user/me')).headers.get('www-authenticate'), 'Bearer');
  t.strictSame((await call('GET', '/api/user/session', bearer('x'))).body, { user: null });
  t.equal(
    (await call('GET', '/api/user/me', { headers: { authorization: `bearer  ${token} ` } })).status,
    200,
  );
});

t.test('a token wins over a cookie; a scheme that is not ours leaves the cookie be', async (t) => {
  const [one, two] = [await front.signUp(), await front.signUp()];
  const { token } = await make(one.cookie);
  const both = { cookie: two.cookie, ...bearer(token) };
  t.match((await call('GET', '/api/user/me', both)).body, { id: one.userId });
  t.equal((await call('GET', '/api/user/me', { cookie: two.cookie, ...bearer('sat_none') })).status, 401);
  const basic = { cookie: two.cookie, headers: { authorization: 'Basic YTpi' } };
  t.match((await call('GET', '/api/user/me', basic)).body, { id: two.userId });
});

t.test('the cross-site rule is for cookies', async (t) => {
  const { cookie } = await front.signUp();
  const { token } = await make(cookie);
  const foreign = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
  const post = (headers: Record<string, string>) =>
    call('POST', '/api/projects', { body: { name: 'p' }, cookie, headers });
  t.equal((await post(foreign)).status, 403);
  t.equal((await post({ ...foreign, authorization: 'Basic YTpi' })).status, 403);
  t.equal((await post({ ...foreign, ...bearer(token).headers })).status, 201);
});

t.test('403 for what an API token may not do', async (t) => {
  const { cookie, userId } = await front.signUp();
  const { token, id } = await make(cookie);
  const { sessions } = (await call('GET', '/api/user/sessions', bearer(token))).body as {
    sessions: { id: string; current: boolean }[];
  };
  t.match(sessions, [{ current: false }]);
  for (const [method, path, body] of [
    ['POST', '/api/user/tokens', { name: 'another' }],
    ['POST', '/api/user/password', { current: password, password: 'a wholly new password' }],
    ['POST', '/api/user/email', { email: 'x@example.com', current: password }],
    ['POST', '/api/user/signout', undefined],
    ['DELETE', `/api/user/sessions/${sessions[0]?.id}`, undefined],
  ] as const) {
    const answer = await call(method, path, { body, ...bearer(token) });
    t.equal(answer.status, 403, path);
    t.match(answer.body, { error: 'not allowed with an API token', code: 'not_with_api_token' });
    t.equal((await call(method, path, { body, ...bearer('sat_none') })).status, 401, path);
  }
  t.equal((await store.tokens.list(userId, clock.now)).length, 1);
  t.ok((await call('GET', '/api/user/session', { cookie })).body['user']);
  t.equal((await call('PUT', '/api/user', { body: { name: 'By token' }, ...bearer(token) })).status, 200);
  t.equal((await call('DELETE', `/api/user/tokens/${id}`, bearer(token))).status, 200, 'its own end');
});

t.test('a token is revoked at once here, within a second elsewhere, and by its user alone', async (t) => {
  const { cookie } = await front.signUp();
  const stranger = await front.signUp();
  const { token, id } = await make(cookie);
  let reads = 0;
  const find = (hash: string) => {
    reads += 1;
    return store.tokens.find(hash);
  };
  const elsewhere = createTokens({
    tokens: { ...store.tokens, find },
    users: store.users,
    now: () => clock.now,
  });
  t.equal((await call('GET', '/api/user/me', bearer(token))).status, 200);
  for (let n = 0; n < 20; n += 1) t.ok(await elsewhere.find(token));
  t.notOk(elsewhere.find(token) instanceof Promise, 'no wait for what is known');
  t.equal(reads, 1);
  const path = `/api/user/tokens/${id}`;
  t.equal((await call('DELETE', path, { cookie: stranger.cookie })).status, 404);
  t.equal((await call('DELETE', path, { cookie })).status, 200);
  t.equal((await call('DELETE', path, { cookie })).status, 404);
  t.strictSame(
    events.filter(([name, of]) => name === 'session ended' && of === id),
    [['session ended', id]],
  );
  t.equal((await call('GET', '/api/user/me', bearer(token))).status, 401);
  clock.now += 1_000;
  t.equal(await elsewhere.find(token), undefined);
  t.equal(await store.tokens.isAlive(id, clock.now), false);
});

t.test('429 in the bucket that a user’s sessions and tokens share', async (t) => {
  const { cookie } = await front.signUp();
  const { token } = await make(cookie);
  const get = (options: object) => call('GET', '/api/user/session', options).then(({ status }) => status);
  const half = perMinute.other / 2;
  await Promise.all(Array.from({ length: half }, () => get({ cookie })));
  const last = await Promise.all(Array.from({ length: half }, () => get(bearer(token))));
  t.strictSame(last.filter((status) => status === 429).length, 1, 'making the token was one more');
  t.equal(await get({ cookie }), 429);
});

t.test('the document knows both ways in, and where the cookie alone will do', async (t) => {
  const { paths, components } = createOpenApi([...userRoutes, ...tokenRoutes], 'https://x.example');
  t.match(components.securitySchemes, { bearer: { type: 'http', scheme: 'bearer' } });
  const securityOf = (path: string, method: 'get' | 'post') => paths[path]?.[method]?.security;
  t.strictSame(securityOf('/api/user/me', 'get'), [{ session: [] }, { bearer: [] }]);
  t.strictSame(securityOf('/api/user/session', 'get'), [{ session: [] }, { bearer: [] }, {}]);
  t.strictSame(securityOf('/api/user/tokens', 'post'), [{ session: [] }]);
  t.strictSame(securityOf('/api/user/signin', 'post'), []);
  t.match(components.schemas['SignupRequest'], {
    properties: { password: { minLength: 8, maxLength: 128 } },
  });
});

t.test('credentials are read by their form alone', async (t) => {
  t.equal(bearerIn(`Bearer sat_${'é'.repeat(43)}`), undefined);
  t.equal(readCredential({ authorization: '', cookie: '' }), undefined);
  t.equal(readCredential({ authorization: 'BearerX y', cookie: 'a=b' }), undefined);
  t.strictSame(readCredential({ authorization: 'Bearer', cookie: 'a=b' }), {
    kind: 'bearer',
    token: undefined,
  });
});
