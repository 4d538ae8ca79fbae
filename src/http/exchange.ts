/**
 * One request and its answer. uWebSockets.js forgets a response once it is answered or its client is gone, and
 * touching it then throws: every late step asks `isOpen` first.
 */

import type { HttpResponse } from 'uWebSockets.js';
import { STATUS_CODES } from 'node:http';
import { apiErrorCode } from '../../schemas/errors.ts';

/** What raw routes are handed beside the response itself. */
export type Exchange = {
  readonly requestId: string;
  readonly res: HttpResponse;
  /** False once the answer is complete or the client has gone: the response must not be touched any more. */
  readonly isOpen: boolean;
  /** Whether writeHead has written: a failure can then only cut the answer off. */
  hasBegun: boolean;
  /** RateLimit-Policy's value, with RateLimit as a second line: what counted the request. */
  rateLimit?: string | undefined;
  /** Aborted when the client goes away before the answer is complete. */
  readonly signal: AbortSignal;
  /** The server is stopping: end with close, begin nothing long. */
  readonly isStopping: boolean;
  /** Address of the pages on error codes, with a slash at its end. */
  readonly errorDocs: string;
  /** Calls back when the client goes away. To be used instead of `res.onAborted`, which knows one listener. */
  onAborted(listener: () => void): void;
  /** The answer is complete: to be called once, right after the response was ended. Writes the log line. */
  done(status: number, fields?: LogFields): void;
};

/** More for the log line of a request. */
export type LogFields = { userId?: string | undefined; err?: unknown };

export type Answer = { status: number; body?: unknown; headers?: Record<string, string> };

/** Status of a request whose client went away first; in the log only. */
export const clientGone = 499;

/** What exchanges of one server share. */
export type ExchangeHost = {
  isStopping: boolean;
  readonly errorDocs: string;
  finished(exchange: OpenExchange, status: number, fields: LogFields): void;
};

/**
 * An exchange as the server holds it. A class, since an object literal with getters costs a hidden class of its
 * own each time, which only a full garbage collection takes back: most of the cost of a small request.
 */
export class OpenExchange implements Exchange {
  readonly res: HttpResponse;
  readonly requestId: string;
  /** For the log. */
  readonly method: string;
  readonly path: string;
  readonly startedAt = performance.now();
  isOpen = true;
  hasBegun = false;
  rateLimit: string | undefined = undefined;
  private readonly host: ExchangeHost;
  private listeners: (() => void)[] | undefined;
  private control: AbortController | undefined;

  /** To be made before anything else is done with the response. */
  constructor(res: HttpResponse, requestId: string, method: string, path: string, host: ExchangeHost) {
    this.res = res;
    this.requestId = requestId;
    this.method = method;
    this.path = path;
    this.host = host;
    res.onAborted(() => this.abort());
  }

  get isStopping(): boolean {
    return this.host.isStopping;
  }

  get errorDocs(): string {
    return this.host.errorDocs;
  }

  /** Made when it is first asked for: most requests never do. */
  get signal(): AbortSignal {
    if (!this.control) {
      this.control = new AbortController();
      if (!this.isOpen) this.control.abort(new Error(goneText));
    }
    return this.control.signal;
  }

  onAborted(listener: () => void): void {
    this.listeners ??= [];
    this.listeners.push(listener);
  }

  done(status: number, fields: LogFields = {}): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.host.finished(this, status, fields);
  }

  private abort(): void {
    this.done(clientGone);
    this.control?.abort(new Error(goneText));
    for (const listener of this.listeners ?? []) listener();
  }
}

const goneText = 'the client went away';

/**
 * Writes the status line, X-Request-Id and headers. To be called inside a cork or the handler itself.
 *
 * @throws before anything is written, when a value has a line break.
 */
export function writeHead(exchange: Exchange, status: number, headers: Record<string, string> = {}): void {
  const { res, requestId, rateLimit } = exchange;
  for (const name in headers) {
    // Before the first byte: a failure can then still be answered.
    if (lineBreak.test(headers[name] ?? '')) throw new Error(`the header ${name} has a line break`);
  }
  exchange.hasBegun = true;
  res.writeStatus(`${status} ${STATUS_CODES[status] ?? 'Unknown'}`);
  res.writeHeader('X-Request-Id', requestId);
  if (rateLimit !== undefined) res.writeHeader('RateLimit-Policy', rateLimit);
  for (const name in headers) res.writeHeader(name, headers[name] ?? '');
}

/** What every JSON answer says about itself, as one block: see answerJson. */
const jsonHeaders = 'application/json\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff';

/**
 * Answers with JSON, or without a body when there is none, and ends the exchange. Does nothing when the client
 * has gone.
 */
export function answerJson(
  exchange: Exchange,
  { status, body, headers }: Answer,
  options: { isHead?: boolean; close?: boolean; fields?: LogFields } = {},
): void {
  if (!exchange.isOpen) return;
  const { res } = exchange;
  const text = body === undefined ? undefined : textOf(status, body, exchange.errorDocs);
  const close = options.close === true || exchange.isStopping;
  res.cork(() => {
    writeHead(exchange, status, headers);
    // Constant headers in one call: each call costs more than its bytes.
    if (text !== undefined) res.writeHeader('Content-Type', jsonHeaders);
    if (text === undefined) endEmpty(exchange, status, close);
    else if (options.isHead) res.endWithoutBody(Buffer.byteLength(text), close);
    else res.end(text, close);
  });
  exchange.done(status, options.fields);
}

/** A body as it is sent: errors name their code and the page on it (decisions 9). */
function textOf(status: number, body: unknown, errorDocs: string): string {
  const text = JSON.stringify(body);
  if (status < 400) return text;
  const { error, code: own, docs_url } = body as { error?: unknown; code?: string; docs_url?: string };
  const code = typeof error === 'string' ? (own ?? apiErrorCode(status, error)) : undefined;
  if (code === undefined || docs_url !== undefined) return text;
  // Put together as text: to copy the body first would cost ten times as much, and refusals come in floods.
  const more = own === undefined ? `,"code":"${code}"` : '';
  return `${text.slice(0, -1)}${more},"docs_url":"${errorDocs}${code}"}`;
}

/** Ends an answer without a body: with a length of 0, but where HTTP allows none (204, 304). */
export function endEmpty({ res }: Exchange, status: number, close = false): void {
  // An argument of undefined would be sent as a length of 2^63.
  if (status === noContent || status === notModified) res.endWithoutBody();
  else res.endWithoutBody(0, close);
}

const noContent = 204;
const notModified = 304;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const lineBreak = /[\r\n\u0000]/;
