/**
 * A proxy request as it is asked (specification 4.4, decisions 4): read from the request at once, then taken
 * apart. Nothing here looks anything up.
 */
import type { HttpRequest } from 'uWebSockets.js';
import { Aspect, type AssetOptions, Mode, Motion, Seconds, Seed, SourceUrl } from '../../schemas/asset.ts';
import { proxy } from '../../schemas/limits.ts';
import type { MediaHead } from './conditional.ts';
import { readMediaHead } from './serve-media.ts';

/** What is read of a request before anything is awaited. */
export type ProxyHead = {
  path: string;
  query: URLSearchParams;
  /** Empty when absent. */
  origin: string;
  referer: string;
  media: MediaHead;
};

/** The options that a proxy URL may carry. */
export type ProxyOptions = Pick<AssetOptions, 'motion' | 'mode' | 'dur_seconds' | 'seed' | 'aspect'>;

export type Target =
  /** `text` is the source as it stands in the path. */
  { kind: 'source'; text: string } | { kind: 'asset'; assetId: string };

export type ProxyPath = { key: string; target: Target; extension: 'mp4' | 'jpg' };

/** A value, or why there is none: text for the 400. */
export type Parsed<Value> = { ok: true; value: Value } | { ok: false; reason: string };

export function readProxyHead(req: HttpRequest, isHead: boolean): ProxyHead {
  return {
    path: req.getUrl(),
    query: new URLSearchParams(req.getQuery() ?? ''),
    origin: req.getHeader('origin'),
    referer: req.getHeader('referer'),
    media: readMediaHead(req, isHead),
  };
}

/**
 * `/v1/{key}/{source}.{mp4|jpg}` or `/v1/{key}/a/{asset_id}.{mp4|jpg}`; undefined when it is neither. Base64
 * with its slashes counts as a source, so that the mistake can be named.
 */
export function parsePath(path: string): ProxyPath | undefined {
  const [, key, rest, extension] = /^\/v1\/([^/]+)\/(.+)\.(mp4|jpg)$/.exec(path) ?? [];
  if (key === undefined || rest === undefined) return undefined;
  const [, assetId] = /^a\/(\w{1,64})$/.exec(rest) ?? [];
  const target: Target = assetId === undefined ? { kind: 'source', text: rest } : { kind: 'asset', assetId };
  return { key, target, extension: extension === 'jpg' ? 'jpg' : 'mp4' };
}

/** Whether text has characters of base64 that base64url does not have, in whatever spelling. */
export function hasBase64Characters(text: string): boolean {
  return /[+/=]|%2b|%2f|%3d/i.test(text);
}

/** The source URL in a path segment: canonical base64url of an http(s) URL of at most 1,500 bytes. */
export function decodeSource(text: string): Parsed<string> {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.toString('base64url') !== text) return fault('the source is not base64url without padding');
  if (bytes.byteLength > proxy.maxSourceUrlBytes) {
    return fault(`the source is longer than ${proxy.maxSourceUrlBytes} bytes`);
  }
  const source = bytes.toString();
  const isUrl = Buffer.from(source).equals(bytes) && SourceUrl.safeParse(source).success;
  return isUrl ? { ok: true, value: source } : fault('the source is not an http or https URL');
}

/** Options from a query or from the fragment of a signed source. Unknown names are ignored. */
export function parseOptions(from: URLSearchParams): Parsed<ProxyOptions> {
  const options: Record<string, unknown> = {};
  for (const { names, field, schema, isNumber } of rows) {
    const text = names.map((name) => from.get(name)).find((value) => value !== null);
    if (text === undefined || text === null) continue;
    const value = isNumber ? toInteger(text) : text;
    if (!schema.safeParse(value).success) return fault(`${names[0]} has no such value`);
    options[field] = value;
  }
  return { ok: true, value: options };
}

/** Names of options that a query must not hold when the request is signed. */
export const optionNames = ['motion', 'dur', 'dur_seconds', 'mode', 'seed', 'aspect'] as const;

/** How long the request may wait for its asset, in ms; more than the longest wait is cut to it. */
export function parseWait(query: URLSearchParams): Parsed<number> {
  const text = query.get('wait_ms');
  if (text === null) return { ok: true, value: 0 };
  const ms = toInteger(text);
  return ms === undefined
    ? fault('wait_ms is not a whole number')
    : { ok: true, value: Math.min(ms, proxy.maxWaitMs) };
}

const rows = [
  { names: ['motion'], field: 'motion', schema: Motion, isNumber: false },
  { names: ['dur', 'dur_seconds'], field: 'dur_seconds', schema: Seconds, isNumber: true },
  { names: ['mode'], field: 'mode', schema: Mode, isNumber: false },
  { names: ['seed'], field: 'seed', schema: Seed, isNumber: true },
  { names: ['aspect'], field: 'aspect', schema: Aspect, isNumber: false },
] as const;

const fault = (reason: string) => ({ ok: false as const, reason });

/** Digits alone; what Number would also take (`1e3`, ` 4`, the empty text) is none. */
function toInteger(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
