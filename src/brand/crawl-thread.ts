/** The thread that reads sites, one at a time: see thread-crawler.ts for the other side. */
import { parentPort, workerData } from 'node:worker_threads';
import { createOutbound } from '../outbound/outbound.ts';
import { createChooser, type ModelOptions } from './choose.ts';
import type { CrawlKind, CrawlResults } from './crawl-request.ts';
import { CrawlError } from './crawler.ts';
import { createSiteCrawler } from './site/site-crawler.ts';

export type ThreadOptions = {
  allow: readonly string[];
  denyPorts: readonly number[];
  /** Whether the other side draws pages when it is asked to. */
  canDraw: boolean;
  model: ModelOptions | undefined;
};

export type ToThread =
  | { type: 'crawl'; kind: CrawlKind; domain: string }
  | { type: 'abort' }
  /** The answer to `draw`. */
  | { type: 'drawn'; id: number; html: string | undefined };

export type FromThread =
  | { type: 'progress'; fetched: number; planned: number }
  | { type: 'draw'; id: number; url: string }
  | { type: 'found'; result: CrawlResults[CrawlKind] }
  /** `detail` is there for what the customer may know, `message` for the log. */
  | { type: 'failed'; detail?: string; message: string };

const port = parentPort;
if (!port) throw new Error('crawl-thread runs in a worker thread only');

const { allow, denyPorts, canDraw, model } = workerData as ThreadOptions;
/** Pages that are being drawn, by their number. */
const drawing = new Map<number, (html: string | undefined) => void>();
let drawn = 0;
const crawler = createSiteCrawler(createOutbound({ allow, denyPorts }), {
  ...(canDraw ? { draw } : {}),
  ...(model ? { choose: createChooser(model) } : {}),
});
let control = new AbortController();

port.on('message', (message: ToThread) => {
  if (message.type === 'abort') abort();
  else if (message.type === 'crawl') void perform(message.kind, message.domain);
  else {
    drawing.get(message.id)?.(message.html);
    drawing.delete(message.id);
  }
});

function abort(): void {
  control.abort(new CrawlError('the site took too long'));
  for (const settle of drawing.values()) settle(undefined);
  drawing.clear();
}

function draw(url: string): Promise<string | undefined> {
  drawn += 1;
  const id = drawn;
  return new Promise((resolve) => {
    drawing.set(id, resolve);
    post({ type: 'draw', id, url });
  });
}

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
