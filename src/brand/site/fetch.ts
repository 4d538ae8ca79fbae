/**
 * Fetches a site's pages and sheets through the guarded module, as its robots.txt allows: bounded in number, bytes
 * and time. Redirects are followed here one by one, so that each host's robots.txt is asked first.
 */
import { crawl as limits } from '../../../schemas/limits.ts';
import { OutboundError } from '../../outbound/error.ts';
import type { Outbound, OutboundAnswer } from '../../outbound/outbound.ts';
import { CrawlError } from '../crawler.ts';
import { decodePage, decodeSheet, isBinary } from './charset.ts';
import { type Element, type Page, TextNode } from './dom.ts';
import { matchesMedia } from './media.ts';
import { closedRobots, openRobots, parseRobots, parseSitemap, type Robots } from './robots.ts';
import { importsOf, type SheetText } from './sheet.ts';

export type Document = { url: URL; text: string; charset: string };

export type Fetcher = {
  /** The home page, by https, or by http where nobody speaks it. @throws {CrawlError} when there is none. */
  home(domain: string): Promise<Document>;
  /** Another page. Undefined when there is none, or when robots must not see it. */
  page(url: string): Promise<Document | undefined>;
  /** The sheets of a page in their order, without those that cannot be had. */
  sheets(page: Page, document: Document): Promise<SheetText[]>;
  /** Addresses that the site's sitemaps list. */
  sitemap(base: URL): Promise<string[]>;
};

const robotsMs = 4_000;
const pageMs = 10_000;
const sheetMs = 5_000;
const maxRobotsBytes = 512 * 1024;
const maxSitemapBytes = 2 * 1024 * 1024;
const maxSitemaps = 3;
/** Of one sheet: as many as are fetched at once find room. */
const maxSheetBytes = limits.maxSheetsBytes / limits.pagesAtOnce;
/** Bytes of a page that are made text: see maxChars in dom.ts. */
const maxTextBytes = 4 * 1024 * 1024;

const pageHeaders = {
  accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.5',
  'accept-encoding': 'gzip, br',
};
const sheetHeaders = { accept: 'text/css,*/*;q=0.1', 'accept-encoding': 'gzip, br' };

export function createFetcher(outbound: Pick<Outbound, 'request'>, signal: AbortSignal): Fetcher {
  const robots = new Map<string, Promise<Robots>>();
  let sheetsLeft: number = limits.maxSheets;
  let sheetBytesLeft: number = limits.maxSheetsBytes;

  const get = (url: string, timeoutMs: number, maxBytes: number, headers: Record<string, string>) =>
    outbound.request(url, {
      headers,
      timeoutMs,
      maxBytes,
      keepAlive: true,
      decode: true,
      acceptPartial: true,
      signal,
    });

  const robotsOf = (origin: string): Promise<Robots> => {
    const known = robots.get(origin);
    if (known) return known;
    const asked = askRobots(origin);
    robots.set(origin, asked);
    return asked;
  };

  const askRobots = async (origin: string): Promise<Robots> => {
    let url = `${origin}/robots.txt`;
    for (let followed = 0; followed <= limits.maxRedirects; followed += 1) {
      const answer = await get(url, robotsMs, maxRobotsBytes, { 'accept-encoding': 'gzip, br' });
      const next = locationOf(answer);
      if (next === undefined) return robotsIn(answer);
      url = next;
    }
    return openRobots;
  };

  /** Follows redirects as far as robots may go. Undefined where they may not. */
  const fetchPage = async (first: string): Promise<OutboundAnswer | undefined> => {
    let url = first;
    for (let followed = 0; followed <= limits.maxRedirects; followed += 1) {
      const { origin } = new URL(url);
      if (!(await robotsOf(origin)).allows(new URL(url))) return undefined;
      const answer = await get(url, pageMs, limits.maxPageBytes, pageHeaders);
      const next = locationOf(answer);
      if (next === undefined) return answer;
      url = next;
    }
    throw new OutboundError('redirect', `more than ${limits.maxRedirects} redirects`);
  };

  const loadSheet = async (url: string, charset: string, depth: number): Promise<SheetText | undefined> => {
    if (sheetsLeft <= 0 || sheetBytesLeft <= 0) return undefined;
    sheetsLeft -= 1;
    // Taken before the answer is there: sheets that come at once must not be too much together.
    const reserved = Math.min(maxSheetBytes, sheetBytesLeft);
    sheetBytesLeft -= reserved;
    let used = 0;
    try {
      const answer = await followSheet(url, reserved);
      used = answer.body.byteLength;
      const type = headerOf(answer, 'content-type');
      if (answer.statusCode !== 200 || isBinary(answer.body) || /html|json|javascript/i.test(type))
        return undefined;
      const text = withAddresses(decodeSheet(answer.body, type, charset), answer.url);
      sheetBytesLeft += reserved - used;
      used = reserved;
      return { text, imports: await loadImports(text, answer.url, charset, depth) };
    } catch (cause) {
      // A page without one of its sheets is still a page.
      if (signal.aborted || !(cause instanceof OutboundError)) throw cause;
      return undefined;
    } finally {
      sheetBytesLeft += reserved - used;
    }
  };

  const followSheet = async (first: string, maxBytes: number): Promise<OutboundAnswer> =>
    outbound.request(first, {
      headers: sheetHeaders,
      timeoutMs: sheetMs,
      maxBytes,
      keepAlive: true,
      decode: true,
      acceptPartial: true,
      redirects: limits.maxRedirects,
      signal,
    });

  const loadImports = async (text: string, base: URL, charset: string, depth: number) => {
    const imports = new Map<string, SheetText>();
    if (depth >= limits.maxImportDepth) return imports;
    for (const { url } of importsOf(text)) {
      if (imports.has(url) || !URL.canParse(url, base.href)) continue;
      const sheet = await loadSheet(new URL(url, base).href, charset, depth + 1);
      if (sheet) imports.set(url, sheet);
    }
    return imports;
  };

  return {
    async home(domain) {
      try {
        const answer = await fetchPage(`https://${domain}/`).catch((cause: unknown) => {
          if (!(cause instanceof OutboundError) || !plainFailures.has(cause.failure)) throw cause;
          robots.clear();
          return fetchPage(`http://${domain}/`).catch((plain: unknown) => {
            // Where nobody speaks http either, it is the certificate that the site gets wrong.
            const isNeither = plain instanceof OutboundError && plainFailures.has(plain.failure);
            throw isNeither && isOfCertificate(cause) ? cause : plain;
          });
        });
        if (!answer) throw new CrawlError('the site asks robots to stay away');
        return readHome(answer);
      } catch (cause) {
        if (!(cause instanceof OutboundError)) throw cause;
        const reason = isOfCertificate(cause) ? wrongCertificate : reasons[cause.failure];
        throw new CrawlError(reason ?? 'the site did not answer', { cause });
      }
    },

    async page(url) {
      try {
        const answer = await fetchPage(url);
        return answer && isPage(answer) ? toDocument(answer) : undefined;
      } catch (cause) {
        if (signal.aborted || !(cause instanceof OutboundError || cause instanceof CrawlError)) throw cause;
        return undefined;
      }
    },

    async sheets(page, { url, charset }) {
      const wishes = sheetsOf(page, url);
      const found = await inParallel(wishes, limits.pagesAtOnce, async (wish) => {
        if ('href' in wish) return loadSheet(wish.href, charset, 0);
        return { text: wish.text, imports: await loadImports(wish.text, url, charset, 0) };
      });
      return found.filter((one) => one !== undefined);
    },

    async sitemap(base) {
      const { sitemaps } = await robotsOf(base.origin);
      const waiting = sitemaps.length > 0 ? [...sitemaps] : [new URL('/sitemap.xml', base).href];
      const pages: string[] = [];
      for (let read = 0; read < maxSitemaps && waiting.length > 0; read += 1) {
        const url = waiting.shift() ?? '';
        if (!URL.canParse(url, base.href) || new URL(url, base).host !== base.host) continue;
        const text = await readSitemap(new URL(url, base).href);
        const found = parseSitemap(text);
        waiting.push(...found.sitemaps);
        pages.push(...found.pages);
      }
      return pages;
    },
  };

  async function readSitemap(url: string): Promise<string> {
    try {
      const { statusCode, body } = await get(url, robotsMs, maxSitemapBytes, {
        'accept-encoding': 'gzip, br',
      });
      return statusCode === 200 && !isBinary(body) ? Buffer.from(body).toString() : '';
    } catch (cause) {
      // Pages are found by their links too.
      if (signal.aborted || !(cause instanceof OutboundError)) throw cause;
      return '';
    }
  }
}

/** Runs work for each, at most `most` at a time. Answers in the order of the items. */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  most: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const run = async () => {
    while (next < items.length) {
      const at = next;
      next += 1;
      const item = items[at];
      if (item !== undefined) results[at] = await work(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, run));
  return results;
}

const plainFailures = new Set(['connect', 'tls', 'reset']);
const wrongCertificate = 'the certificate of the site is not valid';

/** Other failures of TLS are of servers that speak something else. */
function isOfCertificate({ failure, cause }: OutboundError): boolean {
  return failure === 'tls' && /CERT|SIGNATURE/.test(String((cause as NodeJS.ErrnoException)?.code));
}

const reasons: Partial<Record<OutboundError['failure'], string>> = {
  dns: 'the domain has no address',
  blocked_address: 'the address is not allowed',
  timeout: 'the site took too long',
  redirect: 'the site redirects too often, or to no page',
  encoding: 'the site sends what cannot be read',
};

function readHome(answer: OutboundAnswer): Document {
  const { statusCode } = answer;
  if (statusCode < 200 || statusCode > 299)
    throw new CrawlError(`the site answered with status ${statusCode}`);
  if (!isPage(answer)) throw new CrawlError('the site has no page there');
  return toDocument(answer);
}

function isPage(answer: OutboundAnswer): boolean {
  const type = headerOf(answer, 'content-type');
  const isText = type === '' || /html|xml|text\/plain/i.test(type);
  return answer.statusCode >= 200 && answer.statusCode <= 299 && isText && !isBinary(answer.body);
}

function toDocument(answer: OutboundAnswer): Document {
  const { text, charset } = decodePage(
    answer.body.subarray(0, maxTextBytes),
    headerOf(answer, 'content-type'),
  );
  return { url: answer.url, text, charset };
}

/** What a robots.txt means by its status (RFC 9309, 2.3.1). @throws {CrawlError} when the server fails. */
function robotsIn({ statusCode, body }: OutboundAnswer): Robots {
  if (statusCode >= 500) throw new CrawlError(`the site answered with status ${statusCode}`);
  if (statusCode < 200 || statusCode > 299) return openRobots;
  return isBinary(body) ? closedRobots : parseRobots(Buffer.from(body).toString());
}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** @throws {OutboundError} `redirect` for one that names no address. */
function locationOf(answer: OutboundAnswer): string | undefined {
  if (!redirectStatuses.has(answer.statusCode)) return undefined;
  const location = headerOf(answer, 'location');
  if (location === '') return undefined;
  if (!URL.canParse(location, answer.url.href))
    throw new OutboundError('redirect', 'the redirect names no URL');
  return new URL(location, answer.url).href;
}

function headerOf({ headers }: OutboundAnswer, name: string): string {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

/** Images are named from where their sheet lies, not from the page (CSS Values 4, 4.5). */
const withAddresses = (text: string, base: URL): string =>
  text.replace(/(url\(\s*["']?)(?!data:|#)([^"')\s]+)/gi, (all, before: string, one: string) =>
    URL.canParse(one, base.href) ? `${before}${new URL(one, base).href}` : all,
  );

type Wish = { href: string } | { text: string };

/** Linked and inline sheets in the order of the document, those for other media and choices left out. */
function sheetsOf({ all }: Page, url: URL): Wish[] {
  const base = baseOf(all, url);
  const wishes: Wish[] = [];
  let chosen = '';
  for (const element of all) {
    if (element.tag === 'style' && applies(element.get('media'))) {
      const text = element.children.map((one) => (one instanceof TextNode ? one.text : '')).join('');
      wishes.push({ text });
    }
    if (element.tag !== 'link' || !isSheet(element.get('rel'), element.get('as'), element.get('onload')))
      continue;
    const href = element.get('href').trim();
    if (href === '' || !isInForce(element)) continue;
    // Sheets with a title are sets to choose from: the first is shown (HTML, 4.2.6.1 the preferred set).
    const title = element.get('title');
    chosen ||= title;
    if (title !== '' && title !== chosen) continue;
    if (URL.canParse(href, base)) wishes.push({ href: new URL(href, base).href });
  }
  return wishes;
}

/** Some sheets wait for the page under a media type that does not apply. */
const isInForce = (link: Element): boolean =>
  !link.attributes.has('disabled') && (/media/.test(link.get('onload')) || applies(link.get('media')));

const applies = (media: string) => media.trim() === '' || matchesMedia(media);

function isSheet(rel: string, as: string, onload: string): boolean {
  const words = rel.toLowerCase().split(/\s+/);
  if (words.includes('stylesheet')) return !words.includes('alternate');
  return words.includes('preload') && as === 'style' && /stylesheet/.test(onload);
}

function baseOf(all: Page['all'], url: URL): string {
  const href = all.find(({ tag, attributes }) => tag === 'base' && attributes.has('href'))?.get('href') ?? '';
  return URL.canParse(href, url.href) ? new URL(href, url).href : url.href;
}
