/** What others say of a site: quotes with their authors, in groups or alone. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { closest, descendants, type Element, TextNode, tidy } from './dom.ts';
import { arePeople, captionOf, type Reader } from './groups.ts';
import { type Item, linesOf, type Outline } from './outline.ts';
import { priceIn } from './patterns.ts';

type Quote = DeepCrawlResult['content']['testimonials'][number];
type Found = { testimonials: Quote[] };
type Line = ReturnType<typeof linesOf>[number];

export const readQuotes: Reader<Found> = (outline, group, { testimonials }) => {
  const { items, parent } = group;
  if (items[0]?.element.tag === 'p') return false;
  const area = closest(parent, (one) => quoteNames.test(`${one.get('id')} ${one.get('class')}`));
  const isNamed =
    (area !== undefined && outline.text(area).length < 6_000) ||
    quoteWords.test(captionOf(outline, group)) ||
    areSpeaking(items);
  const known = items
    .map((item) => readQuote(outline, item.element, isNamed))
    .filter((one) => one !== undefined);
  if (known.length < Math.max(1, items.length * 0.6)) return false;
  // A part of the page, with its heading and the quotes in it, looks like a quote, too.
  if (items.some(({ element }) => holdsQuotes(outline, element, isNamed))) return false;
  testimonials.push(...known);
  return true;
};

/** People with their faces, of whom many speak of themselves. */
function areSpeaking(items: readonly Item[]): boolean {
  if (!arePeople(items)) return false;
  const speaking = items.filter(({ text }) => text.length >= 60 && firstPerson.test(text));
  return speaking.length >= items.length * 0.5;
}

const firstPerson =
  /(?<!\p{L})(?:I|I['’](?:m|ve|d|ll)|my|me|we|us|our|ich|mir|mich|wir|uns|je|j['’]\p{L}+|nous|io|noi|yo|nosotros)(?!\p{L})|私|弊社|我/u;

function holdsQuotes(outline: Outline, element: Element, isNamed: boolean): boolean {
  return outline.groups.some(
    ({ parent, items }) =>
      closest(parent, (one) => one === element) !== undefined &&
      items.filter((item) => readQuote(outline, item.element, isNamed)).length >= 2,
  );
}

const quoteNames =
  /testimonial|(?<!p)review|quote|kundenstimm|referenz|(?<![a-z])voices?|praise|wall-of-love|stimmen|お客様/i;
const quoteWords =
  /testimonial|reviews?\b|(?:customers?|clients?|people|users|they|others) (?:say|said|think|write|love)|loved by|trusted by (?:hundreds|thousands|millions)|kundenstimmen|(?:kunden|andere|leute) sagen|das sagen|avis\b|témoignages|ils (?:en parlent|nous font confiance)|dicono di noi|opiniones|recensioni|mówią o nas|opinie|お客(?:様|さま)の声|利用者の声/iu;
const quoteMarks = /^[“”„«»「『"‟]/;
const closingMarks = /[“”«»」』"]\s*$/;

/** Quotes that stand alone, with an author: a block quote, or a paragraph that is all in quotation marks. */
export function readLoneQuotes(
  outline: Outline,
  { testimonials }: Found,
  isTaken: (one: Element) => boolean,
  take: (one: Element) => void,
): void {
  for (const element of outline.content) {
    const isQuote = isQuoteByName(element) || isQuoted(outline, element);
    if (!isQuote || isTaken(element)) continue;
    const quote = readQuoteAround(outline, element);
    if (!quote || testimonials.some((one) => one.quote === quote.quote)) continue;
    testimonials.push(quote);
    take(element);
  }
}

const isQuoteByName = (element: Element) =>
  element.tag === 'blockquote' ||
  (/testimonial|(^|[-_\s])quote/i.test(element.get('class')) &&
    element.tag !== 'span' &&
    element.tag !== 'i');

function isQuoted(outline: Outline, element: Element): boolean {
  if (!/^(p|q|div|h[2-6])$/.test(element.tag) || element.elements.length > 3) return false;
  const text = outline.text(element, 800);
  return text.length >= 25 && text.length < 700 && quoteMarks.test(text) && closingMarks.test(text);
}

/** The author stands with the quote, or beside it in an element that holds nothing else. */
function readQuoteAround(outline: Outline, element: Element): Quote | undefined {
  const whole = element.parent?.tag === 'figure' ? element.parent : element;
  const { parent } = whole;
  return (
    readQuote(outline, whole, true) ??
    (parent && parent.tag !== 'body' && outline.text(parent).length < 800
      ? readQuote(outline, parent, true)
      : undefined)
  );
}

/** A quote with its author, from an element that holds nothing else. */
function readQuote(outline: Outline, element: Element, isNamed: boolean): Quote | undefined {
  const whole = outline.text(element);
  if (whole.length < 20 || whole.length > 1_400 || priceIn(whole) !== undefined) return undefined;
  const inside = [element, ...descendants(element)];
  const block = inside.find(({ tag }) => tag === 'blockquote' || tag === 'q');
  const lines = linesOf(element, outline).filter(({ text }) => /[\p{L}]/u.test(text));
  const [longest] = [...lines].sort((a, b) => b.text.length - a.text.length);
  const marked = lines.filter(({ text }) => quoteMarks.test(text)).length;
  const isSaid = block !== undefined || isNamed || marked === 1;
  if (!longest || marked > 1 || !isSaid || isBeside(longest.element, block)) return undefined;
  const isAuthor = inside.find(
    ({ tag, classes }) =>
      /^(cite|figcaption)$/.test(tag) || classes.some((one) => /author|(^|-)name|customer|person/i.test(one)),
  );
  const rest = lines.filter((one) => one.text !== longest.text && couldName(one));
  const named = isAuthor ? splitAuthor(textsOf(linesOf(isAuthor, outline), outline)) : undefined;
  const { author, role } = named?.author ? named : splitAuthor(textsOf(rest, outline));
  const own = isAuthor ? outline.text(isAuthor) : '';
  const isInside = own !== '' && longest.text.endsWith(own);
  const quote = unquoted(isInside ? longest.text.slice(0, -own.length) : longest.text);
  if (!author || !couldSpeak.test(author) || quote.length < 12 || quote === author) return undefined;
  const stated = role ?? roleBeside(rest, author);
  return { quote, author, ...(stated ? { role: stated } : {}) };
}

/** What is longer than the quote and stands outside of it is what the page itself says. */
function isBeside(element: Element, quote: Element | undefined): boolean {
  const isWithin = (one: Element, other: Element) => closest(one, (above) => above === other) !== undefined;
  return quote !== undefined && !isWithin(element, quote) && !isWithin(quote, element);
}

/** What a page or a part of it is called is nobody, nor is a sentence. `Sam Lee, Acme Inc.` ends in a point, too. */
function couldName({ element, text }: Line): boolean {
  const isSentence = /[!?…。！？]$/.test(text) || (text.endsWith('.') && text.split(' ').length > 6);
  return text.length <= 80 && !isSentence && !/^h[12]$/.test(element.tag);
}

/** Name and role may be elements of one line, set apart by styles alone. */
const textsOf = (lines: readonly Line[], outline: Outline): string[] =>
  lines.flatMap(({ element, text }) => {
    const isLoose = element.children.some((one) => one instanceof TextNode && tidy(one.text) !== '');
    const parts = isLoose ? [] : element.elements.map((one) => outline.text(one)).filter((one) => one !== '');
    return parts.length >= 2 ? parts : [text];
  });

/** People and houses have capitals, and no pages; a colon announces something else. */
const couldSpeak = /^(?!.*(?:\bp\. ?\d|[:：]$))[@\p{Lu}\p{Lt}\p{Lo}\d]/u;

const roleBeside = (rest: readonly { text: string }[], author: string) =>
  rest
    .map(({ text }) => unmarked(text))
    .find((text) => text !== author && !text.includes(author) && !isInitials(text));

/** In place of a picture. */
const isInitials = (text: string) => /^\p{Lu}{1,3}$/u.test(text);

/** "Jane Doe, CEO of Acme" or two lines. */
function splitAuthor(lines: string[]): { author?: string; role?: string } {
  const [first = '', second] = lines
    .map(unmarked)
    .filter((one) => one !== '' && !/^[★☆⭐\d./\s]+$/.test(one) && !isInitials(one));
  if (first === '') return {};
  const [, title, name] = titled.exec(first) ?? [];
  if (title !== undefined && name !== undefined) return { author: name, role: title };
  const [, author = first, role] =
    /^([^,、|·–—(（]{2,50}?)\s*[,、|·–—(（]\s*([^)）]{2,80})[)）]?$/.exec(first) ?? [];
  const whole = role ?? second;
  return author.length > 60
    ? {}
    : { author, ...(whole === undefined || whole.length > 100 ? {} : { role: whole }) };
}

/** Japanese has the name last: house, office, name. */
const titled =
  /^(.{2,40}(?:主|代表|長|担当|取締役|教授|マネージャー|オーナー))\s+([\u3040-\u9fff]{1,4}\s?[\u3040-\u9fff]{1,4})(?:\s?[様さん]+)?$/;

const unmarked = (text: string) => tidy(text.replace(/^[\s–—―-]+/, ''));
const unquoted = (text: string) =>
  tidy(text.replace(/^[\s“”„«»「『"‟']+|[\s“”„«»」』"‟']+$/g, '').replace(/\s*[–—―-]\s*$/, '')).replace(
    /["”“]$/,
    '',
  );
