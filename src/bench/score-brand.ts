/**
 * `npm run score-brand`: how right brand detection and deep crawl are on sites whose look a person has written down.
 * Prints what was missed on the open sites and one JSON line; `-- open` or `-- kept` take one half alone, `-- <id>,<id>`
 * some sites. Of sites that are kept aside the totals alone are shown.
 *
 * A colour is a hit at CIEDE2000 of at most 5; texts and fonts by same-thing.ts; lists are scored by F1 over all sites.
 */
import { differenceCiede2000 } from 'culori';
import type { DeepCrawlResult } from '../../schemas/crawl.ts';
import {
  type Expected,
  fetchSites,
  openLocalCrawler,
  readSites,
  type Site,
  serveSites,
} from './brand-sites.ts';
import { isSameFamily, isSameText, isSameTitle } from './same-thing.ts';

const hitBelow = 5;
const difference = differenceCiede2000();

type Mark = { hits: number; of: number };
type Lists = { hits: number; found: number; expected: number };
type Card = { single: Map<string, Mark>; lists: Map<string, Lists>; invented: number };

type Same = (one: string, other: string) => boolean;

/** Other lists are of texts. */
const sameBy: Partial<Record<keyof Expected, Same>> = {
  features: isSameTitle,
  announcements: isSameTitle,
  pricing: isSamePrice,
  stats: isSamePrice,
};

const wish = process.argv[2];
const all = await readSites();
const sites =
  wish === 'open' || wish === 'kept'
    ? all.filter(({ kept }) => kept === (wish === 'kept'))
    : all.filter(({ id }) => wish === undefined || wish.split(',').includes(id));
await fetchSites(sites);
const server = await serveSites(sites);
const { crawler, close } = openLocalCrawler();
const cards = { open: newCard(), kept: newCard() };
for (const site of sites) {
  const found = await crawler.deepCrawl(`${site.id}.localhost:${server.port}`, new AbortController().signal);
  score(site, found, site.kept ? cards.kept : cards.open);
}
await close();
await server.close();
console.log(
  JSON.stringify({
    bench: 'score-brand',
    sites: sites.length,
    open: shown(cards.open),
    kept: shown(cards.kept),
  }),
);

function newCard(): Card {
  return { single: new Map(), lists: new Map(), invented: 0 };
}

function score(site: Site, found: DeepCrawlResult, card: Card): void {
  const { expected } = site;
  const { colors, fonts, brandName, logoUrl } = found.brand;
  const color = (name: 'primary' | 'secondary' | 'background' | 'foreground') =>
    mark(site, card, name, expected[name], colors[name], (one) => difference(one, colors[name]) <= hitBelow);
  for (const name of ['primary', 'secondary', 'background', 'foreground'] as const) color(name);
  mark(site, card, 'heading', expected.heading, fonts.heading, (one) => isSameFamily(one, fonts.heading));
  mark(site, card, 'body', expected.body, fonts.body, (one) => isSameFamily(one, fonts.body));
  mark(site, card, 'name', expected.name, brandName, (one) => isSameText(one, brandName));
  mark(site, card, 'logo', expected.logo, logoUrl.slice(0, 80), (one) =>
    one === '' ? logoUrl === '' : logoUrl.endsWith(one) || logoUrl.startsWith(one),
  );
  const { tagline } = found.content;
  mark(site, card, 'tagline', expected.tagline, tagline, (one) => isSameText(one, tagline));
  if (expected.audience !== undefined)
    mark(site, card, 'audience', expected.audience, found.messaging.targetAudience, (one) =>
      isSameText(one, found.messaging.targetAudience),
    );
  for (const [trait, value] of Object.entries(expected.design ?? {})) {
    const own = found.design[trait as keyof DeepCrawlResult['design']];
    mark(site, card, 'design', String(value), `${trait} ${own}`, () => own === value);
  }
  scoreLists(site, found, card);
}

function scoreLists(site: Site, { content, messaging }: DeepCrawlResult, card: Card): void {
  const { expected } = site;
  const prices = content.pricing.map(({ tier, price }) =>
    expected.pricing?.some((one) => one.includes('|')) ? `${tier}|${price}` : tier,
  );
  const lists: [keyof Expected & string, string[]][] = [
    ['features', content.features.map(({ title }) => title)],
    ['pricing', prices],
    ['testimonials', content.testimonials.map(({ author }) => author)],
    ['stats', content.stats.map(({ value }) => value)],
    ['announcements', content.announcements.map(({ title }) => title)],
    ['code', content.codeExamples.map(({ language }) => language)],
    ['pages', content.pages.map(({ type }) => type)],
    ['ctas', messaging.ctas],
  ];
  for (const [name, found] of lists) {
    const wanted = expected[name] as string[] | undefined;
    if (wanted === undefined) continue;
    if (name === 'pricing' && wanted.length === 0) card.invented += found.length;
    const hits = countHits(found, wanted, sameBy[name] ?? isSameText);
    const sums = card.lists.get(name) ?? { hits: 0, found: 0, expected: 0 };
    card.lists.set(name, {
      hits: sums.hits + hits,
      found: sums.found + found.length,
      expected: sums.expected + wanted.length,
    });
    if (!site.kept && (hits < wanted.length || found.length > hits))
      console.log(
        `${site.id} ${name}: found ${JSON.stringify(found.map((one) => one.slice(0, 60)))}, expected ${JSON.stringify(wanted)}`,
      );
  }
}

function mark(
  { id, kept }: Site,
  card: Card,
  name: string,
  expected: string | string[] | undefined,
  found: string,
  isHit: (one: string) => boolean,
): void {
  if (expected === undefined) return;
  const hit = [expected].flat().some(isHit);
  const sums = card.single.get(name) ?? { hits: 0, of: 0 };
  card.single.set(name, { hits: sums.hits + (hit ? 1 : 0), of: sums.of + 1 });
  if (!hit && !kept) console.log(`${id} ${name}: found ${found}, expected ${[expected].flat().join(' or ')}`);
}

/** Each expected entry is found once at most; what is the same to the letter is paired first. */
function countHits(found: readonly string[], wanted: readonly string[], isSame: Same): number {
  const left = [...wanted];
  const others = found.filter((one) => {
    const at = left.indexOf(one);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  for (const one of others) {
    const at = left.findIndex((other) => isSame(one, other));
    if (at >= 0) left.splice(at, 1);
  }
  return wanted.length - left.length;
}

/** Figures have marks that count; prices may have their period with them or not. */
function isSamePrice(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => text.toLowerCase().replace(/\s/g, '')) as [string, string];
  return a === b || (a.includes('|') && (a.startsWith(b) || b.startsWith(a)));
}

function shown({ single, lists, invented }: Card) {
  const shares = [...single].map(([name, { hits, of }]) => [
    name,
    `${(hits / of).toFixed(2)} (${hits}/${of})`,
  ]);
  const scores = [...lists].map(([name, { hits, found, expected }]) => [
    name,
    found + expected === 0
      ? 'none'
      : `${((2 * hits) / (found + expected)).toFixed(2)} (${hits}, ${found} found, ${expected} expected)`,
  ]);
  return { ...Object.fromEntries([...shares, ...scores]), inventedPrices: invented };
}
