/** Secrets that somebody holds and we only recognise: 256 random bits, of which we keep the SHA-256. */
import { createHash, randomBytes } from 'node:crypto';

const secretBytes = 32;

/** 43 characters of base64url. */
export function newSecret(): string {
  return randomBytes(secretBytes).toString('base64url');
}

/** What is stored of a secret. It needs no salt: nobody can try 2^256 of them. */
export function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}
