/**
 * A service that answers as the specification says, each asset by a script, and a site of another origin whose pages
 * load the element.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { testServers } from '../fixtures/servers.ts';

export const script = readFileSync('dist/src/embed/embed.js');

/** What the service answers for an asset, one answer a question; the last one stays, for the video too. */
type Script = ('pending' | 'ready' | 'failed' | 'down' | 'limited' | 'forbidden' | 'cut')[];

export type Page = { html: string; headers?: Record<string, string> };

export type World = {
  /** Address of the service, and of the page: two origins. */
  service: string;
  site: string;
  /** By the name of the asset; `ready` without one. */
  scripts: Map<string, Script>;
  /** Every request of the service, with what tells who asks. */
  asked: { path: string; query: string; origin: string | undefined }[];
  /** By path. */
  pages: Map<string, Page>;
  /** Takes what pages post to `/report/{name}`. */
  onReport: (name: string, body: string) => void;
  close(): void;
};

export async function openWorld(): Promise<World> {
  const mp4 = await makeClip();
  const jpg = await sharp({ create: { width: 320, height: 180, channels: 3, background: '#357' } })
    .jpeg()
    .toBuffer();
  const scripts: World['scripts'] = new Map();
  const asked: World['asked'] = [];
  const pages: World['pages'] = new Map();

  const service = await listen((req, res) => {
    const url = new URL(req.url ?? '/', 'http://service');
    if (url.pathname === '/embed.js') {
      res.writeHead(200, { 'Content-Type': 'text/javascript' }).end(script);
      return;
    }
    if (req.method === 'OPTIONS') return preflight(res);
    asked.push({ path: url.pathname, query: url.search, origin: req.headers.origin });
    if (url.pathname.endsWith('.jpg')) {
      // Another's poster, on a server that says nothing of CORS.
      const headers = url.pathname.startsWith('/v1/') ? cors(req) : {};
      res.writeHead(200, { ...headers, 'Content-Type': 'image/jpeg' }).end(jpg);
      return;
    }
    const answers = scripts.get(/(\w+)\.mp4$/.exec(url.pathname)?.[1] ?? '') ?? ['ready'];
    const [answer = 'ready'] = answers;
    if (url.searchParams.has('wait_ms') && answers.length > 1) answers.shift();
    reply(req, res, answer, mp4);
  });
  const site = await listen((req, res) => {
    const [, report] = /^\/report\/(.+)$/.exec(req.url ?? '') ?? [];
    if (report !== undefined) {
      void collect(req).then((body) => {
        world.onReport(report, body);
        res.writeHead(204).end();
      });
      return;
    }
    const page = pages.get(req.url ?? '');
    res
      .writeHead(page ? 200 : 404, { 'Content-Type': 'text/html; charset=utf-8', ...page?.headers })
      .end(page?.html);
  });
  const world: World = {
    service: service.url,
    site: site.url,
    scripts,
    asked,
    pages,
    onReport: () => undefined,
    close() {
      service.close();
      site.close();
    },
  };
  return world;
}

/** Remembers what the element tells and what goes wrong, from the first moment on. */
const observe = `<script>
  window.seen = [];
  window.errors = [];
  for (const name of ['ready', 'playing', 'failed']) addEventListener(name, (event) => {
    seen.push(name);
    if (name === 'failed') window.failure = event.detail;
  }, true);
  addEventListener('error', (event) => errors.push(event.message ?? event.target.tagName), true);
  addEventListener('unhandledrejection', (event) => errors.push(String(event.reason)));
</script>`;

/** A page that observes itself, and loads the script of the world's service unless it has one of its own. */
export function pageOf({ service }: World, html: string): string {
  const own = html.includes('/embed.js"') ? '' : `<script src="${service}/embed.js" async></script>`;
  return `<!doctype html><title>t</title>${observe}${html}${own}`;
}

async function makeClip(): Promise<Buffer> {
  const { ffmpegPath } = await testServers();
  const folder = mkdtempSync(join(tmpdir(), 'embed-'));
  const file = join(folder, 'clip.mp4');
  const source = ['-f', 'lavfi', '-i', 'testsrc=size=320x180:rate=30:duration=1'];
  const codec = ['-pix_fmt', 'yuv420p', '-c:v', 'libx264', '-movflags', '+faststart'];
  execFileSync(ffmpegPath, ['-v', 'error', ...source, ...codec, file]);
  const mp4 = readFileSync(file);
  rmSync(folder, { recursive: true });
  return mp4;
}

const cors = (req: IncomingMessage) => ({
  'Access-Control-Allow-Origin': req.headers.origin ?? '*',
  'Access-Control-Expose-Headers': 'Retry-After',
});

function preflight(res: ServerResponse): void {
  res
    .writeHead(204, {
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Allow-Methods': 'GET, HEAD',
      'Access-Control-Allow-Headers': 'Range',
    })
    .end();
}

function reply(req: IncomingMessage, res: ServerResponse, answer: Script[number], mp4: Buffer): void {
  const say = (status: number, body: object, headers: Record<string, string> = {}) =>
    void res
      .writeHead(status, { ...cors(req), 'Content-Type': 'application/json', ...headers })
      .end(JSON.stringify(body));
  const answers: Record<Script[number], () => void> = {
    pending: () => say(202, { status: 'pending', asset_id: 'ast_1', eta_seconds: 1 }, { 'Retry-After': '1' }),
    failed: () => say(502, { error: 'last generation failed', asset_id: 'ast_1', hint: 'again' }),
    forbidden: () => say(403, { error: 'origin not allowed' }),
    limited: () => say(429, { error: 'rate limited', retry_after_ms: 900 }, { 'Retry-After': '1' }),
    down: () => say(503, { error: 'unavailable' }, { 'Retry-After': '1' }),
    cut: () => req.socket.destroy(),
    ready: () => sendFile(req, res, mp4),
  };
  answers[answer]();
}

function sendFile(req: IncomingMessage, res: ServerResponse, mp4: Buffer): void {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? '') ?? [];
  const headers = { ...cors(req), 'Content-Type': 'video/mp4', 'Accept-Ranges': 'bytes' };
  if (from === undefined) {
    res.writeHead(200, headers).end(mp4);
    return;
  }
  const end = to ? Math.min(Number(to), mp4.length - 1) : mp4.length - 1;
  const range = `bytes ${from}-${end}/${mp4.length}`;
  res.writeHead(206, { ...headers, 'Content-Range': range }).end(mp4.subarray(Number(from), end + 1));
}

async function collect(req: IncomingMessage): Promise<string> {
  return Buffer.concat(await req.toArray()).toString();
}

async function listen(handle: (req: IncomingMessage, res: ServerResponse) => void) {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
