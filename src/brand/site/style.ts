/**
 * What elements look like: the cascade over the rules of a page, worked out when it is asked for. No layout: where
 * something stands and how large it is nobody knows here.
 */
import { black, Color, over, parseColor, transparent, white } from './color.ts';
import { closest, type Element } from './dom.ts';
import { createMatcher, type Match, type Matcher } from './match.ts';
import { type Declaration, readSheets, type Sheets } from './sheet.ts';
import { argumentsOf, closingAt, lengthOf, splitAt, substitute } from './values.ts';

/** The computed style of one element. Own values are looked at once. */
export class Style {
  readonly element: Element;
  readonly parent: Style | undefined;
  private readonly values: ReadonlyMap<string, string>;
  private readonly custom: ReadonlyMap<string, string>;
  private readonly registered: ReadonlyMap<string, string>;
  private readonly resolved = new Map<string, string | undefined>();
  private ownColor: Color | undefined;
  private ownGround: Color | undefined;
  private ownFontSize: number | undefined;
  private shown: boolean | undefined;

  constructor(
    element: Element,
    parent: Style | undefined,
    { values, custom }: { values: Map<string, string>; custom: Map<string, string> },
    registered: ReadonlyMap<string, string>,
  ) {
    this.element = element;
    this.parent = parent;
    this.values = values;
    this.custom = custom;
    this.registered = registered;
  }

  /** A custom property, inherited, with its own references resolved. */
  variable(name: string, depth = 0): string | undefined {
    if (depth > maxVariableDepth) return undefined;
    const written = this.custom.get(name);
    if (written === undefined)
      return this.parent ? this.parent.variable(name, depth + 1) : this.registered.get(name);
    if (/^(initial|unset|inherit)$/.test(written))
      return written === 'initial' ? this.registered.get(name) : this.parent?.variable(name, depth + 1);
    if (this.resolved.has(name)) return this.resolved.get(name);
    // A property that refers to itself, over however many steps, is invalid.
    this.resolved.set(name, undefined);
    const value = substitute(written, (other) => this.variable(other, depth + 1));
    this.resolved.set(name, value);
    return value;
  }

  /** Names of the custom properties that are set on this element. */
  get variableNames(): Iterable<string> {
    return this.custom.keys();
  }

  /** What the element's own rules say, with var() resolved; undefined when they say nothing or nothing valid. */
  value(property: string): string | undefined {
    const written = this.values.get(property);
    if (written === undefined) return undefined;
    return written.includes('var(') ? substitute(written, (name) => this.variable(name)) : written;
  }

  /** Like value, from the nearest element that says something. */
  inherited(property: string): string | undefined {
    for (let style: Style | undefined = this; style; style = style.parent) {
      const value = style.value(property);
      if (value !== undefined && !/^(inherit|unset|revert|revert-layer)$/i.test(value)) return value;
    }
    return undefined;
  }

  get color(): Color {
    this.ownColor ??= this.findColor('color') ?? this.parent?.color ?? black;
    return this.ownColor;
  }

  /** The text's colour as it looks over what is behind. */
  get textColor(): Color {
    const fill = this.value('text-fill-color');
    const color = (fill !== undefined && parseColor(fill, this.color)) || this.color;
    return over(color, this.ground);
  }

  /** Colour of the element's own background, transparent when it has none. */
  get background(): Color {
    const value = this.value('background-color');
    if (value === undefined) return transparent;
    const text = splitAt(value, ',').at(-1) ?? '';
    return colorIn(text, this.color) ?? transparent;
  }

  /** Colours of the gradients behind the element, in their order. */
  get gradient(): Color[] {
    return gradientColors(this.value('background-image') ?? '', this.color);
  }

  get hasImage(): boolean {
    return /url\(|image-set\(/i.test(this.value('background-image') ?? '');
  }

  /** What is behind the element's text, opaque: its own background over those of the elements around it. */
  get ground(): Color {
    if (this.ownGround) return this.ownGround;
    const behind = this.parent?.ground ?? white;
    const isText = /\btext\b/.test(this.value('background-clip') ?? '');
    let ground = isText ? behind : over(this.background, behind);
    const shade = isText ? undefined : shadeOf(this.value('background-image') ?? '', this.gradient);
    if (shade) ground = over(shade, ground);
    this.ownGround = ground;
    return ground;
  }

  get fontSize(): number {
    if (this.ownFontSize !== undefined) return this.ownFontSize;
    const inherited = this.parent?.fontSize ?? 16;
    const value = this.value('font-size');
    const size = value === undefined ? undefined : lengthIn(value, inherited);
    this.ownFontSize = Math.min(size ?? inherited, 400);
    return this.ownFontSize;
  }

  get fontWeight(): number {
    const value = this.inherited('font-weight') ?? '400';
    const weight = Number(/\b([1-9]00)\b/.exec(value)?.[1]);
    return weight || (/\b(bold|bolder)\b/.test(value) ? 700 : 400);
  }

  /** Radius of the corners in px; a share of the size, as a circle has it, is infinite. */
  get radius(): number {
    const value = splitAt((this.value('border-radius') ?? '').split('/')[0] ?? '', ' ')[0] ?? '';
    if (/%$/.test(value)) return Number.parseFloat(value) >= 50 ? Number.POSITIVE_INFINITY : 0;
    return lengthOf(value, this.fontSize) ?? 0;
  }

  /** The colour of a border that can be seen. */
  get border(): Color | undefined {
    const width = this.value('border-width') ?? '';
    if (/\b(none|hidden)\b/.test(width) || !/[1-9]|\bthin\b|\bmedium\b|\bthick\b/.test(width))
      return undefined;
    const color = this.findColor('border-color') ?? this.color;
    return color.alpha > 0.05 ? color : undefined;
  }

  /** Whether the element is there for the eye: not taken away by it or what it is in. */
  get isShown(): boolean {
    this.shown ??= (this.parent?.isShown ?? true) && !this.isHidden();
    return this.shown;
  }

  /** It is shown by a script, whatever the sheets say. Before anything asks for what is in it. */
  reveal(): void {
    this.shown = true;
  }

  private isHidden(): boolean {
    if (this.value('display') === 'none' || this.value('visibility') === 'hidden') return true;
    if (neverShown.has(this.element.tag)) return true;
    return this.element.attributes.has('hidden') && this.value('display') === undefined;
  }

  private findColor(property: string): Color | undefined {
    const value = this.value(property);
    if (value === undefined) return undefined;
    const current = property === 'color' ? (this.parent?.color ?? black) : this.color;
    return colorIn(value, current);
  }
}

export type Styles = {
  of(element: Element): Style;
  sheets: Sheets;
};

/** Prepares the styles of a page. */
export function createStyles(sheets: Parameters<typeof readSheets>[0]): Styles {
  const read = readSheets(sheets);
  const matcher = createMatcher(read.rules);
  const styles = new Map<Element, Style>();

  const of = (element: Element): Style => {
    const known = styles.get(element);
    if (known) return known;
    // From the top down, so that a deep page needs no deep stack.
    const path: Element[] = [];
    for (
      let one: Element | null = element;
      one && one.tag !== '#document' && !styles.has(one);
      one = one.parent
    )
      path.push(one);
    let style: Style | undefined;
    for (const one of path.reverse()) {
      const parent: Style | undefined = style ?? (one.parent ? styles.get(one.parent) : undefined);
      style = new Style(one, parent, cascade(one, matcher), read.registered);
      styles.set(one, style);
    }
    return style ?? new Style(element, undefined, { values: new Map(), custom: new Map() }, read.registered);
  };
  return { of, sheets: read };
}

const maxVariableDepth = 450;
const neverShown = new Set('head script style template noscript link meta title datalist'.split(' '));

/** Where a declaration stands: later and more exact ones win. */
class Winner {
  readonly value: string;
  readonly rank: readonly number[];

  constructor(value: string, rank: readonly number[]) {
    this.value = value;
    this.rank = rank;
  }
}

function cascade(element: Element, matcher: Matcher) {
  const winners = new Map<string, Winner>();
  for (const { property, value } of defaultsOf(element)) winners.set(property, new Winner(value, [-1]));
  for (const match of matcher.matchesOf(element)) {
    for (const declaration of match.rule.declarations)
      contend(winners, declaration, rankOf(match, declaration));
  }
  for (const declaration of inlineOf(element)) {
    contend(winners, declaration, [declaration.isImportant ? 3 : 1, 0, 0, 0]);
  }
  const values = new Map<string, string>();
  const custom = new Map<string, string>();
  for (const [property, { value }] of winners) {
    if (property.startsWith('--')) custom.set(property, value);
    else values.set(property, value);
  }
  return { values, custom };
}

function contend(winners: Map<string, Winner>, { property, value }: Declaration, rank: number[]): void {
  const present = winners.get(property);
  if (present && compare(present.rank, rank) > 0) return;
  // What no browser takes leaves the declaration before it in force.
  if (!isPlausible(property, value)) return;
  winners.set(property, new Winner(value, rank));
}

const compare = (one: readonly number[], other: readonly number[]): number => {
  for (let i = 0; i < other.length; i += 1) {
    const difference = (one[i] ?? 0) - (other[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
};

const unlayered = 1_000_000;

/** Importance, layer, specificity, order: important ones of an earlier layer win over those of a later one. */
function rankOf({ rule, specificity }: Match, { isImportant }: Declaration): number[] {
  const layer = rule.layer ? rule.layer.rank : unlayered;
  return isImportant ? [2, -layer, specificity, rule.order] : [0, layer, specificity, rule.order];
}

const forColors = new Set(['color', 'background-color', 'border-color', 'fill']);

function isPlausible(property: string, value: string): boolean {
  if (property.startsWith('--')) return true;
  if (value === '' || value.startsWith('-moz-') || /^-webkit-(?!linear|radial|box|flex|inline)/.test(value))
    return false;
  return !forColors.has(property) || !/^(progid|expression|-internal)/i.test(value);
}

const defaults: Record<string, [string, string][]> = {
  a: [['color', '#0000ee']],
  h1: [
    ['font-size', '2em'],
    ['font-weight', 'bold'],
  ],
  h2: [
    ['font-size', '1.5em'],
    ['font-weight', 'bold'],
  ],
  h3: [
    ['font-size', '1.17em'],
    ['font-weight', 'bold'],
  ],
  h4: [['font-weight', 'bold']],
  h5: [
    ['font-size', '0.83em'],
    ['font-weight', 'bold'],
  ],
  h6: [
    ['font-size', '0.67em'],
    ['font-weight', 'bold'],
  ],
  b: [['font-weight', 'bold']],
  strong: [['font-weight', 'bold']],
  small: [['font-size', '0.83em']],
  button: [
    ['background-color', '#efefef'],
    ['color', '#000000'],
    ['font-family', 'Arial'],
    ['font-size', '13.33px'],
  ],
  code: [['font-family', 'monospace']],
  pre: [['font-family', 'monospace']],
  mark: [['background-color', '#ffff00']],
  dialog: [['display', 'none']],
};

/** What browsers and the attributes of old pages say. */
function* defaultsOf(element: Element): Generator<Declaration> {
  const { tag, attributes } = element;
  const isLink = tag !== 'a' || attributes.has('href');
  if (isLink && !(tag === 'dialog' && attributes.has('open'))) {
    for (const [property, value] of defaults[tag] ?? []) yield { property, value, isImportant: false };
  }
  const old: [string, string][] = [
    ['bgcolor', 'background-color'],
    ['text', 'color'],
    ['face', 'font-family'],
    ['color', 'color'],
    ['fill', 'fill'],
  ];
  for (const [name, property] of old) {
    const value = attributes.get(name);
    if (value !== undefined && (name !== 'text' || tag === 'body'))
      yield { property, value, isImportant: false };
  }
}

function inlineOf(element: Element): Declaration[] {
  const text = element.get('style');
  if (text === '' || text.length > 20_000) return [];
  const found = readSheets([{ text: `x{${text.replace(/[{}]/g, '')}}`, imports: new Map() }]);
  return found.rules[0]?.declarations ?? [];
}

/** The colour in a shorthand such as `background` or `border`. */
export function colorIn(value: string, current: Color): Color | undefined {
  const text = value.trim();
  if (/^(none|inherit|unset|revert|auto)$/i.test(text)) return undefined;
  if (/^initial$/i.test(text)) return undefined;
  const whole = parseColor(text, current);
  if (whole) return whole;
  for (const part of splitAt(text, ' ')) {
    if (/^[\d.+-]|^(url|linear|radial|conic|repeating|no-repeat|center|cover|solid)/i.test(part)) continue;
    const color = parseColor(part.replace(/,$/, ''), current);
    if (color) return color;
  }
  return undefined;
}

/** Colours of all gradients in a value. */
export function gradientColors(value: string, current: Color): Color[] {
  const colors: Color[] = [];
  const start = /(?:linear|radial|conic)-gradient\(/gi;
  for (let match = start.exec(value); match && colors.length < 16; match = start.exec(value)) {
    const from = match.index + match[0].length;
    const end = closingAt(value, from);
    for (const stop of splitAt(value.slice(from, end < 0 ? undefined : end), ',')) {
      const color = stopColor(stop.trim(), current);
      if (color) colors.push(color);
    }
  }
  return colors;
}

/** What a gradient puts over its ground on the whole: its first colour, or a breath of a pale one; a glow nothing. */
function shadeOf(value: string, colors: readonly Color[]): Color | undefined {
  const [first] = colors;
  if (!first) return undefined;
  if (colors.every(({ alpha }) => alpha >= 0.5)) return first;
  if (/radial-gradient|conic-gradient/.test(value)) return undefined;
  const alpha = colors.reduce((sum, one) => sum + one.alpha, 0) / colors.length;
  const strongest = colors.reduce((most, one) => (one.alpha > most.alpha ? one : most), first);
  return new Color(strongest.red, strongest.green, strongest.blue, alpha);
}

function stopColor(stop: string, current: Color): Color | undefined {
  if (/^(to|from|at|in|circle|ellipse|closest|farthest)\b|^-?[\d.]+(deg|turn|rad)/i.test(stop))
    return undefined;
  const [first = ''] = splitAt(stop, ' ');
  // The old form of WebKit: from(#fff), color-stop(0, #fff).
  const [name, inner] = argumentsOf(first);
  if (name === 'from' || name === 'to') return parseColor(inner, current);
  return parseColor(first, current);
}

function lengthIn(value: string, base: number): number | undefined {
  const whole = lengthOf(value, base, base);
  if (whole !== undefined) return whole;
  if (value === 'smaller') return base * 0.83;
  if (value === 'larger') return base * 1.2;
  // The shorthand: the size stands before the families, perhaps with a line height.
  for (const part of splitAt(value, ' ')) {
    const size = /^[1-9]00$/.test(part) ? undefined : lengthOf(part.split('/')[0] ?? '', base, base);
    if (size !== undefined) return size;
  }
  return undefined;
}

/** The families of `font-family` or of the shorthand, in their order, without quotes. */
export function familiesOf(value: string): string[] {
  const list = splitAt(value, ',').map((one) => one.trim());
  const [first = ''] = list;
  // In the shorthand the first family follows the size.
  const words = splitAt(first, ' ');
  const size = words.findIndex((word) => /^(?:[\d.]+(?:px|rem|em|pt|%|vw)|clamp\(|calc\()/i.test(word));
  if (size >= 0) {
    const from = words[size + 1] === '/' ? size + 3 : size + 1;
    list[0] = words.slice(from).join(' ');
  }
  return list
    .map((one) =>
      one
        .replace(/^["']|["']$/g, '')
        .replace(/\\/g, '')
        .trim(),
    )
    .filter((one) => one !== '');
}

/** Elements that are no part of the site's own look: consent banners, chats, alerts, buttons of other brands. */
export function isForeign(element: Element): boolean {
  return closest(element, isForeignItself) !== undefined;
}

const foreignMemo = new WeakMap<Element, boolean>();

function isForeignItself(element: Element): boolean {
  const known = foreignMemo.get(element);
  if (known !== undefined) return known;
  const isForeignOne = judgeForeign(element);
  foreignMemo.set(element, isForeignOne);
  return isForeignOne;
}

const widgets =
  /(^|[-_])(cookies?|consent|gdpr|ccpa|onetrust|optanon|usercentrics|cookiebot|cybotcookiebotdialog|borlabs\w*|cky|didomi|klaro|osano|truste|quantcast|qc-cmp\w*|iubenda|termly|cmp|cmplz|cc-window|cookieconsent|intercom|drift|crisp|tawk|zendesk|zopim|livechat|hubspot-messages|tidio|olark|freshchat|userlike|chat|chatbot|chatwidget|recaptcha|grecaptcha|disqus|addthis|sharethis|carbonads|adsbygoogle|datenschutz-banner)([-_]|$)/i;
const cookieWords = /cookie|consent|einwilligung|datenschutz|クッキー|同意|consentement|galletas/i;

function judgeForeign(element: Element): boolean {
  if (element.tag === 'body' || element.tag === 'html') return false;
  const names = [element.get('id'), ...element.classes];
  if (names.some((one) => one.length < 80 && widgets.test(one) && !/^chat$/.test(one))) return true;
  const role = element.get('role');
  if (/^(alert|alertdialog)$/.test(role)) return true;
  const isOverlay = role === 'dialog' || element.tag === 'dialog' || element.attributes.has('aria-modal');
  return (
    isOverlay &&
    cookieWords.test(`${element.get('aria-label')} ${names.join(' ')} ${element.get('aria-labelledby')}`)
  );
}
