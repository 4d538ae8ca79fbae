/**
 * How far deep crawls are, told to the projects that wait for them. A worker says it of a domain; the front ends
 * whose requests wait for that domain, of the crawl's own or of another's, say it of their projects.
 */
import { z } from 'zod';
import type { CrawlProgress } from '../../schemas/events.ts';
import type { Bus } from '../bus/bus.ts';

/** Name of the message from workers. Nobody keeps it: what is lost is followed by the next. */
export const siteProgress = 'crawl.progress';

export const SiteProgress = z.object({ domain: z.string(), fetched: z.int(), planned: z.int() });
export type SiteProgress = z.infer<typeof SiteProgress>;

export type CrawlWatch = {
  /** From now on the project is told about crawls of the domain, until it is stopped. */
  watch(domain: string, projectId: string): { stop(): void };
  stop(): void;
};

/** @param show tells a project's streams, in whatever process they are. */
export function createCrawlWatch(
  bus: Pick<Bus, 'listen'>,
  show: (progress: CrawlProgress) => void,
): CrawlWatch {
  const waiting = new Map<string, Set<{ projectId: string }>>();
  const subscription = bus.listen(siteProgress, (body) => {
    const { data } = SiteProgress.safeParse(body);
    const waits = data && waiting.get(data.domain);
    if (!waits) return;
    for (const projectId of new Set([...waits].map((one) => one.projectId)))
      show({
        event: 'crawl_progress',
        project_id: projectId,
        domain: data.domain,
        pages_fetched: data.fetched,
        pages_planned: data.planned,
      });
  });
  return {
    watch(domain, projectId) {
      const one = { projectId };
      const waits = waiting.get(domain) ?? new Set();
      waiting.set(domain, waits.add(one));
      return {
        stop() {
          waits.delete(one);
          if (waits.size === 0 && waiting.get(domain) === waits) waiting.delete(domain);
        },
      };
    },
    stop: () => subscription.stop(),
  };
}
