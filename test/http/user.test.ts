import t from 'tap';
import { BusyError } from '../../src/auth/passwords.ts';
import { coded, cookieOf, password, startFront } from '../fixtures/http.ts';

const front = await startFront();
t.teardown(() => front.close());
const { call, clock, store } = front;
const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });

t.test('sign-up', async (t) => {
  t.test('201 with the user, a session and a default project', async (t) => {
    const body = { email: '  Ada@Example.COM ', password, name: '  Ada ' };
    const { status, headers, body: answer } = await call('POST', '/api/user/signup', { body });
    t.equal(status, 201);
    const { id, ...user } = answer['user'] as { id: string };
    t.match(id, /^usr_[0-9A-Za-z]{20}$/);
    t.strictSame(user, { email: 'ada@example.com', name: 'Ada' });
    const cookie = headers.getSetCookie()[0] ?? '';
    t.match(cookie, /^service\.session_token=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=2592000$/);
    const { body: list } = await call('GET', '/api/projects', { cookie: cookieOf(headers) });
    t.match(list, {
      projects: [{ name: 'Default', isDefault: true, proxy_key: null, allowed_origins: null }],
    });
    const stored = await store.users.find(id);
    t.match(stored?.passwordHash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    t.match(stored, { plan: 'free', used: 0, resetAt: null, billingDay: null, emailVerified: false });
  });

  t.test('409 for a taken e-mail, also when two ask at once', async (t) => {
    const body = { email: 'ADA@example.com', password, name: 'Other' };
    t.match(await call('POST', '/api/user/signup', { body }), {
      status: 409,
      body: { error: 'email already registered' },
    });
    const twice = { body: { email: 'race@example.com', password, name: 'Race' } };
    const answers = await Promise.all([0, 1, 2].map(() => call('POST', '/api/user/signup', twice)));
    t.strictSame(answers.map(({ status }) => status).sort(), [201, 409, 409]);
    const user = await store.users.findByEmail('race@example.com');
    t.equal(await store.projects.count(user?.id ?? ''), 1, 'the losers leave no project behind');
  });

  t.test('400 that names what is wrong, for every bad field', async (t) => {
    const good = { email: 'new@example.com', password, name: 'New' };
    const bad: Record<string, unknown[]> = {
      email: [
        undefined,
        null,
        1,
        '',
        'a',
        'a@b@c.example',
        'Ann <a@b.example>',
        'a@b.example\r\nBcc: c@d.example',
        'é@b.example',
        'a@',
        '@b.c',
        `${'a'.repeat(250)}@b.example`,
        'a b@c.example',
        'a\0@b.example',
        {},
      ],
      password: [
        undefined,
        'short12',
        '🔑'.repeat(7),
        'x'.repeat(129),
        '🔑'.repeat(129),
        'x'.repeat(100_000),
        12345678,
        null,
        [],
      ],
      name: [
        undefined,
        null,
        '',
        '   ',
        'x'.repeat(256),
        '🔑'.repeat(256),
        7,
        'a\0b',
        'line\nbreak',
        'a\u2028b',
        'evil\u202Egpj.exe',
        '\u2066a',
        '\u200B\u200D\uFEFF',
      ],
    };
    for (const [field, values] of Object.entries(bad)) {
      for (const [index, value] of values.entries()) {
        const { status, body } = await call('POST', '/api/user/signup', {
          body: { ...good, [field]: value },
        });
        t.equal(status, 400, `${field} ${index}`);
        t.match(body, { error: /^invalid request: /, issues: [{ path: field, message: String }] });
      }
    }
    t.equal(await store.users.findByEmail('new@example.com'), undefined);
  });

  t.test('passwords and names of the greatest length are accepted, and any characters', async (t) => {
    // Characters are code points, as JSON Schema counts them: the longest password is 256 units of UTF-16.
    const body = { email: 'long@example.com', password: '🔑'.repeat(128), name: '🔑'.repeat(255) };
    t.equal((await call('POST', '/api/user/signup', { body })).status, 201);
    t.equal((await call('POST', '/api/user/signin', { body })).status, 200);
    const short = { ...body, password: `${'🔑'.repeat(127)}🔒` };
    t.equal((await call('POST', '/api/user/signin', { body: short })).status, 401, 'the last one counts');
    for (const name of ['שרה', 'نام\u200Cها', '👩‍👩‍👧', "O'Neil <b>"]) {
      const named = { email: `name${name.length}@example.com`, password, name: ` ${name} ` };
      t.match(await call('POST', '/api/user/signup', { body: named }), {
        status: 201,
        body: { user: { name } },
      });
    }
  });

  t.test('400 for half a surrogate pair, which no store can keep', async (t) => {
    const raw = `{"email":"half@example.com","password":"${password}","name":"a\\ud83d"}`;
    const headers = { 'content-type': 'application/json' };
    t.equal((await call('POST', '/api/user/signup', { raw, headers })).status, 400);
  });

  t.test('Secure is on the cookie when the service is reached by https', async (t) => {
    const secure = await startFront({ config: { baseUrl: 'https://assets.example.com' } });
    t.teardown(() => secure.close());
    const body = { email: 'secure@example.com', password, name: 'S' };
    const { headers } = await secure.call('POST', '/api/user/signup', { body });
    t.match(headers.getSetCookie()[0], /; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=2592000$/);
    const cookie = cookieOf(headers);
    const cleared = (await secure.call('POST', '/api/user/signout', { cookie })).headers.getSetCookie()[0];
    t.match(cleared, /=; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=0$/);
  });

  t.test('429 after twenty from one address in an hour', async (t) => {
    const at = (n: number) =>
      call('POST', '/api/user/signup', {
        body: { email: 'ada@example.com', password, name: 'Ada' },
        ...from(`203.0.113.9, 198.51.100.${n}`),
      });
    for (let n = 0; n < 20; n += 1) t.equal((await at(7)).status, 409);
    const { status, headers, body } = await at(7);
    t.equal(status, 429);
    t.match(body, { error: 'rate limited', retry_after_ms: 3_600_000 });
    t.equal(headers.get('retry-after'), '3600');
    t.equal((await at(8)).status, 409, 'another address is not held up');
    clock.now += 3_600_000;
    t.equal((await at(7)).status, 409);
  });
});

t.test('sign-in', async (t) => {
  t.test('200 with the user and a new session, the e-mail in any case', async (t) => {
    const answer = await call('POST', '/api/user/signin', { body: { email: 'Ada@example.com', password } });
    t.match(answer, { status: 200, body: { user: { email: 'ada@example.com', name: 'Ada' } } });
    const { body } = await call('GET', '/api/user/session', { cookie: cookieOf(answer.headers) });
    t.match(body, { user: { email: 'ada@example.com' } });
  });

  t.test(
    '401 with one body for a wrong password, an unknown e-mail and an account without a password',
    async (t) => {
      const id = 'usr_oauth0000000000000000';
      const project = { id: 'prj_oauth0000000000000000', userId: id, name: 'p', createdTs: 1 };
      await store.accounts.create(
        { id, email: 'oauth@example.com', name: 'O', passwordHash: null, createdTs: 1 },
        project,
      );
      const { passwords } = front.services;
      const { verify } = passwords;
      t.teardown(() => {
        passwords.verify = verify;
      });
      let hashes = 0;
      passwords.verify = (...args) => {
        hashes += 1;
        return verify(...args);
      };
      for (const email of ['ada@example.com', 'nobody@example.com', 'oauth@example.com']) {
        for (let n = 1; n <= 3; n += 1) {
          const { status, body, headers } = await call('POST', '/api/user/signin', {
            body: { email, password: 'wrong' },
          });
          t.equal(status, 401);
          t.strictSame(body, coded('invalid_credentials', { error: 'invalid credentials' }));
          t.strictSame(headers.getSetCookie(), []);
          t.equal(hashes, n, 'one hash each, so that the time tells nothing: npm run bench auth');
        }
        hashes = 0;
      }
    },
  );

  t.test('400 for a body that is none', async (t) => {
    t.equal((await call('POST', '/api/user/signin', { body: { email: 'ada@example.com' } })).status, 400);
    t.equal((await call('POST', '/api/user/signin', { body: { email: { $ne: '' }, password } })).status, 400);
    t.equal(
      (await call('POST', '/api/user/signin', { body: { email: 'a@b.example', password: '' } })).status,
      400,
    );
    t.equal((await call('POST', '/api/user/signin')).status, 400);
  });

  const signIn = (email: string, secret: string, address: string) =>
    call('POST', '/api/user/signin', { body: { email, password: secret }, ...from(address) });

  t.test('429 after ten failures of an e-mail from an address, and nobody else is locked out', async (t) => {
    await front.signUp('lock@example.com');
    // All at once: what is being looked at counts already.
    const answers = await Promise.all(
      Array.from({ length: 14 }, () => signIn('lock@example.com', 'wrong', '198.51.100.20')),
    );
    t.equal(answers.filter(({ status }) => status === 401).length, 10);
    t.equal(answers.filter(({ status }) => status === 429).length, 4);
    const { status, body } = await signIn('lock@example.com', password, '198.51.100.20');
    t.equal(status, 429, 'also with the right password');
    t.match(body, { error: 'rate limited' });
    t.ok((body['retry_after_ms'] as number) <= 900_000);
    t.equal((await signIn('lock@example.com', password, '198.51.100.21')).status, 200);
    clock.now += 900_000;
    t.equal((await signIn('lock@example.com', password, '198.51.100.20')).status, 200);
  });

  t.test('503 when too many passwords are being checked, which counts as no failure', async (t) => {
    const busy = await startFront({
      services: {
        passwords: {
          hash: () => Promise.reject(new BusyError('busy', 2_000)),
          verify: () => Promise.reject(new BusyError('busy', 2_000)),
          isWeak: () => false,
          admit: (task) => task(),
          running: () => 0,
        },
      },
    });
    t.teardown(() => busy.close());
    const body = { email: 'busy@example.com', password, name: 'Busy' };
    for (let n = 0; n < 12; n += 1) {
      const { status, headers, body: answer } = await busy.call('POST', '/api/user/signin', { body });
      t.equal(status, 503);
      t.strictSame(answer, coded('busy', { error: 'busy', retry_after_ms: 2_000 }));
      t.equal(headers.get('retry-after'), '2');
    }
    t.equal((await busy.call('POST', '/api/user/signup', { body })).status, 503);
    t.equal(await busy.store.users.findByEmail('busy@example.com'), undefined);
  });

  t.test('what succeeds is not counted', async (t) => {
    for (let n = 0; n < 12; n += 1) {
      t.equal((await signIn('lock@example.com', password, '198.51.100.30')).status, 200);
    }
  });
});

t.test('sessions', async (t) => {
  t.test('who is not signed in gets null or 401', async (t) => {
    t.strictSame((await call('GET', '/api/user/session')).body, { user: null });
    for (const cookie of [
      'service.session_token=',
      'service.session_token=nonsense',
      `service.session_token=${'a'.repeat(43)}`,
      'other=1',
    ]) {
      t.strictSame((await call('GET', '/api/user/session', { cookie })).body, { user: null });
      t.strictSame(
        (await call('GET', '/api/user/me', { cookie })).body,
        coded('authentication_required', { error: 'authentication required' }),
      );
    }
    t.equal((await call('POST', '/api/user/signout')).status, 401);
  });

  t.test('signing out ends the session at once and clears the cookie', async (t) => {
    const { cookie } = await front.signUp();
    t.ok((await call('GET', '/api/user/session', { cookie })).body['user']);
    const { status, body, headers } = await call('POST', '/api/user/signout', { cookie });
    t.equal(status, 200);
    t.strictSame(body, { ok: true });
    t.equal(headers.getSetCookie()[0], 'service.session_token=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0');
    t.strictSame((await call('GET', '/api/user/session', { cookie })).body, { user: null });
    t.equal((await call('POST', '/api/user/signout', { cookie })).status, 401);
    t.match(front.events.at(-1), ['session ended', /^ses_/]);
  });

  t.test('me: the profile at the top level, a passed cycle counted as over', async (t) => {
    const { cookie, userId, email } = await front.signUp();
    const { status, body } = await call('GET', '/api/user/me', { cookie });
    t.equal(status, 200);
    t.strictSame(body, {
      id: userId,
      email,
      name: 'Test',
      plan: 'free',
      aiGenerationsUsed: 0,
      aiGenerationsResetAt: null,
      compositionCount: 0,
      themeCount: 0,
      createdAt: new Date(clock.now).toISOString(),
      emailVerified: false,
      hasPassword: true,
      isOperator: false,
    });
    const resetAt = clock.now + 5_000;
    await store.quota.take({
      userId,
      projectId: 'prj_1',
      key: 'ast_1:1',
      now: clock.now,
      limit: 5,
      overage: null,
      resetAt,
    });
    t.match((await call('GET', '/api/user/me', { cookie })).body, {
      aiGenerationsUsed: 1,
      aiGenerationsResetAt: new Date(resetAt).toISOString(),
    });
    clock.now += 5_000;
    t.match((await call('GET', '/api/user/me', { cookie })).body, {
      aiGenerationsUsed: 0,
      aiGenerationsResetAt: null,
    });
  });
});
