/**
 * Who may use a proxy URL (specification 5.4 to 5.6, decisions 4): a request with `sig` or `exp` is judged by its
 * signature alone, every other by the origin of its page alone. And what CORS says in either case.
 */
import { proxy } from '../../schemas/limits.ts';
import { isOriginAllowed } from '../auth/origins.ts';
import { isSigned } from '../auth/signed-url.ts';
import { FixedAnswer, HeaderSet } from './exchange.ts';
import type { ProxyUrl } from './proxy-request.ts';

/** What of a project decides who may use its URLs. */
export type AccessProject = {
  proxyKey: string | null;
  /** null: signed URLs are refused. `open` answers from memory after the first time. */
  signingSecret: { open(): string } | null;
  allowedOrigins: string[] | null;
  sourceHosts: string[] | null;
};

/** The headers of CORS for who is let in, or the refusal. */
export type Access = HeaderSet | FixedAnswer;

/** `nowTs` is unix ms. */
export function judgeSignature(project: AccessProject, url: ProxyUrl, nowTs: number): Access {
  const secret = project.signingSecret?.open();
  if (secret === undefined) return invalidSignature;
  // A signature that was right under the same secret is right for ever; its end is looked at each time.
  if (url.verifiedBy === secret) return nowTs <= url.expiresTs ? anyOrigin : invalidSignature;
  if (!isSigned({ key: url.key, secret, source: url.source }, url, nowTs)) return invalidSignature;
  url.verifiedBy = secret;
  return anyOrigin;
}

/**
 * By the page that asks. What was found for a project's pages is remembered for as long as the project is known in
 * this form.
 */
export function createOriginJudge(ownOrigin: string) {
  const known = new WeakMap<AccessProject, Map<string, Access>>();

  /** @param origin and @param referer as they came, empty when absent. */
  return (project: AccessProject, origin: string, referer: string): Access => {
    const text = origin === '' ? referer : origin;
    let verdicts = known.get(project);
    if (!verdicts) {
      verdicts = new Map();
      known.set(project, verdicts);
    }
    const verdict = verdicts.get(text);
    if (verdict) return verdict;
    const found = judgeOrigin(project, text, ownOrigin);
    if (verdicts.size >= maxVerdicts) verdicts.clear();
    if (text.length <= maxOriginChars) verdicts.set(text, found);
    return found;
  };
}

/** Pages remembered of a project, and the longest name of one. */
const maxVerdicts = 256;
const maxOriginChars = 300;

/** @param ownOrigin the service's own, whose dashboard shows previews. */
function judgeOrigin(project: AccessProject, text: string, ownOrigin: string): Access {
  const asked = originOf(text);
  if (asked === undefined) return noOrigin;
  const isAllowed = asked === ownOrigin || isOriginAllowed(project.allowedOrigins ?? [], asked);
  if (!isAllowed) return originRefused;
  return new HeaderSet({ ...crossOrigin, 'Access-Control-Allow-Origin': asked, Vary: 'Origin' });
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
const crossOrigin = {
  'Access-Control-Expose-Headers':
    'ETag, Content-Length, Content-Range, Accept-Ranges, Retry-After, X-Service-Eta-Ms, X-Request-Id, X-Service-Asset-Status',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Timing-Allow-Origin': '*',
};

/** For answers that every page may read: signed ones, and refusals, so that a page can read why. */
export const anyOrigin = new HeaderSet({ ...crossOrigin, 'Access-Control-Allow-Origin': '*' });

const byOrigin = new HeaderSet({ ...anyOrigin.fields, Vary: 'Origin' });
const noOrigin = new FixedAnswer(403, { error: noOriginText }, byOrigin);
const originRefused = new FixedAnswer(403, { error: 'origin not allowed' }, byOrigin);

export const invalidSignature = new FixedAnswer(403, { error: 'invalid signature' }, anyOrigin);
export const unknownKey = new FixedAnswer(403, { error: 'unknown project key' }, anyOrigin);

/** OPTIONS needs no key and starts nothing. */
export const preflight = {
  ...anyOrigin.fields,
  'Access-Control-Allow-Methods': 'GET, HEAD, OPTIONS',
  'Access-Control-Allow-Headers': 'Range, If-Range, If-None-Match, If-Modified-Since, X-Request-Id',
  'Access-Control-Max-Age': String(proxy.preflightMaxAgeSeconds),
};

/**
 * The origin of the page that asks, as browsers write it, from the Origin header, else the Referer, since a plain
 * `<video>` or `<img>` sends no Origin. undefined when it names none.
 */
function originOf(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const parsed = new URL(text);
  // An opaque one has the text `null`.
  return parsed.origin === 'null' ? undefined : parsed.origin;
}
