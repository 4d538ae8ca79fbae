/**
 * Texts that are served from memory: pages, style sheets, documents. Each is compressed once, when it is first asked
 * for, and answered by its ETag when the client knows it.
 */

import type { HttpRequest } from 'uWebSockets.js';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { type Exchange, endEmpty, endHead, writeHead } from './exchange.ts';

export type Encoding = 'br' | 'gzip' | 'identity';

/** A text with its headers, ready to be sent. */
export type Page = {
  headers: Record<string, string>;
  /** Without quotes. */
  tag: string;
  bodies: Map<Encoding, Promise<Buffer> | Buffer>;
};

/** What is read of a request before anything is awaited. */
export type PageHead = { isHead: boolean; ifNoneMatch: string; acceptEncoding: string };

const yearSeconds = 31_536_000;

/** Cache-Control of what may change with the next release, and of what has its content in its address. */
export const briefly = 'public, max-age=60, stale-while-revalidate=600';
export const forEver = `public, max-age=${yearSeconds}, immutable`;

/**
 * Headers of every HTML page of the service. Nothing may be loaded but what `sources` adds, and nothing inline runs.
 *
 * HSTS goes with pages alone: they are what people open by typing an address.
 *
 * @param sources more of the Content-Security-Policy, e.g. `script-src 'self'`.
 */
export function pageHeaders(baseUrl: string, sources: readonly string[] = []): Record<string, string> {
  const policy = [
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self'",
    ...sources,
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ];
  return {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': policy.join('; '),
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    'Referrer-Policy': 'strict-origin-when-cross-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Permissions-Policy': 'camera=(), microphone=(), geolocation=()',
    ...(baseUrl.startsWith('https:') ? { 'Strict-Transport-Security': `max-age=${yearSeconds}` } : {}),
  };
}

/** @param headers must hold Content-Type and Cache-Control. */
export function createPage(content: string | Buffer, headers: Record<string, string>): Page {
  const body = typeof content === 'string' ? Buffer.from(content) : content;
  const tag = createHash('sha256').update(body).digest('base64url').slice(0, tagChars);
  return { headers: { ...headers, Vary: 'Accept-Encoding' }, tag, bodies: new Map([['identity', body]]) };
}

const tagChars = 22;

export function readPageHead(req: HttpRequest, isHead: boolean): PageHead {
  return {
    isHead,
    ifNoneMatch: req.getHeader('if-none-match'),
    acceptEncoding: req.getHeader('accept-encoding'),
  };
}

/** Sends a page: whole, its head alone, or that it is still the same. */
export async function answerPage(
  page: Page,
  head: PageHead,
  exchange: Exchange,
  status = 200,
): Promise<void> {
  const encoding = chooseEncoding(head.acceptEncoding);
  const etag = `"${page.tag}-${encoding}"`;
  const isKnown =
    status === 200 && head.ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === etag);
  const body = isKnown ? undefined : await bodyOf(page, encoding);
  if (!exchange.isOpen) return;
  const { res, isStopping } = exchange;
  const sent = isKnown ? 304 : status;
  res.cork(() => {
    writeHead(exchange, sent, {
      ...page.headers,
      ETag: etag,
      ...(encoding === 'identity' || isKnown ? {} : { 'Content-Encoding': encoding }),
    });
    if (body === undefined) endEmpty(exchange, sent, isStopping);
    else if (head.isHead) endHead(exchange, body.byteLength, isStopping);
    else res.end(body, isStopping);
  });
  exchange.done(sent);
}

const compress = { br: promisify(brotliCompress), gzip: promisify(gzip) };
/** Ten times faster than the most there is, for a percent or two of the size. */
const brotliQuality = 9;

async function bodyOf({ bodies }: Page, encoding: Encoding): Promise<Buffer> {
  const known = bodies.get(encoding);
  if (known) return known;
  const whole = (await bodies.get('identity')) ?? Buffer.alloc(0);
  const making =
    encoding === 'br'
      ? compress.br(whole, { params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality } })
      : compress.gzip(whole);
  bodies.set(encoding, making);
  return making;
}

/** The smallest that the client takes; what it forbids by `q=0` is not taken. */
function chooseEncoding(accepted: string): Encoding {
  const taken = accepted
    .toLowerCase()
    .split(',')
    .map((one) => one.trim())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.replace(/;.*$/, '').trim());
  if (taken.includes('br')) return 'br';
  return taken.includes('gzip') ? 'gzip' : 'identity';
}
