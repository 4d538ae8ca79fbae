/** What users change of their accounts, with the mails that go with it. */
import t from 'tap';
import { mail as mailLimits, throttle } from '../../schemas/limits.ts';
import { createPasswords } from '../../src/auth/passwords.ts';
import { createMailer, type Letter } from '../../src/mail/mailer.ts';
import { cookieOf, password, startFront } from '../fixtures/http.ts';
import { uniqueName } from '../fixtures/servers.ts';

const front = await startFront();
t.teardown(() => front.close());
const { call, clock, store, events } = front;
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

const letters: Letter[] = [];
const mailer = createMailer({
  ...store,
  deliver: async (letter) => void letters.push(letter),
  baseUrl: 'http://localhost:8080',
  now: () => clock.now,
  log: front.services.log,
});

/** Sends what is due; answers the letters to an address since the last look. */
async function mailTo(address: string): Promise<Letter[]> {
  await mailer.sendDue();
  const found = letters.filter(({ to }) => to === address);
  letters.splice(0, letters.length, ...letters.filter(({ to }) => to !== address));
  return found;
}

/** The token of the one letter to an address. */
async function tokenTo(address: string): Promise<string> {
  const found = await mailTo(address);
  const [, token = ''] = /\?token=([\w-]{43})\n/.exec(found.at(-1)?.text ?? '') ?? [];
  if (token === '') throw new Error(`no link in ${found.length} mails to ${address}`);
  return token;
}

const post = (path: string, body: object, cookie?: string) =>
  call('POST', path, { body, ...(cookie === undefined ? {} : { cookie }) });
const signIn = (email: string, secret: string) =>
  post('/api/user/signin', { email, password: secret }).then(({ status, headers }) => ({
    status,
    cookie: cookieOf(headers),
  }));
const isSignedIn = async (cookie: string) =>
  (await call('GET', '/api/user/session', { cookie })).body['user'] !== null;

t.test('e-mail verification', async (t) => {
  t.test('200 for the token of the mail that sign-up sends, as often as it is followed', async (t) => {
    const { email, userId, cookie } = await front.signUp();
    const [letter] = await mailTo(email);
    t.match(letter, {
      to: email,
      subject: 'Confirm your e-mail address',
      text: /\nhttp:\/\/localhost:8080\/dashboard\/verify\?token=[\w-]{43}\n/,
      html: /<a href="http:\/\/localhost:8080\/dashboard\/verify\?token=[\w-]{43}">/,
    });
    t.equal((await store.users.find(userId))?.emailVerified, false);
    const token = /token=([\w-]+)/.exec(letter?.text ?? '')?.[1] ?? '';
    for (let n = 0; n < 2; n += 1) {
      t.match(await post('/api/user/email/verify', { token }), { status: 200, body: { ok: true } });
    }
    t.match((await call('GET', '/api/user/me', { cookie })).body, { emailVerified: true });
    t.strictSame(await mailTo(email), []);
  });

  t.test('400 for a token that is none, has expired, or is for something else', async (t) => {
    const { email } = await front.signUp();
    const token = await tokenTo(email);
    await post('/api/user/password/forgot', { email });
    const reset = await tokenTo(email);
    const secret = 'another password';
    t.equal((await post('/api/user/email/verify', { token: reset })).status, 400);
    t.equal((await post('/api/user/password/reset', { token, password: secret })).status, 400);
    for (const bad of [undefined, null, '', 1, {}, 'x', 'x'.repeat(201), `${token}x`]) {
      t.equal((await post('/api/user/email/verify', { token: bad })).status, 400);
      t.equal((await post('/api/user/password/reset', { token: bad, password: secret })).status, 400);
    }
    clock.now += 7 * dayMs;
    t.equal((await post('/api/user/email/verify', { token })).status, 400);
  });
});

t.test('a forgotten password', async (t) => {
  t.test('200 and the same text for every e-mail; a mail for those with an account', async (t) => {
    const { email } = await front.signUp();
    await mailTo(email);
    const nobody = `${uniqueName('nobody')}@example.com`;
    const answers = await Promise.all(
      [email, nobody].map((one) => post('/api/user/password/forgot', { email: one })),
    );
    for (const { status, body } of answers) {
      t.equal(status, 200);
      t.strictSame(body, { ok: true });
    }
    t.strictSame(await mailTo(nobody), []);
    t.match(await mailTo(email), [{ subject: 'Reset your password', text: /\/dashboard\/reset\?token=/ }]);
    t.equal(await store.outbox.count(), 0);
    for (const bad of [undefined, null, '', 'a', 1, { $ne: '' }]) {
      t.equal((await post('/api/user/password/forgot', { email: bad })).status, 400);
    }
  });

  t.test('200 without a mail from the sixth in an hour on', async (t) => {
    const { email } = await front.signUp();
    await mailTo(email);
    for (let n = 0; n < throttle.forgot.perEmail + 2; n += 1) {
      t.match(await post('/api/user/password/forgot', { email: email.toUpperCase() }), {
        status: 200,
        body: { ok: true },
      });
    }
    t.equal((await mailTo(email)).length, throttle.forgot.perEmail);
    clock.now += throttle.forgot.windowMs;
    await post('/api/user/password/forgot', { email });
    t.equal((await mailTo(email)).length, 1);
  });

  t.test('reset: 200 once, which ends every session and token and proves the address', async (t) => {
    const { email, userId, cookie } = await front.signUp();
    await mailTo(email);
    const { body: made } = await post('/api/user/tokens', { name: 'ci' }, cookie);
    const headers = { authorization: `Bearer ${made['token']}` };
    t.equal((await call('GET', '/api/user/me', { headers })).status, 200);
    await post('/api/user/password/forgot', { email });
    await post('/api/user/password/forgot', { email });
    const [first, second] = (await mailTo(email)).map(({ text }) => /token=([\w-]+)/.exec(text)?.[1]);
    const fresh = 'a wholly new password';
    t.equal((await post('/api/user/password/reset', { token: first, password: 'short' })).status, 400);
    const answers = await Promise.all(
      [first, first, second].map((token) => post('/api/user/password/reset', { token, password: fresh })),
    );
    t.strictSame(answers.map(({ status }) => status).sort(), [200, 400, 400], 'one of those at once');
    t.equal((await post('/api/user/password/reset', { token: second, password: fresh })).status, 400);

    t.equal(await isSignedIn(cookie), false);
    t.equal((await call('GET', '/api/user/me', { headers })).status, 401);
    t.match(events.at(-1), ['sessions ended', userId, undefined]);
    t.equal((await signIn(email, password)).status, 401);
    t.equal((await signIn(email, fresh)).status, 200);
    t.equal((await store.users.find(userId))?.emailVerified, true);
    t.match(await mailTo(email), [{ subject: 'Your password was changed' }]);
  });

  t.test('400 an hour after the mail, and after the address is somebody else’s', async (t) => {
    const { email, userId } = await front.signUp();
    await mailTo(email);
    await post('/api/user/password/forgot', { email });
    const token = await tokenTo(email);
    clock.now += 60 * minuteMs;
    t.equal((await post('/api/user/password/reset', { token, password })).status, 400);
    await post('/api/user/password/forgot', { email });
    const late = await tokenTo(email);
    const change = { id: userId, email: `new-${email}`, fromEmail: email, epoch: 0, tokenHash: '' };
    t.equal(await store.accounts.changeEmail(change, clock.now), true);
    t.equal((await post('/api/user/password/reset', { token: late, password })).status, 400);
  });
});

t.test('changing the password', async (t) => {
  t.test('200: this session goes on, every other one and all tokens end', async (t) => {
    const { email, userId, cookie } = await front.signUp();
    const other = await signIn(email, password);
    const { body: made } = await post('/api/user/tokens', { name: 'ci' }, cookie);
    const headers = { authorization: `Bearer ${made['token']}` };
    t.equal((await call('GET', '/api/user/me', { headers })).status, 200);
    t.equal(await isSignedIn(other.cookie), true);
    const fresh = 'a wholly new password';
    const { status } = await post('/api/user/password', { current: password, password: fresh }, cookie);
    t.equal(status, 200);
    t.equal(await isSignedIn(cookie), true);
    t.equal(await isSignedIn(other.cookie), false);
    t.equal((await call('GET', '/api/user/me', { headers })).status, 401);
    const [own] = await store.sessions.list(userId, clock.now, 10);
    t.match(events.at(-1), ['sessions ended', userId, own?.id]);
    t.equal(
      (await post('/api/user/password', { current: fresh, password }, cookie)).status,
      200,
      'and again',
    );
    t.equal(await isSignedIn(cookie), true);
  });

  t.test('401, 400 and 403 for who is not signed in, leaves current out, or has it wrong', async (t) => {
    const { cookie } = await front.signUp();
    const body = { current: password, password: 'a wholly new password' };
    t.equal((await post('/api/user/password', body)).status, 401);
    t.match(await post('/api/user/password', { password: body.password }, cookie), {
      status: 400,
      body: { issues: [{ path: 'current' }] },
    });
    for (const bad of ['short12', '🔑'.repeat(129), null, undefined, 12345678]) {
      t.equal((await post('/api/user/password', { current: password, password: bad }, cookie)).status, 400);
    }
    for (let n = 0; n < throttle.confirm.perUser; n += 1) {
      t.match(await post('/api/user/password', { ...body, current: `wrong${n}` }, cookie), {
        status: 403,
        body: { error: 'wrong password' },
      });
    }
    t.equal((await post('/api/user/password', body, cookie)).status, 429, 'whoever found a browser open');
    t.equal((await post('/api/user/email', { email: 'a@b.example', current: 'x' }, cookie)).status, 429);
  });

  t.test('200 without current for an account that has no password yet', async (t) => {
    const id = `usr_${uniqueName('oauth')}`;
    const email = `${uniqueName('oauth')}@example.com`;
    const project = { id: uniqueName('prj'), userId: id, name: 'p', createdTs: 1, isDefault: true };
    await store.accounts.create({ id, email, name: 'O', passwordHash: null, createdTs: 1 }, project);
    const cookie = (await front.services.sessions.start(id)).cookie.split(';')[0] ?? '';
    t.match((await call('GET', '/api/user/me', { cookie })).body, { hasPassword: false });
    t.equal((await post('/api/user/password', { password }, cookie)).status, 200);
    t.equal((await signIn(email, password)).status, 200);
  });

  t.test('a sign-in with the old password that is under way opens nothing', async (t) => {
    const { email, userId, cookie } = await front.signUp();
    const before = await store.users.find(userId);
    await post('/api/user/password', { current: password, password: 'a wholly new password' }, cookie);
    const late = await front.services.sessions.start(userId, { epoch: before?.epoch ?? -1 });
    t.equal(await isSignedIn(late.cookie.split(';')[0] ?? ''), false);
    t.equal(await isSignedIn((await signIn(email, 'a wholly new password')).cookie), true);
  });

  t.test('a hash of lesser cost is made anew at the next sign-in, and the session is good', async (t) => {
    const { email, userId } = await front.signUp();
    const weak = createPasswords({ cost: { memoryCost: 8_192, timeCost: 1, parallelism: 1 } });
    const user = await store.users.find(userId);
    await store.users.rehash(userId, user?.passwordHash ?? '', await weak.hash(password));
    t.equal((await signIn(email, 'wrong password')).status, 401);
    t.match((await store.users.find(userId))?.passwordHash, /m=8192,t=1/);
    const { cookie } = await signIn(email, password);
    t.match((await store.users.find(userId))?.passwordHash, /m=19456,t=2/);
    t.equal(await isSignedIn(cookie), true);
    t.equal((await signIn(email, password)).status, 200);
  });
});

t.test('changing the e-mail', async (t) => {
  const start = async () => {
    const user = await front.signUp();
    await mailTo(user.email);
    return { ...user, next: `${uniqueName('next')}@example.com` };
  };

  t.test('200, then a mail to both; the new one counts once it is confirmed', async (t) => {
    const { email, cookie, next } = await start();
    const { status } = await post(
      '/api/user/email',
      { email: ` ${next.toUpperCase()}`, current: password },
      cookie,
    );
    t.equal(status, 200);
    t.match(await mailTo(email), [
      { subject: 'Your e-mail address is to be changed', text: new RegExp(next) },
    ]);
    t.match((await call('GET', '/api/user/session', { cookie })).body, { user: { email } });
    const token = await tokenTo(next);
    for (let n = 0; n < 2; n += 1) t.equal((await post('/api/user/email/verify', { token })).status, 200);
    t.match((await call('GET', '/api/user/session', { cookie })).body, { user: { email: next } }, 'at once');
    t.match(await mailTo(email), [{ subject: 'Your e-mail address was changed' }]);
    t.equal((await signIn(next, password)).status, 200);
    t.equal((await signIn(email, password)).status, 401);
  });

  t.test('400, 401, 403 and 409 for a bad e-mail, nobody, a wrong password, a taken e-mail', async (t) => {
    const { cookie, next } = await start();
    const taken = await front.signUp();
    for (const bad of [undefined, null, '', 'a', 7, `${'a'.repeat(250)}@b.example`, 'a\0@b.example']) {
      t.equal((await post('/api/user/email', { email: bad, current: password }, cookie)).status, 400);
    }
    t.equal((await post('/api/user/email', { email: next }, cookie)).status, 400);
    t.equal((await post('/api/user/email', { email: next, current: password })).status, 401);
    t.equal((await post('/api/user/email', { email: next, current: 'wrong' }, cookie)).status, 403);
    t.match(await post('/api/user/email', { email: taken.email, current: password }, cookie), {
      status: 409,
      body: { error: 'email already registered' },
    });
    t.strictSame(await mailTo(next), []);
  });

  t.test('409 at the confirmation when somebody has taken the e-mail meanwhile', async (t) => {
    const { email, cookie, next } = await start();
    await post('/api/user/email', { email: next, current: password }, cookie);
    const token = await tokenTo(next);
    await front.signUp(next);
    t.equal((await post('/api/user/email/verify', { token })).status, 409);
    t.match((await call('GET', '/api/user/session', { cookie })).body, { user: { email } });
  });

  t.test('400 once the password has changed since: who took over a browser has no way back', async (t) => {
    const { email, cookie, next } = await start();
    await post('/api/user/email', { email: next, current: password }, cookie);
    const token = await tokenTo(next);
    await post('/api/user/email', { email: `late-${next}`, current: password }, cookie);
    await post('/api/user/password', { current: password, password: 'a wholly new password' }, cookie);
    t.equal((await post('/api/user/email/verify', { token })).status, 400);
    t.strictSame(await mailTo(`late-${next}`), [], 'nor is the mail sent that still waited');
    t.ok(await store.users.findByEmail(email));
  });

  t.test(
    '200 for the present one, with the mail that confirms it while it is not; 429 in the end',
    async (t) => {
      const { email, cookie } = await start();
      t.equal((await post('/api/user/email', { email, current: password }, cookie)).status, 200);
      const token = await tokenTo(email);
      t.equal((await post('/api/user/email/verify', { token })).status, 200);
      for (let n = 1; n < throttle.changeEmail.perUser; n += 1) {
        t.equal((await post('/api/user/email', { email, current: password }, cookie)).status, 200);
      }
      t.strictSame(await mailTo(email), []);
      const { status, headers } = await post('/api/user/email', { email, current: password }, cookie);
      t.equal(status, 429);
      t.equal(headers.get('retry-after'), '3600');
    },
  );
});

t.test('the name', async (t) => {
  const { cookie, email, userId } = await front.signUp();
  const put = (body: object) => call('PUT', '/api/user', { body, cookie });
  t.match(await put({ name: '  نام‌ها ' }), {
    status: 200,
    body: { user: { id: userId, email, name: 'نام‌ها' } },
  });
  t.match((await call('GET', '/api/user/session', { cookie })).body, { user: { name: 'نام‌ها' } }, 'at once');
  t.match(await put({}), { status: 200, body: { user: { name: 'نام‌ها' } } });
  for (const name of [null, '', ' ', 7, 'x'.repeat(256), 'a\0', 'a\u202Eb']) {
    t.equal((await put({ name })).status, 400);
  }
  t.equal((await call('PUT', '/api/user', { body: { name: 'x' } })).status, 401);
});

t.test('sessions', async (t) => {
  t.test('200 with where they began and when they were last seen; 404 for what is nobody’s', async (t) => {
    const { cookie, email } = await front.signUp();
    const began = clock.now;
    const agent = `Browser/${'x'.repeat(500)}`;
    const headers = { 'user-agent': agent, 'x-forwarded-for': '203.0.113.77' };
    const { headers: answer } = await call('POST', '/api/user/signin', {
      body: { email, password },
      headers,
    });
    const second = cookieOf(answer);
    clock.now += 11 * minuteMs;
    await isSignedIn(second);
    const list = await call('GET', '/api/user/sessions', { cookie });
    const sessions = list.body['sessions'] as { id: string; current: boolean }[];
    t.equal(sessions.length, 2);
    t.match(
      sessions.find(({ current }) => !current),
      {
        id: /^ses_/,
        created_at: began,
        last_seen_at: clock.now,
        user_agent: agent.slice(0, 255),
        address: '203.0.113.77',
      },
    );
    const stranger = await front.signUp();
    const other = sessions.find(({ current }) => !current)?.id ?? '';
    const end = (id: string, whose: string) => call('DELETE', `/api/user/sessions/${id}`, { cookie: whose });
    t.equal((await end(other, stranger.cookie)).status, 404);
    t.equal((await end('ses_none', cookie)).status, 404);
    t.equal(await isSignedIn(second), true);
    t.equal((await end(other, cookie)).status, 200);
    t.strictSame(events.at(-1), ['session ended', other]);
    t.equal(await isSignedIn(second), false, 'at once');
    t.equal((await end(other, cookie)).status, 404);
    const own = sessions.find(({ current }) => current)?.id ?? '';
    t.match((await end(own, cookie)).headers.getSetCookie()[0], /^service\.session_token=; .*Max-Age=0$/);
    t.equal((await call('GET', '/api/user/sessions', { cookie })).status, 401);
  });
});

t.test('mails that fail are sent later, and given up after a day', async (t) => {
  const { email } = await front.signUp();
  let tries = 0;
  const failing = createMailer({
    ...store,
    deliver: async () => {
      tries += 1;
      throw new Error('no server');
    },
    baseUrl: 'http://localhost:8080',
    now: () => clock.now,
    log: front.services.log,
  });
  const began = clock.now;
  const times: number[] = [];
  while ((await store.outbox.count()) > 0) {
    const before = tries;
    await failing.sendDue();
    if (tries > before) times.push(clock.now - began);
    clock.now += clock.now - began < 4 * minuteMs ? 15_000 : 30 * minuteMs;
  }
  t.strictSame(times.slice(0, 5), [0, 15_000, 45_000, 105_000, 225_000]);
  const last = times.at(-1) ?? 0;
  t.ok(
    last >= mailLimits.giveUpAfterMs && last < mailLimits.giveUpAfterMs + 2 * mailLimits.maxRetryMs,
    `${last}`,
  );
  t.match(front.logged.at(-1), { level: 'warn', message: 'mail given up', kind: 'verify' });
  t.strictSame(await mailTo(email), []);
});
