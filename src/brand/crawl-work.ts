/** Serves requests for crawls in the worker role: bounded in number, in time and in the size of what is answered. */
import { crawl as limits } from '../../schemas/limits.ts';
import { createLimiter, LimitError } from '../sse/limiter.ts';
import type { SiteProgress } from './crawl-progress.ts';
import { type CrawlReply, CrawlWork, crawlResults } from './crawl-request.ts';
import { CrawlError, type Crawler } from './crawler.ts';

export type CrawlLog = { warn(fields: object, message: string): void };

/** Crawls wait more than they work, but their pages are in memory meanwhile. */
const maxAtOnce = 8;
const maxWaiting = 32;
/** The answer has to reach the front end before that one gives up. */
const graceMs = 500;

/**
 * Answers one request; to be handed to the bus. @throws for a request that is none.
 *
 * @param onProgress told after each page of a deep crawl.
 */
export function createCrawlWork(
  crawler: Crawler,
  log: CrawlLog,
  onProgress: (progress: SiteProgress) => void = () => undefined,
): (body: unknown) => Promise<Uint8Array> {
  const limiter = createLimiter(maxAtOnce, maxWaiting);
  return async (body) => {
    const reply = await crawl(CrawlWork.parse(body), { crawler, limiter, log, onProgress });
    return Buffer.from(JSON.stringify(reply));
  };
}

type Parts = {
  crawler: Crawler;
  limiter: ReturnType<typeof createLimiter>;
  log: CrawlLog;
  onProgress: (progress: SiteProgress) => void;
};

async function crawl(
  { kind, domain, timeoutMs }: CrawlWork,
  { crawler, limiter, log, onProgress }: Parts,
): Promise<CrawlReply> {
  try {
    const found = await withDeadline(Math.max(1, timeoutMs - graceMs), (signal) =>
      limiter.run(async () => {
        signal.throwIfAborted();
        return kind === 'detect'
          ? crawler.detect(domain, signal)
          : crawler.deepCrawl(domain, signal, (pages) => onProgress({ domain, ...pages }));
      }),
    );
    const result = crawlResults[kind].parse(found);
    if (Buffer.byteLength(JSON.stringify(result)) > limits.maxResultBytes)
      throw new CrawlError('the site has too much content');
    return { outcome: 'found', result };
  } catch (cause) {
    if (cause instanceof LimitError) return { outcome: 'busy' };
    if (cause instanceof CrawlError) return { outcome: 'failed', detail: cause.detail };
    log.warn({ err: cause, kind, domain }, 'a crawl failed for a reason of our own');
    return { outcome: 'failed', detail: 'the site could not be read' };
  }
}

/** Ends in time, also when the work ignores its signal. @throws {CrawlError} when the time is up. */
async function withDeadline<Result>(
  ms: number,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const control = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const cause = new CrawlError('the site took too long');
      control.abort(cause);
      reject(cause);
    }, ms);
  });
  try {
    return await Promise.race([work(control.signal), late]);
  } finally {
    clearTimeout(timer);
  }
}
