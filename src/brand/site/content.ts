/**
 * What a page says, by its structure: features, prices, quotes, figures, dated announcements, code. Each group of
 * repeated siblings is one kind of thing, or nothing. What is not there is not made up.
 */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { readCode } from './code.ts';
import { closest, type Element } from './dom.ts';
import { type Features, readFeatures, readFlatFeatures } from './features.ts';
import { readFigures } from './figures.ts';
import type { Reader } from './groups.ts';
import { readArticles, readNews } from './news.ts';
import type { Outline } from './outline.ts';
import { readPrices, readPriceTables } from './prices.ts';
import { readLoneQuotes, readQuotes } from './quotes.ts';

type Content = DeepCrawlResult['content'];
export type PageContent = Pick<
  Content,
  'features' | 'pricing' | 'testimonials' | 'stats' | 'announcements' | 'codeExamples'
>;

type Found = PageContent & Features;

/** The surest kinds come first. */
const readers: Reader<Found>[] = [readPrices, readQuotes, readFigures, readNews, readFeatures];

export function readContent(outline: Outline): PageContent {
  const found: Found = {
    features: [],
    asked: [],
    pricing: [],
    testimonials: [],
    stats: [],
    announcements: [],
    codeExamples: readCode(outline),
  };
  /** Elements that were read as something: what is inside them is read no more. */
  const taken = new Set<Element>();
  const isTaken = (element: Element) => closest(element, (one) => taken.has(one)) !== undefined;
  const take = (element: Element) => void taken.add(element);

  const readGroups = (read: Reader<Found>) => {
    for (const group of outline.groups) {
      const items = group.items.filter(({ element }) => !isTaken(element));
      if (items.length === 0 || !read(outline, { ...group, items }, found)) continue;
      if (group.isPart) for (const { element } of items) take(element);
      else take(group.parent);
    }
  };

  readPriceTables(outline, found, isTaken, take);
  for (const read of readers) {
    readGroups(read);
    if (read === readQuotes) readLoneQuotes(outline, found, isTaken, take);
  }
  readFlatFeatures(outline, found, isTaken);
  readArticles(outline, found, isTaken);
  const { asked: _, ...content } = found;
  return content;
}
