/**
 * A stand-in for every model provider, on one port: `/replicate/v1`, `/fal`, `/runway`, `/luma/dream-machine/v1` and
 * `/openai/v1` as their base URLs. It does what they do, and everything wrong that faults.ts lists, on command.
 *
 *   GET /asked      what was asked of it and what was paid
 *   POST /control   `{fault, on?, times?}`: spoils the next submits, of one provider or of any
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerChat } from './chat.ts';
import { ambiguous, createFaults, type Reply, refusalOf, send } from './faults.ts';
import { formats } from './formats.ts';
import { createWorld, falPublicKey, type Prediction, type Provider, replicateSecret } from './world.ts';

export type FakeProviders = {
  /** Address without a slash at its end. */
  url: string;
  asked(): Asked;
  order(fault: { fault: string; on?: string; times?: number }): void;
  close(): Promise<void>;
};

export type Asked = {
  /** Newest last; bodies of submits without their images. */
  requests: { provider: string; method: string; path: string; ts: number }[];
  predictions: Prediction[];
  callbacks: { id: string; status: number }[];
  created: number;
  finished: number;
  cancelled: number;
  paid: number;
};

export type FakeOptions = {
  port?: number;
  /** The mp4 that every prediction gives. */
  clip: Uint8Array;
  /** How long a prediction takes, in ms. */
  runMs?: number;
};

const prefixes: [string, Provider | 'openai'][] = [
  ['/replicate/v1', 'replicate'],
  ['/fal', 'fal'],
  ['/runway', 'runway'],
  ['/luma/dream-machine/v1', 'luma'],
  ['/openai/v1', 'openai'],
];

const maxRequests = 10_000;

export async function startFakeProviders({
  port = 0,
  clip,
  runMs = 150,
}: FakeOptions): Promise<FakeProviders> {
  const requests: Asked['requests'] = [];
  const faults = createFaults();
  const world = createWorld(runMs, (one) => formats[one.provider].callback(one, baseOf(one.provider)));
  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy());
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  function baseOf(provider: string): string {
    return url + (prefixes.find(([, name]) => name === provider)?.[0] ?? '');
  }

  function asked(): Asked {
    const { predictions, callbacks } = world;
    const count = (is: (one: Prediction) => boolean) => predictions.filter(is).length;
    return {
      requests,
      predictions,
      callbacks,
      created: predictions.length,
      finished: count(({ state }) => state === 'succeeded'),
      cancelled: count(({ state }) => state === 'cancelled'),
      paid: count(({ isPaid }) => isPaid),
    };
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', url);
    const body = Buffer.concat(await request.toArray()).toString();
    const own = ownAnswer(pathname, body);
    if (own) return send(request, response, own, '');
    if (pathname.startsWith('/files/')) return serveFile(pathname.slice(7, -4), request, response);
    return serveProvider(body, request, response);
  }

  /** What no provider has. */
  function ownAnswer(pathname: string, body: string): Reply | undefined {
    if (pathname === '/asked') return { status: 200, json: asked() };
    if (pathname === '/.well-known/jwks.json') return { status: 200, json: { keys: [falPublicKey] } };
    if (pathname !== '/control') return undefined;
    faults.order(JSON.parse(body));
    return { status: 204 };
  }

  async function serveProvider(
    body: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', url);
    const method = request.method ?? 'GET';
    const answer = (reply: Reply) => send(request, response, reply, '');
    const [prefix, provider] = prefixes.find(([start]) => pathname.startsWith(`${start}/`)) ?? [];
    if (prefix === undefined || provider === undefined) {
      return answer({ status: 404, json: { detail: 'not found' } });
    }
    requests.push({ provider, method, path: pathname, ts: Date.now() });
    if (requests.length > maxRequests) requests.shift();
    if (!request.headers.authorization) return answer({ status: 401, json: { detail: 'no key' } });
    const header = String(request.headers['x-fake-fault'] ?? '');
    if (provider !== 'openai') {
      return serveVideo(
        provider,
        { path: pathname.slice(prefix.length), searchParams, body, header },
        request,
        response,
      );
    }
    const [fault = ''] = faults.next(provider, '', header);
    return send(
      request,
      response,
      refusalOf(fault, Date.now()) ?? answerChat(JSON.parse(body), fault),
      fault,
    );
  }

  async function serveVideo(
    provider: Provider,
    asked: { path: string; searchParams: URLSearchParams; body: string; header: string },
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const answer = (reply: Reply) => send(request, response, reply, '');
    const { path } = asked;
    if (path === '/webhooks/default/secret') return answer({ status: 200, json: { key: replicateSecret } });
    const id = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(path)?.[0];
    if (id !== undefined) return answer(followUp(provider, id, path, request.method ?? 'GET'));
    return submit(provider, asked, request, response);
  }

  async function submit(
    provider: Provider,
    asked: { path: string; searchParams: URLSearchParams; body: string; header: string },
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { images, ...wish } = formats[provider].wish(
      asked.path,
      asked.searchParams,
      JSON.parse(asked.body),
    );
    const found = faults.next(provider, wish.prompt, asked.header);
    const [fault = ''] = found;
    const refusal = refusalOf(fault, Date.now());
    if (refusal) return send(request, response, refusal, '');
    if (fault === 'reset') return send(request, response, { status: 500 }, fault);
    const flaw = await flawOf(images);
    if (flaw) return send(request, response, { status: 422, json: { detail: flaw } }, '');
    const prediction = await world.create({ ...wish, provider, faults: found });
    const isSpoilt = fault === 'drip' || ambiguous.some((one) => one === fault);
    return send(
      request,
      response,
      formats[provider].submitted(prediction, baseOf(provider)),
      isSpoilt ? fault : '',
    );
  }

  function followUp(provider: Provider, id: string, path: string, method: string): Reply {
    const prediction = world.find(provider, id);
    const format = formats[provider];
    if (!prediction) return { status: 404, json: { detail: 'not found' } };
    const base = baseOf(provider);
    if (path.endsWith('/cancel') || method === 'DELETE') {
      return format.cancelled(world.cancel(prediction), prediction, base);
    }
    prediction.reads += 1;
    if (prediction.faults.includes('gone')) return { status: 404, json: { detail: 'not found' } };
    if (prediction.faults.includes('status-503') && prediction.reads < 3) return { status: 503, json: {} };
    return format.status(prediction, base, provider === 'fal' && !path.endsWith('/status'));
  }

  async function serveFile(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const prediction = world.predictions.find((one) => one.id === id);
    const reads = countReads(prediction);
    const has = (fault: string) => prediction?.faults.includes(`output-${fault}`) === true;
    const type = { 'content-type': has('wrong-type') ? 'text/html' : 'video/mp4' };
    if (has('slow')) await sleep(500);
    if (has('huge')) return flood(response);
    if (has('reset') && reads < 2) {
      response.writeHead(200, { ...type, 'content-length': clip.length });
      return void response.write(clip.subarray(0, 100), () => request.socket.destroy());
    }
    const refusal = prediction ? refusedOutput(has, reads) : { status: 404, headers: {} };
    if (refusal) return void response.writeHead(refusal.status, refusal.headers).end();
    response.writeHead(200, type).end(outputOf(has, reads));
  }

  function outputOf(has: (fault: string) => boolean, reads: number): string | Uint8Array {
    if (has('not-mp4')) return '<html>expired</html>';
    return has('truncated') || (has('cut-once') && reads < 2) ? clip.subarray(0, -100) : clip;
  }

  return {
    url,
    asked,
    order: faults.order,
    async close() {
      world.stop();
      server.close();
      server.closeAllConnections();
    },
  };
}

const outputReads = new WeakMap<Prediction, number>();

/** How often the output was read before. */
function countReads(prediction: Prediction | undefined): number {
  if (!prediction) return 0;
  const reads = outputReads.get(prediction) ?? 0;
  outputReads.set(prediction, reads + 1);
  return reads;
}

/** Why the images cannot be used: addresses must answer with an image, others must be data. */
async function flawOf(images: string[]): Promise<string | undefined> {
  if (images.length === 0) return 'no image';
  for (const image of images) {
    if (/^data:image\/(jpeg|png);base64,[\w+/=]{100,}$/.test(image)) continue;
    const answer = URL.canParse(image)
      ? await fetch(image, { redirect: 'error' }).catch(() => undefined)
      : undefined;
    const type = answer?.headers.get('content-type') ?? '';
    await answer?.arrayBuffer();
    if (!answer?.ok || !type.startsWith('image/')) return 'an image cannot be downloaded';
  }
  return undefined;
}

/** An answer instead of the output. */
function refusedOutput(has: (fault: string) => boolean, reads: number) {
  if (has('404')) return { status: 404, headers: {} };
  if (has('403')) return { status: 403, headers: {} };
  if (has('503') && reads < 2) return { status: 503, headers: {} };
  return has('private') ? { status: 302, headers: { location: 'http://10.0.0.1/out.mp4' } } : undefined;
}

const floodBytes = 500 * 1024 * 1024;

function flood(response: ServerResponse): void {
  const piece = Buffer.alloc(1024 * 1024);
  let left = floodBytes;
  const more = () => {
    while (left > 0 && !response.destroyed) {
      left -= piece.length;
      if (!response.write(piece)) return;
    }
    response.end();
  };
  response.writeHead(200, { 'content-type': 'video/mp4' });
  response.on('drain', more);
  more();
}
