/**
 * Reads sites in threads, so that no page, however it is made, is felt by what serves requests. Each crawl has a
 * thread to itself: one that hangs, or takes more memory than is right, ends with its thread and nobody else's.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { crawl as limits } from '../../schemas/limits.ts';
import type { Draw } from './browser.ts';
import type { ModelOptions } from './choose.ts';
import type { CrawlKind, CrawlResults } from './crawl-request.ts';
import type { FromThread, ThreadOptions, ToThread } from './crawl-thread.ts';
import { CrawlError, type Crawler, type OnProgress } from './crawler.ts';

export type ThreadCrawler = Crawler & {
  /** Ends all threads; crawls under way fail. */
  close(): Promise<void>;
};

type Thread = {
  worker: Worker;
  idleTimer: NodeJS.Timeout | undefined;
  /** Ends the crawl under way; undefined between two. */
  settle: ((end: End) => void) | undefined;
  onProgress: OnProgress | undefined;
  /** Of the crawl under way. */
  signal: AbortSignal | undefined;
};

type End = Exclude<FromThread, { type: 'progress' | 'draw' }> | { type: 'lost'; cause: unknown };

export type CrawlerOptions = Pick<ThreadOptions, 'allow' | 'denyPorts'> & {
  /** Draws pages that scripts make; they are read as they came when left out. */
  draw?: Draw;
  model?: ModelOptions | undefined;
};

/** Threads kept for the next crawl, for so long: a crawl soon after another starts at once. */
const maxIdle = 2;
const idleMs = 30_000;
/** How long a thread may take to obey an abort. */
const abortMs = 1_000;
/** Trees are young when they die: without room for them they would all become old. */
const youngMb = 32;

const threadUrl = new URL(`./crawl-thread${extname(import.meta.url)}`, import.meta.url);

/** Threads start when crawls come; how many come at once is bounded by who asks (crawl-work.ts). */
export function createThreadCrawler({ allow, denyPorts, draw, model }: CrawlerOptions): ThreadCrawler {
  const threads = new Set<Thread>();
  const idle: Thread[] = [];
  let isClosed = false;

  const start = (): Thread => {
    const worker = new Worker(threadUrl, {
      workerData: { allow, denyPorts, canDraw: draw !== undefined, model } satisfies ThreadOptions,
      resourceLimits: { maxOldGenerationSizeMb: limits.maxThreadMb, maxYoungGenerationSizeMb: youngMb },
    });
    const thread: Thread = {
      worker,
      idleTimer: undefined,
      settle: undefined,
      onProgress: undefined,
      signal: undefined,
    };
    threads.add(thread);
    worker.on('message', (message: FromThread) => {
      if (message.type === 'progress') thread.onProgress?.(message);
      else if (message.type === 'draw') void answerDraw(thread, message);
      else thread.settle?.(message);
    });
    worker.once('error', (cause) => lose(thread, cause));
    worker.once('exit', (code) => lose(thread, new Error(`the thread ended with ${code}`)));
    return thread;
  };

  const answerDraw = async (thread: Thread, { id, url }: { id: number; url: string }) => {
    const { signal } = thread;
    const html = signal && !signal.aborted ? await draw?.(url, signal) : undefined;
    if (threads.has(thread)) send(thread, { type: 'drawn', id, html });
  };

  const lose = (thread: Thread, cause: unknown) => {
    threads.delete(thread);
    const at = idle.indexOf(thread);
    if (at >= 0) idle.splice(at, 1);
    clearTimeout(thread.idleTimer);
    thread.settle?.({ type: 'lost', cause });
  };

  const take = (): Thread => {
    const thread = idle.pop() ?? start();
    clearTimeout(thread.idleTimer);
    thread.worker.ref();
    return thread;
  };

  const putBack = (thread: Thread) => {
    thread.settle = undefined;
    thread.onProgress = undefined;
    thread.signal = undefined;
    if (!threads.has(thread)) return;
    if (isClosed || idle.length >= maxIdle) return end(thread);
    thread.worker.unref();
    thread.idleTimer = setTimeout(() => end(thread), idleMs);
    thread.idleTimer.unref();
    idle.push(thread);
  };

  const end = (thread: Thread) => {
    lose(thread, new Error('the thread was ended'));
    void thread.worker.terminate();
  };

  const crawl = async <Kind extends CrawlKind>(
    kind: Kind,
    domain: string,
    signal: AbortSignal,
    onProgress?: OnProgress,
  ): Promise<CrawlResults[Kind]> => {
    signal.throwIfAborted();
    if (isClosed) throw new Error('the crawler is closed');
    const thread = take();
    let force: NodeJS.Timeout | undefined;
    const abort = () => {
      send(thread, { type: 'abort' });
      force = setTimeout(() => end(thread), abortMs);
    };
    signal.addEventListener('abort', abort, { once: true });
    try {
      const ended = await new Promise<End>((resolve) => {
        thread.settle = resolve;
        thread.onProgress = onProgress;
        thread.signal = signal;
        send(thread, { type: 'crawl', kind, domain });
      });
      signal.throwIfAborted();
      if (ended.type === 'found') return ended.result as CrawlResults[Kind];
      throw errorOf(ended);
    } finally {
      clearTimeout(force);
      signal.removeEventListener('abort', abort);
      putBack(thread);
    }
  };

  return {
    detect: (domain, signal) => crawl('detect', domain, signal),
    deepCrawl: (domain, signal, onProgress) => crawl('deep', domain, signal, onProgress),
    async close() {
      isClosed = true;
      await Promise.all(
        [...threads].map((thread) => {
          lose(thread, new Error('the crawler closes'));
          return thread.worker.terminate();
        }),
      );
    },
  };
}

function send({ worker }: Thread, message: ToThread): void {
  worker.postMessage(message);
}

function errorOf(ended: Exclude<End, { type: 'found' }>): Error {
  if (ended.type === 'failed')
    return ended.detail === undefined ? new Error(ended.message) : new CrawlError(ended.detail);
  const { cause } = ended;
  const isTooMuch = (cause as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY';
  return isTooMuch
    ? new CrawlError('the site has too much content', { cause })
    : new Error('the thread was lost', { cause });
}
