/**
 * Lets one process at a time do a piece of set-up.
 *
 * The lock is a file that its holder refreshes every second. One that is no longer refreshed belongs to a process
 * that is gone and is taken over; process ids would not tell, since containers that share a folder do not share them.
 */
import { mkdir, open, rm, stat, utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';

const beatMs = 1_000;
const staleMs = 10_000;
const pollMs = 100;
const maxWaitMs = 15 * 60_000;

/**
 * Runs `work` while nobody else holds `lock`, and answers what it answers.
 * @param {string} lock the lock file; its folder is made
 * @param {(line: string) => void} say gets one line when somebody else holds it
 * @throws {Error} when it is not free within 15 minutes
 */
export async function alone(lock, say, work) {
  await mkdir(dirname(lock), { recursive: true });
  await take(lock, say);
  const beat = setInterval(
    () => utimes(lock, new Date(), new Date()).catch(() => clearInterval(beat)),
    beatMs,
  );
  try {
    return await work();
  } finally {
    clearInterval(beat);
    await rm(lock, { force: true });
  }
}

async function take(lock, say) {
  const deadline = Date.now() + maxWaitMs;
  for (let isFirst = true; Date.now() < deadline; isFirst = false) {
    if (await create(lock)) return;
    if (isFirst) say('waiting for another set-up');
    // The pause comes after the removal: whoever saw the same stale lock has tried to remove it by then.
    if (await isStale(lock)) await rm(lock, { force: true });
    await wait(pollMs);
  }
  throw new Error(`another set-up does not end: remove ${lock} if there is none`);
}

async function create(lock) {
  try {
    await (await open(lock, 'wx')).close();
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

async function isStale(lock) {
  try {
    return Date.now() - (await stat(lock)).mtimeMs > staleMs;
  } catch (error) {
    if (error.code === 'ENOENT') return false;
    throw error;
  }
}
