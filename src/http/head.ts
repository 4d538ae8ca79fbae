/**
 * The head of a request, read at once: uWebSockets.js lets go of it when the handler returns. What its parser
 * lets pass although servers must refuse it is found here: whatever two servers in a row could read as two
 * different requests (a second Host or Content-Length, another Transfer-Encoding than chunked, a path that one of
 * them would tidy up), and heads larger than any client's. What the parser hides from us: test/http/h1.test.ts.
 */

import type { HttpRequest } from 'uWebSockets.js';
import { randomBytes } from 'node:crypto';
import { http as limits } from '../../schemas/limits.ts';

export class Head {
  path = '';
  /** Of raw routes: the method is HEAD. */
  isHead = false;
  /** The client's own when it is of the form that specification 7 echoes, else a new one. */
  requestId = '';
  /** Header values; empty when absent. */
  authorization = '';
  contentEncoding = '';
  contentType = '';
  cookie = '';
  forwardedFor = '';
  origin = '';
  referer = '';
  secFetchSite = '';
  userAgent = '';
  range = '';
  ifRange = '';
  ifNoneMatch = '';
  ifModifiedSince = '';
  traceparent = '';
  /** undefined when absent. */
  idempotencyKey: string | undefined = undefined;
  /** Announced length of the body in bytes; undefined when it comes in chunks, 0 without one. */
  length: number | undefined = 0;
  /** Why the request must be refused and its connection closed. */
  fault: Fault | undefined = undefined;
}

export type Fault = { status: 400 | 431; error: string };

const echoed = new RegExp(`^[A-Za-z0-9_-]{${limits.requestIdMinChars},${limits.requestIdMaxChars}}$`);
const digits = /^\d{1,15}$/;
/** A registered name or address, and a port: no user, no path, no blank (RFC 9110, 7.2). */
const authority = /^(?:[\w.~-]{1,255}|\[[\da-fA-F:.]{2,45}\])(?::\d{1,5})?$/;

/** Headers that may come once, as bits: a second one could be the one that another server believes. */
const once = {
  host: 1,
  length: 2,
  contentType: 4,
  authorization: 8,
  idempotencyKey: 16,
  origin: 32,
};

/**
 * The head that is being read. One for all, since each is read in one go: what a closure for each request would
 * cost is more than most of the reading.
 */
let head = new Head();
let bytes = 0;
let seen = 0;
let unfit = 0;
/** The value of Host that was last found fit: most requests have the same. */
let lastHost = '';

export function readHead(request: HttpRequest): Head {
  head = new Head();
  head.path = request.getUrl();
  bytes = head.path.length;
  seen = 0;
  unfit = 0;
  request.forEach(noteHeader);
  head.fault = findFault(head.path, bytes, (seen & once.host) === 0 ? unfit | once.host : unfit);
  if (head.requestId === '' || !echoed.test(head.requestId)) head.requestId = newRequestId();
  return head;
}

function noteHeader(name: string, value: string): void {
  bytes += name.length + value.length;
  if (value.includes(del)) unfit |= otherHeader;
  switch (name) {
    case 'host':
      note(once.host, isHost(value));
      break;
    case 'content-length':
      note(once.length, digits.test(value));
      head.length = Number(value);
      break;
    case 'transfer-encoding':
      // It stands for a length: together with one, or twice, the end of the body is anybody's guess.
      note(once.length, value.toLowerCase() === 'chunked');
      head.length = undefined;
      break;
    case 'authorization':
      note(once.authorization, true);
      head.authorization = value;
      break;
    case 'idempotency-key':
      note(once.idempotencyKey, true);
      head.idempotencyKey = value;
      break;
    case 'content-type':
      note(once.contentType, true);
      head.contentType = value;
      break;
    case 'origin':
      note(once.origin, true);
      head.origin = value;
      break;
    default:
      readField(name, value);
  }
}

/** Notes a header that may come once, and whether it is what it must be. */
function note(header: number, isFit: boolean): void {
  if (!isFit || (seen & header) !== 0) unfit |= header;
  seen |= header;
}

function isHost(value: string): boolean {
  if (value === lastHost) return true;
  const isFit = authority.test(value);
  if (isFit) lastHost = value;
  return isFit;
}

function readField(name: string, value: string): void {
  switch (name) {
    case 'x-request-id':
      head.requestId = value;
      break;
    case 'content-encoding':
      // A second one is a second layer.
      head.contentEncoding = joined(head.contentEncoding, value, ', ');
      break;
    case 'cookie':
      // HTTP/2 clients may send several; a terminator in front of us may pass them on like that.
      head.cookie = joined(head.cookie, value, '; ');
      break;
    case 'x-forwarded-for':
      head.forwardedFor = joined(head.forwardedFor, value, ', ');
      break;
    case 'if-none-match':
      head.ifNoneMatch = joined(head.ifNoneMatch, value, ', ');
      break;
    case 'traceparent':
      head.traceparent ||= value;
      break;
    case 'sec-fetch-site':
      head.secFetchSite = value;
      break;
    case 'user-agent':
      head.userAgent = value;
      break;
    // Of these that come twice although they must not, the first one counts.
    case 'referer':
      head.referer ||= value;
      break;
    case 'range':
      head.range ||= value;
      break;
    case 'if-range':
      head.ifRange ||= value;
      break;
    case 'if-modified-since':
      head.ifModifiedSince ||= value;
      break;
  }
}

function joined(before: string, value: string, separator: string): string {
  return before === '' ? value : `${before}${separator}${value}`;
}

/** The one control character that the parser lets into values and paths. */
const del = '\u007f';
const otherHeader = 64;

function findFault(path: string, bytes: number, unfit: number): Fault | undefined {
  if (bytes > limits.maxHeadBytes) return { status: 431, error: 'the head of the request is too large' };
  if ((unfit & once.host) !== 0) return bad('exactly one Host is needed');
  if ((unfit & once.length) !== 0) return bad('the length of the body is not clear');
  if (unfit !== 0) return bad('a header is repeated or has a control character');
  return isClearPath(path) ? undefined : bad('the path is malformed');
}

const bad = (error: string): Fault => ({ status: 400, error });

/** Whether every server reads the path alike: ASCII, no fragment, nothing to resolve, escapes that are UTF-8. */
function isClearPath(path: string): boolean {
  if (!plainPath.test(path)) return false;
  const isEscaped = path.includes('%');
  // Looked for in two steps: most paths have nothing that a segment of dots begins with.
  if ((isEscaped || path.includes('/.')) && dotSegment.test(path)) return false;
  if (!isEscaped) return true;
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

/** A second slash at the start would be the name of a server to whoever resolves it. */
const plainPath = /^\/(?!\/)[!"$-~]*$/;
const dotSegment = /\/(?:\.|%2e){1,2}(?:\/|$)/i;

/** Random bytes are asked for in bulk: one by one they would cost more than the rest of a small request. */
const pool = { hex: '', at: 0 };
const poolBytes = 4096;
const idDigits = 8;

/** `req_` and 8 hex characters (specification 7). */
export function newRequestId(): string {
  if (pool.at >= pool.hex.length) {
    pool.hex = randomBytes(poolBytes).toString('hex');
    pool.at = 0;
  }
  const from = pool.at;
  pool.at += idDigits;
  return `req_${pool.hex.slice(from, pool.at)}`;
}
