/**
 * Secrets at rest: AES-256-GCM under a ring of keys, of which the first seals and all open.
 *
 * What is authenticated beside the text is whose it is, so that a value does not open in another record. A nonce is
 * random: 96 bits bear 2^32 values a key, which no installation comes near.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { type SecretBox, SecretError, type SecretOwner, sealedForm } from '../store/sealed.ts';

const algorithm = 'aes-256-gcm';
const version = 'v1';
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const keyIdChars = 8;
/** Random keys have nearly always more than 24: one that somebody typed is found out. */
const minDistinctBytes = 16;

/** @param keys as parseKeys gives them: the first one seals. */
export function createSecretBox(keys: readonly [Buffer, ...Buffer[]]): SecretBox {
  const [first] = keys;
  const sealing = { id: idOf(first), key: createSecretKey(first) };
  const ring = new Map<string, KeyObject>(keys.map((key) => [idOf(key), createSecretKey(key)]));

  return {
    keyIds: [sealing.id, ...[...ring.keys()].filter((id) => id !== sealing.id)],

    seal(text, owner) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, sealing.key, nonce, { authTagLength: tagBytes });
      cipher.setAAD(contextOf(owner));
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return [version, sealing.id, nonce.toString('base64url'), sealed.toString('base64url')].join('.');
    },

    open(stored, owner) {
      const [, keyId = '', nonce = '', sealed = ''] = sealedForm.exec(stored) ?? [];
      if (keyId === '') return stored;
      const key = ring.get(keyId);
      const name = `the ${owner.purpose} of ${owner.id}`;
      if (!key) throw new SecretError(`cannot open ${name}: its key ${keyId} is not configured`);
      const bytes = Buffer.from(sealed, 'base64url');
      const decipher = createDecipheriv(algorithm, key, Buffer.from(nonce, 'base64url'), {
        authTagLength: tagBytes,
      });
      decipher.setAAD(contextOf(owner));
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      try {
        return decipher.update(bytes.subarray(0, -tagBytes), undefined, 'utf8') + decipher.final('utf8');
      } catch (cause) {
        throw new SecretError(`cannot open ${name}: it was changed, or sealed for another record`, { cause });
      }
    },
  };
}

/** A key for another use, the same in every process that has these keys. */
export function deriveKey([first]: readonly [Buffer, ...Buffer[]], use: string): Buffer {
  return Buffer.from(hkdfSync('sha256', first, '', use, keyBytes));
}

/**
 * Keys from text: each base64 of 32 random bytes, with commas or line breaks between them.
 *
 * @throws {SecretError} that says what is accepted, and nothing of the text.
 */
export function parseKeys(text: string): [Buffer, ...Buffer[]] {
  const parts = text.split(/[,\n]/).map((part) => part.trim());
  const [first, ...more] = parts.filter((part) => part !== '').map(parseKey);
  if (!first) throw new SecretError(`no key is there; accepted: ${acceptedKeys}`);
  return [first, ...more];
}

export const acceptedKeys = `base64 of ${keyBytes} random bytes (openssl rand -base64 ${keyBytes}), several separated by commas`;

/** A new key as text that parseKeys takes. */
export function newKey(): string {
  return randomBytes(keyBytes).toString('base64');
}

/** Base64 or base64url, with or without padding; nothing that decodes by leaving characters out. */
function parseKey(text: string): Buffer {
  const key = Buffer.from(text, 'base64');
  const isExact =
    key.toString('base64url') === text.replaceAll('+', '-').replaceAll('/', '_').replace(/=$/, '');
  if (!isExact || key.length !== keyBytes || new Set(key).size < minDistinctBytes) {
    throw new SecretError(`a key is not accepted; accepted: ${acceptedKeys}`);
  }
  return key;
}

/** Names a key without giving it away. */
function idOf(key: Buffer): string {
  return createHash('sha256').update(key).digest('hex').slice(0, keyIdChars);
}

function contextOf({ purpose, id }: SecretOwner): Buffer {
  return Buffer.from([version, purpose, id].join('\0'));
}
