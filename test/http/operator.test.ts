/** What operators may do with accounts, what everybody else sees of it (nothing), and that no change goes unrecorded. */
import { MongoClient } from 'mongodb';
import t from 'tap';
import { createOperatorCheck } from '../../src/auth/operators.ts';
import { createSessions, tokenIn } from '../../src/auth/sessions.ts';
import { createOpenApi } from '../../src/http/openapi.ts';
import { operatorRoutes } from '../../src/http/operator.ts';
import { openStore } from '../../src/store/client.ts';
import { type CallOptions, startFront } from '../fixtures/http.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const ended: string[] = [];
const front = await startFront({
  config: { operatorEmails: ['boss@example.com'] },
  routes: operatorRoutes,
  services: { onSessionsEnded: async (userId) => void ended.push(userId) },
});
t.teardown(() => front.close());
const { call, clock, store } = front;
const dayMs = 86_400_000;
const boss = await front.signUp('boss@example.com');
const ada = await front.signUp('ada@example.com');

const asBoss = (method: string, path: string, options: CallOptions = {}) =>
  call(method, `/api/operator${path}`, { cookie: boss.cookie, ...options });
const userOf = async (id = ada.userId) => (await asBoss('GET', `/users/${id}`)).body['user'];
const audit = async (query = '') =>
  (await asBoss('GET', `/audit${query}`)).body as { entries: object[]; next_cursor: string | null };
const run = (key: string, limit = 5) =>
  store.quota.take({
    userId: ada.userId,
    projectId: 'prj_1',
    key,
    now: clock.now,
    limit,
    overage: null,
    resetAt: clock.now + 30 * dayMs,
  });

const requests: [method: string, path: string, body?: object][] = [
  ['GET', '/users'],
  ['GET', `/users/${ada.userId}`],
  ['PUT', `/users/${ada.userId}/plan`, { plan: 'team' }],
  ['PUT', `/users/${ada.userId}/plan`, { plan: 'none such' }],
  ['PUT', `/users/${ada.userId}/quota`, { used: 0 }],
  ['DELETE', `/users/${ada.userId}/sessions`],
  ['GET', '/audit'],
  ['GET', '/mailbox'],
];

t.test('404 for everybody else, as for a path that is none, and nothing changes', async (t) => {
  const visitors: [who: string, options: CallOptions][] = [
    ['nobody', {}],
    ['another user', { cookie: ada.cookie }],
    ['another user from another site', { cookie: ada.cookie, headers: { origin: 'https://evil.example' } }],
    ['a session that is none', { cookie: `service.session_token=${'x'.repeat(43)}` }],
    ['a bearer', { headers: { authorization: 'Bearer sat_x' } }],
  ];
  for (const [who, options] of visitors) {
    for (const [method, path, body] of requests) {
      const sent = body ? { ...options, body } : options;
      const there = await call(method, `/api/operator${path}`, sent);
      const nowhere = await call(method, '/api/nowhere', sent);
      t.equal(there.status, 404, `${who}: ${method} ${path}`);
      t.match(there.body, { error: 'not found' });
      const names = (headers: Headers) => [...headers.keys()].sort();
      t.strictSame(names(there.headers), names(nowhere.headers));
    }
  }
  const head = await fetch(`${front.url}/api/operator/users`, { method: 'HEAD' });
  t.equal(head.status, 404);
  for (const method of ['POST', 'PATCH', 'OPTIONS']) {
    const options = { cookie: ada.cookie };
    t.equal((await call(method, '/api/operator/users', options)).status, 404, `${method} is no 405 either`);
  }
  t.match(await userOf(), { plan: 'free', used: 0, sessions: 1 });
  t.strictSame((await audit()).entries, []);
});

t.test('who is an operator', async (t) => {
  const { mongodbUrl } = await testServers();
  const name = uniqueName('operators');
  const other = await openStore(mongodbUrl, name, { log: front.services.log });
  const client = await new MongoClient(mongodbUrl).connect();
  t.teardown(() => Promise.all([other.close(), client.close()]));
  const email = 'boss@example.com';
  await other.users.insert({ id: 'usr_1', email, name: 'B', passwordHash: null, createdTs: 1 });
  const find = async () => {
    const sessions = createSessions({ ...other, now: Date.now, secure: false });
    return sessions.find(tokenIn((await sessions.start('usr_1')).cookie) ?? '');
  };
  const [production, development] = [false, true].map((allow) => createOperatorCheck([email], allow));
  t.notOk(production?.(await find()), 'in production an e-mail that anybody may have typed is not enough');
  t.ok(development?.(await find()));
  await client
    .db(name)
    .collection('users')
    .updateOne({ email }, { $set: { emailVerified: true } });
  t.ok(production?.(await find()));
  t.notOk(createOperatorCheck(['ada@example.com'], true)(await find()), 'another e-mail');
  t.notOk(createOperatorCheck([], true)(await find()), 'nobody is named');
  t.notOk(development?.(undefined), 'nobody is signed in');
});

t.test('403 for an operator’s request that another site has sent', async (t) => {
  const headers = { origin: 'https://evil.example' };
  for (const [method, path, body] of requests.filter(([method]) => method === 'PUT' || method === 'DELETE')) {
    const answer = await asBoss(method, path, body ? { headers, body } : { headers });
    t.match(answer, { status: 403, body: { error: 'cross-site request refused' } });
  }
  t.match(await userOf(), { plan: 'free', sessions: 1 });
});

t.test(
  '200 with accounts, newest first, page by page, by e-mail and by part of it or the name',
  async (t) => {
    for (const name of ['Eve (1.0)', 'Eve (100)', 'Bob']) {
      clock.now += 1;
      const body = { email: `${uniqueName('x')}@find.example`, password: 'correct horse battery', name };
      t.equal((await call('POST', '/api/user/signup', { body })).status, 201);
    }
    const list = async (query: string) => (await asBoss('GET', `/users${query}`)).body;
    const names = ({ users }: Record<string, unknown>) =>
      (users as { name: string }[]).map(({ name }) => name);
    t.strictSame(names(await list('?q=FIND.example')), ['Bob', 'Eve (100)', 'Eve (1.0)']);
    t.strictSame(names(await list('?q=eve%20(1.0)')), ['Eve (1.0)'], 'a text, no pattern');
    t.strictSame(names(await list('?q=%24gt')), []);
    t.match(await list('?email=%20ADA@example.com'), {
      users: [{ id: ada.userId, email: 'ada@example.com' }],
    });
    t.strictSame(names(await list('?email=ada')), [], 'the whole e-mail');

    const seen: string[] = [];
    let cursor: unknown = '';
    while (cursor !== null) {
      const page: Record<string, unknown> = await list(`?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      t.ok(names(page).length <= 2);
      seen.push(...names(page));
      cursor = page['next_cursor'];
    }
    t.strictSame(seen, ['Bob', 'Eve (100)', 'Eve (1.0)', 'Test', 'Test']);
  },
);

t.test('200 with an account: what it has and uses, and no secret of it', async (t) => {
  await run('ast_1:1');
  t.strictSame(await userOf(), {
    id: ada.userId,
    email: 'ada@example.com',
    name: 'Test',
    email_verified: false,
    plan: 'free',
    billing_day: null,
    used: 1,
    reset_at: new Date(clock.now + 30 * dayMs).toISOString(),
    created_at: new Date(clock.now - 3).toISOString(),
    has_password: true,
    limit: 5,
    overage_runs: 0,
    overage_cents: 0,
    holds: 1,
    sessions: 1,
    projects: 1,
  });
});

t.test('200 for a plan, at once, with the day on which its months begin', async (t) => {
  const put = (body: object) => asBoss('PUT', `/users/${ada.userId}/plan`, { body });
  const pro = await put({ plan: 'pro', billing_day: 31 });
  t.match(pro, { status: 200, body: { user: { plan: 'pro', billing_day: 31, limit: 100, used: 1 } } });
  const today = new Date(clock.now).getUTCDate();
  t.match(await put({ plan: 'team' }), { body: { user: { plan: 'team', billing_day: today } } });
  t.match(await put({ plan: 'free', billing_day: 7 }), {
    body: { user: { plan: 'free', billing_day: null } },
  });
});

t.test('200 for runs that count as used, and every one of them can be used again', async (t) => {
  const put = (used: number) => asBoss('PUT', `/users/${ada.userId}/quota`, { body: { used } });
  const held = await run('ast_2:1');
  t.match(await put(5), { status: 200, body: { user: { used: 5, limit: 5 } } });
  t.equal(await run('ast_3:1'), 'exhausted');
  t.match(await put(0), { body: { user: { used: 0 } } });
  if (typeof held !== 'string') await store.quota.giveBack(ada.userId, held);
  t.match(await userOf(), { used: 0 }, 'a run of before that is given back makes it no less than none');
  const taken = await Promise.all(Array.from({ length: 8 }, (_, n) => run(`ast_4:${n}`)));
  t.equal(taken.filter((one) => typeof one !== 'string').length, 5);
});

t.test('used runs that are set come back when their month ends, also where none was under way', async (t) => {
  const eve = await front.signUp('month@example.com');
  const put = (used: number, id: string) => asBoss('PUT', `/users/${id}/quota`, { body: { used } });
  await put(5, eve.userId);
  const end = new Date(clock.now + 30 * dayMs).toISOString();
  t.match(await userOf(eve.userId), { used: 5, reset_at: end });
  // A month that is over, and that no run has ended yet.
  const fay = await front.signUp('over@example.com');
  await store.quota.take({
    userId: fay.userId,
    projectId: 'prj_1',
    key: 'ast_9:1',
    now: clock.now,
    limit: 5,
    overage: null,
    resetAt: clock.now,
  });
  t.match(await userOf(fay.userId), { used: 0, reset_at: null });
  t.match(
    await put(3, fay.userId),
    { body: { user: { used: 3, reset_at: end } } },
    'what is set is of the present month',
  );
});

t.test(
  '200 when an account’s sessions end: they are refused at once, and their streams are told',
  async (t) => {
    const eve = await front.signUp('eve@example.com');
    const signIn = { body: { email: eve.email, password: 'correct horse battery' } };
    await call('POST', '/api/user/signin', signIn);
    t.match(await userOf(eve.userId), { sessions: 2 });
    t.equal((await call('GET', '/api/projects', { cookie: eve.cookie })).status, 200);
    t.match(await asBoss('DELETE', `/users/${eve.userId}/sessions`), { status: 200, body: { ok: true } });
    t.equal((await call('GET', '/api/projects', { cookie: eve.cookie })).status, 401);
    t.strictSame(ended, [eve.userId]);
    t.match(await userOf(eve.userId), { sessions: 0 });
    t.match(await userOf(), { sessions: 1 }, 'another’s go on');
  },
);

t.test('404 for an account that is none', async (t) => {
  const before = (await audit()).entries.length;
  for (const [method, path, body] of requests.filter(([, path]) => path.includes(ada.userId))) {
    const answer = await asBoss(method, path.replace(ada.userId, 'usr_none'), body ? { body } : {});
    t.equal(
      answer.status,
      body && 'plan' in body && body.plan === 'none such' ? 400 : 404,
      `${method} ${path}`,
    );
  }
  t.equal((await audit()).entries.length, before, 'nothing was changed, nothing is recorded');
});

t.test('400 for what is no plan, day, number, limit or cursor, and nothing changes', async (t) => {
  const before = (await audit()).entries.length;
  const bad: [path: string, bodies: unknown[]][] = [
    ['plan', [{}, { plan: 'gold' }, { plan: 1 }, null, [], { plan: { $ne: 1 } }]],
    ['plan', [0, 32, -1, 1.5, '7', null, {}].map((billing_day) => ({ plan: 'pro', billing_day }))],
    ['quota', [{}, ...[-1, 1.5, '3', null, 1_000_001, {}].map((used) => ({ used }))]],
  ];
  for (const [path, bodies] of bad) {
    for (const body of bodies) {
      const { status } = await asBoss('PUT', `/users/${ada.userId}/${path}`, { body });
      t.equal(status, 400, JSON.stringify(body));
    }
  }
  for (const query of [
    'limit=0',
    'limit=101',
    'limit=x',
    'cursor=x',
    'cursor=',
    'q=',
    'q=%20',
    `q=${'x'.repeat(256)}`,
  ])
    t.equal((await asBoss('GET', `/users?${query}`)).status, 400, query);
  for (const query of ['limit=0', 'cursor=x', 'user_id='])
    t.equal((await asBoss('GET', `/audit?${query}`)).status, 400, query);
  t.equal((await audit()).entries.length, before);
});

t.test('429 past the limit that all endpoints share, for operators too', async (t) => {
  const other = await startFront({
    config: { operatorEmails: ['boss@example.com'], rateLimitFactor: 0.01 },
    routes: operatorRoutes,
  });
  t.teardown(() => other.close());
  const { cookie } = await other.signUp('boss@example.com');
  const codes = [];
  for (let n = 0; n < 4; n += 1)
    codes.push((await other.call('GET', '/api/operator/users', { cookie })).status);
  t.strictSame(codes, [200, 200, 200, 429]);
});

t.test('the audit tells who changed what, from what to what, in which request', async (t) => {
  clock.now += 1;
  const headers = { 'x-request-id': 'req_audited' };
  const eve = await front.signUp('audited@example.com');
  await asBoss('PUT', `/users/${eve.userId}/plan`, { headers, body: { plan: 'pro', billing_day: 3 } });
  clock.now += 1;
  await asBoss('PUT', `/users/${eve.userId}/quota`, { body: { used: 2 } });
  clock.now += 1;
  await asBoss('DELETE', `/users/${eve.userId}/sessions`);
  const { entries } = await audit(`?user_id=${eve.userId}`);
  const author = { by: boss.userId, by_email: 'boss@example.com', user_id: eve.userId };
  t.match(entries, [
    { ...author, action: 'user.sessions', before: { sessions: 1 }, after: { sessions: 0 } },
    { ...author, action: 'user.quota', before: { used: 0 }, after: { used: 2 }, request_id: /^req_/ },
    {
      ...author,
      action: 'user.plan',
      before: { plan: 'free', billing_day: null },
      after: { plan: 'pro', billing_day: 3 },
      request_id: 'req_audited',
      created_at: new Date(clock.now - 2).toISOString(),
    },
  ]);
  t.equal(entries.length, 3);
  const first = await audit('?limit=2');
  const next = await audit(`?limit=2&cursor=${first.next_cursor}`);
  t.same([...first.entries, ...next.entries], (await audit()).entries.slice(0, 4));
});

t.test('200 with the mails that nobody sent, newest first', async (t) => {
  const mail = { to: 'ada@example.com', subject: 'Hello', text: 'Hello Ada', html: '<p>Hello Ada</p>' };
  await store.mailbox.add({ id: 'mail_1', ts: clock.now, ...mail });
  await store.mailbox.add({ id: 'mail_2', ts: clock.now + 1, ...mail });
  const { status, body } = await asBoss('GET', '/mailbox?limit=1');
  t.equal(status, 200);
  t.strictSame(body, {
    mails: [{ id: 'mail_2', created_at: new Date(clock.now + 1).toISOString(), ...mail }],
  });
  t.equal((await asBoss('GET', '/mailbox?limit=0')).status, 400);
});

t.test('of many changes at once, beside runs that are counted, each is made and recorded', async (t) => {
  const eve = await front.signUp('busy@example.com');
  const changes = Array.from({ length: 12 }, (_, n) =>
    asBoss('PUT', `/users/${eve.userId}/plan`, { body: { plan: 'pro', billing_day: n + 1 } }),
  );
  const runs = Array.from({ length: 30 }, (_, n) =>
    store.quota.take({
      userId: eve.userId,
      projectId: 'prj_1',
      key: `ast_${n}:1`,
      now: clock.now,
      limit: 100,
      overage: null,
      resetAt: clock.now + dayMs,
    }),
  );
  const answers = await Promise.all(changes);
  t.ok((await Promise.all(runs)).every((one) => typeof one !== 'string'));
  t.ok(answers.every(({ status }) => status === 200));
  const { entries } = (await audit(`?user_id=${eve.userId}`)) as unknown as {
    entries: { before: { billing_day: number | null }; after: { billing_day: number } }[];
  };
  t.equal(entries.length, 12);
  // Each began where another one ended.
  const from = entries.map(({ before }) => before.billing_day ?? 0).sort((a, b) => a - b);
  const to = entries.map(({ after }) => after.billing_day);
  const last = ((await userOf(eve.userId)) as { billing_day: number }).billing_day;
  t.strictSame(
    from,
    [0, ...to.filter((day) => day !== last)].sort((a, b) => a - b),
  );
  t.match(await userOf(eve.userId), { used: 30 });
});

t.test('the document has them under the tag operator', async (t) => {
  const { paths } = createOpenApi(operatorRoutes, 'http://localhost:8080');
  const operations = Object.values(paths).flatMap((operation) => Object.values(operation));
  t.equal(operations.length, operatorRoutes.length);
  for (const { tags, responses, security } of operations) {
    t.strictSame(tags, ['Operators']);
    t.ok('404' in responses && !('401' in responses));
    t.strictSame(security, [{ session: [] }]);
  }
});
