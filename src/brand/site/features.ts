/** What a site says it can do: repeated titles, each with a sentence, often with an icon. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { closest, descendants, type Element, tidy } from './dom.ts';
import {
  areGoods,
  arePeople,
  areQuestions,
  captionOf,
  hasPicture,
  isMost,
  kickerOf,
  maxKickerChars,
  type Reader,
} from './groups.ts';
import { areOfOtherKind, isInManual, isOfProgram } from './other-items.ts';
import { type Group, headingsIn, type Item, linesOf, type Outline } from './outline.ts';
import { dateIn, priceIn } from './patterns.ts';

type Feature = DeepCrawlResult['content']['features'][number];
/** `isLed`: its title begins its only line. */
type FeatureItem = Item & { isLed?: boolean };

/** `asked` is what stands below a question, `Sound familiar?`: what visitors suffer from, where an offer follows. */
export type Features = { features: Feature[]; asked: Feature[] };

export const readFeatures: Reader<Features> = (outline, group, { features, asked }) => {
  const caption = captionOf(outline, group) || captionIn(group);
  const kicker = kickerOf(outline, group);
  if (
    isOfProgram(outline.page) ||
    isInManual(outline.page, group.parent) ||
    isNoFeature(group.parent) ||
    isOpening(outline, group) ||
    otherWords.test(caption) ||
    otherWords.test(kicker) ||
    chapters.test(caption)
  )
    return false;
  const isNamed = featureWords.test(`${caption} ${group.parent.get('class')} ${group.parent.get('id')}`);
  const mayBeLed = isNamed || isIntroducing(outline, group) || areLed(outline, group);
  const items = group.items.map(
    (item): FeatureItem => (mayBeLed && ledIn(outline, item)) || titled(outline, item),
  );
  if (!areAlike(group, items) || areOthers(items) || areOptions(outline, items) || areLabels(outline, group))
    return false;
  const first = outline.page.all.find(({ tag }) => tag === 'h1');
  const known = items
    .filter(({ heading }) => heading === undefined || heading !== first)
    .map((item) => readFeature(outline, item))
    .filter((one) => one !== undefined);
  if (known.length < 2 || known.length < items.length * 0.6) return false;
  if (asks.test(caption) && !isNamed && features.length === 0) asked.splice(0, asked.length, ...known);
  else features.push(...known.filter(({ title }) => !features.some((one) => one.title === title)));
  return true;
};

const asks = /[?？]$/;

/** Under a heading that says `Features`: smaller headings with a sentence each, and nothing around the two. */
export function readFlatFeatures(
  outline: Outline,
  { features, asked }: Features,
  isTaken: (one: Element) => boolean,
): void {
  if (features.length === 0) features.push(...asked);
  if (isOfProgram(outline.page)) return;
  for (const heading of outline.content) {
    if (!/^h[1-4]$/.test(heading.tag) || !featureWords.test(outline.text(heading, maxCaptionChars))) continue;
    if (isTaken(heading) || (heading.parent && isNoFeature(heading.parent))) continue;
    if (isInManual(outline.page, heading)) continue;
    const known = entriesBelow(outline, heading);
    if (known.length < 2) continue;
    features.push(...known.filter(({ title }) => !features.some((one) => one.title === title)));
  }
}

const maxCaptionChars = 60;
const maxEntries = 40;

function entriesBelow(outline: Outline, heading: Element): Feature[] {
  const after = heading.parent?.elements.slice(heading.parent.elements.indexOf(heading) + 1) ?? [];
  const end = after.findIndex(({ tag }) => /^h[1-6]$/.test(tag) && tag <= heading.tag);
  const below = end < 0 ? after : after.slice(0, end);
  const entry = below.find(({ tag }) => /^h[2-6]$/.test(tag));
  const entries: Feature[] = [];
  for (const [at, one] of below.entries()) {
    if (one.tag !== entry?.tag || entries.length >= maxEntries) continue;
    const next = paragraphAfter(below, at);
    if (!next) continue;
    const [title, description] = [outline.text(one, 200), outline.text(next, 1_000)];
    const isOne = title !== '' && title.length <= maxTitleChars && isStatement(description);
    if (isOne && !chapters.test(title) && priceIn(description) === undefined)
      entries.push({ title, description });
  }
  return entries;
}

/** The first paragraph below a heading; a note may stand between the two. */
function paragraphAfter(below: readonly Element[], at: number): Element | undefined {
  const next = below.slice(at + 1, at + 3);
  const paragraph = next.findIndex(({ tag }) => tag === 'p');
  return next.slice(0, paragraph).every(({ tag }) => tag === 'div') ? next[paragraph] : undefined;
}

/** The slides that a page opens with: what they say is for all of it. */
function isOpening({ content }: Outline, { parent, items }: Group): boolean {
  const names = (one: Element) => [one.get('id'), ...one.classes];
  if (closest(parent, (one) => names(one).some((name) => slides.test(name))) === undefined) return false;
  const first = content.find(({ tag }) => /^h[1-6]$/.test(tag));
  return first !== undefined && closest(first, (one) => one === items[0]?.element) !== undefined;
}

const slides = /(^|[_-])(slides|slider|slideshow|carousel|flexslider|swiper|rslides|camera_wrap)([_-]|$)/i;

/** A heading that stands alone in the first of the items, above the others. */
function captionIn({ items }: Group): string {
  const [first, second] = items;
  // A few words may stand above it.
  const isAlone =
    first?.heading !== undefined &&
    first.text.endsWith(first.title) &&
    first.text.length <= first.title.length + maxKickerChars;
  return isAlone && second?.heading && first.heading && first.heading.tag < second.heading.tag
    ? first.text
    : '';
}

/** People, questions, goods, and parts of a documentation. */
function areOthers(items: readonly Item[]): boolean {
  const titles = items.map(({ title }) => title).filter((one) => one !== '');
  if (isMost(titles.filter((one) => chapters.test(one)).length, items)) return true;
  if (titles.some((one) => (otherWords.exec(one)?.[0].length ?? 0) > one.length * 0.6)) return true;
  const isRepeated = new Set(titles.map((one) => one.replace(/\s*\d+$/, ''))).size < titles.length * 0.6;
  return (
    isRepeated ||
    isMost(titles.filter((one) => counted.test(one)).length, items) ||
    arePeople(items) ||
    areQuestions(items) ||
    areGoods(items) ||
    areOfOtherKind(items) ||
    isMost(items.filter(({ element }) => element.classes.some(isOther)).length, items) ||
    isMost(items.filter(({ element }) => isManual(element)).length, items) ||
    items.filter(({ element }) => hasCode(element) && !isShownInCode(element)).length * 2 >= items.length
  );
}

/** A word of a program: `showCancelButton`, `data-width`, `.btn-social`, `ROUND_UP`; in tables of options `title`, too. */
const identifier =
  /^(?:(?:[a-z]+[A-Z]\w*|[.$#@_-]{1,2}[\w-]+|[a-z]+(?:[-_.][a-z]+)+|[a-z]\w*(?:\.\w+)+|[A-Z]+(?:_[A-Z\d]+)+)(?:\(.*\))?|(?:new )?[\w$.]+\(.*\)|(?:[Ee]vent: ?)?'[\w:.-]+')(?: \(\w.*\))?$/;
/** What is said of one: `width (optional)`. */
const kindOfOption =
  /^[\w$.]+ \((?:boolean|bool|string|number|int|integer|array|object|function|optional|required|default\b.*)\)$/i;
const isOption = ({ element, title }: Item) =>
  identifier.test(title) || kindOfOption.test(title) || (element.tag === 'tr' && /^[a-z]+$/.test(title));
/** Some words of a program look like others. */
const isLoneWord = ({ title }: Item) => /^(?:[a-z]+|[A-Z]{3,})$/.test(title);

/** What a program knows by name. On a page that shows code, a list of lone words is one as well. */
function areOptions({ content }: Outline, items: readonly Item[]): boolean {
  const options = items.filter(isOption).length;
  const words = items.filter((item) => isLoneWord(item) && !isOption(item)).length;
  if (isMost(options, items) || (options > 0 && isMost(options + words, items))) return true;
  return words === items.length && content.some(({ tag }) => tag === 'pre');
}

/** `600M+ users`: how many there are of something, over a sentence on it. */
const counted = /^[~<>]?\d[\d.,]*\s?(?:%|\+|k|m|b|mio\.?|mrd\.?|万|億){1,2}\+?\s/iu;

/** What a part of a documentation is called. */
const chapters =
  /^(?:how to use|usage|(?:basic |quick )?installation|quick ?start|getting started|examples?|options|api|about(?: us)?|(?:special )?thanks|credits?|(?:mit |bsd |apache )?licen[sc]es?|dependencies|requirements|browser support|contributing|changelog|download|our (?:mission|vision|values|story|history)|über uns|lizenz(?:en)?|erste schritte|voraussetzungen|à propos|chi siamo|sobre nosotros|o nas)[.!:]?$/i;

/** Lists many things to click. */
function isManual(element: Element): boolean {
  let links = 0;
  for (const { tag } of descendants(element)) if (tag === 'a' || tag === 'button') links += 1;
  return links > maxLinks;
}

/** Explains with code; where words stand beside it, one column in two has it. */
const hasCode = (element: Element): boolean => [...descendants(element)].some(({ tag }) => tag === 'pre');

/** Words in one column and code alone in the other: there it is what a picture is elsewhere. */
function isShownInCode({ elements }: Element): boolean {
  const [one, other] = elements;
  if (!one || !other || elements.length > 2 || hasCode(one) === hasCode(other)) return false;
  const [words, code] = hasCode(other) ? [one, other] : [other, one];
  return headingsIn(words) === 1 && code.elements.every(({ tag }) => tag === 'pre');
}

const maxLinks = 6;
const maxTitleChars = 90;
const maxImages = 2;

/** Of what has no heading the first line is the title, where a sentence follows. */
function titled(outline: Outline, item: Item): Item {
  if (item.heading || item.element.tag === 'p' || item.element.tag === 'tr') return item;
  const [first, second] = linesOf(item.element, outline);
  const isTitle =
    first !== undefined &&
    second !== undefined &&
    first.text.length <= 60 &&
    /[.!?。！？…]$/.test(second.text);
  return isTitle && second.text.length > first.text.length
    ? { ...item, heading: first.element, title: first.text }
    : item;
}

/** `**Fast**: it is there before you blink`, in a list that is said to be of features. */
function ledIn(outline: Outline, item: Item): FeatureItem | undefined {
  const [line, ...others] = linesOf(item.element, outline);
  const isLed = item.heading && /^(strong|b)$/.test(item.heading.tag) && line?.text.startsWith(item.title);
  return isLed && others.length === 0 ? { ...item, isLed: true } : undefined;
}

/** A list of which every entry says what it is about, with a colon; words of a program have notes like that, too. */
const areLed = (outline: Outline, { parent, items }: Group): boolean =>
  items.length >= 3 &&
  parent.tag === 'ul' &&
  items.every((item) => ledIn(outline, item) !== undefined && hasColon(item)) &&
  !items.some(({ heading }) => heading?.elements.some(({ tag }) => tag === 'code'));

const hasColon = ({ title, text }: Item): boolean =>
  /[:：]$/.test(title) || /^\s?[:：]/.test(text.slice(title.length));

/** A list at the top, where a page says what it is of: before its second heading. */
function isIntroducing({ page }: Outline, { parent, items }: Group): boolean {
  const [, second] = page.all.filter(({ tag }) => tag === 'h1' || tag === 'h2');
  return items.length >= 3 && parent.tag === 'ul' && parent.order < (second?.order ?? 0);
}

const featureWords =
  /(?<!\p{L})(features?|benefits?|advantages?|highlights|why|vorteile|funktionen|leistungen|warum|avantages|fonctionnalités|pourquoi|ventajas|características|vantaggi|funkcje|zalety)(?!\p{L})|特長|特徴|機能|できること/iu;

/** Columns and rows of a layout are no list: things of one kind have headings of one kind. */
function areAlike({ isPart }: Group, items: readonly Item[]): boolean {
  const tags = items.map(({ heading }) => heading?.tag ?? '');
  // Where every part of a page has one, the first is the page's own and the others are titles as any.
  const areTops = items.length >= 4 && tags.every((tag) => tag === 'h1');
  if (tags.includes('h1') && !areTops) return false;
  const areSections = items.some(({ element }) => element.tag === 'section');
  const areNamed = () => items.every(({ element }) => featureNames.test(element.get('class')));
  const areShown = () => isMost(items.filter(({ element }) => isShownInCode(element)).length, items);
  if (areSections && !areNamed() && !areShown()) return false;
  const isIllustrated = ({ element }: Item) => headingsIn(element) === 1 && hasPicture(element);
  if (isPart && !items.every(isIllustrated)) return false;
  const counts = tags.map((tag) => (tag === '' ? 0 : tags.filter((other) => other === tag).length));
  return Math.max(...counts) >= items.length * 0.6;
}

/** The same titles with other texts again and again: what each of several things is described by. */
function areLabels({ groups }: Outline, { parent, items }: Group): boolean {
  const titles = titlesOf(items);
  const others = groups.filter((one) => one.parent !== parent && titlesOf(one.items) === titles);
  return new Set(others.map((one) => one.items[0]?.text)).size > 2;
}

const titlesOf = (items: readonly Item[]): string => items.map(({ title }) => title).join('\n');

const featureNames =
  /(^|[\s_-])(features?|benefits?|advantages?|vorteile?|services?|leistung(?:en)?|usp)([\s_-]|$)/i;

/** People, articles, questions, goods and logos are lists of other things. What holds the whole page is no list. */
function isNoFeature(parent: Element): boolean {
  return (
    closest(
      parent,
      (one) =>
        !/^(?:body|html|main)$/.test(one.tag) &&
        [one.get('id'), ...one.classes].some(isOther) &&
        ![...descendants(one)].some(({ tag }) => tag === 'h1'),
    ) !== undefined
  );
}

const isOther = (name: string): boolean => otherLists.test(` ${name} `) && !featureNames.test(name);

const otherLists =
  /[\s_-](team|cases?|process|roadmap|faq|accordion|timeline|blog|posts?|portfolio|gallery|clients?|partners?|logos|comments?|experience|education|contact|form|products?|shop|cart|testimonials?|pricing|resume|footer|steps?|how-it-works|sponsors?|alerts?|toasts?|tooltips?|popovers?|modals?|demos?|examples?|samples?)[\s_-]/i;

/** The same, by the heading above: words in some languages help where names of classes do not. */
const otherWords =
  /\b(faqs?|questions|q&a|(?:our|the|meet the) team|latest (?:posts?|news|articles)|(?:from the )?blog|news|häufige fragen|(?:unser|das) team|neuigkeiten|aktuelles|questions fréquentes|l['’]équipe|journal|domande frequenti|preguntas|novità|noticias|portfolio|(?:our|my|featured|selected|recent|latest) (?:works?|projects?)|case studies|(?:nos|mes) (?:projets|réalisations)|(?:nuestros|mis) proyectos|(?:unsere|ausgewählte) (?:projekte|referenzen)|how (?:it|we) works?|our process|unser (?:ablauf|vorgehen|prozess)|wie wir arbeiten|so (?:arbeiten wir|läuft['’]?s|einfach geht['’]?s)|cómo (?:funciona|trabajamos)|comment ça marche|come funziona|como funciona|jak to działa|(?:two|three|four|five|six|[2-6]) (?:\w+ )?steps|(?:zwei|drei|vier|fünf|[2-6]) (?:\w+ )?schritten?|(?:tres|cuatro|[2-6]) (?:\w+ )?pasos|(?:trois|quatre|[2-6]) étapes|who it['’]s for|für wen|so funktioniert(?:['’]s| es)?|get in touch|contact(?: us)?|kontakt|(?:related|recent) (?:posts|products|articles))\b|よくある(?:ご)?質問|お知らせ|ニュース|ブログ|ご利用の流れ|使い方|お問い合わせ/iu;

function readFeature(outline: Outline, item: FeatureItem): Feature | undefined {
  const { element, heading, text, isLed } = item;
  const title = isLed ? item.title.replace(/[:.–—-]+$/, '') : item.title;
  if (
    !heading ||
    title === '' ||
    title.length > maxTitleChars ||
    text.length > 700 ||
    priceIn(text) !== undefined
  )
    return undefined;
  if (isWhole(element, heading) || isStressed(outline, item)) return undefined;
  const description = isLed
    ? tidy(text.slice(title.length).replace(/^[\s:.–—-]+/, ''))
    : describe(outline, item);
  // A sentence in quotation marks is somebody's.
  if (/^[“”„«»「『"‟]/.test(title)) return undefined;
  if (placeholders.test(title) || chapters.test(title)) return undefined;
  if (!isStatement(description) || dateIn(description) !== undefined || /@\w+\.\w/.test(description))
    return undefined;
  const icon = iconOf(element);
  return { title, description, ...(icon === undefined ? {} : { icon }) };
}

/** What kits call their parts, to show them. Their filler text stands under real titles as well. */
const placeholders =
  /^(?:\w+ )?(?:card|panel|media|slide|item|modal|tab|section) (?:title|heading)$|^special title treatment$|^(?:media|box|column|block|cell) (?:top|middle|center|bottom|left|right)$|^(?:wide|narrow|top|middle|bottom|left|right) (?:media|box|column|block|cell)$/i;

/** More than a label: some words, or a sentence. */
function isStatement(text: string): boolean {
  if (/[\u3040-\u9fff\uac00-\ud7af]/.test(text)) return text.length >= 10;
  return text.length >= 20 && (text.split(' ').length >= 5 || /[.!?…]$/.test(text)) && !justNow.test(text);
}

/** When something happened, as dashboards say it. */
const justNow =
  /\b(?:\d+ (?:sec(?:ond)?|min(?:ute)?|hour|day|week|month)s? ago|just (?:now|updated)|vor \d+ (?:minuten?|stunden?|tagen?))\b/i;

const describe = (outline: Outline, { element, heading, title }: Item): string =>
  linesOf(element, outline)
    .filter((line) => !isLink(outline, line, heading))
    .map(({ text }) => text)
    .filter((one) => one !== title && !one.startsWith(title))
    .sort((a, b) => b.length - a.length)[0] ?? '';

/** A line that leads on and says no more. A link around the title as well is the entry itself. */
function isLink(
  { text }: Outline,
  line: ReturnType<typeof linesOf>[number],
  heading: Element | undefined,
): boolean {
  const inside = [line.element, ...descendants(line.element)].filter(({ tag }) => tag === 'a');
  const link = inside.find((one) => text(one, 1_000) === line.text);
  return link !== undefined && (!heading || closest(heading, (one) => one === link) === undefined);
}

/** A bold word in the middle of a sentence is no title. */
const isStressed = (outline: Outline, { element, heading, title }: FeatureItem): boolean =>
  heading !== undefined &&
  /^(?:strong|b)$/.test(heading.tag) &&
  !linesOf(element, outline).some(({ text }) => text.startsWith(title));

/** Holds several things of the kind, a list with faces, or a form. */
function isWhole(element: Element, heading: Element): boolean {
  const inside = [...descendants(element)];
  return (
    headingsIn(element) > 2 ||
    inside.filter(({ tag }) => tag === 'img').length > maxImages ||
    inside.some((one) => one !== heading && one.tag === heading.tag && /^h[1-6]$/.test(one.tag)) ||
    inside.some(({ tag }) => /^(input|select|textarea)$/.test(tag))
  );
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
