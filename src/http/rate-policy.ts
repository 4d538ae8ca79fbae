/**
 * Which rate limit counts a request, and what its answer says of it: the header fields RateLimit-Policy and
 * RateLimit of draft-ietf-httpapi-ratelimit-headers.
 */
import { perMinute } from '../../schemas/limits.ts';
import type { Turn } from '../quota/rate-limit.ts';
import type { Services } from './services.ts';

/** One row of the table of limits (specification 8). */
export type RatePolicy = {
  name: string;
  perMinute: number;
  /** Sets its buckets apart from those of other rows. */
  suffix: string;
};

/** Endpoints without a row share one. */
export const sharedPolicy: RatePolicy = { name: 'other', perMinute: perMinute.other, suffix: '' };

/** The policy of a route: named by the end of its path, `deep-crawl` or `webhooks-test`. */
export function policyOf(method: string, path: string, own: number | undefined): RatePolicy {
  if (own === undefined) return sharedPolicy;
  const segments = path.split('/');
  const named = segments.slice(segments.findLastIndex((segment) => segment.startsWith(':')) + 1);
  const name = path.includes(':') ? named.join('-') : (named.at(-1) ?? '');
  return { name, perMinute: own, suffix: ` ${method} ${path}` };
}

/** Counts a request of a user. */
export function takeTurn(
  { rateLimit, config }: Pick<Services, 'rateLimit' | 'config'>,
  userId: string,
  policy: RatePolicy,
): Turn | Promise<Turn> {
  return rateLimit.take(userId + policy.suffix, policy.perMinute * (config.rateLimitFactor ?? 1));
}

/** What an answer says of the limit that counted its request. */
export function rateFields(services: Pick<Services, 'config'>, policy: RatePolicy, turn: Turn) {
  return { 'RateLimit-Policy': policyField(services, policy), RateLimit: limitField(policy, turn) };
}

/** The same as one text, the value of the first and the second: each call that writes a header costs more. */
export function rateLines(services: Pick<Services, 'config'>, policy: RatePolicy, turn: Turn): string {
  return `${policyField(services, policy)}\r\nRateLimit: ${limitField(policy, turn)}`;
}

/** The factor is the same for all of a process, so each policy has one text. */
const policyFields = new Map<RatePolicy, { factor: number; text: string }>();

function policyField({ config }: Pick<Services, 'config'>, policy: RatePolicy): string {
  const factor = config.rateLimitFactor ?? 1;
  const known = policyFields.get(policy);
  if (known?.factor === factor) return known.text;
  const text = `"${policy.name}";q=${policy.perMinute * factor};w=60`;
  policyFields.set(policy, { factor, text });
  return text;
}

function limitField({ name }: RatePolicy, { remaining, resetMs }: Turn): string {
  return `"${name}";r=${remaining};t=${Math.ceil(resetMs / 1_000)}`;
}

/** The answer to a request that is not counted. */
export function rateLimited({ waitMs }: Pick<Turn, 'waitMs'>) {
  return {
    status: 429 as const,
    body: { error: 'rate limited', retry_after_ms: waitMs },
    headers: { 'Retry-After': String(Math.max(1, Math.ceil(waitMs / 1_000))) },
  };
}
