/**
 * Signed proxy URLs (specification 5.6, decisions 4): the signature covers `<project_key>:<source_url>:<exp>`,
 * with the source URL as it was encoded, its fragment included.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { proxy } from '../../schemas/limits.ts';

export type Signed = {
  key: string;
  secret: string;
  /** Decoded source URL, or `asset:<asset_id>` for an asset by its id. */
  source: string;
};

/** Text of `exp` and `sig` as they came with a request. */
export type Signature = { exp: string; sig: string };

/**
 * The path of a signed proxy URL with its query. `expiresTs` is unix ms; `extension` may be changed afterwards:
 * one signature serves the animation and its poster.
 */
export function signUrl(signed: Signed, expiresTs: number, extension: 'mp4' | 'jpg' = 'mp4'): string {
  const exp = String(Math.floor(expiresTs / 1_000));
  const sig = digest(signed, exp).toString('base64url');
  return `/v1/${signed.key}/${toSegment(signed.source)}.${extension}?exp=${exp}&sig=${sig}`;
}

/** Whether a signature is right and not yet over at `nowTs` (unix ms). Compares in constant time. */
export function isSigned(signed: Signed, { exp, sig }: Signature, nowTs: number): boolean {
  if (!expForm.test(exp) || !sigForm.test(sig)) return false;
  const isRight = timingSafeEqual(digest(signed, exp), Buffer.from(sig, 'base64url'));
  return isRight && nowTs <= Number(exp) * 1_000;
}

const expForm = new RegExp(`^\\d{1,${proxy.maxSignatureExpiryDigits}}$`);
/** 32 bytes as base64url without padding. */
const sigForm = /^[A-Za-z0-9_-]{43}$/;
const assetPrefix = 'asset:';

function digest({ key, secret, source }: Signed, exp: string): Buffer {
  return createHmac('sha256', secret).update(`${key}:${source}:${exp}`).digest();
}

function toSegment(source: string): string {
  if (source.startsWith(assetPrefix)) return `a/${source.slice(assetPrefix.length)}`;
  return Buffer.from(source).toString('base64url');
}
