/** Texts of CSS values taken apart: at commas, spaces and functions; var() and calc() resolved, all bounded. */

/** Splits at a character outside of brackets and quotes. A space stands for any white space. */
export function splitAt(text: string, separator: ',' | ' ' | '/' | ';'): string[] {
  // Most selectors and values have neither brackets nor quotes.
  const isBare = separator !== ' ' && !/[()[\]"'\\]/.test(text);
  return isBare ? text.split(separator) : splitWithCare(text, separator);
}

function splitWithCare(text: string, separator: string): string[] {
  const parts: string[] = [];
  const place = new Place();
  let start = 0;
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i] ?? '';
    if (char === '\\') i += 1;
    else if (!place.isOutsideAfter(char) || !isAt(char, separator)) continue;
    else {
      if (separator !== ' ' || i > start) parts.push(text.slice(start, i));
      start = i + 1;
    }
  }
  if (separator !== ' ' || start < text.length) parts.push(text.slice(start));
  return parts;
}

/** Whether a place in a text is in quotes or brackets. */
class Place {
  private depth = 0;
  private quote = '';

  /** Takes the next character; whether it stands outside, and is no quote or bracket. */
  isOutsideAfter(char: string): boolean {
    if (this.quote !== '') {
      if (char === this.quote) this.quote = '';
      return false;
    }
    if (char === '"' || char === "'") this.quote = char;
    else if (char === '(' || char === '[') this.depth += 1;
    else if (char === ')' || char === ']') this.depth -= 1;
    else return this.depth === 0;
    return false;
  }
}

const isAt = (char: string, separator: string) => (separator === ' ' ? /\s/.test(char) : char === separator);

/** Name and inside of a text that is one function; empty name otherwise. */
export function argumentsOf(text: string): [name: string, inner: string] {
  const match = /^([a-z-]+)\(/i.exec(text);
  if (!match || !text.endsWith(')')) return ['', ''];
  return [(match[1] ?? '').toLowerCase(), text.slice(match[0].length, -1).trim()];
}

const maxResolvedChars = 4_096;
const maxReferences = 64;

/**
 * Puts the values of custom properties in the place of var().
 *
 * @returns undefined when one without a fallback is unknown, or when it is too much (CSS calls both invalid).
 */
export function substitute(value: string, lookUp: (name: string) => string | undefined): string | undefined {
  let text = value;
  for (let count = 0; ; count += 1) {
    const at = findVar(text);
    if (at < 0) return text;
    const end = closingAt(text, at + 4);
    if (end < 0 || count >= maxReferences || text.length > maxResolvedChars) return undefined;
    const inner = text.slice(at + 4, end);
    const comma = inner.indexOf(',');
    const name = (comma < 0 ? inner : inner.slice(0, comma)).trim();
    const found = lookUp(name) ?? (comma < 0 ? undefined : inner.slice(comma + 1).trim());
    if (found === undefined) return undefined;
    text = text.slice(0, at) + found + text.slice(end + 1);
  }
}

function findVar(text: string): number {
  const at = text.search(/\bvar\(/i);
  return at;
}

/** Where the bracket closes that was opened before `from`; -1 when it does not. */
export function closingAt(text: string, from: number): number {
  let depth = 1;
  for (let i = from; i < text.length; i += 1) {
    if (text[i] === '(') depth += 1;
    else if (text[i] === ')') {
      depth -= 1;
      if (depth === 0) return i;
    }
  }
  return -1;
}

/** Works out `calc()`s of numbers of one unit; leaves the others as they are. */
export function resolveCalc(text: string): string {
  let resolved = text;
  for (let i = 0; i < 12 && /calc\(/i.test(resolved); i += 1) {
    const next = resolved.replace(
      /(?:calc)?\(([^()]*)\)/i,
      (whole, inner: string) => workOut(inner) ?? whole,
    );
    if (next === resolved) return resolved;
    resolved = next;
  }
  return resolved;
}

/** `1px + 2 * 3px`, by the usual order of operations. Undefined when units differ or it is no such thing. */
function workOut(text: string): string | undefined {
  const tokens = text.match(/[+-]?\d*\.?\d+(?:e[+-]?\d+)?[a-z%]*|[-+*/]/gi) ?? [];
  if (tokens.join('') !== text.replace(/\s+/g, '') || tokens.length > 32) return undefined;
  let unit = '';
  const sums: number[] = [];
  let operator = '+';
  for (const token of tokens) {
    if (/^[-+*/]$/.test(token)) {
      operator = token;
      continue;
    }
    const [, number = '0', own = ''] = /^([+-]?[\d.]+(?:e[+-]?\d+)?)([a-z%]*)$/i.exec(token) ?? [];
    if (own !== '' && unit !== '' && own !== unit) return undefined;
    unit = own || unit;
    take(sums, operator, Number(number));
    operator = '+';
  }
  const sum = sums.reduce((total, one) => total + one, 0);
  return Number.isFinite(sum) ? `${Number(sum.toFixed(6))}${unit}` : undefined;
}

function take(sums: number[], operator: string, value: number): void {
  if (operator === '*') sums.push((sums.pop() ?? 0) * value);
  else if (operator === '/') sums.push((sums.pop() ?? 0) / value);
  else sums.push(operator === '-' ? -value : value);
}

const keywords: Record<string, number> = {
  'xx-small': 9,
  'x-small': 10,
  small: 13,
  medium: 16,
  large: 18,
  'x-large': 24,
  'xx-large': 32,
  'xxx-large': 48,
};
const viewport: Record<string, number> = { vw: 12.8, vh: 8, vmin: 8, vmax: 12.8, svh: 8, dvh: 8, lvh: 8 };

/** A length in px on a screen of 1280 × 800; `em` is the size of the element's font. Undefined for what is none. */
export function lengthOf(text: string, em: number, base = em): number | undefined {
  const value = resolveCalc(text.trim().toLowerCase());
  const keyword = keywords[value];
  if (keyword !== undefined) return keyword;
  const [name, inner] = argumentsOf(value);
  if (name !== '') return lengthOfFunction(name, inner, em, base);
  const [, number, unit = ''] = /^([+-]?(?:\d+\.?\d*|\.\d+))([a-z%]*)$/.exec(value) ?? [];
  if (number === undefined) return undefined;
  const factors: Record<string, number> = { px: 1, '': 1, pt: 4 / 3, em, rem: 16, ch: em / 2, ex: em / 2 };
  const factor = unit === '%' ? base / 100 : (factors[unit] ?? viewport[unit]);
  return factor === undefined ? undefined : Number(number) * factor;
}

function lengthOfFunction(name: string, inner: string, em: number, base: number): number | undefined {
  if (name === 'calc') {
    const parts = inner.split(/\s+\+\s+/).map((part) => lengthOf(part, em, base));
    return parts.every((part) => part !== undefined) ? parts.reduce((sum, part) => sum + part, 0) : undefined;
  }
  const parts = splitAt(inner, ',').map((part) => lengthOf(part, em, base));
  const [first, second, third] = parts;
  if (name === 'clamp' && first !== undefined && third !== undefined)
    return Math.min(Math.max(first, second ?? third), third);
  const known = parts.filter((part) => part !== undefined);
  if (known.length === 0) return undefined;
  if (name === 'min') return Math.min(...known);
  return name === 'max' ? Math.max(...known) : undefined;
}
