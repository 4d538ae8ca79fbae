/**
 * Reads web sites as a visitor with no browser would: fetches, parses, works out the styles of the home page, and
 * tells what it is made of. Without running scripts. The same site gives the same answer, byte for byte.
 */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import {
  browser as browserLimits,
  crawl as limits,
  brandModel as modelLimits,
} from '../../../schemas/limits.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { Draw } from '../browser.ts';
import type { Choose } from '../choose.ts';
import { CrawlError, type Crawler, type OnProgress } from '../crawler.ts';
import { createIsButton } from './buttons.ts';
import { type Brand, chooseBrand, choosePalette } from './choice.ts';
import { type PageContent, readContent } from './content.ts';
import { readDesign } from './design.ts';
import { type Page, parsePage, textOf, tidy } from './dom.ts';
import { createFetcher, type Document, type Fetcher, inParallel } from './fetch.ts';
import { type Fonts, readFonts } from './fonts.ts';
import { metaOf, titleOf } from './identity.ts';
import { type Look, lookAt } from './look.ts';
import { headingsOf, isNamedButton, readCtas, readLead, readMessaging, readTagline } from './messaging.ts';
import { type Outline, outline } from './outline.ts';
import { isHome, type Lead, leadsOf, pageUrl, rankOf, sortLeads, typeOfPage } from './pages.ts';
import { type Palette, readPalette } from './palette.ts';
import { isMadeByScripts } from './scripts.ts';
import { createStyles } from './style.ts';

/** What helps where it is there. Neither of both throws. */
export type Engines = { draw?: Draw; choose?: Choose };

export function createSiteCrawler(outbound: Pick<Outbound, 'request'>, engines: Engines = {}): Crawler {
  return {
    async detect(domain, signal) {
      const startedMs = performance.now();
      const home = await readHome(createFetcher(outbound, signal), domain, engines.draw, signal);
      const { fonts } = home;
      const isEarly = performance.now() - startedMs < modelLimits.latestStartMs;
      const palette = isEarly ? await choosePalette(home, engines.choose, signal) : home.palette;
      return { ...(hasColors(palette) ? { colors: hexes(palette) } : {}), ...(fonts ? { fonts } : {}) };
    },

    async deepCrawl(domain, signal, onProgress = () => undefined) {
      const startedMs = performance.now();
      const fetcher = createFetcher(outbound, signal);
      const home = await readHome(fetcher, domain, engines.draw, signal);
      const leftMs = () => limits.fetchMs - graceMs - (performance.now() - startedMs);
      const reach = { fetcher, draw: drawSome(engines.draw, leftMs), signal };
      const [others, brand] = await Promise.all([
        readOthers(reach, home, leftMs, onProgress),
        chooseBrand(home, engines.choose, signal),
      ]);
      return toResult(home, others, brand);
    },
  };
}

/** Before the end of the time for fetching no further page is begun. */
const graceMs = 10_000;

type Home = {
  document: Document;
  page: Page;
  look: Look;
  palette: Palette;
  fonts: Fonts | undefined;
};

/** Of one crawl so many pages are drawn: a browser takes seconds for each. */
function drawSome(draw: Draw | undefined, leftMs: () => number): Draw | undefined {
  let left = browserLimits.pagesOfCrawl - 1;
  return (
    draw &&
    (async (url, signal) => {
      left -= 1;
      return left < 0 || leftMs() < browserLimits.totalMs ? undefined : draw(url, signal);
    })
  );
}

/** A page as a visitor has it: drawn, where scripts make it and somebody draws. */
async function readPage({ text, url }: Document, draw: Draw | undefined, signal: AbortSignal): Promise<Page> {
  const page = parsePage(text);
  const drawn = draw && isMadeByScripts(page) ? await draw(url.href, signal) : undefined;
  signal.throwIfAborted();
  return drawn === undefined ? page : parsePage(drawn);
}

async function readHome(
  fetcher: Fetcher,
  domain: string,
  draw: Draw | undefined,
  signal: AbortSignal,
): Promise<Home> {
  const document = await fetcher.home(domain);
  const page = await readPage(document, draw, signal);
  if (isEmpty(page)) throw new CrawlError('the page is empty');
  const styles = createStyles(await fetcher.sheets(page, document));
  const look = lookAt(page, styles);
  return { document, page, look, palette: readPalette(look), fonts: readFonts(look) };
}

/** Nothing to see, and nothing that would make something. */
function isEmpty({ all, body }: Page): boolean {
  const hasParts = all.some(({ tag }) => !/^(html|head|body|meta|title)$/.test(tag));
  return !hasParts && (!body || textOf(body) === '') && all.every(({ tag }) => tag !== 'title');
}

/** A white page with black text and nothing else shows no colours. */
function hasColors({ isFound, background, foreground }: Palette): boolean {
  return isFound || background.hex !== '#ffffff' || foreground.hex !== '#000000';
}

const hexes = ({ primary, secondary, accent, background, foreground }: Palette) => ({
  primary: primary.hex,
  secondary: secondary.hex,
  accent: accent.hex,
  background: background.hex,
  foreground: foreground.hex,
});

/** What is kept of a page when its tree is gone. */
type Reading = {
  url: URL;
  title: string;
  type: string;
  content: PageContent;
  ctas: string[];
  text: string;
  leads: Lead[];
};

type Reach = { fetcher: Fetcher; draw: Draw | undefined; signal: AbortSignal };

const maxTextChars = 12_000;
/** Rounds of pages that were found on the pages before. */
const maxRounds = 3;

async function readOthers(
  { fetcher, draw, signal }: Reach,
  home: Home,
  leftMs: () => number,
  onProgress: OnProgress,
): Promise<Reading[]> {
  const base = home.document.url;
  const known = new Map<string, Lead>();
  const add = (leads: readonly Lead[]) => {
    for (const lead of leads) if (!known.has(lead.url)) known.set(lead.url, lead);
  };
  add(leadsOf(home.page, base));
  add(leadsOfSitemap(await fetcher.sitemap(base), base));

  const visited = new Set([pageUrl(base.href, base) ?? base.href]);
  const texts = new Set([visibleText(home)]);
  const readings: Reading[] = [];
  for (let round = 0; round < maxRounds && readings.length < limits.maxPages - 1; round += 1) {
    const wanted = sortLeads(
      [...known.values()].filter(({ url }) => !visited.has(url) && !isHome(new URL(url))),
    );
    const next = wanted.slice(0, limits.maxPages - 1 - readings.length);
    if (next.length === 0) break;
    for (const { url } of next) visited.add(url);
    // Pages that were none count too: their time is over.
    const planned = visited.size;
    let fetched = planned - next.length;
    onProgress({ fetched, planned });
    const found = await inParallel(next, limits.pagesAtOnce, async (lead) => {
      const reading = leftMs() > 0 ? await readOther({ fetcher, draw, signal }, lead, base) : undefined;
      fetched += 1;
      onProgress({ fetched, planned });
      return reading;
    });
    for (const one of found) {
      // Some sites answer every address with the same page.
      if (
        !one ||
        texts.has(one.text) ||
        (one.url.href !== base.href && readings.some(({ url }) => url.href === one.url.href))
      )
        continue;
      texts.add(one.text);
      readings.push(one);
      add(one.leads);
    }
  }
  return readings;
}

function leadsOfSitemap(addresses: string[], base: URL): Lead[] {
  const urls = addresses.map((one) => pageUrl(one, base)).filter((one) => one !== undefined);
  return urls.map((url) => ({ url, text: '', rank: rankOf(new URL(url), '') + 3 }));
}

async function readOther(
  { fetcher, draw, signal }: Reach,
  lead: Lead,
  base: URL,
): Promise<Reading | undefined> {
  const document = await fetcher.page(lead.url);
  const url = document && pageUrl(document.url.href, base);
  if (!document || url === undefined) return undefined;
  const page = await readPage(document, draw, signal);
  const seen = outline(page, isPlainlyShown);
  const title = titleOf(page) || headingOf(seen);
  const type = typeOfPage(new URL(url), lead.text, title);
  const content = readContent(seen);
  return {
    url: new URL(url),
    title,
    type,
    // Cards on such pages are articles, questions, ways to write, goods.
    content: { ...content, features: withoutFeatures.has(type) ? [] : content.features },
    ctas: readCtas(seen, isNamedButton),
    text: page.body ? textOf(page.body, isPlainlyShown, maxTextChars) : '',
    leads: leadsOf(page, document.url),
  };
}

const withoutFeatures = new Set('blog docs faq contact careers legal login shop portfolio'.split(' '));

/** Without styles: what the page itself hides. */
const isPlainlyShown: Outline['isShown'] = (element) =>
  !element.attributes.has('hidden') &&
  !/display\s*:\s*none/.test(element.get('style')) &&
  !element.classes.some((one) => /^(sr-only|visually-hidden|d-none|hidden)$/.test(one));

const headingOf = ({ content, text }: Outline) => {
  const heading = content.find(({ tag }) => tag === 'h1');
  return heading ? text(heading, 200) : '';
};

const visibleText = ({ page, look }: Home) =>
  page.body ? textOf(page.body, (one) => look.styles.of(one).isShown, maxTextChars) : '';

const most = {
  features: 24,
  pricing: 12,
  testimonials: 20,
  stats: 16,
  announcements: 20,
  codeExamples: 20,
} as const;
const longest = { text: 2_000, title: 300 } as const;

function toResult(home: Home, others: Reading[], { palette, name, logo }: Brand): DeepCrawlResult {
  const { page, look, document, fonts } = home;
  const title = titleOf(page);
  const seen = outline(page, (element) => look.styles.of(element).isShown);
  const own = readContent(seen);
  const content = merge(
    own,
    others.map((one) => one.content),
  );
  const text = visibleText(home);
  const ctas = [...new Set([...readCtas(seen, createIsButton(look))])];
  return {
    brand: {
      colors: hexes(palette),
      fonts: fonts ?? { heading: '', body: '' },
      brandName: name,
      logoUrl: logo,
    },
    content: {
      tagline: readTagline(seen, name, title),
      description: (
        metaOf(page, 'description', 'og:description', 'twitter:description') || readLead(seen)
      ).slice(0, longest.text),
      ...content,
      pages: [
        { url: document.url.href, title, type: 'home' },
        ...others.map(({ url, title: its, type }) => ({
          url: url.href,
          title: its.slice(0, longest.title),
          type,
        })),
      ],
    },
    messaging: readMessaging(
      {
        text: tidy(`${metaOf(page, 'description', 'og:description')} ${text}`),
        features: own.features,
        headings: headingsOf(seen),
        hasCode: content.codeExamples.length > 0,
        hasShop: /add to cart|in den warenkorb|カートに入れる/i.test(text),
      },
      ctas,
    ),
    design: readDesign(look, palette, fonts?.heading ?? ''),
  };
}

/** The home page's first; what another page says again is said once. */
function merge(home: PageContent, others: PageContent[]): PageContent {
  const all = [home, ...others];
  const gather = <Key extends keyof PageContent>(
    key: Key,
    idOf: (one: PageContent[Key][number]) => string,
  ): PageContent[Key] => {
    const found = new Map<string, PageContent[Key][number]>();
    for (const content of all) {
      for (const one of content[key])
        if (found.size < most[key] && !found.has(idOf(one))) found.set(idOf(one), one);
    }
    return [...found.values()] as PageContent[Key];
  };
  return {
    features: gather('features', ({ title }) => title.toLowerCase()),
    pricing: gather('pricing', ({ tier }) => tier.toLowerCase()),
    testimonials: gather('testimonials', ({ quote }) => quote.toLowerCase()),
    stats: gather('stats', ({ label, value }) => `${label} ${value}`),
    announcements: gather('announcements', ({ title, body, date }) =>
      `${title} ${date} ${body.slice(0, 40)}`.toLowerCase(),
    ),
    codeExamples: gather('codeExamples', ({ code }) => code),
  };
}
