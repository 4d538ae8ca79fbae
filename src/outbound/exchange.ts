/**
 * One exchange over http(s) with a user-chosen address: redirects checked again one by one, time and bytes
 * bounded, nothing kept between exchanges.
 */
import { performance } from 'node:perf_hooks';
import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createUnzip } from 'node:zlib';
import type { Dispatcher } from 'undici';
import { blocked, OutboundError } from './error.ts';
import type { Policy } from './policy.ts';

export type Headers = Record<string, string | string[] | undefined>;

export type Answer = {
  statusCode: number;
  /** Names in lower case. */
  headers: Headers;
  /** To be read or destroyed, before the deadline's signal aborts. */
  body: Readable;
  /** Where the answer came from, after redirects. */
  url: URL;
};

export type ExchangeOptions = {
  url: string;
  method: Method;
  headers: Record<string, string>;
  body?: string | Uint8Array;
  /** Followed at most; 0 gives a 3xx back as it is. GET and HEAD only. */
  redirects: number;
  /** Whether the connection may serve the next exchange with the same host. */
  keepAlive: boolean;
  signal: AbortSignal;
};

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';

/** Answers once the headers of the last answer are there. @throws {OutboundError}, or the signal's reason. */
export async function exchange(
  { agent, policy }: { agent: Dispatcher; policy: Policy },
  options: ExchangeOptions,
): Promise<Answer> {
  const { method, redirects } = options;
  const isFollowed = redirects > 0 && (method === 'GET' || method === 'HEAD');

  let url = judged(policy, options.url);
  let headers = options.headers;
  for (let followed = 0; followed <= redirects; followed += 1) {
    const answer = await send(agent, url, { ...options, headers });
    const location = isFollowed ? locationOf(answer) : undefined;
    if (location === undefined) return { ...answer, url };

    discard(answer.body);
    const target = judged(policy, resolved(location, url));
    if (target.origin !== url.origin) headers = withoutSecrets(headers);
    url = target;
  }
  throw new OutboundError('redirect', `more than ${redirects} redirects`);
}

/**
 * A signal that aborts with the caller's, or with an OutboundError `timeout` when a limit passes. `limit`
 * replaces the limit before it and counts from the deadline's creation, in ms. To be ended in any case.
 */
export function createDeadline(signal: AbortSignal) {
  const control = new AbortController();
  const startedMs = performance.now();
  let timer: NodeJS.Timeout | undefined;

  const stop = () => control.abort(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();

  return {
    signal: control.signal,
    elapsedMs: () => performance.now() - startedMs,
    limit(ms: number, what: string) {
      clearTimeout(timer);
      const expire = () => control.abort(new OutboundError('timeout', `${what} took longer than allowed`));
      timer = setTimeout(expire, startedMs + ms - performance.now());
    },
    end() {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    },
  };
}

/** The body with its content-encoding undone. @throws {OutboundError} `encoding` for one we do not know. */
export function decoded({ headers, body }: Answer): Readable {
  const encoding = headerOf(headers, 'content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return body;

  const decoder = decoders.get(encoding)?.();
  if (!decoder) {
    discard(body);
    throw new OutboundError('encoding', 'the content-encoding is unknown');
  }
  // The reader of the decoder hears of every failure: pipeline hands those of the body on to it.
  return pipeline(body, decoder, ignore);
}

/** What reading a body failed with, in our terms: the deadline's reason, or a connection that was lost. */
export function asOutboundError(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof OutboundError) return error;

  const { code = '', message } = error as Error & { code?: string };
  // Our own mistake, not the other side's.
  if (code === 'UND_ERR_INVALID_ARG') return error;
  if (code.startsWith('Z_') || code.startsWith('ERR__ERROR_FORMAT')) {
    return new OutboundError('encoding', 'the body is not encoded as it says', { cause: error });
  }
  return new OutboundError('reset', `the connection was lost: ${code || message}`, { cause: error });
}

/** A header's value; the first one when it was sent more than once. */
export function headerOf(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Ends a body that nobody reads. */
export function discard(body: Readable): void {
  body.on('error', ignore).destroy();
}

const decoders = new Map<string, () => ReturnType<typeof createUnzip | typeof createBrotliDecompress>>([
  ['gzip', () => createUnzip()],
  ['x-gzip', () => createUnzip()],
  ['deflate', () => createUnzip()],
  ['br', () => createBrotliDecompress()],
]);

const redirectStatuses = new Set([301, 302, 303, 307, 308]);

function judged(policy: Policy, text: string): URL {
  const judgement = policy.judgeUrl(text);
  if (!judgement.ok) throw blocked();
  return judgement.url;
}

async function send(agent: Dispatcher, url: URL, options: ExchangeOptions): Promise<Omit<Answer, 'url'>> {
  const { method, headers, body = null, keepAlive, signal } = options;
  try {
    return await agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method,
      headers,
      body,
      signal,
      reset: !keepAlive,
    });
  } catch (error) {
    throw asOutboundError(error, signal);
  }
}

function locationOf({ statusCode, headers }: Omit<Answer, 'url'>): string | undefined {
  return redirectStatuses.has(statusCode) ? headerOf(headers, 'location') : undefined;
}

function resolved(location: string, base: URL): string {
  if (!URL.canParse(location, base.href)) throw new OutboundError('redirect', 'the redirect names no URL');
  return new URL(location, base).href;
}

/** Headers without what was meant for one host alone. */
function withoutSecrets(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !/^(authorization|cookie|proxy-authorization)$/i.test(name)),
  );
}

function ignore(): void {
  // The reader has what it wanted, or hears of the failure elsewhere.
}
