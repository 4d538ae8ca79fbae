/** What the search of the pages looks through: one entry for each part of a page that has an address. */
import { toPlain } from './guides.ts';
import { toSlug } from './markdown.ts';

/** Page, anchor (may be empty), title of the page, heading (may be empty), text. Short names would save nothing. */
export type SearchEntry = [path: string, anchor: string, title: string, heading: string, text: string];

/** Of a part only its beginning is kept: whoever is looked for is named there. */
const maxTextChars = 500;

export function entryOf(
  page: { path: string; title: string },
  part: { anchor: string; heading: string; text: string },
): SearchEntry {
  const { anchor, heading, text } = part;
  return [page.path, anchor, page.title, heading, toPlain(text).slice(0, maxTextChars)];
}

/** The parts of a Markdown text, each from a heading to the next. */
export function entriesOf(page: { path: string; title: string }, markdown: string): SearchEntry[] {
  return markdown.split(/^(?=#{1,3} )/m).flatMap((part) => {
    const [, marks = '', heading = '', text = part] = /^(#{1,3}) (.+)\n?([\s\S]*)$/.exec(part) ?? [];
    if (toPlain(part) === '') return [];
    // The first heading is the page's own.
    const isPage = marks.length <= 1;
    return [
      entryOf(page, { anchor: isPage ? '' : toSlug(heading), heading: isPage ? '' : toPlain(heading), text }),
    ];
  });
}
