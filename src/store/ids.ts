/** Identifiers of records: a prefix that names the kind, and 20 base62 characters that cannot be guessed. */
import { randomBytes } from 'node:crypto';

const idChars = 20;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Bytes from here on are dropped, or the alphabet's first letters would come up more often. */
const fairBelow = 256 - (256 % alphabet.length);

/** A new id such as `usr_4fK…`: 119 random bits. */
export function newId(prefix: string): string {
  return `${prefix}_${randomBase62(idChars)}`;
}

/** Random letters and digits from the system's generator, every one as likely as the others. */
export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length - text.length)) {
      if (byte < fairBelow) text += alphabet.charAt(byte % alphabet.length);
    }
  }
  return text;
}
