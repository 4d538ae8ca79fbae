/**
 * All settings, read from the environment once (decisions 10). The only reader of the environment.
 *
 * Each variable has one row: what it is for, what is accepted, its default. `npm start -- --help` prints them.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import { pipeline, provider, sse, webhook } from '../schemas/limits.ts';
import { createTrustedProxies } from './auth/client-address.ts';
import { acceptedKeys, parseKeys } from './auth/secret-box.ts';
import { isSender } from './mail/sender.ts';
import { acceptedS3Url, parseS3Url } from './media/s3-place.ts';
import { createPolicy } from './outbound/policy.ts';
import {
  acceptedModels,
  defaultModels,
  type RemoteName,
  readModels,
  remoteNames,
} from './providers/models.ts';

/** A bad setting: one line that names the variable, what was given and what is accepted. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** Timers of the platform end at 24 days and fire at once beyond. */
const maxDurationMs = 24 * unitMs.h;

const Wait = z
  .string()
  .regex(/^\d+(ms|s|m|h)$/, 'a whole number with ms, s, m or h')
  .transform((text) => {
    const [, count = '0', unit = 'ms'] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? [];
    return Number(count) * unitMs[unit as keyof typeof unitMs];
  })
  .pipe(z.int().max(maxDurationMs));
const Waits = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(Wait).min(1));
const Duration = Wait.pipe(z.int().min(1));
const List = z.string().transform((text) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
);
/** A list that its user takes: the same code that reads it later judges it here. */
const listFor = (use: (items: string[]) => unknown) => List.refine((items) => isFit(items, use));
const Flag = z.enum(['true', 'false']).transform((text) => text === 'true');
const Whole = z.string().regex(/^\d+$/).transform(Number);
const Port = Whole.pipe(z.int().max(65_535));
const countUpTo = (most: number) => Whole.pipe(z.int().min(1).max(most));
/** In the one form that URLs are compared in, without the slash at its end. */
const Url = z.url({ protocol: /^https?$/ }).transform((text) => new URL(text).href.replace(/\/$/, ''));
const Role = z.enum(['http', 'worker', 'scheduler']);
export type Role = z.infer<typeof Role>;
const Roles = z.preprocess(
  (text) =>
    text === 'all'
      ? Role.options
      : String(text)
          .split(',')
          .map((name) => name.trim()),
  z.array(Role).min(1),
);

const duration = (ms: number) => (ms > 0 && ms % unitMs.m === 0 ? `${ms / unitMs.m}m` : `${ms / unitMs.s}s`);

const aDuration = 'a whole number with ms, s, m or h, 1ms to 24h';

/**
 * `isSecret`: what was given is not shown when it is refused. `mayBeFile`: its name with `_FILE` names a file that
 * holds it, as it does for every secret.
 */
type Row = {
  schema: z.ZodType;
  default?: string;
  accepts: string;
  help: string;
  isSecret?: true;
  mayBeFile?: true;
};

const oauthText = { schema: z.string().min(1).max(255), accepts: '1 to 255 characters' };
const oauthUrl = {
  schema: Url.refine((url) => url.startsWith('https:') || isLoopback(new URL(url).hostname)),
  accepts: 'an https URL, or http on this machine',
};

const VideoName = z.enum(['local', ...remoteNames]);
const GateLimits = z.object({
  concurrent: z.int().min(1).max(10_000),
  submitsPerMinute: z.int().min(1).max(1_000),
});

/** Pairs of a provider and its limits; what has another form fails the schema after it. */
function readLimits(text: string): Record<string, unknown> {
  const entries = text.split(',').filter((entry) => entry.trim() !== '');
  return Object.fromEntries(
    entries.map((entry) => {
      const [, name, concurrent, perMinute] = /^\s*(\w+)=(\d{1,5})\/(\d{1,4})\s*$/.exec(entry) ?? [];
      const isKnown = name === 'openai' || remoteNames.some((one) => one === name);
      return isKnown
        ? [name, { concurrent: Number(concurrent), submitsPerMinute: Number(perMinute) }]
        : [entry, undefined];
    }),
  );
}

/** Key and address of a provider. */
function providerRows<const Prefix extends string, const Key extends string>(
  prefix: Prefix,
  name: string,
  keyName: Key,
  baseUrl: string,
) {
  const key = {
    schema: z.string().regex(/^[\x21-\x7e]{4,512}$/),
    accepts: 'at least 4 printable characters',
    help: `key for ${name}`,
    isSecret: true,
  } as const;
  const base = { ...oauthUrl, default: baseUrl, help: `address of ${name}` };
  return { [keyName]: key, [`${prefix}_BASE_URL`]: base } as Record<Key, typeof key> &
    Record<`${Prefix}_BASE_URL`, typeof base>;
}

/** Pairs of a header's name and value; what has another form fails the schema after it. */
function readHeaders(text: string): Record<string, unknown> {
  const entries = text.split(',').filter((entry) => entry.trim() !== '');
  return Object.fromEntries(
    entries.map((entry) => {
      const [, name = '', value = ''] = /^\s*([!#$%&'*+.^`|~\w-]+)=([\x21-\x7e]*)\s*$/.exec(entry) ?? [];
      return isFit(value, decodeURIComponent) && name !== ''
        ? [name.toLowerCase(), decodeURIComponent(value)]
        : [entry, undefined];
    }),
  );
}

function modelsRow(name: RemoteName) {
  return {
    schema: z
      .string()
      .refine((text) => isFit(text, (list) => readModels(name, list)))
      .transform((text) => readModels(name, text)),
    default: defaultModels[name],
    accepts: acceptedModels(name),
    help: `models of ${name} for those of our plans`,
  };
}

const credential = { schema: z.string().regex(/^[\x21-\x7e]{1,4096}$/), accepts: 'a text without spaces' };
const credentialFile = {
  schema: z.string().min(1),
  accepts: 'a file, read again when the store refuses what it held',
};

const rows = {
  PORT: { schema: Port, default: '8080', accepts: '0 to 65535', help: 'port of the front end' },
  HOST: {
    schema: z.string().min(1),
    default: '127.0.0.1',
    accepts: 'an address',
    help: 'address it listens on',
  },
  BASE_URL: {
    schema: Url,
    accepts: 'an http or https URL',
    help: 'public address of the service (default http://localhost:PORT)',
  },
  DATA_DIR: {
    schema: z.string().min(1),
    default: '.data',
    accepts: 'a folder',
    help: 'data of the embedded servers and files',
  },
  ROLE: {
    schema: Roles,
    default: 'all',
    accepts: 'all, or a comma list of http, worker, scheduler',
    help: 'what this process does',
  },
  MONGODB_URL: {
    schema: z.string().regex(/^mongodb(\+srv)?:\/\//),
    mayBeFile: true,
    accepts: 'mongodb://…',
    help: 'MongoDB replica set (default: embedded)',
  },
  MONGODB_DATABASE: {
    schema: z.string().regex(/^[\w-]{1,60}$/),
    default: 'animated_assets',
    accepts: 'a name',
    help: 'database',
  },
  NATS_URL: {
    schema: z.string().regex(/^(nats|tls):\/\/[^\s,]+(,[^\s,]+)*$/),
    mayBeFile: true,
    accepts: 'nats:// or tls://, [user:password@ or token@]host:port[,…]',
    help: 'NATS with JetStream (default: embedded)',
  },
  NATS_PREFIX: {
    schema: z.string().regex(/^([\w-]+\.)*$/),
    default: '',
    accepts: 'tokens that each end in a dot',
    help: 'sets installations on one NATS apart',
  },
  NATS_MONITOR_URL: {
    schema: z
      .string()
      .transform((text) => text.split(','))
      .pipe(z.array(Url).min(1)),
    accepts: 'http://host:port[,…]',
    help: 'monitoring addresses of NATS: the start looks there whether messages are synced to disk',
  },
  NATS_REPLICAS: {
    schema: countUpTo(5),
    accepts: '1 to 5',
    help: 'replicas of each stream (default 1 embedded, else 3)',
  },
  STORAGE_URL: {
    schema: z.string().refine((text) => /^file:./.test(text) || isFit(text, parseS3Url)),
    accepts: `file:<folder>, or ${acceptedS3Url}`,
    help: 'where media are stored (default file: under DATA_DIR)',
  },
  S3_ACCESS_KEY_ID: { ...credential, help: 'who this is to the object store' },
  S3_ACCESS_KEY_ID_FILE: { ...credentialFile, help: 'file with it instead' },
  S3_SECRET_ACCESS_KEY: { ...credential, help: 'its secret', isSecret: true },
  S3_SECRET_ACCESS_KEY_FILE: { ...credentialFile, help: 'file with it instead' },
  S3_SESSION_TOKEN: { ...credential, help: 'goes with short-lived credentials', isSecret: true },
  S3_SESSION_TOKEN_FILE: { ...credentialFile, help: 'file with it instead' },
  MEDIA_BASE_URL: {
    schema: Url,
    accepts: 'an http or https URL',
    help: 'public address of the media, for a CDN (default BASE_URL)',
  },
  OUTBOUND_ALLOW: {
    schema: listFor((allow) => createPolicy({ allow, denyPorts: [] })),
    accepts: 'a comma list of address ranges and names',
    help: 'ranges sources may be fetched from beside public ones (default in development: loopback)',
  },
  TRUSTED_PROXIES: {
    schema: listFor(createTrustedProxies),
    default: '',
    accepts: 'a comma list of address ranges',
    help: 'proxies whose X-Forwarded-For is believed',
  },
  SMTP_URL: {
    schema: z.url({ protocol: /^smtps?$/ }),
    accepts: 'smtp://[user:password@]host[:port] or smtps://…',
    help: 'mail server (default: mails are kept for the operator page)',
    isSecret: true,
  },
  MAIL_FROM: {
    schema: z.string().refine(isSender),
    accepts: 'an e-mail address, or a name and <address>',
    help: "sender of mails (default no-reply@ BASE_URL's host)",
  },
  VISION_PROVIDER: {
    schema: z.enum(['local', 'openai']),
    default: 'local',
    accepts: 'local or openai',
    help: 'who looks at sources',
  },
  VIDEO_PROVIDER: {
    schema: List.pipe(z.array(VideoName).min(1)).refine((names) => new Set(names).size === names.length),
    default: 'local',
    accepts: `a comma list of ${VideoName.options.join(', ')}`,
    help: 'who makes clips: the first that can, the next ones when it does not',
  },
  VIDEO_LIMITS: {
    schema: z.string().transform(readLimits).pipe(z.record(z.string(), GateLimits)),
    default: '',
    accepts: 'a comma list of <provider>=<clips at once>/<submits a minute>, as replicate=20/60',
    help: `how hard each provider may be tried, by all processes together (default ${provider.concurrent}/${provider.submitsPerMinute})`,
  },
  ...providerRows('OPENAI', 'openai', 'OPENAI_API_KEY', 'https://api.openai.com/v1'),
  VISION_MODEL: {
    schema: z.string().regex(/^[\w./:-]{1,120}$/),
    default: 'gpt-4o-mini',
    accepts: 'the name of a model that takes images',
    help: 'model of the vision provider openai',
  },
  BRAND_BROWSER: {
    schema: z.string().regex(/^(auto|\/.{1,500})$/),
    accepts: 'the path of Chromium or Chrome, or auto for the first one on PATH',
    help: 'draws pages that scripts make, for brands and crawls (default: read as they come)',
  },
  BRAND_MODEL_URL: {
    schema: Url,
    accepts: 'an http or https URL',
    help: "address of a server with OpenAI's chat API that chooses among candidates of a brand (default: none does)",
  },
  BRAND_MODEL: {
    schema: z.string().regex(/^[\w./:-]{1,120}$/),
    default: 'gpt-4o-mini',
    accepts: 'the name of a model that answers with JSON',
    help: 'its model',
  },
  BRAND_MODEL_KEY: {
    schema: z.string().regex(/^[\x21-\x7e]{4,512}$/),
    accepts: 'at least 4 printable characters',
    help: 'its key, when it wants one',
    isSecret: true,
  },
  ...providerRows('REPLICATE', 'replicate', 'REPLICATE_API_TOKEN', 'https://api.replicate.com/v1'),
  REPLICATE_MODELS: modelsRow('replicate'),
  REPLICATE_WEBHOOK_SECRET: {
    schema: z.string().regex(/^whsec_[A-Za-z0-9+/=]{16,}$/),
    accepts: 'whsec_…',
    help: 'secret that Replicate signs callbacks with (default: asked for from the account)',
    isSecret: true,
  },
  ...providerRows('FAL', 'fal', 'FAL_KEY', 'https://queue.fal.run'),
  FAL_MODELS: modelsRow('fal'),
  FAL_KEYS_URL: {
    ...oauthUrl,
    default: 'https://rest.fal.ai/.well-known/jwks.json',
    help: 'public keys that fal signs callbacks with',
  },
  ...providerRows('RUNWAY', 'runway', 'RUNWAY_API_KEY', 'https://api.dev.runwayml.com'),
  RUNWAY_MODELS: modelsRow('runway'),
  ...providerRows('LUMA', 'luma', 'LUMA_API_KEY', 'https://api.lumalabs.ai/dream-machine/v1'),
  LUMA_MODELS: modelsRow('luma'),
  RENDER_THREADS: {
    schema: countUpTo(256),
    default: String(availableParallelism()),
    accepts: '1 to 256',
    help: 'clips rendered at once in this process',
  },
  OAUTH_GOOGLE_CLIENT_ID: { ...oauthText, help: 'client id for signing in with Google' },
  OAUTH_GOOGLE_CLIENT_SECRET: { ...oauthText, help: 'its secret', isSecret: true },
  OAUTH_GOOGLE_BASE_URL: { ...oauthUrl, help: 'issuer in the place of https://accounts.google.com' },
  OAUTH_GITHUB_CLIENT_ID: { ...oauthText, help: 'client id for signing in with GitHub' },
  OAUTH_GITHUB_CLIENT_SECRET: { ...oauthText, help: 'its secret', isSecret: true },
  OAUTH_GITHUB_BASE_URL: {
    ...oauthUrl,
    help: 'in the place of https://github.com and https://api.github.com',
  },
  METRICS_TOKEN: {
    schema: z.string().min(16),
    accepts: 'at least 16 characters',
    help: 'lets others than loopback read /metrics',
    isSecret: true,
  },
  METRICS_PORT: {
    schema: Port,
    accepts: '0 to 65535',
    help: 'port for /metrics, /healthz and /readyz beside the front end, in every role (default none)',
  },
  METRICS_HOST: {
    schema: z.string().min(1),
    default: '127.0.0.1',
    accepts: 'an address',
    help: 'address it listens on; others than loopback need METRICS_TOKEN in production',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: Url,
    accepts: 'an http or https URL',
    help: 'collector that traces are sent to, by OTLP over HTTP as JSON (default none)',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    schema: z.string().transform(readHeaders).pipe(z.record(z.string(), z.string())),
    default: '',
    accepts: 'a comma list of <name>=<value>, values URL-encoded',
    help: 'headers for the collector',
    isSecret: true,
  },
  OTEL_SERVICE_NAME: {
    schema: z.string().min(1).max(255),
    default: 'animated-asset-service',
    accepts: '1 to 255 characters',
    help: 'name of the service in traces',
  },
  OTEL_TRACES_SAMPLER_ARG: {
    schema: z.coerce.number().min(0).max(1),
    default: '1',
    accepts: 'a number from 0 to 1',
    help: 'share of the traces that are sent',
  },
  SECRETS_KEY: {
    schema: z.string().refine((text) => isFit(text, parseKeys)),
    accepts: acceptedKeys,
    help: 'keys that secrets are stored under: the first seals, all open (default: a file under DATA_DIR)',
    isSecret: true,
  },
  SECRETS_KEY_FILE: { schema: z.string().min(1), accepts: 'a file', help: 'file with these keys instead' },
  OPERATOR_EMAILS: {
    schema: List.pipe(z.array(z.string().toLowerCase().pipe(z.email()))),
    default: '',
    accepts: 'a comma list of e-mail addresses',
    help: 'accounts, verified ones in production, that may call /api/operator',
  },
  LOG_LEVEL: {
    schema: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
    mayBeFile: true,
    default: 'info',
    accepts: 'fatal to trace, silent',
    help: 'log level; its file is read again on SIGHUP',
  },
  NODE_ENV: {
    schema: z.string(),
    default: 'development',
    accepts: 'production, or anything else',
    help: 'production refuses unsafe settings',
  },
  ALLOW_EMBEDDED: {
    schema: Flag,
    default: 'false',
    accepts: 'true or false',
    help: 'embedded servers in production: one small machine',
  },
  SINGLE_MACHINE: {
    schema: Flag,
    default: 'false',
    accepts: 'true or false',
    help: 'fewer than 3 replicas in production',
  },
  RATE_LIMIT_FACTOR: {
    schema: z.coerce.number().positive(),
    default: '1',
    accepts: 'a number above 0',
    help: 'multiplies rate limits for load tests; refused in production',
  },
  RETRY_BACKOFF: {
    schema: Waits,
    default: pipeline.backoffMs.map(duration).join(','),
    accepts: 'a comma list of whole numbers with ms, s, m or h, each at most 24h',
    help: 'waits before attempts 1, 2, 3 of a stage',
  },
  VISION_TIMEOUT: {
    schema: Duration,
    default: duration(pipeline.visionTimeoutMs),
    accepts: aDuration,
    help: 'longest look at a source',
  },
  VIDEO_TIMEOUT: {
    schema: Duration,
    default: duration(pipeline.videoTimeoutMs),
    accepts: aDuration,
    help: 'longest making of a clip',
  },
  RECONCILE_EVERY: {
    schema: Duration,
    default: duration(pipeline.reconcileEveryMs),
    accepts: aDuration,
    help: 'how often an old pending run is looked at',
  },
  RECONCILE_AFTER: {
    schema: Duration,
    default: duration(pipeline.reconcileAfterMs),
    accepts: aDuration,
    help: 'age from which it is',
  },
  STALL_AFTER: {
    schema: Duration,
    default: duration(pipeline.stallAfterMs),
    accepts: aDuration,
    help: 'age at which it fails',
  },
  SSE_MAX: {
    schema: Duration,
    default: duration(sse.maxMs),
    accepts: aDuration,
    help: 'longest life of a stream',
  },
  SSE_HEARTBEAT: {
    schema: Duration,
    default: duration(sse.heartbeatMs),
    accepts: aDuration,
    help: 'silence after which a stream gets a comment',
  },
  WEBHOOK_TIMEOUT: {
    schema: Duration,
    default: duration(webhook.timeoutMs),
    accepts: aDuration,
    help: 'longest wait for a webhook endpoint',
  },
  WEBHOOK_SCHEDULE: {
    schema: Waits,
    default: webhook.scheduleMs.map(duration).join(','),
    accepts: 'a comma list of whole numbers with ms, s, m or h, each at most 24h',
    help: 'waits after failed webhook attempts 1, 2, …',
  },
  WEBHOOK_ATTEMPTS: {
    schema: countUpTo(100),
    default: String(webhook.maxAttempts),
    accepts: '1 to 100',
    help: 'failed attempts after which a webhook delivery is dead',
  },
  WEBHOOK_RETRY_AFTER: {
    schema: Flag,
    default: 'false',
    accepts: 'true or false',
    help: 'follows Retry-After of webhook endpoints, up to 2h',
  },
  WEBHOOK_EGRESS_PROXY: {
    schema: z.url({ protocol: /^https?$/ }),
    accepts: 'an http or https URL',
    help: 'HTTP proxy that webhooks are sent through',
  },
} as const satisfies Record<string, Row>;

type Rows = typeof rows;
type Value<Name extends keyof Rows> =
  | z.output<Rows[Name]['schema']>
  | (Rows[Name] extends { default: string } ? never : undefined);
type Environment = { [Name in keyof Rows]: Value<Name> };

export type Config = ReturnType<typeof readConfig>;

/** @throws {ConfigError} for a value that is not accepted, or a combination that is unsafe. */
export function readConfig(environment: Readonly<Record<string, string | undefined>> = process.env) {
  const env = parseAll(environment);
  const baseUrl = env.BASE_URL ?? `http://localhost:${env.PORT}`;
  const isDevelopment =
    env.NODE_ENV !== 'production' && isLoopback(env.HOST) && isLoopback(new URL(baseUrl).hostname);
  const dataDir = resolve(env.DATA_DIR);
  const isEmbedded = { mongodb: env.MONGODB_URL === undefined, nats: env.NATS_URL === undefined };
  const anyEmbedded = isEmbedded.mongodb || isEmbedded.nats;

  const replicas = env.NATS_REPLICAS ?? (isEmbedded.nats || isDevelopment || env.SINGLE_MACHINE ? 1 : 3);
  if (!isDevelopment) refuseUnsafe(env, anyEmbedded, replicas);
  if (env.SECRETS_KEY !== undefined && env.SECRETS_KEY_FILE !== undefined) {
    throw new ConfigError('SECRETS_KEY and SECRETS_KEY_FILE are both set: one of them is needed');
  }

  return {
    port: env.PORT,
    host: env.HOST,
    baseUrl,
    mediaBaseUrl: env.MEDIA_BASE_URL ?? baseUrl,
    isDevelopment,
    dataDir,
    roles: env.ROLE,
    isEmbedded,
    mongodbUrl: env.MONGODB_URL,
    mongodbDatabase: env.MONGODB_DATABASE,
    natsUrl: env.NATS_URL,
    natsPrefix: env.NATS_PREFIX,
    natsReplicas: replicas,
    natsMonitorUrls: env.NATS_MONITOR_URL,
    /** Production on several machines: servers that could lose what they have confirmed are refused. */
    isSafetyNeeded: !isDevelopment && !env.SINGLE_MACHINE && !env.ALLOW_EMBEDDED,
    /** Not used with `s3`. */
    storageFolder: env.STORAGE_URL?.startsWith('file:')
      ? resolve(env.STORAGE_URL.slice('file:'.length))
      : resolve(dataDir, 'storage'),
    s3: s3Settings(env),
    outboundAllow: env.OUTBOUND_ALLOW ?? (isDevelopment ? ['127.0.0.0/8', '::1/128', 'localhost'] : []),
    trustedProxies: env.TRUSTED_PROXIES,
    smtpUrl: env.SMTP_URL,
    mailFrom: env.MAIL_FROM ?? `no-reply@${new URL(baseUrl).hostname}`,
    renderThreads: env.RENDER_THREADS,
    providers: modelProviders(env),
    oauth: oauthClients(env),
    metricsToken: env.METRICS_TOKEN,
    /** 0: any free one. */
    metricsPort: env.METRICS_PORT,
    metricsHost: env.METRICS_HOST,
    tracing: tracingSettings(env),
    secretsKey: env.SECRETS_KEY,
    secretsKeyFile: env.SECRETS_KEY_FILE,
    operatorEmails: env.OPERATOR_EMAILS,
    logLevel: env.LOG_LEVEL,
    /** Holds the log level, and is read again on SIGHUP. */
    logLevelFile: environment['LOG_LEVEL_FILE'],
    brand: brandSettings(env, environment),
    rateLimitFactor: env.RATE_LIMIT_FACTOR,
    sse: { maxMs: env.SSE_MAX, heartbeatMs: env.SSE_HEARTBEAT },
    pipeline: {
      maxAttempts: pipeline.maxAttempts,
      mergeTimeoutMs: pipeline.mergeTimeoutMs,
      backoffMs: env.RETRY_BACKOFF,
      visionTimeoutMs: env.VISION_TIMEOUT,
      videoTimeoutMs: env.VIDEO_TIMEOUT,
      reconcileEveryMs: env.RECONCILE_EVERY,
      reconcileAfterMs: env.RECONCILE_AFTER,
      stallAfterMs: env.STALL_AFTER,
    },
    webhook: {
      timeoutMs: env.WEBHOOK_TIMEOUT,
      scheduleMs: env.WEBHOOK_SCHEDULE,
      maxAttempts: env.WEBHOOK_ATTEMPTS,
      followsRetryAfter: env.WEBHOOK_RETRY_AFTER,
      egressProxy: env.WEBHOOK_EGRESS_PROXY,
    },
  };
}

/** What reads web sites beside the rules. */
function brandSettings(env: Environment, environment: Readonly<Record<string, string | undefined>>) {
  const { BRAND_MODEL_URL: baseUrl, BRAND_MODEL: model, BRAND_MODEL_KEY: key } = env;
  return {
    browser: env.BRAND_BROWSER,
    /** Where `auto` looks. */
    searchPath: environment['PATH'] ?? '',
    model: baseUrl === undefined ? undefined : { baseUrl, model, key },
  };
}

/** Where traces go; undefined where nobody takes them. */
function tracingSettings(env: Environment) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = env;
  if (endpoint === undefined) return undefined;
  return {
    url: `${endpoint}/v1/traces`,
    headers: env.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: env.OTEL_SERVICE_NAME,
    share: env.OTEL_TRACES_SAMPLER_ARG,
  };
}

/** Model providers that are used. @throws {ConfigError} for one without its key. */
function modelProviders(env: Environment) {
  const isUsed = (name: string) =>
    env.VISION_PROVIDER === name || env.VIDEO_PROVIDER.some((one) => one === name);
  const used = <More>(name: string, keyName: keyof Environment, baseUrl: string, more: More) => {
    const key = env[keyName] as string | undefined;
    if (!isUsed(name)) return undefined;
    if (key === undefined) throw new ConfigError(`${keyName} is needed for the provider ${name}`);
    return { key, baseUrl, ...more };
  };
  return {
    vision: env.VISION_PROVIDER,
    video: env.VIDEO_PROVIDER,
    limits: env.VIDEO_LIMITS,
    openai: used('openai', 'OPENAI_API_KEY', env.OPENAI_BASE_URL, { model: env.VISION_MODEL }),
    replicate: used('replicate', 'REPLICATE_API_TOKEN', env.REPLICATE_BASE_URL, {
      models: env.REPLICATE_MODELS,
      webhookSecret: env.REPLICATE_WEBHOOK_SECRET,
    }),
    fal: used('fal', 'FAL_KEY', env.FAL_BASE_URL, { models: env.FAL_MODELS, keysUrl: env.FAL_KEYS_URL }),
    runway: used('runway', 'RUNWAY_API_KEY', env.RUNWAY_BASE_URL, { models: env.RUNWAY_MODELS }),
    luma: used('luma', 'LUMA_API_KEY', env.LUMA_BASE_URL, { models: env.LUMA_MODELS }),
  };
}

/** Clients at other providers, with both id and secret. @throws {ConfigError} for one without the other. */
function oauthClients(env: Environment) {
  const google = {
    id: env.OAUTH_GOOGLE_CLIENT_ID,
    secret: env.OAUTH_GOOGLE_CLIENT_SECRET,
    baseUrl: env.OAUTH_GOOGLE_BASE_URL,
  };
  const github = {
    id: env.OAUTH_GITHUB_CLIENT_ID,
    secret: env.OAUTH_GITHUB_CLIENT_SECRET,
    baseUrl: env.OAUTH_GITHUB_BASE_URL,
  };
  const clientOf = (name: string, { id, secret, baseUrl }: typeof google) => {
    if ((id === undefined) !== (secret === undefined)) {
      throw new ConfigError(`OAUTH_${name}_CLIENT_ID and OAUTH_${name}_CLIENT_SECRET are needed together`);
    }
    return id === undefined || secret === undefined
      ? undefined
      : { clientId: id, clientSecret: secret, baseUrl };
  };
  return { google: clientOf('GOOGLE', google), github: clientOf('GITHUB', github) };
}

/** The bucket that media are stored in, and who this is there; undefined for a folder. @throws {ConfigError} */
function s3Settings(env: Environment) {
  if (!env.STORAGE_URL?.startsWith('s3:')) return undefined;
  const sourceOf = (name: 'S3_ACCESS_KEY_ID' | 'S3_SECRET_ACCESS_KEY' | 'S3_SESSION_TOKEN') => {
    const text = env[name];
    const file = env[`${name}_FILE`];
    if (text !== undefined && file !== undefined) {
      throw new ConfigError(`${name} and ${name}_FILE are both set: one of them is needed`);
    }
    if (text === undefined && file === undefined && name !== 'S3_SESSION_TOKEN') {
      throw new ConfigError(`${name} or ${name}_FILE is needed with STORAGE_URL=s3://…`);
    }
    return { ...(text === undefined ? {} : { text }), ...(file === undefined ? {} : { file }) };
  };
  return {
    place: parseS3Url(env.STORAGE_URL),
    credentials: {
      accessKeyId: sourceOf('S3_ACCESS_KEY_ID'),
      secretAccessKey: sourceOf('S3_SECRET_ACCESS_KEY'),
      sessionToken: sourceOf('S3_SESSION_TOKEN'),
    },
  };
}

/** What production must not run with (decisions 10, Modes). */
function refuseUnsafe(env: Environment, anyEmbedded: boolean, replicas: number): void {
  if (anyEmbedded && !env.ALLOW_EMBEDDED) {
    throw new ConfigError(
      'MONGODB_URL and NATS_URL are needed in production (or ALLOW_EMBEDDED=true for one small machine)',
    );
  }
  if (!anyEmbedded && replicas < 3 && !env.SINGLE_MACHINE) {
    throw new ConfigError('NATS_REPLICAS must be 3 or more in production (or SINGLE_MACHINE=true)');
  }
  const hasKeys = env.SECRETS_KEY !== undefined || env.SECRETS_KEY_FILE !== undefined;
  // A key that each machine makes under its own DATA_DIR would open nothing that another has sealed.
  if (!hasKeys && !env.ALLOW_EMBEDDED && !env.SINGLE_MACHINE) {
    throw new ConfigError(
      'SECRETS_KEY or SECRETS_KEY_FILE is needed in production, the same on every machine (or SINGLE_MACHINE=true)',
    );
  }
  if (env.METRICS_PORT !== undefined && !isLoopback(env.METRICS_HOST) && env.METRICS_TOKEN === undefined) {
    throw new ConfigError(`METRICS_TOKEN is needed in production with METRICS_HOST=${env.METRICS_HOST}`);
  }
  for (const name of ['OUTBOUND_ALLOW', 'TRUSTED_PROXIES'] as const) {
    const everything = env[name]?.find((range) => /\/0+$/.test(range));
    if (everything !== undefined) throw new ConfigError(`${name}=${everything} is refused in production`);
  }
  if (env.RATE_LIMIT_FACTOR !== 1) throw new ConfigError('RATE_LIMIT_FACTOR is refused in production');
}

/** All settings as a table, for --help. */
export function describeConfig(): string {
  const width = Math.max(...Object.keys(rows).map((name) => name.length));
  return Object.entries(rows as Record<string, Row>)
    .map(([name, row]) => {
      const { default: value, accepts, help } = row;
      const shown = value === undefined ? '' : ` [${value === '' ? 'empty' : value}]`;
      const file = isFromFile(name, row) ? `, or ${name}_FILE with a file that holds it` : '';
      return `  ${name.padEnd(width)}  ${help}; ${accepts}${file}${shown}`;
    })
    .join('\n');
}

/** Every setting as it is in force, and where it comes from; secrets are not shown. @throws {ConfigError} */
export function showConfig(environment: Surroundings = process.env): string {
  readConfig(environment);
  return Object.entries(rows as Record<string, Row>)
    .map(([name, row]) => {
      const text = textOf(name, row, environment);
      if (text === undefined) return `${name} is not set`;
      if (environment[name] !== undefined) return `${name}=${shown(text, row)}`;
      const isDefault = environment[`${name}_FILE`] === undefined || !isFromFile(name, row);
      return `${name}=${shown(text, row)} (${isDefault ? 'default' : `from ${name}_FILE`})`;
    })
    .join('\n');
}

/** The log level that a file holds. @throws {ConfigError} */
export function readLogLevel(file: string): string {
  const { LOG_LEVEL: row } = rows;
  const text = readSetting('LOG_LEVEL', file);
  const result = row.schema.safeParse(text);
  if (!result.success) throw new ConfigError(`LOG_LEVEL is ${shown(text, row)}; accepted: ${row.accepts}`);
  return result.data;
}

type Surroundings = Readonly<Record<string, string | undefined>>;

/** Some files are read by their users, again and again: they have rows of their own. */
function isFromFile(name: string, { isSecret, mayBeFile }: Row): boolean {
  return (isSecret === true || mayBeFile === true) && !Object.hasOwn(rows, `${name}_FILE`);
}

function textOf(name: string, row: Row, environment: Surroundings): string | undefined {
  const own = environment[name];
  const file = isFromFile(name, row) ? environment[`${name}_FILE`] : undefined;
  if (own !== undefined && file !== undefined)
    throw new ConfigError(`${name} and ${name}_FILE are both set: one of them is needed`);
  return own ?? (file === undefined ? row.default : readSetting(name, file));
}

/** Editors and `echo` end files with a line break, which is no part of what they hold. */
function readSetting(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new ConfigError(`${name}_FILE ${JSON.stringify(file)} cannot be read (${code})`, { cause });
  }
}

function parseAll(environment: Readonly<Record<string, string | undefined>>): Environment {
  const parsed: Record<string, unknown> = {};
  for (const [name, row] of Object.entries(rows as Record<string, Row>)) {
    const text = textOf(name, row, environment);
    if (text === undefined) continue;
    const result = row.schema.safeParse(text);
    if (!result.success) throw new ConfigError(`${name} is ${shown(text, row)}; accepted: ${row.accepts}`);
    parsed[name] = result.data;
  }
  return parsed as Environment;
}

/** A refused value, without what is nobody's to read: secrets, and passwords in addresses. */
function shown(text: string, { isSecret }: Row): string {
  if (isSecret && text !== '') return '[hidden]';
  return JSON.stringify(text.replace(/\/\/[^/@]*@/g, '//[hidden]@'));
}

/** Whether what will use a value takes it. */
function isFit<Value>(value: Value, use: (value: Value) => unknown): boolean {
  try {
    use(value);
    return true;
  } catch {
    return false;
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}
