/** Figures with what they count: `1,200 households`, a number above its label. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { descendants, type Element, isIconWord, TextNode, tidy } from './dom.ts';
import { areGoods, isMost, type Reader } from './groups.ts';
import { type Item, linesOf, type Outline } from './outline.ts';
import { isFigure } from './patterns.ts';

type Figure = DeepCrawlResult['content']['stats'][number];

export const readFigures: Reader<{ stats: Figure[] }> = (outline, { items }, { stats }) => {
  if (areGoods(items) || areVersions(items)) return false;
  const known = items.map((item) => readFigure(outline, item)).filter((one) => one !== undefined);
  if (known.length < 2 || known.length < items.length * 0.7) return false;
  const values = known.map(({ value }) => value);
  if (areNumbered(values) || areNought(values)) return false;
  // Some of them are no more than all of them.
  if (!areShares(values)) stats.push(...known);
  return true;
};

/** `01`, `02`, `03`: the places of entries in their list; of levels the first is nought. */
const areNumbered = (values: readonly string[]): boolean =>
  [0, 1].some((first) => values.every((value, at) => /^\d+$/.test(value) && Number(value) === at + first));

/** Counters before a script has run. */
const areNought = (values: readonly string[]): boolean => values.every((value) => /^0\D*$/.test(value));

/** Parts of a whole, as a chart has them beside it; or what is done of it, step by step. */
function areShares(values: readonly string[]): boolean {
  if (values.length < 3 || !values.every((value) => /^\d+(?:[.,]\d+)?\s?%$/.test(value))) return false;
  const shares = values.map((value) => Number.parseFloat(value.replace(',', '.')));
  const [step = 0] = shares;
  const sum = shares.reduce((one, other) => one + other, 0);
  return Math.abs(sum - 100) <= 1 || shares.every((share, at) => share === step * (at + 1));
}

/** `Firefox 3.6+`, `Opera 10+`: from which version on something works. Of some the point is seen. */
const areVersions = (items: readonly Item[]): boolean =>
  items.some(({ text }) => /^\p{L}.*\s\d+\.\d+\+$/u.test(text)) &&
  isMost(items.filter(({ text }) => /^\p{L}.*\s\d+(?:\.\d+)?\+$/u.test(text)).length, items);

const maxChars = 140;

function readFigure(outline: Outline, { element, text }: Item): Figure | undefined {
  if (text.length > maxChars || isForSale(element, text) || isOfTools(element)) return undefined;
  // What is a unit in one place is the label where nothing else is: 6,200 shops.
  return labelled(joined(partsOf(outline, element))) ?? labelled(piecesOf(element, outline));
}

function labelled(parts: readonly string[]): Figure | undefined {
  // `01` is the first of a list.
  const value = parts.find((one) => isFigure(one) && !/^0\d/.test(one));
  const label = parts.find((one) => one !== value && /\p{L}{2}|[\u3040-\u9fff]/u.test(one));
  return value === undefined || label === undefined || label.length > 80 ? undefined : { label, value };
}

/** A price beside a photograph or a button is of goods. */
function isForSale(element: Element, text: string): boolean {
  if (!/[$€£¥￥円]/.test(text)) return false;
  return [...descendants(element)].some(
    (one) =>
      one.tag === 'button' ||
      isPhotograph(one) ||
      (one.tag === 'a' && /(^|[\s_-])(btn|button)([\s_-]|$)/.test(one.get('class'))),
  );
}

const isPhotograph = (one: Element) =>
  one.tag === 'img' && !/icon|\.svg/i.test(`${one.get('src')} ${one.get('class')}`);

/** Rows of a table of data, and what one operates: ranges of a chart, filters. */
function isOfTools(element: Element): boolean {
  if (element.tag === 'tr' && element.elements.length > 2) return true;
  return [...descendants(element)].some(({ tag }) => /^(button|input|select|table)$/.test(tag));
}

/** Lines; those in which a number stands with other things piece by piece. */
function partsOf(outline: Outline, element: Element): string[] {
  return linesOf(element, outline).flatMap((line) =>
    /\d/.test(line.text) && !isFigure(line.text) ? piecesOf(line.element, outline) : [line.text],
  );
}

const maxPieces = 24;

function piecesOf(element: Element, { isShown }: Outline): string[] {
  const pieces: string[] = [];
  const stack: (Element | TextNode)[] = [element];
  for (let next = stack.pop(); next && pieces.length < maxPieces; next = stack.pop()) {
    if (next instanceof TextNode) pieces.push(tidy(next.text));
    else if (isShown(next) && !isIconWord(next)) stack.push(...next.children.toReversed());
  }
  return pieces.filter((one) => one !== '');
}

/** A unit that has an element of its own belongs to its number, where another part is the label. */
function joined(parts: readonly string[]): string[] {
  const at = parts.findIndex(isFigure);
  const [value = '', unit = ''] = [parts[at], parts[at + 1]];
  const others = parts.filter((_, n) => n !== at && n !== at + 1);
  const isUnit = at >= 0 && unit !== '' && !/^\d/.test(unit) && isFigure(value + unit);
  return isUnit && others.some((one) => /\p{L}{2}/u.test(one)) ? [value + unit, ...others] : [...parts];
}
