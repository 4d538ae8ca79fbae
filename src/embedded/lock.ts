/**
 * One process at a time may use a data folder: a second nats-server would not notice the first.
 *
 * The lock is a file that names its holder. It is written aside and linked into place, so it is never seen half
 * written; one whose holder is gone is taken over.
 */
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isRunning, nameProcess, ProcessName } from './processes.ts';

const maxTries = 5;

/** Another process uses the folder. */
export class LockedError extends Error {
  override readonly name = 'LockedError';
}

/**
 * Locks a folder, which is made when absent. Answers what releases it.
 * @throws {LockedError} naming holder and folder when a running process holds it
 */
export function lockFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'lock');
  const text = JSON.stringify(nameProcess(process.pid));
  for (let tries = 0; tries < maxTries; tries++) {
    if (create(file, text)) return () => release(file, text);
    const found = readText(file);
    const holder = found === undefined ? undefined : parseHolder(found);
    if (holder !== undefined && isRunning(holder)) {
      throw new LockedError(
        `${folder} is in use by process ${holder.pid}: stop it, or give this one another DATA_DIR`,
      );
    }
    // Looked at again, since another process may have taken the stale lock over meanwhile.
    if (found !== undefined) release(file, found);
  }
  throw new Error(`cannot lock ${folder}`);
}

function create(file: string, text: string): boolean {
  const aside = `${file}.${process.pid}`;
  writeFileSync(aside, text);
  try {
    linkSync(aside, file);
    return true;
  } catch (cause) {
    if (hasCode(cause, 'EEXIST')) return false;
    throw cause;
  } finally {
    rmSync(aside, { force: true });
  }
}

function release(file: string, text: string): void {
  if (readText(file) === text) rmSync(file, { force: true });
}

function parseHolder(text: string): ProcessName | undefined {
  try {
    return ProcessName.parse(JSON.parse(text));
  } catch {
    // Not written by us, since ours are never half written: nobody holds it.
    return undefined;
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    if (hasCode(cause, 'ENOENT')) return undefined;
    throw cause;
  }
}

const hasCode = (cause: unknown, code: string) =>
  cause instanceof Error && 'code' in cause && cause.code === code;
