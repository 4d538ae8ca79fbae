/**
 * How far a project's deep crawl is, in its streams: told to who listens now, kept by nobody. The frame has no id, so
 * that what a client resumes with stays that of the last event.
 */
import { CrawlProgress } from '../../schemas/events.ts';
import type { Hub } from './hub.ts';
import type { Listen } from './messages.ts';

/** Name of the message between processes. */
export const crawlShown = 'crawl.shown';

/** Messages of another shape are ignored. */
export function showCrawls(hub: Pick<Hub, 'showProgress'>, listen: Listen): { stop(): void } {
  return listen(crawlShown, (body) => {
    const { data } = CrawlProgress.safeParse(body);
    if (data) hub.showProgress(data.project_id, data.event, toProgressFrame(data));
  });
}

const toProgressFrame = (progress: CrawlProgress): Buffer =>
  Buffer.from(`event: ${progress.event}\ndata: ${JSON.stringify(progress)}\n\n`);
