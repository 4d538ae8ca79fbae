/** What is seen of a page: its elements with their styles, in what part of the page they stand, their own text. */
import { closest, type Element, lengthOf, type Page, TextNode, textOf } from './dom.ts';
import { isForeign, type Style, type Styles } from './style.ts';

export type Part = 'header' | 'hero' | 'main' | 'footer' | 'code';

export type Seen = {
  element: Element;
  style: Style;
  part: Part;
  /** Characters of text that stand in the element itself, not in those inside. */
  ownChars: number;
};

export type Look = {
  page: Page;
  styles: Styles;
  seen: readonly Seen[];
  /** Characters of text on the whole page. */
  chars: number;
};

/** Elements whose styles are worked out: what comes after them on a long page shows nothing new. */
const maxSeen = 4_000;
/** The first screen, by characters and elements of the page without its header. */
const heroChars = 700;

/** Looks at a page. Foreign elements and hidden ones are left out. */
export function lookAt(page: Page, styles: Styles): Look {
  const seen: Seen[] = [];
  let chars = 0;
  let mainChars = 0;
  const heroEnd = findHero(page);
  revealMain(page, styles);
  for (const element of page.all) {
    if (seen.length >= maxSeen) break;
    if (page.body && !isWithinBody(element)) continue;
    if (isForeign(element)) continue;
    const style = styles.of(element);
    if (!style.isShown) continue;
    const ownChars = ownTextLength(element);
    const part = partOf(
      element,
      mainChars < heroChars && (heroEnd === undefined || element.order <= heroEnd),
    );
    seen.push({ element, style, part, ownChars });
    chars += ownChars;
    if (part !== 'header') mainChars += ownChars;
  }
  return { page, styles, seen, chars };
}

/** A page that fades in is hidden at first, but for a little: its script shows what most of it is in. */
function revealMain({ all, body }: Page, styles: Styles): void {
  if (!body) return;
  const whole = textOf(body, undefined, maxMeasuredChars).length;
  const isLittle = textOf(body, (one) => styles.of(one).isShown, maxMeasuredChars).length < whole * 0.15;
  if (whole < leastHiddenChars || !isLittle) return;
  const main = all.find(
    (one) =>
      isWithinBody(one) &&
      /^(?:body|div|main|section|article)$/.test(one.tag) &&
      !one.attributes.has('hidden') &&
      !styles.of(one).isShown &&
      textOf(one, undefined, maxMeasuredChars).length > whole / 2,
  );
  if (main) styles.of(main).reveal();
}

const leastHiddenChars = 400;
const maxMeasuredChars = 20_000;

/** The header of the page itself: not those of articles or sections. */
export function isPageHeader(element: Element): boolean {
  if (element.tag === 'nav' || element.get('role') === 'banner') return true;
  if (element.tag === 'section' || element.tag === 'main') return false;
  const isHeader =
    element.tag === 'header' ||
    /(^|\s)(navbar|site-header|header|topbar|nav-bar|main-header|masthead-nav)(\s|$)/.test(
      element.get('class'),
    );
  return (
    isHeader &&
    closest(element.parent, ({ tag }) => tag === 'article' || tag === 'section' || tag === 'main') ===
      undefined
  );
}

export function isFooter(element: Element): boolean {
  return (
    element.tag === 'footer' ||
    element.get('role') === 'contentinfo' ||
    /(^|[\s_-])footer([\s_-]|$)/.test(element.get('class'))
  );
}

const partMemo = new WeakMap<Element, Part | undefined>();

function partOf(element: Element, isEarly: boolean): Part {
  const own = fixedPart(element);
  if (own) return own;
  return isEarly ? 'hero' : 'main';
}

function fixedPart(element: Element): Part | undefined {
  if (partMemo.has(element)) return partMemo.get(element);
  const above = element.parent ? fixedPart(element.parent) : undefined;
  const part = above ?? fixedPartItself(element);
  partMemo.set(element, part);
  return part;
}

function fixedPartItself(element: Element): Part | undefined {
  if (element.tag === 'pre' || element.tag === 'code') return 'code';
  if (isFooter(element)) return 'footer';
  return isPageHeader(element) && !isHero(element) ? 'header' : undefined;
}

/** A header that holds the first heading, or one that says something and leads nowhere. */
export function isHero(header: Element): boolean {
  if (holds(header, 'h1')) return true;
  return header.tag === 'header' && holds(header, 'h2') && !holds(header, 'nav') && !holds(header, 'ul');
}

function holds(top: Element, tag: string): boolean {
  const stack = [...top.elements];
  for (let next = stack.pop(); next; next = stack.pop()) {
    if (next.tag === tag) return true;
    stack.push(...next.elements);
  }
  return false;
}

/** Where the section with the first heading ends. */
function findHero({ all }: Page): number | undefined {
  const heading = all.find(({ tag, attributes }) => tag === 'h1' && !attributes.has('hidden'));
  if (!heading) return undefined;
  const section = closest(
    heading,
    ({ tag, parent }) => /^(section|header)$/.test(tag) || parent?.tag === 'main' || parent?.tag === 'body',
  );
  if (!section || section.parent?.tag === 'html') return undefined;
  let last = section;
  for (let next = last.elements.at(-1); next; next = last.elements.at(-1)) last = next;
  return last.order;
}

function isWithinBody(element: Element): boolean {
  return (
    element.tag === 'body' ||
    (element.depth > 2 && closest(element, ({ tag }) => tag === 'body' || tag === 'head')?.tag === 'body')
  );
}

function ownTextLength(element: Element): number {
  let length = 0;
  for (const child of element.children) if (child instanceof TextNode) length += lengthOf(child.text);
  return length;
}
