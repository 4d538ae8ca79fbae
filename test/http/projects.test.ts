import t from 'tap';
import type { Project } from '../../schemas/project.ts';
import { newId } from '../../src/store/ids.ts';
import { coded, startFront } from '../fixtures/http.ts';

const front = await startFront({
  services: {
    countAssets: async (of) => ('projectId' in of ? 7 : 9),
  },
});
t.teardown(() => front.close());
const { call, store, events } = front;
const { cookie, userId } = await front.signUp();
const stranger = await front.signUp();

const create = async (body: object, as = cookie) => {
  // The oldest is found by its time.
  front.clock.now += 1;
  const answer = await call('POST', '/api/projects', { body, cookie: as });
  return (answer.body as { project: Project }).project;
};
const read = async (id: string) => {
  const answer = await call('GET', `/api/projects/${id}`, { cookie });
  return (answer.body as { project: Project }).project;
};
const list = async (as = cookie) => {
  const answer = await call('GET', '/api/projects', { cookie: as });
  return (answer.body as { projects: Project[] }).projects;
};
const defaults = async (as = cookie) =>
  (await list(as)).filter(({ isDefault }) => isDefault).map(({ name }) => name);
const proxyConfig = async (id: string, body: object) => {
  const answer = await call('PUT', `/api/projects/${id}/proxy-config`, { body, cookie });
  return { status: answer.status, body: answer.body, project: answer.body['project'] as Project };
};

t.test('201 for a new project with what was sent, and it reads the same', async (t) => {
  const brandConfig = {
    colors: { primary: '#111', secondary: '#222', accent: '#333', background: '#fff', foreground: '#000' },
    fonts: { heading: 'Inter', body: 'Georgia' },
    brandName: 'Acme',
    logoUrl: 'https://example.com/logo.svg',
  };
  const body = { name: ' Shop ', domains: ['example.com'], brandConfig, surprise: true };
  front.clock.now += 1;
  const answer = await call('POST', '/api/projects', { body, cookie });
  t.equal(answer.status, 201);
  const { project } = answer.body as { project: Project };
  t.match(project.id, /^prj_[0-9A-Za-z]{20}$/);
  t.match(project, {
    name: 'Shop',
    domains: ['example.com'],
    brandConfig,
    isDefault: false,
    signing_secret: null,
  });
  t.match(project, {
    signing_enabled: false,
    source_hosts: null,
    overage_enabled: false,
    overage_cap_cents: null,
  });
  const again = await call('GET', `/api/projects/${project.id}`, { cookie });
  t.strictSame(again.body, { project, compositionCount: 7 });
  t.strictSame(
    (await list()).map(({ name }) => name),
    ['Default', 'Shop'],
    'oldest first',
  );
  t.match((await call('GET', '/api/user/me', { cookie })).body, { themeCount: 1, compositionCount: 9 });
});

t.test('400 for what does not fit, with the place of it', async (t) => {
  const cases: [object, string][] = [
    [{}, 'name'],
    [{ name: '' }, 'name'],
    [{ name: 'x'.repeat(256) }, 'name'],
    [{ name: 'a\0' }, 'name'],
    [{ name: 'ok', domains: 'example.com' }, 'domains'],
    [{ name: 'ok', domains: ['x'.repeat(256)] }, 'domains.0'],
    [{ name: 'ok', domains: Array(101).fill('a') }, 'domains'],
    [{ name: 'ok', isDefault: 'yes' }, 'isDefault'],
    [{ name: 'ok', brandConfig: { colors: { primary: '#111' } } }, 'brandConfig.colors.secondary'],
    [{ name: 'ok', brandConfig: [] }, 'brandConfig'],
  ];
  for (const [body, path] of cases) {
    const { status, body: answer } = await call('POST', '/api/projects', { body, cookie });
    t.equal(status, 400);
    t.equal((answer['issues'] as { path: string }[])[0]?.path, path);
  }
});

t.test('401 for every endpoint without a session, 404 for the project of another user', async (t) => {
  const [mine] = await list();
  const id = mine?.id ?? '';
  const endpoints: [string, string, object?][] = [
    ['GET', ''],
    ['PUT', '', { name: 'Stolen' }],
    ['PUT', '', { isDefault: true }],
    ['DELETE', ''],
    ['PUT', '/proxy-config', {}],
    ['POST', '/keys/rotate?which=proxy'],
    ['POST', '/keys/rotate?which=signing'],
  ];
  for (const [method, rest, body] of endpoints) {
    const path = `/api/projects/${id}${rest}`;
    t.equal((await call(method, path, { body })).status, 401, `${method} ${rest}`);
    const { status, body: answer } = await call(method, path, { body, cookie: stranger.cookie });
    t.equal(status, 404, `${method} ${rest}`);
    t.strictSame(answer, coded('not_found', { error: 'not found' }));
    const odd = encodeURIComponent('a/b\0…');
    t.equal((await call(method, `/api/projects/${odd}${rest}`, { body, cookie })).status, 404);
  }
  t.equal((await call('GET', '/api/projects')).status, 401);
  t.equal((await call('POST', '/api/projects', { body: { name: 'x' } })).status, 401);
  t.equal((await call('GET', '/api/projects/%E0%A4%A', { cookie })).status, 400, 'half an escape');
  t.strictSame(await read(id), mine, 'nothing has changed');
});

t.test('a change keeps what was not sent, and {} clears the brand', async (t) => {
  const project = await create({ name: 'Change', domains: ['a.example'], brandConfig: { brandName: 'B' } });
  const put = (body: object) => call('PUT', `/api/projects/${project.id}`, { body, cookie });
  front.clock.now += 1_000;
  t.strictSame((await put({ name: 'Changed' })).body, { ok: true });
  t.match(await read(project.id), {
    name: 'Changed',
    domains: ['a.example'],
    brandConfig: { brandName: 'B' },
  });
  t.ok((await read(project.id)).updatedAt > project.updatedAt);
  t.equal((await put({ brandConfig: {}, domains: [] })).status, 200);
  t.strictSame((await read(project.id)).brandConfig, {});
  t.equal((await put({})).status, 200);
  t.equal((await put({ name: '' })).status, 400);
  t.match(events.at(-1), ['changed', project.id, {}]);
});

t.test('exactly one project is the default, whatever happens', async (t) => {
  const user = await front.signUp();
  const put = (id: string, isDefault: boolean) =>
    call('PUT', `/api/projects/${id}`, { body: { isDefault }, cookie: user.cookie });
  const [first] = await list(user.cookie);
  await put(first?.id ?? '', false);
  t.strictSame(await defaults(user.cookie), ['Default'], 'the only project stays the default');
  const second = await create({ name: 'Second', isDefault: true }, user.cookie);
  t.equal(second.isDefault, true);
  t.strictSame(await defaults(user.cookie), ['Second']);
  const third = await create({ name: 'Third' }, user.cookie);
  await put(third.id, true);
  t.strictSame(await defaults(user.cookie), ['Third']);
  await put(third.id, false);
  t.strictSame(await defaults(user.cookie), ['Default'], 'the oldest other one inherits it');
  await put(second.id, false);
  t.strictSame(await defaults(user.cookie), ['Default'], 'what was none stays none');

  const ids = [first?.id ?? '', second.id, third.id];
  for (let round = 0; round < 3; round += 1) {
    const answers = await Promise.all([
      ...ids.map((id) => put(id, true)),
      ...ids.map((id) => put(id, false)),
      create({ name: `Extra ${round}`, isDefault: true }, user.cookie),
    ]);
    t.ok(answers.slice(0, 6).every((answer) => 'status' in answer && answer.status === 200));
    t.equal((await defaults(user.cookie)).length, 1, 'also when many change it at once');
  }

  const all = await list(user.cookie);
  await Promise.all(
    all.slice(1).map(({ id }) => call('DELETE', `/api/projects/${id}`, { cookie: user.cookie })),
  );
  t.strictSame(await defaults(user.cookie), ['Default']);
  await call('DELETE', `/api/projects/${ids[0]}`, { cookie: user.cookie });
  t.strictSame(await list(user.cookie), []);
  const made = await Promise.all(['One', 'Two'].map((name) => create({ name }, user.cookie)));
  t.equal(made.filter(({ isDefault }) => isDefault).length, 1, 'the first of two at once is the default');
  t.equal((await defaults(user.cookie)).length, 1);
});

t.test('403 past the greatest number of projects', async (t) => {
  const user = await front.signUp();
  const rest = { userId: user.userId, name: 'p', createdTs: 1 };
  for (let n = 0; n < 20; n += 1) {
    await Promise.all(
      Array.from({ length: 50 }, () =>
        store.projects.create({ ...rest, id: newId('prj'), isDefault: false }),
      ),
    );
  }
  const { status, body } = await call('POST', '/api/projects', { body: { name: 'x' }, cookie: user.cookie });
  t.equal(status, 403);
  t.strictSame(body, coded('too_many_projects', { error: 'at most 1000 projects' }));
});

t.test('deleting a project tells who listens, and a second time answers 404', async (t) => {
  const project = await create({ name: 'Gone' });
  const { project: configured } = await proxyConfig(project.id, {});
  const path = `/api/projects/${project.id}`;
  const { status, body } = await call('DELETE', path, { cookie, headers: { 'x-request-id': 'my-request' } });
  t.equal(status, 200);
  t.strictSame(body, { ok: true });
  t.strictSame(events.at(-1), ['deleted', project.id, { oldKey: configured.proxy_key }, 'my-request']);
  t.equal((await call('DELETE', path, { cookie })).status, 404);
  t.equal(await store.projects.findByKey(configured.proxy_key ?? ''), undefined);
});

t.test('proxy configuration', async (t) => {
  const { id } = await create({ name: 'Proxy' });

  t.test('the first save makes the key, later ones keep it, two first ones make one', async (t) => {
    t.equal((await read(id)).proxy_key, null);
    const both = await Promise.all([proxyConfig(id, {}), proxyConfig(id, { default_mode: 'loop' })]);
    const [key] = both.map(({ project }) => project.proxy_key);
    t.match(key, /^pk_[0-9A-Za-z]{24}$/);
    t.equal(both[1]?.project.proxy_key, key);
    t.equal((await proxyConfig(id, {})).project.proxy_key, key);
    t.match(await store.projects.findByKey(key ?? ''), { id });
  });

  t.test('stores what was sent in normal form and keeps the rest', async (t) => {
    const sent = {
      allowed_origins: ['https://Example.COM:443', 'bücher.example', 'localhost:3000', 'https://example.com'],
      default_motion: 'kinetic',
      default_dur_seconds: 8,
      default_mode: 'animate-in',
      source_hosts: ['CDN.Example.com'],
      overage_cap_cents: 500,
    };
    const { project } = await proxyConfig(id, sent);
    const { proxy_key: _, ...rest } = project;
    const want = {
      allowed_origins: '["https://example.com","xn--bcher-kva.example","localhost:3000"]',
      default_motion: 'kinetic',
      default_dur_seconds: 8,
      default_mode: 'animate-in',
      signing_secret: null,
      signing_enabled: false,
      source_hosts: ['cdn.example.com'],
      overage_enabled: false,
      overage_cap_cents: 500,
    };
    t.strictSame(rest, want);
    const { project: after } = await proxyConfig(id, { source_hosts: null, allowed_origins: [] });
    t.match(after, { ...want, source_hosts: null, allowed_origins: '[]' });
  });

  t.test('400 for what is no origin, host, duration or mode', async (t) => {
    const bad: [object, string][] = [
      [{ allowed_origins: ['ok.example', 'https://a.example/path'] }, 'allowed_origins.1'],
      [{ allowed_origins: ['*.example.com'] }, 'allowed_origins.0'],
      [{ allowed_origins: [''] }, 'allowed_origins.0'],
      [{ allowed_origins: 'https://a.example' }, 'allowed_origins'],
      [{ allowed_origins: Array.from({ length: 101 }, (_, n) => `a${n}.example`) }, 'allowed_origins'],
      [{ source_hosts: ['a.example:80'] }, 'source_hosts.0'],
      [{ default_dur_seconds: 1 }, 'default_dur_seconds'],
      [{ default_dur_seconds: 9 }, 'default_dur_seconds'],
      [{ default_dur_seconds: 2.5 }, 'default_dur_seconds'],
      [{ default_motion: 'wild' }, 'default_motion'],
      [{ default_mode: null }, 'default_mode'],
      [{ enable_signing: 'true' }, 'enable_signing'],
      [{ overage_cap_cents: -1 }, 'overage_cap_cents'],
    ];
    for (const [body, path] of bad) {
      const { status, body: answer } = await proxyConfig(id, body);
      t.equal(status, 400, JSON.stringify(body).slice(0, 60));
      t.equal((answer['issues'] as { path: string }[])[0]?.path, path);
    }
  });

  t.test('the signing secret is shown once, by the save that makes it', async (t) => {
    const { project } = await proxyConfig(id, { enable_signing: true });
    t.match(project.signing_secret, /^sk_[\w-]{43}$/);
    t.equal(project.signing_enabled, true);
    t.match((await proxyConfig(id, { enable_signing: true })).project, {
      signing_secret: null,
      signing_enabled: true,
    });
    t.equal((await store.projects.find(id))?.signingSecret?.open(), project.signing_secret);
    t.match(await read(id), { signing_secret: null, signing_enabled: true });
    t.match((await proxyConfig(id, { enable_signing: false })).project, {
      signing_secret: null,
      signing_enabled: false,
    });
    const twice = await Promise.all([0, 1].map(() => proxyConfig(id, { enable_signing: true })));
    t.equal(twice.filter(({ project }) => project.signing_secret !== null).length, 1);
  });

  t.test('overage needs a paid plan', async (t) => {
    const refused = await proxyConfig(id, { overage_enabled: true });
    t.equal(refused.status, 400);
    t.strictSame(
      refused.body,
      coded('overage_needs_paid_plan', {
        error: 'overage needs a paid plan',
        upgrade_url: 'http://localhost:8080/dashboard/billing',
      }),
    );
    t.equal(await store.users.setPlan(userId, 'pro', 31), true);
    t.equal((await proxyConfig(id, { overage_enabled: true })).project.overage_enabled, true);
    await store.users.setPlan(userId, 'free', null);
    t.equal((await proxyConfig(id, { overage_enabled: false })).project.overage_enabled, false);
    t.equal(await store.users.setPlan('usr_none', 'pro', 1), false);
  });

  t.test('rotating replaces a key and tells the old one', async (t) => {
    const { proxy_key: before } = await read(id);
    const rotate = (which: string, of = id) =>
      call('POST', `/api/projects/${of}/keys/rotate${which}`, { cookie });
    const { status, body } = await rotate('?which=proxy');
    t.equal(status, 200);
    t.match(body['proxy_key'], /^pk_[0-9A-Za-z]{24}$/);
    t.not(body['proxy_key'], before);
    t.strictSame(events.at(-1), ['changed', id, { oldKey: before }]);
    t.equal(await store.projects.findByKey(before ?? ''), undefined);
    t.match(await store.projects.findByKey(String(body['proxy_key'])), { id });

    const secret = (await rotate('?which=signing')).body['signing_secret'];
    t.match(secret, /^sk_[\w-]{43}$/);
    t.equal((await store.projects.find(id))?.signingSecret?.open(), secret);
    for (const which of ['', '?which=', '?which=other', '?which=proxy%00', '?WHICH=proxy']) {
      t.equal((await rotate(which)).status, 400, which);
    }
    await proxyConfig(id, { enable_signing: false });
    const refused = await rotate('?which=signing');
    t.equal(refused.status, 400);
    t.strictSame(refused.body, coded('signing_not_enabled', { error: 'signing is not enabled' }));
    const fresh = await create({ name: 'Fresh' });
    t.match((await rotate('?which=proxy', fresh.id)).body, { proxy_key: /^pk_/ }, 'made when there was none');
    t.strictSame(events.at(-1), ['changed', fresh.id, {}]);
  });
});
