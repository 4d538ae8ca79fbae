/** The operator's commands, as a process of their own over a real store. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createSecretBox, newKey, parseKeys } from '../src/auth/secret-box.ts';
import { run } from '../src/cli.ts';
import { openStore } from '../src/store/client.ts';
import { testServers, uniqueName } from './fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const database = uniqueName('cli');
const log = { info: () => undefined, warn: () => undefined };
const [key, newerKey] = [newKey(), newKey()];
const store = await openStore(mongodbUrl, database, { log, box: createSecretBox(parseKeys(key)) });
t.teardown(() => store.close());
await store.users.insert({
  id: 'usr_ada',
  email: 'ada@example.com',
  name: 'Ada',
  passwordHash: 'secret hash',
  createdTs: 1,
});

const config = {
  mongodbUrl,
  mongodbDatabase: database,
  dataDir: '/nonexistent',
  secretsKey: undefined as string | undefined,
  secretsKeyFile: undefined,
};
const admin = (...args: string[]) => run(args, () => config);
const withKeys = (secretsKey: string, ...args: string[]) => run(args, () => ({ ...config, secretsKey }));
/** What the command line has recorded last. */
const recorded = async (count: number) =>
  (await store.audit.list(count)).map(({ id: _, ts: __, ...entry }) => entry);
const byCli = { by: 'cli', byEmail: null, requestId: null, userId: 'usr_ada' };

t.test('user show: the account and its use, without its secrets', async (t) => {
  const now = Date.now();
  const resetAt = now + 86_400_000;
  const taken = {
    userId: 'usr_ada',
    projectId: 'prj_1',
    key: 'ast_1:1',
    now,
    limit: 5,
    overage: null,
    resetAt,
  };
  await store.quota.take(taken);
  t.strictSame(JSON.parse(await admin('user', 'show', ' ADA@example.com')), {
    id: 'usr_ada',
    email: 'ada@example.com',
    name: 'Ada',
    email_verified: false,
    plan: 'free',
    billing_day: null,
    used: 1,
    reset_at: new Date(resetAt).toISOString(),
    created_at: '1970-01-01T00:00:00.001Z',
    has_password: true,
    limit: 5,
    overage_runs: 0,
    overage_cents: 0,
    holds: 1,
    sessions: 0,
    projects: 0,
  });
});

t.test('user plan: sets plan and billing day, today’s when none is named', async (t) => {
  const said = await admin('user', 'plan', 'ada@example.com', 'pro', '31');
  t.equal(said, 'ada@example.com is on plan pro, billing day 31');
  t.match(await store.users.find('usr_ada'), { plan: 'pro', billingDay: 31, used: 1 });
  const days = [new Date().getUTCDate()];
  await admin('user', 'plan', 'ada@example.com', 'team');
  days.push(new Date().getUTCDate());
  t.ok(days.includes((await store.users.find('usr_ada'))?.billingDay ?? 0));
  t.equal(await admin('user', 'plan', 'ada@example.com', 'free', '7'), 'ada@example.com is on plan free');
  t.match(await store.users.find('usr_ada'), { plan: 'free', billingDay: null });
  t.match(await recorded(3), [
    { ...byCli, action: 'user.plan', before: { plan: 'team' }, after: { plan: 'free', billing_day: null } },
    { ...byCli, before: { plan: 'pro', billing_day: 31 }, after: { plan: 'team' } },
    { ...byCli, before: { plan: 'free', billing_day: null }, after: { plan: 'pro', billing_day: 31 } },
  ]);
});

t.test('user quota: sets the runs that count as used', async (t) => {
  t.equal(await admin('user', 'quota', 'ada@example.com', '4'), 'ada@example.com has used 4 of 5');
  t.match(await store.users.find('usr_ada'), { used: 4 });
  t.strictSame(await recorded(1), [
    { ...byCli, action: 'user.quota', before: { used: 1 }, after: { used: 4 } },
  ]);
});

t.test('user sessions: lists those that are signed in without their tokens, and ends them', async (t) => {
  const now = Date.now();
  const session = {
    userId: 'usr_ada',
    epoch: 0,
    userAgent: null,
    address: null,
    createdTs: now,
    seenTs: now,
    touchedTs: now,
    expiresTs: now + 60_000,
  };
  await store.sessions.insert({ ...session, hash: 'hash of a token', id: 'ses_1' });
  await store.sessions.insert({ ...session, hash: 'hash of an old one', id: 'ses_2', expiresTs: now - 1 });
  const said = await admin('user', 'sessions', 'ada@example.com');
  const iso = new Date(now).toISOString();
  t.strictSame(JSON.parse(said), [
    { id: 'ses_1', created_at: iso, seen_at: iso, expires_at: new Date(now + 60_000).toISOString() },
  ]);
  t.match(
    await admin('user', 'sessions', 'end', 'ada@example.com'),
    /^1 sessions of ada@example\.com have ended/,
  );
  t.equal(await store.sessions.find('hash of a token'), undefined);
  t.match(await recorded(1), [{ ...byCli, action: 'user.sessions', after: { sessions: 0 } }]);
});

t.test('help: all commands', async (t) => {
  const unset = () => {
    throw new Error('not set yet');
  };
  t.equal(await run([], unset), await run(['help'], unset), 'before there are settings');
  t.match(await admin('help'), /^usage:\n[\s\S]*user sessions end <email>[\s\S]*secrets rotate/);
});

t.test('config: every setting as it is in force', async (t) => {
  t.match(await admin('config'), /^DATA_DIR="\.data" \(default\)$/m);
});

t.test('secrets: says what is sealed with which key, and seals it with another', async (t) => {
  await store.secrets.checkKeys(1);
  await store.projects.create({ id: 'prj_1', userId: 'usr_ada', name: 'p', createdTs: 1 });
  const keys = { proxyKey: 'pk_1', signingSecret: 'sk_secret' };
  await store.projects.configureProxy('prj_1', 'usr_ada', {}, keys, 1);
  const [id, newerId] = [key, newerKey].map((one) => createSecretBox(parseKeys(one)).keyIds[0]);
  const status = (secretsKey: string) => withKeys(secretsKey, 'secrets', 'status');
  t.equal(
    await status(key),
    `configured keys, the first seals: ${id}\nsigning secret: 1 sealed with key ${id}`,
  );
  t.match(await status(newerKey), `1 sealed with key ${id}, which is not configured`);
  const missing = {
    name: 'SecretError',
    message: new RegExp(`^this database was sealed with key ${id}, which`),
  };
  await t.rejects(withKeys(newerKey, 'secrets', 'rotate'), missing);
  const both = `${newerKey},${key}`;
  t.equal(await withKeys(both, 'secrets', 'rotate'), `1 values were sealed with key ${newerId}, 0 are left`);
  t.match(await recorded(1), [
    {
      ...byCli,
      userId: null,
      action: 'secrets.rotate',
      before: { [`signing secret ${id}`]: 1 },
      after: { key_id: newerId },
    },
  ]);
  t.match(await status(newerKey), `1 sealed with key ${newerId}`);
  const after = await openStore(mongodbUrl, database, { log, box: createSecretBox(parseKeys(newerKey)) });
  t.teardown(() => after.close());
  t.equal((await after.projects.find('prj_1'))?.signingSecret?.open(), 'sk_secret');

  // By a process that still has the old key alone.
  await store.projects.create({ id: 'prj_2', userId: 'usr_ada', name: 'q', createdTs: 2 });
  await store.projects.configureProxy('prj_2', 'usr_ada', {}, { proxyKey: 'pk_2', signingSecret: 'sk_x' }, 2);
  await t.rejects(
    withKeys(newerKey, 'secrets', 'rotate'),
    /^0 values .* 1 are left; 1 cannot be opened: prj_2$/,
  );
  const none = {
    name: 'SecretError',
    message: /^SECRETS_KEY is not set, and the key file .* cannot be read/,
  };
  await t.rejects(admin('secrets', 'status'), none);
});

t.test('what is asked wrongly is refused with what is right, and changes nothing', async (t) => {
  const wrong: [args: string[], says: RegExp][] = [
    [['user'], /^usage:/],
    [['user', 'delete', 'ada@example.com'], /^usage:/],
    [['toString', 'x'], /^usage:/],
    [['user', 'sessions', 'end'], /^usage:/],
    [['secrets'], /^usage:/],
    [['secrets', 'rotate', 'all'], /^usage:/],
    [['user', 'quota', 'ada@example.com'], /^used is missing; accepted: a whole number from 0$/],
    [['user', 'quota', 'ada@example.com', 'all'], /^used is all; accepted/],
    [['user', 'quota', 'ada@example.com', '1.5'], /^used is 1.5; accepted/],
    [['user', 'show'], /^usage:/],
    [['user', 'show', 'nobody@example.com'], /^no user has the e-mail nobody@example.com$/],
    [['user', 'plan', 'ada@example.com'], /^plan is missing; accepted: free, pro, team$/],
    [['user', 'plan', 'ada@example.com', 'gold'], /^plan is gold; accepted: free, pro, team$/],
    [['user', 'plan', 'ada@example.com', 'pro', '0'], /^billing day is 0; accepted: 1 to 31$/],
    [['user', 'plan', 'ada@example.com', 'pro', '32'], /^billing day is 32/],
    [['user', 'plan', 'ada@example.com', 'pro', '1.5'], /^billing day is 1.5/],
    [['user', 'plan', 'ada@example.com', 'pro', 'first'], /^billing day is first/],
  ];
  const before = await store.users.find('usr_ada');
  for (const [args, message] of wrong) await t.rejects(admin(...args), { name: 'UsageError', message });
  await t.rejects(admin('user', 'show', '--all'), { code: 'ERR_PARSE_ARGS_UNKNOWN_OPTION' });
  t.same(await store.users.find('usr_ada'), before);
});

t.test('without MONGODB_URL it looks for the service of DATA_DIR, and says when there is none', async (t) => {
  const show = (dataDir: string) =>
    run(['user', 'show', 'ada@example.com'], () => ({ ...config, mongodbUrl: undefined, dataDir }));
  const empty = t.testdir({});
  await t.rejects(show(empty), { message: `no MONGODB_URL is set and no service has run on ${empty}` });
  const port = Number(new URL(mongodbUrl).port);
  const kept = t.testdir({ mongodb: { 'port.json': JSON.stringify({ port }) } });
  t.match(JSON.parse(await show(kept)), { id: 'usr_ada' });
});

t.test(
  'as a process: 0 with the answer, 2 with one line for what is wrong, 1 for a deployment that is ill',
  async (t) => {
    const good = { MONGODB_URL: mongodbUrl, MONGODB_DATABASE: database };
    const [shown, misused, misset, ill] = await Promise.all([
      start(['user', 'show', 'ada@example.com'], good),
      start(['user', 'show', '--all'], good),
      start(['user', 'show', 'ada@example.com'], { ...good, PORT: 'http' }),
      start(['doctor', '--json'], { ...good, PORT: 'http' }),
    ]);
    t.match(ill, { code: 1, err: '' });
    t.match(JSON.parse(ill.out), { ok: false, checks: [{ name: 'settings' }] });
    t.match(shown, { code: 0, err: '' });
    t.match(JSON.parse(shown.out), { id: 'usr_ada' });
    t.match(misused, { code: 2, out: '', err: /--all/ });
    t.match(misset, { code: 2, out: '', err: 'PORT is "http"; accepted: 0 to 65535' });
  },
);

const script = fileURLToPath(new URL('../dist/src/cli.js', import.meta.url));

function start(args: string[], environment: Record<string, string>) {
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...process.env, ...environment },
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (data) => {
    out += data;
  });
  child.stderr.on('data', (data) => {
    err += data;
  });
  return new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, out: out.trim(), err: err.trim() }));
  });
}
