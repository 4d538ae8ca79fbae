/**
 * `npm run admin -- …`: what an operator does beside the running service. Every change is in the audit.
 *
 *   user show <email>                          the account, its plan and what it has used
 *   user plan <email> <plan> [billing day]     changes the plan; a paid one begins its months on that day
 *   user quota <email> <used>                  sets the runs that count as used in the present month
 *   user sessions [end] <email>                lists the sessions that are signed in, or ends them
 *   secrets status                             how many secrets are sealed with which key
 *   secrets rotate                             seals every secret with the first key of SECRETS_KEY
 *   config                                     every setting as it is in force here, secrets hidden
 *   doctor, backup, restore, migrate, storage  care for a deployment: see care.ts
 *   help                                       this
 *
 * Exit codes: 0 done, 1 it failed, 2 a bad command or setting.
 */
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { BillingDay, QuotaChangeRequest } from '../schemas/operator.ts';
import { PlanName } from '../schemas/plans.ts';
import { loadKeys } from './auth/key-file.ts';
import { createSecretBox } from './auth/secret-box.ts';
import { CareUsageError, careUsage, isCareCommand, runCare } from './care.ts';
import { type Config, ConfigError, readConfig, showConfig } from './config.ts';
import { keptMongodbUrl } from './embedded/mongod.ts';
import { createLog } from './log.ts';
import { changePlan, changeUsed, describeUser } from './operator/accounts.ts';
import type { Author } from './store/audit.ts';
import { openStore, type Store } from './store/client.ts';
import { type SecretBox, SecretError } from './store/sealed.ts';
import type { SessionRecord } from './store/sessions.ts';

const usage = `usage:
  npm run admin -- user show <email>
  npm run admin -- user plan <email> ${PlanName.options.join('|')} [billing day, 1 to 31]
  npm run admin -- user quota <email> <used>
  npm run admin -- user sessions <email>
  npm run admin -- user sessions end <email>
  npm run admin -- secrets status
  npm run admin -- secrets rotate
  npm run admin -- config
${careUsage}
  npm run admin -- help

To change the key of secrets: 1. SECRETS_KEY=old,new everywhere; 2. SECRETS_KEY=new,old everywhere;
3. secrets rotate; 4. SECRETS_KEY=new everywhere. Each step is a restart of one process after the other.`;

/** A command that is none, or names what does not exist. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

type Settings = Pick<Config, 'mongodbUrl' | 'mongodbDatabase' | 'dataDir' | 'secretsKey' | 'secretsKeyFile'>;

/**
 * Runs one command over the configured store and answers what it has to say.
 *
 * @param settings asked for by commands that need them: help is there before there are any.
 * @throws {UsageError} and what the store throws.
 */
export async function run(args: string[], settings: () => Settings): Promise<string> {
  const [noun, verb, ...rest] = parseArgs({ args, allowPositionals: true }).positionals;
  if (noun === undefined || noun === 'help') return usage;
  if (noun === 'config' && verb === undefined) return showConfig();
  const name = `${noun} ${verb}`;
  if (Object.hasOwn(secretCommands, name)) return runOverSecrets(secretCommands[name], rest, settings());
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) throw new UsageError(usage);
  const store = await connect(settings());
  try {
    return await command(store, rest);
  } finally {
    await store.close();
  }
}

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  if (!isCareCommand(args)) return console.log(await run(args, readConfig));
  const { text, exitCode } = await runCare(args, readConfig, (line) => console.error(line));
  console.log(text);
  process.exitCode = exitCode;
}

const commands: Record<string, (store: Store, rest: string[]) => Promise<string>> = {
  async 'user show'(store, [wanted]) {
    const { id } = await findUser(store, wanted);
    return JSON.stringify(await describeUser(store, id, Date.now()), null, 2);
  },

  async 'user plan'(store, [email, plan, day]) {
    const { id } = await findUser(store, email);
    const chosen = PlanName.safeParse(plan);
    if (!chosen.success)
      throw new UsageError(`plan is ${plan ?? 'missing'}; accepted: ${PlanName.options.join(', ')}`);
    const change = { plan: chosen.data, billingDay: toBillingDay(day) };
    await changePlan(store, id, change, author, Date.now());
    const user = await findUser(store, email);
    return `${user.email} is on plan ${user.plan}${user.billingDay === null ? '' : `, billing day ${user.billingDay}`}`;
  },

  async 'user quota'(store, [email, count]) {
    const { id } = await findUser(store, email);
    const { data } = QuotaChangeRequest.safeParse({ used: toWhole(count) });
    if (!data) throw new UsageError(`used is ${count ?? 'missing'}; accepted: a whole number from 0`);
    await changeUsed(store, id, data.used, author, Date.now());
    const user = await describeUser(store, id, Date.now());
    return `${user?.email} has used ${user?.used} of ${user?.limit}`;
  },

  async 'user sessions'(store, [first, second]) {
    const { id, email } = await findUser(store, first === 'end' ? second : first);
    const now = Date.now();
    if (first !== 'end') {
      const sessions = await store.sessions.list(id, now, maxShown);
      return JSON.stringify(sessions.map(toShown), null, 2);
    }
    const count = await store.sessions.count(id, now);
    await store.operatorChanges.endSessions(id, author, now);
    return `${count} sessions of ${email} have ended; streams of events that are open end by themselves in minutes`;
  },
};

type SecretCommand = (store: Store, box: SecretBox) => Promise<string>;

const secretCommands: Record<string, SecretCommand> = {
  async 'secrets status'({ secrets }, box) {
    const counts = await secrets.countAll();
    const lines = counts.map(({ purpose, keyId, values }) => {
      if (keyId === null) return `${purpose}: ${values} not sealed`;
      const missing = box.keyIds.includes(keyId) ? '' : ', which is not configured';
      return `${purpose}: ${values} sealed with key ${keyId}${missing}`;
    });
    return [`configured keys, the first seals: ${box.keyIds.join(', ')}`, ...lines].join('\n');
  },

  async 'secrets rotate'({ secrets, audit }, box) {
    const now = Date.now();
    await secrets.checkKeys(now);
    const before = Object.fromEntries(
      (await secrets.countAll()).map(({ purpose, keyId, values }) => [
        `${purpose} ${keyId ?? 'plain'}`,
        values,
      ]),
    );
    const after = { key_id: box.keyIds[0] };
    await audit.insert({ ...author, ts: now, action: 'secrets.rotate', userId: null, before, after });
    const { resealed, failed, failedOwners, left } = await secrets.rotate();
    const said = `${resealed} values were sealed with key ${box.keyIds[0]}, ${left} are left`;
    if (failed > 0) throw new Error(`${said}; ${failed} cannot be opened: ${failedOwners.join(', ')}`);
    if (left > 0) throw new Error(`${said}: a process that seals with another key still runs`);
    return said;
  },
};

const author: Author = { by: 'cli', byEmail: null, requestId: null };

/** Sessions of one user that are listed. */
const maxShown = 1_000;

async function runOverSecrets(
  command: SecretCommand | undefined,
  rest: string[],
  config: Settings,
): Promise<string> {
  if (!command || rest.length > 0) throw new UsageError(usage);
  const box = createSecretBox(await loadKeys(config, false));
  const store = await connect(config, box);
  try {
    return await command(store, box);
  } finally {
    await store.close();
  }
}

function toBillingDay(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const { data } = BillingDay.safeParse(toWhole(text));
  if (data === undefined) throw new UsageError(`billing day is ${text}; accepted: 1 to 31`);
  return data;
}

/** Digits alone: Number would also take `1e3` and the empty text. */
function toWhole(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function toShown({ id, createdTs, touchedTs, expiresTs }: SessionRecord) {
  const [created_at, seen_at, expires_at] = [createdTs, touchedTs, expiresTs].map((ts) =>
    new Date(ts).toISOString(),
  );
  return { id, created_at, seen_at, expires_at };
}

async function findUser(store: Store, email: string | undefined) {
  if (email === undefined) throw new UsageError(usage);
  const user = await store.users.findByEmail(email.trim().toLowerCase());
  if (!user) throw new UsageError(`no user has the e-mail ${email}`);
  return user;
}

/** The configured MongoDB, else the embedded one of the service that runs on DATA_DIR. */
async function connect({ mongodbUrl, mongodbDatabase, dataDir }: Settings, box?: SecretBox): Promise<Store> {
  const url = mongodbUrl ?? keptMongodbUrl(join(dataDir, 'mongodb'));
  if (!url) throw new UsageError(`no MONGODB_URL is set and no service has run on ${dataDir}`);
  return openStore(url, mongodbDatabase, { log: createLog('silent'), ...(box ? { box } : {}) });
}

function isMisuse(cause: unknown): boolean {
  const code = String((cause as { code?: unknown } | undefined)?.code);
  const isOurs = [UsageError, CareUsageError, ConfigError, SecretError].some((kind) => cause instanceof kind);
  return isOurs || code.startsWith('ERR_PARSE_ARGS');
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((cause: unknown) => {
    console.error(cause instanceof Error ? cause.message : cause);
    process.exit(isMisuse(cause) ? 2 : 1);
  });
}
