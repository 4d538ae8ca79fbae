/**
 * Requests to the service. The session cookie goes with each; what the service refuses is thrown as an ApiError with
 * the text, the page on it and the request's id.
 *
 * A session that has ended asks to sign in again, and then the request is sent once more: nothing typed is lost.
 */
import { observeDate } from './clock.ts';

export type RequestOptions = {
  /** Sent as JSON. */
  body?: object | undefined;
  /** Sent as it is. */
  form?: FormData | undefined;
  signal?: AbortSignal | undefined;
  /** A request that begins something: sent with an Idempotency-Key, so that sending it again begins nothing twice. */
  once?: boolean | undefined;
  /** A 401 is the answer to a question here, not the end of a session. */
  isSignIn?: boolean | undefined;
};

/** What the service, or the way to it, refused. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** 0 when there was no answer. */
  readonly status: number;
  /** One of schemas/errors.ts; `offline` when there was no answer. */
  readonly code: string;
  readonly docsUrl: string | undefined;
  readonly upgradeUrl: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly detail: string | undefined;
  readonly issues: readonly { path: string; message: string }[];

  constructor(status: number, body: ErrorAnswer, headers?: Headers) {
    super(body.error);
    this.status = status;
    this.code = body.code ?? (status === 0 ? 'offline' : 'internal_error');
    this.docsUrl = body.docs_url;
    this.upgradeUrl = body.upgrade_url;
    this.detail = body.detail;
    this.issues = body.issues ?? [];
    this.requestId = headers?.get('x-request-id') ?? undefined;
    const seconds = Number(headers?.get('retry-after') ?? Number.NaN);
    this.retryAfterMs = body.retry_after_ms ?? (Number.isFinite(seconds) ? seconds * 1_000 : undefined);
  }
}

type ErrorAnswer = {
  error: string;
  code?: string;
  docs_url?: string;
  upgrade_url?: string;
  retry_after_ms?: number;
  detail?: string;
  issues?: { path: string; message: string }[];
};

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** @throws {ApiError} */
export async function api<Answer>(
  method: Method,
  path: string,
  options: RequestOptions = {},
): Promise<Answer> {
  const init = toInit(method, options);
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await exchange<Answer>(path, init);
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      if (cause.status === 401 && !options.isSignIn && (await onSignedOut())) continue;
      const pauseMs = retryPauses[attempt];
      if (pauseMs === undefined || !mayRepeat(method, options, cause)) throw cause;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

export const get = <Answer>(path: string, options?: RequestOptions) => api<Answer>('GET', path, options);
export const post = <Answer>(path: string, body?: object, options?: RequestOptions) =>
  api<Answer>('POST', path, { body, ...options });
export const put = <Answer>(path: string, body: object, options?: RequestOptions) =>
  api<Answer>('PUT', path, { body, ...options });
export const remove = <Answer>(path: string, body?: object) => api<Answer>('DELETE', path, { body });

/** Sets what asks to sign in again; it answers whether that was done. */
export function whenSignedOut(ask: () => Promise<boolean>): void {
  onSignedOut = ask;
}

let onSignedOut: () => Promise<boolean> = async () => false;

/** A service that is being replaced, and a line that was cut, are back in a moment. */
const retryPauses = [400, 1_500];

function mayRepeat(method: Method, { once, signal }: RequestOptions, { status, code }: ApiError): boolean {
  if (signal?.aborted || (method !== 'GET' && !once)) return false;
  return status === 0 || (status === 503 && code !== 'busy');
}

function toInit(method: Method, { body, form, signal, once }: RequestOptions): RequestInit {
  const headers = new Headers({ accept: 'application/json' });
  if (body) headers.set('content-type', 'application/json');
  if (once) headers.set('idempotency-key', newKey());
  const payload = body ? JSON.stringify(body) : form;
  return {
    method,
    headers,
    credentials: 'same-origin',
    ...(payload === undefined ? {} : { body: payload }),
    ...(signal ? { signal } : {}),
  };
}

async function exchange<Answer>(path: string, init: RequestInit): Promise<Answer> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(path, init);
    observeDate(response.headers.get('date'));
    text = await response.text();
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, { error: 'The service cannot be reached. Your connection may be down.' });
  }
  const answer = parse(text);
  if (!response.ok || answer === undefined) {
    throw new ApiError(response.status, toErrorAnswer(answer, response), response.headers);
  }
  return answer as Answer;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    return undefined;
  }
}

/** Something between may answer in its own way. */
function toErrorAnswer(answer: unknown, { status }: Response): ErrorAnswer {
  const isOurs = typeof answer === 'object' && answer !== null && 'error' in answer;
  return isOurs
    ? (answer as ErrorAnswer)
    : { error: `An answer that is none of the service (status ${status}).` };
}

/** 128 bits. Not randomUUID: that is missing on pages over plain http. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}
