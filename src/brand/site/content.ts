/**
 * What a page says, by its structure: features, prices, quotes, figures, dated announcements, code. Each group of
 * repeated siblings is one kind of thing, or nothing. What is not there is not made up.
 */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { readCode } from './code.ts';
import { closest, descendants, type Element, tidy } from './dom.ts';
import { type Group, type Item, linesOf, type Outline } from './outline.ts';
import { dateIn, isFigure, priceIn } from './patterns.ts';

type Content = DeepCrawlResult['content'];
export type PageContent = Pick<
  Content,
  'features' | 'pricing' | 'testimonials' | 'stats' | 'announcements' | 'codeExamples'
>;

export function readContent(outline: Outline): PageContent {
  const found: PageContent = {
    features: [],
    pricing: [],
    testimonials: [],
    stats: [],
    announcements: [],
    codeExamples: readCode(outline),
  };
  /** Elements that were read as something: what is inside them is read no more. */
  const taken = new Set<Element>();
  const isTaken = (element: Element) => closest(element, (one) => taken.has(one)) !== undefined;

  for (const kind of readers) {
    for (const group of outline.groups) {
      if (isTaken(group.parent)) continue;
      const items = group.items.filter(({ element }) => !taken.has(element));
      if (items.length === 0 || !kind(outline, { ...group, items }, found)) continue;
      taken.add(group.parent);
    }
    if (kind === readQuotes) readLoneQuotes(outline, found, isTaken, taken);
  }
  readArticles(outline, found, isTaken);
  return found;
}

/** Reads a group; whether it was of this kind. The surest kinds come first. */
type Reader = (outline: Outline, group: Group, found: PageContent) => boolean;

const readPrices: Reader = (outline, { items }, { pricing }) => {
  const tiers = items.map((item) => readTier(outline, item));
  const priced = tiers.filter((tier) => tier !== undefined && /\d/.test(tier.price));
  const isTable =
    priced.length > 0 && tiers.filter((tier) => tier !== undefined).length >= Math.max(2, items.length * 0.6);
  if (!isTable || !isOffer(outline, items)) return false;
  pricing.push(...tiers.filter((tier) => tier !== undefined));
  return true;
};

/** Goods in a shop have a price too; tiers say what is in them, or for how long. */
function isOffer(outline: Outline, items: Item[]): boolean {
  const lists = items.filter(
    ({ element }) => [...descendants(element)].filter(({ tag }) => tag === 'li').length >= 2,
  ).length;
  if (lists >= Math.max(2, items.length * 0.6)) return true;
  const periods = items.filter(({ text }) => period.test(text)).length;
  const section =
    items[0] &&
    closest(items[0].element, (one) =>
      /pric|tarif|preis|plan|料金/i.test(`${one.get('id')} ${one.get('class')}`),
    );
  const hasPictures = items.some(({ element }) => [...descendants(element)].some(({ tag }) => tag === 'img'));
  return periods >= 2 || (section !== undefined && !hasPictures && outline.groups.length > 0);
}

const period =
  /\/\s?(mo|month|monat|yr|year|jahr|user|seat|nutzer|月|年|week)|per (month|year|user|seat)|pro (monat|jahr|nutzer)|monthly|monatlich|月額|(?:月|年)あたり/i;

function readTier(
  outline: Outline,
  { element, heading, title, text }: Item,
): Content['pricing'][number] | undefined {
  if (text.length > 1_500) return undefined;
  const price = priceIn(text.replace(title, ' ')) ?? unpriced.exec(text)?.[0];
  const tier = heading && priceIn(title) === undefined ? title : firstName(outline, element);
  if (price === undefined || tier === '' || tier.length > 60) return undefined;
  const features = [...descendants(element)]
    .filter((one) => one.tag === 'li' && outline.isShown(one))
    .map((one) => outline.text(one).slice(0, 200))
    .filter((one) => one !== '')
    .slice(0, 30);
  return { tier, price: tidy(price), features };
}

const unpriced =
  /\b(free|gratis|kostenlos|gratuit|custom(?: pricing)?|contact (?:us|sales)|on request|auf anfrage|individuell|let's talk)\b|無料|お問い合わせ|要見積/i;

function firstName(outline: Outline, element: Element): string {
  return (
    linesOf(element, outline).find(
      ({ text }) =>
        text.length <= 40 &&
        priceIn(text) === undefined &&
        !/^(most popular|popular|beliebt|recommended|empfohlen|人気|best value)/i.test(text),
    )?.text ?? ''
  );
}

const readQuotes: Reader = (outline, { items, parent }, { testimonials }) => {
  const area = closest(parent, (one) => quoteNames.test(`${one.get('id')} ${one.get('class')}`));
  const quotes = items.map((item) =>
    readQuote(outline, item.element, area !== undefined && outline.text(area).length < 6_000),
  );
  const known = quotes.filter((one) => one !== undefined);
  if (known.length < Math.max(1, items.length * 0.6)) return false;
  testimonials.push(...known);
  return true;
};

const quoteNames =
  /testimonial|review|quote|kundenstimm|referenz|voices|voice|praise|wall-of-love|stimmen|お客様/i;
const quoteMarks = /^[“”„«»「『"‟]/;

/** Quotes that stand alone, with an author. */
function readLoneQuotes(
  outline: Outline,
  { testimonials }: PageContent,
  isTaken: (one: Element) => boolean,
  taken: Set<Element>,
): void {
  for (const element of outline.content) {
    const isQuote =
      element.tag === 'blockquote' ||
      (/testimonial|(^|[-_\s])quote/i.test(element.get('class')) &&
        element.tag !== 'span' &&
        element.tag !== 'i');
    if (!isQuote || isTaken(element)) continue;
    const whole = element.parent?.tag === 'figure' ? element.parent : element;
    const quote =
      readQuote(outline, whole, true) ??
      (whole.parent && outline.text(whole.parent).length < 800
        ? readQuote(outline, whole.parent, true)
        : undefined);
    if (!quote) continue;
    testimonials.push(quote);
    taken.add(element);
  }
}

/** A quote with its author, from an element that holds nothing else. */
function readQuote(
  outline: Outline,
  element: Element,
  isNamed: boolean,
): Content['testimonials'][number] | undefined {
  const whole = outline.text(element);
  if (whole.length < 20 || whole.length > 1_400 || priceIn(whole) !== undefined) return undefined;
  const inside = [element, ...descendants(element)];
  const block = inside.find(({ tag }) => tag === 'blockquote' || tag === 'q');
  const lines = linesOf(element, outline).filter(({ text }) => /[\p{L}]/u.test(text));
  const [longest] = [...lines].sort((a, b) => b.text.length - a.text.length);
  if (!longest || (!block && !isNamed && !lines.some(({ text }) => quoteMarks.test(text)))) return undefined;
  const isAuthor = inside.find(
    ({ tag, classes }) =>
      tag === 'cite' ||
      tag === 'figcaption' ||
      classes.some((one) => /author|(^|-)name|customer|person/i.test(one)),
  );
  const rest = lines.filter((one) => one !== longest && one.text.length <= 80 && one.text !== longest.text);
  const named = isAuthor ? splitAuthor(linesOf(isAuthor, outline).map(({ text }) => text)) : undefined;
  const author = named?.author ? named : splitAuthor(rest.map(({ text }) => text));
  const quote = unquoted(
    isAuthor && longest.text.endsWith(outline.text(isAuthor))
      ? longest.text.slice(0, -outline.text(isAuthor).length)
      : longest.text,
  );
  if (!author.author || quote.length < 12 || quote === author.author) return undefined;
  const role =
    author.role ??
    rest
      .map(({ text }) => unmarked(text))
      .find((text) => text !== author.author && !text.includes(author.author ?? ' '));
  return { quote, author: author.author, ...(role ? { role } : {}) };
}

/** "Jane Doe, CEO of Acme" or two lines. */
function splitAuthor(lines: string[]): { author?: string; role?: string } {
  const [first = '', second] = lines
    .map(unmarked)
    .filter((one) => one !== '' && !/^[★☆⭐\d./\s]+$/.test(one));
  if (first === '') return {};
  const [, author = first, role] =
    /^([^,、|·–—(（]{2,50}?)\s*[,、|·–—(（]\s*([^)）]{2,80})[)）]?$/.exec(first) ?? [];
  const whole = role ?? second;
  return author.length > 60
    ? {}
    : { author, ...(whole === undefined || whole.length > 100 ? {} : { role: whole }) };
}

const unmarked = (text: string) => tidy(text.replace(/^[\s–—―-]+/, ''));
const unquoted = (text: string) =>
  tidy(text.replace(/^[\s“”„«»「『"‟']+|[\s“”„«»」』"‟']+$/g, '').replace(/\s*[–—―-]\s*$/, '')).replace(
    /["”“]$/,
    '',
  );

const readFigures: Reader = (outline, { items }, { stats }) => {
  const figures = items.map((item) => readFigure(outline, item));
  const known = figures.filter((one) => one !== undefined);
  if (known.length < 2 || known.length < items.length * 0.7) return false;
  stats.push(...known);
  return true;
};

function readFigure(outline: Outline, { element, text }: Item): Content['stats'][number] | undefined {
  if (text.length > 140) return undefined;
  const lines = linesOf(element, outline);
  const parts = lines.length > 1 ? lines.map((one) => one.text) : pieces(element, outline);
  const value = parts.find(isFigure);
  const label = parts.find((one) => one !== value && /\p{L}{2}|[\u3040-\u9fff]/u.test(one));
  return value === undefined || label === undefined || label.length > 80 ? undefined : { label, value };
}

const pieces = (element: Element, outline: Outline) =>
  [...descendants(element)]
    .filter((one) => one.elements.length === 0)
    .map((one) => outline.text(one))
    .concat(
      element.children.filter((one) => 'text' in one).map((one) => ('text' in one ? tidy(one.text) : '')),
    )
    .filter((one) => one !== '');

const readNews: Reader = (outline, { items }, { announcements }) => {
  const news = items.map((item) => readAnnouncement(outline, item));
  const known = news.filter((one) => one !== undefined);
  if (known.length < Math.max(1, items.length * 0.6)) return false;
  announcements.push(...known);
  return true;
};

function readAnnouncement(
  outline: Outline,
  { element, heading, title, text }: Item,
): Content['announcements'][number] | undefined {
  if (
    text.length > 1_990 ||
    !heading ||
    title === '' ||
    !/^h[1-6]$/.test(heading.tag) ||
    headingsIn(element) > 2
  )
    return undefined;
  const date = dateOf(outline, element);
  if (date === undefined) return undefined;
  const body = linesOf(element, outline)
    .map((one) => one.text)
    .filter((one) => one !== title && dateIn(one) === undefined)
    .sort((a, b) => b.length - a.length)[0];
  return { title, body: body ?? '', date };
}

function dateOf(outline: Outline, element: Element): string | undefined {
  for (const one of descendants(element)) {
    if (one.tag === 'time') {
      const stated = dateIn(one.get('datetime')) ?? dateIn(outline.text(one));
      if (stated !== undefined) return stated;
    }
  }
  const line = linesOf(element, outline).find(({ text }) => text.length <= 90 && dateIn(text) !== undefined);
  return line && dateIn(line.text);
}

/** Dated articles that do not stand in a group. */
function readArticles(
  outline: Outline,
  { announcements }: PageContent,
  isTaken: (one: Element) => boolean,
): void {
  for (const element of outline.content) {
    if (announcements.length >= maxArticles) return;
    const isArticle =
      element.tag === 'article' ||
      element.classes.some((one) =>
        /^(post|news|post-preview|entry|announcement|news-item|card)(-item)?$/.test(one),
      );
    if (!isArticle || isTaken(element)) continue;
    const heading = [...descendants(element)].find(({ tag }) => /^h[1-4]$/.test(tag));
    const text = outline.text(element);
    const one =
      heading &&
      readAnnouncement(outline, { element, heading, title: outline.text(heading).slice(0, 200), text });
    if (one && !announcements.some(({ title, body }) => title === one.title && body === one.body))
      announcements.push(one);
  }
}

const maxArticles = 40;

const readFeatures: Reader = (outline, { items, parent }, { features }) => {
  if (isNoFeature(parent) || !areAlike(items)) return false;
  const known = items.map((item) => readFeature(outline, item)).filter((one) => one !== undefined);
  if (known.length < 2 || known.length < items.length * 0.6) return false;
  features.push(...known.filter(({ title }) => !features.some((one) => one.title === title)));
  return true;
};

/** Columns of a layout are no list: things of one kind have headings of one kind. */
function areAlike(items: Item[]): boolean {
  const tags = items.map(({ heading }) => heading?.tag ?? '');
  if (tags.includes('h1') || items.some(({ element }) => element.tag === 'section')) return false;
  const counts = tags.map((tag) => (tag === '' ? 0 : tags.filter((other) => other === tag).length));
  return Math.max(...counts) >= items.length * 0.6;
}

const headingsIn = (element: Element) =>
  [...descendants(element)].filter(({ tag }) => /^h[1-6]$/.test(tag)).length;

/** People, articles, questions, goods and logos are lists of other things. */
function isNoFeature(parent: Element): boolean {
  return (
    closest(
      parent,
      (one) =>
        one.tag !== 'body' && one.tag !== 'html' && otherLists.test(` ${one.get('id')} ${one.get('class')} `),
    ) !== undefined
  );
}

const otherLists =
  /[\s_-](team|faq|accordion|timeline|blog|posts?|portfolio|gallery|clients?|partners?|logos|comments?|experience|education|contact|form|products?|shop|cart|testimonials?|pricing|resume|footer|steps?|sponsors?)[\s_-]/i;

function readFeature(
  outline: Outline,
  { element, heading, title, text }: Item,
): Content['features'][number] | undefined {
  if (!heading || title === '' || title.length > 90 || text.length > 700 || priceIn(text) !== undefined)
    return undefined;
  if (headingsIn(element) > 2) return undefined;
  const lines = linesOf(element, outline).map((one) => one.text);
  const description =
    lines.filter((one) => one !== title && !one.startsWith(title)).sort((a, b) => b.length - a.length)[0] ??
    '';
  const isLong = description.length >= (/[\u3040-\u9fff\uac00-\ud7af]/.test(description) ? 10 : 20);
  if (!isLong || dateIn(description) !== undefined || /@\w+\.\w/.test(description)) return undefined;
  const icon = iconOf(element);
  return { title, description, ...(icon === undefined ? {} : { icon }) };
}

/** The name of an icon, as its font or its file has it. */
function iconOf(element: Element): string | undefined {
  for (const one of descendants(element)) {
    if (one.tag === 'i' || one.tag === 'span') {
      const name = one.classes
        .map(
          (part) => /^(?:fa|bi|ti|icon|ni|nc-icon|ri|la|feather|icofont)-([a-z][a-z0-9-]+)$/.exec(part)?.[1],
        )
        .find((part) => part !== undefined && !/^(lg|xs|sm|fw|\dx|stack.*|inverse)$/.test(part));
      if (name !== undefined) return name;
    }
    const source = one.tag === 'img' ? /([\w-]+)\.svg(?:\?|$)/.exec(one.get('src'))?.[1] : undefined;
    if (source !== undefined) return source;
  }
  return undefined;
}

const readers: Reader[] = [readPrices, readQuotes, readFigures, readNews, readFeatures];
