/**
 * `npm run fuzz`: sends spoilt requests to the service as a process of its own, and looks whether it minds.
 *
 *   npm run fuzz -- [--requests 10000] [--seed 1]
 *
 * Requests are valid ones of every route of the service's own OpenAPI document, spoilt by fuzz-requests.ts. Passes
 * when the process lives and logs no error, no answer is a 5xx that is not meant, every connection is answered or
 * closed within 15 s, healthy requests are answered all the while, and memory, descriptors and temporary files are
 * afterwards about what they were. Prints one JSON line; exit code 1 otherwise.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { OpenApiDocument } from '../../schemas/openapi.ts';
import { freePort } from '../demo/free-port.ts';
import { createRandom } from '../random.ts';
import { quantile, report, rssMbOf } from './cpu.ts';
import { toExamples } from './examples.ts';
import { pick, type Spoilt, spoil, toValid, type Valid } from './fuzz-requests.ts';

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '10000' }, seed: { type: 'string', default: '1' } },
});
const requests = Number(values.requests);
const seed = Number(values.seed);

/** Many connections wait for the parser's ten seconds: they must not hold up the others. */
const atOnce = 250;
const connectionMs = 15_000;
/** Most silent connections are half closed after so long, so that a run ends today. */
const patienceMs = 700;
const patientShare = 0.2;
/** A busy machine is slow; a blocked server is slower. */
const maxHealthyMs = 5_000;
const maxGrowthMb = 200;
const settleMs = 30_000;
const maxShown = 10;

/** What is known at the end. */
type Tally = { outcomes: Record<string, number>; faults: string[]; healthyMs: number[] };

type Rig = {
  child: ChildProcess;
  pid: number;
  port: number;
  base: string;
  dataDir: string;
  errors: string[];
};

async function run(): Promise<boolean> {
  const rig = await start();
  const tally: Tally = { outcomes: {}, faults: [], healthyMs: [] };
  const probing = new AbortController();
  try {
    const probe = probeHealth(rig, await signUp(rig), tally, probing.signal);
    // Memory is measured of a process that has been at work.
    await sendAll(rig, Math.ceil(requests / 10), seed + 1_000_000, 0, tally);
    const before = measure(rig.pid);
    await sendAll(rig, requests, seed, patientShare, tally);
    probing.abort();
    await probe;
    const { growthMb, descriptors, left } = await settle(rig, before);
    if (rig.child.exitCode !== null) tally.faults.push(`the process ended (${rig.child.exitCode})`);
    if (growthMb > maxGrowthMb) tally.faults.push(`memory grew by ${growthMb} MB`);
    if (descriptors > 0) tally.faults.push(`${descriptors} descriptors are left`);
    if (left.length > 0) tally.faults.push(`temporary files are left: ${left.slice(0, maxShown).join(', ')}`);
    const slowest = Math.max(...tally.healthyMs);
    if (slowest > maxHealthyMs) tally.faults.push(`a healthy request took ${slowest} ms`);
    tally.faults.push(...rig.errors.map((line) => `logged: ${line}`));
    report({
      bench: 'fuzz',
      seed,
      requests,
      outcomes: tally.outcomes,
      healthy: {
        count: tally.healthyMs.length,
        medianMs: Math.round(quantile(tally.healthyMs, 0.5)),
        p99Ms: Math.round(quantile(tally.healthyMs, 0.99)),
        maxMs: Math.round(slowest),
      },
      growthMb,
      descriptors,
      temporaryFiles: left.length,
      faultCount: tally.faults.length,
      faults: tally.faults.slice(0, maxShown),
    });
    return tally.faults.length === 0;
  } finally {
    probing.abort();
    rig.child.kill('SIGTERM');
    if (rig.child.exitCode === null) await once(rig.child, 'exit');
    await rm(rig.dataDir, { recursive: true, force: true });
  }
}

async function start(): Promise<Rig> {
  const dataDir = await mkdtemp(join(tmpdir(), 'fuzz-'));
  const port = await freePort();
  const env = {
    ...process.env,
    DATA_DIR: dataDir,
    PORT: String(port),
    LOG_LEVEL: 'error',
    RATE_LIMIT_FACTOR: '100000',
    OPERATOR_EMAILS: operators.join(','),
  };
  const main = fileURLToPath(new URL('../main.js', import.meta.url));
  const child = spawn(process.execPath, ['--unhandled-rejections=strict', main], { env });
  const errors: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      errors.push(...text.split('\n').filter(isError));
    });
  }
  const base = `http://127.0.0.1:${port}`;
  while (
    !(await fetch(`${base}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null) throw new Error(`the service does not start: ${errors.join('\n')}`);
    await sleep(100);
  }
  return { child, pid: child.pid ?? 0, port, base, dataDir, errors };
}

/** Answers that are 5xx by contract are logged too. */
function isError(line: string): boolean {
  return line !== '' && !line.startsWith('Ready at') && !/"status":50[23],/.test(line) && !isCrawl(line);
}

/** Specification 7: 500 when a site cannot be looked at. */
function isCrawl(text: string): boolean {
  return /\/(detect-brand|deep-crawl)\b/.test(text);
}

/** Each user is an operator, so that the routes of operators are reached. */
const operators = Array.from({ length: 1_000 }, (_, n) => `fuzz-${n}@example.com`);
let userCount = 0;

type User = { cookie: string; known: Record<string, string> };

/** A user with a project, its key, and an asset whose source cannot be fetched: nothing is rendered. */
async function signUp({ base }: Rig): Promise<User> {
  const json = { 'content-type': 'application/json' };
  const signedUp = await fetch(`${base}/api/user/signup`, {
    method: 'POST',
    headers: json,
    body: JSON.stringify({
      email: operators[userCount++],
      password: 'correct horse battery',
      name: 'Fuzz',
    }),
  });
  const cookie = signedUp.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${base}${path}`, {
      method,
      headers: { cookie, ...(body ? json : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return (await answer.json()) as Record<string, never>;
  };
  const projectId: string = (await call('GET', '/api/projects'))['projects']?.[0]?.['id'] ?? '';
  const config = { allowed_origins: ['http://localhost'] };
  const { project } = await call('PUT', `/api/projects/${projectId}/proxy-config`, config);
  const src = 'http://127.0.0.1:1025/picture.png';
  const asset: string =
    (await call('POST', '/api/v1/prepare', { project_id: projectId, src }))['asset_id'] ?? '';
  const key: string = project?.['proxy_key'] ?? '';
  return {
    cookie,
    known: { projectId, project_id: projectId, assetId: asset, asset_id: asset, asset, id: asset, key, src },
  };
}

/** Sends a number of spoilt requests, some hundred at a time. */
async function sendAll(rig: Rig, count: number, from: number, patient: number, tally: Tally): Promise<void> {
  const random = createRandom(from);
  const document = (await (await fetch(`${rig.base}/openapi.json`)).json()) as OpenApiDocument;
  const image = await readFile(new URL('../demo/photo.jpg', import.meta.url));
  let valid = await validRequests(rig, document, image);
  let left = count;
  const sendSome = async () => {
    while (left > 0 && rig.child.exitCode === null) {
      left -= 1;
      const spoilt = spoil(pick(valid, random), valid, random);
      const isPatient = random() < patient;
      await sendOne(rig.port, spoilt, isPatient, tally);
    }
  };
  const keepUser = async () => {
    // Some requests do what they say: sign out, delete the project.
    while (left > 0 && rig.child.exitCode === null) {
      await sleep(500);
      if (!(await isIntact(rig, valid))) valid = await validRequests(rig, document, image);
    }
  };
  await Promise.all([keepUser(), ...Array.from({ length: Math.min(atOnce, count) }, sendSome)]);
}

async function validRequests(rig: Rig, document: OpenApiDocument, image: Buffer): Promise<Valid[]> {
  const { cookie, known } = await signUp(rig);
  const { key = '', asset = '', src = '' } = known;
  const proxied = [
    `/v1/${key}/a/${asset}.mp4`,
    `/v1/${key}/${Buffer.from(src).toString('base64url')}.jpg?wait_ms=1`,
  ];
  return [
    ...toExamples(document, known).map((example) => toValid(example, cookie, image)),
    ...proxied.map(
      (target): Valid => ({
        method: 'GET',
        target,
        version: 'HTTP/1.1',
        headers: [
          ['Host', 'localhost'],
          ['Origin', 'http://localhost'],
        ],
        body: Buffer.alloc(0),
      }),
    ),
  ];
}

async function isIntact({ base }: Rig, valid: Valid[]): Promise<boolean> {
  const one = valid.find(({ method, target }) => method === 'GET' && /^\/api\/projects\/[^/]+$/.test(target));
  const cookie = one?.headers.find(([name]) => name === 'Cookie')?.[1] ?? '';
  return (await fetch(`${base}${one?.target}`, { headers: { cookie } })).status === 200;
}

/** Sends one on a connection of its own until it is answered or closed. */
async function sendOne(
  port: number,
  { pieces, delivery }: Spoilt,
  isPatient: boolean,
  tally: Tally,
): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  let isClosed = false;
  let leave: () => void = () => undefined;
  const over = new Promise<string>((resolve) => {
    const timers = [
      setTimeout(() => {
        tally.faults.push(
          `neither answered nor closed (${delivery}): ${JSON.stringify(Buffer.concat(pieces).toString('latin1').slice(0, 300))}`,
        );
        resolve('nothing');
      }, connectionMs),
      setTimeout(() => !isPatient && text === '' && socket.end(), patienceMs + pieces.length * slowMs),
    ];
    const end = (outcome: string) => {
      for (const timer of timers) clearTimeout(timer);
      resolve(outcome);
    };
    leave = () => end('closed');
    socket.on('data', (data) => {
      if (text.length < maxTextChars) text += data.toString('latin1');
      // What else is pipelined follows at once.
      if (text.startsWith('HTTP/1.1 ')) setTimeout(() => end('answered'), 20);
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      isClosed = true;
      end(text === '' ? 'closed' : 'answered');
    });
  });
  await deliver(socket, pieces, delivery, () => isClosed);
  // A reset while it connects is never told of.
  if (delivery === 'reset') leave();
  const outcome = await over;
  socket.destroy();
  judge(text, outcome, pieces, tally);
}

const maxTextChars = 100_000;
const slowMs = 150;

async function deliver(
  socket: ReturnType<typeof connect>,
  pieces: Buffer[],
  delivery: Spoilt['delivery'],
  isClosed: () => boolean,
): Promise<void> {
  if (delivery === 'whole' || delivery === 'half closed') {
    socket.write(Buffer.concat(pieces));
    if (delivery === 'half closed') socket.end();
    return;
  }
  const sent = delivery === 'reset' ? pieces.slice(0, Math.ceil(pieces.length / 2)) : pieces;
  for (const piece of sent) {
    if (isClosed() || !socket.writable) return;
    socket.write(piece);
    await sleep(delivery === 'slowly' ? slowMs : 1);
  }
  if (delivery === 'reset') socket.resetAndDestroy();
}

function judge(text: string, outcome: string, pieces: Buffer[], { outcomes, faults }: Tally): void {
  const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) => status ?? '');
  const name = statuses[0] === undefined ? outcome : `${statuses[0][0]}xx`;
  outcomes[name] = (outcomes[name] ?? 0) + 1;
  const sent = Buffer.concat(pieces).toString('latin1').slice(0, 2_000);
  const isMeant = (status: string) =>
    !status.startsWith('5') ||
    (status === '502' && text.includes('last generation failed')) ||
    (status === '503' && /"busy"|"failing"/.test(text)) ||
    (status === '500' && isCrawl(sent) && !text.includes('internal error'));
  if (!statuses.every(isMeant))
    faults.push(`${text.slice(0, 300)} for ${JSON.stringify(sent.slice(0, 300))}`);
}

/**
 * Asks for something sensible all the while. Timed is what needs the process alone: how fast the store is says
 * nothing of what the requests do to it.
 */
async function probeHealth(
  { base, child }: Rig,
  { cookie }: User,
  tally: Tally,
  signal: AbortSignal,
): Promise<void> {
  const ask = async (path: string) => {
    const status = await fetch(`${base}${path}`, { headers: { cookie } }).then((one) => one.status, String);
    if (status !== 200) tally.faults.push(`a healthy request was answered ${status}`);
  };
  while (!signal.aborted && child.exitCode === null) {
    const started = performance.now();
    await ask('/healthz');
    tally.healthyMs.push(performance.now() - started);
    await ask('/api/projects');
    await sleep(50);
  }
}

const measure = (pid: number) => ({ rssMb: rssMbOf(pid), descriptors: descriptorsOf(pid) });

const descriptorsOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

/** Connections that were kept alive, and those to the store, come and go. */
const spareDescriptors = 40;

/** Waits until what belonged to the requests is gone; answers what is not. */
async function settle({ pid, dataDir, child }: Rig, before: { rssMb: number; descriptors: number }) {
  const temporary = () =>
    [join(dataDir, 'tmp'), join(dataDir, 'storage', 'temp')].flatMap((folder) => {
      try {
        return readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true }).filter((one) =>
          one.isFile(),
        );
      } catch {
        // Made when it is first needed.
        return [];
      }
    });
  const spare = () =>
    child.exitCode === null ? descriptorsOf(pid) - before.descriptors - spareDescriptors : 0;
  for (const end = Date.now() + settleMs; Date.now() < end && (spare() > 0 || temporary().length > 0); )
    await sleep(200);
  const growthMb = child.exitCode === null ? Math.round(rssMbOf(pid) - before.rssMb) : 0;
  return { growthMb, descriptors: Math.max(0, spare()), left: temporary().map(({ name }) => name) };
}

process.exit((await run()) ? 0 : 1);
