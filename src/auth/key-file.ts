/**
 * Where the keys of secrets come from: the settings, a file that an operator keeps, or a file of our own, made at
 * the first start.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SecretError } from '../store/sealed.ts';
import { newKey, parseKeys } from './secret-box.ts';

export type KeySource = {
  /** The keys themselves. */
  secretsKey: string | undefined;
  /** A file that must be there. */
  secretsKeyFile: string | undefined;
  /** The folder of our own file, `secrets.key`. */
  dataDir: string;
};

/**
 * The keys, the one that seals first. Safe to repeat, and for several processes at once.
 *
 * @param mayMake whether a missing file of our own is made
 * @throws {SecretError} when there is none, or one that is not accepted.
 */
export async function loadKeys(source: KeySource, mayMake: boolean): Promise<[Buffer, ...Buffer[]]> {
  if (source.secretsKey !== undefined) return parseKeys(source.secretsKey);
  if (source.secretsKeyFile !== undefined) return parseFile(source.secretsKeyFile, 'SECRETS_KEY_FILE');
  const own = join(source.dataDir, 'secrets.key');
  if (mayMake && !existsSync(own)) await makeOnce(own);
  return parseFile(own, 'SECRETS_KEY is not set, and the key file');
}

async function parseFile(file: string, name: string): Promise<[Buffer, ...Buffer[]]> {
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new SecretError(`${name} ${file} cannot be read (${cause.code})`, { cause });
  });
  try {
    return parseKeys(text);
  } catch (cause) {
    throw new SecretError(`${name} ${file}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
}

/**
 * Makes the file, unless it is there. It appears whole or not at all, and is on disk before anything is sealed with
 * it: of two processes at once one wins, and both read what it wrote.
 */
async function makeOnce(file: string): Promise<void> {
  const folder = dirname(file);
  await mkdir(folder, { recursive: true });
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await writeDurably(draft, `${newKey()}\n`);
    await link(draft, file);
    await syncFolder(folder);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
  } finally {
    await rm(draft, { force: true });
  }
}

async function writeDurably(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', ownerOnly);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const ownerOnly = 0o600;
