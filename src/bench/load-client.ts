/** What the load model does to a service: requests of the proxy, streams, prepares, and a receiver of webhooks. */
import { once } from 'node:events';
import { Agent, createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, verifyWebhook } from '../client/client.ts';
import { createRandom } from '../random.ts';

/** What one kind of work came to. */
export type Tally = { done: number; latenciesMs: number[]; errors: string[] };

const newTally = (): Tally => ({ done: 0, latenciesMs: [], errors: [] });
/** Enough for quantiles; a long run keeps no more. */
const maxLatencies = 50_000;
const maxErrors = 20;

export function note(tally: Tally, startedAt: number): void {
  tally.done += 1;
  if (tally.latenciesMs.length < maxLatencies) tally.latenciesMs.push(performance.now() - startedAt);
}

export function fault(tally: Tally, text: string): void {
  if (tally.errors.length < maxErrors) tally.errors.push(text.slice(0, 200));
}

// ── The proxy ───────────────────────────────────────────────────────────────────────────────────

type HitOptions = {
  base: string;
  key: string;
  origin: string;
  assetIds: readonly string[];
  /** Connections that ask at once. */
  connections: number;
  /** Requests a second of all of them together; without it as many as they can. */
  perSecond?: number;
  isOver(): boolean;
};

/** Players ask for the start of a clip, come back for what they have, and some for all of it. */
const conditionalShare = 0.15;
const rangeShare = 0.25;
const rangeBytes = 65_536;

/** Requests of the mp4 of assets, a few of them far more often than the others, until it is over. */
export async function hitProxy(options: HitOptions): Promise<Tally> {
  const { base, key, origin, assetIds, connections, perSecond, isOver } = options;
  const tally = newTally();
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const random = createRandom(7);
  const choose = createZipf(assetIds.length, random);
  const etags = new Map<number, string>();
  const pauseMs = perSecond === undefined ? 0 : (connections * 1_000) / perSecond;
  const ask = async () => {
    const index = choose();
    const headers = headersOf(origin, random(), etags.get(index));
    const startedAt = performance.now();
    const url = `${base}/v1/${key}/a/${assetIds[index]}.mp4`;
    try {
      const { status, etag } = await askFor(url, headers, agent);
      if (status === expected(headers)) note(tally, startedAt);
      else fault(tally, `${status} for ${url}`);
      if (etag !== undefined) etags.set(index, etag);
    } catch (cause) {
      fault(tally, (cause as Error).message);
    }
  };
  const worker = async () => {
    for (let dueAt = performance.now(); !isOver(); ) {
      await ask();
      dueAt += pauseMs;
      const waitMs = dueAt - performance.now();
      if (waitMs > 1) await sleep(waitMs);
    }
  };
  await Promise.all(Array.from({ length: connections }, worker));
  agent.destroy();
  return tally;
}

/** Asks for the mp4 of each asset once, one after the other. */
export async function askEach(
  base: string,
  key: string,
  origin: string,
  assetIds: readonly string[],
): Promise<Tally> {
  const tally = newTally();
  const agent = new Agent({ keepAlive: true });
  for (const id of assetIds) {
    const startedAt = performance.now();
    const { status } = await askFor(`${base}/v1/${key}/a/${id}.mp4`, { origin }, agent);
    if (status === 200) note(tally, startedAt);
    else fault(tally, `${status} for ${id}`);
  }
  agent.destroy();
  return tally;
}

/** What a player sends that knows this much. @param kind 0 to 1 */
function headersOf(origin: string, kind: number, etag: string | undefined): Record<string, string> {
  if (kind < conditionalShare && etag !== undefined) return { origin, 'if-none-match': etag };
  if (kind < conditionalShare + rangeShare) return { origin, range: `bytes=0-${rangeBytes - 1}` };
  return { origin };
}

const expected = (headers: Record<string, string>) =>
  headers['if-none-match'] !== undefined ? 304 : headers['range'] !== undefined ? 206 : 200;

/** Answers the status when the whole body has come. */
async function askFor(url: string, headers: Record<string, string>, agent: Agent) {
  const [response] = (await once(get(url, { headers, agent }), 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  return { status: response.statusCode ?? 0, etag: response.headers.etag };
}

/** Picks 0 most often, n-1 most rarely, each with a weight of one by its rank (Zipf). */
function createZipf(n: number, random: () => number): () => number {
  const sums: number[] = [];
  for (let rank = 1; rank <= n; rank += 1) sums.push((sums.at(-1) ?? 0) + 1 / rank);
  const total = sums.at(-1) ?? 1;
  return () => {
    const target = random() * total;
    let [low, high] = [0, n - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) < target) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

// ── Streams ─────────────────────────────────────────────────────────────────────────────────────

export type Streams = { tally: Tally; open(): number; stop(): void };

/** Keeps streams of assets open, as pages do: one that ends is opened again. */
export async function openStreams(
  base: string,
  key: string,
  assetIds: readonly string[],
  count: number,
): Promise<Streams> {
  const tally = newTally();
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  let isStopped = false;
  let open = 0;
  const keep = async (assetId: string | undefined): Promise<void> => {
    while (!isStopped) {
      const startedAt = performance.now();
      const request = get(`${base}/v1/${key}/events/${assetId}`, { agent });
      try {
        const [response] = (await once(request, 'response')) as [IncomingMessage];
        if (response.statusCode !== 200) fault(tally, `a stream was answered ${response.statusCode}`);
        await once(response, 'data');
        note(tally, startedAt);
        open += 1;
        response.resume();
        await once(response, 'close');
        open -= 1;
      } catch (cause) {
        if (!isStopped) fault(tally, (cause as Error).message);
      }
      if (!isStopped) await sleep(1_000);
    }
  };
  for (let n = 0; n < count; n += 1) {
    void keep(assetIds[n % assetIds.length]);
    // All at once would be an attack, and is measured elsewhere.
    if (n % 50 === 49) await sleep(50);
  }
  for (const until = performance.now() + 20_000; open < count && performance.now() < until; ) await sleep(50);
  return {
    tally,
    open: () => open,
    stop() {
      isStopped = true;
      agent.destroy();
    },
  };
}

// ── Runs ────────────────────────────────────────────────────────────────────────────────────────

export type Runs = { asked: Tally; made: Tally; ids: string[] };

/** Prepares new sources one after the other in each of some lanes, and waits for each. @param next undefined: no more */
export async function makeRuns(
  client: Client,
  projectId: string,
  lanes: number,
  next: () => string | undefined,
): Promise<Runs> {
  const runs: Runs = { asked: newTally(), made: newTally(), ids: [] };
  const lane = async () => {
    for (let src = next(); src !== undefined; src = next()) {
      const startedAt = performance.now();
      try {
        const { asset_id } = await client.assets.prepare({ project_id: projectId, src });
        note(runs.asked, startedAt);
        await client.assets.waitFor(asset_id);
        note(runs.made, startedAt);
        runs.ids.push(asset_id);
      } catch (cause) {
        fault(runs.made, (cause as Error).message);
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return runs;
}

// ── Webhooks ────────────────────────────────────────────────────────────────────────────────────

/** Takes webhooks, checks their signatures, and remembers which have come and how late. */
export async function startReceiver() {
  const tally = newTally();
  const ids = new Set<string>();
  const completed = new Set<string>();
  const receiver = { secret: '' };
  const server = createServer(async (request, response) => {
    const payload = Buffer.concat(await request.toArray());
    try {
      const event = await verifyWebhook({
        payload: new Uint8Array(payload),
        headers: request.headers,
        secret: receiver.secret,
      });
      if (!ids.has(event.id)) {
        tally.done += 1;
        if (tally.latenciesMs.length < maxLatencies) tally.latenciesMs.push(Date.now() - event.ts);
      }
      ids.add(event.id);
      if (event.type === 'asset.completed') completed.add(event.asset_id);
      response.writeHead(204).end();
    } catch (cause) {
      fault(tally, `a webhook is not genuine: ${(cause as Error).message}`);
      response.writeHead(400).end();
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    tally,
    completed,
    setSecret(secret: string) {
      receiver.secret = secret;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
