/**
 * A small crawler: reads the home page and its first style sheets as text, without running or laying out anything.
 *
 * Finds what pages say outright: theme-color, custom properties with telling names, the first font families, title
 * and description. What it does not look for is empty in a deep crawl.
 */
import type { DeepCrawlResult } from '../../schemas/crawl.ts';
import { project as limits, source } from '../../schemas/limits.ts';
import type { BrandConfig } from '../../schemas/project.ts';
import { OutboundError } from '../outbound/error.ts';
import type { Outbound, OutboundAnswer } from '../outbound/outbound.ts';
import { CrawlError, type Crawler } from './crawler.ts';

type Site = { url: URL; html: string; css: string };
type Colors = NonNullable<BrandConfig['colors']>;
type Fonts = NonNullable<BrandConfig['fonts']>;

const pageMs = 10_000;
const sheetMs = 4_000;
const maxPageBytes = 1024 * 1024;
const maxSheetBytes = 512 * 1024;
const maxSheets = 2;

export function createSimpleCrawler(outbound: Pick<Outbound, 'request'>): Crawler {
  return {
    async detect(domain, signal) {
      const site = await readSite(outbound, domain, signal);
      const [colors, fonts] = [findColors(site), findFonts(site)];
      return { ...(colors ? { colors } : {}), ...(fonts ? { fonts } : {}) };
    },

    async deepCrawl(domain, signal) {
      return toResult(await readSite(outbound, domain, signal));
    },
  };
}

/** @throws {CrawlError} when there is no page. */
async function readSite(
  outbound: Pick<Outbound, 'request'>,
  domain: string,
  signal: AbortSignal,
): Promise<Site> {
  const page = await readHome(outbound, domain, signal);
  const html = Buffer.from(page.body).toString();
  const inline = [...html.matchAll(/<style[^<>]{0,500}>([^<]*)/gi)].map(([, css]) => css ?? '');
  const sheets = await Promise.all(
    sheetUrls(html, page.url).map(async (url) => {
      const wish = {
        timeoutMs: sheetMs,
        maxBytes: maxSheetBytes,
        redirects: source.maxRedirects,
        decode: true,
      };
      // A page without one of its sheets is still a page.
      const answer = await outbound
        .request(url, { ...wish, acceptPartial: true, signal })
        .catch(() => undefined);
      return answer?.statusCode === 200 ? Buffer.from(answer.body).toString() : '';
    }),
  );
  signal.throwIfAborted();
  return { url: page.url, html, css: [...inline, ...sheets].join('\n') };
}

/** By https, and by http where nobody speaks it. */
async function readHome(
  outbound: Pick<Outbound, 'request'>,
  domain: string,
  signal: AbortSignal,
): Promise<OutboundAnswer> {
  const headers = { accept: 'text/html' };
  const wish = { headers, timeoutMs: pageMs, maxBytes: maxPageBytes, redirects: source.maxRedirects };
  const options = { ...wish, decode: true, acceptPartial: true, signal };
  try {
    const answer = await outbound.request(`https://${domain}/`, options).catch((cause: unknown) => {
      const isPlain = cause instanceof OutboundError && plainFailures.has(cause.failure);
      if (!isPlain) throw cause;
      return outbound.request(`http://${domain}/`, options);
    });
    if (answer.statusCode < 200 || answer.statusCode > 299)
      throw new CrawlError(`the site answered with status ${answer.statusCode}`);
    return answer;
  } catch (cause) {
    if (!(cause instanceof OutboundError)) throw cause;
    throw new CrawlError(reasons[cause.failure] ?? 'the site did not answer', { cause });
  }
}

const plainFailures = new Set(['connect', 'tls', 'reset']);
const reasons: Partial<Record<OutboundError['failure'], string>> = {
  dns: 'the domain has no address',
  blocked_address: 'the address is not allowed',
  timeout: 'the site took too long',
  redirect: 'the site redirects too often, or to no page',
};

function sheetUrls(html: string, base: URL): string[] {
  return tagsOf(html, 'link')
    .filter((tag) => /\bstylesheet\b/i.test(attribute(tag, 'rel')))
    .map((tag) => attribute(tag, 'href'))
    .filter((href) => href !== '' && URL.canParse(href, base.href))
    .map((href) => new URL(href, base.href).href)
    .slice(0, maxSheets);
}

function findColors({ html, css }: Site): Colors | undefined {
  const property = (names: string) =>
    toHex(
      new RegExp(`--(?:[a-z]{1,20}-){0,3}(?:${names})\\s{0,9}:\\s{0,9}([^;}]{1,60})`, 'i').exec(css)?.[1],
    );
  const background =
    property('background|bg') ??
    toHex(/\bbody\s{0,9}\{[^{}]{0,999}?background(?:-color)?\s{0,9}:\s{0,9}([^;}]{1,60})/i.exec(css)?.[1]);
  const primary = property('primary|brand') ?? toHex(metaOf(html, 'theme-color')) ?? property('accent');
  if (primary === undefined) return undefined;
  const ground = background ?? '#ffffff';
  return {
    primary,
    secondary: property('secondary') ?? mix(primary, ground, 0.4),
    accent: property('accent') ?? primary,
    background: ground,
    foreground: property('foreground|text') ?? (isDark(ground) ? '#ffffff' : '#111111'),
  };
}

function findFonts({ css }: Site): Fonts | undefined {
  const of = (selector: string) => familyIn(ruleOf(css, selector));
  const body = of('body') ?? of('html') ?? of(':root') ?? familyIn(css);
  const heading = of('h1') ?? of('h2') ?? body;
  return heading === undefined ? undefined : { heading, body: body ?? heading };
}

/** The declarations of the first rule for a selector. */
function ruleOf(css: string, selector: string): string {
  return new RegExp(`(?:^|[\\s,}])${selector}\\b[^{}]{0,200}\\{([^}]{0,2000})`, 'i').exec(css)?.[1] ?? '';
}

/** The first font family that is a name. */
function familyIn(css: string): string | undefined {
  const [, name] =
    /font-family\s{0,9}:\s{0,9}(?!\s|inherit|initial|unset|var\()["']?([^"',;}]{1,60})/i.exec(css) ?? [];
  return name?.trim();
}

const plain: Colors = {
  primary: '#111111',
  secondary: '#707070',
  accent: '#111111',
  background: '#ffffff',
  foreground: '#111111',
};

function toResult(site: Site): DeepCrawlResult {
  const { html, url } = site;
  const colors = findColors(site) ?? plain;
  const title = textOf(/<title[^<>]{0,200}>([^<]{0,2000})/i.exec(html)?.[1] ?? '');
  const description = metaOf(html, 'description') ?? metaOf(html, 'og:description') ?? '';
  const icon = attribute(
    tagsOf(html, 'link').find((tag) => /\bicon\b/i.test(attribute(tag, 'rel'))) ?? '',
    'href',
  );
  return {
    brand: {
      colors,
      fonts: findFonts(site) ?? { heading: '', body: '' },
      brandName: metaOf(html, 'og:site_name') ?? title,
      logoUrl:
        icon !== '' && URL.canParse(icon, url.href)
          ? new URL(icon, url.href).href.slice(0, limits.brandTextMaxChars)
          : '',
    },
    content: {
      tagline: title,
      description,
      features: [],
      pricing: [],
      testimonials: [],
      stats: [],
      announcements: [],
      codeExamples: [],
      pages: [{ url: url.href, title, type: 'home' }],
    },
    messaging: { tone: '', targetAudience: '', valueProps: [], ctas: [] },
    design: {
      vibe: '',
      borderRadius: '',
      hasGlassmorphism: false,
      hasGradientBorders: false,
      hasRadialGlows: false,
      colorScheme: isDark(colors.background) ? 'dark' : 'light',
    },
  };
}

/** Tags of one name, as they are written; bounded, since the page is a stranger's. */
function tagsOf(html: string, name: string): string[] {
  return html.match(new RegExp(`<${name}\\s[^<>]{1,2000}>`, 'gi')) ?? [];
}

function attribute(tag: string, name: string): string {
  const [, quoted, bare] =
    new RegExp(`\\s${name}\\s{0,9}=\\s{0,9}(?:["']([^"']{0,2000})|([^\\s"'>]{1,2000}))`, 'i').exec(tag) ?? [];
  return quoted ?? bare ?? '';
}

function metaOf(html: string, name: string): string | undefined {
  const tag = tagsOf(html, 'meta').find(
    (one) => (attribute(one, 'name') || attribute(one, 'property')).toLowerCase() === name,
  );
  return tag === undefined ? undefined : textOf(attribute(tag, 'content'));
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", nbsp: ' ' };

function textOf(html: string): string {
  return html
    .replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name: string) => entities[name] ?? '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** `#rgb`, `#rrggbb` and `rgb()` as `#rrggbb`; undefined for other notations. */
function toHex(text: string | undefined): string | undefined {
  const hex = /^\s{0,9}#([0-9a-f]{3}|[0-9a-f]{6})\b/i.exec(text ?? '')?.[1]?.toLowerCase();
  if (hex !== undefined) return `#${hex.length === 3 ? hex.replace(/./g, '$&$&') : hex}`;
  const [, red, green, blue] =
    /^\s{0,9}rgba?\(\s{0,9}(\d{1,3})[\s,]{1,9}(\d{1,3})[\s,]{1,9}(\d{1,3})/i.exec(text ?? '') ?? [];
  if (red === undefined) return undefined;
  return toColor([red, green, blue].map((part) => Math.min(255, Number(part))));
}

const toColor = (parts: number[]) =>
  `#${parts.map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`;
const toParts = (color: string) => [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));

function mix(one: string, other: string, share: number): string {
  const others = toParts(other);
  return toColor(toParts(one).map((part, n) => part * (1 - share) + (others[n] ?? 0) * share));
}

/** By the luma of Rec. 601. */
function isDark(color: string): boolean {
  const [red = 0, green = 0, blue = 0] = toParts(color);
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}
