/**
 * The process that draws one page in a browser and ends: see browser.ts for the other side.
 *
 * The browser itself can reach nothing: it has a proxy where nobody listens, and no name resolves in it. Each of its
 * requests is taken away from it and made here, by the guarded module (decisions 8).
 */
import { readdir, readFile } from 'node:fs/promises';
import type { Browser, BrowserContext, Route } from 'playwright-core';
import { browser as limits } from '../../schemas/limits.ts';
import { resolveByDns } from '../outbound/connect.ts';
import { createOutbound, type Outbound } from '../outbound/outbound.ts';
import { createLimiter } from '../sse/limiter.ts';

export type BrowserJob = {
  /** The browser's file. */
  path: string;
  url: string;
  allow: readonly string[];
  denyPorts: readonly number[];
  /** `ip:port`; these stand in for the configured ones. */
  nameServers?: readonly string[];
  /** For the browser to start, and for the page's first tree. */
  drawMs: number;
  /** For the page to be quiet after that. */
  quietMs: number;
};

export type BrowserEnd = { type: 'drawn'; html: string } | { type: 'failed'; message: string };

process.once('message', (job: BrowserJob) => void perform(job));
// Whoever asked has gone, or wants no answer any more. What the browser began ends with this process.
process.once('disconnect', () => process.exit());
process.once('SIGTERM', () => process.exit());

async function perform(job: BrowserJob): Promise<void> {
  const watch = setInterval(() => void endWhenTooLarge(), watchMs);
  try {
    finish({ type: 'drawn', html: await draw(job) });
  } catch (cause) {
    finish({ type: 'failed', message: cause instanceof Error ? cause.message : String(cause) });
  } finally {
    clearInterval(watch);
  }
}

function finish(end: BrowserEnd): void {
  process.send?.(end, () => process.exit());
}

async function draw(job: BrowserJob): Promise<string> {
  const { path, url, drawMs, quietMs } = job;
  const outbound = openOutbound(job);
  const browser = await launch(path, drawMs);
  const context = await browser.newContext({ serviceWorkers: 'block', acceptDownloads: false });
  await guard(context, outbound);
  const page = await context.newPage();
  // A page opens others to be seen, not to be read.
  context.on('page', (other) => void other.close().catch(() => undefined));
  await page.goto(url, { waitUntil: 'domcontentloaded', timeout: drawMs });
  // A page that is never quiet is taken as it is.
  await page.waitForLoadState('networkidle', { timeout: quietMs }).catch(() => undefined);
  const html = await page.evaluate<string>(serialise);
  return html.slice(0, limits.maxHtmlChars);
}

function openOutbound({ allow, denyPorts, nameServers }: BrowserJob): Outbound {
  if (nameServers === undefined) return createOutbound({ allow, denyPorts });
  const resolver = (name: string, signal: AbortSignal) => resolveByDns(name, signal, [...nameServers]);
  return createOutbound({ allow, denyPorts, resolver });
}

async function launch(path: string, drawMs: number): Promise<Browser> {
  const { chromium } = await import('playwright-core');
  return chromium.launch({
    executablePath: path,
    timeout: drawMs,
    // The kernel refuses the sandbox to root.
    chromiumSandbox: process.getuid?.() !== 0,
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    proxy: { server: 'http://127.0.0.1:9', bypass: '<-loopback>' },
    args: [
      '--host-resolver-rules=MAP * ~NOTFOUND',
      '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
      '--disable-quic',
      '--dns-prefetch-disable',
      '--renderer-process-limit=1',
      `--js-flags=--max-old-space-size=${limits.maxHeapMb}`,
    ],
  });
}

/** What no text comes from. */
const unneeded = new Set(['image', 'media', 'font', 'websocket', 'eventsource', 'manifest', 'ping']);
/** Of one transfer: they are framed anew. */
const ofTransfer = new Set(['content-encoding', 'content-length', 'transfer-encoding', 'connection']);

/** Makes the requests of the pages in their place: a few, and no more than so many bytes. */
async function guard(context: BrowserContext, outbound: Outbound): Promise<void> {
  let requestsLeft: number = limits.maxRequests;
  let bytesLeft: number = limits.maxBytes;
  const limiter = createLimiter(limits.requestsAtOnce, limits.maxRequests);
  const { signal } = new AbortController();

  const answer = async (route: Route): Promise<void> => {
    const request = route.request();
    const isWanted = request.method() === 'GET' && !unneeded.has(request.resourceType());
    if (!isWanted || requestsLeft <= 0) return route.abort();
    requestsLeft -= 1;
    return limiter.run(() => fetchFor(route));
  };

  const fetchFor = async (route: Route): Promise<void> => {
    if (bytesLeft <= 0) return route.abort();
    const request = route.request();
    const { accept } = request.headers();
    const { statusCode, headers, body } = await outbound.request(request.url(), {
      headers: { ...(accept === undefined ? {} : { accept }), 'accept-encoding': 'gzip, br' },
      timeoutMs: limits.requestMs,
      maxBytes: Math.min(limits.maxRequestBytes, bytesLeft),
      redirects: limits.maxRedirects,
      decode: true,
      signal,
    });
    bytesLeft -= body.byteLength;
    const kept = Object.entries(headers).filter(([name]) => !ofTransfer.has(name));
    return route.fulfill({
      status: statusCode,
      headers: Object.fromEntries(kept.map(([name, value]) => [name, [value].flat().join('\n')])),
      body: Buffer.from(body),
    });
  };

  await context.route('**/*', (route) => answer(route).catch(() => route.abort().catch(() => undefined)));
  await context.routeWebSocket(/.*/, (socket) => void socket.close());
}

/**
 * The page as text, as it is now. Rules that scripts put into sheets are written into them, where a reader of the
 * text finds them.
 */
const serialise = `(() => {
  const most = ${limits.maxHtmlChars};
  const textOf = (sheet) => {
    try {
      return Array.from(sheet.cssRules, (rule) => rule.cssText).join('\\n').slice(0, most);
    } catch {
      return '';
    }
  };
  for (const sheet of Array.from(document.styleSheets)) {
    const owner = sheet.ownerNode;
    if (owner instanceof HTMLStyleElement && owner.textContent.trim() === '') owner.textContent = textOf(sheet);
  }
  for (const sheet of Array.from(document.adoptedStyleSheets)) {
    const style = document.createElement('style');
    style.textContent = textOf(sheet);
    document.head.append(style);
  }
  return document.documentElement.outerHTML;
})()`;

const watchMs = 300;

/** Where the system tells it, what this process began is measured, and ended when it is too large. */
async function endWhenTooLarge(): Promise<void> {
  const bytes = await memoryBelow(process.pid).catch(() => 0);
  if (bytes > limits.maxMemoryMb * 1024 * 1024)
    finish({ type: 'failed', message: 'the page takes too much memory' });
}

const pageBytes = 4_096;

/** Private memory of all processes that a process began, and of those that these began. */
async function memoryBelow(pid: number): Promise<number> {
  let sum = 0;
  const waiting = await childrenOf(pid);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [, resident = 0, shared = 0] = await numbersIn(`/proc/${next}/statm`);
    sum += (resident - shared) * pageBytes;
    waiting.push(...(await childrenOf(next)));
  }
  return sum;
}

async function childrenOf(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = await Promise.all(threads.map((one) => numbersIn(`/proc/${pid}/task/${one}/children`)));
  return lists.flat();
}

/** None for a process that has just ended. */
async function numbersIn(path: string): Promise<number[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.split(/\s+/).filter(Boolean).map(Number);
}
