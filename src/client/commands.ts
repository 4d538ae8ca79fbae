/** The commands of the command line: one row each, with its options, its help, and what it does. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { ParseArgsConfig } from 'node:util';
import { Aspect, AssetStatus, Mode, Model, Motion } from '../../schemas/asset.ts';
import { type AssetEvent, EventName, isTerminal, WebhookEvent } from '../../schemas/events.ts';
import { asset as assetLimits, source as sourceLimits } from '../../schemas/limits.ts';
import { DeliveryStatus } from '../../schemas/webhook.ts';
import type { Client, PrepareRequest } from './client.ts';
import { listen } from './listen.ts';
import { signUrl } from './proxy-url.ts';

/** What cannot go on: printed as one line, exit code 1. */
export class Failure extends Error {}
/** The command line is wrong: printed with where its help is, exit code 2. */
export class Misuse extends Error {}

export type Values = Readonly<Record<string, string | boolean | undefined>>;

export type Context = {
  values: Values;
  /** What stands after the name of the command. */
  words: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  /** Where the service is, and what lets in. */
  reach(): Promise<{ base: string; headers: Record<string, string> }>;
  client(): Promise<Client>;
  login(): Promise<void>;
  logout(): Promise<void>;
  /** One line for people; nothing with `--json`. */
  say(line: string): void;
  /** The result: as JSON with `--json`, else what `lines` makes of it. */
  show<Result>(result: Result, lines: (result: Result) => string | string[]): void;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
};

export type Command = {
  /** What follows `npm run cli --`. */
  usage: string;
  summary: string;
  options?: NonNullable<ParseArgsConfig['options']>;
  /** One line for each option. */
  help?: readonly string[];
  /** Goes on until it is interrupted. */
  isEndless?: true;
  run(context: Context): Promise<void>;
};

const text = { type: 'string' } as const;
const flag = { type: 'boolean' } as const;
const project = { project: text };
const projectHelp = '--project <id>       the project (default: your default project)';
const making = { mode: text, motion: text, dur: text, seed: text, prompt: text, aspect: text, model: text };
const makingHelp = [
  `--mode <mode>        ${Mode.options.join(', ')}`,
  `--motion <motion>    ${Motion.options.join(', ')}`,
  `--dur <seconds>      ${assetLimits.minSeconds} to ${assetLimits.maxSeconds}`,
  '--seed <number>      the same seed, the same animation',
  '--prompt <text>      what is to move, instead of what the service sees',
];

export const commands: Readonly<Record<string, Command>> = {
  login: {
    usage: 'login [--base <url>]',
    summary: 'signs in, and keeps an API token for the other commands',
    help: ['Asks for e-mail and password (or SERVICE_EMAIL and SERVICE_PASSWORD), or takes --token.'],
    run: (context) => context.login(),
  },
  logout: {
    usage: 'logout',
    summary: 'revokes that token and forgets it',
    run: (context) => context.logout(),
  },
  whoami: {
    usage: 'whoami',
    summary: 'shows the account, and where the service is',
    async run({ client, reach, show }) {
      const me = await (await client()).account.me();
      const { base } = await reach();
      show({ ...me, base }, () => `${me.email} (${me.plan}) at ${base}`);
    },
  },
  projects: {
    usage: 'projects',
    summary: 'lists your projects with their keys',
    async run({ client, show }) {
      show(await (await client()).projects.list(), ({ projects }) =>
        table(
          projects.map((one) => [one.id, one.name, one.proxy_key ?? '-', one.isDefault ? 'default' : '']),
        ),
      );
    },
  },
  prepare: {
    usage: 'prepare <file|url> [--wait] [--out <file>]',
    summary: 'makes an animation of an image',
    options: { ...project, ...making, wait: flag, out: text },
    help: [
      '--wait               until it can be played; exit code 4 when it fails',
      '--out <file>         waits, and saves the mp4',
      projectHelp,
      ...makingHelp,
      `--aspect <aspect>    ${Aspect.options.join(', ')}`,
      `--model <model>      ${Model.options.join(', ')}`,
    ],
    run: prepare,
  },
  regenerate: {
    usage: 'regenerate <asset> [--wait]',
    summary: 'makes an asset anew, at the same address',
    options: { mode: text, motion: text, dur: text, seed: text, prompt: text, wait: flag, out: text },
    help: ['--wait, --out        as in prepare', ...makingHelp],
    async run(context) {
      const client = await context.client();
      const id = word(context, 'asset');
      await finish(context, client, await client.assets.regenerate(id, makingOf(context.values)));
    },
  },
  cancel: {
    usage: 'cancel <asset>',
    summary: 'ends the present run of an asset',
    async run(context) {
      const answer = await (await context.client()).assets.cancel(word(context, 'asset'));
      context.show(answer, ({ asset_id, status }) => `${asset_id} ${status}`);
    },
  },
  assets: {
    usage: 'assets [<asset>]',
    summary: 'lists the assets of a project, or shows one',
    options: { ...project, status: text, limit: text },
    help: [projectHelp, `--status <status>    ${AssetStatus.options.join(', ')}`, '--limit <number>'],
    run: showAssets,
  },
  watch: {
    usage: 'watch [<asset>] [--types <list>]',
    summary: 'prints the events of a project, or of one asset until its run has ended',
    options: { ...project, types: text, since: text },
    help: [
      projectHelp,
      `--types <list>       comma list of ${EventName.options.join(', ')}`,
      '--since <ts>         everything after this event (its ts, unix ms)',
    ],
    isEndless: true,
    run: watch,
  },
  sign: {
    usage: 'sign <image url|asset> --key <pk_…>',
    summary: 'prints a signed proxy URL; asks nobody',
    options: {
      key: text,
      secret: text,
      ttl: text,
      poster: flag,
      motion: text,
      mode: text,
      dur: text,
      seed: text,
    },
    help: [
      '--key <pk_…>         the project key',
      '--secret <sk_…>      the signing secret (or SIGNING_SECRET)',
      '--ttl <seconds>      how long it holds (default 3600)',
      '--poster             of the poster instead',
      ...makingHelp.slice(0, 4),
    ],
    run: sign,
  },
  listen: {
    usage: 'listen --forward-to <url>',
    summary: 'forwards the events of a project to a webhook receiver on this machine, signed like webhooks',
    options: { ...project, 'forward-to': text, events: text, secret: text },
    help: [
      '--forward-to <url>   the receiver, e.g. http://localhost:3000/hook',
      projectHelp,
      `--events <list>      comma list of ${WebhookEvent.options.join(', ')} (default: all)`,
      '--secret <whsec_…>   signs with this secret (default: a new one, printed)',
    ],
    isEndless: true,
    run: forward,
  },
  deliveries: {
    usage: 'deliveries [<delivery>] [--redeliver]',
    summary: 'lists the webhook deliveries of a project, shows one, or sends one again',
    options: { ...project, status: text, limit: text, redeliver: flag },
    help: [
      projectHelp,
      `--status <status>    ${DeliveryStatus.options.join(', ')}`,
      '--limit <number>     at most 50',
      '--redeliver          sends the named delivery again',
    ],
    run: showDeliveries,
  },
  usage: {
    usage: 'usage',
    summary: 'shows what of the plan is used',
    async run({ client, show }) {
      show(await (await client()).usage(), ({ plan, generations, crawls }) => [
        `plan         ${plan}`,
        `generations  ${generations.used} of ${generations.limit}${until(generations.resets_at)}`,
        `overage      ${generations.overage_runs} (${(generations.overage_cents / 100).toFixed(2)})`,
        `crawls       ${crawls.used} of ${crawls.limit}${until(crawls.resets_at)}`,
      ]);
    },
  },
};

async function prepare(context: Context): Promise<void> {
  const client = await context.client();
  const image = word(context, 'file or url');
  const src = /^https?:/.test(image) ? image : (await client.assets.upload(await readImage(image))).url;
  const body = { project_id: await projectOf(context, client), src, ...makingOf(context.values) };
  await finish(context, client, await client.assets.prepare(body));
}

async function readImage(file: string): Promise<Uint8Array<ArrayBuffer>> {
  const { size } = await stat(file).catch((cause: NodeJS.ErrnoException) => {
    throw new Failure(`${file} cannot be read: ${cause.code}`);
  });
  if (size > sourceLimits.maxBytes) throw new Failure(`${basename(file)} is larger than 10 MB`);
  return new Uint8Array(await readFile(file));
}

/** Shows what was begun, or waits for its end. */
async function finish(context: Context, client: Client, begun: { asset_id: string; status: string }) {
  const { values, say, show, signal } = context;
  const out = values['out'];
  if (values['wait'] !== true && out === undefined) {
    show(begun, ({ asset_id, status }) => `${asset_id} ${status}`);
    return;
  }
  say(`${begun.asset_id} ${begun.status}`);
  const asset = await client.assets.waitFor(begun, { signal, onEvent: (event) => say(lineOf(event)) });
  if (typeof out === 'string') await download(asset.mp4_url, out, signal);
  show(asset, () => [
    asset.mp4_url,
    asset.poster_url,
    ...(asset.embed_url === null ? [] : [asset.embed_url]),
  ]);
}

async function download(url: string, file: string, signal: AbortSignal): Promise<void> {
  const answer = await fetch(url, { signal });
  if (!answer.ok) throw new Failure(`${url} answers ${answer.status}`);
  await writeFile(file, Buffer.from(await answer.arrayBuffer()));
}

function makingOf(values: Values): Partial<Omit<PrepareRequest, 'project_id' | 'src'>> {
  const dur = numberOf(values, 'dur');
  const seed = numberOf(values, 'seed');
  return {
    // The service judges them, and names what it accepts.
    ...(pickTexts(values, ['mode', 'motion', 'aspect', 'model']) as object),
    ...(dur === undefined ? {} : { dur_seconds: dur }),
    ...(seed === undefined ? {} : { seed }),
    ...(typeof values['prompt'] === 'string' ? { prompt_override: values['prompt'] } : {}),
  };
}

function pickTexts(values: Values, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (typeof values[name] === 'string' ? [[name, values[name]]] : [])),
  );
}

function numberOf(values: Values, name: string): number | undefined {
  const value = values[name];
  if (typeof value !== 'string') return undefined;
  if (!/^\d{1,15}$/.test(value)) throw new Misuse(`--${name} is no whole number: ${value}`);
  return Number(value);
}

async function showAssets(context: Context): Promise<void> {
  const client = await context.client();
  const { words, values, show } = context;
  const [id] = words;
  if (id !== undefined) {
    show(await client.assets.get(id), ({ asset }) =>
      table(Object.entries(asset).map(([name, value]) => [name, String(value ?? '-')])),
    );
    return;
  }
  const limit = numberOf(values, 'limit');
  const query = {
    project_id: await projectOf(context, client),
    ...(pickTexts(values, ['status']) as { status?: AssetStatus }),
    ...(limit === undefined ? {} : { limit }),
  };
  show(await client.assets.list(query), ({ assets }) =>
    table(assets.map((one) => [one.asset_id, one.status, one.mode, one.error_code ?? '', one.src])),
  );
}

async function watch(context: Context): Promise<void> {
  const client = await context.client();
  const { words, values, signal, show } = context;
  const types =
    typeof values['types'] === 'string' ? parseList(values['types'], EventName.options) : undefined;
  const since = numberOf(values, 'since');
  const options = { signal, types, lastEventId: since };
  const [id] = words;
  const events =
    id === undefined
      ? client.events.project(await projectOf(context, client), options)
      : client.events.asset(id, options);
  for await (const event of events) {
    show(event, lineOf);
    if (id !== undefined && isTerminal(event.event)) return;
  }
}

function lineOf({
  ts,
  asset_id,
  event,
  stage,
  attempt,
  latency_ms,
  error_code,
  mp4_url,
}: AssetEvent): string {
  const parts = [
    new Date(ts).toISOString(),
    asset_id,
    event,
    stage ?? '',
    attempt > 1 ? `attempt ${attempt}` : '',
    latency_ms === undefined ? '' : `${latency_ms} ms`,
    error_code ?? mp4_url ?? '',
  ];
  return parts.filter((part) => part !== '').join('  ');
}

async function sign(context: Context): Promise<void> {
  const { values, env, show, reach } = context;
  const key = values['key'];
  const secret = values['secret'] ?? env['SIGNING_SECRET'];
  if (typeof key !== 'string' || typeof secret !== 'string')
    throw new Misuse('sign needs --key, and --secret or SIGNING_SECRET');
  const what = word(context, 'image url or asset');
  const { base } = await reach();
  const dur = numberOf(values, 'dur');
  const seed = numberOf(values, 'seed');
  const ttlSeconds = numberOf(values, 'ttl') ?? 3_600;
  const url = await signUrl({
    baseUrl: base,
    key,
    secret,
    source: /^https?:/.test(what) ? what : `asset:${what}`,
    options: { ...pickTexts(values, ['motion', 'mode']), dur, seed },
    expiresTs: Date.now() + ttlSeconds * 1_000,
    extension: values['poster'] === true ? 'jpg' : 'mp4',
  });
  show({ url }, () => url);
}

async function forward(context: Context): Promise<void> {
  const { values, signal } = context;
  const forwardTo = values['forward-to'];
  if (typeof forwardTo !== 'string') throw new Misuse('listen needs --forward-to');
  if (!URL.canParse(forwardTo)) throw new Failure(`--forward-to is no URL: ${forwardTo}`);
  const events = values['events'];
  const types = typeof events === 'string' ? parseList(events, WebhookEvent.options) : WebhookEvent.options;
  const { base, headers } = await context.reach();
  const given = values['secret'];
  const random = crypto.getRandomValues(new Uint8Array(24));
  const secret = typeof given === 'string' ? given : `whsec_${Buffer.from(random).toString('base64')}`;
  const print = (line: string) => context.show({ line }, () => line);
  const projectId = await projectOf(context, await context.client());
  if (given === undefined) print(`signing secret: ${secret}`);
  print(`forwarding events of ${projectId} to ${forwardTo}`);
  await listen({ base, headers, projectId, forwardTo, secret, types: new Set(types), say: print, signal });
}

async function showDeliveries(context: Context): Promise<void> {
  const client = await context.client();
  const { words, values, show } = context;
  const projectId = await projectOf(context, client);
  const [id] = words;
  if (id !== undefined && values['redeliver'] === true) {
    show(await client.webhooks.redeliver(projectId, id), () => `${id} is sent again`);
    return;
  }
  if (id !== undefined) {
    show(await client.webhooks.delivery(projectId, id), (one) =>
      table(Object.entries(one).map(([name, value]) => [name, String(value ?? '-')])),
    );
    return;
  }
  if (values['redeliver'] === true) throw new Misuse('--redeliver needs the id of a delivery');
  const limit = numberOf(values, 'limit');
  const query = {
    ...(pickTexts(values, ['status']) as { status?: DeliveryStatus }),
    ...(limit === undefined ? {} : { limit }),
  };
  show(await client.webhooks.deliveries(projectId, query), ({ deliveries }) =>
    table(
      deliveries.map((one) => [
        one.id,
        one.status,
        one.event_type,
        `attempt ${one.attempt}`,
        String(one.response_code ?? '-'),
        one.asset_id ?? '',
      ]),
    ),
  );
}

async function projectOf({ values }: Context, client: Client): Promise<string> {
  if (typeof values['project'] === 'string') return values['project'];
  const { projects } = await client.projects.list();
  const found = projects.find(({ isDefault }) => isDefault) ?? projects[0];
  if (!found) throw new Failure('you have no project');
  return found.id;
}

function word({ words }: Context, what: string): string {
  const [first] = words;
  if (first === undefined) throw new Misuse(`which ${what}?`);
  return first;
}

function parseList<Name extends string>(list: string, known: readonly Name[]): Name[] {
  return list.split(',').map((one) => {
    const found = known.find((name) => name === one.trim());
    if (!found) throw new Misuse(`unknown name ${one.trim()}; known: ${known.join(', ')}`);
    return found;
  });
}

const until = (time: string | null) => (time === null ? '' : `, until ${time.slice(0, 10)}`);

/** Columns as wide as what stands in them; the last one as it is. */
function table(rows: readonly string[][]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
