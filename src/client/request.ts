/**
 * Requests of the client: with a time limit each, and sent again where that is safe.
 *
 * Again, at most `maxRetries` times: whatever is refused with a time to come back (429 and 503 with Retry-After); and
 * what got no answer or a 5xx, when the request may be repeated: GET, PUT, DELETE, and POST with an Idempotency-Key,
 * which stays the same for all tries.
 */
import { errorOf, ServiceError } from './error.ts';

export type Transport = {
  /** Without a slash at its end. */
  baseUrl: string;
  headers: Record<string, string>;
  fetch: typeof fetch;
  timeoutMs: number;
  maxRetries: number;
};

/** What every method takes as its last argument. */
export type CallOptions = {
  /** Ends the call: it throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Of one try, until the end of the answer. */
  timeoutMs?: number | undefined;
  /** For the methods that begin something: two calls with one key are one. Made when it is not given. */
  idempotencyKey?: string | undefined;
};

type Query = Record<string, string | number | boolean | undefined>;

export type Asked = CallOptions & { body?: object | undefined; query?: Query | undefined };

/** Longer than this nobody is kept waiting: the error says when to come back. */
const maxWaitMs = 30_000;
const firstPauseMs = 250;

/** @throws {ServiceError}, or the reason of the signal */
export async function ask<Answer>(
  transport: Transport,
  method: string,
  path: string,
  asked: Asked = {},
): Promise<Answer> {
  const { signal, idempotencyKey: key } = asked;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await tryOnce<Answer>(transport, method, path, asked);
    } catch (cause) {
      if (!(cause instanceof ServiceError)) throw cause;
      const isRepeatable = method !== 'POST' || key !== undefined;
      // What the try before has deleted is not there any more.
      if (method === 'DELETE' && cause.status === 404 && attempt > 1) return { ok: true } as Answer;
      const waitMs = pauseBefore(cause, attempt, isRepeatable);
      if (waitMs === undefined || attempt > transport.maxRetries) throw cause;
      await pause(waitMs, signal);
    }
  }
}

/** Undefined when it would not help, or might do something twice. */
function pauseBefore({ status, retryAfterMs }: ServiceError, attempt: number, isRepeatable: boolean) {
  if ((status === 429 || status === 503) && retryAfterMs !== undefined)
    return retryAfterMs <= maxWaitMs ? retryAfterMs : undefined;
  // 409 after the first try: that one is still running, under the same key.
  const isPassing = status === 0 || status >= 500 || (status === 409 && attempt > 1);
  if (!isRepeatable || !isPassing) return undefined;
  return firstPauseMs * 2 ** attempt * (0.5 + Math.random() / 2);
}

async function tryOnce<Answer>(
  transport: Transport,
  method: string,
  path: string,
  { body, query, signal, timeoutMs = transport.timeoutMs, idempotencyKey }: Asked,
): Promise<Answer> {
  const limit = createLimit(timeoutMs, signal);
  const isForm = body instanceof FormData;
  try {
    const response = await transport.fetch(addressOf(transport, path, query), {
      method,
      headers: {
        ...transport.headers,
        ...(body && !isForm ? { 'content-type': 'application/json' } : {}),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      ...(body ? { body: isForm ? body : JSON.stringify(body) } : {}),
      signal: limit.signal,
    });
    const text = await response.text();
    if (!response.ok) throw errorOf(response, text);
    return JSON.parse(text);
  } catch (cause) {
    throw failureOf(cause, limit.signal);
  } finally {
    limit.end();
  }
}

/** What a call has failed with: the reason why it was ended, else why there is no answer. */
export function failureOf(cause: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (cause instanceof ServiceError) return cause;
  // What JSON.parse throws; fetch throws TypeErrors.
  return cause instanceof SyntaxError
    ? new ServiceError('invalid_answer', 'the answer is no JSON', { cause })
    : new ServiceError('unreachable', 'the service cannot be reached', { cause });
}

export function addressOf({ baseUrl }: Transport, path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value));
  return `${baseUrl}${path}${given.size > 0 ? `?${given}` : ''}`;
}

type Limit = { signal: AbortSignal; renew(ms?: number): void; end(): void };

/** A signal that ends with another, or by itself; `end` forgets both. Its time begins anew with `renew`. */
export function createLimit(ms: number, outer?: AbortSignal): Limit {
  // AbortSignal.any and .timeout together are forgotten by Node 20's garbage collection.
  const controller = new AbortController();
  const expire = () => controller.abort(new ServiceError('timeout', `no answer within ${ms} ms`));
  const follow = () => controller.abort(outer?.reason);
  let timer = setTimeout(expire, ms);
  outer?.addEventListener('abort', follow);
  if (outer?.aborted) follow();
  return {
    signal: controller.signal,
    renew(nextMs = ms) {
      clearTimeout(timer);
      timer = setTimeout(expire, nextMs);
    },
    end() {
      clearTimeout(timer);
      outer?.removeEventListener('abort', follow);
    },
  };
}

/** @throws the reason of the signal, at once when it is aborted */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', leave);
      resolve();
    }, ms);
    signal?.addEventListener('abort', leave, { once: true });
    if (signal?.aborted) leave();
  });
}
