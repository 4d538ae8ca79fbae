/** Settings: what is accepted, what stops the start and how it says so, and what each mode refuses. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import t from 'tap';
import { pipeline, sse } from '../schemas/limits.ts';
import {
  type Config,
  ConfigError,
  describeConfig,
  readConfig,
  readLogLevel,
  showConfig,
} from '../src/config.ts';
import { createLog } from '../src/log.ts';

type Environment = Record<string, string>;

/** What production needs, with nothing more. */
const production: Environment = {
  NODE_ENV: 'production',
  HOST: '0.0.0.0',
  BASE_URL: 'https://assets.example',
  MONGODB_URL: 'mongodb://db/?replicaSet=rs0',
  NATS_URL: 'nats://a:4222,b:4222',
  SECRETS_KEY: 'q83vEjRWeJq8AAEid5Ka+hZB4Msxj9MvRmT1nEyXuo0=',
};

function refusal(environment: Environment): string {
  try {
    readConfig(environment);
  } catch (cause) {
    if (cause instanceof ConfigError) return cause.message;
    throw cause;
  }
  return 'accepted';
}

t.test('without any setting everything has its default', async (t) => {
  const config = readConfig({});
  t.match(config, {
    port: 8080,
    host: '127.0.0.1',
    baseUrl: 'http://localhost:8080',
    mediaBaseUrl: 'http://localhost:8080',
    isDevelopment: true,
    dataDir: resolve('.data'),
    storageFolder: resolve('.data/storage'),
    roles: ['http', 'worker', 'scheduler'],
    isEmbedded: { mongodb: true, nats: true },
    natsReplicas: 1,
    natsPrefix: '',
    outboundAllow: ['127.0.0.0/8', '::1/128', 'localhost'],
    trustedProxies: [],
    smtpUrl: undefined,
    mailFrom: 'no-reply@localhost',
    renderThreads: availableParallelism(),
    logLevel: 'info',
    rateLimitFactor: 1,
    sse: { maxMs: sse.maxMs, heartbeatMs: sse.heartbeatMs },
    pipeline: {
      maxAttempts: pipeline.maxAttempts,
      backoffMs: pipeline.backoffMs,
      visionTimeoutMs: pipeline.visionTimeoutMs,
      videoTimeoutMs: pipeline.videoTimeoutMs,
      mergeTimeoutMs: pipeline.mergeTimeoutMs,
      reconcileEveryMs: pipeline.reconcileEveryMs,
      reconcileAfterMs: pipeline.reconcileAfterMs,
      stallAfterMs: pipeline.stallAfterMs,
    },
  });
  t.strictSame([config.mongodbUrl, config.natsUrl, config.metricsToken], [undefined, undefined, undefined]);
  t.ok(readConfig().port >= 0, 'the process’s own environment is read when none is handed in');
});

t.test('values are read as what they mean', async (t) => {
  const read = (environment: Environment): Config => readConfig(environment);
  const times = { RETRY_BACKOFF: '0ms,250ms,2s', VISION_TIMEOUT: '1h', SSE_MAX: '24h', STALL_AFTER: '90s' };
  t.match(read(times), {
    pipeline: { backoffMs: [0, 250, 2_000], visionTimeoutMs: 3_600_000, stallAfterMs: 90_000 },
    sse: { maxMs: 86_400_000 },
  });
  t.strictSame(read({ ROLE: 'http, scheduler' }).roles, ['http', 'scheduler']);
  t.strictSame(read({ ROLE: 'all' }).roles, ['http', 'worker', 'scheduler']);
  t.strictSame(read({ OUTBOUND_ALLOW: '' }).outboundAllow, [], 'empty allows nothing');
  t.strictSame(read({ OUTBOUND_ALLOW: ' 10.0.0.0/8 , media.lan,' }).outboundAllow, [
    '10.0.0.0/8',
    'media.lan',
  ]);
  t.strictSame(read({ TRUSTED_PROXIES: '10.1.2.3,fd00::/8' }).trustedProxies, ['10.1.2.3', 'fd00::/8']);
  const mail = { ...production, SMTP_URL: 'smtps://u:p@mail.example:465' };
  t.match(read(mail), { smtpUrl: mail.SMTP_URL, mailFrom: 'no-reply@assets.example' });
  for (const from of ['a@b.example', 'Assets <a@b.example>', '<a@b.example>']) {
    t.equal(read({ MAIL_FROM: from }).mailFrom, from);
  }
  for (const from of [
    '',
    'a',
    'a@',
    'A <a@b.example> x',
    'a@b.example, c@d.example',
    'A\r\nBcc: x <a@b.c>',
  ]) {
    t.match(refusal({ MAIL_FROM: from }), /^MAIL_FROM is /);
  }
  for (const url of ['', 'mail.example', 'https://mail.example']) {
    t.match(refusal({ SMTP_URL: url }), /^SMTP_URL is /);
  }
  t.equal(read({ PORT: '9000' }).baseUrl, 'http://localhost:9000');
  t.equal(read({ DATA_DIR: '/srv/data' }).storageFolder, '/srv/data/storage');
  t.equal(read({ STORAGE_URL: 'file:///srv/media' }).storageFolder, '/srv/media');
  t.equal(read({ STORAGE_URL: 'file:media' }).storageFolder, resolve('media'));
  t.match(read({ MONGODB_URL: 'mongodb+srv://db', NATS_URL: 'tls://bus' }), {
    isEmbedded: { mongodb: false, nats: false },
    natsReplicas: 1,
  });
  t.equal(read({ RATE_LIMIT_FACTOR: '0.5' }).rateLimitFactor, 0.5);
});

t.test('public addresses are kept in the one form that URLs are compared in', async (t) => {
  const { baseUrl, mediaBaseUrl } = readConfig({
    ...production,
    BASE_URL: 'https://Assets.Example:443/',
    MEDIA_BASE_URL: 'https://CDN.example/media/',
  });
  t.strictSame([baseUrl, mediaBaseUrl], ['https://assets.example', 'https://cdn.example/media']);
});

t.test('a bad value is one line that names the variable, the value and what is accepted', async (t) => {
  const bad: Record<string, string[]> = {
    PORT: ['', '-1', '65536', '80.5', 'http', '0x50', ' 80'],
    HOST: [''],
    BASE_URL: ['', 'localhost:8080', 'ftp://assets.example', 'javascript:alert(1)', 'assets.example'],
    DATA_DIR: [''],
    ROLE: ['', 'web', 'http,', 'http,web', 'all,http'],
    MONGODB_URL: ['', 'http://db', 'db:27017'],
    MONGODB_DATABASE: ['', 'a b', 'x'.repeat(61), 'a.b'],
    NATS_URL: ['', 'http://bus', 'nats://', 'nats://a,,b'],
    NATS_PREFIX: ['test', 'a b.', '*.', '.'],
    NATS_REPLICAS: ['', '0', '6', '1.5'],
    STORAGE_URL: [
      '',
      'file:',
      '/srv/media',
      's3://bucket',
      's3://bucket?region=a&acl=public',
      'http://store',
    ],
    S3_ACCESS_KEY_ID: [''],
    MEDIA_BASE_URL: ['', 'cdn', 'mailto:a@b.example'],
    OUTBOUND_ALLOW: ['10.0.0.0/33', 'http://10.0.0.1', 'a b'],
    TRUSTED_PROXIES: ['proxy', '10.0.0.0/33', '10.0.0.1/', 'localhost'],
    VISION_PROVIDER: ['', 'remote'],
    VIDEO_PROVIDER: ['', 'remote'],
    RENDER_THREADS: ['', '0', '257', 'many'],
    METRICS_TOKEN: [''],
    METRICS_PORT: ['', '-1', '65536'],
    METRICS_HOST: [''],
    OTEL_EXPORTER_OTLP_ENDPOINT: ['', 'collector:4318', 'grpc://collector'],
    OTEL_TRACES_SAMPLER_ARG: ['-0.1', '1.1', 'all'],
    OTEL_SERVICE_NAME: [''],
    SECRETS_KEY: [''],
    SECRETS_KEY_FILE: [''],
    OPERATOR_EMAILS: ['ada', 'ada@example.com;bob@example.com', 'ada@example.com,bob'],
    LOG_LEVEL: ['', 'loud'],
    ALLOW_EMBEDDED: ['', 'yes', 'TRUE', '1'],
    SINGLE_MACHINE: ['', 'no'],
    RATE_LIMIT_FACTOR: ['', '0', '-1', 'fast', 'Infinity'],
    RETRY_BACKOFF: ['', '1', '0s,', '1s,-1s', '1s;2s', '25h'],
    ...Object.fromEntries(
      [
        'VISION_TIMEOUT',
        'VIDEO_TIMEOUT',
        'RECONCILE_EVERY',
        'RECONCILE_AFTER',
        'STALL_AFTER',
        'SSE_MAX',
        'SSE_HEARTBEAT',
        'WEBHOOK_TIMEOUT',
      ].map((name) => [
        name,
        ['', '0s', '0ms', '30', '1.5s', '-1s', '1d', '25h', '99999999999999999999h', '5 m'],
      ]),
    ),
  };
  // Lists and files take it; a secret is not shown.
  const takesLines = [
    ...['TRUSTED_PROXIES', 'OUTBOUND_ALLOW', 'HOST', 'DATA_DIR', 'METRICS_HOST', 'OTEL_SERVICE_NAME'],
    ...['METRICS_TOKEN', 'SECRETS_KEY', 'SECRETS_KEY_FILE'],
  ];
  for (const [name, values] of Object.entries(bad)) {
    for (const value of [...values, ...(takesLines.includes(name) ? [] : ['x\ny z'])]) {
      const message = refusal({ [name]: value });
      t.ok(message.startsWith(`${name} is ${JSON.stringify(value)}; accepted: `), message);
      t.notMatch(message, /\n/);
    }
  }
});

t.test('a secret that is refused is not shown, nor a password in an address', async (t) => {
  const key = production['SECRETS_KEY'] ?? '';
  const bad: Record<string, string[]> = {
    METRICS_TOKEN: ['short'],
    S3_SECRET_ACCESS_KEY: ['two words', 'a line\n'],
    S3_SESSION_TOKEN: ['two words'],
    SECRETS_KEY: [
      ...['short', `${key.slice(0, -4)}`, `${key}A`, `${key},short`, 'x'.repeat(44), `${key} ${key}`],
      Buffer.alloc(32).toString('base64'),
      Buffer.alloc(32, 'password').toString('base64'),
      Buffer.alloc(31, key).toString('base64'),
    ],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const message = refusal({ [name]: value });
      t.ok(message.startsWith(`${name} is [hidden]; accepted: `), message);
      t.notOk(message.includes(value));
    }
  }
  t.match(
    refusal({ MONGODB_URL: 'http://user:hunter2@db' }),
    /^MONGODB_URL is "http:\/\/\[hidden\]@db"; accepted: mongodb:/,
  );
});

t.test('a bucket comes with credentials, as texts or in files', async (t) => {
  const place = { STORAGE_URL: 's3://media/own?region=eu-west-1' };
  const id = { S3_ACCESS_KEY_ID: 'id' };
  t.match(readConfig({ ...place, ...id, S3_SECRET_ACCESS_KEY: 'secret', S3_SESSION_TOKEN: 'token' }).s3, {
    place: { bucket: 'media', prefix: 'own/', region: 'eu-west-1' },
    credentials: {
      accessKeyId: { text: 'id' },
      secretAccessKey: { text: 'secret' },
      sessionToken: { text: 'token' },
    },
  });
  t.strictSame(readConfig({ ...place, ...id, S3_SECRET_ACCESS_KEY_FILE: '/run/s3' }).s3?.credentials, {
    accessKeyId: { text: 'id' },
    secretAccessKey: { file: '/run/s3' },
    sessionToken: {},
  });
  t.equal(refusal(place), 'S3_ACCESS_KEY_ID or S3_ACCESS_KEY_ID_FILE is needed with STORAGE_URL=s3://…');
  t.match(refusal({ ...place, ...id }), /^S3_SECRET_ACCESS_KEY or S3_SECRET_ACCESS_KEY_FILE is needed/);
  t.equal(
    refusal({ ...place, ...id, S3_ACCESS_KEY_ID_FILE: '/run/id' }),
    'S3_ACCESS_KEY_ID and S3_ACCESS_KEY_ID_FILE are both set: one of them is needed',
  );
  t.match(
    refusal({ STORAGE_URL: 's3://id:hunter2@media?region=a' }),
    /^STORAGE_URL is "s3:\/\/\[hidden\]@media/,
  );
  t.equal(readConfig(id).s3, undefined, 'a folder needs none');
});

t.test('keys of secrets: several, in either alphabet of base64; in one place', async (t) => {
  const key = production['SECRETS_KEY'] ?? '';
  const url = Buffer.from(key, 'base64').toString('base64url');
  for (const text of [key, url, `${key}, ${url}`, `${key},`])
    t.equal(refusal({ SECRETS_KEY: text }), 'accepted');
  t.equal(
    refusal({ SECRETS_KEY: key, SECRETS_KEY_FILE: '/run/secrets/key' }),
    'SECRETS_KEY and SECRETS_KEY_FILE are both set: one of them is needed',
  );
  const { SECRETS_KEY: _, ...without } = production;
  t.match(refusal(without), /^SECRETS_KEY or SECRETS_KEY_FILE is needed in production, the same on every/);
  t.equal(refusal({ ...without, SECRETS_KEY_FILE: '/run/secrets/key' }), 'accepted');
  t.equal(refusal({ ...without, ALLOW_EMBEDDED: 'true' }), 'accepted', 'one machine keeps a file of its own');
  t.equal(refusal({ ...without, SINGLE_MACHINE: 'true' }), 'accepted');
  t.match(readConfig({ OPERATOR_EMAILS: ' Ada@Example.com, bob@example.com,' }), {
    operatorEmails: ['ada@example.com', 'bob@example.com'],
  });
});

t.test('development is what only this machine can reach; everything else is production', async (t) => {
  const local = { MONGODB_URL: 'mongodb://db', NATS_URL: 'nats://bus' };
  const development: Environment[] = [
    {},
    { HOST: 'localhost' },
    { HOST: '::1' },
    { HOST: '127.0.0.2', BASE_URL: 'http://127.0.0.1:9000' },
    { BASE_URL: 'http://[::1]:8080' },
    { NODE_ENV: 'test' },
  ];
  for (const environment of development) t.equal(readConfig(environment).isDevelopment, true);
  const others: Environment[] = [
    { NODE_ENV: 'production' },
    { HOST: '0.0.0.0' },
    { HOST: '127.0.0.1.example' },
    { BASE_URL: 'https://assets.example' },
    { BASE_URL: 'http://localhost.example' },
  ];
  for (const environment of others) {
    t.match(refusal(environment), /^MONGODB_URL and NATS_URL are needed in production/);
    t.match(readConfig({ ...environment, ...local, SINGLE_MACHINE: 'true' }), {
      isDevelopment: false,
      outboundAllow: [],
      natsReplicas: 1,
    });
  }
});

t.test('production refuses what is not safe', async (t) => {
  t.match(readConfig(production), { isDevelopment: false, natsReplicas: 3, outboundAllow: [] });
  t.equal(refusal({ ...production, NATS_REPLICAS: '5' }), 'accepted');
  t.match(refusal({ ...production, NATS_REPLICAS: '2' }), /^NATS_REPLICAS must be 3 or more in production/);
  t.equal(refusal({ ...production, NATS_REPLICAS: '2', SINGLE_MACHINE: 'true' }), 'accepted');
  t.match(
    refusal({ ...production, RATE_LIMIT_FACTOR: '10' }),
    /^RATE_LIMIT_FACTOR is refused in production$/,
  );
  t.equal(refusal({ RATE_LIMIT_FACTOR: '10' }), 'accepted', 'in development it is for load tests');
  const open = { METRICS_PORT: '9090', METRICS_HOST: '0.0.0.0' };
  t.match(refusal({ ...production, ...open }), /^METRICS_TOKEN is needed in production with METRICS_HOST=0/);
  t.equal(refusal({ ...production, ...open, METRICS_TOKEN: 'x'.repeat(16) }), 'accepted');
  t.equal(refusal({ ...production, METRICS_PORT: '9090' }), 'accepted', 'on loopback');
  for (const name of ['OUTBOUND_ALLOW', 'TRUSTED_PROXIES'])
    for (const range of ['0.0.0.0/0', '::/0'])
      t.equal(refusal({ ...production, [name]: range }), `${name}=${range} is refused in production`);
  const { MONGODB_URL: _, ...halfEmbedded } = production;
  t.match(refusal(halfEmbedded), /needed in production/);
  t.match(readConfig({ ...halfEmbedded, ALLOW_EMBEDDED: 'true' }), {
    isEmbedded: { mongodb: true, nats: false },
  });
  const { NATS_URL: __, ...alone } = halfEmbedded;
  t.match(readConfig({ ...alone, ALLOW_EMBEDDED: 'true' }), { natsReplicas: 1, isDevelopment: false });
});

t.test('--help lists every setting once with its default, and the defaults are accepted', async (t) => {
  const lines = describeConfig().split('\n');
  const names = lines.map((line) => line.trim().split(' ')[0] ?? '');
  t.equal(new Set(names).size, lines.length);
  t.ok(lines.length > 25);
  for (const line of lines) t.match(line, /^ {2}[A-Z0-9_]+ {2,}\S.*; .+$/);
  const shown = (name: string) => lines.find((line) => line.includes(` ${name} `)) ?? '';
  t.match(shown('RETRY_BACKOFF'), /\[0s,1s,4s\]$/);
  t.match(shown('VIDEO_TIMEOUT'), /\[5m\]$/);
  t.match(shown('TRUSTED_PROXIES'), /\[empty\]$/);
  const defaults = lines.flatMap((line) => {
    const [, name, value] = /^ {2}(\w+) .* \[(.+)\]$/.exec(line) ?? [];
    return name && value ? [[name, value === 'empty' ? '' : value]] : [];
  });
  t.same(readConfig(Object.fromEntries(defaults)), readConfig({}));
});

t.test('the log hides secrets and carries the time in unix ms', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line)) });
  const before = Date.now();
  log.info({ user: { password: 'p"q', cookie: 'c', authorization: 'a', id: 'usr_1' } }, 'request');
  log.debug({}, 'too low to be written');
  t.equal(lines.length, 1);
  t.match(lines[0], {
    msg: 'request',
    user: { password: '[hidden]', cookie: '[hidden]', authorization: '[hidden]', id: 'usr_1' },
  });
  t.ok(Number(lines[0]?.['ts']) >= before);
  t.equal(createLog('silent').level, 'silent');
});

t.test('what has the form of a secret is hidden in any text of the log, and the rest stays', async (t) => {
  let written = '';
  const log = createLog('info', {
    write(line) {
      written = line;
    },
  });
  const secrets = {
    'signing secret': `sk_${'a'.repeat(43)}`,
    'webhook secret': `whsec_${'b+/'.repeat(14)}==`,
    'API token': `sat_${'c'.repeat(40)}`,
    hash: '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA',
    'session cookie': `service.session_token=${'d'.repeat(43)}`,
    signature: `https://x.example/v1/a.mp4?exp=1&sig=${'e'.repeat(43)}&wait_ms=1`,
    'foreign signature': 'https://s3.example/cat.png?X-Amz-Signature=ffff',
    header: 'Bearer abc.def',
    'address with a password': 'mongodb://user:pass@db.example/x',
    'JSON in a text': '{"password":"correct horse"}',
  };
  const shown = {
    'signing secret': 'sk_[hidden]',
    'webhook secret': 'whsec_[hidden]',
    'API token': 'sat_[hidden]',
    hash: '$argon2id$[hidden]',
    'session cookie': 'service.session_token=[hidden]',
    signature: 'https://x.example/v1/a.mp4?exp=1&sig=[hidden]&wait_ms=1',
    'foreign signature': 'https://s3.example/cat.png?X-Amz-Signature=[hidden]',
    header: 'Bearer [hidden]',
    'address with a password': 'mongodb://[hidden]@db.example/x',
    'JSON in a text': '{"password":"[hidden]"}',
  };
  log.info({ deep: { deeper: secrets } }, 'texts');
  t.match(JSON.parse(written), { deep: { deeper: shown }, msg: 'texts' });
  for (const [name, secret] of Object.entries(secrets)) {
    log.info({ err: new Error(`it failed with ${secret}`) }, `about ${secret}`);
    const line = JSON.parse(written) as { msg: string; err: { message: string; stack: string } };
    const hidden = shown[name as keyof typeof shown];
    t.equal(line.msg, `about ${hidden}`);
    t.equal(line.err.message, `it failed with ${hidden}`);
    t.notOk(written.includes(secret), `${name} is in no stack either`);
  }
});

t.test('a secret may come from a file, and from one place alone', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'settings-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = (text: string) => {
    const path = join(folder, String(Math.random()));
    writeFileSync(path, text);
    return path;
  };
  const token = 'metrics-token-0123456789';
  const settings = {
    METRICS_TOKEN_FILE: file(`${token}\n`),
    MONGODB_URL_FILE: file('mongodb://user:hunter2@db/?replicaSet=rs0'),
    SMTP_URL_FILE: file('smtp://mail.example'),
    LOG_LEVEL_FILE: file('debug\n'),
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/',
    OTEL_EXPORTER_OTLP_HEADERS_FILE: file('Authorization=Bearer%20abc,x-tenant=1'),
  };
  t.match(readConfig(settings), {
    metricsToken: token,
    mongodbUrl: /hunter2/,
    smtpUrl: 'smtp://mail.example',
    logLevel: 'debug',
    logLevelFile: settings.LOG_LEVEL_FILE,
    tracing: {
      url: 'http://collector:4318/v1/traces',
      headers: { authorization: 'Bearer abc', 'x-tenant': '1' },
      share: 1,
    },
  });
  const shown = showConfig(settings);
  t.notMatch(shown, /hunter2|Bearer|0123456789/);
  t.match(shown, /^METRICS_TOKEN="?\[hidden\]"? \(from METRICS_TOKEN_FILE\)$/m);
  t.match(shown, /^MONGODB_URL="mongodb:\/\/\[hidden\]@db\/\?replicaSet=rs0" \(from MONGODB_URL_FILE\)$/m);
  t.match(shown, /^PORT="8080" \(default\)$/m);
  t.match(shown, /^NATS_URL is not set$/m);
  t.equal(
    refusal({ METRICS_TOKEN_FILE: settings.METRICS_TOKEN_FILE, METRICS_TOKEN: token }),
    'METRICS_TOKEN and METRICS_TOKEN_FILE are both set: one of them is needed',
  );
  t.match(refusal({ FAL_KEY_FILE: '/nowhere' }), /^FAL_KEY_FILE "\/nowhere" cannot be read \(ENOENT\)$/);
  t.match(refusal({ METRICS_TOKEN_FILE: file('short') }), /^METRICS_TOKEN is \[hidden\]; accepted/);
  t.match(refusal({ OTEL_EXPORTER_OTLP_HEADERS: 'no pair' }), /^OTEL_EXPORTER_OTLP_HEADERS is \[hidden\]/);
  t.match(describeConfig(), /METRICS_TOKEN_FILE with a file/);
});

t.test('the log level changes without a restart, for lines of requests too', async (t) => {
  const lines: string[] = [];
  const log = createLog('warn', { write: (line) => void lines.push(line) });
  const request = () =>
    log.request({ requestId: 'req_1', method: 'get', route: '/', status: 200, ms: 1, userId: undefined });
  request();
  log.info({}, 'one');
  t.equal(lines.length, 0);
  log.setLevel('info');
  request();
  log.info({}, 'two');
  t.equal(lines.length, 2);
  const folder = mkdtempSync(join(tmpdir(), 'level-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'level'), 'error\n');
  t.equal(readLogLevel(join(folder, 'level')), 'error');
  writeFileSync(join(folder, 'level'), 'loud');
  t.throws(() => readLogLevel(join(folder, 'level')), /^LOG_LEVEL is "loud"; accepted/);
});
