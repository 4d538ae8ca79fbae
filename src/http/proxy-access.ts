/**
 * Who may use a proxy URL (specification 5.4 to 5.6, decisions 4): a request with `sig` or `exp` is judged by its
 * signature alone, every other by the origin of its page alone. And what CORS says in either case.
 */
import { proxy } from '../../schemas/limits.ts';
import { isOriginAllowed } from '../auth/origins.ts';
import { isSigned } from '../auth/signed-url.ts';
import type { ProxyHead } from './proxy-request.ts';

/** What of a project decides who may use its URLs. */
export type AccessProject = {
  proxyKey: string | null;
  /** null: signed URLs are refused. `open` answers from memory after the first time. */
  signingSecret: { open(): string } | null;
  allowedOrigins: string[] | null;
  sourceHosts: string[] | null;
};

/** `headers` are those of CORS. */
export type Access =
  | { ok: true; headers: Record<string, string> }
  | { ok: false; error: string; headers: Record<string, string> };

export const isSignedRequest = ({ query }: ProxyHead): boolean => query.has('sig') || query.has('exp');

/** @param source the decoded source URL, or `asset:<asset_id>`. `nowTs` is unix ms. */
export function judgeSignature(
  project: AccessProject,
  key: string,
  source: string,
  { query }: ProxyHead,
  nowTs: number,
): Access {
  const secret = project.signingSecret?.open() ?? null;
  const signature = { exp: query.get('exp') ?? '', sig: query.get('sig') ?? '' };
  const isRight = secret !== null && isSigned({ key, secret, source }, signature, nowTs);
  return isRight ? { ok: true, headers: anyOrigin } : invalidSignature;
}

export const invalidSignature: Access & { ok: false } = {
  ok: false,
  error: 'invalid signature',
  get headers() {
    return anyOrigin;
  },
};

/** @param ownOrigin the service's own, whose dashboard shows previews. */
export function judgeOrigin(
  project: AccessProject,
  { origin, referer }: ProxyHead,
  ownOrigin: string,
): Access {
  const asked = originOf(origin, referer);
  if (asked === undefined) return { ok: false, error: noOriginText, headers: refusedByOrigin };
  const isAllowed = asked === ownOrigin || isOriginAllowed(project.allowedOrigins ?? [], asked);
  if (!isAllowed) return { ok: false, error: 'origin not allowed', headers: refusedByOrigin };
  return { ok: true, headers: { ...crossOrigin, 'Access-Control-Allow-Origin': asked, Vary: 'Origin' } };
}

/** Whether a project's URLs may show a source's host; a listed host stands for its subdomains too. */
export function isSourceAllowed({ sourceHosts }: AccessProject, source: string): boolean {
  if (sourceHosts === null) return true;
  const { hostname } = new URL(source);
  return sourceHosts.some((host) => hostname === host || hostname.endsWith(`.${host}`));
}

const noOriginText =
  'origin not allowed: the request names none; add crossorigin="anonymous" to the element that loads it';

/** Headers of every answer of the proxy but those that depend on who asks. */
export const crossOrigin = {
  'Access-Control-Expose-Headers':
    'ETag, Content-Length, Content-Range, Accept-Ranges, Retry-After, X-Service-Eta-Ms, X-Request-Id, X-Service-Asset-Status',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Timing-Allow-Origin': '*',
};

/** For answers that every page may read: signed ones, and refusals, so that a page can read why. */
export const anyOrigin = { ...crossOrigin, 'Access-Control-Allow-Origin': '*' };

const refusedByOrigin = { ...anyOrigin, Vary: 'Origin' };

/** OPTIONS needs no key and starts nothing. */
export const preflight = {
  ...anyOrigin,
  'Access-Control-Allow-Methods': 'GET, HEAD, OPTIONS',
  'Access-Control-Allow-Headers': 'Range, If-Range, If-None-Match, If-Modified-Since, X-Request-Id',
  'Access-Control-Max-Age': String(proxy.preflightMaxAgeSeconds),
};

/**
 * The origin of the page that asks, as browsers write it: the Origin header, else the Referer's, since a plain
 * `<video>` or `<img>` sends no Origin. undefined when neither names one.
 */
function originOf(origin: string, referer: string): string | undefined {
  const text = origin === '' ? referer : origin;
  if (!URL.canParse(text)) return undefined;
  const parsed = new URL(text);
  // An opaque one has the text `null`.
  return parsed.origin === 'null' ? undefined : parsed.origin;
}
