/**
 * One request and its answer. uWebSockets.js forgets a response once it is answered or its client is gone, and
 * touching it then throws: every late step asks `isOpen` first.
 */

import type { HttpResponse } from 'uWebSockets.js';
import { STATUS_CODES } from 'node:http';
import { apiErrorCode } from '../../schemas/errors.ts';
import type { HttpMeter, RouteMeter } from '../metrics/http-meter.ts';
import type { LeaveSignal } from '../sse/run-ends.ts';
import { Head } from './head.ts';

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
  /** The same at a tenth of its memory, for what is held by the thousand. */
  readonly leaving: LeaveSignal;
  /** The head of the request; after `forgetHead` nothing of it but its `traceparent`. */
  readonly head: Head;
  /**
   * Whether the request's handler has not returned yet: until then uWebSockets.js corks by itself, and the client
   * cannot go away.
   */
  readonly isInHandler: boolean;
  /** The server is stopping: end with close, begin nothing long. */
  readonly isStopping: boolean;
  /** Address of the pages on error codes, with a slash at its end. */
  readonly errorDocs: string;
  /** What is counted of its route. */
  readonly meter: RouteMeter;
  /** An answer with an error is counted. */
  refused(code: string): void;
  /** Calls back when the client goes away. To be used instead of `res.onAborted`, which knows one listener. */
  onAborted(listener: () => void): void;
  /** Lets go of the request's head: what is open for minutes needs its memory, not what it was asked with. */
  forgetHead(): void;
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
  readonly meter: HttpMeter;
  finished(exchange: OpenExchange, status: number, fields: LogFields): void;
};

/**
 * An exchange as the server holds it. A class, since an object literal with getters costs a hidden class of its
 * own each time, which only a full garbage collection takes back: most of the cost of a small request.
 */
export class OpenExchange implements Exchange, LeaveSignal {
  readonly res: HttpResponse;
  head: Head;
  readonly requestId: string;
  /** For the log. */
  readonly method: string;
  readonly path: string;
  readonly meter: RouteMeter;
  readonly startedAt = performance.now();
  isOpen = true;
  isInHandler = true;
  hasBegun = false;
  rateLimit: string | undefined = undefined;
  private readonly host: ExchangeHost;
  /** The first one by itself: most requests have no other, and a set is larger than all the rest. */
  private listener: (() => void) | undefined = undefined;
  private listeners: Set<() => void> | undefined = undefined;
  private control: AbortController | undefined = undefined;

  constructor(
    res: HttpResponse,
    head: Head,
    method: string,
    path: string,
    host: ExchangeHost,
    meter: RouteMeter,
  ) {
    this.res = res;
    this.head = head;
    this.requestId = head.requestId;
    this.method = method;
    this.path = path;
    this.host = host;
    this.meter = meter;
  }

  /**
   * To be called when the request's handler returns. Nobody can go away before: what is answered at once is not
   * listened to, which costs more than the rest of a small answer.
   */
  leaveHandler(): void {
    this.isInHandler = false;
    if (this.isOpen) this.res.onAborted(() => this.abort());
  }

  get isStopping(): boolean {
    return this.host.isStopping;
  }

  get errorDocs(): string {
    return this.host.errorDocs;
  }

  refused(code: string): void {
    this.host.meter.refused(code);
  }

  /** Made when it is first asked for: most requests never do. */
  get signal(): AbortSignal {
    if (!this.control) {
      this.control = new AbortController();
      if (!this.isOpen) this.control.abort(new Error(goneText));
    }
    return this.control.signal;
  }

  /** The exchange is the signal itself. */
  get leaving(): LeaveSignal {
    return this;
  }

  get aborted(): boolean {
    return !this.isOpen;
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.onAborted(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.listener === listener) this.listener = undefined;
    else this.listeners?.delete(listener);
  }

  onAborted(listener: () => void): void {
    if (this.listener === undefined) {
      this.listener = listener;
      return;
    }
    this.listeners ??= new Set();
    this.listeners.add(listener);
  }

  forgetHead(): void {
    const { traceparent } = this.head;
    this.head = forgotten;
    if (traceparent === '') return;
    // Its span is told of when it ends.
    this.head = new Head();
    this.head.traceparent = traceparent;
  }

  done(status: number, fields: LogFields = noFields): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.host.finished(this, status, fields);
  }

  private abort(): void {
    this.done(clientGone);
    this.control?.abort(new Error(goneText));
    this.listener?.();
    for (const listener of this.listeners ?? []) listener();
  }
}

const noFields: LogFields = {};
const forgotten = new Head();
const goneText = 'the client went away';

/**
 * Writes the status line, X-Request-Id, headers, and a block of more of them as `toBlock` makes it. To be called
 * inside a cork or the handler itself.
 *
 * @throws before anything is written, when a value has a line break.
 */
export function writeHead(
  exchange: Exchange,
  status: number,
  headers?: Record<string, string>,
  block = '',
): void {
  const { res, rateLimit } = exchange;
  let lines = exchange.requestId;
  if (rateLimit !== undefined) lines += `\r\nRateLimit-Policy: ${rateLimit}`;
  // Before the first byte: a failure can then still be answered.
  if (headers) lines += toBlock(headers);
  exchange.hasBegun = true;
  // One call for all of it, as the end of the status or the value of the first header: each costs more than its bytes.
  if (status === ok) res.writeHeader('X-Request-Id', lines + block);
  else res.writeStatus((statusLines.get(status) ?? `${status} Unknown${idLine}`) + lines + block);
}

/**
 * The same text in one piece. One that was joined is put together each time that it is joined to another, which costs
 * half as much as to send it.
 */
export const inOnePiece = (text: string): string => Buffer.from(text).toString();

/** Headers as lines, each after a line break. @throws when a value has one itself. */
export function toBlock(headers: Record<string, string>): string {
  let lines = '';
  for (const name in headers) {
    const value = headers[name] ?? '';
    if (lineBreak.test(value)) throw new Error(`the header ${name} has a line break`);
    lines += `\r\n${name}: ${value}`;
  }
  return lines;
}

const ok = 200;
const idLine = '\r\nX-Request-Id: ';
/** Each with the name of the header that follows. */
const statusLines = new Map(
  Object.entries(STATUS_CODES).map(([status, text]) => [Number(status), `${status} ${text}${idLine}`]),
);

/** What every JSON answer says about itself. */
const jsonBlock =
  '\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff';

/**
 * Answers with JSON, or without a body when there is none, and ends the exchange. Does nothing when the client
 * has gone.
 */
export function answerJson(exchange: Exchange, answer: Answer, options: AnswerOptions = {}): void {
  if (!exchange.isOpen) return;
  const { status, body } = answer;
  const { text, code } = body === undefined ? noText : textOf(status, body, exchange.errorDocs);
  if (code !== undefined) exchange.refused(code);
  if (exchange.isInHandler) writeJson(exchange, answer, text, options);
  else exchange.res.cork(() => writeJson(exchange, answer, text, options));
  exchange.done(status, options.fields);
}

type Text = { text: string | undefined; code: string | undefined };
const noText: Text = { text: undefined, code: undefined };

type AnswerOptions = { isHead?: boolean; close?: boolean; fields?: LogFields };

function writeJson(
  exchange: Exchange,
  { status, headers }: Answer,
  text: string | undefined,
  options: AnswerOptions,
): void {
  writeHead(exchange, status, headers, text === undefined ? '' : jsonBlock);
  const close = options.close === true || exchange.isStopping;
  if (text === undefined) endEmpty(exchange, status, close);
  else endText(exchange, text, options.isHead === true, close);
}

function endText(exchange: Exchange, text: string | Buffer, isHead: boolean, close: boolean): void {
  if (isHead) endHead(exchange, Buffer.byteLength(text), close);
  else exchange.res.end(text, close);
}

/**
 * Ends the answer to a HEAD, with the length that the body would have. To uWebSockets.js an answer that it wrote the
 * length of is complete when so many bytes were sent: it would hang up at the next request of the connection.
 */
export function endHead({ res, isInHandler }: Exchange, bytes: number, close: boolean): void {
  if (!close) {
    res.writeHeader('Content-Length', String(bytes));
    res.endWithoutBody();
    return;
  }
  // Incomplete for ever, so it insists on a listener.
  if (isInHandler) res.onAborted(() => undefined);
  res.endWithoutBody(bytes, close);
}

/** Headers that many answers share, as they are and as `toBlock` makes them. */
export class HeaderSet {
  readonly fields: Record<string, string>;
  readonly block: string;

  /** @throws when a value has a line break. */
  constructor(fields: Record<string, string>) {
    this.fields = fields;
    this.block = inOnePiece(toBlock(fields));
  }
}

/** An answer in JSON that is always the same, made once: refusals come in floods. */
export class FixedAnswer {
  private readonly status: number;
  private readonly body: unknown;
  private readonly block: string;
  /** To be made from a text each time is a tenth of what the answer costs. */
  private bytes = Buffer.alloc(0);
  private code: string | undefined = undefined;
  private docs: string | undefined = undefined;

  constructor(status: number, body: unknown, headers: HeaderSet) {
    this.status = status;
    this.body = body;
    this.block = inOnePiece(headers.block + jsonBlock);
  }

  /** Answers with it and ends the exchange. Does nothing when the client has gone. */
  send(exchange: Exchange): void {
    if (!exchange.isOpen) return;
    if (this.docs !== exchange.errorDocs) {
      this.docs = exchange.errorDocs;
      const { text, code } = textOf(this.status, this.body, exchange.errorDocs);
      this.bytes = Buffer.from(text);
      this.code = code;
    }
    if (this.code !== undefined) exchange.refused(this.code);
    if (exchange.isInHandler) this.write(exchange);
    else exchange.res.cork(() => this.write(exchange));
    exchange.done(this.status);
  }

  private write(exchange: Exchange): void {
    writeHead(exchange, this.status, undefined, this.block);
    endText(exchange, this.bytes, exchange.head.isHead, exchange.isStopping);
  }
}

/** A body as it is sent: errors name their code and the page on it (decisions 9). */
function textOf(
  status: number,
  body: unknown,
  errorDocs: string,
): { text: string; code: string | undefined } {
  const text = JSON.stringify(body);
  if (status < 400) return { text, code: undefined };
  const { error, code: own, docs_url } = body as { error?: unknown; code?: string; docs_url?: string };
  const code = typeof error === 'string' ? (own ?? apiErrorCode(status, error)) : undefined;
  if (code === undefined || docs_url !== undefined) return { text, code };
  // Put together as text: to copy the body first would cost ten times as much, and refusals come in floods.
  const more = own === undefined ? `,"code":"${code}"` : '';
  return { text: `${text.slice(0, -1)}${more},"docs_url":"${errorDocs}${code}"}`, code };
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
