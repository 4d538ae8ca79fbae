/**
 * Sets up what `npm start` and `npm test` need: npm packages, the build, the servers that run beside the service.
 *
 * Run by npm before both. Each part looks first whether there is anything to do; when there is not, all of it takes
 * a tenth of a second, prints nothing and needs no network. `--install`, `--build` or `--binaries` does one part.
 * Two set-ups at once are safe: one works, the other waits for it and then looks again.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { alone } from './alone.mjs';
import { ensureBinaries } from './binaries.mjs';
import { buildDashboard, dashboardFolder } from './dashboard.mjs';
import { listFiles, signatureOf } from './signature.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const sourceFolders = ['schemas', 'machines', 'src'];
const buildFiles = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'];
/** What runs in browsers has a tsconfig.json of its own, beside it. */
const forBrowsers = join('src', 'embed');
/** Draws the state machines beside itself. */
const charts = join('src', 'charts', 'build.ts');
const node20Abi = '115';
const lockFile = join(root, '.cache', 'setup.lock');

const say = (line) => console.log(`setup: ${line}`);

/** Does everything that is not done yet. @throws {Error} with a message for people */
export async function setUp() {
  checkNode();
  await install();
  await build();
  await fetchBinaries();
}

/** @throws {Error} when this is not Node 20: the native packages are built for its ABI alone. */
export function checkNode() {
  if (process.versions.modules === node20Abi) return;
  throw new Error(`Node 20 (20.19 or later) is needed, this is ${process.version}`);
}

/** Installs the packages of package-lock.json unless they are there for this Node version and processor. */
export async function install() {
  if (isInstalled()) return;
  await alone(lockFile, say, async () => {
    if (isInstalled()) return;
    if (!isSameTree())
      await timed('installing npm packages (npm ci)', () => run(...npmCommand('ci', '--include=dev')));
    await writeFile(stampFile, installStamp());
  });
}

const stampFile = join(root, 'node_modules', '.setup-stamp');

const isInstalled = () => existsSync(stampFile) && readFileSync(stampFile, 'utf8') === installStamp();

function installStamp() {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  return `${systemStamp()}${lock}\n`;
}

const systemStamp = () => `${process.version} ${process.platform} ${process.arch} `;

/**
 * Whether npm's own record of node_modules agrees with the lock file, as it does after `npm install`: then nothing
 * needs to be thrown away. Packages for other platforms are in the lock file only.
 */
function isSameTree() {
  if (existsSync(stampFile) && !readFileSync(stampFile, 'utf8').startsWith(systemStamp())) return false;
  const installed = readPackages(join('node_modules', '.package-lock.json'));
  if (installed === undefined) return false;
  const { '': _root, ...wanted } = readPackages('package-lock.json') ?? {};
  const isThere = ([path, entry]) =>
    installed[path] === undefined
      ? entry.optional === true && !isForThisSystem(entry)
      : installed[path].version === entry.version && existsSync(join(root, path));
  return Object.entries(wanted).every(isThere) && Object.keys(installed).every((path) => path in wanted);
}

function isForThisSystem({ os, cpu, libc }) {
  const isGnu = process.report?.getReport().header.glibcVersionRuntime !== undefined;
  return (
    (os?.includes(process.platform) ?? false) &&
    (cpu?.includes(process.arch) ?? false) &&
    (libc?.includes(isGnu ? 'glibc' : 'musl') ?? true)
  );
}

function readPackages(file) {
  if (!existsSync(join(root, file))) return undefined;
  return JSON.parse(readFileSync(join(root, file), 'utf8')).packages;
}

function npmCommand(...args) {
  const script = process.env.npm_execpath;
  if (script?.endsWith('.js')) return [process.execPath, [script, ...args]];
  const beside = join(dirname(process.execPath), 'npm');
  return [existsSync(beside) ? beside : 'npm', args];
}

/** Compiles the sources to dist/ and copies the other files that lie among them, unless nothing has changed. */
export async function build() {
  if (!isBuilt(listSources())) {
    await alone(lockFile, say, async () => {
      const sources = listSources();
      if (isBuilt(sources)) return;
      await timed('building', () => compile(sources));
    });
  }
  await buildDashboard({ root, lockFile, say, timed, run });
}

async function compile(sources) {
  const earlier = readBuildMark()?.outputs;
  // Without the mark dist/ is in an unknown state, and tsc would leave out what its own record calls unchanged.
  if (earlier === undefined) await rm(join(root, 'dist', '.tsbuildinfo'), { force: true });
  await rm(markFile, { force: true });
  const tsc = join('node_modules', 'typescript', 'bin', 'tsc');
  await run(process.execPath, [tsc, '-p', 'tsconfig.build.json']);
  if (sources.files.includes(join(forBrowsers, 'tsconfig.json'))) {
    const out = ['--noCheck', '--noEmit', 'false', '--outDir', join('dist', forBrowsers)];
    await run(process.execPath, [tsc, '-p', forBrowsers, ...out]);
  }

  const outputs = sources.files.map(outputOf);
  for (const file of sources.files.filter((file) => !isCode(file) && basename(file) !== 'tsconfig.json')) {
    await mkdir(dirname(join(root, outputOf(file))), { recursive: true });
    await copyFile(join(root, file), join(root, outputOf(file)));
  }
  if (sources.files.includes(charts)) {
    await run(process.execPath, [outputOf(charts), join(root, dirname(outputOf(charts)))]);
  }
  for (const gone of (earlier ?? []).filter((file) => !outputs.includes(file))) {
    await rm(join(root, gone), { force: true });
    await rm(join(root, `${gone}.map`), { force: true });
  }
  await writeFile(markFile, JSON.stringify({ signature: sources.signature, outputs }));
}

const markFile = join(root, 'dist', '.build.json');

const isBuilt = ({ signature }) => readBuildMark()?.signature === signature;

function readBuildMark() {
  try {
    return JSON.parse(readFileSync(markFile, 'utf8'));
  } catch {
    // Absent or cut short: not built.
    return undefined;
  }
}

/** Every source file, and one text that changes when any of them does. */
function listSources() {
  const files = listFiles(root, sourceFolders).filter((file) => !file.startsWith(join(dashboardFolder, sep)));
  return { files, signature: signatureOf(root, [...files, ...buildFiles]) };
}

const isCode = (file) => /\.tsx?$/.test(file);
const outputOf = (file) => join('dist', isCode(file) ? file.replace(/\.tsx?$/, '.js') : file);

/**
 * Finds or fetches the binaries that will be needed. Servers named by MONGODB_URL and NATS_URL need none, but
 * tests never use those: they always start servers of their own.
 */
export async function fetchBinaries() {
  const { npm_lifecycle_event: event, MONGODB_URL, NATS_URL, BINARY_CACHE } = process.env;
  const isTest = event === 'pretest';
  const cache = resolve(root, BINARY_CACHE || join('.cache', 'bin'));
  const needed = ['ffmpeg'];
  if (isTest || !MONGODB_URL) needed.push('mongod');
  if (isTest || !NATS_URL) needed.push('natsServer');
  await ensureBinaries({ cache, needed, say });
}

async function timed(what, work) {
  const startedAt = performance.now();
  say(what);
  await work();
  say(`done in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('exit', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${[command, ...args].join(' ')} ended with code ${code}`));
    });
  });
}

async function main() {
  const parts = { '--install': install, '--build': build, '--binaries': fetchBinaries };
  const chosen = process.argv.slice(2);
  const unknown = chosen.find((option) => !Object.hasOwn(parts, option));
  if (unknown !== undefined) throw new Error(`unknown option ${unknown}: ${Object.keys(parts).join(', ')}`);
  if (chosen.length === 0) return setUp();
  checkNode();
  for (const option of chosen) await parts[option]();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main().catch((error) => {
    console.error(`setup: ${error.message}`);
    process.exitCode = 1;
  });
}
