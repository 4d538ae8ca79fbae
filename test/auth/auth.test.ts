import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import {
  addressKey,
  clientAddress,
  createTrustedProxies,
  normaliseAddress,
} from '../../src/auth/client-address.ts';
import { createCrossSiteCheck } from '../../src/auth/cross-site.ts';
import { BusyError, createPasswords } from '../../src/auth/passwords.ts';
import { newProxyKey, newSigningSecret } from '../../src/auth/project-keys.ts';
import { createSessions, tokenIn } from '../../src/auth/sessions.ts';
import { createThrottle } from '../../src/auth/throttle.ts';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const log = { info: () => undefined, warn: () => undefined };
const { mongodbUrl } = await testServers();
const store = await openStore(mongodbUrl, uniqueName('auth'), { log });
t.teardown(() => store.close());

t.test('passwords', async (t) => {
  t.test('a hash fits its password alone, and nothing fits no hash', async (t) => {
    const passwords = createPasswords();
    const hash = await passwords.hash('pass\0wörd 🔑');
    t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    t.not(await passwords.hash('pass\0wörd 🔑'), hash, 'salted');
    t.equal(await passwords.verify(hash, 'pass\0wörd 🔑'), true);
    for (const other of ['pass', 'pass\0', 'pass\0wörd', '', 'PASS\0WÖRD 🔑']) {
      t.equal(await passwords.verify(hash, other), false);
    }
    t.equal(await passwords.verify(null, ''), false);
    t.equal(await passwords.verify(null, 'anything'), false);
  });

  t.test('hashes leave the threads alone that read files', async (t) => {
    // More than the pool has that files are read by.
    const passwords = createPasswords({ concurrent: 6 });
    const ended: string[] = [];
    await Promise.all([
      ...Array.from({ length: 6 }, () => passwords.verify(null, 'x').then(() => ended.push('hash'))),
      readFile(new URL(import.meta.url)).then(() => ended.push('file')),
    ]);
    t.equal(ended[0], 'file');
  });

  t.test('some at once, 64 in the queue, and then busy', async (t) => {
    const passwords = createPasswords({ concurrent: 1 });
    const started = Array.from({ length: 65 }, () => passwords.verify(null, 'x'));
    await t.rejects(passwords.verify(null, 'x'), BusyError);
    await t.rejects(passwords.hash('x'), BusyError);
    t.ok((await Promise.all(started)).every((fits) => fits === false));
    t.equal(await passwords.verify(null, 'x'), false, 'room again');
    await t.rejects(passwords.verify('no hash', 'x'));
    t.equal(await passwords.verify(null, 'x'), false, 'a failure gives its turn back');

    let finish: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const admitted = Array.from({ length: 65 }, () => passwords.admit(() => held));
    await t.rejects(
      passwords.admit(async () => undefined),
      BusyError,
    );
    finish();
    await Promise.all(admitted);
    t.equal(await passwords.admit(async () => 1), 1, 'room again');
  });
});

t.test('keys and ids have their form and never repeat', async (t) => {
  const keys = new Set(Array.from({ length: 1_000 }, () => newProxyKey()));
  t.equal(keys.size, 1_000);
  for (const key of keys) if (!/^pk_[0-9A-Za-z]{24}$/.test(key)) t.fail(key);
  t.match(newSigningSecret(), /^sk_[\w-]{43}$/);
  const letters = new Map<string, number>();
  for (let n = 0; n < 5_000; n += 1) {
    for (const letter of newId('x').slice(2)) letters.set(letter, (letters.get(letter) ?? 0) + 1);
  }
  t.equal(letters.size, 62);
  const expected = 100_000 / 62;
  for (const count of letters.values()) {
    if (Math.abs(count - expected) > expected * 0.2) t.fail(`uneven: ${count} of ${expected}`);
  }
});

t.test('client addresses', async (t) => {
  const trusted = createTrustedProxies(['10.0.0.0/8', '127.0.0.1', 'fd00::/8']);
  const cases: [string, string, string][] = [
    ['203.0.113.1', '', '203.0.113.1'],
    ['203.0.113.1', '1.2.3.4', '203.0.113.1'],
    ['10.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', '6.6.6.6, 1.2.3.4', '1.2.3.4'],
    ['10.0.0.1', '6.6.6.6, 1.2.3.4 , 10.9.9.9', '1.2.3.4'],
    ['10.0.0.1', '1.2.3.4, nonsense', '10.0.0.1'],
    ['10.0.0.1', '10.0.0.2, 10.0.0.3', '10.0.0.2'],
    ['0000:0000:0000:0000:0000:ffff:0a00:0001', '1.2.3.4', '1.2.3.4'],
    ['fd00:0000:0000:0000:0000:0000:0000:0001', '2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['::ffff:127.0.0.1', '::ffff:1.2.3.4', '1.2.3.4'],
    ['127.0.0.1', `${'9.9.9.9, '.repeat(1000)}1.2.3.4`, '1.2.3.4'],
    ['unix', '1.2.3.4', 'unix'],
  ];
  for (const [peer, header, want] of cases)
    t.equal(clientAddress(peer, header, trusted), want, `${peer} ${header}`.slice(0, 60));
  for (const range of [
    '',
    '10.0.0.0/33',
    '10.0.0/8',
    'example.com',
    '::/129',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '10.0.0.0/x',
  ]) {
    t.throws(() => createTrustedProxies([range]), TypeError, range);
  }
  t.equal(normaliseAddress('fe80::1%eth0'), undefined);
  t.equal(addressKey('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64');
  t.equal(addressKey('2001:db8::6'), '2001:db8:0:0::/64');
  t.equal(addressKey('::1'), '0:0:0:0::/64');
  t.equal(addressKey('1.2.3.4'), '1.2.3.4');
});

t.test('cross-site: only what a browser says of itself counts', async (t) => {
  const isCrossSite = createCrossSiteCheck({
    baseUrl: 'https://app.example.com',
    trustedOrigins: ['https://admin.example.com'],
    joinLoopback: true,
  });
  t.equal(isCrossSite('', ''), false);
  t.equal(isCrossSite('https://app.example.com', 'same-origin'), false);
  t.equal(isCrossSite('https://admin.example.com', 'same-site'), false);
  t.equal(isCrossSite('https://app.example.com', 'cross-site'), true);
  t.equal(isCrossSite('https://example.com', ''), true);
  t.equal(isCrossSite('http://localhost', ''), true, 'loopback joins loopback only');
  const local = (joinLoopback: boolean) =>
    createCrossSiteCheck({ baseUrl: 'http://127.0.0.1', joinLoopback });
  t.equal(local(true)('http://localhost', ''), false);
  t.equal(local(false)('http://localhost', ''), true);
});

t.test('throttling', async (t) => {
  let ts = 1_800_000_000_000;
  const throttle = createThrottle({ attempts: store.attempts, now: () => ts, exemptLoopback: true });
  const name = () => `${uniqueName('u')}@example.com`;
  const fail = async (email: string, address: string) => (await throttle.signIn(email, address)).retryAfterMs;
  const refused = (waits: number[]) => waits.filter((waitMs) => waitMs > 0).length;

  t.test('fifty failures of one address, however many e-mails; none for loopback', async (t) => {
    const waits = await Promise.all(Array.from({ length: 53 }, () => fail(name(), '2001:db8::1')));
    t.equal(refused(waits), 3);
    t.ok((await fail(name(), '2001:db8::ffff:ffff:ffff:ffff')) > 0, 'one subscriber has all the 64 bits');
    t.equal(await fail(name(), '2001:db8:0:1::1'), 0);
    t.equal(refused(await Promise.all(Array.from({ length: 53 }, () => fail(name(), '127.0.0.1')))), 0);
    ts += 899_999;
    t.equal(await fail(name(), '2001:db8::1'), 1);
    ts += 1;
    t.equal(await fail(name(), '2001:db8::1'), 0);
  });

  t.test('a hundred failures of one e-mail, from however many addresses', async (t) => {
    const email = name();
    const waits = await Promise.all(Array.from({ length: 102 }, (_, n) => fail(email, `198.51.100.${n}`)));
    t.equal(refused(waits), 2);
  });

  t.test('what is refused takes no room elsewhere, what is taken back neither', async (t) => {
    const [email, address] = [name(), '198.51.100.200'];
    for (let n = 0; n < 10; n += 1) t.equal(await fail(email, address), 0);
    for (let n = 0; n < 20; n += 1) t.ok((await fail(email, address)) > 0);
    t.equal(await fail(name(), address), 0, 'the address has had ten, not thirty');
    const other = name();
    for (let n = 0; n < 12; n += 1) await (await throttle.signIn(other, '198.51.100.201')).takeBack();
    t.equal(await fail(other, '198.51.100.201'), 0);
  });

  t.test('e-mails are not kept in readable form', async (t) => {
    const strict = createThrottle({ attempts: store.attempts, now: () => ts, exemptLoopback: false });
    for (let n = 0; n < 20; n += 1) t.equal((await strict.signUp('127.0.0.1')).retryAfterMs, 0);
    t.equal((await strict.signUp('127.0.0.1')).retryAfterMs, 3_600_000);
    await (await throttle.signUp('127.0.0.1')).takeBack();
  });
});

t.test('sessions', async (t) => {
  const day = 86_400_000;
  const clock = { now: 1_800_000_000_000 };
  let reads = 0;
  const counted = {
    ...store.sessions,
    find: (hash: string) => {
      reads += 1;
      return store.sessions.find(hash);
    },
  };
  const options = { sessions: counted, users: store.users, now: () => clock.now, secure: true };
  const sessions = createSessions(options);
  const elsewhere = createSessions(options);
  const userId = newId('usr');
  const user = {
    id: userId,
    email: `${uniqueName('u')}@example.com`,
    name: 'U',
    passwordHash: null,
    createdTs: 1,
  };
  await store.accounts.create(user, { id: newId('prj'), userId, name: 'p', createdTs: 1 });
  const start = async () => {
    const { cookie } = await sessions.start(userId);
    return { cookie, token: tokenIn(cookie.split(';')[0] ?? '') ?? '' };
  };

  t.test('the cookie is Secure over https, and the token is stored as a hash only', async (t) => {
    const { cookie, token } = await start();
    t.match(
      cookie,
      /^service\.session_token=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=2592000$/,
    );
    t.equal(await store.sessions.find(token), undefined);
    const session = await sessions.find(token);
    t.match(session, { userId, user: { id: userId, name: 'U' } });
    t.equal(session?.renewed, undefined);
  });

  t.test('one read a second for all requests, also those at once', async (t) => {
    const { token } = await start();
    reads = 0;
    await Promise.all(Array.from({ length: 50 }, () => sessions.find(token)));
    for (let n = 0; n < 50; n += 1) await sessions.find(token);
    t.equal(reads, 1);
    clock.now += 1_000;
    await sessions.find(token);
    t.equal(reads, 2);
  });

  t.test('ended here: refused at once; ended elsewhere: within a second', async (t) => {
    const { token } = await start();
    t.ok(await sessions.find(token));
    t.ok(await elsewhere.find(token));
    await sessions.end(token);
    t.equal(await sessions.find(token), undefined);
    clock.now += 1_000;
    t.equal(await elsewhere.find(token), undefined);
    await sessions.end(token);
  });

  t.test('a read that was under way when the session ended does not bring it back', async (t) => {
    const { token } = await start();
    const finding = sessions.find(token);
    const ending = sessions.end(token);
    await Promise.all([finding, ending]);
    t.equal(await sessions.find(token), undefined);
  });

  t.test('extended at most once a day, with a new cookie, and never past ninety days', async (t) => {
    const { token } = await start();
    const began = clock.now;
    clock.now += day - 1;
    t.equal((await sessions.find(token))?.renewed, undefined);
    clock.now += 1_001;
    t.match((await sessions.find(token))?.renewed, /Max-Age=2592000$/);
    t.equal((await sessions.find(token))?.renewed, undefined);
    for (let n = 0; n < 3; n += 1) {
      clock.now += 29 * day;
      const found = await sessions.find(token);
      t.ok(found, `day ${Math.floor((clock.now - began) / day)}`);
    }
    const { expiresTs } = (await store.sessions.find(hashOf(token))) ?? { expiresTs: 0 };
    t.equal(expiresTs, began + 90 * day);
    clock.now = began + 90 * day - 1;
    t.ok(await sessions.find(token));
    clock.now += 1;
    t.equal(await sessions.find(token), undefined, 'the cache does not outlive the session either');
  });

  t.test('unused for thirty days: over', async (t) => {
    const { token } = await start();
    clock.now += 30 * day;
    t.equal(await sessions.find(token), undefined);
  });

  t.test('without its user, or ended while it was extended: none', async (t) => {
    const { token } = await start();
    const noUser = createSessions({ ...options, users: { find: async () => undefined } });
    t.equal(await noUser.find(token), undefined);
    const ended = createSessions({ ...options, sessions: { ...store.sessions, touch: async () => false } });
    clock.now += day;
    t.equal(await ended.find(token), undefined);
  });

  t.test('the token is found among other cookies, and nothing else is taken for one', async (t) => {
    const token = 'a'.repeat(43);
    t.equal(tokenIn(`a=b; service.session_token=${token}; c=d`), token);
    t.equal(tokenIn(`service.session_token=${token}`), token);
    for (const header of [
      '',
      'a',
      `xservice.session_token=${token}`,
      `service.session_token=${token}x`,
      'service.session_token=é',
      `service.session_token="${token}"`,
    ]) {
      t.equal(tokenIn(header), undefined, header);
    }
  });
});

t.test('the store', async (t) => {
  t.test('answers pings, stops when told, and can be opened twice', async (t) => {
    await store.ping(AbortSignal.timeout(5_000));
    await t.rejects(store.ping(AbortSignal.abort(new Error('enough'))), /enough/);
    const name = uniqueName('twice');
    const [one, two] = await Promise.all([0, 1].map(() => openStore(mongodbUrl, name, { log })));
    await Promise.all([one?.close(), two?.close()]);
  });

  t.test('keeps trying while the server is away, and stops when told', async (t) => {
    const warned: object[] = [];
    const control = new AbortController();
    const opening = openStore('mongodb://127.0.0.1:1/', 'x', {
      log: { info: () => undefined, warn: (fields) => void warned.push(fields) },
      signal: control.signal,
    });
    const failed = t.rejects(opening, /enough/);
    while (warned.length === 0) await delay(20);
    control.abort(new Error('enough'));
    await failed;
  });
});

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
