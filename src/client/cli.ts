/**
 * The customer's command line: `npm run cli -- prepare photo.jpg --wait`. Commands are in commands.ts.
 *
 * Signed in by `login` once, or for one call by `--token` (SERVICE_TOKEN), `--cookie`, or SERVICE_EMAIL and
 * SERVICE_PASSWORD. Exit codes: 0 done, 1 failed, 2 wrong command line, 3 not signed in or not allowed, 4 the
 * generation has failed, 5 the service cannot be reached or took too long.
 */
import { hostname } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import { ErrorCode } from '../../schemas/errors.ts';
import { type Client, createClient, ServiceError } from './client.ts';
import { type Command, type Context, commands, Failure, Misuse, type Values } from './commands.ts';
import { ListenRefused } from './listen.ts';
import { forgetProfile, profileFile, readProfile, writeProfile } from './profile.ts';
import { trimSlash } from './proxy-url.ts';

/** Nobody is there to be asked who they are. */
class NotSignedIn extends Failure {}

const { env } = process;
const file = profileFile(env);

/** Taken by every command. */
const common = {
  base: { type: 'string' },
  token: { type: 'string' },
  cookie: { type: 'string' },
  email: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const commonHelp = `  --base <url>         the service (default: SERVICE_URL, that of login, or http://localhost:8080)
  --token <sat_…>      API token (default: SERVICE_TOKEN, or that of login)
  --cookie <cookie>    session cookie instead, e.g. service.session_token=…
  --json               prints JSON, for programs
  --help               prints this`;

async function main(): Promise<void> {
  const [name = '', ...rest] = process.argv.slice(2);
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) {
    process.stdout.write(overview());
    process.exitCode =
      name === '' || name === 'help' || name === '--help' || name === '-h' ? 0 : exits.misuse;
    if (process.exitCode !== 0) process.stderr.write(`there is no command ${name}\n`);
    return;
  }
  const { values, positionals } = parse(rest, command);
  if (values['help'] === true) {
    process.stdout.write(helpOf(command));
    return;
  }
  const stopping = new AbortController();
  process.once('SIGINT', () => stopping.abort()).once('SIGTERM', () => stopping.abort());
  try {
    await command.run(contextOf(values, positionals, stopping.signal));
  } catch (cause) {
    if (!stopping.signal.aborted) throw cause;
    // What goes on until somebody ends it has not failed then.
    if (!command.isEndless) process.exitCode = exits.interrupted;
  }
}

function parse(args: string[], { options = {} }: Command) {
  try {
    const { values, positionals } = parseArgs({
      args,
      options: { ...common, ...options },
      allowPositionals: true,
    });
    return { values: values as Values, positionals };
  } catch (cause) {
    throw new Misuse((cause as Error).message);
  }
}

function contextOf(values: Values, words: readonly string[], signal: AbortSignal): Context {
  const isJson = values['json'] === true;
  const print = (line: string) => process.stdout.write(`${line}\n`);
  const reach = () => findWay(values);
  return {
    values,
    words,
    env,
    reach,
    client: async () => clientOf(await reach(), values),
    login: () => login(values, print),
    logout: () => logout(print),
    say: (line) => void (isJson || print(line)),
    show(result, lines) {
      for (const line of isJson ? [JSON.stringify(result)] : [lines(result)].flat()) print(line);
    },
    signal,
  };
}

type Way = { base: string; headers: Record<string, string> };

/** What lets in, where nothing has to be asked: an option, the environment, then what `login` has kept. */
async function findWay(values: Values): Promise<Way> {
  const kept = await readProfile(file);
  const base = trimSlash(textOf(values, 'base') ?? env.SERVICE_URL ?? kept?.base ?? 'http://localhost:8080');
  if (!URL.canParse(base)) throw new Misuse(`--base is no URL: ${base}`);
  // A token goes to the service that made it, and to no other.
  const token =
    textOf(values, 'token') ?? env.SERVICE_TOKEN ?? (kept?.base === base ? kept.token : undefined);
  const cookie = textOf(values, 'cookie');
  if (cookie !== undefined) return { base, headers: { cookie } };
  return { base, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } };
}

/** A client that is let in; e-mail and password are asked for where nothing else is known. */
async function clientOf({ base, headers }: Way, values: Values): Promise<Client> {
  if (Object.keys(headers).length > 0) return createClient({ baseUrl: base, headers });
  if (env.SERVICE_PASSWORD === undefined && !process.stdin.isTTY)
    throw new NotSignedIn('not signed in: npm run cli -- login, --token, or SERVICE_TOKEN');
  Object.assign(headers, { cookie: await signIn(base, values) });
  return createClient({ baseUrl: base, headers });
}

async function login(values: Values, print: (line: string) => void): Promise<void> {
  const { token, email, base: given } = values;
  const { base } = await findWay(values);
  if (typeof token === 'string') {
    const me = await createClient({ baseUrl: base, token }).account.me();
    await writeProfile(file, { base, token });
    print(`signed in as ${me.email} at ${base}`);
    return;
  }
  const cookie = await signIn(base, { email, base: given });
  const client = createClient({ baseUrl: base, headers: { cookie } });
  const made = await client.tokens.create({ name: `command line on ${hostname()}`.slice(0, 100) });
  await writeProfile(file, { base, token: made.token, tokenId: made.id });
  await client.account.signOut();
  print(`signed in at ${base}; the token is in ${file}`);
}

async function logout(print: (line: string) => void): Promise<void> {
  const kept = await readProfile(file);
  if (!kept) {
    print('nobody is signed in');
    return;
  }
  // Forgotten even if the service cannot be told: the file is what others could find.
  await forgetProfile(file);
  if (kept.tokenId !== undefined)
    await createClient({ baseUrl: kept.base, token: kept.token }).tokens.revoke(kept.tokenId);
  print('signed out');
}

/** Answers the session cookie. */
async function signIn(base: string, values: Values): Promise<string> {
  const email = textOf(values, 'email') ?? env.SERVICE_EMAIL ?? (await ask('e-mail: '));
  const password = env.SERVICE_PASSWORD ?? (await ask('password: '));
  let cookie: string | undefined;
  const client = createClient({
    baseUrl: base,
    // The client keeps no cookies, and is not told of any.
    async fetch(input, init) {
      const answer = await fetch(input, init);
      cookie = answer.headers.getSetCookie()[0]?.split(';')[0];
      return answer;
    },
  });
  await client.account.signIn({ email, password });
  if (cookie === undefined) throw new Failure('the service has set no session cookie');
  return cookie;
}

async function ask(question: string): Promise<string> {
  if (!process.stdin.isTTY)
    throw new NotSignedIn('sign in with --token, --cookie, or SERVICE_EMAIL and SERVICE_PASSWORD');
  process.stderr.write(question);
  const isSecret = question.startsWith('password');
  const output = isSecret ? new Writable({ write: (_chunk, _encoding, done) => done() }) : process.stderr;
  const terminal = createInterface({ input: process.stdin, output, terminal: true });
  try {
    return await terminal.question('');
  } finally {
    terminal.close();
    if (isSecret) process.stderr.write('\n');
  }
}

const textOf = (values: Values, name: string) =>
  typeof values[name] === 'string' ? values[name] : undefined;

function overview(): string {
  const rows = Object.values(commands).map(({ usage, summary }) => `  ${usage.padEnd(46)} ${summary}`);
  return `usage: npm run cli -- <command> [options]

${rows.join('\n')}

Every command takes --help, and:

${commonHelp}
`;
}

function helpOf({ usage, summary, help = [] }: Command): string {
  const own = help.length > 0 ? `${help.map((line) => `  ${line}`).join('\n')}\n\n` : '';
  return `usage: npm run cli -- ${usage}\n\n${summary.charAt(0).toUpperCase()}${summary.slice(1)}.\n\n${own}${commonHelp}\n`;
}

const exits = { failure: 1, misuse: 2, refused: 3, generation: 4, unreachable: 5, interrupted: 130 };

function exitOf(cause: unknown): number | undefined {
  if (cause instanceof Misuse) return exits.misuse;
  if (cause instanceof NotSignedIn) return exits.refused;
  if (cause instanceof Failure || cause instanceof ListenRefused) return exits.failure;
  if (!(cause instanceof ServiceError)) return undefined;
  if (cause.status === 401 || cause.status === 403) return exits.refused;
  if (cause.status > 0) return exits.failure;
  const isRun = cause.code === 'cancelled' || ErrorCode.safeParse(cause.code).success;
  return isRun ? exits.generation : exits.unreachable;
}

function explain(cause: Error): string {
  if (cause instanceof Misuse) return `${cause.message}\nnpm run cli -- ${process.argv[2] ?? ''} --help`;
  if (!(cause instanceof ServiceError)) return cause.message;
  const { code, status, requestId, issues, message, docsUrl, retryAfterMs } = cause;
  if (process.argv.includes('--json'))
    return JSON.stringify({ error: message, code, status, requestId, issues, docsUrl, retryAfterMs });
  const told = [code, ...(status > 0 ? [`status ${status}`] : []), ...(requestId ? [requestId] : [])];
  return [`${message} (${told.join(', ')})`, ...(docsUrl ? [docsUrl] : [])].join('\n');
}

await main().catch((cause: unknown) => {
  const exit = exitOf(cause);
  process.exitCode = exit ?? exits.failure;
  process.stderr.write(`${explain(cause instanceof Error ? cause : new Error(String(cause)))}\n`);
});
