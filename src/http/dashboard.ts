/**
 * The dashboard below /dashboard: what Vite made of src/dashboard, served from memory as the build has compressed it.
 *
 * Every path without a dot is the one page, which then finds its own way; files have their content in their names.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PageSettings } from '../../schemas/dashboard.ts';
import { account, asset, operator, project, source, upload } from '../../schemas/limits.ts';
import { plans } from '../../schemas/plans.ts';
import { answerJson, type Exchange } from './exchange.ts';
import {
  answerPage,
  createPage,
  type Encoding,
  forEver,
  type Page,
  pageHeaders,
  readPageHead,
} from './pages.ts';
import { dashboardForms, staticAnswers, staticRequestHeaders } from './raw-specs.ts';
import { type RawRoute, type RawSpec, rawRoute } from './route.ts';

export type DashboardOptions = {
  baseUrl: string;
  mediaBaseUrl: string;
  /** Providers that people can sign in with. */
  oauth: PageSettings['oauth'];
};

/** @param built folder of the build; the one beside this file when absent. */
export function dashboardRoutes(options: DashboardOptions, built = beside): RawRoute[] {
  let site: Map<string, Page> | undefined;
  const answer = (path: string, head: ReturnType<typeof readPageHead>, exchange: Exchange) => {
    // Looked for again while it is not there: somebody may just be building it.
    site ??= readSite(built, options);
    if (!site) return answerJson(exchange, notBuilt);
    const page = site.get(isFile(path) ? path : root);
    if (!page)
      return answerJson(exchange, { status: 404, body: { error: 'not found' } }, { isHead: head.isHead });
    return answerPage(page, isPacked(path) ? { ...head, acceptEncoding: '' } : head, exchange);
  };
  return (['get', 'head'] as const).flatMap((method) =>
    [root, `${root}/*`].map((path) =>
      rawRoute({
        method,
        path,
        ...(method === 'get' ? (path === root ? spec : { forms: dashboardForms }) : {}),
        handle: (_res, req, _services, exchange) =>
          answer(req.getUrl(), readPageHead(req, method === 'head'), exchange),
      }),
    ),
  );
}

const root = '/dashboard';
const notBuilt = {
  status: 503,
  body: { error: 'the dashboard was not built: run `npm run build`' },
  headers: { 'Retry-After': '30' },
};

/** Tests run from sources and find the build beside them. */
const beside = fileURLToPath(
  new URL(
    extname(import.meta.url) === '.js' ? '../dashboard/' : '../../dist/src/dashboard/',
    import.meta.url,
  ),
);

/** Compressed by its format. */
const isPacked = (path: string) => /\.(woff2|png|jpg)$/.test(path);
const isFile = (path: string) =>
  path.startsWith(`${root}/assets/`) || path.slice(path.lastIndexOf('/')).includes('.');

const spec: RawSpec & { summary: string } = {
  summary: 'The dashboard, for people',
  auth: 'none',
  headers: staticRequestHeaders,
  responses: staticAnswers('The page', ['text/html'], {
    'Content-Security-Policy': 'always',
    'X-Content-Type-Options': 'always',
  }),
};

/** Every file of the build by its path; undefined when there is none. */
function readSite(folder: string, options: DashboardOptions): Map<string, Page> | undefined {
  const index = join(folder, 'index.html');
  if (!existsSync(index)) return undefined;
  const assets = readdirSync(join(folder, 'assets')).filter((name) => types[extname(name)] !== undefined);
  return new Map([
    [root, toPage(readFileSync(index, 'utf8'), options)],
    ...assets.map((name): [string, Page] => [`${root}/assets/${name}`, toFile(join(folder, 'assets', name))]),
  ]);
}

const types: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.woff2': 'font/woff2',
};

/** The page with what it must know of this service before it asks anything. */
function toPage(html: string, { baseUrl, mediaBaseUrl, oauth }: DashboardOptions): Page {
  const settings: PageSettings = {
    baseUrl,
    oauth,
    plans,
    limits: {
      uploadBytes: upload.maxBytes,
      minSeconds: asset.minSeconds,
      maxSeconds: asset.maxSeconds,
      defaultSeconds: asset.defaultSeconds,
      maxSeed: asset.maxSeed,
      promptMaxChars: asset.promptMaxChars,
      sourceMaxChars: source.maxUrlChars,
      passwordMinChars: account.passwordMinChars,
      passwordMaxChars: account.passwordMaxChars,
      personNameMaxChars: account.nameMaxChars,
      tokenNameMaxChars: account.tokenNameMaxChars,
      projectNameMaxChars: project.nameMaxChars,
      domainMaxChars: project.domainMaxChars,
      reasonMaxChars: operator.reasonMaxChars,
    },
  };
  const text = html.replace('{{settings}}', () => JSON.stringify(settings).replaceAll('"', '&quot;'));
  return createPage(text, {
    ...pageHeaders(baseUrl),
    'Content-Security-Policy': policyOf(html, baseUrl, new URL(mediaBaseUrl).origin),
    // Previews come through the proxy, which asks whose page it is; nobody else learns an address.
    'Referrer-Policy': 'same-origin',
    'Cache-Control': 'no-cache',
  });
}

function policyOf(html: string, baseUrl: string, media: string): string {
  const hosts = baseUrl.startsWith('https:') ? 'https:' : 'https: http:';
  return [
    "default-src 'none'",
    ["script-src 'self'", ...inlineHashes(html)].join(' '),
    "style-src 'self'",
    // Logos and sources lie where customers have them.
    `img-src 'self' data: blob: ${media} ${hosts}`,
    `media-src 'self' blob: ${media}`,
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** The one script that must run before anything is painted is in the page itself, and known by its hash. */
function inlineHashes(html: string): string[] {
  return [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(
    ([, code = '']) => `'sha256-${createHash('sha256').update(code).digest('base64')}'`,
  );
}

/** A file whose name changes with its content. */
function toFile(path: string): Page {
  const body = readFileSync(path);
  const page = createPage('', {
    'Content-Type': types[extname(path)] ?? '',
    'Cache-Control': forEver,
    'X-Content-Type-Options': 'nosniff',
  });
  const packed = (['br', 'gzip'] as const).flatMap((encoding): [Encoding, Buffer][] => {
    const file = `${path}.${encoding === 'br' ? 'br' : 'gz'}`;
    return existsSync(file) ? [[encoding, readFileSync(file)]] : [];
  });
  return {
    ...page,
    tag: createHash('sha256').update(body).digest('base64url').slice(0, page.tag.length),
    bodies: new Map([['identity', body], ...packed]),
  };
}
