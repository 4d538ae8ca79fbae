/** Colours as style sheets write them, and as people see them: parsed, blended, compared (culori). */
import { converter, differenceCiede2000, interpolate, parse } from 'culori';
import { argumentsOf, resolveCalc, splitAt } from './values.ts';

/** sRGB, each part from 0 to 255, alpha from 0 to 1. */
export class Color {
  readonly red: number;
  readonly green: number;
  readonly blue: number;
  readonly alpha: number;

  constructor(red: number, green: number, blue: number, alpha = 1) {
    this.red = clamp(red, 255);
    this.green = clamp(green, 255);
    this.blue = clamp(blue, 255);
    this.alpha = clamp(alpha, 1);
  }

  /** As `#rrggbb`; alpha is left out. */
  get hex(): string {
    return `#${[this.red, this.green, this.blue].map((one) => Math.round(one).toString(16).padStart(2, '0')).join('')}`;
  }
}

export const white = new Color(255, 255, 255);
export const black = new Color(0, 0, 0);
export const transparent = new Color(0, 0, 0, 0);

/** Colours of sheets repeat; more than this many are a stranger's joke. */
const maxKnown = 4_000;
const known = new Map<string, Color | undefined>();

/**
 * Reads any colour of CSS Color 5 that needs no element but `current`. Safe to repeat.
 *
 * @returns undefined for what is none.
 */
export function parseColor(text: string, current: Color = black): Color | undefined {
  const trimmed = text.trim();
  if (trimmed.length > 400) return undefined;
  const lower = trimmed.toLowerCase();
  if (lower === 'currentcolor') return current;
  if (lower.includes('currentcolor')) return readColor(lower, current, 0);
  if (known.has(lower)) return known.get(lower);
  const color = readColor(lower, current, 0);
  if (known.size < maxKnown) known.set(lower, color);
  return color;
}

/** One colour as it looks over an opaque one. */
export function over(top: Color, ground: Color): Color {
  if (top.alpha >= 1) return top;
  const part = (one: number, other: number) => one * top.alpha + other * (1 - top.alpha);
  return new Color(part(top.red, ground.red), part(top.green, ground.green), part(top.blue, ground.blue));
}

/** How different two colours look: CIEDE2000, below 2 hardly at all. */
export function distance(one: Color, other: Color): number {
  return deltaE(toCulori(one), toCulori(other));
}

/** How colourful a colour is: chroma of OKLCH, 0 for greys, about 0.3 at most. */
export function chromaOf(color: Color): number {
  return toOklch(toCulori(color))?.c ?? 0;
}

export function lightnessOf(color: Color): number {
  return toOklch(toCulori(color))?.l ?? 0;
}

/** Contrast as WCAG 2 counts it, 1 to 21. */
export function contrastOf(one: Color, other: Color): number {
  const [low = 0, high = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

export function isDark(color: Color): boolean {
  return lightnessOf(color) < 0.57;
}

/** A colour between two, `share` of the way. */
export function between(one: Color, other: Color, share: number): Color {
  return over(new Color(other.red, other.green, other.blue, share), one);
}

const toRgb = converter('rgb');
const toOklch = converter('oklch');
const deltaE = differenceCiede2000();

const toCulori = ({ red, green, blue }: Color) => ({
  mode: 'rgb' as const,
  r: red / 255,
  g: green / 255,
  b: blue / 255,
});

function luminanceOf({ red, green, blue }: Color): number {
  const [r = 0, g = 0, b = 0] = [red, green, blue].map((one) => {
    const part = one / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function readColor(text: string, current: Color, depth: number): Color | undefined {
  if (depth > 6) return undefined;
  if (text === 'currentcolor') return current;
  const [name, inner] = argumentsOf(text);
  if (name === 'color-mix') return readMix(inner, current, depth);
  if (name === 'light-dark') return readColor(splitAt(inner, ',')[0]?.trim() ?? '', current, depth + 1);
  if (inner.startsWith('from ')) return readRelative(inner, current, depth);
  return fromCulori(name === '' ? text : `${name}(${spaced(resolveCalc(inner))})`);
}

/** Sheets of older tools put commas and slashes together in ways that browsers take and culori does not. */
function spaced(inner: string): string {
  const slash = splitAt(inner, '/');
  const parts = (slash[0] ?? '').replace(/,/g, ' ').trim().split(/\s+/);
  const alpha =
    slash[1]?.trim() ?? (parts.length > 3 && !/[a-z]/.test(parts[0] ?? '') ? parts.pop() : undefined);
  const body = parts.join(' ');
  return alpha === undefined ? body : `${body} / ${alpha}`;
}

function fromCulori(text: string): Color | undefined {
  try {
    const found = parse(text);
    const rgb = found && toRgb(found);
    return rgb && new Color(rgb.r * 255, rgb.g * 255, rgb.b * 255, rgb.alpha ?? 1);
  } catch {
    // culori throws for some texts that are no colours; they are none here either.
    return undefined;
  }
}

function readMix(inner: string, current: Color, depth: number): Color | undefined {
  const [method = '', ...parts] = splitAt(inner, ',');
  const [first, second] = parts.map((part) => readShare(part.trim(), current, depth));
  if (!first?.color || !second?.color) return undefined;
  const share = second.share ?? (first.share === undefined ? 0.5 : 1 - first.share);
  if (first.color.alpha === 0 || second.color.alpha === 0) {
    const [seen, part] = first.color.alpha === 0 ? [second.color, share] : [first.color, 1 - share];
    return new Color(seen.red, seen.green, seen.blue, seen.alpha * part);
  }
  const mode = /\b(oklab|oklch|lab|lch|hsl|hwb)\b/.exec(method)?.[1] ?? 'rgb';
  const mixed = toRgb(interpolate([toCulori(first.color), toCulori(second.color)], mode as 'oklab')(share));
  const alpha = first.color.alpha * (1 - share) + second.color.alpha * share;
  return new Color(mixed.r * 255, mixed.g * 255, mixed.b * 255, alpha);
}

function readShare(text: string, current: Color, depth: number) {
  const share = /(?:^|\s)([\d.]+)%(?:\s|$)/.exec(resolveCalc(text))?.[1];
  const color = readColor(
    text.replace(/(?:^|\s)(?:[\d.]+%|calc\([^()]*\))(?=\s|$)/, '').trim(),
    current,
    depth + 1,
  );
  return { color, share: share === undefined ? undefined : clamp(Number(share) / 100, 1) };
}

/** `rgb(from <color> r g b / 50%)`: the colour with another alpha; other changes are not followed. */
function readRelative(inner: string, current: Color, depth: number): Color | undefined {
  const [head = '', alpha = ''] = splitAt(inner.slice('from '.length), '/');
  const origin = splitAt(head.trim(), ' ')[0] ?? '';
  const color = readColor(origin, current, depth + 1);
  const [, number, percent] = /^([\d.]+)(%?)$/.exec(resolveCalc(alpha).trim()) ?? [];
  if (!color || number === undefined) return color;
  return new Color(color.red, color.green, color.blue, Number(number) / (percent === '%' ? 100 : 1));
}

function clamp(value: number, most: number): number {
  return value > 0 ? Math.min(value, most) : 0;
}
