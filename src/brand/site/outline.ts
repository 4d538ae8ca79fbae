/** The structure of a page's content: groups of siblings that repeat, and what each of them holds. */
import { closest, descendants, Element, type Page, textOf } from './dom.ts';
import { isFooter, isHero, isPageHeader } from './look.ts';
import { isForeign } from './style.ts';

export type Item = {
  element: Element;
  heading: Element | undefined;
  /** Text of the heading, or of what stands in its place. */
  title: string;
  /** The whole text. */
  text: string;
};

export type Group = {
  parent: Element;
  items: Item[];
  /** Items that share a class, among siblings of other kinds. */
  isPart: boolean;
};

export type Outline = {
  page: Page;
  isShown(element: Element): boolean;
  text(element: Element, maxLength?: number): string;
  /** Outermost first, in the order of the document. */
  groups: readonly Group[];
  /** Elements of the content: not of header, footer, navigation and foreign things. */
  content: readonly Element[];
};

const maxGroups = 200;
const maxItems = 40;
const itemTags = new Set([
  'div',
  'li',
  'article',
  'section',
  'a',
  'figure',
  'blockquote',
  'td',
  'details',
  'dl',
  'tr',
  'p',
  'app-card',
]);

export function outline(page: Page, isShown: (element: Element) => boolean): Outline {
  const text = (element: Element, maxLength = 2_000) => textOf(element, isShown, maxLength);
  const content = page.all.filter((one) => one.depth > 2 && isShown(one) && isContent(one));
  const groups: Group[] = [];
  /** An element may be an item of several groups. */
  const known = new Map<Element, Item>();
  const toItem = (element: Element): Item => {
    const item = known.get(element) ?? itemOf(element, text);
    known.set(element, item);
    return item;
  };
  for (const parent of content) {
    if (groups.length >= maxGroups) break;
    for (const { elements, isPart } of repeatsOf(parent)) {
      const items = elements.filter((one) => isPair(one) || isShown(one)).slice(0, maxItems);
      if (items.length >= 2) groups.push({ parent, isPart, items: items.map(toItem) });
    }
  }
  return { page, isShown, text, groups, content };
}

const contentMemo = new WeakMap<Element, boolean>();

function isContent(element: Element): boolean {
  const known = contentMemo.get(element);
  if (known !== undefined) return known;
  const above = element.parent && element.parent.tag !== 'html' ? isContent(element.parent) : true;
  const isContentOne = above && !isApart(element);
  contentMemo.set(element, isContentOne);
  return isContentOne;
}

/** Header and navigation; a header with the page's first heading belongs to the content. */
function isApart(element: Element): boolean {
  if (isForeign(element) || /^(script|style|template|noscript|nav|dialog)$/.test(element.tag)) return true;
  if (
    isFooter(element) &&
    element.tag !== 'blockquote' &&
    closest(element.parent, ({ tag }) => tag === 'blockquote' || tag === 'article' || tag === 'figure') ===
      undefined
  )
    return !/card-footer/.test(element.get('class'));
  if (/(^|\s)(modal|offcanvas|sidebar|breadcrumb|pagination|dropdown-menu)(\s|$)/.test(element.get('class')))
    return true;
  return isPageHeader(element) && !isHero(element);
}

type Repeat = { elements: Element[]; isPart: boolean };

/** Children of the commonest kind, and those among others that share a class; terms with what is said of them. */
function repeatsOf(parent: Element): Repeat[] {
  if (parent.tag === 'dl') {
    const pairs = pairsOf(parent);
    if (pairs.length >= 2) return [{ elements: pairs, isPart: false }];
  }
  const children = parent.elements.filter(({ tag }) => itemTags.has(tag));
  if (children.length < 2) return [];
  const [commonest = []] = gathered(children, ({ tag }) => [tag]);
  const parts = gathered(commonest, ({ classes }) => classes).filter(
    ({ length }) => length >= 2 && length < commonest.length,
  );
  return [
    { elements: commonest, isPart: false },
    ...parts.slice(0, maxParts).map((elements) => ({ elements, isPart: true })),
  ];
}

const maxParts = 4;

/** Elements by each of their names, the largest list first. */
function gathered(elements: readonly Element[], namesOf: (one: Element) => readonly string[]): Element[][] {
  const byName = new Map<string, Element[]>();
  for (const element of elements) {
    for (const name of new Set(namesOf(element))) {
      const known = byName.get(name);
      if (known) known.push(element);
      else byName.set(name, [element]);
    }
  }
  return [...byName.values()].sort((a, b) => b.length - a.length);
}

const pairs = new WeakSet<Element>();
const isPair = (element: Element) => pairs.has(element);

/** Each `dt` with the `dd`s after it, as one element that is in no tree. */
function pairsOf(list: Element): Element[] {
  const found: Element[] = [];
  for (const child of list.elements) {
    if (child.tag === 'dt') {
      const pair = new Element('div', list.namespace, new Map());
      pair.parent = list;
      pair.depth = child.depth;
      pair.order = child.order;
      pairs.add(pair);
      found.push(pair);
    }
    if (child.tag === 'dt' || child.tag === 'dd') found.at(-1)?.children.push(child);
  }
  return found;
}

const titleNames = /(^|[-_])(title|heading|name|headline|plan-name|label)([-_]|$)/i;

function itemOf(element: Element, text: (one: Element) => string): Item {
  const inside = [...descendants(element)].slice(0, 200);
  const headings = inside.filter(({ tag }) => /^h[1-6]$/.test(tag));
  // What counts the items stands before their titles.
  const first = headings.length > 1 ? headings.find((one) => !/^\d{1,2}[.)]?$/.test(text(one))) : headings[0];
  const heading =
    first ??
    inside.find((one) => one.tag === 'summary' || one.classes.some((name) => titleNames.test(name))) ??
    inside.find(({ tag }) => tag === 'strong' || tag === 'b' || tag === 'dt');
  return { element, heading, title: heading ? text(heading).slice(0, 200) : '', text: text(element) };
}

export const headingsIn = (element: Element): number =>
  [...descendants(element)].filter(({ tag }) => /^h[1-6]$/.test(tag)).length;

/** Texts of the smallest blocks of an element, in their order: what stands on lines of its own. */
export function linesOf(
  element: Element,
  { text, isShown }: Pick<Outline, 'text' | 'isShown'>,
  most = maxLines,
): { element: Element; text: string }[] {
  const lines: { element: Element; text: string }[] = [];
  const visit = (one: Element, depth: number): void => {
    if (!isShown(one) || lines.length >= most) return;
    const blocks = one.elements.filter(isBlock);
    if (blocks.length === 0 || depth > 40) {
      const own = text(one, 1_000);
      if (own !== '') lines.push({ element: one, text: own });
      return;
    }
    const loose = looseText(one);
    if (loose !== '') lines.push({ element: one, text: loose });
    for (const block of one.elements) visit(block, depth + 1);
  };
  visit(element, 0);
  return lines;
}

const maxLines = 60;
const inline =
  /^(a|abbr|b|bdi|cite|code|em|i|img|kbd|mark|q|s|del|ins|small|span|strong|sub|sup|time|u|br|svg|wbr|data|font|ruby|rt|rb|rp)$/;
const isBlock = ({ tag, elements }: Element): boolean =>
  !inline.test(tag) || elements.some(({ tag: inner }) => !inline.test(inner));

/** Text that stands beside blocks. */
function looseText(element: Element): string {
  const whole = element.children
    .filter((one) => !('tag' in one))
    .map((one) => ('text' in one ? one.text : ''))
    .join(' ')
    .replace(/\s+/g, ' ')
    .trim();
  return whole.length > 1 ? whole.slice(0, 1_000) : '';
}
