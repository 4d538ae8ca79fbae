/** Files of one effect: storage keys of a run, and a folder that is gone afterwards. */
import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EffectError } from '../../schemas/errors.ts';
import type { EffectStorage } from './deps.ts';

/** No clip and no source comes near this, in bytes. */
const maxClipBytes = 64 * 1024 * 1024;

/** Key of an intermediate file of a run; `cleanUp` removes them all. */
export function workKey(assetId: string, run: number, name: string): string {
  return `${workPrefix(assetId, run)}${name}`;
}

export function workPrefix(assetId: string, run: number): string {
  return `work/${assetId}/${run}/`;
}

/** Runs with a folder of its own, which is removed whatever happens. */
export async function withFolder<Result>(
  tempDir: string,
  run: (folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = join(tempDir, `effect-${randomUUID()}`);
  await mkdir(folder, { recursive: true });
  try {
    return await run(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Reads an intermediate file. @throws {EffectError} transient: the stage that made it says it is there. */
export async function readWork(
  storage: EffectStorage,
  key: string,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const bytes = await storage.read(key, signal, maxClipBytes);
  if (!bytes)
    throw new EffectError('store_write_failed', `${key} is gone from storage`, { retry: 'transient' });
  return bytes;
}

/** Copies an intermediate file to disk, where ffmpeg can read it. */
export async function workToFile(
  storage: EffectStorage,
  key: string,
  file: string,
  signal: AbortSignal,
): Promise<string> {
  await writeFile(file, await readWork(storage, key, signal));
  return file;
}
