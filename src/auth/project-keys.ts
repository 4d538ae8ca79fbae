/** Keys of a project (specification 5, decisions 2): the public one and the secret that signs URLs. */
import { randomBytes } from 'node:crypto';
import { randomBase62 } from '../store/ids.ts';

const proxyKeyChars = 24;
const secretBytes = 32;

/** `pk_` and 24 random base62 characters. Public: it says which project, not who asks. */
export function newProxyKey(): string {
  return `pk_${randomBase62(proxyKeyChars)}`;
}

/** `sk_` and 32 random bytes in base64url. */
export function newSigningSecret(): string {
  return `sk_${randomBytes(secretBytes).toString('base64url')}`;
}
