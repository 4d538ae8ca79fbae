/**
 * One exchange with a provider: JSON out, JSON back, and every way in which that can fail as a ProviderError.
 *
 * Nothing is ever sent twice here. Keys and the queries of addresses appear in no error and in no line of the log.
 */
import type { ErrorCode } from '../../schemas/errors.ts';
import { provider as limits } from '../../schemas/limits.ts';
import { OutboundError, type OutboundFailure } from '../outbound/error.ts';
import { type Headers, headerOf, type Method } from '../outbound/exchange.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { readRetryAfter } from '../outbound/retry-after.ts';
import { type Cancelled, type Failure, ProviderError, type Submitted } from './provider.ts';

export type ProviderLog = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
};

export type WireOptions = {
  /** Name of the provider. */
  name: string;
  /** Error code of its failures. */
  code: ErrorCode;
  outbound: Pick<Outbound, 'request'>;
  /** Sent with every request. */
  headers: Record<string, string>;
  /** What must never be told. */
  secrets: readonly string[];
  log: ProviderLog;
  /** Unix ms. */
  now(): number;
};

export type WireRequest = {
  /** What is done: for the log. A submit without a whole answer is ambiguous. */
  operation: 'submit' | 'status' | 'cancel' | 'describe' | 'keys';
  method: Method;
  url: string;
  body?: unknown;
  headers?: Record<string, string>;
  timeoutMs: number;
  /** Which prediction, for the log. */
  id?: string;
  signal: AbortSignal;
};

/** What an answer has to be. */
type Shape<Value> = { safeParse(json: unknown): { success: boolean; data?: Value } };

export type WireAnswer = { status: number; headers: Headers; json: unknown; requestId?: string };

export type Wire = {
  /** Any status is an answer; `json` is undefined for a body that is none. @throws {ProviderError} */
  exchange(request: WireRequest): Promise<WireAnswer>;
  /** A 2xx answer with JSON in it, or what it fails with. @throws {ProviderError} */
  ask(request: WireRequest, classify?: Classify): Promise<WireAnswer>;
  /** What was submitted, from an answer to its submit. @throws {ProviderError} ambiguous, when it is not told. */
  readSubmit<Value>(answer: WireAnswer, shape: Shape<Value>): Value;
  /** How a prediction stands; undefined when it is not there. @throws {ProviderError} */
  readStatus<Value>(
    submitted: Submitted,
    url: string,
    shape: Shape<Value>,
    signal: AbortSignal,
  ): Promise<Value | undefined>;
  /** What became of calling a prediction off by `DELETE`. @throws {ProviderError} */
  remove(submitted: Submitted, url: string, signal: AbortSignal): Promise<Cancelled>;
  /** What an answer means that is no 2xx. */
  failureOf(answer: WireAnswer, classify?: Classify): Failure;
  /** A text of a provider as it may be told: cut, and without keys and queries. */
  tidy(text: string): string;
  /** Says once in a process that something unheard of was answered. */
  wonder(what: string): void;
};

/** What a provider's own words say beyond the status; fields left out are judged by it. */
export type Classify = (answer: WireAnswer) => Partial<Failure>;

export function createWire({ name, code, outbound, headers, secrets, log, now }: WireOptions): Wire {
  const wondered = new Set<string>();

  const tidy = (text: string): string => {
    const open = secrets.filter((secret) => secret !== '');
    const hidden = open.reduce((left, secret) => left.replaceAll(secret, '[hidden]'), text);
    return hidden.replace(/(https?:\/\/[^\s?"]*)\?[^\s"]*/g, '$1').slice(0, limits.messageMaxChars);
  };

  const fail = (failure: Failure, isAmbiguous: boolean, cause?: unknown) =>
    new ProviderError(code, name, { ...failure, message: tidy(failure.message) }, { isAmbiguous, cause });

  const exchange = async (request: WireRequest): Promise<WireAnswer> => {
    const { operation, id, signal } = request;
    const isSubmit = operation === 'submit';
    const startedAt = performance.now();
    const note = (fields: object) =>
      log.info(
        {
          provider: name,
          operation,
          providerId: id,
          ...fields,
          ms: Math.round(performance.now() - startedAt),
        },
        'provider',
      );
    try {
      const got = await outbound.request(request.url, {
        method: request.method,
        headers: {
          accept: 'application/json',
          ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
          ...request.headers,
        },
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
        timeoutMs: request.timeoutMs,
        maxBytes: limits.maxAnswerBytes,
        // A connection that ended while it was kept would make a submit ambiguous.
        keepAlive: !isSubmit,
        decode: true,
        signal,
      });
      const requestId = requestIdOf(got.headers);
      note({ status: got.statusCode, requestId });
      const json = got.isCut ? undefined : parseJson(got.body);
      return { status: got.statusCode, headers: got.headers, json, ...(requestId ? { requestId } : {}) };
    } catch (cause) {
      if (signal.aborted || !(cause instanceof OutboundError)) throw cause;
      note({ failure: cause.failure });
      const failure = { ...lost[cause.failure], message: cause.message };
      throw fail(failure, isSubmit && unsure.has(cause.failure), cause);
    }
  };

  const failureOf = (answer: WireAnswer, classify?: Classify): Failure => {
    const { status, requestId } = answer;
    const retryAfterMs =
      readRetryAfter(headerOf(answer.headers, 'retry-after'), now(), limits.maxRetryAfterMs) ??
      throttleHint(answer.json);
    const failure: Failure = {
      ...byStatus(status),
      message: messageOf(answer.json) ?? `status ${status}`,
      httpStatus: status,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(requestId === undefined ? {} : { requestId }),
      ...classify?.(answer),
    };
    return { ...failure, message: tidy(failure.message) };
  };

  const read = <Value>({ json }: WireAnswer, shape: Shape<Value>, isSubmit: boolean): Value => {
    const { data } = shape.safeParse(json);
    if (data !== undefined) return data;
    const message = 'the answer is not of the form that is known';
    throw fail({ kind: 'transient', reason: 'unavailable', message }, isSubmit);
  };

  return {
    exchange,
    failureOf,
    tidy,
    readSubmit: (answer, shape) => read(answer, shape, true),
    async readStatus({ id }, url, shape, signal) {
      const timeoutMs = limits.statusMs;
      const answer = await exchange({ operation: 'status', method: 'GET', url, timeoutMs, id, signal });
      if (answer.status === 404) return undefined;
      if (answer.status !== 200 && answer.status !== 202) throw fail(failureOf(answer), false);
      return read(answer, shape, false);
    },
    async remove({ id }, url, signal) {
      const timeoutMs = limits.cancelMs;
      const { status } = await exchange({
        operation: 'cancel',
        method: 'DELETE',
        url,
        timeoutMs,
        id,
        signal,
      });
      if (status >= 200 && status < 300) return 'cancelled';
      return status === 404 ? 'unknown' : 'too_late';
    },
    async ask(request, classify) {
      const answer = await exchange(request);
      const isSubmit = request.operation === 'submit';
      if (answer.status < 200 || answer.status > 299) {
        throw fail(failureOf(answer, classify), isSubmit && gatewayStatuses.has(answer.status));
      }
      if (answer.json === undefined || answer.json === null) {
        const message = 'the answer is no JSON';
        throw fail(
          { kind: 'transient', reason: 'unavailable', message, httpStatus: answer.status },
          isSubmit,
        );
      }
      return answer;
    },
    wonder(what) {
      if (wondered.has(what) || wondered.size >= maxWondered) return;
      wondered.add(what);
      log.warn({ provider: name, what: tidy(what) }, 'provider: not heard of before');
    },
  };
}

const maxWondered = 100;

/** Answers of gateways that lost sight of a request. */
const gatewayStatuses = new Set([502, 504]);

/** Failures of the connection after which a request may have arrived. */
const unsure = new Set<OutboundFailure>(['reset', 'timeout', 'encoding']);

const network = { kind: 'transient', reason: 'network' } as const;
const lost: Record<OutboundFailure, Pick<Failure, 'kind' | 'reason'>> = {
  // The operator's own setting leads nowhere that may be reached.
  blocked_address: { kind: 'permanent', reason: 'auth' },
  dns: network,
  connect: network,
  tls: network,
  timeout: { kind: 'transient', reason: 'timeout' },
  reset: network,
  redirect: network,
  encoding: { kind: 'transient', reason: 'unavailable' },
};

/** What a status means where a provider says no more (wire formats 1.1 and 4). */
function byStatus(status: number): Pick<Failure, 'kind' | 'reason'> {
  const known = statuses.get(status);
  if (known) return known;
  if (status >= 500) return { kind: 'transient', reason: 'unavailable' };
  if (status >= 400) return { kind: 'permanent', reason: 'bad_input' };
  // Redirects are not followed: whoever sends one is no provider.
  return { kind: 'transient', reason: 'unavailable' };
}

const statuses = new Map<number, Pick<Failure, 'kind' | 'reason'>>([
  [401, { kind: 'permanent', reason: 'auth' }],
  [402, { kind: 'permanent', reason: 'billing' }],
  [403, { kind: 'permanent', reason: 'auth' }],
  [404, { kind: 'permanent', reason: 'auth' }],
  [405, { kind: 'permanent', reason: 'auth' }],
  [408, { kind: 'transient', reason: 'timeout' }],
  [409, { kind: 'transient', reason: 'unavailable' }],
  [425, { kind: 'transient', reason: 'unavailable' }],
  [429, { kind: 'transient', reason: 'rate_limited' }],
]);

/** The words of an error body, whatever its form; undefined when it has none. */
export function messageOf(json: unknown): string | undefined {
  if (typeof json === 'string') return json;
  if (typeof json !== 'object' || json === null) return undefined;
  for (const name of ['message', 'msg', 'error', 'detail', 'title', 'failure']) {
    const value = (json as Record<string, unknown>)[name];
    const inner = Array.isArray(value) ? value[0] : value;
    const text = inner === json ? undefined : messageOf(inner);
    if (text !== undefined && text !== '') return text;
  }
  return undefined;
}

/** A wait that is told in words alone: "Your rate limit resets in ~30s." */
function throttleHint(json: unknown): number | undefined {
  const seconds = /resets? in ~?(\d{1,4})\s?s/.exec(messageOf(json) ?? '')?.[1];
  return seconds === undefined ? undefined : Math.min(Number(seconds) * 1000, limits.maxRetryAfterMs);
}

function requestIdOf(headers: Headers): string | undefined {
  return headerOf(headers, 'x-request-id') ?? headerOf(headers, 'x-fal-request-id') ?? undefined;
}

/** Undefined for a body that is no JSON. */
export function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch {
    return undefined;
  }
}
