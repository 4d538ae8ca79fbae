/**
 * Builds versitygw, an object store that storage is tested against, once into the cache, when Go is installed: `npm run
 * versitygw`, some minutes. Never fails: the tests say what they skip where the program is missing.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { alone } from './alone.mjs';

const version = '1.8.0';
const program = `github.com/versity/versitygw/cmd/versitygw@v${version}`;
const cache = fileURLToPath(new URL('../.cache', import.meta.url));
const folder = join(cache, `versitygw-${version}`);
/** A proxy that does not answer must not hold the tests up; two processors build for five minutes. */
const askTimeoutMs = 60_000;
const buildTimeoutMs = 15 * 60_000;

const say = (line) => console.log(`setup: ${line}`);
const findOnPath = (name) =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .map((one) => join(one, name))
    .find((file) => existsSync(file));
const go = findOnPath('go');
const isThere = () => existsSync(join(folder, 'versitygw')) || findOnPath('versitygw') !== undefined;

async function build() {
  if (isThere()) return;
  say(`building versitygw ${version} with Go, once, for the tests of object storage`);
  const [module = ''] = program.split('/cmd/');
  const isReachable = await runGo(['list', '-m', `${module}@v${version}`], askTimeoutMs);
  const isBuilt = isReachable && (await runGo(['install', program], buildTimeoutMs));
  say(isBuilt ? 'done' : 'versitygw could not be built: the tests of object storage go without it');
}

/** Whether a go command succeeds within its time. */
function runGo(args, timeout) {
  const env = { ...process.env, GOBIN: folder, GOFLAGS: '-modcacherw' };
  return new Promise((resolve) => {
    const child = spawn(go, args, { cwd: cache, env, timeout, stdio: ['ignore', 'ignore', 'inherit'] });
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
}

if (go !== undefined && !isThere()) await alone(join(cache, 'versitygw.lock'), say, build);
