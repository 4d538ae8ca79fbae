/** What looks at web sites: brand detection and deep crawl (specification 4.2 and 2). Runs in the worker role. */
import type { DeepCrawlResult } from '../../schemas/crawl.ts';
import type { BrandConfig } from '../../schemas/project.ts';

/**
 * `domain` is in normal form: a host name, with a port when it is not the scheme's. Both end soon after the signal
 * aborts, and may be called for several domains at once. Safe to repeat.
 *
 * Both throw {CrawlError} when the site gives nothing to look at; what it merely lacks is left out or empty
 * (decisions 7).
 */
export type Crawler = {
  /** Colors and fonts alone, each left out when nothing was found. */
  detect(domain: string, signal: AbortSignal): Promise<BrandConfig>;
  deepCrawl(domain: string, signal: AbortSignal, onProgress?: OnProgress): Promise<DeepCrawlResult>;
};

/** Told after each page: how many are read, of how many that are planned by now. */
export type OnProgress = (pages: { fetched: number; planned: number }) => void;

/** A site that cannot be looked at. `detail` is for the customer: short, lower case, nothing internal. */
export class CrawlError extends Error {
  override readonly name = 'CrawlError';
  readonly detail: string;

  constructor(detail: string, options?: { cause?: unknown }) {
    super(detail, options);
    this.detail = detail;
  }
}
