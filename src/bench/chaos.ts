/**
 * `npm run chaos`: kills processes of the service, nats-server and the primary of MongoDB at random moments and spoils
 * the links between all of them, while assets are made and webhooks sent, then audits everything.
 *
 *   npm run chaos -- --assets 200 --kills 50 [--seed 1] [--data folder]
 *
 * Model providers are stand-ins that fail, too: some prompts order faults. Passes when every accepted run ends in
 * exactly one terminal fact, each listener has heard of every fact once and in order, quotas are exact, every webhook
 * has arrived, and at most 1.02 clips were paid per stage, exactly one where each submit had its answer.
 * Prints one JSON line; exit code 1 otherwise.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { MongoClient } from 'mongodb';
import { type AssetEvent, isTerminal } from '../../schemas/events.ts';
import { ambiguous } from '../fake-providers/faults.ts';
import { createRandom, pick } from '../random.ts';
import {
  type Account,
  countEnds,
  countFlaws,
  factKey,
  follow,
  type Listener,
  type Owned,
  readAsset,
  readStream,
  readTimeline,
  readUsed,
  request,
  serveSource,
  setPlan,
  signUp,
  untilAllEnd,
} from './client.ts';
import { report } from './cpu.ts';
import { type Fleet, startFleet } from './fleet.ts';
import { spoilAtRandom } from './toxiproxy.ts';

const { values } = parseArgs({
  options: {
    assets: { type: 'string', default: '200' },
    kills: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
    data: { type: 'string' },
  },
});
const assets = Number(values.assets);
const kills = Number(values.kills);
const random = createRandom(Number(values.seed));

const minBetweenKillsMs = 500;
const maxBetweenKillsMs = 5_000;
/** Accounts, each with a project of its own: they fall to different partitions. */
const accountsCount = 6;
/** Assets under way at once: more would wait for the renderers until they count as stalled. */
const maxPending = 24;
const regeneratedShare = 0.1;
const webhooksMs = 180_000;
const maxPaidPerStage = 1.02;
/** Of what was not heard. */
const maxShown = 20;

const targets = ['worker', 'worker', 'http', 'scheduler', 'nats', 'mongod'] as const;
/** What a prompt orders of its provider; most order nothing. */
const faults = [
  ...['', '', '', '', '', '', '', ''],
  ...['503', '429', 'status-503', 'output-reset', 'output-503', 'callback-none', 'callback-twice', 'drip'],
  ...ambiguous,
];

type Run = Owned & { prompt: string; fault: string; runs: number };
type World = { fleet: Fleet; accounts: Account[]; source: string; made: Run[] };

async function run(): Promise<boolean> {
  const source = await serveSource();
  const receiver = await startReceiver();
  const fleet = await startFleet({
    isProxied: true,
    data: values.data,
    env: {
      RETRY_BACKOFF: '0s,500ms,1s',
      WEBHOOK_SCHEDULE: '500ms,1s,2s',
      WEBHOOK_ATTEMPTS: '60',
      WEBHOOK_TIMEOUT: '3s',
      RECONCILE_AFTER: '30s',
      RECONCILE_EVERY: '10s',
    },
  });
  try {
    const hook = `http://127.0.0.1:${await fleet.link('webhooks', receiver.port)}/hook`;
    const accounts = await openAccounts(fleet, hook);
    const listeners = accounts.map((account) => follow(fleet.base, account));
    const world: World = { fleet, accounts, source: `${source.url}/photo.jpg`, made: [] };

    const { toxiproxyUrl } = fleet.cluster;
    const [first = '', ...links] = fleet.links;
    const spoiler = toxiproxyUrl ? spoilAtRandom(toxiproxyUrl, [first, ...links], random) : undefined;
    const progress = { killed: 0 };
    const killing = killAtRandom(world, progress);
    // Awaited below; it must not hide why the assets were not made.
    killing.catch(() => undefined);
    await makeAll(world, progress);
    const killed = await killing;
    const spoilt = await spoiler?.stop();

    await untilAllEnd(fleet.base, world.made);
    const audit = await auditAll(world, listeners, receiver);
    for (const listener of listeners) listener.stop();
    const restarts = fleet.processes.reduce((sum, one) => sum + one.restarts(), 0);
    report({ bench: 'chaos', seed: Number(values.seed), assets, kills: killed, spoilt, restarts, ...audit });
    return isGood(audit);
  } finally {
    await fleet.stop();
    receiver.close();
    source.close();
  }
}

type Audit = Awaited<ReturnType<typeof auditAll>>;

function isGood(audit: Audit): boolean {
  const { lost, doubled, disordered, unheard, counted, runs, webhooks, paidPerStage, paidPerClearStage } =
    audit;
  const isHeard = doubled === 0 && disordered === 0 && unheard === 0;
  const isSent = webhooks.missing === 0 && webhooks.open === 0;
  const isPaid = paidPerStage <= maxPaidPerStage && paidPerClearStage <= 1;
  return lost === 0 && isHeard && counted === runs && isSent && isPaid;
}

async function openAccounts({ base, env }: Fleet, hook: string): Promise<Account[]> {
  const accounts: Account[] = [];
  for (let n = 0; n < accountsCount; n += 1) {
    const account = await signUp(base, `chaos-${n}@example.com`);
    await setPlan(account.email, 'team', env);
    const body = {
      webhook_url: hook,
      webhook_events: [
        ...['asset.queued', 'asset.stage_completed', 'asset.completed', 'asset.failed'],
        'asset.retry_scheduled',
      ],
      webhooks_enabled: true,
    };
    const path = `/api/projects/${account.project}/webhooks`;
    await request(base, { method: 'PUT', path, body, headers: { cookie: account.cookie } });
    accounts.push(account);
  }
  return accounts;
}

/** Kills one thing after the other, without warning, at the pace of the assets, and counts what it was. */
async function killAtRandom(
  { fleet, made }: World,
  progress: { killed: number },
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  while (progress.killed < kills) {
    await sleep(minBetweenKillsMs + random() * (maxBetweenKillsMs - minBetweenKillsMs));
    while (progress.killed > (kills * (made.length + 1)) / assets) await sleep(100);
    const target = pick(targets, random);
    if (!(await killOne(fleet, target))) continue;
    counts[target] = (counts[target] ?? 0) + 1;
    progress.killed += 1;
  }
  return counts;
}

/** Answers false when there is none of that kind at this moment. */
async function killOne({ cluster, processes }: Fleet, target: (typeof targets)[number]): Promise<boolean> {
  if (target === 'mongod' || target === 'nats') {
    const name = target === 'mongod' ? await cluster.primary() : pick(['nats-1', 'nats-2', 'nats-3'], random);
    const pid = cluster.pidOf(name ?? '');
    return pid !== undefined && kill(pid);
  }
  const [first, ...rest] = processes.filter(({ name }) => name.startsWith(target));
  return first !== undefined && pick([first, ...rest], random).kill('SIGKILL');
}

function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself in this very moment.
    return false;
  }
}

/** Makes assets at the pace of the kills, and some of them again. */
async function makeAll(world: World, progress: { killed: number }): Promise<void> {
  const { fleet, made } = world;
  for (let n = 0; n < assets; n += 1) {
    while (n > (assets * (progress.killed + 1)) / kills) await sleep(100);
    await untilFewPend(fleet, made);
    const one = await prepare(world, n);
    made.push(one);
    if (random() < regeneratedShare) await regenerate(fleet, pick([one, ...made], random));
  }
}

const ended = new WeakSet<Run>();

async function untilFewPend({ base }: Fleet, made: readonly Run[]): Promise<void> {
  for (;;) {
    const open = made.filter((one) => !ended.has(one));
    if (open.length < maxPending) return;
    for (const one of open) if ((await readAsset(base, one)).status !== 'pending') ended.add(one);
    await sleep(200);
  }
}

async function prepare({ fleet, accounts, source }: World, n: number): Promise<Run> {
  const [first, ...others] = accounts;
  if (!first) throw new Error('accounts were opened');
  const account = pick([first, ...others], random);
  const fault = faults[Math.floor(random() * faults.length)] ?? '';
  const prompt = `clip ${n}${fault === '' ? '' : ` fault:${fault}`}`;
  const { text } = await request(fleet.base, {
    method: 'POST',
    path: '/api/v1/prepare',
    headers: { cookie: account.cookie },
    body: {
      project_id: account.project,
      src: source,
      mode: n % 5 === 0 ? 'loop' : 'animate-in',
      dur_seconds: 2,
      prompt_override: prompt,
    },
  });
  return { id: (JSON.parse(text) as { asset_id: string }).asset_id, account, prompt, fault, runs: 1 };
}

async function regenerate({ base }: Fleet, one: Run): Promise<void> {
  const path = `/api/assets/${one.id}/regenerate`;
  const headers = { cookie: one.account.cookie, 'idempotency-key': `${one.id}-${one.runs}` };
  await request(base, { method: 'POST', path, headers });
  ended.delete(one);
  one.runs = (await readAsset(base, one)).run;
}

async function auditAll({ fleet, accounts, made }: World, listeners: Listener[], receiver: Receiver) {
  const timelines = new Map<Run, AssetEvent[]>();
  for (const one of made) timelines.set(one, await readTimeline(fleet.base, one));
  const open = await untilDelivered(fleet);
  // What was heard live may end in the middle; what is told from the beginning is all there is.
  const streams = [];
  for (const account of accounts) streams.push(await readStream(fleet.base, account));
  const told = streams.flat();
  const flaws = [...listeners.map(({ events }) => events), ...streams].map(countFlaws);
  const heard = new Set(listeners.flatMap(({ events }) => events.map(factKey)));
  const known = new Map([...[...timelines.values()].flat(), ...told].map((event) => [factKey(event), event]));
  const unheard = [...known].filter(([key]) => !heard.has(key));
  let counted = 0;
  for (const account of accounts) counted += await readUsed(fleet.base, account);
  return {
    runs: new Set(told.filter(({ event }) => event === 'queued').map(runKey)).size,
    ...countEnds([...timelines.values()]),
    counted,
    facts: told.length,
    doubled: flaws.reduce((sum, one) => sum + one.doubled, 0),
    disordered: flaws.reduce((sum, one) => sum + one.disordered, 0),
    unheard: unheard.length,
    unheardFirst: unheard.slice(0, maxShown).map(([key, { ts, project_id }]) => `${project_id} ${ts} ${key}`),
    failures: countCodes([...timelines.values()].flat()),
    webhooks: { ...countWebhooks(told, receiver), open },
    ...countPaid(fleet, made, told),
  };
}

const runKey = ({ asset_id, run }: AssetEvent) => `${asset_id}:${run}`;

/** Waits for the deliveries that are under way. Answers how many do not arrive. */
async function untilDelivered({ env }: Fleet): Promise<number> {
  const client = await new MongoClient(env['MONGODB_URL'] ?? '').connect();
  try {
    const deliveries = client.db(env['MONGODB_DATABASE']).collection('deliveries');
    const givenUpAt = performance.now() + webhooksMs;
    for (;;) {
      const open = await deliveries.countDocuments({ state: { $ne: 'delivered' } });
      if (open === 0 || performance.now() > givenUpAt) return open;
      await sleep(500);
    }
  } finally {
    await client.close();
  }
}

/** Facts that a webhook tells of, and those whose webhook has not arrived. */
function countWebhooks(told: readonly AssetEvent[], { arrived, total }: Receiver) {
  const due = new Map<string, number>();
  for (const event of told) {
    const type = webhookTypes[event.event];
    if (type) due.set(`${event.asset_id}:${type}`, (due.get(`${event.asset_id}:${type}`) ?? 0) + 1);
  }
  let missing = 0;
  for (const [key, count] of due) missing += Math.abs(count - (arrived.get(key)?.size ?? 0));
  return { due: [...due.values()].reduce((sum, count) => sum + count, 0), missing, received: total() };
}

const webhookTypes: Partial<Record<AssetEvent['event'], string>> = {
  queued: 'asset.queued',
  stage_completed: 'asset.stage_completed',
  ready: 'asset.completed',
  failed: 'asset.failed',
  retry_scheduled: 'asset.retry_scheduled',
};

const clipStages = new Set<string | undefined>(['stage1', 'stage2', 'single']);
const ambiguousNames = new Set<string>(ambiguous);

/**
 * Clips that were paid, over stages that were begun. A clip that was never asked for by its id is one whose submit
 * had no answer: the service does not know of it, whether the prompt ordered that, or a kill or a cut link did it.
 */
function countPaid({ providers }: Fleet, made: readonly Run[], told: readonly AssetEvent[]) {
  const stages = new Map<string, Set<string>>();
  for (const { asset_id, run: n, event, stage } of told) {
    if (event !== 'stage_started' || !clipStages.has(stage)) continue;
    stages.set(asset_id, (stages.get(asset_id) ?? new Set()).add(`${n}:${stage}`));
  }
  const paidBy = new Map<string, number>();
  const unanswered = new Set<string>();
  for (const { prompt, isPaid, reads } of providers.asked().predictions) {
    if (!isPaid) continue;
    paidBy.set(prompt, (paidBy.get(prompt) ?? 0) + 1);
    if (reads === 0) unanswered.add(prompt);
  }
  const sum = (some: readonly Run[]) => ({
    paid: some.reduce((total, { prompt }) => total + (paidBy.get(prompt) ?? 0), 0),
    stages: some.reduce((total, { id }) => total + (stages.get(id)?.size ?? 0), 0),
  });
  const all = sum(made);
  const clear = sum(
    made.filter(({ fault, prompt }) => !ambiguousNames.has(fault) && !unanswered.has(prompt)),
  );
  return {
    paid: all.paid,
    stages: all.stages,
    paidPerStage: all.paid / all.stages,
    clearStages: clear.stages,
    paidPerClearStage: clear.paid / clear.stages,
    paidTwice: made
      .filter(({ prompt, id }) => (paidBy.get(prompt) ?? 0) > (stages.get(id)?.size ?? 0))
      .map(({ id, prompt }) => `${id} ${prompt}`),
  };
}

function countCodes(events: readonly AssetEvent[]): Record<string, number> {
  const codes: Record<string, number> = {};
  for (const { event, error_code: code = '' } of events)
    if (isTerminal(event) && event === 'failed') codes[code] = (codes[code] ?? 0) + 1;
  return codes;
}

type Receiver = {
  port: number;
  /** Ids that have arrived, by asset and type. */
  arrived: Map<string, Set<string>>;
  total(): number;
  close(): void;
};

/** An endpoint that fails now and then, and once in a while hangs. */
async function startReceiver(): Promise<Receiver> {
  const arrived = new Map<string, Set<string>>();
  let total = 0;
  const server = createServer(async (incoming, response) => {
    try {
      const { id, type, asset_id } = JSON.parse(Buffer.concat(await incoming.toArray()).toString()) as {
        id: string;
        type: string;
        asset_id: string;
      };
      const chance = random();
      if (chance < 0.05) return void response.writeHead(500).end();
      if (chance < 0.08) return void incoming.socket.destroy();
      if (chance < 0.09) return;
      total += 1;
      const key = `${asset_id}:${type}`;
      arrived.set(key, (arrived.get(key) ?? new Set()).add(id));
      response.writeHead(204).end();
    } catch {
      // Cut off on the way.
      incoming.socket.destroy();
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    arrived,
    total: () => total,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

process.exitCode = (await run()) ? 0 : 1;
