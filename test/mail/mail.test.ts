/** Mails on their way out: over real SMTP to servers that behave and that do not, and into the mailbox. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import t, { type Test } from 'tap';
import { mail as limits } from '../../schemas/limits.ts';
import { createMailer, delayAfter } from '../../src/mail/mailer.ts';
import { createSmtp } from '../../src/mail/smtp.ts';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { startTestService } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

const log = { info: () => undefined, warn: () => undefined };
const { mongodbUrl } = await testServers();
const from = 'Animated Assets <no-reply@assets.example>';
type Received = { to: string; raw: string };

/** A mail server on loopback; what it takes is in `received`. */
async function startServer(t: Test, options: SMTPServerOptions = {}) {
  const received: Received[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        received.push({
          to: session.envelope.rcptTo[0]?.address ?? '',
          raw: Buffer.concat(chunks).toString(),
        });
        done();
      });
    },
    ...options,
  });
  // Clients that are cut off are part of the tests.
  server.on('error', () => undefined);
  const listening = server.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return { received, url: `smtp://127.0.0.1:${(listening.address() as AddressInfo).port}` };
}

/** An outbox of its own, and mailers over it. */
async function startOutbox(t: Test) {
  const store = await openStore(mongodbUrl, uniqueName('mail'), { log });
  t.teardown(() => store.close());
  const clock = { now: 1_800_000_000_000 };
  const told: Record<string, unknown>[] = [];
  const keep = (fields: object, message: string) => void told.push({ ...fields, message });
  return {
    store,
    clock,
    told,
    mailer: (url: string, sendMs?: number) =>
      createMailer({
        ...store,
        deliver: createSmtp(url, from),
        baseUrl: 'https://assets.example',
        now: () => clock.now,
        log: { info: keep, warn: keep },
        ...(sendMs === undefined ? {} : { sendMs }),
      }),
    /** A user whose mail to confirm the address waits in the outbox. */
    async signUp(name = 'Ann', email = `${uniqueName('u')}@example.com`) {
      const id = newId('usr');
      const user = { id, email, name, passwordHash: null, createdTs: clock.now };
      const project = { id: newId('prj'), userId: id, name: 'p', createdTs: 1, isDefault: true };
      await store.accounts.create(user, project, { kind: 'verify', userId: id, to: email });
      return { id, email };
    },
  };
}

t.test('a mail arrives with text, HTML and link, and nothing that a user has written', async (t) => {
  const { received, url } = await startServer(t);
  const { signUp, mailer, store, told } = await startOutbox(t);
  const email = `o'neil+a_${uniqueName('u')}@example.com`;
  await signUp('Eve\r\nBcc: victim@example.com\r\n\r\n<b>http://evil.example', email);
  await mailer(url).sendDue();
  t.equal(received.length, 1);
  const { to, raw } = received[0] ?? { to: '', raw: '' };
  t.equal(to, email);
  const head = raw.slice(0, raw.indexOf('\r\n\r\n'));
  t.match(head, /^From: Animated Assets <no-reply@assets\.example>\r$/m);
  t.match(head, /^To: .*@example\.com>?\r$/m);
  t.match(head, /^Subject: Confirm your e-mail address\r$/m);
  t.match(head, /^Message-ID: <eml_\w{20}@assets\.example>\r$/m);
  t.match(head, /^Auto-Submitted: auto-generated\r$/m);
  t.notMatch(raw, /victim|evil|Eve|Bcc/);
  const body = raw.replace(/=\r\n/g, '').replace(/=3D/g, '=');
  t.match(body, /^https:\/\/assets\.example\/dashboard\/verify\?token=[\w-]{43}\r$/m);
  t.match(body, /<a href="https:\/\/assets\.example\/dashboard\/verify\?token=[\w-]{43}">/);
  t.match(body, /that o&#39;neil\+a_/, 'escaped in HTML');
  t.match(told, [{ message: 'mail sent', kind: 'verify', attempt: 1 }]);
  t.equal(await store.outbox.count(), 0);
});

t.test('of two processes one sends each mail', async (t) => {
  const { received, url } = await startServer(t);
  const { signUp, mailer } = await startOutbox(t);
  const users = await Promise.all(Array.from({ length: 12 }, () => signUp()));
  await Promise.all([mailer(url).sendDue(), mailer(url).sendDue()]);
  t.strictSame(received.map(({ to }) => to).sort(), users.map(({ email }) => email).sort());
});

t.test('what is claimed by a process that dies is another’s when the claim has run out', async (t) => {
  const { received, url } = await startServer(t);
  const { signUp, mailer, store, clock } = await startOutbox(t);
  await signUp();
  const claimed = await store.outbox.claim(clock.now, limits.leaseMs);
  await mailer(url).sendDue();
  t.equal(received.length, 0);
  clock.now += limits.leaseMs;
  await mailer(url).sendDue();
  t.equal(received.length, 1);
  if (claimed) await store.outbox.postpone(claimed, 0);
  t.equal(await store.outbox.count(), 0, 'the first one wakes up, and brings nothing back');
});

t.test('servers that refuse', async (t) => {
  let code = 550;
  const refuse = (text: string) => Object.assign(new Error(text), { responseCode: code });
  const { received, url } = await startServer(t, {
    onRcptTo: (_address, _session, done) => done(code === 250 ? null : refuse('not here')),
  });

  t.test('an address that will never be: given up at once', async (t) => {
    const { signUp, mailer, store, told } = await startOutbox(t);
    await signUp();
    await mailer(url).sendDue();
    t.match(told, [{ message: 'mail given up' }]);
    t.equal(await store.outbox.count(), 0);
  });

  t.test('for now: again later, under the same Message-ID', async (t) => {
    const { signUp, mailer, told, clock } = await startOutbox(t);
    await signUp();
    code = 451;
    await mailer(url).sendDue();
    await mailer(url).sendDue();
    t.match(told, [{ message: 'mail not sent', attempt: 1 }], 'not before its time');
    code = 250;
    clock.now += delayAfter(1);
    await mailer(url).sendDue();
    t.match(told[1], { message: 'mail sent', attempt: 2 });
    t.match(received.at(-1)?.raw, new RegExp(`Message-ID: <${String(told[0]?.['mail'])}@`));
  });

  t.test('our own sign-in or sender: again later, since the operator can put that right', async (t) => {
    const auth = await startServer(t, {
      authOptional: false,
      allowInsecureAuth: true,
      onAuth: (_auth, _session, done) => done(new Error('no such account')),
    });
    const sender = await startServer(t, {
      onMailFrom: (_address, _session, done) => done(Object.assign(new Error('who?'), { responseCode: 553 })),
    });
    const { signUp, mailer, store, told } = await startOutbox(t);
    await signUp();
    await mailer(auth.url.replace('//', '//user:secret@')).sendDue();
    await signUp();
    await mailer(sender.url).sendDue();
    t.match(told, [{ message: 'mail not sent' }, { message: 'mail not sent' }]);
    t.notMatch(JSON.stringify(told), /secret/);
    t.equal(await store.outbox.count(), 2);
  });
});

t.test('servers that are not there, hang, or die in the middle lose no mail', async (t) => {
  const sockets = new Set<{ destroyed: boolean; destroy(): void }>();
  let greeting = '';
  const bad = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      const line = data.toString();
      if (greeting === '') return;
      if (/^DATA|\r\nDATA/.test(line)) socket.write('354 go on\r\n', () => socket.destroy());
      else socket.write('250 ok\r\n'.repeat(line.split('\r\n').length - 1));
    });
    if (greeting !== '') socket.write(greeting);
  }).listen(0, '127.0.0.1');
  await once(bad, 'listening');
  t.teardown(() => bad.close());
  const url = `smtp://127.0.0.1:${(bad.address() as AddressInfo).port}`;
  const { received, url: goodUrl } = await startServer(t);
  const { signUp, mailer, store, told, clock } = await startOutbox(t);
  const { email } = await signUp();

  await mailer('smtp://127.0.0.1:1').sendDue();
  t.match(told.at(-1), { message: 'mail not sent', err: /ECONNREFUSED/ });

  clock.now += delayAfter(1);
  const began = performance.now();
  await mailer(url, 300).sendDue();
  t.match(told.at(-1), { message: 'mail not sent', err: { message: 'took longer than 300 ms' } });
  t.ok(performance.now() - began < 10_000, 'a hanging server holds nobody for its own time limit');

  clock.now += delayAfter(2);
  const stopped = mailer(url);
  const sending = stopped.sendDue();
  const known = sockets.size;
  while (sockets.size === known) await new Promise((resolve) => setTimeout(resolve, 5));
  stopped.stop();
  await sending;
  t.match(told.at(-1), { message: 'mail not sent', err: { message: 'the service stops' } });

  // One of its lines may have taken the mail once more while it stopped.
  const attempt = Number(told.at(-1)?.['attempt']) + 1;
  greeting = '220 hello\r\n';
  await mailer(url).sendDue();
  t.match(told.at(-1), { message: 'mail not sent', attempt }, 'due at once after a stop; cut in the middle');

  t.equal(await store.outbox.count(), 1);
  clock.now += delayAfter(attempt);
  await mailer(goodUrl).sendDue();
  t.strictSame(
    received.map(({ to }) => to),
    [email],
  );
  for (const socket of sockets) socket.destroy();
});

t.test('waits double from fifteen seconds up to an hour', async (t) => {
  t.strictSame(
    [1, 2, 3, 8, 9, 10_000].map(delayAfter),
    [15_000, 30_000, 60_000, 1_920_000, 3_600_000, 3_600_000],
  );
});

t.test('mails that nobody needs any more are not sent', async (t) => {
  const { received, url } = await startServer(t);
  const { signUp, mailer, store, clock } = await startOutbox(t);
  const { id, email } = await signUp();
  await store.users.verifyEmail(id, email);
  await store.outbox.add({ kind: 'password-changed', userId: 'usr_gone', to: 'gone@example.com' }, clock.now);
  await mailer(url).sendDue();
  await store.outbox.add({ kind: 'reset', to: email }, clock.now);
  await store.outbox.add({ kind: 'password-changed', userId: id, to: email }, clock.now);
  await store.outbox.removeOf(id, email);
  await mailer(url).sendDue();
  t.strictSame(received, []);
  t.equal(await store.outbox.count(), 0);
});

t.test('the mailbox keeps the newest two hundred', async (t) => {
  const { store } = await startOutbox(t);
  const letter = { to: 'a@b.example', subject: 's', text: 't', html: 'h' };
  const ids = Array.from({ length: limits.mailboxKept + 3 }, (_, n) => `eml_${n}`);
  for (const [n, id] of ids.entries()) await store.mailbox.add({ ...letter, id, ts: 1_800_000_000_000 + n });
  await store.mailbox.add({ ...letter, id: ids.at(-1) ?? '', ts: 1_800_000_001_000 });
  const kept = await store.mailbox.list(1_000);
  t.equal(kept.length, limits.mailboxKept);
  t.strictSame(kept[0], { ...letter, id: ids.at(-1), ts: 1_800_000_001_000 });
  t.equal(kept.at(-1)?.id, ids[3]);
});

t.test('the service without a mail server: a new user finds the link in the mailbox', async (t) => {
  const { base, store, signUp } = await startTestService(t, { ROLE: 'http,scheduler' });
  const user = await signUp();
  const mails = await until(
    () => store.mailbox.list(10),
    ({ length }) => length > 0,
  );
  const [, link = '', token = ''] = /^(http\S+)\?token=(\S+)$/m.exec(mails[0]?.text ?? '') ?? [];
  t.equal(link, `${base}/dashboard/verify`);
  t.equal((await user.call('POST', '/api/user/email/verify', { token })).status, 200);
  t.match((await user.call('GET', '/api/user/me')).body, { emailVerified: true });

  // Streams that an API token has opened end with it.
  const { body } = await user.call<{ id: string; token: string }>('POST', '/api/user/tokens', { name: 'ci' });
  const open = (headers: Record<string, string>) =>
    fetch(`${base}/api/projects/${user.projectId}/activity`, { headers });
  const streams = await Promise.all([
    open({ authorization: `Bearer ${body.token}` }),
    open({ cookie: user.cookie }),
  ]);
  t.strictSame(
    streams.map(({ status }) => status),
    [200, 200],
  );
  const [byToken, byCookie] = streams.map((stream) => stream.text());
  t.equal((await user.call('DELETE', `/api/user/tokens/${body.id}`)).status, 200);
  await byToken;
  t.equal((await open({ authorization: `Bearer ${body.token}` })).status, 401);
  const sessions = await user.call<{ sessions: { id: string }[] }>('GET', '/api/user/sessions');
  await user.call('DELETE', `/api/user/sessions/${sessions.body.sessions[0]?.id}`);
  await byCookie;
});
