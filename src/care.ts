/**
 * The operator's commands that care for a deployment, put together for `npm run admin --` (cli.ts):
 *
 *   doctor [--json]                                   looks everything over and says what is wrong
 *   backup <folder> [--media copy|list] [--with-keys] database and media as of now, while the service runs
 *   restore <folder> [--discard-streams]              into an empty system that is not running
 *   migrate                                           brings the data to this build's version
 *   storage gc [--delete] [--grace 24h]               files that nothing refers to
 */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { loadKeys } from './auth/key-file.ts';
import { createSecretBox } from './auth/secret-box.ts';
import { deleteStreams, listStreams } from './bus/inspect.ts';
import { makeBackup } from './care/backup.ts';
import { machineChecks } from './care/check-machine.ts';
import { outsideChecks, type RemoteProvider } from './care/check-outside.ts';
import { serverChecks } from './care/check-servers.ts';
import { settingsChecks } from './care/check-settings.ts';
import { describe, diagnose, isInTrouble, trouble } from './care/doctor.ts';
import { collectGarbage, type GarbageReport, minGraceMs } from './care/garbage.ts';
import { restoreBackup } from './care/restore.ts';
import { type Config, ConfigError } from './config.ts';
import { startEmbedded } from './embedded/embedded.ts';
import { findFfmpeg } from './embedded/ffmpeg.ts';
import { LockedError } from './embedded/lock.ts';
import { keptMongodbUrl } from './embedded/mongod.ts';
import { keptNatsUrl } from './embedded/nats-server.ts';
import { createLog } from './log.ts';
import { checkSmtp } from './mail/smtp.ts';
import { createFileStorage } from './media/file-storage.ts';
import { openS3Storage } from './media/s3-storage.ts';
import type { Storage } from './media/storage.ts';
import { openStore, type Store } from './store/client.ts';
import { type SecretBox, SecretError } from './store/sealed.ts';
import { openTempDir } from './temp-dir.ts';

export const careUsage = `  npm run admin -- doctor [--json]
  npm run admin -- backup <folder> [--media copy|list] [--with-keys]
  npm run admin -- restore <folder> [--discard-streams]
  npm run admin -- migrate
  npm run admin -- storage gc [--delete] [--grace 24h]`;

/** A command that is asked for in a wrong way. */
export class CareUsageError extends Error {
  override readonly name = 'CareUsageError';
}

export type Answer = { text: string; exitCode: 0 | 1 };

export const isCareCommand = ([noun = '']: readonly string[]): boolean => Object.hasOwn(commands, noun);

/**
 * Runs one of these commands. `read` gives the settings; what is done along the way is told to `say`.
 *
 * @throws {CareUsageError} for a wrong call, and what is in the way of a right one.
 */
export async function runCare(
  args: string[],
  read: () => Config,
  say: (line: string) => void = () => undefined,
): Promise<Answer> {
  const { positionals, values } = parseArgs({ args, allowPositionals: true, options });
  const [noun = '', ...rest] = positionals;
  const command = Object.hasOwn(commands, noun) ? commands[noun] : undefined;
  const given = Object.keys(values);
  if (!command || given.some((name) => !command.takes.includes(name)))
    throw new CareUsageError(`usage:\n${careUsage}`);
  return command.run({ rest, values, read, say });
}

const options = {
  json: { type: 'boolean' },
  media: { type: 'string' },
  'with-keys': { type: 'boolean' },
  'discard-streams': { type: 'boolean' },
  delete: { type: 'boolean' },
  grace: { type: 'string' },
} as const;

type Call = {
  rest: string[];
  values: {
    json?: boolean;
    media?: string;
    'with-keys'?: boolean;
    'discard-streams'?: boolean;
    delete?: boolean;
    grace?: string;
  };
  read(): Config;
  say(line: string): void;
};

const commands: Record<string, { takes: string[]; run(call: Call): Promise<Answer> }> = {
  doctor: { takes: ['json'], run: doctor },
  backup: { takes: ['media', 'with-keys'], run: backup },
  restore: { takes: ['discard-streams'], run: restore },
  migrate: { takes: [], run: migrate },
  storage: { takes: ['delete', 'grace'], run: storageGc },
};

async function doctor({ rest, values, read }: Call): Promise<Answer> {
  if (rest.length > 0) throw new CareUsageError(`usage:\n${careUsage}`);
  const diagnosis = await diagnoseAll(read);
  const isWell = !isInTrouble(diagnosis);
  const text = values.json ? JSON.stringify({ ok: isWell, checks: diagnosis }, null, 2) : describe(diagnosis);
  return { text, exitCode: isWell ? 0 : 1 };
}

async function diagnoseAll(read: () => Config) {
  let config: Config;
  try {
    config = read();
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    const finding = trouble(cause.message, 'correct it; npm start -- --help explains every setting');
    return [{ name: 'settings', findings: [finding] }];
  }
  const { smtpUrl, secretsKeyFile, dataDir, s3 } = config;
  return diagnose([
    ...settingsChecks({
      ...config,
      secretFiles: [secretsKeyFile].filter((file) => file !== undefined),
      uid: process.geteuid?.(),
    }),
    ...serverChecks({
      ...config,
      mongodbUrl: config.mongodbUrl ?? keptMongodbUrl(join(dataDir, 'mongodb')),
      natsUrl: config.natsUrl ?? keptNatsUrl(join(dataDir, 'nats')),
    }),
    ...machineChecks({
      roles: config.roles,
      dataDir,
      storageFolder: s3 ? undefined : config.storageFolder,
      findFfmpeg: () => findFfmpeg(),
      openStorage: () => openStorage(config),
    }),
    ...outsideChecks({
      ...config,
      checkMail: smtpUrl === undefined ? undefined : () => checkSmtp(smtpUrl),
      providers: remoteProviders(config),
    }),
  ]);
}

function remoteProviders({ providers }: Config): RemoteProvider[] {
  const keyNames = {
    openai: 'OPENAI_API_KEY',
    replicate: 'REPLICATE_API_TOKEN',
    fal: 'FAL_KEY',
    runway: 'RUNWAY_API_KEY',
    luma: 'LUMA_API_KEY',
  } as const;
  return Object.entries(keyNames).flatMap(([name, setting]) => {
    const used = providers[name as keyof typeof keyNames];
    return used === undefined ? [] : [{ name, baseUrl: used.baseUrl, key: used.key, setting }];
  });
}

async function backup({ rest, values, read, say }: Call): Promise<Answer> {
  const folder = folderOf(rest);
  const config = read();
  const media = values.media ?? (config.s3 ? 'list' : 'copy');
  if (media !== 'copy' && media !== 'list')
    throw new CareUsageError(`--media is ${media}; accepted: copy, list`);
  const keys = await loadKeys(config, false);
  const manifest = await withSystem(config, createSecretBox(keys), 'use', ({ store, storage }) =>
    makeBackup(
      { store, storage },
      {
        folder,
        media,
        ...(values['with-keys'] ? { keys: `${keys.map((key) => key.toString('base64')).join(',')}\n` } : {}),
        now: Date.now,
        say,
      },
    ),
  );
  const ids = manifest.keys.ids.join(', ');
  const lines = [
    `backup ${manifest.id} is in ${folder}`,
    manifest.keys.isIncluded
      ? `it holds the keys of secrets (${ids}): who can read it can sign for every project`
      : `keep the keys of secrets (${ids}) elsewhere: without them its secrets are lost`,
    ...(media === 'list' ? ['it lists the media and does not hold them: keep versions of the bucket'] : []),
  ];
  return { text: lines.join('\n'), exitCode: 0 };
}

async function restore({ rest, values, read, say }: Call): Promise<Answer> {
  const folder = folderOf(rest);
  const config = read();
  const box = await loadKeys(config, false).then(createSecretBox, ignoreMissingKeys);
  const { manifest, missing } = await withSystem(
    config,
    box,
    'restore',
    async ({ store, storage, natsUrl }) =>
      restoreBackup(
        {
          store,
          storage,
          keyIds: box?.keyIds ?? [],
          listStreams: () => listStreams(natsUrl, config.natsPrefix),
          deleteStreams: () => deleteStreams(natsUrl, config.natsPrefix),
        },
        { folder, discardStreams: values['discard-streams'] ?? false, say },
      ),
  );
  const done = `backup ${manifest.id} is restored: start the service`;
  if (missing.length === 0) return { text: done, exitCode: 0 };
  return {
    text: `${done}\nmedia objects that are missing, bring them back too: ${missing.join(', ')}`,
    exitCode: 1,
  };
}

/** Without keys nothing is restored, which is then said together with where they are. */
function ignoreMissingKeys(cause: unknown): undefined {
  if (!(cause instanceof SecretError)) throw cause;
}

async function migrate({ rest, read }: Call): Promise<Answer> {
  if (rest.length > 0) throw new CareUsageError(`usage:\n${careUsage}`);
  return withSystem(read(), undefined, 'use', async ({ store }) => {
    const made = await store.migrations.run();
    const { version } = await store.migrations.state();
    const said = made.length === 0 ? 'nothing was to be done' : made.join('\n');
    return { text: `${said}\nthe data is of version ${version}`, exitCode: 0 };
  });
}

async function storageGc({ rest, values, read }: Call): Promise<Answer> {
  if (rest.length !== 1 || rest[0] !== 'gc') throw new CareUsageError(`usage:\n${careUsage}`);
  const graceMs = toMs(values.grace ?? '24h');
  const isDeleting = values.delete ?? false;
  const config = read();
  return withSystem(config, undefined, 'use', async ({ store, storage }) => {
    const uploadUrl = (key: string) => `${config.baseUrl}/${key}`;
    const report = await collectGarbage(
      { store, storage, uploadUrl, now: Date.now },
      { graceMs, isDeleting },
    );
    return { text: describeGarbage(report, isDeleting), exitCode: 0 };
  });
}

function describeGarbage({ looked, garbage, deleted, unknown }: GarbageReport, isDeleting: boolean): string {
  const lines = Object.entries(garbage)
    .filter(([, { objects }]) => objects > 0)
    .map(([reason, { objects, bytes }]) => `${reason}: ${objects} objects, ${bytes} bytes`);
  const names = unknown.keys.join(', ');
  return [
    `${looked.objects} objects, ${looked.bytes} bytes`,
    ...(lines.length > 0 ? lines : ['nothing is garbage']),
    ...(unknown.objects > 0 ? [`of a form not known here, left alone: ${unknown.objects} (${names})`] : []),
    isDeleting ? `${deleted} were deleted` : 'nothing was deleted: --delete does it',
  ].join('\n');
}

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

function toMs(text: string): number {
  const [, count, unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const ms = Number(count) * (unitMs[unit] ?? Number.NaN);
  if (ms >= minGraceMs) return ms;
  throw new CareUsageError(`--grace is ${text}; accepted: a whole number with m, h or d, at least 1h`);
}

function folderOf(rest: string[]): string {
  const [folder, ...more] = rest;
  if (folder === undefined || more.length > 0) throw new CareUsageError(`usage:\n${careUsage}`);
  return resolve(folder);
}

type System = { store: Store; storage: Storage; natsUrl: string };

/** Opens what the configuration names, for as long as `work` takes. */
async function withSystem<Result>(
  config: Config,
  box: SecretBox | undefined,
  access: 'use' | 'restore',
  work: (system: System) => Promise<Result>,
): Promise<Result> {
  const closers: (() => Promise<unknown>)[] = [];
  try {
    const servers = await findServers(config, access, closers);
    const log = createLog('silent');
    const store = await openStore(servers.mongodbUrl, config.mongodbDatabase, {
      log,
      access,
      ...(box ? { box } : {}),
    });
    closers.push(store.close);
    const { storage, close } = await openStorage(config);
    closers.push(close);
    return await work({ store, storage, natsUrl: servers.natsUrl });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

/** The configured servers, else those of the service that runs on DATA_DIR, else the embedded ones for the time being. */
async function findServers(
  { mongodbUrl, natsUrl, dataDir, isEmbedded }: Config,
  access: 'use' | 'restore',
  closers: (() => Promise<unknown>)[],
): Promise<{ mongodbUrl: string; natsUrl: string }> {
  if (!isEmbedded.mongodb && !isEmbedded.nats)
    return { mongodbUrl: mongodbUrl ?? '', natsUrl: natsUrl ?? '' };
  try {
    const started = await startEmbedded({ dataDir, log: createLog('silent'), ...isEmbedded });
    closers.push(started.stop);
    return {
      mongodbUrl: mongodbUrl ?? started.mongodbUrl ?? '',
      natsUrl: natsUrl ?? started.natsUrl ?? '',
    };
  } catch (cause) {
    if (!(cause instanceof LockedError) || access === 'restore') throw cause;
    return {
      mongodbUrl: mongodbUrl ?? keptMongodbUrl(join(dataDir, 'mongodb')) ?? '',
      natsUrl: natsUrl ?? keptNatsUrl(join(dataDir, 'nats')) ?? '',
    };
  }
}

/** As the service opens it. */
async function openStorage({
  s3,
  storageFolder,
  dataDir,
}: Config): Promise<{ storage: Storage; close(): Promise<void> }> {
  if (!s3) return { storage: await createFileStorage(storageFolder), close: async () => undefined };
  const temp = await openTempDir(join(dataDir, 'tmp'));
  const storage = await openS3Storage({ ...s3, tempDir: temp.path });
  const close = async () => {
    await storage.close();
    await temp.remove();
  };
  return { storage, close };
}
