/** Front ends ask a worker to look at a site: fetching and reading pages is no work of theirs (decisions 7). */
import { z } from 'zod';
import { DeepCrawlResult } from '../../schemas/crawl.ts';
import { crawl as limits } from '../../schemas/limits.ts';
import { BrandConfig } from '../../schemas/project.ts';
import type { Bus } from '../bus/bus.ts';

/** Name of the request on the bus. */
export const crawlRequest = 'crawl';

export const CrawlWork = z.object({
  kind: z.enum(['detect', 'deep']),
  domain: z.string(),
  /** Until the answer has to be there, from now. */
  timeoutMs: z.number().positive().max(limits.deepMs),
});
export type CrawlWork = z.infer<typeof CrawlWork>;
export type CrawlKind = CrawlWork['kind'];

export const crawlResults = { detect: BrandConfig, deep: DeepCrawlResult } as const;
export type CrawlResults = { [Kind in CrawlKind]: z.infer<(typeof crawlResults)[Kind]> };

/** `failed`: the site gives nothing; `busy`: this worker has too many to look at. */
export const CrawlReply = z.discriminatedUnion('outcome', [
  z.object({ outcome: z.literal('found'), result: z.unknown() }),
  z.object({ outcome: z.literal('failed'), detail: z.string() }),
  z.object({ outcome: z.literal('busy') }),
]);
export type CrawlReply = z.infer<typeof CrawlReply>;

/** Asks a worker over the bus. @throws when none answers in time. */
export function askForCrawl(bus: Pick<Bus, 'request'>): (work: CrawlWork) => Promise<CrawlReply> {
  return async (work) => {
    const answer = await bus.request(crawlRequest, work, work.timeoutMs);
    return CrawlReply.parse(JSON.parse(Buffer.from(answer).toString()));
  };
}
