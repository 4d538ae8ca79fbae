/** What a site announces: dated articles, and dated lines that lead to them. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { descendants, type Element } from './dom.ts';
import type { Reader } from './groups.ts';
import { headingsIn, type Item, linesOf, type Outline } from './outline.ts';
import { dateIn } from './patterns.ts';

type News = DeepCrawlResult['content']['announcements'][number];
type Found = { announcements: News[] };

export const readNews: Reader<Found> = (outline, { items }, { announcements }) => {
  if (items[0]?.element.tag === 'p') return false;
  const known = items
    .map((item) => readAnnouncement(outline, item) ?? readDatedLine(outline, item))
    .filter((one) => one !== undefined);
  if (known.length < Math.max(1, items.length * 0.6)) return false;
  announcements.push(...known);
  return true;
};

function readAnnouncement(outline: Outline, { element, heading, title, text }: Item): News | undefined {
  const isArticle = heading !== undefined && title !== '' && /^h[1-6]$/.test(heading.tag);
  if (text.length > 1_990 || !isArticle || headingsIn(element) > 2 || isHost(title)) return undefined;
  // The dates of a table are of its rows.
  if ([...descendants(element)].some(({ tag }) => tag === 'table')) return undefined;
  const date = dateOf(outline, element);
  if (date === undefined) return undefined;
  const body = linesOf(element, outline)
    .map((one) => one.text)
    .filter((one) => one !== title && dateIn(one) === undefined)
    .sort((a, b) => b.length - a.length)[0];
  return { title, body: body ?? '', date };
}

/** Of a dated line without a heading the link is the title, or what is left of it without the date. */
function readDatedLine(outline: Outline, { element, text }: Item): News | undefined {
  if (text.length > 300 || element.tag === 'tr' || element.tag === 'td' || headingsIn(element) > 0)
    return undefined;
  const date = dateOf(outline, element);
  const at = date === undefined ? -1 : text.indexOf(date);
  const stated = [...descendants(element)].find(({ tag }) => tag === 'time');
  const shown = stated ? outline.text(stated) : (date ?? '');
  // Dates that stand at the end or in a sentence are of something else: a birthday, a deadline.
  if (date === undefined || (at !== 0 && !text.startsWith(shown))) return undefined;
  const link = [...descendants(element)].find(({ tag }) => tag === 'a');
  const title = (link ? outline.text(link, 200) : text.slice(shown.length)).replace(/^[\s:–—-]+/, '');
  return title.length >= 4 && title.length <= 160 && title !== shown ? { title, body: '', date } : undefined;
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
export function readArticles(
  outline: Outline,
  { announcements }: Found,
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

/** Dated is what was found there, or when it was last looked at. */
const isHost = (title: string): boolean => /^[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}$/u.test(title);
