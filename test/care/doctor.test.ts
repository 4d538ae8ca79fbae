/** The doctor over real servers, and over ones that are spoilt: it says what is wrong, what to do, and ends in time. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { readAddress } from '../../src/bus/address.ts';
import { openBus } from '../../src/bus/bus.ts';
import { inspectNats, type StreamFacts } from '../../src/bus/inspect.ts';
import { judgeFfmpeg, judgeOpenFiles, judgeSpace } from '../../src/care/check-machine.ts';
import { judgeProvider } from '../../src/care/check-outside.ts';
import { judgeMongodb, judgeNats, type ServerSettings } from '../../src/care/check-servers.ts';
import { judgeSafety, type SafetySettings } from '../../src/care/check-settings.ts';
import { describe, diagnose, type Finding, ok } from '../../src/care/doctor.ts';
import { runCare } from '../../src/care.ts';
import { readConfig } from '../../src/config.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { findBinary } from '../../src/embedded/find.ts';
import { createLog } from '../../src/log.ts';
import type { MongodbFacts } from '../../src/store/inspect.ts';
import { selfSigned } from '../fixtures/self-signed.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';

const { mongodbUrl, natsUrl } = await testServers();
type Report = { ok: boolean; checks: { name: string; findings: (Finding & { cure?: string })[] }[] };

async function examine(environment: Record<string, string>): Promise<{ report: Report; exitCode: number }> {
  const { text, exitCode } = await runCare(['doctor', '--json'], () => readConfig(environment));
  return { report: JSON.parse(text), exitCode };
}

/** What it says that is not well, by the name of the check. */
const notWell = ({ checks }: Report): Record<string, string[]> =>
  Object.fromEntries(
    checks
      .map(({ name, findings }) => [
        name,
        findings.filter(({ status }) => status === 'trouble').map(({ says }) => says),
      ])
      .filter(([, said]) => (said?.length ?? 0) > 0),
  );

t.test('a system that runs is well: 0, and each thing was looked at', async (t) => {
  const name = uniqueName('doctor');
  const settings = { MONGODB_DATABASE: name, NATS_PREFIX: `${name}.`, DATA_DIR: t.testdir({}) };
  const service = await startTestService(t, settings);
  const environment = { ...settings, MONGODB_URL: mongodbUrl, NATS_URL: natsUrl, BASE_URL: service.base };
  const { report, exitCode } = await examine(environment);
  t.strictSame(notWell(report), {});
  t.match({ ok: report.ok, exitCode }, { ok: true, exitCode: 0 });
  const says = report.checks.flatMap(({ findings }) => findings.map((one) => one.says));
  for (const said of [
    /^replica set rs0 of 1$/,
    /^all indexes are there$/,
    /^data of version \d+$/,
    /_CMD \d+ messages, /,
    /^version \S+ with libx264 and every filter$/,
    /^writes, reads, deletes, and lets one of two creators win$/,
    /^the service answers at http:\/\/127\.0\.0\.1:\d+ and is ready$/,
  ])
    t.ok(
      says.some((one) => said.test(one)),
      String(said),
    );
  const { text } = await runCare(['doctor'], () => readConfig(environment));
  t.match(text, /^ok {8}MongoDB: replica set rs0 of 1$/m);
  t.match(text, /\d+ well, \d+ to think about, 0 in trouble, \d+ not looked at$/);
});

t.test('what is spoilt is found, all of it at once, and what to do is said: 1', async (t) => {
  const otherKind = createServer((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  await once(otherKind.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => otherKind.close());
  const address = otherKind.address();
  const mailPort = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const refusing = await serveSources(t, (_, response) => void response.writeHead(401).end());
  const other = await serveSources(t, (_, response) => void response.end('<h1>It works!</h1>'));
  const folder = t.testdir({ storage: 'a file where a folder should be' });
  const closed = await freePort();
  const { report, exitCode } = await examine({
    DATA_DIR: folder,
    MONGODB_URL: `mongodb://user:secret@127.0.0.1:${closed}/?replicaSet=rs0&serverSelectionTimeoutMS=300`,
    NATS_URL: `nats://127.0.0.1:${closed}`,
    NATS_MONITOR_URL: `http://127.0.0.1:${closed}`,
    SMTP_URL: `smtp://127.0.0.1:${mailPort}`,
    VIDEO_PROVIDER: 'luma',
    LUMA_API_KEY: 'a-key-of-ours',
    LUMA_BASE_URL: refusing,
    BASE_URL: other,
  });
  t.match({ ok: report.ok, exitCode }, { ok: false, exitCode: 1 });
  t.match(notWell(report), {
    MongoDB: [/ECONNREFUSED|Server selection timed out|connection .* closed/],
    NATS: [/CONNECTION_REFUSED|ECONNREFUSED/],
    'NATS on disk': [/^NATS_MONITOR_URL: .* cannot be asked/],
    'media storage': [/cannot read or delete/],
    mail: [/Invalid greeting/i],
    'provider luma': ['it refuses the key (401)'],
    BASE_URL: [/\/readyz answers 200, and not as this service does$/],
  });
  const cures = report.checks.flatMap(({ findings }) =>
    findings.filter(({ status }) => status === 'trouble'),
  );
  t.ok(
    cures.every(({ cure }) => (cure ?? '').length > 8),
    'each says what to do',
  );
  t.notMatch(JSON.stringify(report), /secret|a-key-of-ours/);
});

t.test('settings that are not accepted are a finding as well', async (t) => {
  const { report, exitCode } = await examine({ PORT: 'http' });
  t.match(notWell(report), { settings: ['PORT is "http"; accepted: 0 to 65535'] });
  t.equal(exitCode, 1);
});

t.test('a check that hangs ends with its time, and holds the others up no longer', async (t) => {
  const hanging = { name: 'hanging', cure: 'wait', look: () => new Promise<Finding[]>(() => undefined) };
  const fine = { name: 'fine', cure: '', look: async () => [ok('well')] };
  const diagnosis = await diagnose([hanging, fine], 30);
  t.match(diagnosis, [
    { name: 'hanging', findings: [{ status: 'trouble', says: 'no answer within 0.03 s', cure: 'wait' }] },
    { name: 'fine', findings: [{ status: 'ok' }] },
  ]);
  t.match(describe(diagnosis), /^TROUBLE {3}hanging: no answer within 0\.03 s\n {10}→ wait$/m);
});

t.test('a NATS that wants a password is let in with that of its address, and not without', async (t) => {
  const { path } = await findBinary('natsServer');
  const port = await freePort();
  const args = [
    '-a',
    '127.0.0.1',
    '-p',
    String(port),
    '-js',
    '-sd',
    t.testdir({}),
    '--user',
    'us er',
    '--pass',
    'p@ss',
  ];
  const server = spawn(path, args, { stdio: 'ignore' });
  t.teardown(async () => {
    server.kill();
    await once(server, 'exit');
  });
  const url = `nats://us%20er:p%40ss@127.0.0.1:${port}`;
  for (let tries = 0; tries < 100 && !(await inspectNats(url, '').catch(() => undefined)); tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 50));
  t.match(await inspectNats(url, ''), { hasJetStream: true, streams: [] });
  const bus = await openBus({ url, replicas: 1, lastPosition: async () => 0, log: createLog('silent') });
  await bus.close();
  t.match(await inspectNats(url, ''), { streams: [{ name: 'CMD' }, { name: 'EVT' }, { name: 'WORK' }] });
  await t.rejects(inspectNats(`nats://127.0.0.1:${port}`, ''), { code: 'AUTHORIZATION_VIOLATION' });
  t.strictSame(readAddress('tls://token@a:1,tls://b:2'), {
    servers: ['a:1', 'b:2'],
    tls: {},
    token: 'token',
  });
});

const servers: ServerSettings = {
  mongodbUrl,
  mongodbDatabase: 'x',
  natsUrl,
  natsPrefix: '',
  natsReplicas: 3,
  natsMonitorUrls: undefined,
  isSafetyNeeded: true,
  isDevelopment: false,
};
const mongodb: MongodbFacts = {
  version: '7.0.1',
  setName: 'rs0',
  isSharded: false,
  members: 3,
  ailing: [],
  lagMs: 0,
  skewMs: 0,
  roundTripMs: 1,
  missingIndexes: [],
  data: { version: 1, latest: 1, toDo: [] },
  dataFlaw: undefined,
};
const saidOf = (findings: Finding[], status: Finding['status']) =>
  findings.filter((one) => one.status === status).map(({ says }) => says);

t.test('MongoDB: what is wrong with the set, its clock, its data', async (t) => {
  t.strictSame(saidOf(judgeMongodb(mongodb, servers), 'trouble'), []);
  const rows: [facts: Partial<MongodbFacts>, status: Finding['status'], says: RegExp][] = [
    [{ setName: undefined }, 'trouble', /^it runs standalone$/],
    [{ members: 1 }, 'trouble', /^1 of the 3 members/],
    [{ version: '4.4.1' }, 'trouble', /4\.4\.1 is too old/],
    [{ ailing: ['b:27017 (not reachable/healthy)'] }, 'trouble', /not all members are there: b:27017/],
    [{ ailing: undefined }, 'skipped', /lacks the role clusterMonitor/],
    [{ lagMs: 60_000 }, 'warning', /60 s behind/],
    [{ skewMs: -4_000 }, 'warning', /4000 ms behind ours/],
    [{ roundTripMs: 90 }, 'warning', /takes 90 ms/],
    [{ missingIndexes: ['users: email_1'] }, 'warning', /^1 indexes are missing: users: email_1$/],
    [
      { data: { version: 0, latest: 1, toDo: ['a step'] } },
      'warning',
      /of version 0, this build is for 1 \(a step\)/,
    ],
    [{ dataFlaw: 'a restore is under way' }, 'trouble', /^a restore is under way$/],
  ];
  for (const [facts, status, says] of rows)
    t.ok(
      saidOf(judgeMongodb({ ...mongodb, ...facts }, servers), status).some((one) => says.test(one)),
      String(says),
    );
});

t.test('NATS: what is wrong with the server and its streams', async (t) => {
  const stream: StreamFacts = { name: 'CMD', messages: 1, bytes: 1, replicas: 3, isOnDisk: true, ailing: [] };
  const nats = {
    version: '2.12.1',
    hasJetStream: true,
    servers: 3,
    roundTripMs: 1,
    skewMs: 0,
    storage: { usedBytes: 1, limitBytes: 100 },
    streams: [stream],
  };
  t.strictSame(saidOf(judgeNats(nats, servers), 'trouble'), []);
  const rows: [facts: Partial<typeof nats>, says: RegExp][] = [
    [{ version: '2.9.10' }, /2\.9\.10 is too old/],
    [{ hasJetStream: false }, /without JetStream/],
    [{ storage: { usedBytes: 90, limitBytes: 100 } }, /90 % of the storage/],
    [{ streams: [{ ...stream, replicas: 1 }] }, /CMD has 1 replicas, NATS_REPLICAS is 3/],
    [{ streams: [{ ...stream, isOnDisk: false }] }, /CMD is kept in memory/],
    [{ streams: [{ ...stream, ailing: ['n2 is away', 'no leader'] }] }, /CMD: n2 is away, no leader/],
  ];
  for (const [facts, says] of rows)
    t.ok(
      saidOf(judgeNats({ ...nats, ...facts }, servers), 'trouble').some((one) => says.test(one)),
      String(says),
    );
});

t.test('the machine: ffmpeg without what is needed, few open files, a full disk', async (t) => {
  const filters = ['concat', 'crop', 'format', 'fps', 'scale', 'setpts', 'setsar', 'split', 'tpad', 'trim'];
  const lines = filters.map((name) => ` ... ${name}   V->V   text`).join('\n');
  const poor = { banner: 'ffmpeg version 4.4.1 Copyright', filters: lines, encoders: ' V..... libvpx  text' };
  t.match(judgeFfmpeg(poor), [
    { says: /4\.4\.1 is too old/ },
    { says: /libx264 is missing/ },
    { says: 'filters are missing: xfade' },
  ]);
  const limits = (count: string) =>
    `Max open files            ${count}            1048576            files\n`;
  t.match(judgeOpenFiles(limits('1024')), { status: 'trouble' });
  t.match(judgeOpenFiles(limits('4096')), { status: 'warning' });
  t.match(judgeOpenFiles(limits('unlimited')), { status: 'ok' });
  const gb = 1024 ** 3;
  t.match(judgeSpace('/srv', 0.5 * gb, 100 * gb), {
    status: 'trouble',
    says: '/srv has 0.5 GB free of 100.0',
  });
  t.match(judgeSpace('/srv', 8 * gb, 100 * gb), { status: 'warning' });
  t.match(judgeSpace('/srv', 50 * gb, 100 * gb), { status: 'ok' });
  for (const [status, wanted] of [
    [403, 'trouble'],
    [402, 'trouble'],
    [503, 'warning'],
    [404, 'ok'],
  ] as const)
    t.equal(judgeProvider(status, 'FAL_KEY').status, wanted);
});

t.test('settings that are accepted and unsafe, and a key that others may read', async (t) => {
  const safe: SafetySettings = {
    isDevelopment: false,
    isSafetyNeeded: true,
    isEmbedded: { mongodb: false, nats: false },
    host: '0.0.0.0',
    baseUrl: 'https://a.example',
    mediaBaseUrl: 'https://a.example',
    mongodbUrl: 'mongodb://u:p@a/',
    natsUrl: 'nats://u:p@a',
    trustedProxies: ['10.1.2.3'],
    outboundAllow: [],
    operatorEmails: ['a@example.com'],
    metricsToken: 'a token of ours',
    logLevel: 'info',
    secretsKey: undefined,
    secretFiles: [],
    uid: 1000,
  };
  t.strictSame(judgeSafety(safe), []);
  const rows: [Partial<SafetySettings>, RegExp][] = [
    [{ isSafetyNeeded: false }, /^one machine/],
    [{ isEmbedded: { mongodb: true, nats: true } }, /^embedded servers/],
    [{ trustedProxies: [] }, /^TRUSTED_PROXIES is empty/],
    [{ trustedProxies: ['0.0.0.0/0'] }, /trusts everybody/],
    [{ outboundAllow: ['10.0.0.0/8'] }, /^OUTBOUND_ALLOW/],
    [{ operatorEmails: [] }, /^OPERATOR_EMAILS/],
    [{ secretsKey: 'x' }, /^SECRETS_KEY is in the environment/],
    [{ metricsToken: undefined }, /^METRICS_TOKEN/],
    [{ logLevel: 'trace' }, /^LOG_LEVEL is trace/],
    [{ mediaBaseUrl: 'http://cdn.example' }, /^MEDIA_BASE_URL is http/],
    [{ mongodbUrl: 'mongodb://a/' }, /^MONGODB_URL has no user/],
    [{ natsUrl: 'nats://a' }, /^NATS_URL has no user/],
    [{ uid: 0 }, /^it runs as root/],
  ];
  for (const [change, says] of rows) {
    const found = judgeSafety({ ...safe, ...change });
    t.equal(found.length, 1, String(says));
    t.match(found[0]?.says, says);
  }
  const folder = t.testdir({});
  const file = join(folder, 'assets.key');
  await writeFile(file, selfSigned.key);
  await chmod(file, 0o644);
  const look = async (path: string) =>
    (
      await examine({
        NODE_ENV: 'production',
        BASE_URL: 'http://127.0.0.1:1',
        SINGLE_MACHINE: 'true',
        MONGODB_URL: mongodbUrl,
        NATS_URL: natsUrl,
        DATA_DIR: folder,
        SECRETS_KEY_FILE: path,
      })
    ).report.checks.flatMap(({ findings }) => findings.map(({ says }) => says));
  t.ok((await look(file)).includes(`${file} can be read by other users of this machine`));
  t.ok((await look(`${file}.gone`)).includes(`${file}.gone cannot be read (ENOENT)`));
});
