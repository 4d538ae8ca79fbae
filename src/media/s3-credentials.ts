/**
 * The credentials of an object store: from the settings, or from files that are read again when the store refuses
 * what they held, so that short-lived ones may be replaced while the service runs.
 */
import { readFile } from 'node:fs/promises';
import { StorageError } from './storage.ts';

export type S3Credentials = { accessKeyId: string; secretAccessKey: string; sessionToken?: string };

/** Each as a text or as a file that holds it. */
export type S3CredentialSource = Record<keyof S3Credentials, { text?: string; file?: string }>;

export type S3Keys = {
  current(): S3Credentials;
  /** Reads the files again. Answers whether they hold others than `refused`. @throws {StorageError} */
  renew(refused: S3Credentials): Promise<boolean>;
};

/** @throws {StorageError} when a file cannot be read, or holds nothing. */
export async function openS3Keys(source: S3CredentialSource): Promise<S3Keys> {
  let current = await readAll(source);
  return {
    current: () => current,
    async renew(refused) {
      // Someone else may have read them meanwhile.
      if (current === refused) {
        const next = await readAll(source);
        if (!isSame(next, refused)) current = next;
      }
      return current !== refused;
    },
  };
}

async function readAll(source: S3CredentialSource): Promise<S3Credentials> {
  const [accessKeyId, secretAccessKey, sessionToken] = await Promise.all([
    readOne(source.accessKeyId),
    readOne(source.secretAccessKey),
    readOne(source.sessionToken),
  ]);
  return { accessKeyId, secretAccessKey, ...(sessionToken === '' ? {} : { sessionToken }) };
}

async function readOne({ text = '', file }: { text?: string; file?: string }): Promise<string> {
  if (file === undefined) return text;
  const held = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new StorageError(`the credentials in ${file} cannot be read (${cause.code})`, { cause });
  });
  // What headers cannot carry would else be quoted in an error of the client.
  if (!/^[\x21-\x7e]+$/.test(held.trim())) throw new StorageError(`${file} holds no credential`);
  return held.trim();
}

function isSame(one: S3Credentials, other: S3Credentials): boolean {
  return (['accessKeyId', 'secretAccessKey', 'sessionToken'] as const).every(
    (name) => one[name] === other[name],
  );
}
