/**
 * A proxy request as it is asked (specification 4.4, decisions 4): its path and query, taken apart. Nothing here
 * looks anything up, so what was taken apart once is as good for the next request with the same text.
 */
import { Aspect, type AssetOptions, Mode, Motion, Seconds, Seed, SourceUrl } from '../../schemas/asset.ts';
import { proxy } from '../../schemas/limits.ts';

/** A proxy URL that is well-formed, and what was found out about it since. */
export class ProxyUrl {
  readonly key: string;
  readonly extension: 'mp4' | 'jpg';
  /** The source as it is signed: its URL, or `asset:<asset_id>`. */
  readonly source: string;
  /** Of an asset by its id. */
  readonly assetId: string | undefined;
  readonly isSigned: boolean;
  readonly exp: string;
  readonly sig: string;
  /** Unix ms; NaN when `exp` is no number. */
  readonly expiresTs: number;
  readonly waitMs: number;
  /** Why a request that may use the URL is answered 400. */
  readonly fault: string | undefined;
  readonly options: ProxyOptions;
  /** The secret under which the signature is right. */
  verifiedBy: string | undefined = undefined;
  /** Why the source is refused by its text; an empty text when it is not. */
  sourceFault: string | undefined = undefined;
  /** The asset that it means, and of which project. */
  meant: { projectId: string; assetId: string } | undefined = undefined;

  constructor({ key, target, extension }: ProxyPath, source: string, query: URLSearchParams) {
    this.key = key;
    this.extension = extension;
    this.source = source;
    this.assetId = target.kind === 'asset' ? target.assetId : undefined;
    this.isSigned = isSigned(query);
    this.exp = query.get('exp') ?? '';
    this.sig = query.get('sig') ?? '';
    this.expiresTs = this.exp === '' ? Number.NaN : Number(this.exp) * 1_000;
    const wait = parseWait(query);
    this.waitMs = wait.ok ? wait.value : 0;
    const options = this.assetId === undefined ? optionsOf(source, query, this.isSigned) : none;
    this.options = options.ok ? options.value : {};
    const misplaced = this.isSigned ? optionNames.find((name) => query.has(name)) : undefined;
    if (misplaced) this.fault = `${misplaced} must be in the fragment of the signed source`;
    else if (!wait.ok) this.fault = wait.reason;
    else if (!options.ok) this.fault = options.reason;
  }
}

/** The options that a proxy URL may carry. */
export type ProxyOptions = Pick<AssetOptions, 'motion' | 'mode' | 'dur_seconds' | 'seed' | 'aspect'>;

type Target =
  /** `text` is the source as it stands in the path. */
  { kind: 'source'; text: string } | { kind: 'asset'; assetId: string };

type ProxyPath = { key: string; target: Target; extension: 'mp4' | 'jpg' };

/** A value, or why there is none: text for the 400. */
type Parsed<Value> = { ok: true; value: Value } | { ok: false; reason: string };

/** Why a URL is refused whoever asks. */
export type UrlFault = { kind: 'malformed'; reason: string } | { kind: 'signature' };

/** A proxy URL, or why it is none. */
export function parseProxyUrl(path: string, queryText: string): ProxyUrl | UrlFault {
  const parsed = parsePath(path);
  if (!parsed) {
    return { kind: 'malformed', reason: 'this is neither a source nor an asset with .mp4 or .jpg' };
  }
  const query = new URLSearchParams(queryText);
  const { target } = parsed;
  if (target.kind === 'asset') return new ProxyUrl(parsed, `${assetPrefix}${target.assetId}`, query);
  if (isSigned(query) && hasBase64Characters(target.text)) return { kind: 'signature' };
  const source = decodeSource(target.text);
  return source.ok ? new ProxyUrl(parsed, source.value, query) : { kind: 'malformed', reason: source.reason };
}

const assetPrefix = 'asset:';

const isSigned = (query: URLSearchParams): boolean => query.has('sig') || query.has('exp');

function optionsOf(source: string, query: URLSearchParams, isSignedOne: boolean): Parsed<ProxyOptions> {
  return parseOptions(isSignedOne ? new URLSearchParams(new URL(source).hash.slice(1)) : query);
}

/**
 * `/v1/{key}/{source}.{mp4|jpg}` or `/v1/{key}/a/{asset_id}.{mp4|jpg}`; undefined when it is neither. Base64
 * with its slashes counts as a source, so that the mistake can be named.
 */
function parsePath(path: string): ProxyPath | undefined {
  const [, key, rest, extension] = /^\/v1\/([^/]+)\/(.+)\.(mp4|jpg)$/.exec(path) ?? [];
  if (key === undefined || rest === undefined) return undefined;
  const [, assetId] = /^a\/(\w{1,64})$/.exec(rest) ?? [];
  const target: Target = assetId === undefined ? { kind: 'source', text: rest } : { kind: 'asset', assetId };
  return { key, target, extension: extension === 'jpg' ? 'jpg' : 'mp4' };
}

/** Whether text has characters of base64 that base64url does not have, in whatever spelling. */
function hasBase64Characters(text: string): boolean {
  return /[+/=]|%2b|%2f|%3d/i.test(text);
}

/** The source URL in a path segment: canonical base64url of an http(s) URL of at most 1,500 bytes. */
function decodeSource(text: string): Parsed<string> {
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
function parseOptions(from: URLSearchParams): Parsed<ProxyOptions> {
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
const optionNames = ['motion', 'dur', 'dur_seconds', 'mode', 'seed', 'aspect'] as const;

/** How long the request may wait for its asset, in ms; more than the longest wait is cut to it. */
function parseWait(query: URLSearchParams): Parsed<number> {
  const text = query.get('wait_ms');
  if (text === null) return { ok: true, value: 0 };
  const ms = toInteger(text);
  return ms === undefined
    ? fault('wait_ms is not a whole number')
    : { ok: true, value: Math.min(ms, proxy.maxWaitMs) };
}

const none: Parsed<ProxyOptions> = { ok: true, value: {} };

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
