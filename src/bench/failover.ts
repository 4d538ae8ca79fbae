/**
 * `npm run failover`: kills the primary of MongoDB and the leader of NATS, in turn, under load.
 *
 *   npm run failover -- [--kills 6] [--seconds 10] [--data folder]
 *
 * Clients read and prepare all the time without asking again; listeners follow. Passes when no client met an error,
 * facts never paused for longer than five seconds, and nothing was lost. Prints one JSON line; exit code 1 otherwise.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  type Account,
  countEnds,
  countFlaws,
  follow,
  type Listener,
  type Owned,
  readTimeline,
  serveSource,
  setPlan,
  signUp,
  tryOnce,
  untilAllEnd,
} from './client.ts';
import { quantile, report } from './cpu.ts';
import { type Fleet, startFleet } from './fleet.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '10' },
    data: { type: 'string' },
  },
});
const kills = Number(values.kills);
/** Time between kills: an election, and then life as before. */
const betweenMs = Number(values.seconds) * 1_000;
const maxGapMs = 5_000;
const clients = 4;
const clientPauseMs = 150;
/** What a patient client waits for an answer. */
const clientMs = 15_000;
const preparePauseMs = 400;

type Load = {
  errors: string[];
  answered: number;
  times: number[];
  accepted: Owned[];
  kills: { kind: 'mongod' | 'nats'; at: number }[];
};

async function run(): Promise<boolean> {
  const source = await serveSource();
  const fleet = await startFleet({ data: values.data });
  try {
    const account = await signUp(fleet.base, 'failover@example.com');
    await setPlan(account.email, 'team', fleet.env);
    const listener = follow(fleet.base, account);
    const load = await underLoad(fleet, account, `${source.url}/photo.jpg`);
    await untilAllEnd(fleet.base, load.accepted);
    const timelines = [];
    for (const asset of load.accepted) timelines.push(await readTimeline(fleet.base, asset));
    listener.stop();
    const { longest, usual, after } = gaps(listener, load.kills);
    const audit = { ...countEnds(timelines), ...countFlaws(listener.events) };
    report({
      bench: 'failover',
      kills,
      requests: load.answered,
      errors: load.errors.length,
      slowestMs: Math.round(Math.max(...load.times)),
      p50Ms: Math.round(quantile(load.times, 0.5)),
      longestGapMs: Math.round(longest),
      p50GapMs: Math.round(usual),
      longestGapAfterMs: after,
      maxGapMs,
      assets: load.accepted.length,
      ...audit,
    });
    for (const error of new Set(load.errors)) console.error(error);
    const isWhole = audit.lost === 0 && audit.doubled === 0 && audit.disordered === 0;
    return load.errors.length === 0 && longest <= maxGapMs && isWhole;
  } finally {
    await fleet.stop();
    source.close();
  }
}

/** Kills while clients ask, and a little longer. */
async function underLoad(fleet: Fleet, account: Account, src: string): Promise<Load> {
  const load: Load = { errors: [], answered: 0, times: [], accepted: [], kills: [] };
  const ending = new AbortController();
  const running = [
    ...Array.from({ length: clients }, () => read(fleet, account, load, ending.signal)),
    prepare(fleet, account, { src, load, signal: ending.signal }),
  ];
  await sleep(betweenMs);
  for (let n = 0; n < kills; n += 1) {
    const { cluster } = fleet;
    const kind = n % 2 === 0 ? 'mongod' : 'nats';
    const name = kind === 'mongod' ? await cluster.primary() : await cluster.leader();
    const pid = cluster.pidOf(name ?? '');
    if (pid !== undefined) process.kill(pid, 'SIGKILL');
    load.kills.push({ kind, at: performance.now() });
    await sleep(betweenMs);
  }
  ending.abort();
  await Promise.all(running);
  return load;
}

async function read({ base }: Fleet, { cookie, project }: Account, load: Load, signal: AbortSignal) {
  const paths = ['/api/projects', '/api/user/me', `/api/projects/${project}`, '/api/assets?limit=5'];
  for (let n = 0; !signal.aborted; n += 1) {
    await ask(base, load, { path: paths[n % paths.length] ?? '', headers: { cookie } });
    await sleep(clientPauseMs);
  }
}

async function prepare(
  { base }: Fleet,
  account: Account,
  { src, load, signal }: { src: string; load: Load; signal: AbortSignal },
) {
  for (let seed = 0; !signal.aborted; seed += 1) {
    const body = { project_id: account.project, src, mode: 'animate-in', dur_seconds: 2, seed };
    const headers = { cookie: account.cookie };
    const text = await ask(base, load, { method: 'POST', path: '/api/v1/prepare', body, headers });
    if (text) load.accepted.push({ id: (JSON.parse(text) as { asset_id: string }).asset_id, account });
    await sleep(preparePauseMs);
  }
}

/** The answer's text, if it is one that a client likes. */
async function ask(
  base: string,
  load: Load,
  call: Parameters<typeof tryOnce>[1],
): Promise<string | undefined> {
  const from = performance.now();
  const { status, text } = await tryOnce(base, call, clientMs);
  load.times.push(performance.now() - from);
  load.answered += 1;
  if (status > 0 && status < 400) return text;
  load.errors.push(`${call.method ?? 'GET'} ${call.path.split('?')[0]}: ${status} ${text}`);
  return undefined;
}

/** Times between facts, in ms, of a listener that was told of some all the time; and the longest after kills of each kind. */
function gaps({ times }: Listener, killed: Load['kills']) {
  const between = times.slice(1).map((time, n) => ({ ms: time - (times[n] ?? time), until: time }));
  const after: Record<string, number> = {};
  for (const { kind, at } of killed) {
    const near = between.filter(({ until }) => until > at && until - at < betweenMs);
    after[kind] = Math.round(Math.max(after[kind] ?? 0, ...near.map(({ ms }) => ms)));
  }
  const all = between.map(({ ms }) => ms);
  return { longest: Math.max(...all), usual: quantile(all, 0.5), after };
}

process.exitCode = (await run()) ? 0 : 1;
