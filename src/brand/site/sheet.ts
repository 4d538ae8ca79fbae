/**
 * Style sheets as rules in the order of the cascade: nested rules unfolded, media, supports and layers resolved,
 * imports in their place (css-tree). Only what a brand shows in is kept.
 */
import { type Atrule, type CssNode, parse } from 'css-tree';
import { matchesContainer, matchesMedia, matchesSupports } from './media.ts';
import { splitAt } from './values.ts';

export type Declaration = { property: string; value: string; isImportant: boolean };

export type Rule = {
  selectors: string[];
  declarations: Declaration[];
  layer: Layer | undefined;
  /** Later ones win over earlier ones. */
  order: number;
};

/** Sheets as they were fetched: the text of an import by its address as it is written. */
export type SheetText = { text: string; imports: ReadonlyMap<string, SheetText> };

/** A cascade layer. `rank` is given when all sheets are read: unlayered rules come after all of them. */
export class Layer {
  readonly children = new Map<string, Layer>();
  rank = 0;
}

export type Sheets = {
  rules: Rule[];
  /** Initial values of registered custom properties. */
  registered: Map<string, string>;
  /** Families that come with the page. */
  fontFaces: Set<string>;
};

const maxRules = 60_000;
const maxSelectorChars = 2_000;
const maxSelectors = 400;
/** Of one sheet: the rules after it are not read. */
const maxSheetChars = 3 * 1024 * 1024;

/** Reads sheets in the order of the document. A sheet that no parser bears is left out. */
export function readSheets(sheets: readonly SheetText[]): Sheets {
  const reader = new Reader();
  for (const sheet of sheets) reader.readSheet(sheet, undefined, 0);
  rank(reader.top, 0);
  return reader;
}

/** Addresses that a sheet imports, with the conditions that are not met left out. */
export function importsOf(text: string): { url: string; layer: string | undefined }[] {
  const found: { url: string; layer: string | undefined }[] = [];
  let rest = text.slice(0, maxHeadChars);
  for (;;) {
    rest = rest.replace(/^(?:\s+|\/\*[\s\S]*?\*\/|<!--|-->)+/, '');
    const rule = /^@(charset|layer|import)\b([^;{]*(?:"[^"]*"[^;{]*|'[^']*'[^;{]*)?);/i.exec(rest);
    if (!rule) return found;
    const one = rule[1]?.toLowerCase() === 'import' ? readImport(rule[2] ?? '') : undefined;
    if (one?.applies) found.push({ url: one.url, layer: one.layer });
    rest = rest.slice(rule[0].length);
  }
}

const maxHeadChars = 64 * 1024;

function readImport(prelude: string) {
  const [, quoted, bare, rest = ''] =
    /^\s*(?:url\(\s*)?(?:["']([^"']+)["']|([^\s"')]+))\s*\)?(.*)$/s.exec(prelude) ?? [];
  const url = quoted ?? bare;
  if (url === undefined) return undefined;
  const layer = /^\s*layer(?:\(([^)]*)\))?/i.exec(rest);
  const supports = /supports\(([^)]*)\)/i.exec(rest)?.[1];
  const media = rest.replace(/^\s*layer(?:\([^)]*\))?/i, '').replace(/supports\([^)]*\)/i, '');
  const applies = matchesMedia(media) && (supports === undefined || matchesSupports(supports));
  return { url, layer: layer ? (layer[1] ?? '').trim() : undefined, applies };
}

type Context = { layer: Layer | undefined; parents: string[] | undefined };

class Reader implements Sheets {
  readonly rules: Rule[] = [];
  readonly registered = new Map<string, string>();
  readonly fontFaces = new Set<string>();
  readonly top = new Layer();
  private anonymous = 0;

  readSheet({ text, imports }: SheetText, layer: Layer | undefined, depth: number): void {
    if (depth <= maxImportDepth) {
      for (const { url, layer: name } of importsOf(text)) {
        const sheet = imports.get(url);
        if (sheet) this.readSheet(sheet, name === undefined ? layer : this.layerOf(name, layer), depth + 1);
      }
    }
    try {
      const ast = parse(text.slice(0, maxSheetChars), {
        parseValue: false,
        parseRulePrelude: false,
        parseAtrulePrelude: false,
        parseCustomProperty: false,
      });
      if (ast.type === 'StyleSheet') this.readAll(ast.children, { layer, parents: undefined });
    } catch (cause) {
      // Nesting without end: the parser's stack is its bound.
      if (!(cause instanceof RangeError)) throw cause;
    }
  }

  private readAll(nodes: Iterable<CssNode>, context: Context): void {
    const own: Declaration[] = [];
    for (const node of nodes) {
      if (this.rules.length >= maxRules) return;
      if (node.type === 'Declaration')
        addDeclaration(own, node.property, textOf(node.value), node.important !== false);
      else if (node.type === 'Rule') this.readRule(textOf(node.prelude), node.block.children, context);
      else if (node.type === 'Atrule') this.readAtrule(node, context);
    }
    // Declarations of a nested block apply to what the block is in.
    if (own.length > 0 && context.parents) this.add(context.parents, own, context.layer);
  }

  private readRule(prelude: string, children: Iterable<CssNode>, context: Context): void {
    if (prelude.length > maxSelectorChars * 20) return;
    const written = splitAt(prelude.replace(/\/\*[\s\S]*?\*\//g, ''), ',')
      .map((one) => one.trim())
      .filter((one) => one !== '' && one.length <= maxSelectorChars)
      .slice(0, maxSelectors);
    const selectors = context.parents ? unfold(written, context.parents) : written;
    const own: Declaration[] = [];
    const nested: CssNode[] = [];
    for (const node of children) {
      if (node.type === 'Declaration')
        addDeclaration(own, node.property, textOf(node.value), node.important !== false);
      else nested.push(node);
    }
    if (own.length > 0) this.add(selectors, own, context.layer);
    if (nested.length > 0) this.readAll(nested, { layer: context.layer, parents: selectors });
  }

  private readAtrule(node: Atrule, context: Context): void {
    const name = node.name.toLowerCase();
    const prelude = textOf(node.prelude).trim();
    if (name === 'layer' && !node.block) {
      for (const one of splitAt(prelude, ',')) this.layerOf(one.trim(), context.layer);
    } else if (name === 'property') this.register(prelude, node);
    else if (name === 'font-face') this.addFontFace(node);
    else if (node.block && applies(name, prelude)) {
      const layer = name === 'layer' ? this.layerOf(prelude, context.layer) : context.layer;
      this.readAll(node.block.children, { ...context, layer });
    }
  }

  private add(selectors: string[], declarations: Declaration[], layer: Layer | undefined): void {
    this.rules.push({ selectors, declarations, layer, order: this.rules.length });
  }

  private layerOf(name: string, parent: Layer | undefined): Layer {
    let layer = parent ?? this.top;
    // Two anonymous layers are never the same.
    this.anonymous += 1;
    const names = name === '' ? [` ${this.anonymous}`] : name.split('.').slice(0, 16);
    for (const part of names) {
      const known = layer.children.get(part);
      const next = known ?? new Layer();
      if (!known) layer.children.set(part, next);
      layer = next;
    }
    return layer;
  }

  private register(name: string, { block }: Atrule): void {
    for (const node of block?.children ?? []) {
      if (node.type === 'Declaration' && node.property === 'initial-value')
        this.registered.set(name, textOf(node.value).trim());
    }
  }

  private addFontFace({ block }: Atrule): void {
    for (const node of block?.children ?? []) {
      if (node.type === 'Declaration' && node.property.toLowerCase() === 'font-family')
        this.fontFaces.add(
          textOf(node.value)
            .trim()
            .replace(/^["']|["']$/g, '')
            .toLowerCase(),
        );
    }
  }
}

const maxImportDepth = 3;

/** Sublayers come before what their layer says itself. */
function rank(layer: Layer, next: number): number {
  let at = next;
  for (const child of layer.children.values()) at = rank(child, at);
  layer.rank = at;
  return at + 1;
}

function applies(name: string, prelude: string): boolean {
  if (name === 'media') return matchesMedia(prelude);
  if (name === 'supports') return matchesSupports(prelude);
  if (name === 'container') return matchesContainer(prelude);
  return name === 'layer' || name === 'starting-style' || name === 'scope' || name === 'document'
    ? name === 'layer'
    : false;
}

/** `&` is what the rule is nested in; without one it is an ancestor. */
function unfold(selectors: string[], parents: string[]): string[] {
  const parent = parents.length === 1 ? (parents[0] ?? '') : `:is(${parents.join(',')})`;
  if (parent.length > maxSelectorChars) return [];
  return selectors.map((one) => (one.includes('&') ? one.replaceAll('&', parent) : `${parent} ${one}`));
}

function addDeclaration(to: Declaration[], name: string, value: string, isImportant: boolean): void {
  const property = name.startsWith('--') ? name : name.toLowerCase();
  const text = (value.includes('/*') ? value.replace(/\/\*[\s\S]*?\*\//g, ' ') : value).trim();
  // What browsers refuse leaves the declaration before it in force.
  if ((property === 'font-family' && !areFamilies(text)) || (property === 'font' && !isFont(text))) return;
  if (property.startsWith('--') || kept.has(property)) {
    for (const longhand of longhands[property] ?? [property])
      to.push({ property: longhand, value: text, isImportant });
  }
}

/** One family after the other: each a string, or words that are no numbers (CSS Fonts 4, 2.1). */
const areFamilies = (text: string): boolean =>
  /var\(/i.test(text) || splitAt(text, ',').every((one) => family.test(one.trim()));
const word = String.raw`(?!-?\d)(?:[\w\-]|\P{ASCII}|\\.)+`;
const family = new RegExp(String.raw`^(?:"[^"]*"|'[^']*'|${word}(?:\s+${word})*)$`, 'u');

/** The shorthand has a size, or is one word that stands for all. */
const isFont = (text: string): boolean =>
  /^[a-z-]+$/i.test(text) || /[\d(]|\b(?:small|medium|large|smaller|larger)\b/i.test(text);

/** A shorthand's text is kept under the name of each of its parts: see style.ts. */
const longhands: Record<string, string[]> = {
  background: ['background-color', 'background-image', 'background-clip'],
  font: ['font-family', 'font-size', 'font-weight'],
  border: ['border-color', 'border-width'],
  'border-bottom': ['border-bottom'],
  '-webkit-backdrop-filter': ['backdrop-filter'],
  '-webkit-background-clip': ['background-clip'],
  '-webkit-text-fill-color': ['text-fill-color'],
  'border-top-left-radius': ['border-radius'],
  '-webkit-border-radius': ['border-radius'],
};

const kept = new Set([
  ...Object.keys(longhands),
  ...['color', 'background-color', 'background-image', 'background-clip', 'background-size'],
  ...['font-family', 'font-size', 'font-weight', 'text-transform', 'letter-spacing'],
  ...[
    'display',
    'visibility',
    'opacity',
    'position',
    'width',
    'height',
    'padding',
    'padding-left',
    'padding-right',
  ],
  ...['border-color', 'border-width', 'border-radius', 'border-image', 'border-image-source'],
  ...[
    'box-shadow',
    'backdrop-filter',
    'filter',
    'fill',
    'content',
    'clip',
    'clip-path',
    'mask',
    'text-fill-color',
  ],
]);

function textOf(node: CssNode | null | undefined): string {
  return node?.type === 'Raw' ? node.value : '';
}
