/**
 * `npm run bench quota -- --times 20`: three front ends in processes of their own race for the last runs of a month.
 *
 * 500 first hits of new proxy URLs at once, of one project whose user has exactly 100 runs left: exactly 100 are
 * accepted, the others answered 429, 100 assets made. Prints one JSON line; exit code 1 when one round is not exact.
 * With MONGODB_URL and NATS_URL it uses those servers, else it starts its own.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { plans } from '../../schemas/plans.ts';
import { createLog } from '../log.ts';
import { openStore, type Store } from '../store/client.ts';
import { newId } from '../store/ids.ts';
import { report, spread } from './cpu.ts';
import { endFront, type Front, startFront, startServers, untilReady } from './fronts.ts';

const processes = 3;
const requests = 500;
const left = plans.pro.generationsPerMonth;
const maxRepeats = 20;
const origin = 'https://example.com';

const { values } = parseArgs({ options: { times: { type: 'string', default: '20' } } });
const times = Number(values.times);

type Round = {
  accepted: number;
  refused: number;
  others: string[];
  repeats: number;
  used: number;
  assets: number;
  ms: number;
};

async function run(): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'quota-'));
  const { mongodbUrl, natsUrl, stop } = await startServers(join(folder, 'servers'));
  const database = newId('race');
  const store = await openStore(mongodbUrl, database, { log: createLog('silent') });
  const fronts: Front[] = [];
  try {
    const shared = {
      MONGODB_URL: mongodbUrl,
      NATS_URL: natsUrl,
      MONGODB_DATABASE: database,
      NATS_PREFIX: `${database}.`,
    };
    for (let n = 0; n < processes; n += 1) fronts.push(await startFront(join(folder, String(n)), shared));
    await Promise.all(fronts.map(untilReady));
    const rounds: Round[] = [];
    for (let n = 0; n < times; n += 1) rounds.push(await race(store, fronts, n));
    const inexact = rounds.filter((round) => !isExact(round));
    const repeats = rounds.reduce((sum, round) => sum + round.repeats, 0);
    const ms = spread(rounds.map((round) => round.ms));
    report({
      bench: 'quota',
      rounds: rounds.length,
      processes,
      requests,
      left,
      exact: rounds.length - inexact.length,
      repeats,
      ms,
      inexact,
    });
    return inexact.length === 0;
  } finally {
    await Promise.all(fronts.map(endFront));
    await store.close();
    await stop();
    await rm(folder, { recursive: true, force: true });
  }
}

function isExact({ accepted, refused, others, used, assets }: Round): boolean {
  return (
    accepted === left &&
    refused === requests - left &&
    others.length === 0 &&
    used === left &&
    assets === left
  );
}

/** One user, one project, all requests at once, spread over the processes. */
async function race(store: Store, fronts: Front[], round: number): Promise<Round> {
  const userId = newId('usr');
  const projectId = newId('prj');
  const proxyKey = `pk_${newId('x').slice(2)}race`;
  const createdTs = Date.now();
  await store.accounts.create(
    { id: userId, email: `${userId}@example.com`, name: 'Race', passwordHash: null, createdTs },
    { id: projectId, userId, name: 'Race', createdTs, isDefault: true },
  );
  await store.users.setPlan(userId, 'pro', 1);
  await store.projects.configureProxy(
    projectId,
    userId,
    { allowedOrigins: [origin] },
    { proxyKey },
    createdTs,
  );

  const agent = new Agent({ keepAlive: true, maxSockets: requests });
  const startedAt = performance.now();
  const answers = await Promise.all(
    Array.from({ length: requests }, (_, n) => {
      const source = Buffer.from(`https://example.com/${round}/${n}.png`).toString('base64url');
      return askUntilAnswered(`${fronts[n % fronts.length]?.base}/v1/${proxyKey}/${source}.mp4`, agent);
    }),
  );
  const ms = performance.now() - startedAt;
  agent.destroy();
  const accepted = answers.filter(({ status }) => status === 202).length;
  const refused = answers.filter(({ status, body }) => status === 429 && isRefusal(body)).length;
  const others = answers.filter(({ status, body }) => status !== 202 && !(status === 429 && isRefusal(body)));
  return {
    accepted,
    refused,
    others: [...new Set(others.map(({ status, body }) => `${status} ${body}`))],
    used: (await store.quota.find(userId))?.used ?? 0,
    assets: await store.assets.count([projectId]),
    repeats: answers.reduce((sum, { repeats }) => sum + repeats, 0),
    ms,
  };
}

/** The body that the specification has for an exhausted quota; on a paid plan its text says why. */
function isRefusal(body: string): boolean {
  const { error, upgrade_url } = JSON.parse(body) as Record<string, unknown>;
  return (
    String(error).startsWith('monthly limit reached') && String(upgrade_url).endsWith('/dashboard/billing')
  );
}

/** Like a client: what is answered 503 is sent again when it says. A slow machine is not what is looked at here. */
async function askUntilAnswered(url: string, agent: Agent): Promise<Answered & { repeats: number }> {
  for (let repeats = 0; ; repeats += 1) {
    const answer = await ask(url, agent);
    if (answer.status !== 503 || repeats === maxRepeats) return { ...answer, repeats };
    await sleep(answer.retryAfterMs);
  }
}

type Answered = { status: number; body: string; retryAfterMs: number };

/** Not fetch: its pool would send a few at a time. */
function ask(url: string, agent: Agent): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, headers: { origin } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        const retryAfterMs = Number(answer.headers['retry-after'] ?? 1) * 1_000;
        resolve({ status: answer.statusCode ?? 0, body, retryAfterMs });
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

process.exitCode = (await run()) ? 0 : 1;
