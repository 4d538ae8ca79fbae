/**
 * The head of a request, read at once: uWebSockets.js lets go of it when the handler returns. What its parser
 * lets pass although servers must refuse it is found here: more than one Host or Content-Length, or another
 * Transfer-Encoding than chunked, by which two servers in a row would read two different requests.
 */

import type { HttpRequest } from 'uWebSockets.js';
import { randomBytes } from 'node:crypto';
import { http as limits } from '../../schemas/limits.ts';

export type Head = {
  /** The client's own when it is of the form that specification 7 echoes, else a new one. */
  requestId: string;
  /** Header values; empty when absent. */
  authorization: string;
  contentType: string;
  cookie: string;
  forwardedFor: string;
  origin: string;
  secFetchSite: string;
  userAgent: string;
  /** undefined when absent; of several values nothing is left that could pass for a key. */
  idempotencyKey: string | undefined;
  /** Announced length of the body in bytes; undefined when it comes in chunks, 0 without one. */
  length: number | undefined;
  /** Why the request must be refused and its connection closed. */
  fault: string | undefined;
};

const echoed = new RegExp(`^[A-Za-z0-9_-]{${limits.requestIdMinChars},${limits.requestIdMaxChars}}$`);
const digits = /^\d{1,15}$/;

export function readHead(request: HttpRequest): Head {
  const head: Head = {
    requestId: '',
    authorization: '',
    contentType: '',
    cookie: '',
    forwardedFor: '',
    origin: '',
    secFetchSite: '',
    userAgent: '',
    idempotencyKey: undefined,
    length: 0,
    fault: undefined,
  };
  let hosts = 0;
  let lengths = 0;
  request.forEach((name, value) => {
    switch (name) {
      case 'host':
        hosts += value === '' ? 2 : 1;
        break;
      case 'content-length':
        lengths += digits.test(value) ? 1 : 2;
        head.length = Number(value);
        break;
      case 'transfer-encoding':
        // It stands for a length: together with one, or twice, the end of the body is anybody's guess.
        lengths += value.toLowerCase() === 'chunked' ? 1 : 2;
        head.length = undefined;
        break;
      default:
        readField(head, name, value);
    }
  });
  if (hosts !== 1) head.fault = 'exactly one Host is needed';
  else if (lengths > 1) head.fault = 'the length of the body is not clear';
  if (!echoed.test(head.requestId)) head.requestId = newRequestId();
  return head;
}

/** Random bytes are asked for in bulk: one by one they would cost more than the rest of a small request. */
const pool = { bytes: Buffer.alloc(0), at: 0 };
const poolBytes = 4096;
const idBytes = 4;

/** `req_` and 8 hex characters (specification 7). */
export function newRequestId(): string {
  if (pool.at >= pool.bytes.length) {
    pool.bytes = randomBytes(poolBytes);
    pool.at = 0;
  }
  const hex = pool.bytes.toString('hex', pool.at, pool.at + idBytes);
  pool.at += idBytes;
  return `req_${hex}`;
}

function readField(head: Head, name: string, value: string): void {
  switch (name) {
    case 'x-request-id':
      head.requestId = value;
      break;
    case 'authorization':
      // Two of them are nobody's word: together they are no token.
      head.authorization = head.authorization === '' ? value : `${head.authorization}, ${value}`;
      break;
    case 'content-type':
      head.contentType = value;
      break;
    case 'cookie':
      // HTTP/2 clients may send several; a terminator in front of us may pass them on like that.
      head.cookie = head.cookie === '' ? value : `${head.cookie}; ${value}`;
      break;
    case 'x-forwarded-for':
      head.forwardedFor = head.forwardedFor === '' ? value : `${head.forwardedFor}, ${value}`;
      break;
    case 'origin':
      head.origin = value;
      break;
    case 'sec-fetch-site':
      head.secFetchSite = value;
      break;
    case 'user-agent':
      head.userAgent = value;
      break;
    case 'idempotency-key':
      head.idempotencyKey = head.idempotencyKey === undefined ? value : '';
      break;
  }
}
