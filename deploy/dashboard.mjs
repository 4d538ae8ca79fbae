/**
 * Builds the dashboard (src/dashboard) with Vite into dist/src/dashboard, and compresses it there as it will be
 * served. Does nothing when nothing it is made of has changed.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { alone } from './alone.mjs';
import { listFiles, signatureOf } from './signature.mjs';

export const dashboardFolder = join('src', 'dashboard');
const outFolder = join('dist', dashboardFolder);
/** What the pages are made of. */
const charts = join('dist', 'src', 'charts');
const inputs = [
  dashboardFolder,
  join('src', 'charts', 'chart.css'),
  join(charts, 'asset.svg'),
  join(charts, 'delivery.svg'),
  'package-lock.json',
  join('deploy', 'dashboard.mjs'),
];
const compressed = ['.js', '.css', '.svg'];

/** Two at once are safe: one works, the other waits for it and then looks again. */
export async function buildDashboard({ root, lockFile, say, timed, run }) {
  if (!existsSync(join(root, dashboardFolder)) || isBuilt(root)) return;
  await alone(lockFile, say, async () => {
    if (isBuilt(root)) return;
    await timed('building the dashboard', () => make(root, run));
  });
}

async function make(root, run) {
  const signature = sign(root);
  await rm(markOf(root), { force: true });
  const vite = join('node_modules', 'vite', 'bin', 'vite.js');
  await run(process.execPath, [vite, 'build', dashboardFolder, '--logLevel', 'warn']);
  const assets = join(root, outFolder, 'assets');
  const files = readdirSync(assets).filter((name) => compressed.includes(extname(name)));
  await Promise.all(files.map((name) => compress(join(assets, name))));
  await writeFile(markOf(root), signature);
}

async function compress(path) {
  const bytes = await readFile(path);
  const best = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  await writeFile(`${path}.br`, await promisify(brotliCompress)(bytes, { params: best }));
  await writeFile(`${path}.gz`, await promisify(gzip)(bytes, { level: 9 }));
}

const markOf = (root) => join(root, outFolder, '.build');

const isBuilt = (root) => existsSync(markOf(root)) && readFileSync(markOf(root), 'utf8') === sign(root);

const sign = (root) => signatureOf(root, listFiles(root, inputs));
