/**
 * `npm run admin -- …`: what an operator does beside the running service.
 *
 *   user show <email>                          the account, its plan and what it has used
 *   user plan <email> <plan> [billing day]     changes the plan; a paid one begins its months on that day
 *
 * Exit codes: 0 done, 1 it failed, 2 a bad command or setting.
 */
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { PlanName } from '../schemas/plans.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import { keptMongodbUrl } from './embedded/mongod.ts';
import { createLog } from './log.ts';
import { openStore, type Store } from './store/client.ts';

const usage = `usage:
  npm run admin -- user show <email>
  npm run admin -- user plan <email> ${PlanName.options.join('|')} [billing day, 1 to 31]`;

/** A command that is none, or names what does not exist. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

/**
 * Runs one command over the configured store and answers what it has to say.
 *
 * @throws {UsageError} and what the store throws.
 */
export async function run(
  args: string[],
  config: Pick<Config, 'mongodbUrl' | 'mongodbDatabase' | 'dataDir'>,
): Promise<string> {
  const [noun, verb, ...rest] = parseArgs({ args, allowPositionals: true }).positionals;
  const command = commands[`${noun} ${verb}`];
  if (!command) throw new UsageError(usage);
  const store = await connect(config);
  try {
    return await command(store, rest);
  } finally {
    await store.close();
  }
}

async function main(): Promise<void> {
  console.log(await run(process.argv.slice(2), readConfig()));
}

const commands: Record<string, (store: Store, rest: string[]) => Promise<string>> = {
  async 'user show'(store, [wanted]) {
    const { id, email, name, plan, billingDay, used, resetAt } = await findUser(store, wanted);
    const reset = resetAt === null ? null : new Date(resetAt).toISOString();
    return JSON.stringify({ id, email, name, plan, billingDay, used, resetAt: reset }, null, 2);
  },

  async 'user plan'(store, [email, plan, day]) {
    const user = await findUser(store, email);
    const chosen = PlanName.safeParse(plan);
    if (!chosen.success)
      throw new UsageError(`plan is ${plan ?? 'missing'}; accepted: ${PlanName.options.join(', ')}`);
    const billingDay = chosen.data === 'free' ? null : toBillingDay(day);
    await store.users.setPlan(user.id, chosen.data, billingDay);
    return `${user.email} is on plan ${chosen.data}${billingDay === null ? '' : `, billing day ${billingDay}`}`;
  },
};

function toBillingDay(text: string | undefined): number {
  const day = text === undefined ? new Date().getUTCDate() : Number(text);
  if (!Number.isInteger(day) || day < 1 || day > 31)
    throw new UsageError(`billing day is ${text}; accepted: 1 to 31`);
  return day;
}

async function findUser(store: Store, email: string | undefined) {
  if (email === undefined) throw new UsageError(usage);
  const user = await store.users.findByEmail(email.trim().toLowerCase());
  if (!user) throw new UsageError(`no user has the e-mail ${email}`);
  return user;
}

/** The configured MongoDB, else the embedded one of the service that runs on DATA_DIR. */
async function connect({
  mongodbUrl,
  mongodbDatabase,
  dataDir,
}: Pick<Config, 'mongodbUrl' | 'mongodbDatabase' | 'dataDir'>): Promise<Store> {
  const url = mongodbUrl ?? keptMongodbUrl(join(dataDir, 'mongodb'));
  if (!url) throw new UsageError(`no MONGODB_URL is set and no service has run on ${dataDir}`);
  return openStore(url, mongodbDatabase, { log: createLog('silent') });
}

function isMisuse(cause: unknown): boolean {
  const code = String((cause as { code?: unknown } | undefined)?.code);
  return cause instanceof UsageError || cause instanceof ConfigError || code.startsWith('ERR_PARSE_ARGS');
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((cause: unknown) => {
    console.error(cause instanceof Error ? cause.message : cause);
    process.exit(isMisuse(cause) ? 2 : 1);
  });
}
