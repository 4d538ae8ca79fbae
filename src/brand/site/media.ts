/** Whether a rule applies on the screen that brands are judged on: 1280 × 800, light scheme, a mouse, no preferences. */
import { splitAt } from './values.ts';

const width = 1280;
const height = 800;

const answers: Record<string, string> = {
  'prefers-color-scheme': 'light',
  'prefers-reduced-motion': 'no-preference',
  'prefers-contrast': 'no-preference',
  'prefers-reduced-transparency': 'no-preference',
  'prefers-reduced-data': 'no-preference',
  'forced-colors': 'none',
  'inverted-colors': 'none',
  hover: 'hover',
  'any-hover': 'hover',
  pointer: 'fine',
  'any-pointer': 'fine',
  orientation: 'landscape',
  scripting: 'enabled',
  'display-mode': 'browser',
  update: 'fast',
  'color-gamut': 'srgb',
  'dynamic-range': 'standard',
};

/** A list of media queries; an empty one always matches. */
export function matchesMedia(list: string): boolean {
  if (list.trim() === '') return true;
  return splitAt(list.toLowerCase(), ',').some(matchesQuery);
}

/** Browsers support what sites ask for, and the negation is for others. */
export function matchesSupports(condition: string): boolean {
  const text = condition.trim().toLowerCase();
  if (/^not\b/.test(text)) return false;
  // Old engines by name, and what Chromium alone answers no to.
  return !/-ms-|-moz-appearance|-webkit-touch-callout|-webkit-hyphens|font:\s*-apple-system-body/.test(text);
}

/** A container is taken for as wide as a page's column. */
export function matchesContainer(condition: string): boolean {
  if (/style\(/.test(condition)) return false;
  const query = /\(.*\)/.exec(condition.toLowerCase())?.[0];
  return query === undefined || matchesQuery(query);
}

function matchesQuery(query: string): boolean {
  const text = query.trim();
  const isNegated = /^not\s/.test(text);
  const body = text.replace(/^(not|only)\s+/, '');
  return evaluate(body) !== isNegated;
}

function evaluate(text: string): boolean {
  if (/\)\s+or\s+\(|\sor\s/.test(text)) return text.split(/\s+or\s+/).some(evaluate);
  return text.split(/\s+and\s+/).every((part) => evaluatePart(part.trim()));
}

function evaluatePart(part: string): boolean {
  if (part.startsWith('not ')) return !evaluatePart(part.slice(4).trim());
  if (!part.startsWith('(')) return part === 'all' || part === 'screen';
  const inner = part.replace(/^\(+|\)+$/g, '').trim();
  if (/[<>=]/.test(inner)) return evaluateRange(inner);
  const [name = '', value] = inner.split(':').map((one) => one.trim());
  return value === undefined
    ? name in answers || /^(color|width|grid)$/.test(name)
    : evaluateFeature(name, value);
}

function evaluateFeature(name: string, value: string): boolean {
  const [, bound = '', dimension = ''] =
    /^(min|max)-(?:device-)?(width|height|inline-size)$/.exec(name) ?? [];
  if (dimension !== '') {
    const size = sizeOf(dimension);
    return bound === 'min' ? size >= toPx(value) : size <= toPx(value);
  }
  if (/^(min|max)-(resolution|device-pixel-ratio)$|^-webkit-(min|max)-device/.test(name)) {
    return name.includes('max') ? Number.parseFloat(value) >= 1 : Number.parseFloat(value) <= 1;
  }
  return answers[name] === value;
}

function evaluateRange(text: string): boolean {
  const parts = text.split(/\s*(<=|>=|<|>|=)\s*/);
  for (let i = 0; i + 2 < parts.length; i += 2) {
    const [left = '', sign = '', right = ''] = parts.slice(i, i + 3);
    if (!compares(toPx(left), sign, toPx(right))) return false;
  }
  return true;
}

function compares(left: number, sign: string, right: number): boolean {
  if (Number.isNaN(left) || Number.isNaN(right)) return false;
  if (sign === '=') return left === right;
  const isBelow = sign.startsWith('<') ? left < right : left > right;
  return isBelow || (sign.length === 2 && left === right);
}

const sizeOf = (dimension: string) => (dimension === 'height' ? height : width);

function toPx(text: string): number {
  if (/^(width|inline-size|device-width)$/.test(text)) return width;
  if (text === 'height') return height;
  const [, number, unit] = /^([\d.]+)(px|em|rem)?$/.exec(text.replace(/^calc\((.*)\)$/, '$1').trim()) ?? [];
  return Number(number) * (unit === 'em' || unit === 'rem' ? 16 : 1);
}
