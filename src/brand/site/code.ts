/** Code examples of a page, with their language as the page states it or as it can be told. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { closest, descendants, type Element, TextNode } from './dom.ts';
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
      language: statedLanguage(element) ?? guessLanguage(code),
      code,
      ...(label === undefined ? {} : { label }),
    });
  }
  return examples;
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
    const [, name] =
      /(?:^|\s)(?:language|lang|highlight-source|highlight|brush:)-?\s*([a-z0-9+#]+)/i.exec(
        one.get('class'),
      ) ?? [];
    const stated = one.get('data-lang') || one.get('data-language') || (name ?? '');
    const language = stated.toLowerCase();
    if (
      /^[a-z0-9+#-]{1,20}$/.test(language) &&
      !/^(plaintext|none|text|nohighlight|default|chroma)$/.test(language)
    )
      return names[language] ?? language;
    if (one.classes.includes('hljs')) {
      const known = one.classes.find((part) => part in names || knownLanguages.has(part));
      if (known !== undefined) return names[known] ?? known;
    }
  }
  return undefined;
}

const names: Record<string, string> = {
  js: 'javascript',
  jsx: 'javascript',
  ts: 'typescript',
  tsx: 'typescript',
  sh: 'bash',
  shell: 'bash',
  console: 'bash',
  zsh: 'bash',
  py: 'python',
  rb: 'ruby',
  yml: 'yaml',
  markup: 'html',
  xml: 'html',
  rs: 'rust',
  'c++': 'cpp',
  'c#': 'csharp',
  cs: 'csharp',
  golang: 'go',
};
const knownLanguages = new Set(
  'javascript typescript bash python ruby yaml html css scss json go rust java php sql csharp cpp kotlin swift'.split(
    ' ',
  ),
);

const signs: [language: string, sign: RegExp][] = [
  [
    'bash',
    /^\s*(?:\$ |# )?(?:sudo |npm |npx |yarn |pnpm |pip3? |brew |apt(?:-get)? |git |curl |docker |cargo |go get |wget |cd )/m,
  ],
  ['html', /^\s*<(?:!doctype|[a-z][\w-]*)[\s>/]/i],
  ['json', /^\s*[{[]\s*(?:"[^"]*"\s*:|[{"[\]])/],
  ['php', /<\?php/],
  ['python', /^\s*(?:def \w+\(.*\):|from \w[\w.]* import |import \w+$|print\()/m],
  ['go', /^\s*(?:package \w+|func \w*\()/m],
  ['rust', /\bfn \w+\(|\blet mut /],
  ['java', /\bpublic (?:class|static)\b/],
  ['sql', /^\s*(?:select|insert into|create table|update) /im],
  ['typescript', /^\s*(?:interface|type) \w+|: (?:string|number|boolean)\b/m],
  ['javascript', /\b(?:const|let|var|function|import|export|require)\b|=>|\w+\(.*\);?$/m],
  ['css', /^[^{]{1,80}\{[^}]*[\w-]+\s*:\s*[^}]+\}/],
  ['yaml', /^[\w-]+:\s/m],
];

/** By the first sign that a language gives; `text` when there is none. */
function guessLanguage(code: string): string {
  return signs.find(([, sign]) => sign.test(code.slice(0, 1_000)))?.[0] ?? 'text';
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
