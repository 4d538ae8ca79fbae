/** Signing in with Google and GitHub, end to end: a mock issuer and a server that behaves like GitHub. */
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OAuth2Server } from 'oauth2-mock-server';
import t from 'tap';
import { oauth as limits } from '../../schemas/limits.ts';
import { createOAuthAccounts } from '../../src/auth/oauth-accounts.ts';
import { createOAuthFlows } from '../../src/auth/oauth-flow.ts';
import { createOAuthProviders, type OAuthClient } from '../../src/auth/oauth-providers.ts';
import { oauthRoutes } from '../../src/http/oauth.ts';
import { githubClient, json, startGithubLike } from '../fixtures/github-like.ts';
import { type Front, password, startFront } from '../fixtures/http.ts';

const googleClient = { clientId: 'google-client', clientSecret: 'google-secret' };
const baseUrl = 'http://localhost:8080';

/** What the mock issuer says of the next person. */
type Claims = Record<string, unknown>;
const mona: Claims = { sub: 'g-1', email: 'mona@example.com', email_verified: true, name: 'Mona Lisa' };

const issuer = new OAuth2Server();
await issuer.issuer.keys.generate('RS256');
await issuer.start(0, '127.0.0.1');
const github = await startGithubLike();
const google = { claims: mona, header: {} as Record<string, unknown> };
issuer.service.on('beforeTokenSigning', ({ payload, header }: { payload: Claims; header: Claims }) => {
  for (const [name, value] of Object.entries(google.claims)) payload[name] = value;
  Object.assign(header, google.header);
});
t.teardown(async () => {
  await issuer.stop();
  await github.close();
});
t.beforeEach(() => {
  google.claims = {
    ...mona,
    sub: `g-${randomBytes(4).toString('hex')}`,
    email: `m${randomBytes(4).toString('hex')}@example.com`,
  };
  google.header = {};
  github.faults.clear();
  const unique = Number.parseInt(randomBytes(4).toString('hex'), 16);
  github.person = { id: unique, login: `octocat${unique}`, name: 'Mona' };
  github.emails = [{ email: `o${unique}@example.com`, primary: true, verified: true }];
});

type Clients = { google?: OAuthClient | undefined; github?: OAuthClient | undefined };

const patience: { ms: number } = { ms: limits.providerMs };

async function start(clients: Clients = {}, trusted = false): Promise<Front & { ended: string[] }> {
  const ended: string[] = [];
  const key = randomBytes(32);
  const front = await startFront({
    ...(trusted ? { config: { mode: 'production' as const } } : {}),
    routes: (services) => {
      const { now, newId } = services;
      return oauthRoutes({
        flows: createOAuthFlows({ key, now, secure: false }),
        providers: createOAuthProviders(
          {
            google: { ...googleClient, baseUrl: issuer.issuer.url ?? '' },
            github: { ...githubClient, baseUrl: github.url },
            ...clients,
          },
          { baseUrl, now, providerMs: patience.ms },
        ),
        accounts: createOAuthAccounts({
          store: services.store as never,
          newId,
          now,
          async onSessionsEnded(userId) {
            ended.push(userId);
          },
        }),
      });
    },
  });
  return Object.assign(front, { ended });
}

/** A browser: follows redirects between this front end and the providers, and keeps cookies of the first. */
function browser(front: Front) {
  const cookies = new Map<string, string>();
  const header = () => [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const local = (url: string) => (url.startsWith(baseUrl) ? front.url + url.slice(baseUrl.length) : url);

  const visit = async (url: string, headers: Record<string, string> = {}) => {
    const target = local(url.startsWith('/') ? baseUrl + url : url);
    const isOurs = target.startsWith(front.url);
    const answer = await fetch(target, {
      redirect: 'manual',
      headers: isOurs ? { cookie: header(), ...headers } : {},
    });
    for (const cookie of isOurs ? answer.headers.getSetCookie() : []) {
      const [name = '', value = ''] = (cookie.split(';')[0] ?? '').split('=');
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    const body = await answer.text();
    return {
      status: answer.status,
      location: answer.headers.get('location') ?? '',
      headers: answer.headers,
      body,
    };
  };

  return {
    cookies,
    visit,
    /** Goes to a provider and stops at its answer: the address to come back to. */
    async toCallback(provider: string): Promise<string> {
      const away = await visit(`/api/user/oauth/${provider}`);
      if (away.status !== 302) throw new Error(`${away.status} ${away.body}`);
      return (await visit(away.location)).location;
    },
    /** The whole way. Answers where it ended. */
    async signIn(provider: string): Promise<string> {
      return (await visit(await this.toCallback(provider))).location;
    },
    async user(): Promise<Record<string, unknown> | null> {
      const { body } = await front.call('GET', '/api/user/session', { cookie: header() });
      return body['user'] as Record<string, unknown> | null;
    },
  };
}

const failure = (code: string) => `${baseUrl}/dashboard/signin?error=${code}`;
const home = `${baseUrl}/dashboard`;

t.test('302 to google with state, nonce and PKCE, and nothing to be kept or leaked', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const { status, location, headers } = await browser(front).visit('/api/user/oauth/google');
  t.equal(status, 302);
  const { searchParams, origin } = new URL(location);
  t.equal(origin, issuer.issuer.url);
  t.match(Object.fromEntries(searchParams), {
    client_id: 'google-client',
    response_type: 'code',
    redirect_uri: `${baseUrl}/api/user/oauth/callback/google`,
    scope: 'openid email profile',
    code_challenge_method: 'S256',
    state: /^[\w-]{43}$/,
    nonce: /^[\w-]{43}$/,
    code_challenge: /^[\w-]{43}$/,
  });
  t.equal(headers.get('cache-control'), 'no-store');
  t.equal(headers.get('referrer-policy'), 'no-referrer');
  t.match(headers.get('x-request-id') ?? '', /^req_/);
});

for (const provider of ['google', 'github']) {
  t.test(`${provider}: a new person gets an account with a project, and the same one again`, async (t) => {
    const front = await start();
    t.teardown(front.close);
    const first = browser(front);
    t.equal(await first.signIn(provider), home);
    const user = await first.user();
    t.match(user, { id: /^usr_/, email: /@example\.com$/, name: /^Mona/ });
    t.strictSame([...first.cookies.keys()], ['service.session_token'], 'the flow is forgotten');
    const { body } = await front.call('GET', '/api/projects', {
      cookie: `service.session_token=${first.cookies.get('service.session_token')}`,
    });
    t.match(body, { projects: [{ name: 'Default', isDefault: true }] });

    // Whatever the e-mail has become at the provider.
    google.claims = { ...google.claims, email: 'other@example.com', email_verified: false };
    github.emails = [];
    const again = browser(front);
    t.equal(await again.signIn(provider), home);
    t.equal((await again.user())?.['id'], user?.['id']);

    const { status } = await front.call('POST', '/api/user/signin', {
      body: { email: user?.['email'], password },
    });
    t.equal(status, 401, 'an account without a password has no password');
  });
}

t.test('an e-mail that is proven here is linked: no second account, and the password stays', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const { userId, email } = await front.signUp();
  await front.store.users.verifyEmail(userId, email);
  google.claims['email'] = email.toUpperCase();
  const visitor = browser(front);
  t.equal(await visitor.signIn('google'), home);
  t.equal((await visitor.user())?.['id'], userId);
  t.strictSame(front.ended, []);
  const { status } = await front.call('POST', '/api/user/signin', { body: { email, password } });
  t.equal(status, 200);

  github.emails = [{ email, primary: true, verified: true }];
  const elsewhere = browser(front);
  t.equal(await elsewhere.signIn('github'), home);
  t.equal((await elsewhere.user())?.['id'], userId, 'a second provider, the same account');
});

t.test('whoever signed up with the e-mail of another loses every way in when its owner comes', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const { userId, email } = await front.signUp();
  google.claims['email'] = email;
  const owner = browser(front);
  t.equal(await owner.signIn('google'), home);
  t.equal((await owner.user())?.['id'], userId);
  t.strictSame(front.ended, [userId], 'sessions, streams and tokens have ended');
  const { status } = await front.call('POST', '/api/user/signin', { body: { email, password } });
  t.equal(status, 401, 'the password is gone');
  t.match(await front.store.users.find(userId), { emailVerified: true, passwordHash: null });

  t.equal(await browser(front).signIn('google'), home);
  t.equal(front.ended.length, 1, 'once');
});

t.test('two callbacks at once for a new e-mail make one account', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const email = 'both@example.com';
  google.claims['email'] = email;
  github.emails = [{ email, primary: true, verified: true }];
  const visitors = [browser(front), browser(front), browser(front), browser(front)];
  const ends = await Promise.all(visitors.map((one, n) => one.signIn(n % 2 === 0 ? 'google' : 'github')));
  t.strictSame(ends, [home, home, home, home]);
  const ids = await Promise.all(visitors.map(async (one) => (await one.user())?.['id']));
  t.equal(new Set(ids).size, 1);
});

t.test('names are cleaned: controls, halves of characters, length, none at all', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const cases: [unknown, string | RegExp][] = [
    ['  Ada\u0000 \r\nX-Evil: 1 ', 'Ada X-Evil: 1'],
    ['\ud83d', '\ufffd'],
    ['😀'.repeat(200), '😀'.repeat(127)],
    [undefined, /^[a-z0-9]+$/],
    ['   ', /^[a-z0-9]+$/],
    [7, /^[a-z0-9]+$/],
  ];
  for (const [name, wanted] of cases) {
    const local = `n${randomBytes(4).toString('hex')}`;
    google.claims = { ...google.claims, sub: local, email: `${local}@example.com`, name };
    const visitor = browser(front);
    t.equal(await visitor.signIn('google'), home);
    t.match(await visitor.user(), { name: wanted });
  }
});

t.test('oauth_email_unverified for an e-mail that the provider does not vouch for', async (t) => {
  const front = await start();
  t.teardown(front.close);
  for (const claims of [
    { email_verified: false },
    { email_verified: undefined },
    { email_verified: 'yes' },
    { email: 'no address' },
  ]) {
    const good = google.claims;
    google.claims = { ...good, ...claims };
    t.equal(await browser(front).signIn('google'), failure('oauth_email_unverified'), JSON.stringify(claims));
    google.claims = good;
  }
  const emails = [
    [],
    [{ email: 'a@example.com', primary: true, verified: false }],
    [
      { email: 'a@example.com', primary: true, verified: false },
      { email: 'b@example.com', primary: false, verified: true },
    ],
  ];
  for (const list of emails) {
    github.emails = list;
    t.equal(await browser(front).signIn('github'), failure('oauth_email_unverified'));
  }
});

t.test('oauth_state for a callback that this browser did not begin, once, in time', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const visitor = browser(front);
  const callback = await visitor.toCallback('google');
  const stranger = browser(front);
  t.equal((await stranger.visit(callback)).location, failure('oauth_state'), 'no cookie');
  await stranger.toCallback('google');
  t.equal((await stranger.visit(callback)).location, failure('oauth_state'), 'the cookie of another flow');
  const mixed = callback.replace('callback/google', 'callback/github');
  t.equal((await visitor.visit(mixed)).location, failure('oauth_state'), 'another provider');

  const late = browser(front);
  const lateCallback = await late.toCallback('google');
  front.clock.now += limits.stateMs;
  t.equal((await late.visit(lateCallback)).location, failure('oauth_state'), 'too late');

  const twice = browser(front);
  const once = await twice.toCallback('github');
  const copy = new Map(twice.cookies);
  t.equal((await twice.visit(once)).location, home);
  t.equal((await twice.visit(once)).location, failure('oauth_state'), 'the cookie is gone');
  for (const [name, value] of copy) twice.cookies.set(name, value);
  t.equal((await twice.visit(once)).location, failure('oauth_state'), 'a copied cookie does not help');
  t.equal((await browser(front).visit('/api/user/oauth/callback/google')).location, failure('oauth_state'));
});

t.test('oauth_denied when the person says no, oauth_provider for any other refusal', async (t) => {
  const front = await start();
  t.teardown(front.close);
  for (const [error, code] of [
    ['access_denied', 'oauth_denied'],
    ['server_error', 'oauth_provider'],
    ['<script>', 'oauth_provider'],
  ]) {
    const visitor = browser(front);
    const back = new URL(await visitor.toCallback('google'));
    back.searchParams.delete('code');
    back.searchParams.set('error', error ?? '');
    t.equal((await visitor.visit(back.href)).location, failure(code ?? ''));
  }
});

t.test(
  'oauth_provider for an id_token that is not for us, not now, not from this flow, not signed',
  async (t) => {
    const front = await start();
    t.teardown(front.close);
    const soon = Math.floor(Date.now() / 1_000);
    for (const claims of [
      { nonce: 'another' },
      { aud: 'somebody-else' },
      { iss: 'https://accounts.example' },
      { exp: soon - 3_600 },
      { sub: '' },
      { sub: undefined },
    ]) {
      const good = google.claims;
      google.claims = { ...good, ...claims };
      t.equal(await browser(front).signIn('google'), failure('oauth_provider'), JSON.stringify(claims));
      google.claims = good;
    }
    issuer.service.once('beforeResponse', (answer: { body: Claims }) => {
      const [head, , signature] = String(answer.body['id_token']).split('.');
      const forged = {
        iss: issuer.issuer.url,
        aud: googleClient.clientId,
        sub: 'forged',
        exp: soon + 600,
        iat: soon,
      };
      answer.body['id_token'] = [
        head,
        Buffer.from(JSON.stringify(forged)).toString('base64url'),
        signature,
      ].join('.');
    });
    t.equal(await browser(front).signIn('google'), failure('oauth_provider'), 'a forged signature');
    issuer.service.once('beforeResponse', (answer: { body: Claims }) => {
      delete answer.body['id_token'];
    });
    t.equal(await browser(front).signIn('google'), failure('oauth_provider'), 'no id_token');
    issuer.service.once('beforeResponse', (answer: { body: Claims; statusCode: number }) => {
      answer.statusCode = 500;
      answer.body = { error: 'server_error' };
    });
    t.equal(await browser(front).signIn('google'), failure('oauth_provider'), '500');
    t.equal(await browser(front).signIn('google'), home, 'and well again');
  },
);

t.test('oauth_provider for what github may answer instead, and nothing is made', async (t) => {
  const front = await start();
  t.teardown(front.close);
  const faults: [string, string, Parameters<typeof github.faults.set>[1]][] = [
    [
      '200 with an error',
      '/login/oauth/access_token',
      (res) => json(res, 200, { error: 'bad_verification_code', error_description: 'no' }),
    ],
    [
      'a token that is none',
      '/login/oauth/access_token',
      (res) => json(res, 200, { access_token: 7, token_type: 'bearer' }),
    ],
    ['503', '/login/oauth/access_token', (res) => json(res, 503, {})],
    ['no JSON', '/login/oauth/access_token', (res) => res.end('<html>')],
    ['no JSON user', '/user', (res) => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{')],
    ['a user without an id', '/user', (res) => json(res, 200, { login: 'x' })],
    ['e-mails forbidden', '/user/emails', (res) => json(res, 403, { message: 'no' })],
    ['e-mails not found', '/user/emails', (res) => json(res, 404, { message: 'no' })],
    ['e-mails of another shape', '/user/emails', (res) => json(res, 200, { email: 'x' })],
    ['a redirect', '/user', (res) => res.writeHead(302, { Location: `${github.url}/user/emails` }).end()],
    ['a reset', '/user', (res) => res.destroy()],
    [
      'too much',
      '/user/emails',
      (res) => json(res, 200, [{ email: 'x'.repeat(limits.maxAnswerBytes), primary: true, verified: true }]),
    ],
  ];
  for (const [what, path, fault] of faults) {
    github.faults.set(path, fault);
    const visitor = browser(front);
    t.equal(await visitor.signIn('github'), failure('oauth_provider'), what);
    t.equal(await visitor.user(), null);
    github.faults.delete(path);
  }
  t.equal(await browser(front).signIn('github'), home);
});

t.test('oauth_provider when a provider hangs, before its answer or in the middle of it', async (t) => {
  patience.ms = 200;
  const front = await start();
  patience.ms = limits.providerMs;
  t.teardown(front.close);
  github.faults.set('/login/oauth/access_token', () => undefined);
  t.equal(await browser(front).signIn('github'), failure('oauth_provider'));
  github.faults.delete('/login/oauth/access_token');
  github.faults.set('/user', (res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' }).write('{"id":');
  });
  t.equal(await browser(front).signIn('github'), failure('oauth_provider'));
});

t.test('a provider that cannot be reached fails the visit, not the start, and is tried again', async (t) => {
  let isUp = false;
  const discovery = createServer((req, res) => {
    if (!isUp) json(res, 500, {});
    else if (req.url === '/.well-known/openid-configuration') {
      const url = `http://127.0.0.1:${(discovery.address() as AddressInfo).port}`;
      json(res, 200, {
        issuer: url,
        authorization_endpoint: `${url}/authorize`,
        token_endpoint: `${url}/token`,
        jwks_uri: `${url}/jwks`,
      });
    } else res.writeHead(404).end();
  });
  await new Promise<void>((resolve) => discovery.listen(0, '127.0.0.1', resolve));
  t.teardown(() => discovery.close());
  const url = `http://127.0.0.1:${(discovery.address() as AddressInfo).port}`;
  const front = await start({ google: { ...googleClient, baseUrl: url } });
  t.teardown(front.close);
  t.equal((await browser(front).visit('/api/user/oauth/google')).location, failure('oauth_provider'));
  t.match(front.logged.at(-1), { status: 302, err: Error }, 'the reason is in the log');
  isUp = true;
  t.match((await browser(front).visit('/api/user/oauth/google')).location, `${url}/authorize?`);
  isUp = false;
  t.match((await browser(front).visit('/api/user/oauth/google')).location, `${url}/authorize?`, 'remembered');
});

t.test('oauth_not_configured, 404 for a provider that is none, and HEAD starts nothing', async (t) => {
  const front = await start({ google: undefined });
  t.teardown(front.close);
  const { visit } = browser(front);
  t.equal((await visit('/api/user/oauth/google')).location, failure('oauth_not_configured'));
  t.equal(
    (await visit('/api/user/oauth/callback/google?code=1&state=2')).location,
    failure('oauth_not_configured'),
  );
  for (const name of ['facebook', 'GOOGLE', '__proto__', 'callback', '%00', 'a'.repeat(300)]) {
    const { status, body } = await visit(`/api/user/oauth/${name}`);
    t.equal(status, 404);
    t.match(JSON.parse(body), { error: 'not found' });
  }
  const head = await fetch(`${front.url}/api/user/oauth/github`, { method: 'HEAD', redirect: 'manual' });
  t.equal(head.status, 405);
  t.equal(head.headers.getSetCookie().length, 0);
});

t.test('429 for an address that goes back and forth without an end', async (t) => {
  const front = await start({}, true);
  t.teardown(front.close);
  const { visit } = browser(front);
  for (let n = 0; n < limits.perAddress; n += 1) t.equal((await visit('/api/user/oauth/github')).status, 302);
  const { status, headers, body } = await visit('/api/user/oauth/github');
  t.equal(status, 429);
  t.match(JSON.parse(body), { error: 'rate limited', retry_after_ms: Number });
  t.ok(Number(headers.get('retry-after')) > 0);
});
