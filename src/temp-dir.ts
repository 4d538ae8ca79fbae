/**
 * A folder for this process's temporary files. Several processes may share DATA_DIR, so each has one of its own;
 * those that killed processes have left behind are removed at the next start.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { nameProcess } from './embedded/processes.ts';

export type TempDir = { path: string; remove(): Promise<void> };

/** @param root folder of all processes' folders; made when absent */
export async function openTempDir(root: string): Promise<TempDir> {
  await mkdir(root, { recursive: true });
  for (const name of await readdir(root)) {
    if (!isOfRunning(name)) await rm(join(root, name), { recursive: true, force: true });
  }
  const path = join(root, folderName(process.pid));
  await mkdir(path, { recursive: true });
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/** `<pid>-<when it started>`: a reused pid is another name. */
function folderName(pid: number): string {
  const startedAt = nameProcess(pid)?.startedAt ?? '';
  return `${pid}-${createHash('sha256').update(startedAt).digest('hex').slice(0, 12)}`;
}

function isOfRunning(name: string): boolean {
  const pid = Number(name.split('-')[0]);
  return Number.isInteger(pid) && pid > 0 && nameProcess(pid) !== undefined && folderName(pid) === name;
}
