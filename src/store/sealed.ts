/**
 * Secrets as the store keeps them: sealed on their way in, opened when somebody first asks. Who seals is handed in
 * (src/auth/secret-box.ts); here is what the store has to know of it, so that a stolen copy of the database signs
 * nothing.
 */
import { inspect } from 'node:util';

/** What a secret is for. Part of what its seal proves: one kind can't be put in the place of another. */
export type SecretPurpose = 'signing secret' | 'webhook secret' | 'sample';

/** The record that a secret belongs to: sealed for one, it does not open for another. */
export type SecretOwner = { purpose: SecretPurpose; id: string };

export type SecretBox = {
  /** Ids of its keys; the first one seals, all of them open. */
  keyIds: readonly [string, ...string[]];
  seal(text: string, owner: SecretOwner): string;
  /**
   * A text that was never sealed, from before there were keys, is answered as it is.
   *
   * @throws {SecretError} when its key is missing, or it was changed or sealed for another record.
   */
  open(stored: string, owner: SecretOwner): string;
};

/** A secret that cannot be opened, or a key that cannot be had. The message shows nothing of either. */
export class SecretError extends Error {
  override readonly name = 'SecretError';
}

/** `v1.<key id>.<nonce>.<ciphertext and tag>`, the last two in base64url. */
export const sealedForm = /^v1\.([0-9a-f]{8})\.([\w-]{16})\.([\w-]{22,})$/;

/** Id of the key that a stored text was sealed with; undefined for a plain one. */
export function keyIdOf(stored: string): string | undefined {
  return sealedForm.exec(stored)?.[1];
}

/** A stored secret in a record. Whatever prints or sends the record shows `[hidden]` in its place. */
export class Secret {
  readonly #box: SecretBox;
  readonly #stored: string;
  readonly #owner: SecretOwner;
  #opened: string | undefined;

  constructor(box: SecretBox, stored: string, owner: SecretOwner) {
    this.#box = box;
    this.#stored = stored;
    this.#owner = owner;
  }

  /** Its text, deciphered once. @throws {SecretError} as the box does. */
  open(): string {
    this.#opened ??= this.#box.open(this.#stored, this.#owner);
    return this.#opened;
  }

  toJSON(): string {
    return hidden;
  }

  [inspect.custom](): string {
    return hidden;
  }
}

const hidden = '[hidden]';

/** Of a store that was opened without keys: it does everything but secrets. */
export const noBox: SecretBox = {
  keyIds: ['none'],
  seal: () => refuse(),
  open: () => refuse(),
};

function refuse(): never {
  throw new SecretError('the store was opened without keys for secrets');
}
