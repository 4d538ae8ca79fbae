/**
 * When two texts say the same thing: what `npm run score-brand` counts as found. The definition for readers is in
 * test/brand/sites/README.md, and holds for all sites alike.
 */

/** Titles: the same but for how they are written, or one of them with what stands after a mark: `Fast: no waiting`. */
export function isSameTitle(one: string, other: string): boolean {
  const [a, b] = [withoutNumber(plainText(one)), withoutNumber(plainText(other))];
  return withoutSpace(a) === withoutSpace(b) || isBegunBy(a, b) || isBegunBy(b, a);
}

/** Names, sentences, texts of buttons: the same but for case, space, kinds of marks, and marks at the ends. */
export const isSameText = (one: string, other: string): boolean =>
  withoutSpace(plainText(one)) === withoutSpace(plainText(other));

/** Typefaces: the same but for case, spaces and hyphens: `proxima-nova` is `Proxima Nova`. */
export const isSameFamily = (one: string, other: string): boolean =>
  one.toLowerCase().replace(/[\s_-]/g, '') === other.toLowerCase().replace(/[\s_-]/g, '');

function plainText(text: string): string {
  const marked = text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[‘’‚′`]/g, "'")
    .replace(/[“”„«»]/g, '"')
    .replace(/[‐‑–—−]/g, '-')
    .replace(/\s+/g, ' ');
  const bare = marked.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}+#%]+$/gu, '');
  // A text of marks alone is what it is.
  return bare === '' ? marked.trim() : bare;
}

const withoutSpace = (text: string): string => text.replace(/\s/g, '');

/** Entries may be counted. */
const withoutNumber = (text: string): string => text.replace(/^\d{1,2}[.):]?\s(?=\p{L})/u, '');

const isBegunBy = (whole: string, title: string): boolean =>
  title.length >= minTitleChars &&
  whole.startsWith(title) &&
  /^\s?[:(|.!?]|^\s-\s/.test(whole.slice(title.length));

const minTitleChars = 3;
