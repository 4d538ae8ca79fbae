/**
 * The sites that brand detection is judged on: pages of packages of the registry, fetched once by exact version
 * into .cache, and pages of our own with traps, in test/brand/sites. Served on loopback, each by its host name.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createSiteCrawler } from '../brand/site/site-crawler.ts';
import { createOutbound } from '../outbound/outbound.ts';

/** What a person sees; a list holds all answers that are right, what is left out is not judged. */
export type Expected = {
  primary?: string | string[];
  secondary?: string | string[];
  background?: string | string[];
  foreground?: string | string[];
  heading?: string | string[];
  body?: string | string[];
  name?: string | string[];
  /** What the address ends or begins with; empty when there is none. */
  logo?: string | string[];
  tagline?: string[];
  features?: string[];
  /** Tier, or tier and price: `Team|$9`. */
  pricing?: string[];
  /** Authors. */
  testimonials?: string[];
  stats?: string[];
  announcements?: string[];
  /** Languages. */
  code?: string[];
  /** Types. */
  pages?: string[];
  ctas?: string[];
  design?: Record<string, string | boolean>;
  audience?: string;
};

export type Site = {
  id: string;
  /** `name@version`; a site of our own has none. */
  package?: string;
  root?: string;
  page?: string;
  /** The package's other pages are of other things: they are not served. */
  isAlone?: boolean;
  /** Set aside while the rules were made. */
  kept: boolean;
  expected: Expected;
};

const here = fileURLToPath(new URL('.', import.meta.url));
const top = here.includes(`${sep}dist${sep}`)
  ? here.slice(0, here.lastIndexOf(`${sep}dist${sep}`))
  : join(here, '../..');
const own = join(top, 'test/brand/sites');
const cache = join(top, '.cache/brand-sites');
const run = promisify(execFile);

export async function readSites(): Promise<Site[]> {
  return JSON.parse(await readFile(join(own, 'expected.json'), 'utf8')) as Site[];
}

/** Fetches what is missing. */
export async function fetchSites(sites: readonly Site[]): Promise<void> {
  await mkdir(cache, { recursive: true });
  for (const name of new Set(sites.map((one) => one.package))) {
    if (name === undefined || existsSync(folderOf(name))) continue;
    const temporary = await mkdtemp(join(cache, 'new-'));
    try {
      const { stdout } = await run('npm', ['pack', name, '--silent', '--pack-destination', temporary]);
      const unpacked = join(temporary, 'package');
      await mkdir(unpacked);
      const archive = join(temporary, stdout.trim());
      // Old packages have headers of their own, and tar warns of each.
      await run('tar', ['xzf', archive, '-C', unpacked, '--strip-components=1'], {
        maxBuffer: maxWarningBytes,
      });
      await rename(unpacked, folderOf(name));
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  }
}

const maxWarningBytes = 64 * 1024 * 1024;

/** Serves sites at `http://<id>.localhost:<port>`. */
export async function serveSites(sites: readonly Site[]): Promise<{ port: number; close(): Promise<void> }> {
  const byId = new Map(sites.map((one) => [one.id, one]));
  const server = createServer(async ({ headers, url = '/' }, response) => {
    const site = byId.get((headers.host ?? '').split('.')[0] ?? '');
    const path = decodeURIComponent(new URL(url, 'http://localhost').pathname);
    if (site?.page !== undefined && path === '/')
      return response.writeHead(302, { location: `/${site.page}` }).end();
    // Some packages keep robots away from their demonstration.
    const file = site && path !== '/robots.txt' && (await fileAt(join(folderOfSite(site), normalize(path))));
    const isOther = site?.isAlone && file && extname(file) === '.html' && path !== `/${site.page}`;
    if (!file || isOther) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' });
    return response.end(await readFile(file));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const types: Record<string, string> = {
  '.html': 'text/html',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
  '.xml': 'application/xml',
};

async function fileAt(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile()) return path;
  const index = join(path, 'index.html');
  return found?.isDirectory() && existsSync(index) ? index : undefined;
}

const folderOf = (name: string) =>
  join(
    cache,
    name
      .replace(/^@/, '')
      .replace('/', '-')
      .replace(/@(?=[^@]*$)/, '-'),
  );
const folderOfSite = ({ id, package: name, root = '' }: Site) =>
  name === undefined ? join(own, id) : join(folderOf(name), root);

/**
 * A crawler that reaches loopback alone. Fonts and libraries of other hosts are not there: what a page says by itself
 * has to do.
 */
export function openLocalCrawler() {
  const outbound = createOutbound({
    allow: ['127.0.0.0/8', 'localhost'],
    denyPorts: [],
    resolver: async () => [],
  });
  return { crawler: createSiteCrawler(outbound), close: () => outbound.close() };
}
