/**
 * The customer's command line: `npm run cli -- listen --forward-to http://localhost:3000/hook`.
 *
 * Signs in with `--token` (or SERVICE_TOKEN), `--cookie`, or an e-mail and a password asked for here (or
 * SERVICE_EMAIL and SERVICE_PASSWORD).
 */
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { WebhookEvent } from '../../schemas/events.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import { ListenRefused, listen } from './listen.ts';

const usage = `usage: npm run cli -- listen --forward-to <url> [options]

Forwards the events of a project to a webhook receiver on this machine, signed like webhooks.

  --forward-to <url>   the receiver, e.g. http://localhost:3000/hook
  --project <id>       the project (default: your default project)
  --events <list>      comma list of ${WebhookEvent.options.join(', ')} (default: all)
  --secret <whsec_…>   signs with this secret (default: a new one, printed)
  --base <url>         the service (default SERVICE_URL, or http://localhost:8080)
  --token <sat_…>      API token (default SERVICE_TOKEN)
  --cookie <cookie>    session cookie, e.g. service.session_token=…
  --email <email>      signs in with a password that is asked for (or SERVICE_EMAIL and SERVICE_PASSWORD)
`;

/** What cannot go on: printed as one line, exit code 1. */
class Failure extends Error {}

const options = {
  'forward-to': { type: 'string' },
  project: { type: 'string' },
  events: { type: 'string' },
  secret: { type: 'string' },
  base: { type: 'string' },
  token: { type: 'string' },
  cookie: { type: 'string' },
  email: { type: 'string' },
  help: { type: 'boolean' },
} as const;

type Values = { [Name in Exclude<keyof typeof options, 'help'>]?: string };

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const forwardTo = values['forward-to'];
  if (values.help || positionals[0] !== 'listen' || forwardTo === undefined) {
    say(usage);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  if (!URL.canParse(forwardTo)) throw new Failure(`--forward-to is no URL: ${forwardTo}`);
  const base = (values.base ?? process.env.SERVICE_URL ?? 'http://localhost:8080').replace(/\/$/, '');
  const types = new Set(parseTypes(values.events));
  const headers = await signIn(base, values);
  const projectId = values.project ?? (await defaultProject(base, headers));
  const secret = values.secret ?? `whsec_${randomBytes(limits.secretBytes).toString('base64')}`;
  if (values.secret === undefined) say(`signing secret: ${secret}`);
  say(`forwarding events of ${projectId} to ${forwardTo}`);

  const stopping = new AbortController();
  process.once('SIGINT', () => stopping.abort()).once('SIGTERM', () => stopping.abort());
  await listen({ base, headers, projectId, forwardTo, secret, types, say, signal: stopping.signal });
}

function parseTypes(text: string | undefined): WebhookEvent[] {
  if (text === undefined) return WebhookEvent.options;
  return text.split(',').map((name) => {
    const { data } = WebhookEvent.safeParse(name.trim());
    if (!data) throw new Failure(`--events: unknown type ${name}; known: ${WebhookEvent.options.join(', ')}`);
    return data;
  });
}

async function signIn(base: string, values: Values): Promise<Record<string, string>> {
  const token = values.token ?? process.env.SERVICE_TOKEN;
  if (token !== undefined) return { authorization: `Bearer ${token}` };
  if (values.cookie !== undefined) return { cookie: values.cookie };
  const email = values.email ?? process.env.SERVICE_EMAIL ?? (await prompt('e-mail: '));
  const password = process.env.SERVICE_PASSWORD ?? (await prompt('password: '));
  const answer = await ask(`${base}/api/user/signin`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password }),
  });
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0];
  if (cookie === undefined) throw new Failure('the service has set no session cookie');
  return { cookie };
}

async function defaultProject(base: string, headers: Record<string, string>): Promise<string> {
  const answer = await ask(`${base}/api/projects`, { headers });
  const { projects } = (await answer.json()) as { projects: { id: string; isDefault: boolean }[] };
  const project = projects.find(({ isDefault }) => isDefault) ?? projects[0];
  if (!project) throw new Failure('you have no project');
  return project.id;
}

async function ask(url: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(url, init).catch((cause: Error) => {
    throw new Failure(`cannot reach ${new URL(url).origin}: ${cause.message}`);
  });
  if (!answer.ok)
    throw new Failure(`${new URL(url).pathname} answers ${answer.status}: ${await answer.text()}`);
  return answer;
}

async function prompt(question: string): Promise<string> {
  if (!process.stdin.isTTY)
    throw new Failure('sign in with --token, --cookie, or SERVICE_EMAIL and SERVICE_PASSWORD');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await terminal.question(question);
  } finally {
    terminal.close();
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

await main().catch((cause: unknown) => {
  const isKnown = cause instanceof Failure || cause instanceof ListenRefused || cause instanceof TypeError;
  if (!isKnown) throw cause;
  process.stderr.write(`${(cause as Error).message}\n`);
  process.exitCode = 1;
});
