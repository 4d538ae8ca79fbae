/** Code examples of a page, with their language as the page states it or as it can be told. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { closest, descendants, type Element, TextNode } from './dom.ts';
import { guessLanguage, knownLanguages, languageNames } from './language.ts';
import type { Outline } from './outline.ts';

type Example = DeepCrawlResult['content']['codeExamples'][number];

const maxExamples = 20;
const maxCodeChars = 4_000;

export function readCode({ content, isShown, text }: Outline): Example[] {
  const examples: Example[] = [];
  for (const element of content) {
    if (examples.length >= maxExamples) break;
    if (element.tag !== 'pre' && !isBlockOfCode(element)) continue;
    const code = codeOf(element, isShown);
    if (code.length < 3 || examples.some((one) => one.code === code)) continue;
    const label = labelOf(element, text);
    examples.push({
      language: languageOf(statedLanguage(element), code),
      code,
      ...(label === undefined ? {} : { label }),
    });
  }
  return examples;
}

/** `markup` is what many give to everything: what has no tag in it is none. */
function languageOf(stated: string | undefined, code: string): string {
  const isStated = stated !== undefined && !(stated === 'html' && !code.includes('<'));
  return isStated ? stated : guessLanguage(code);
}

/** Editors draw code without `pre` too. */
function isBlockOfCode(element: Element): boolean {
  return (
    element.tag === 'code' &&
    closest(element.parent, ({ tag }) => tag === 'pre' || tag === 'p' || tag === 'li' || tag === 'td') ===
      undefined &&
    /language-|hljs|prism/.test(element.get('class'))
  );
}

/** The text with its line breaks; line numbers and copy buttons are no code. */
function codeOf(element: Element, isShown: (one: Element) => boolean): string {
  const parts: string[] = [];
  const stack: (Element | TextNode)[] = [element];
  for (let next = stack.pop(), length = 0; next !== undefined && length < maxCodeChars; next = stack.pop()) {
    if (next instanceof TextNode) {
      parts.push(next.text);
      length += next.text.length;
    } else if (next.tag === 'br') parts.push('\n');
    else if (isShown(next) && !isNoCode(next)) stack.push(...next.children.toReversed());
  }
  return parts
    .join('')
    .replace(/\r/g, '')
    .replace(/[ \t]+$/gm, '')
    .replace(/^\n+|\n+$/g, '')
    .slice(0, maxCodeChars);
}

const isNoCode = (element: Element) =>
  element.tag === 'button' || /line-?numbers?-rows|gutter|lineno|copy/.test(element.get('class'));

function statedLanguage(element: Element): string | undefined {
  const around = [element, element.parent, element.parent?.parent].filter(
    (one) => one !== null && one !== undefined,
  );
  for (const one of [...descendants(element)].slice(0, 3).concat(around)) {
    const stated = (
      one.get('data-lang') ||
      one.get('data-language') ||
      languageInClass(one.get('class'))
    ).toLowerCase();
    if (/^[a-z0-9+#-]{1,20}$/.test(stated) && !noLanguage.test(stated))
      return languageNames[stated] ?? stated;
    const known = one.classes.includes('hljs') ? one.classes.find(isLanguage) : undefined;
    if (known !== undefined) return languageNames[known] ?? known;
  }
  return undefined;
}

const noLanguage = /^(plaintext|none|text|nohighlight|default|generic|chroma)$/;
const isLanguage = (name: string): boolean => name in languageNames || knownLanguages.has(name);

function languageInClass(classes: string): string {
  const [, mark = '', name = ''] =
    /(?:^|\s)(language|lang|highlight-source|highlight|brush:)-?\s*([a-z0-9+#]+)/i.exec(classes) ?? [];
  // `highlight` alone stands beside words of all kinds.
  return /^highlight$/i.test(mark) && !isLanguage(name) ? '' : name;
}

function labelOf(element: Element, text: (one: Element, maxLength?: number) => string): string | undefined {
  const figure = closest(element, ({ tag }) => tag === 'figure');
  const caption = figure?.elements.find(({ tag }) => tag === 'figcaption');
  const siblings = element.parent?.elements ?? [];
  const before = siblings[siblings.indexOf(element) - 1];
  const named =
    before && /title|filename|file-name|label|caption|lang/i.test(before.get('class')) ? before : caption;
  const label = named
    ? text(named, 100)
    : element.get('data-title') || element.get('title') || element.get('data-filename');
  return label === '' ? undefined : label;
}
