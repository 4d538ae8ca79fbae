/** The thread that reads sites, one at a time: see thread-crawler.ts for the other side. */
import { parentPort, workerData } from 'node:worker_threads';
import { createOutbound } from '../outbound/outbound.ts';
import type { CrawlKind, CrawlResults } from './crawl-request.ts';
import { CrawlError } from './crawler.ts';
import { createSiteCrawler } from './site/site-crawler.ts';

export type ThreadOptions = { allow: readonly string[]; denyPorts: readonly number[] };

export type ToThread = { type: 'crawl'; kind: CrawlKind; domain: string } | { type: 'abort' };

export type FromThread =
  | { type: 'progress'; fetched: number; planned: number }
  | { type: 'found'; result: CrawlResults[CrawlKind] }
  /** `detail` is there for what the customer may know, `message` for the log. */
  | { type: 'failed'; detail?: string; message: string };

const port = parentPort;
if (!port) throw new Error('crawl-thread runs in a worker thread only');

const { allow, denyPorts } = workerData as ThreadOptions;
const crawler = createSiteCrawler(createOutbound({ allow, denyPorts }));
let control = new AbortController();

port.on('message', (message: ToThread) => {
  if (message.type === 'abort') control.abort(new CrawlError('the site took too long'));
  else void perform(message.kind, message.domain);
});

async function perform(kind: CrawlKind, domain: string): Promise<void> {
  control = new AbortController();
  try {
    const { signal } = control;
    const result =
      kind === 'detect'
        ? await crawler.detect(domain, signal)
        : await crawler.deepCrawl(domain, signal, (pages) => post({ type: 'progress', ...pages }));
    post({ type: 'found', result });
  } catch (cause) {
    const message = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    post({ type: 'failed', message, ...(cause instanceof CrawlError ? { detail: cause.detail } : {}) });
  }
}

function post(message: FromThread): void {
  port?.postMessage(message);
}
