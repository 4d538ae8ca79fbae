/** A page as a tree, parsed as browsers do (parse5), bounded in elements and depth whatever a stranger writes. */
import { html, parse, type Token, type TreeAdapter, type TreeAdapterTypeMap } from 'parse5';

/** More elements than this, or deeper ones, are not read: what comes before them is the page. */
const maxElements = 30_000;
const maxDepth = 400;
/** Characters of a page that are parsed; those after them are not read. */
const maxChars = 2 * 1024 * 1024;

export class TextNode {
  readonly value: string[];
  parent: Element | null = null;

  constructor(value: string) {
    this.value = [value];
  }

  get text(): string {
    return this.value.length === 1 ? (this.value[0] ?? '') : this.value.join('');
  }
}

export class Element {
  readonly tag: string;
  readonly namespace: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly classes: readonly string[];
  children: (Element | TextNode)[] = [];
  parent: Element | null = null;
  depth = 0;
  /** Place in the document, 0 for the first element. */
  order = 0;

  constructor(tag: string, namespace: string, attributes: ReadonlyMap<string, string>) {
    this.tag = tag;
    this.namespace = namespace;
    this.attributes = attributes;
    this.classes = (attributes.get('class') ?? '').split(/\s+/).filter((one) => one !== '');
  }

  get(name: string): string {
    return this.attributes.get(name) ?? '';
  }

  get elements(): Element[] {
    return this.children.filter((one) => one instanceof Element);
  }
}

export type Page = {
  root: Element;
  /** In the order of the document. */
  all: readonly Element[];
  body: Element | undefined;
};

/** Parses a whole page. Never throws; what is too much is left out. */
export function parsePage(text: string): Page {
  const builder = createBuilder();
  try {
    parse(text.length > maxChars ? text.slice(0, maxChars) : text, {
      treeAdapter: builder.adapter,
      scriptingEnabled: true,
    });
  } catch (cause) {
    if (!(cause instanceof TooLarge)) throw cause;
  }
  const all: Element[] = [];
  for (const element of descendants(builder.root)) {
    element.order = all.length;
    all.push(element);
  }
  const body = all.find(({ tag }) => tag === 'body');
  return { root: builder.root, all, body };
}

/** Elements below one, in the order of the document. */
export function* descendants(top: Element): Generator<Element> {
  const stack = [...top.elements].reverse();
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    yield next;
    for (let i = next.children.length - 1; i >= 0; i -= 1) {
      const child = next.children[i];
      if (child instanceof Element) stack.push(child);
    }
  }
}

/** The element itself or the nearest above it that passes. */
export function closest(element: Element | null, passes: (one: Element) => boolean): Element | undefined {
  for (let one = element; one; one = one.parent) if (passes(one)) return one;
  return undefined;
}

const silent = new Set(['script', 'style', 'template', 'noscript', 'svg', 'iframe', 'select', 'textarea']);
const flowing = new Set(
  'a abbr b bdi bdo cite code data del dfn em font i ins kbd label mark q ruby rb rt s samp small span strong sub sup time tt u var wbr'.split(
    ' ',
  ),
);

/** Fonts of icons draw a picture in the place of a word. */
export const isIconWord = ({ classes }: Element): boolean =>
  classes.some((one) => /^material-(?:icons|symbols)/.test(one));

/** What a reader sees of an element, on one line; at most about `maxLength` characters are gathered. */
export function textOf(
  element: Element,
  isShown: (one: Element) => boolean = () => true,
  maxLength = 4_000,
): string {
  const parts: string[] = [];
  let length = 0;
  const stack: (Element | TextNode | ' ')[] = [element];
  for (let next = stack.pop(); next !== undefined && length < maxLength; next = stack.pop()) {
    if (next === ' ') parts.push(' ');
    else if (next instanceof TextNode) {
      parts.push(next.text);
      // Of indentation a little is counted: a stranger's megabytes of it end somewhere.
      length += Math.max(lengthOf(next.text), next.text.length >> 4);
    } else if (!silent.has(next.tag) && !isIconWord(next) && isShown(next)) {
      if (flowing.has(next.tag)) stack.push(...next.children.toReversed());
      else stack.push(' ', ...next.children.toReversed(), ' ');
    }
  }
  return tidy(parts.join('')).slice(0, maxLength);
}

/** Text with single spaces and without what nobody sees. */
export function tidy(text: string): string {
  return text
    .replace(/[\u00ad\u200b-\u200f\u2028-\u202e\ufeff]/g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Characters without white space at the ends, runs of it as one: counted, as it is done for all text of a page. */
export function lengthOf(text: string): number {
  let length = 0;
  let isAfterSpace = true;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    const isSpace = code === 32 || (code >= 9 && code <= 13) || code === 160 || code === 0x3000;
    if (!isSpace || !isAfterSpace) length += 1;
    isAfterSpace = isSpace;
  }
  return isAfterSpace && length > 0 ? length - 1 : length;
}

/** Thrown through the parser, which then ends. */
class TooLarge extends Error {
  override readonly name = 'TooLarge';
}

type Map_ = TreeAdapterTypeMap<
  Element | TextNode,
  Element,
  Element | TextNode,
  Element,
  Element,
  Element,
  TextNode,
  TextNode,
  Element,
  TextNode
>;

function createBuilder(): { root: Element; adapter: TreeAdapter<Map_> } {
  const root = new Element('#document', html.NS.HTML, new Map());
  const contents = new WeakMap<Element, Element>();
  const comments = new WeakSet<TextNode>();
  let mode: html.DOCUMENT_MODE = html.DOCUMENT_MODE.NO_QUIRKS;
  let elements = 0;

  const insert = (parent: Element, node: Element | TextNode, at: number) => {
    if (node instanceof TextNode && comments.has(node)) return;
    if (parent.depth >= maxDepth) throw new TooLarge();
    node.parent = parent;
    if (node instanceof Element) node.depth = parent.depth + 1;
    if (at >= parent.children.length) parent.children.push(node);
    else parent.children.splice(at, 0, node);
  };
  const insertText = (parent: Element, text: string, at: number) => {
    const before = parent.children[at - 1];
    if (before instanceof TextNode) before.value.push(text);
    else insert(parent, new TextNode(text), at);
  };
  const placeOf = (parent: Element, node: Element | TextNode) => {
    const at = parent.children.lastIndexOf(node);
    return at < 0 ? parent.children.length : at;
  };
  const createElement = (tag: string, namespace: string, attributes: Token.Attribute[]) => {
    elements += 1;
    if (elements > maxElements) throw new TooLarge();
    return new Element(tag, namespace, new Map(attributes.map(({ name, value }) => [name, value])));
  };
  const createComment = () => {
    const comment = new TextNode('');
    comments.add(comment);
    return comment;
  };

  const adapter: TreeAdapter<Map_> = {
    createElement,
    createCommentNode: createComment,
    createTextNode: (value) => new TextNode(value),
    createDocument: () => root,
    createDocumentFragment: () => new Element('#fragment', html.NS.HTML, new Map()),
    appendChild: (parent, node) => insert(parent, node, parent.children.length),
    insertBefore: (parent, node, reference) => insert(parent, node, placeOf(parent, reference)),
    setTemplateContent: (template, content) => void contents.set(template, content),
    getTemplateContent: (template) => contents.get(template) ?? template,
    setDocumentType: () => undefined,
    setDocumentMode: (_, next) => {
      mode = next;
    },
    getDocumentMode: () => mode,
    detachNode(node) {
      if (node.parent) node.parent.children.splice(placeOf(node.parent, node), 1);
      node.parent = null;
    },
    insertText: (parent, text) => insertText(parent, text, parent.children.length),
    insertTextBefore: (parent, text, reference) => insertText(parent, text, placeOf(parent, reference)),
    adoptAttributes(element, attributes) {
      const known = element.attributes as Map<string, string>;
      for (const { name, value } of attributes) if (!known.has(name)) known.set(name, value);
    },
    getFirstChild: (node) => node.children[0] ?? null,
    getChildNodes: (node) => node.children,
    getParentNode: (node) => node.parent,
    getAttrList: ({ attributes }) => [...attributes].map(([name, value]) => ({ name, value })),
    getTagName: ({ tag }) => tag,
    getNamespaceURI: ({ namespace }) => namespace as html.NS,
    getTextNodeContent: ({ text }) => text,
    getCommentNodeContent: ({ text }) => text,
    getDocumentTypeNodeName: () => 'html',
    getDocumentTypeNodePublicId: () => '',
    getDocumentTypeNodeSystemId: () => '',
    isTextNode: (node): node is TextNode => node instanceof TextNode && !comments.has(node),
    isCommentNode: (node): node is TextNode => node instanceof TextNode && comments.has(node),
    isDocumentTypeNode: (node): node is TextNode => false && node instanceof TextNode,
    isElementNode: (node): node is Element => node instanceof Element,
    setNodeSourceCodeLocation: () => undefined,
    getNodeSourceCodeLocation: () => undefined,
    updateNodeSourceCodeLocation: () => undefined,
  };
  return { root, adapter };
}
