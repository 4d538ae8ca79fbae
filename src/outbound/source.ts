/** Fetching a customer's source image (decisions 3 and 8): permanent and transient failures told apart. */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { EffectError } from '../../schemas/errors.ts';
import { createCollector } from './collect.ts';
import { OutboundError, type OutboundFailure } from './error.ts';
import {
  type Answer,
  asOutboundError,
  createDeadline,
  decoded,
  discard,
  exchange,
  type Headers,
  headerOf,
} from './exchange.ts';
import type { Policy } from './policy.ts';
import { readRetryAfter } from './retry-after.ts';

/** Limits of one fetch, redirects included; the contract's are in schemas/limits.ts. */
export type SourceLimits = {
  maxBytes: number;
  firstByteMs: number;
  totalMs: number;
  maxRedirects: number;
};

export type SourceOptions<Type> = {
  /**
   * Judges the first 16 bytes (or all of a shorter body) as soon as they are there. What it answers is handed
   * back as `type`; false or undefined refuses the source.
   */
  accepts(firstBytes: Uint8Array): Type | false | undefined;
  signal: AbortSignal;
};

export type FetchedSource<Type> = { bytes: Uint8Array; type: Type; url: URL };

export type SourceDeps = {
  agent: Dispatcher;
  policy: Policy;
  limits: SourceLimits;
  headers: Record<string, string>;
  /** Unix ms. */
  now(): number;
};

/**
 * Fetches a source whole, into memory. Safe to repeat.
 *
 * @throws {EffectError} `source_unfetchable`: permanent for a 4xx, a refused address or a broken redirect;
 * transient for a 5xx, a lost connection, a time-out or a body cut short, with `retryAfterMs` when the other
 * side named one. `source_too_large` past the cap, `source_unsupported` when `accepts` refuses the bytes.
 * The signal's reason when it aborts.
 */
export async function fetchSource<Type>(
  { agent, policy, limits, headers, now }: SourceDeps,
  url: string,
  { accepts, signal }: SourceOptions<Type>,
): Promise<FetchedSource<Type>> {
  const deadline = createDeadline(signal);
  try {
    deadline.limit(Math.min(limits.firstByteMs, limits.totalMs), 'the first byte');
    const answer = await exchange(
      { agent, policy },
      {
        url,
        method: 'GET',
        headers: { ...headers, accept: 'image/png,image/jpeg,image/webp' },
        redirects: limits.maxRedirects,
        keepAlive: false,
        signal: deadline.signal,
      },
    );
    checkHeaders(answer, limits.maxBytes, now());

    const onFirstByte = () => deadline.limit(limits.totalMs, 'the source');
    return { ...(await readImage(decoded(answer), limits.maxBytes, accepts, onFirstByte)), url: answer.url };
  } catch (error) {
    if (error instanceof EffectError) throw error;
    throw asEffectError(asOutboundError(error, deadline.signal));
  } finally {
    deadline.end();
  }
}

/** Longest wait that a source's server may ask for, in ms. */
const maxRetryAfterMs = 60_000;
/** Enough for the magic bytes of every type. */
const firstBytesLength = 16;

/** Refuses what the headers alone rule out; the body is then left unread. */
function checkHeaders(answer: Answer, maxBytes: number, now: number): void {
  const refusal = judgeHeaders(answer.statusCode, answer.headers, maxBytes, now);
  if (!refusal) return;

  discard(answer.body);
  throw refusal;
}

function judgeHeaders(
  status: number,
  headers: Headers,
  maxBytes: number,
  now: number,
): EffectError | undefined {
  if (status < 200 || status > 299) {
    const retryAfterMs = readRetryAfter(headerOf(headers, 'retry-after'), now, maxRetryAfterMs);
    return new EffectError('source_unfetchable', `the source answered ${status}`, {
      retry: status >= 500 ? 'transient' : 'permanent',
      hint: `The source URL answered with status ${status}.`,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  }
  return Number(headerOf(headers, 'content-length')) > maxBytes ? tooLarge() : undefined;
}

async function readImage<Type>(
  body: Readable,
  maxBytes: number,
  accepts: SourceOptions<Type>['accepts'],
  onFirstByte: () => void,
): Promise<{ bytes: Uint8Array; type: Type }> {
  const collector = createCollector(maxBytes);
  let type: Type | undefined;

  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (collector.bytes().byteLength === 0) onFirstByte();
    if (!collector.add(chunk)) throw tooLarge();
    if (type === undefined && collector.bytes().byteLength >= firstBytesLength) {
      type = judgeType(collector.bytes(), accepts);
    }
  }
  return { type: type ?? judgeType(collector.bytes(), accepts), bytes: collector.bytes() };
}

function judgeType<Type>(bytes: Uint8Array, accepts: SourceOptions<Type>['accepts']): Type {
  const type = accepts(bytes.subarray(0, firstBytesLength));
  if (!type)
    throw new EffectError('source_unsupported', 'the first bytes of the source are of no known type');
  return type;
}

function tooLarge(): EffectError {
  return new EffectError('source_too_large', 'the source is larger than allowed');
}

/** Failures that another attempt would meet again. */
const permanentFailures = new Set<OutboundFailure>(['blocked_address', 'redirect', 'encoding']);

const hints = new Map<OutboundFailure, string>([
  ['blocked_address', 'The address of the source is not allowed.'],
  ['redirect', 'The source URL redirects too often, or to no URL.'],
  ['timeout', 'The source URL did not answer in time.'],
]);

function asEffectError(error: unknown): unknown {
  if (!(error instanceof OutboundError)) return error;

  const hint = hints.get(error.failure);
  return new EffectError(
    'source_unfetchable',
    `cannot fetch the source: ${error.failure}: ${error.message}`,
    {
      retry: permanentFailures.has(error.failure) ? 'permanent' : 'transient',
      cause: error,
      ...(hint ? { hint } : {}),
    },
  );
}
