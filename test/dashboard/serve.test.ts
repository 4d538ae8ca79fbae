/** How the dashboard is served, and what it weighs. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import t from 'tap';
import { dashboardRoutes } from '../../src/http/dashboard.ts';
import { startServer } from '../../src/http/server.ts';
import type { Services } from '../../src/http/services.ts';

const built = 'dist/src/dashboard';
const options = {
  baseUrl: 'https://assets.example',
  mediaBaseUrl: 'https://cdn.example/folder',
  oauth: ['github'] as 'github'[],
};

async function serve(folder?: string): Promise<number> {
  const note = () => undefined;
  const { port, close } = await startServer({
    host: '127.0.0.1',
    port: 0,
    routes: dashboardRoutes(options, folder),
    services: {
      log: { info: note, warn: note, error: note },
      config: { baseUrl: options.baseUrl, trustedProxies: [] },
    } as unknown as Services,
  });
  t.teardown(close);
  return port;
}

type Chunk = { file: string; isEntry?: true; imports?: string[]; dynamicImports?: string[]; src?: string };
const manifest = JSON.parse(readFileSync(`${built}/.vite/manifest.json`, 'utf8')) as Record<string, Chunk>;

/** A chunk with all that it needs before it runs. */
function withImports(names: string[], known = new Set<string>()): Set<string> {
  for (const name of names) {
    if (known.has(name)) continue;
    known.add(name);
    withImports(manifest[name]?.imports ?? [], known);
  }
  return known;
}

function gzipBytes(names: Iterable<string>): number {
  let sum = 0;
  for (const name of names) {
    const { file = '' } = manifest[name] ?? {};
    if (file.endsWith('.js')) sum += readFileSync(`${built}/${file}.gz`).byteLength;
  }
  return sum;
}

t.test('the first route is at most 40 KiB of scripts, all of them 110, and none holds zod', async (t) => {
  const entry = Object.keys(manifest).find((name) => manifest[name]?.isEntry) ?? '';
  const routes = manifest[entry]?.dynamicImports ?? [];
  t.ok(routes.length >= 10, `${routes.length} routes are chunks of their own`);
  const first = Math.max(...routes.map((route) => gzipBytes(withImports([entry, route]))));
  const all = gzipBytes(Object.keys(manifest));
  t.comment(
    `largest route with what it needs ${(first / 1024).toFixed(1)} KiB, all ${(all / 1024).toFixed(1)} KiB`,
  );
  const shell = ['sign-in', 'sign-up', 'overview'].map(
    (name) => routes.find((route) => route.includes(name)) ?? '',
  );
  for (const route of shell) t.ok(gzipBytes(withImports([entry, route])) <= 40 * 1024, route);
  t.ok(all <= 110 * 1024, `${all} bytes`);
  const texts = Object.values(manifest).map(({ file }) => readFileSync(`${built}/${file}`, 'latin1'));
  t.notOk(texts.some((text) => text.includes('ZodError')));
});

t.test('200 for the page at every path without a dot, under a strict policy', async (t) => {
  const port = await serve();
  for (const path of ['/dashboard', '/dashboard/', '/dashboard/signin', '/dashboard/projects/prj_1/assets']) {
    const page = await ask(port, path);
    t.equal(page.status, 200, path);
    t.match(page.headers, {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'x-frame-options': 'DENY',
    });
    const policy = String(page.headers['content-security-policy']);
    t.match(policy, /^default-src 'none'; script-src 'self' 'sha256-[\w+/=]+'; style-src 'self';/);
    t.match(policy, /img-src 'self' data: blob: https:\/\/cdn\.example https:;/);
    t.match(policy, /media-src 'self' blob: https:\/\/cdn\.example;/);
    t.match(policy, /connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'$/);
    t.notMatch(policy, /unsafe|\*/);
  }
  const page = await ask(port, '/dashboard');
  const [, settings = ''] = /<meta name="service" content="([^"]+)"/.exec(String(page.body)) ?? [];
  t.match(JSON.parse(settings.replaceAll('&quot;', '"')), {
    baseUrl: options.baseUrl,
    oauth: ['github'],
    plans: { free: { generationsPerMonth: 5 } },
  });
  const known = { 'if-none-match': page.headers['etag'] ?? '' };
  t.match(await ask(port, '/dashboard/usage', { headers: known }), { status: 304, body: { length: 0 } });
});

t.test('200 for files: for ever, as the build has compressed them, 304 for who knows them', async (t) => {
  const port = await serve();
  const entry = Object.values(manifest).find(({ isEntry }) => isEntry)?.file ?? '';
  const path = `/dashboard/${entry}`;
  const whole = readFileSync(`${built}/${entry}`);
  const plain = await ask(port, path);
  t.ok(plain.body.equals(whole));
  t.match(plain.headers, {
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    vary: 'Accept-Encoding',
  });
  for (const [encoding, ending, unpack] of [
    ['br', 'br', brotliDecompressSync],
    ['gzip', 'gz', gunzipSync],
  ] as const) {
    const packed = await ask(port, path, { headers: { 'accept-encoding': encoding } });
    t.equal(packed.headers['content-encoding'], encoding);
    t.ok(packed.body.equals(readFileSync(`${built}/${entry}.${ending}`)));
    t.ok(unpack(packed.body).equals(whole));
    const headers = { 'accept-encoding': encoding, 'if-none-match': packed.headers['etag'] ?? '' };
    t.match(await ask(port, path, { headers }), { status: 304, body: { length: 0 } });
  }
  const [font = ''] = Object.values(manifest)
    .map(({ file }) => file)
    .filter((file) => file.endsWith('.woff2'));
  const face = await ask(port, `/dashboard/${font}`, { headers: { 'accept-encoding': 'br, gzip' } });
  t.match(face, { status: 200, headers: { 'content-type': 'font/woff2', 'content-encoding': undefined } });
  t.match(await ask(port, path, { method: 'HEAD' }), {
    status: 200,
    body: { length: 0 },
    headers: { 'content-length': String(whole.byteLength) },
  });
});

t.test('404 for files that are not of the build, whatever the path tries', async (t) => {
  const port = await serve();
  for (const path of [
    '/dashboard/assets/nothing.js',
    '/dashboard/.build',
    '/dashboard/.vite/manifest.json',
    '/dashboard/assets/..%2findex.html',
    '/dashboard/assets/index.html.br',
  ]) {
    t.match(await ask(port, path), { status: 404, headers: { 'content-type': 'application/json' } }, path);
  }
});

t.test('503 that says what to do while there is no build, and 200 once there is one', async (t) => {
  t.ok(existsSync(built));
  const port = await serve(await mkdtemp(join(tmpdir(), 'no-dashboard-')));
  const answer = await ask(port, '/dashboard');
  t.equal(answer.status, 503);
  t.match(JSON.parse(String(answer.body)), { error: 'the dashboard was not built: run `npm run build`' });
});

type Asked = { status: number; headers: Record<string, unknown>; body: Buffer };

/** As it is on the wire. */
function ask(
  port: number,
  path: string,
  options: { method?: string; headers?: object } = {},
): Promise<Asked> {
  const { method = 'GET', headers = {} } = options;
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: '127.0.0.1', port, path, method, headers: { ...headers }, agent: false },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) }),
        );
      },
    );
    sent.on('error', reject).end();
  });
}
