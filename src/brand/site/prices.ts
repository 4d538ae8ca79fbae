/** Plans with their prices: cards in a row, or a table with a plan in each row or each column. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { closest, descendants, type Element, tidy } from './dom.ts';
import { areGoods, captionOf, isMost, type Reader } from './groups.ts';
import { type Group, type Item, linesOf, type Outline } from './outline.ts';
import { priceIn } from './patterns.ts';

type Tier = DeepCrawlResult['content']['pricing'][number];
type Found = { pricing: Tier[] };

export const readPrices: Reader<Found> = (outline, group, { pricing }) => {
  const { items } = group;
  if (isText(items)) return false;
  const tiers = items.map((item) => readTier(outline, item)).filter((tier) => tier !== undefined);
  const isTable = tiers.some(({ price }) => /\d/.test(price)) && isMost(tiers.length, items);
  if (!isTable || !isOffer(outline, group)) return false;
  pricing.push(...tiers);
  return true;
};

const isText = ([first]: Item[]) => first?.element.tag === 'p';

/** Goods in a shop have a price too; plans say what is in them, or for how long, or stand under a word for prices. */
function isOffer(outline: Outline, group: Group): boolean {
  const { items } = group;
  if (areGoods(items)) return false;
  const lists = items.filter(({ element }) => pointsIn(element) >= 2);
  const periods = items.filter(({ text }) => period.test(text));
  if (isMost(lists.length, items) || periods.length >= 2) return true;
  const section = closest(group.parent, (one) => offerNames.test(`${one.get('id')} ${one.get('class')}`));
  const isNamed = section !== undefined || offerWords.test(captionOf(outline, group));
  return isNamed && !items.some(({ element }) => [...descendants(element)].some(({ tag }) => tag === 'img'));
}

const pointsIn = (element: Element) => [...descendants(element)].filter(({ tag }) => tag === 'li').length;

const offerNames =
  /(^|[\s_-])(pric(?:es?|ing)|tarif\w*|preise?|plans?|cennik|precios|prezzi)([\s_-]|$)|料金/i;
const offerWords =
  /\b(pric(?:es?|ing)|plans?|subscriptions?|tarife?s?|preise?|abos?|cennik|precios|planes|prezzi|piani|abonnements?|prijzen|priser)\b|料金|価格|プラン|价格/iu;

const period =
  /\/\s?(mo|month|monat|mois|mes|mese|mies|miesiąc|maand|yr|year|jahr|an|user|seat|nutzer|月|年|week)|per (month|year|user|seat|week)|pro (monat|jahr|nutzer|person)|par mois|al mese|al mes|monthly|monatlich|miesięcznie|月額|(?:月|年)あたり/i;

function readTier(outline: Outline, { element, heading, title, text }: Item): Tier | undefined {
  if (text.length > 1_500) return undefined;
  if (countPrices(text) > maxPricesOfTier || isOfAmounts(outline, element)) return undefined;
  const price = priceIn(text.replace(title, ' ')) ?? unpricedIn(outline, element);
  // What stands out in the points of a plan is not its name.
  const isName = heading && closest(heading, ({ tag }) => tag === 'li') === undefined;
  const isOwnItem = heading && closest(heading, (one) => one.tag === 'li' || one === element) === element;
  const tier = (isName || isOwnItem) && priceIn(title) === undefined ? title : firstName(outline, element);
  if (price === undefined || tier === '' || tier.length > 60) return undefined;
  return { tier, price: tidy(price), features: featuresOf(outline, element, tier) };
}

/** Panels of a program: tabs, and lists in which each point has an amount of its own. */
function isOfAmounts(outline: Outline, element: Element): boolean {
  const inside = [...descendants(element)];
  if (inside.some((one) => one.get('role') === 'tablist')) return true;
  const points = inside.filter(({ tag }) => tag === 'li');
  return points.length >= 2 && points.every((one) => priceIn(outline.text(one, 300)) !== undefined);
}

/** By the month, by the year, what it was before, and what it is for each person. */
const maxPricesOfTier = 5;

function countPrices(text: string): number {
  let count = 0;
  for (let rest = text; count <= maxPricesOfTier; count += 1) {
    const found = priceIn(rest);
    if (found === undefined) return count;
    rest = rest.slice(rest.indexOf(found) + found.length);
  }
  return count;
}

/** "Free" and "on request" stand on a line of their own, or nearly: in a sentence they are no price. */
function unpricedIn(outline: Outline, element: Element): string | undefined {
  for (const { text } of linesOf(element, outline)) {
    const found = unpriced.exec(text)?.[0];
    if (found !== undefined && text.length <= found.length + maxCharsAround) return found;
  }
  return undefined;
}

const maxCharsAround = 24;

/** Points of a plan, without its name, its price and what asks to buy it, where these are points too. */
function featuresOf(outline: Outline, element: Element, tier: string): string[] {
  return [...descendants(element)]
    .filter((one) => one.tag === 'li' && outline.isShown(one))
    .filter((one) => !(one.elements.length === 1 && /^(a|button)$/.test(one.elements[0]?.tag ?? '')))
    .map((one) => outline.text(one).slice(0, 200))
    .filter((one) => one !== '' && one !== tier && priceIn(one)?.length !== one.length && !isUnpriced(one))
    .slice(0, 30);
}

const unpriced =
  /\b(free|gratis|kostenlos|gratuit|gratuito|gratuita|bezpłatnie|za darmo|custom(?: pricing)?|contact (?:us|sales)|on request|auf anfrage|individuell|let['’]s talk|sur (?:devis|demande)|nous contacter|su richiesta|a consultar|na zapytanie|op aanvraag)\b|無料|お問い合わせ|要見積|応相談|免费/iu;

const isUnpriced = (text: string) => unpriced.exec(text)?.[0].length === text.length;

const badges =
  /^(most popular|popular|beliebt|recommended|empfohlen|人気|best value|bestseller|neu|new|populaire|recommandé|polecany|najczęściej|consigliato|recomendado|おすすめ)/i;

function firstName(outline: Outline, element: Element): string {
  const isName = (text: string) =>
    text.length <= 40 && priceIn(text) === undefined && !badges.test(text) && /\p{L}/u.test(text);
  return linesOf(element, outline).find(({ text }) => isName(text))?.text ?? '';
}

/** Tables whose columns are plans: names in the first row, prices in one of the next. */
export function readPriceTables(
  outline: Outline,
  { pricing }: Found,
  isTaken: (one: Element) => boolean,
  take: (one: Element) => void,
): void {
  for (const table of outline.content) {
    if (table.tag !== 'table' || isTaken(table)) continue;
    const tiers = tiersOfColumns(outline, table);
    if (tiers.length < 2) continue;
    pricing.push(...tiers);
    take(table);
  }
}

const maxRows = 40;
/** Rows below the names in which prices are looked for. */
const maxPriceRow = 4;

function tiersOfColumns(outline: Outline, table: Element): Tier[] {
  const rows = [...descendants(table)].filter(({ tag }) => tag === 'tr').slice(0, maxRows);
  const cells = rows.map((row) =>
    row.elements.filter(({ tag }) => /^t[hd]$/.test(tag)).map((one) => outline.text(one, 200)),
  );
  const [names = [], ...others] = cells;
  const priceOf = (text = '') => priceIn(text) ?? (isUnpriced(text) ? text : undefined);
  const at = others
    .slice(0, maxPriceRow)
    .findIndex((row) => row.slice(1).filter((one) => priceOf(one) !== undefined).length >= 2);
  const priceRow = others[at];
  if (!priceRow || names.length < 3 || !names.slice(1).every((one) => one.length <= 40)) return [];
  // A price list has its prices in a column, and more than one row of them.
  const isGrid = others.filter((row) => row.slice(1).some((one) => priceIn(one) !== undefined)).length > 2;
  if (isGrid || !priceRow.slice(1).some((one) => /\d/.test(one))) return [];
  return names.flatMap((tier, column) => {
    const price = column === 0 ? undefined : priceOf(priceRow[column]);
    if (price === undefined || tier === '') return [];
    const rest = others.filter((row) => row !== priceRow);
    return [{ tier, price: tidy(price), features: rest.flatMap((row) => pointOf(row, column)) }];
  });
}

const yes = /^(✓|✔|✅|●|•|yes|ja|oui|sì|sí|tak|あり|○|◯)$/iu;
const no = /^(|✗|✘|❌|×|–|—|-|no|nein|non|nie|なし)$/iu;

/** What a plan has of a row: "Regions: 12", or the row's name where the plan just has it. */
function pointOf(row: string[], column: number): string[] {
  const [label = '', cell = ''] = [row[0], row[column]];
  if (label === '' || no.test(cell)) return [];
  return [yes.test(cell) ? label : `${label}: ${cell}`];
}
