/**
 * `npm run bench brand`: what reading a site costs, on loopback, in threads of this process as the worker has them.
 *
 * The site is a page of 60 KB with a framework's sheet of 240 KB, and 24 pages behind it; it is served by a process
 * of its own. CPU is user and system time of this process with all its threads. The event loop is this process's
 * own, as a service's that answers requests meanwhile. The baseline fetches and parses the same pages and the sheet
 * and looks at nothing, and waits for some seconds with nothing to do, in the same run.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parse as parseCss } from 'css-tree';
import { parse as parseHtml } from 'parse5';
import { createThreadCrawler } from '../brand/thread-crawler.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { cpuMsHere, quantile, report, spread } from './cpu.ts';

const detects = 30;
const crawls = 8;
const warmUps = 4;
const resolutionMs = 5;
const idleMs = 5_000;
const limits = { detectCpuS: 0.25, detectP95Ms: 1_500, crawlCpuS: 2, crawlP95Ms: 8_000, eventLoopP99Ms: 20 };
const { signal } = new AbortController();
const allow = ['127.0.0.0/8', 'localhost'];

if (process.argv[2] === 'site') await serve();
else await main();

async function main(): Promise<void> {
  const site = fork(fileURLToPath(import.meta.url), ['site']);
  const crawler = createThreadCrawler({ allow, denyPorts: [] });
  const outbound = createOutbound({ allow, denyPorts: [] });
  try {
    const [port] = (await once(site, 'message')) as [number];
    const domain = `bench.localhost:${port}`;
    for (let i = 0; i < warmUps; i += 1) await crawler.deepCrawl(domain, signal);
    const idle = openLoopWatch();
    await sleep(idleMs);
    const idleEventLoopP99Ms = idle();
    const loop = openLoopWatch();
    const detect = await measure(detects, () => crawler.detect(domain, signal));
    const crawl = await measure(crawls, () => crawler.deepCrawl(domain, signal));
    const eventLoopP99Ms = loop();
    const { content } = await crawler.deepCrawl(domain, signal);
    const bare = await measure(crawls, () => readBare(outbound, `http://${domain}`));
    const figures = {
      detectCpuS: detect.cpuS.median,
      detectP95Ms: detect.p95Ms,
      crawlCpuS: crawl.cpuS.median,
      crawlP95Ms: crawl.p95Ms,
      eventLoopP99Ms,
    };
    const failed = Object.entries(limits)
      .filter(([name, most]) => !(figures[name as keyof typeof figures] <= most))
      .map(([name]) => name);
    const rssMb = Math.round(process.resourceUsage().maxRSS / 1024);
    report({
      bench: 'brand',
      ok: failed.length === 0,
      failed,
      limits,
      figures,
      detect,
      crawl,
      baseline: { fetchAndParse: bare, idleEventLoopP99Ms },
      pages: content.pages.length,
      rssMb,
    });
    process.exitCode = failed.length === 0 ? 0 : 1;
  } finally {
    site.kill();
    await crawler.close();
    await outbound.close();
  }
}

/** Watches the event loop of this process. @returns what ends it, with the delay in ms at p99 */
function openLoopWatch(): () => number {
  const loop = monitorEventLoopDelay({ resolution: resolutionMs });
  loop.enable();
  return () => {
    loop.disable();
    return Number(Math.max(0, loop.percentile(99) / 1e6 - resolutionMs).toFixed(1));
  };
}

async function measure(times: number, work: () => Promise<unknown>) {
  const cpu: number[] = [];
  const wall: number[] = [];
  for (let i = 0; i < times; i += 1) {
    const [cpuMs, startedMs] = [cpuMsHere(), performance.now()];
    await work();
    cpu.push((cpuMsHere() - cpuMs) / 1_000);
    wall.push(performance.now() - startedMs);
  }
  return { cpuS: spread(cpu, 3), p95Ms: Math.round(quantile(wall, 0.95)) };
}

/** The floor: the same bytes fetched and parsed. */
async function readBare(outbound: ReturnType<typeof createOutbound>, base: string): Promise<void> {
  const get = async (path: string) => {
    const { body } = await outbound.request(base + path, {
      timeoutMs: 5_000,
      maxBytes: 1_000_000,
      keepAlive: true,
      signal,
    });
    return Buffer.from(body).toString();
  };
  parseCss(await get('/main.css'), { parseValue: false, parseRulePrelude: false });
  for (let i = 0; i < 25; i += 1) parseHtml(await get(i === 0 ? '/' : `/page/${i}`));
}

async function serve(): Promise<void> {
  const sheet = makeSheet();
  const pages = new Map(Array.from({ length: 25 }, (_, i) => [i === 0 ? '/' : `/page/${i}`, makePage(i)]));
  const server = createServer(({ url = '/' }, response) => {
    if (url === '/main.css') return response.writeHead(200, { 'content-type': 'text/css' }).end(sheet);
    const page = pages.get(url);
    return response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'text/html' }).end(page);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.send?.((server.address() as AddressInfo).port);
  process.on('disconnect', () => process.exit(0));
}

/** Like a framework's: variables, many utilities that hardly any element uses, components. */
function makeSheet(): string {
  const variables = Array.from({ length: 200 }, (_, i) => `--tone-${i}:hsl(${i} 60% 50%)`).join(';');
  const utilities = Array.from(
    { length: 3_000 },
    (_, i) => `.u-${i}{color:var(--tone-${i % 200});padding:${i % 9}px;margin:0 auto}`,
  );
  const parts = Array.from(
    { length: 300 },
    (_, i) => `.c-${i} > .c-${i}__title:not(:last-child),.c-${i} h3{font-size:1.${i % 9}rem;color:#333}`,
  );
  const base =
    'body{background:#fff;color:#222;font-family:Inter,sans-serif}h1,h2,h3{font-family:Sora}.btn{background:#3355ee;color:#fff;border-radius:8px}';
  return `:root{${variables}}${base}${utilities.join('\n')}${parts.join('\n')}@media (min-width:640px){${utilities.slice(0, 800).join('')}}`;
}

function makePage(number: number): string {
  const cards = Array.from(
    { length: 150 },
    (_, i) =>
      `<div class="c-${i} u-${i} u-${i + 500}"><h3 class="c-${i}__title">Thing ${number}-${i}</h3><p class="u-${i * 3}">What thing ${i} of page ${number} does for everyone, every day, <a href="/page/${i % 25}">without a fuss</a>, said at some length so that the page weighs what pages weigh.</p></div>`,
  );
  const sections = Array.from(
    { length: 10 },
    (_, i) =>
      `<section class="u-${i}"><h2>Part ${i}</h2><div class="grid">${cards.slice(i * 15, i * 15 + 15).join('')}</div></section>`,
  );
  const links = Array.from({ length: 24 }, (_, i) => `<a href="/page/${i + 1}">Page ${i + 1}</a>`).join('');
  return `<!doctype html><html lang="en"><head><title>Bench ${number} | Acme</title><link rel="stylesheet" href="/main.css"></head><body><header><a class="logo" href="/">Acme</a><nav>${links}</nav></header><main><h1>Things for everyone ${number}</h1><p>All of them.</p><a class="btn" href="/page/1">Start</a>${sections.join('')}</main></body></html>`;
}
