/** Which rules match an element: an index by what a selector ends with, then css-select for the selector itself. */
import { compile } from 'css-select';
import { parse, type Selector } from 'css-what';
import { Element, type TextNode, textOf } from './dom.ts';
import type { Rule } from './sheet.ts';

export type Match = { rule: Rule; specificity: number };

export type Matcher = { matchesOf(element: Element): Match[] };

/** Selectors of one kind that are tried on one element: a stranger's thousands are not. */
const maxTried = 3_000;

export function createMatcher(rules: readonly Rule[]): Matcher {
  const buckets = new Map<string, Entry[]>();
  for (const rule of rules) {
    for (const selector of rule.selectors) {
      const key = keyOf(selector);
      if (key === undefined) continue;
      const entry = new Entry(selector, rule, key);
      const bucket = buckets.get(key);
      if (bucket) bucket.push(entry);
      else buckets.set(key, [entry]);
    }
  }
  return {
    matchesOf(element) {
      const keys = [
        '*',
        element.tag,
        ...element.classes.map((one) => `.${one}`),
        ...(element.attributes.has('id') ? [`#${element.get('id')}`] : []),
      ];
      const found: Match[] = [];
      for (const key of new Set(keys)) {
        const bucket = buckets.get(key);
        if (!bucket) continue;
        for (let i = Math.max(0, bucket.length - maxTried); i < bucket.length; i += 1) {
          const entry = bucket[i];
          if (entry?.matches(element)) found.push({ rule: entry.rule, specificity: entry.specificity });
        }
      }
      return found;
    },
  };
}

/** Compiled when it is first needed: most selectors of a framework never are. */
class Entry {
  readonly rule: Rule;
  private readonly selector: string;
  private test: ((element: Element) => boolean) | undefined;
  /** Classes that elements around must have: asked first, most selectors of a framework fail there. */
  private around: readonly string[] = [];
  /** A selector that is its own key matches whatever has the key. */
  private readonly isPlain: boolean;
  specificity = 0;

  constructor(selector: string, rule: Rule, key: string) {
    this.selector = selector;
    this.rule = rule;
    this.isPlain = selector === key && key !== '*';
    if (this.isPlain) this.specificity = key.startsWith('#') ? ofId : key.startsWith('.') ? ofClass : 1;
  }

  matches(element: Element): boolean {
    if (this.isPlain) return true;
    if (!this.test) this.prepare();
    for (const name of this.around) if (!isWithinClass(element, name)) return false;
    return this.test?.(element) ?? false;
  }

  private prepare(): void {
    try {
      const parsed = parse(this.selector);
      this.specificity = Math.max(0, ...parsed.map(specificityOf));
      this.around = parsed.length === 1 ? classesAround(parsed[0] ?? []) : [];
      this.test = parsed.some((one) => one.some(isUnlike))
        ? () => false
        : compile<TextNode | Element, Element>(parsed, { adapter, cacheResults: false });
    } catch {
      // A selector that browsers may know and css-select does not matches nothing, as in an older browser.
      this.test = () => false;
    }
  }
}

function isWithinClass(element: Element, name: string): boolean {
  for (let one = element.parent; one; one = one.parent) if (one.classes.includes(name)) return true;
  return false;
}

/** Classes of the parts before a descendant or child combinator; those of siblings are on no ancestor. */
function classesAround(tokens: readonly Selector[]): string[] {
  const names: string[] = [];
  let isAround = false;
  for (const token of tokens.toReversed()) {
    if (token.type === 'descendant' || token.type === 'child') isAround = true;
    else if (token.type === 'adjacent' || token.type === 'sibling') isAround = false;
    else if (isAround && token.type === 'attribute' && token.name === 'class' && token.action === 'element')
      names.push(token.value);
  }
  return names;
}

/** States that nobody is in while a page is looked at, and parts that are no elements. */
const states = new Set(
  'hover focus active visited focus-visible focus-within target checked disabled indeterminate invalid valid fullscreen open popover-open modal autofill placeholder-shown user-invalid'.split(
    ' ',
  ),
);

function isUnlike(token: Selector): boolean {
  if (token.type === 'pseudo-element') return true;
  return token.type === 'pseudo' && states.has(token.name) && token.data === null;
}

function specificityOf(tokens: Selector[]): number {
  let sum = 0;
  for (const token of tokens) sum += weightOf(token);
  return sum;
}

const ofId = 1_000_000;
const ofClass = 1_000;

function weightOf(token: Selector): number {
  if (token.type === 'attribute') return token.name === 'id' && token.action === 'equals' ? ofId : ofClass;
  if (token.type === 'tag') return 1;
  if (token.type !== 'pseudo') return 0;
  if (token.name === 'where') return 0;
  if (Array.isArray(token.data)) return Math.max(0, ...token.data.map(specificityOf));
  return ofClass;
}

/** What an element must have for a selector to match it: `#id`, `.class`, a tag, or `*`. Undefined for no element. */
export function keyOf(selector: string): string | undefined {
  const plain = /^[.#]?[\w-]+$/.test(selector);
  if (plain) return selector.startsWith('.') || selector.startsWith('#') ? selector : selector.toLowerCase();
  const bare = stripped(lastCompound(selector));
  if (unseen.test(bare)) return undefined;
  const id = idName.exec(bare)?.[1];
  if (id !== undefined) return `#${unescaped(id)}`;
  const className = firstClass.exec(bare)?.[1];
  if (className !== undefined) return `.${unescaped(className)}`;
  const tag = /^[a-z][\w-]*/i.exec(bare)?.[0];
  if (tag !== undefined) return tag.toLowerCase();
  return bare.startsWith(':root') ? 'html' : '*';
}

const unseen = /::|:(?:before|after|hover|focus|active|visited|first-letter|first-line)\b/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: names may hold all that is not ASCII.
const idName = /#((?:[\w-]|[^\x00-\x7f]|\\.)+)/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: names may hold all that is not ASCII.
const firstClass = /\.((?:[\w-]|[^\x00-\x7f]|\\.)+)/;

const unescaped = (name: string) =>
  name.replace(/\\([0-9a-f]{1,6}) ?|\\(.)/gi, (_, code?: string, char?: string) =>
    code === undefined ? (char ?? '') : String.fromCodePoint(Math.min(Number.parseInt(code, 16), 0x10ffff)),
  );

/** Without what stands in brackets. */
function stripped(text: string): string {
  if (!/[([]/.test(text)) return text;
  let result = '';
  let depth = 0;
  for (const part of text.match(/\\.|[^\\]/gs) ?? []) {
    if (part === '(' || part === '[') depth += 1;
    else if (part === ')' || part === ']') depth -= 1;
    else if (depth === 0) result += part;
  }
  return result;
}

function lastCompound(selector: string): string {
  let depth = 0;
  for (let i = selector.length - 1; i >= 0; i -= 1) {
    const char = selector[i] ?? '';
    if (selector[i - 1] === '\\') i -= 1;
    else if (char === ')' || char === ']') depth += 1;
    else if (char === '(' || char === '[') depth -= 1;
    else if (depth === 0 && /[\s>+~]/.test(char)) return selector.slice(i + 1);
  }
  return selector;
}

type Node = Element | TextNode;

const adapter = {
  isTag: (node: Node): node is Element => node instanceof Element,
  getAttributeValue: (element: Element, name: string) => element.attributes.get(name),
  getChildren: (node: Node) => (node instanceof Element ? node.children : []),
  getName: ({ tag }: Element) => tag,
  getParent: ({ parent }: Node) => (parent && parent.tag !== '#document' ? parent : null),
  getSiblings: (node: Node): Node[] => node.parent?.children ?? [node],
  getText: (node: Node) => (node instanceof Element ? textOf(node) : node.text),
  hasAttrib: ({ attributes }: Element, name: string) => attributes.has(name),
  removeSubsets: (nodes: Node[]) => nodes,
  existsOne: (test: (element: Element) => boolean, nodes: Node[]) => findAll(test, nodes, 1).length > 0,
  findAll: (test: (element: Element) => boolean, nodes: Node[]) =>
    findAll(test, nodes, Number.POSITIVE_INFINITY),
  findOne: (test: (element: Element) => boolean, nodes: Node[]) => findAll(test, nodes, 1)[0] ?? null,
  equals: (one: Node, other: Node) => one === other,
};

/** What `:has()` looks through is bounded: it is asked for every element. */
const maxFound = 2_000;

function findAll(test: (element: Element) => boolean, nodes: Node[], most: number): Element[] {
  const found: Element[] = [];
  const stack = [...nodes].reverse();
  for (let seen = 0; stack.length > 0 && seen < maxFound && found.length < most; seen += 1) {
    const next = stack.pop();
    if (!(next instanceof Element)) continue;
    if (test(next)) found.push(next);
    for (let i = next.children.length - 1; i >= 0; i -= 1) {
      const child = next.children[i];
      if (child) stack.push(child);
    }
  }
  return found;
}
