/** How a site speaks: tagline, calls to action, tone, audience. Rules that can be read, no opinions. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { closest, descendants, Element, type Page, textOf, tidy } from './dom.ts';
import { isFooter, isPageHeader } from './look.ts';
import { linesOf, type Outline } from './outline.ts';
import { isForeign } from './style.ts';

export type Messaging = DeepCrawlResult['messaging'];

/** The sentence a site opens with: what stands before its sections, what a heading says, what stands below the name. */
export function readTagline(seen: Outline, name: string, title: string): string {
  const lines = seen.page.body ? linesOf(seen.page.body, seen, maxLines) : [];
  const opening = openingBefore(startOfSections(seen, name), lines, seen);
  if (opening !== undefined) return opening;
  const headings = seen.content.filter(({ tag }) => tag === 'h1' || tag === 'h2').slice(0, 4);
  for (const heading of headings) {
    const own = headingText(heading, seen, name);
    if (chapters.test(own)) continue;
    const isLabel = isLabelled(own, title) || !isSentence(own, name);
    const next = isLabel ? sentenceAfter(heading, lines, seen, name) : own;
    if (next !== undefined) return next;
    if (isSentence(own, name)) return own;
  }
  const parts = title
    .split(/\s+[|–—·•-]\s+|:\s+|｜/)
    .map(tidy)
    .filter((one) => isSentence(one, name));
  const longest = parts.sort((a, b) => b.length - a.length)[0];
  return longest ?? '';
}

const isHeading = ({ tag }: Element) => /^h[1-6]$/.test(tag);

type Line = { element: Element; text: string };

/** Lines that are looked at: a long menu may stand before what is said. */
const maxLines = 600;

/** Where sections begin: at the first heading, unless it is the only one of its level or the name. */
function startOfSections({ content, text }: Outline, name: string): number {
  const headings = content.filter((one) => isHeading(one) && text(one, 300) !== '');
  const [first, ...others] = headings;
  if (first === undefined) return Number.POSITIVE_INFINITY;
  const isOne = others.some(({ tag }) => tag === first.tag);
  return isOne && !bare(text(first, 300)).includes(bare(name)) ? first.order : 0;
}

/** The first running text before the sections. */
function openingBefore(start: number, lines: readonly Line[], seen: Outline): string | undefined {
  const inContent = new Set(seen.content);
  const line = lines.find(
    (one) =>
      one.element.order < start &&
      (inContent.has(one.element) || isInTitle(one.element, seen)) &&
      !notes.test(one.text) &&
      isProse(one, seen),
  );
  return line && shortened(line.text);
}

/** In a header that says who and what this is: it has no menu, and more than the one line of a notice. */
function isInTitle(element: Element, seen: Outline): boolean {
  const header = closest(element, isPageHeader);
  if (!header || !isInHeader(element) || isForeign(element)) return false;
  const isMenu = [header, ...descendants(header)].some(({ tag }) => tag === 'nav' || tag === 'ul');
  return !isMenu && linesOf(header, seen).length > 1;
}

/** Words that begin with a whole sentence, asked of nobody: no entries of a list, nothing to fill in, no links. */
function isProse({ element, text }: Line, seen: Outline): boolean {
  const first = firstSentence(text);
  const isLong = first.split(' ').length >= 5 || /[\u3040-\u9fff]{10}/.test(first);
  const isControl = closest(element, ({ tag }) =>
    /^(form|button|label|table|ul|ol|pre|code|h[1-6])$/.test(tag),
  );
  const isOfForm = element.parent?.elements.some(({ tag }) => tag === 'form' || tag === 'input');
  const isWhole = /[.!?…。！？]["'”’)）」]?$/.test(first);
  return isLong && isWhole && !isControl && !isOfForm && !isOfLinks(element, seen);
}

/** Whether most of what is said leads elsewhere. */
function isOfLinks(element: Element, { text }: Outline): boolean {
  const links = [element, ...descendants(element)].filter(({ tag }) => tag === 'a' || tag === 'button');
  const chars = links.reduce((sum, one) => sum + text(one, 300).length, 0);
  return chars > text(element, 300).length / 2;
}

const sentences = new Intl.Segmenter('en', { granularity: 'sentence' });

function firstSentence(text: string): string {
  const [first] = sentences.segment(text);
  return tidy(first?.segment ?? '');
}

/** A long paragraph says what this is in its first sentence. */
function shortened(text: string): string | undefined {
  if (text.length <= maxWholeChars) return text;
  const sentence = firstSentence(text);
  return sentence.length <= maxSentenceChars ? sentence : undefined;
}

const maxWholeChars = 160;
const maxSentenceChars = 300;

/** The heading's words; where they are the name with a smaller text beside it, that one. */
function headingText(heading: Element, seen: Outline, name: string): string {
  const own = wordsOf(heading, seen);
  const small = heading.elements
    .map((one) => seen.text(one, 300))
    .find((one) => one !== '' && own.endsWith(one));
  return small !== undefined && name !== '' && bare(own) === bare(name + small) ? small : own;
}

/** What is said in a line: a heading may go on in the next one, and a link that no space parts stands elsewhere. */
function wordsOf(element: Element, { text }: Outline): string {
  const own = text(element, 1_000);
  const [before, last] = element.children.slice(-2);
  const isApart = before instanceof Element && last instanceof Element && last.tag === 'a';
  const words = isApart ? own.slice(0, own.length - text(last, 300).length).trim() : own;
  const siblings = element.parent?.elements ?? [];
  const next = siblings[siblings.indexOf(element) + 1];
  const goesOn = next?.tag === element.tag && isHeading(next) && /^\p{Ll}/u.test(text(next, 300));
  return goesOn ? `${words} ${text(next, 300)}` : words;
}

/** Whether a heading is only what the title calls the page, perhaps with its version. */
function isLabelled(heading: string, title: string): boolean {
  const parts = title
    .split(/\s+[|–—·•-]\s+|:\s+|｜/)
    .map(tidy)
    .sort((a, b) => a.length - b.length);
  const plain = (one: string) => one.toLowerCase().replace(/[.!]+$/, '');
  const bare = heading.replace(/\s+v?\d+(?:\.\d+)*$/, '');
  const isVersion = bare !== heading && parts.some((one) => plain(one) === plain(bare));
  return isVersion || (heading.split(' ').length <= 3 && plain(parts[0] ?? '') === plain(heading));
}

const greetings =
  /^(?:(?:home|welcome|willkommen|start|startseite|ホーム|hello|hi)|welcome to .{0,40}\b(?:wiki|docs|documentation|(?:home ?)?page|site))[.!]?$/i;

/** What a page says about itself before it says what it is of. */
const notes = /^(?:important )?(?:note|notice|hinweis|warning|achtung):/i;

/** What parts of any site are called. */
const chapters =
  /^(how to use|usage|(?:basic )?installation|getting started|quick ?start|documentation|frequently asked questions|häufige fragen|about(?: us)?|über uns|contact us|kontakt|under construction)[.!]?$|^what is (?:this|it)\b.*\?$/i;

const bare = (text: string) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');

function isSentence(text: string, name: string): boolean {
  const isName = isNameWithWord(text, name) || greetings.test(text) || chapters.test(text);
  const words = text.split(/\s+/).length;
  if (!/\p{L}{2}|[\u3040-\u9fff]/u.test(text)) return false;
  return !isName && text.length >= 4 && text.length <= 220 && (words > 1 || /[\u3040-\u9fff]/.test(text));
}

/** The name, or what one word more makes of it: its demonstration, its handbook, its version. */
function isNameWithWord(text: string, name: string): boolean {
  const rest = text.toLowerCase().startsWith(name.toLowerCase()) ? text.slice(name.length).trim() : text;
  return bare(text) === bare(name) || (name !== '' && rest !== text && !rest.includes(' '));
}

/** What stands right below a heading that is only the name. */
function sentenceAfter(
  heading: Element,
  lines: readonly Line[],
  seen: Outline,
  name: string,
): string | undefined {
  const inContent = new Set(seen.content);
  const at = lines.findLastIndex(({ element }) => closest(element, (one) => one === heading) !== undefined);
  return lines
    .slice(at + 1)
    .filter(({ element }) => inContent.has(element))
    .slice(0, 3)
    .filter(({ element, text }) => !/[:：]$/.test(text) && !notes.test(text) && !isOfLinks(element, seen))
    .map(({ element, text }) => shortened(withoutVersion(isHeading(element) ? wordsOf(element, seen) : text)))
    .find((text) => text !== undefined && (isSentence(text, name) || text.length > maxWholeChars));
}

/** A number that stands after a sentence is none of its words. */
const withoutVersion = (text: string) => text.replace(/\s+\(?v?\d+(?:\.\d+)+\)?$/i, '');

/** The paragraph that explains the opening. */
export function readLead({ content, text }: Outline): string {
  const from = content.findIndex(({ tag }) => tag === 'h1');
  const paragraph = content
    .slice(Math.max(0, from))
    .find((one) => one.tag === 'p' && text(one, 600).length >= 40);
  return paragraph ? text(paragraph, 600) : '';
}

const maxCtas = 12;

/** What visitors are asked to do, in the order of the page. */
export function readCtas(
  { page, isShown, text, content }: Outline,
  isButton: (element: Element) => boolean,
): string[] {
  const inContent = new Set(content);
  const isAsked = (element: Element) =>
    isClickable(element) &&
    isShown(element) &&
    isButton(element) &&
    (inContent.has(element) || isInHeader(element));
  const inCode = labelsInCode({ content, text });
  const asked = page.all.filter(isAsked);
  const others = new Set([wayPast(page), ...entriesOf(asked), ...trialsAmong(asked, page, content)]);
  const found: string[] = [];
  for (const element of asked) {
    if (found.length >= maxCtas) break;
    if (others.has(element)) continue;
    const label = element.tag === 'input' ? tidy(element.get('value')) : text(element, 80);
    const isKnown = found.some((one) => one.toLowerCase() === label.toLowerCase());
    // A card that is a link as a whole asks for nothing.
    const isCard = linesOf(element, { text, isShown }).length > 1;
    if (isCall(label) && !isCard && !isControl(element) && !isKnown && !inCode.has(label)) found.push(label);
  }
  return found;
}

const isClickable = (element: Element) =>
  element.tag === 'a' ||
  element.tag === 'button' ||
  (element.tag === 'input' && /^(submit|button)$/.test(element.get('type')));

/** A button whose code is shown is there to be looked at. */
function labelsInCode({ content, text }: Pick<Outline, 'content' | 'text'>): Set<string> {
  const code = content.filter(({ tag }) => tag === 'pre').map((one) => text(one));
  return new Set(code.flatMap((one) => one.match(/(?<=>)[^<>]{2,48}(?=<)/g) ?? []));
}

/** The first link of a page, above its headings, that leads down the page: for those who use no mouse. */
function wayPast({ all }: Page): Element | undefined {
  const first = all.find(({ tag }) => /^(?:a|h[1-6])$/.test(tag));
  return first && /^#./.test(first.get('href')) ? first : undefined;
}

/** Many of one kind in one list are its entries: contents, tags, places. */
function entriesOf(asked: readonly Element[]): Element[] {
  const lists = new Map<string, Element[]>();
  for (const element of asked) {
    const { parent } = element;
    const list = parent?.elements.length === 1 ? parent.parent : parent;
    const key = `${list?.order} ${element.get('class')}`;
    const known = lists.get(key);
    if (known) known.push(element);
    else lists.set(key, [element]);
  }
  return [...lists.values()].filter(({ length }) => length >= leastEntries).flat();
}

const leastEntries = 5;

/**
 * What leads nowhere by itself, on a page that shows how things are programmed or that has many of them: there to be
 * tried.
 */
function trialsAmong(asked: readonly Element[], { all }: Page, content: readonly Element[]): Element[] {
  const places = new Set(all.map((one) => one.get('id') || one.get('name')));
  places.delete('');
  const trials = asked.filter((element) => !leads(element, places));
  const isManual = content.filter(({ tag }) => tag === 'pre').length >= leastCode;
  return isManual || trials.length >= leastTrials ? trials : [];
}

const leastCode = 2;
const leastTrials = 6;

function leads(element: Element, places: ReadonlySet<string>): boolean {
  if (element.tag !== 'a') return closest(element, ({ tag }) => tag === 'form' || tag === 'a') !== undefined;
  const href = element.get('href');
  return href.startsWith('#') ? places.has(href.slice(1)) : !/^(?:|javascript:.*)$/i.test(href);
}

const isInHeader = (element: Element) =>
  closest(element, isPageHeader) !== undefined && closest(element, isFooter) === undefined;

const noCalls =
  /^(menu|close|search|toggle.*|previous|next|back|suche|schließen|メニュー|閉じる|検索|x|×|ok|copy|submit query|\d+|«|»|‹|›)$/i;
const isCall = (label: string) =>
  label.length >= 2 &&
  label.length <= 48 &&
  /\p{L}/u.test(label) &&
  !noCalls.test(label) &&
  !language.test(label);

/** `DE`, perhaps with a flag. */
const language = /^\P{L}*\p{Lu}{2}\P{L}*$/u;

function isControl(element: Element): boolean {
  return (
    /facebook|twitter|instagram|linkedin|whatsapp|pinterest/i.test(element.get('class')) ||
    closest(
      element,
      (one) =>
        /toggler|carousel|dropdown|pagination|accordion|tablist|close|cookie|social|page-link|filter|code/i.test(
          one.get('class'),
        ) &&
        one.tag !== 'body' &&
        one.tag !== 'html' &&
        one.depth > element.depth - 3,
    ) !== undefined ||
    element.attributes.has('aria-expanded') ||
    element.get('role') === 'tab' ||
    (element.tag === 'button' && /[?？]$/.test(textOf(element)))
  );
}

type Material = {
  text: string;
  features: readonly { title: string }[];
  headings: readonly string[];
  hasCode: boolean;
  hasShop: boolean;
};

/** Strings of a site put together to what it promises, to whom, and how. Empty where nothing speaks for an answer. */
export function readMessaging(material: Material, ctas: string[]): Messaging {
  return {
    tone: toneOf(material),
    targetAudience: audienceOf(material),
    valueProps: valuesOf(material),
    ctas,
  };
}

function valuesOf({ features, headings }: Material): string[] {
  const titles = features.map(({ title }) => title);
  return [...new Set(titles.length > 0 ? titles : headings)].slice(0, 6);
}

const tones: [tone: string, sign: RegExp][] = [
  [
    'technical',
    /\b(api|sdk|cli|npm|open[- ]source|framework|deploy|kubernetes|typescript|javascript|plugin|library|css|html|components?|ライブラリ|開発者)\b|オープンソース/giu,
  ],
  [
    'playful',
    /!|\b(fun|love|awesome|happy|hey|yay|magic|wow|oops|lust|spaß|cool|amazing|delight(?:ful)?)\b|[😀-🙏🎉🚀✨]|楽し/giu,
  ],
  [
    'luxurious',
    /\b(exclusive|luxury|bespoke|exquisite|timeless|elegant|exklusiv|zeitlos|elegan\w*|feinste[nrs]?)\b|上質|贅沢/giu,
  ],
  [
    'formal',
    /\b(solutions?|enterprise|compliance|professional|consult\w*|clients|expertise|corporate|industry|unternehmen|lösungen|beratung|ihnen|ihre[mnrs]?)\b|ございます|いたします|弊社|ソリューション/giu,
  ],
  [
    'warm',
    /\b(family|together|care|community|home|handmade|welcome|local|friendly|cozy|familie|gemeinsam|herzlich\w*|liebe)\b|家族|心を込めて|あたたか/giu,
  ],
];

/** The tone with most signs per character, when it has enough of them. */
function toneOf({ text }: Material): string {
  const sample = text.slice(0, 20_000);
  const counts = tones.map(([tone, sign]) => ({ tone, count: (sample.match(sign) ?? []).length }));
  const [first] = counts.sort((a, b) => b.count - a.count);
  if (sample.length < 80) return '';
  return first && first.count >= 2 && first.count / sample.length > 0.0008 ? first.tone : 'neutral';
}

const audiences = [
  /\bfor\s+((?:[\p{L}-]+\s){0,2}(?:developers|designers|teams|startups|businesses|companies|creators|agencies|students|teachers|engineers|marketers|freelancers|families|professionals|people|founders|enterprises|makers|writers|educators|parents|artists|photographers|gamers|everyone))\b/iu,
  /\bfür\s+((?:[\p{L}-]+\s){0,2}(?:Entwickler|Teams|Unternehmen|Familien|Handwerker|Selbstständige|Agenturen|Schulen|Vereine|Betriebe|Kinder|Kunden|Gastronomen|Profis|Einsteiger)(?:innen)?)/u,
  /([\u3040-\u30ff\u4e00-\u9fffー]{2,12}?)(?:のための|向けの|向け|に最適)/u,
];

function audienceOf({ text, hasCode, hasShop }: Material): string {
  for (const sign of audiences) {
    const match = sign.exec(text.slice(0, 20_000))?.[1];
    if (match !== undefined) return tidy(match.replace(/^(?:the|all|our|your|alle)\s+/i, ''));
  }
  if (hasCode) return 'developers';
  return hasShop ? 'shoppers' : '';
}

/** The first headings of a page, as they are. */
export const headingsOfPage = ({ all }: Page): string[] =>
  all
    .filter(({ tag }) => /^h[12]$/.test(tag))
    .slice(0, 6)
    .map((one) => textOf(one, undefined, 120));

/** Headings that could be promises. */
export function headingsOf({ content, text }: Outline): string[] {
  return content
    .filter(({ tag }) => tag === 'h2')
    .map((one) => text(one, 120))
    .filter((one) => one.length >= 6)
    .slice(0, 6);
}

/** Whether an element is a button by name; pages that were read without their styles have nothing else. */
export function isNamedButton(element: Element): boolean {
  if (element.tag !== 'a') return true;
  if (element.get('role') === 'button') return true;
  if (element.classes.some((one) => /(^|[-_])(btn|button|cta)([-_]|$)/i.test(one))) return true;
  return [...descendants(element)].length === 1 && element.elements[0]?.tag === 'button';
}
