/**
 * What the command line remembers between two calls: where the service is, and the token that `login` has made. A
 * file of its own that only its user can read, in the folder that XDG names.
 */
import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

export type Profile = {
  base: string;
  token: string;
  /** Of the token, so that `logout` can revoke it. */
  tokenId?: string;
};

/** @param env looked at for XDG_CONFIG_HOME */
export function profileFile(env: Readonly<Record<string, string | undefined>>): string {
  const folder = env['XDG_CONFIG_HOME'] || join(homedir(), '.config');
  return join(folder, 'animated-assets', 'cli.json');
}

/** Undefined before the first login. @throws {Error} for a file that is none of ours */
export async function readProfile(file: string): Promise<Profile | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw cause;
  }
  const profile = parse(text);
  if (typeof profile.base === 'string' && typeof profile.token === 'string') return profile as Profile;
  throw new Error(`${file} is damaged: remove it, and log in again`);
}

/** Replaced as a whole, and never readable by others, not even for a moment. */
export async function writeProfile(file: string, profile: Profile): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const next = `${file}.${process.pid}`;
  await writeFile(next, `${JSON.stringify(profile, undefined, 2)}\n`, { mode: 0o600 });
  await chmod(next, 0o600);
  await rename(next, file);
}

export async function forgetProfile(file: string): Promise<void> {
  await rm(file, { force: true });
}

function parse(text: string): Partial<Profile> {
  try {
    return Object(JSON.parse(text));
  } catch {
    // Said by the caller, with the file's name.
    return {};
  }
}
