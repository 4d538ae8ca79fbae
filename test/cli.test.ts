/** The operator's commands, as a process of their own over a real store. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { run } from '../src/cli.ts';
import { openStore } from '../src/store/client.ts';
import { testServers, uniqueName } from './fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const database = uniqueName('cli');
const log = { info: () => undefined, warn: () => undefined };
const store = await openStore(mongodbUrl, database, { log });
t.teardown(() => store.close());
await store.users.insert({
  id: 'usr_ada',
  email: 'ada@example.com',
  name: 'Ada',
  passwordHash: 'secret hash',
  createdTs: 1,
});

const config = { mongodbUrl, mongodbDatabase: database, dataDir: '/nonexistent' };
const admin = (...args: string[]) => run(args, config);

t.test('user show: the account and its use, without its secrets', async (t) => {
  const resetAt = Date.parse('2026-03-01T00:00:00Z');
  const taken = { userId: 'usr_ada', key: 'ast_1:1', now: 1, limit: 5, overage: null, resetAt };
  await store.quota.take(taken);
  t.strictSame(JSON.parse(await admin('user', 'show', ' ADA@example.com')), {
    id: 'usr_ada',
    email: 'ada@example.com',
    name: 'Ada',
    plan: 'free',
    billingDay: null,
    used: 1,
    resetAt: '2026-03-01T00:00:00.000Z',
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
});

t.test('what is asked wrongly is refused with what is right, and changes nothing', async (t) => {
  const wrong: [args: string[], says: RegExp][] = [
    [[], /^usage:/],
    [['user'], /^usage:/],
    [['user', 'delete', 'ada@example.com'], /^usage:/],
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
    run(['user', 'show', 'ada@example.com'], { ...config, mongodbUrl: undefined, dataDir });
  const empty = t.testdir({});
  await t.rejects(show(empty), { message: `no MONGODB_URL is set and no service has run on ${empty}` });
  const port = Number(new URL(mongodbUrl).port);
  const kept = t.testdir({ mongodb: { 'port.json': JSON.stringify({ port }) } });
  t.match(JSON.parse(await show(kept)), { id: 'usr_ada' });
});

t.test('as a process: 0 with the answer, 2 with one line for what is wrong', async (t) => {
  const good = { MONGODB_URL: mongodbUrl, MONGODB_DATABASE: database };
  const [shown, misused, misset] = await Promise.all([
    start(['user', 'show', 'ada@example.com'], good),
    start(['user', 'show', '--all'], good),
    start(['user', 'show', 'ada@example.com'], { ...good, PORT: 'http' }),
  ]);
  t.match(shown, { code: 0, err: '' });
  t.match(JSON.parse(shown.out), { id: 'usr_ada' });
  t.match(misused, { code: 2, out: '', err: /--all/ });
  t.match(misset, { code: 2, out: '', err: 'PORT is "http"; accepted: 0 to 65535' });
});

const script = fileURLToPath(new URL('../src/cli.ts', import.meta.url));

function start(args: string[], environment: Record<string, string>) {
  const child = spawn(process.execPath, [...process.execArgv, script, ...args], {
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
