/**
 * Signatures of callbacks (wire formats 4.1 and 4.2), checked over the raw bytes, in constant time, with a time that
 * must be near ours.
 */
import {
  createHash,
  createHmac,
  createPublicKey,
  type JsonWebKey,
  timingSafeEqual,
  verify,
} from 'node:crypto';
import { provider as limits } from '../../schemas/limits.ts';

/** Standard Webhooks, as Replicate signs. `signatures` holds several, separated by spaces. `now` is unix ms. */
export function verifyReplicate(
  given: { id: string; timestamp: string; signatures: string; body: Uint8Array },
  secret: string,
  now: number,
): boolean {
  const { id, timestamp, signatures, body } = given;
  if (id === '' || !isFresh(timestamp, now)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (key.length === 0) return false;
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  return signatures
    .split(' ')
    .slice(0, maxSignatures)
    .filter((one) => one.startsWith('v1,'))
    .some((one) => isEqual(Buffer.from(one.slice('v1,'.length)), Buffer.from(expected.toString('base64'))));
}

/** Ed25519, as fal signs; any of the keys may be the one. `now` is unix ms. */
export function verifyFal(
  given: { requestId: string; userId: string; timestamp: string; signature: string; body: Uint8Array },
  keys: readonly JsonWebKey[],
  now: number,
): boolean {
  const { requestId, userId, timestamp, signature, body } = given;
  if (requestId === '' || !isFresh(timestamp, now) || !/^[0-9a-f]{128}$/i.test(signature)) return false;
  const digest = createHash('sha256').update(body).digest('hex');
  const message = Buffer.from([requestId, userId, timestamp, digest].join('\n'));
  return keys.slice(0, maxKeys).some((key) => isSignedBy(key, message, Buffer.from(signature, 'hex')));
}

const maxSignatures = 8;
const maxKeys = 16;

function isFresh(timestamp: string, now: number): boolean {
  if (!/^\d{1,12}$/.test(timestamp)) return false;
  return Math.abs(Number(timestamp) * 1000 - now) <= limits.callbackToleranceMs;
}

function isEqual(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function isSignedBy(key: JsonWebKey, message: Buffer, signature: Buffer): boolean {
  if (key.kty !== 'OKP' || key.crv !== 'Ed25519') return false;
  try {
    return verify(null, message, createPublicKey({ key, format: 'jwk' }), signature);
  } catch {
    // A key that is none signs nothing.
    return false;
  }
}
