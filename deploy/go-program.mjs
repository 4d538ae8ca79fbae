/** Builds a program with Go, once into the cache, where Go is installed: what tests and chaos can also go without. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { alone } from './alone.mjs';

const cache = fileURLToPath(new URL('../.cache', import.meta.url));
/** A proxy that does not answer must not hold anybody up; two processors build for five minutes. */
const askTimeoutMs = 60_000;
const buildTimeoutMs = 15 * 60_000;

/**
 * Finds a program in the cache or on PATH, or builds it. Never fails.
 *
 * @param {{ name: string, built?: string, module: string, package?: string, version: string, what: string }} program
 *   `name` as it is called on PATH, `built` as Go calls it; `package` below `module`; `what` it is needed for
 * @param {(line: string) => void} say gets one line for each thing that is done
 * @returns {Promise<string | undefined>} its path; undefined where it is not to be had
 */
export async function findOrBuild({ name, built = name, module, package: below = '', version, what }, say) {
  const folder = join(cache, `${name}-${version}`);
  const find = () =>
    [join(folder, built), findOnPath(name)].find((file) => file !== undefined && existsSync(file));
  const go = findOnPath('go');
  if (find() !== undefined || go === undefined) return find();
  await alone(join(cache, `${name}.lock`), say, async () => {
    if (find() !== undefined) return;
    say(`building ${name} ${version} with Go, once, for ${what}`);
    const run = (args, timeout) => runGo(go, args, { folder, timeout });
    const isReachable = await run(['list', '-m', `${module}@v${version}`], askTimeoutMs);
    const isBuilt = isReachable && (await run(['install', `${module}${below}@v${version}`], buildTimeoutMs));
    say(isBuilt ? 'done' : `${name} could not be built: ${what} go without it`);
  });
  return find();
}

function findOnPath(name) {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .map((one) => join(one, name))
    .find((file) => existsSync(file));
}

/** Whether a go command succeeds within its time. */
function runGo(go, args, { folder, timeout }) {
  const env = { ...process.env, GOBIN: folder, GOFLAGS: '-modcacherw' };
  return new Promise((resolve) => {
    const child = spawn(go, args, { cwd: cache, env, timeout, stdio: ['ignore', 'ignore', 'inherit'] });
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
}
