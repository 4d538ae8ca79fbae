/**
 * `npm run bench rotation -- --times 100`: a project's key is rotated under load, over two front ends in processes of
 * their own. Prints one line of JSON: how long after the answer to the rotation the last request with the old key was
 * accepted, by each process. Exit code 1 when one was later than a second.
 *
 * With MONGODB_URL and NATS_URL it uses those servers, else it starts its own.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { newId } from '../store/ids.ts';
import { report, spread } from './cpu.ts';
import { endFront, type Front, startFront, startServers, untilReady } from './fronts.ts';

const processes = 2;
/** Clients of each process, each with one request under way. */
const clients = 8;
/** Load before and after the rotation. */
const beforeMs = 100;
const afterMs = 1_500;
const limitMs = 1_000;
const origin = 'https://example.com';
const source = Buffer.from('https://images.example.com/cat.png').toString('base64url');

const { values } = parseArgs({ options: { times: { type: 'string', default: '100' } } });
const times = Number(values.times);

/** `acceptedMs`: when the last request that was accepted with the old key was sent, after the rotation's answer. */
type Round = { acceptedMs: number; refused: number; accepted: number };

async function run(): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'rotation-'));
  const { mongodbUrl, natsUrl, stop } = await startServers(join(folder, 'servers'));
  const name = newId('rotation');
  const shared = {
    MONGODB_URL: mongodbUrl,
    NATS_URL: natsUrl,
    MONGODB_DATABASE: name,
    NATS_PREFIX: `${name}.`,
    RATE_LIMIT_FACTOR: '100',
  };
  const fronts: Front[] = [];
  try {
    for (let n = 0; n < processes; n += 1) fronts.push(await startFront(join(folder, String(n)), shared));
    await Promise.all(fronts.map(untilReady));
    const owner = await signUp(fronts[0]?.base ?? '');
    const rounds: Round[] = [];
    for (let n = 0; n < times; n += 1) rounds.push(await rotate(owner, fronts));
    const late = rounds.filter(({ acceptedMs }) => acceptedMs > limitMs).length;
    const sum = (field: 'accepted' | 'refused') => rounds.reduce((all, round) => all + round[field], 0);
    report({
      bench: 'rotation',
      rounds: rounds.length,
      processes,
      late,
      lastAcceptedMs: spread(rounds.map(({ acceptedMs }) => acceptedMs)),
      accepted: sum('accepted'),
      refused: sum('refused'),
    });
    return late === 0;
  } finally {
    await Promise.all(fronts.map(endFront));
    await stop();
    await rm(folder, { recursive: true, force: true });
  }
}

type Owner = { base: string; cookie: string; projectId: string; key: string };

async function signUp(base: string): Promise<Owner> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({
    email: 'rotation@example.com',
    password: 'correct horse battery',
    name: 'R',
  });
  const signedUp = await fetch(`${base}/api/user/signup`, { method: 'POST', headers, body });
  const cookie = signedUp.headers.get('set-cookie')?.split(';')[0] ?? '';
  const listed = await fetch(`${base}/api/projects`, { headers: { cookie } });
  const { projects } = (await listed.json()) as { projects: { id: string }[] };
  const projectId = projects[0]?.id ?? '';
  const saved = await fetch(`${base}/api/projects/${projectId}/proxy-config`, {
    method: 'PUT',
    headers: { ...headers, cookie },
    body: JSON.stringify({ allowed_origins: [origin] }),
  });
  const { project } = (await saved.json()) as { project: { proxy_key: string } };
  return { base, cookie, projectId, key: project.proxy_key };
}

/** One rotation, with all clients asking for the same source with the old key before, during and after it. */
async function rotate(owner: Owner, fronts: Front[]): Promise<Round> {
  const agent = new Agent({ keepAlive: true });
  const { key } = owner;
  let isOver = false;
  const sent: { at: number; isAccepted: boolean }[] = [];
  const client = async ({ base }: Front): Promise<void> => {
    while (!isOver) {
      const at = performance.now();
      const status = await ask(`${base}/v1/${key}/${source}.mp4`, agent);
      sent.push({ at, isAccepted: status !== 403 });
    }
  };
  const asking = fronts.flatMap((front) => Array.from({ length: clients }, () => client(front)));
  await sleep(beforeMs);
  const answer = await fetch(`${owner.base}/api/projects/${owner.projectId}/keys/rotate?which=proxy`, {
    method: 'POST',
    headers: { cookie: owner.cookie },
  });
  const answeredAt = performance.now();
  const { proxy_key: next } = (await answer.json()) as { proxy_key?: string };
  if (next === undefined) throw new Error(`the rotation was answered ${answer.status}`);
  owner.key = next;
  await sleep(afterMs);
  isOver = true;
  await Promise.all(asking);
  agent.destroy();
  const accepted = sent.filter(({ isAccepted }) => isAccepted);
  if (!accepted.some(({ at }) => at < answeredAt)) throw new Error('nothing was accepted with the key');
  const lastAt = accepted.reduce((last, { at }) => Math.max(last, at), 0);
  return {
    acceptedMs: lastAt - answeredAt,
    accepted: accepted.length,
    refused: sent.length - accepted.length,
  };
}

/** HEAD: it starts nothing, so every status but 403 says that the key was accepted. */
function ask(url: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'HEAD', agent, headers: { origin } }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    });
    sent.on('error', reject);
    sent.end();
  });
}

process.exitCode = (await run()) ? 0 : 1;
