/** The families that headings and body text are set in: the first real one of each list, by the text it is seen in. */
import type { Look, Seen } from './look.ts';
import { familiesOf } from './style.ts';

export type Fonts = { heading: string; body: string };

/** @returns undefined when the page names no family at all. */
export function readFonts(look: Look): Fonts | undefined {
  const body = mostSeen(look.seen, weightInBody);
  const heading = mostSeen(look.seen, weightInHeading) ?? body;
  if (heading === undefined) return undefined;
  return { heading, body: body ?? heading };
}

/** The family of code, when there is code. */
export function readMonoFont({ seen }: Look): string | undefined {
  return mostSeen(seen, ({ element, ownChars }) =>
    /^(code|pre|kbd|samp)$/.test(element.tag) ? ownChars : 0,
  );
}

function weightInHeading({ element, ownChars, part }: Seen): number {
  if (part === 'code' || ownChars === 0) return 0;
  const heading = headingOf(element);
  if (heading === 0) return 0;
  // A name in the bar at the top is a logo, and what stands at the end is small.
  const place = part === 'header' || part === 'footer' ? 0.5 : 1;
  return Math.min(ownChars, 60) * ({ 1: 4, 2: 3, 3: 1.5 }[heading] ?? 0.5) * place;
}

function weightInBody({ element, ownChars, part }: Seen): number {
  if (part === 'code' || headingOf(element) > 0 || element.tag === 'button') return 0;
  if (element.tag === 'p' || element.tag === 'li' || element.tag === 'dd')
    return ownChars * (part === 'footer' ? 0.7 : 1);
  return ownChars * (part === 'header' ? 0.2 : 0.4);
}

function headingOf(element: Seen['element']): number {
  for (let one: Seen['element'] | null = element; one; one = one.parent) {
    const level = /^h([1-6])$/.exec(one.tag)?.[1];
    if (level !== undefined) return Number(level);
  }
  return 0;
}

function mostSeen(seen: readonly Seen[], weigh: (one: Seen) => number): string | undefined {
  const sums = new Map<string, number>();
  const names = new Map<string, string | undefined>();
  for (const one of seen) {
    const weight = weigh(one);
    if (weight <= 0) continue;
    const value = one.style.inherited('font-family');
    if (value === undefined) continue;
    if (!names.has(value)) names.set(value, firstRealFamily(value));
    const name = names.get(value);
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + weight);
  }
  return [...sums].sort(([a, x], [b, y]) => y - x || a.localeCompare(b))[0]?.[0];
}

const generic = new Set(
  'serif sans-serif monospace cursive fantasy system-ui ui-sans-serif ui-serif ui-monospace ui-rounded math emoji -apple-system blinkmacsystemfont -webkit-system-font -webkit-body inherit initial unset revert default none'.split(
    ' ',
  ),
);
/** What a page is set in that leaves the choice to the browser. */
const kinds = new Set(['serif', 'sans-serif', 'monospace', 'cursive', 'fantasy']);
const icons =
  /font ?awesome|material (icons|symbols)|icon|glyph|symbol|feather|ionicons|themify|fontello|icomoon|wingdings|emoji|boxicons|remixicon|dashicons/i;

/**
 * The first family of a list that is a typeface, by the name people know it by; where there is none, the kind that is
 * asked for. Undefined when it asks for nothing.
 */
export function firstRealFamily(value: string): string | undefined {
  const families = familiesOf(value);
  const real = families.find(
    (one) =>
      !generic.has(one.toLowerCase()) && !icons.test(one) && one.length <= 80 && !/^var\(|[{}<>;]/.test(one),
  );
  if (real !== undefined) return plainName(real);
  if (families.some((one) => /^(system-ui|-apple-system|ui-sans-serif)$/i.test(one))) return 'system-ui';
  return families.find((one) => kinds.has(one.toLowerCase()))?.toLowerCase();
}

/** One weight of a family; black and heavy are families of their own. */
const weight =
  / (?:thin|hairline|regular|book|medium|(?:(?:ultra|extra|semi|demi)[ -]?)?(?:light|bold))(?:[ -]?(?:italic|oblique))?$/i;

/**
 * Builders and foundries put their own marks around a name: `__Inter_a1b2c3`, `Inter var`, `Inter Variable`,
 * `HelveticaNeue-Light`, `MontserratBold`.
 */
function plainName(family: string): string {
  // As people write it: names for machines have no spaces.
  const spaced = family.replace(/(?<=[a-z])-?(?=[A-Z][a-z])/g, ' ');
  const whole = weight.test(spaced) ? spaced.replace(weight, '') : family;
  return (
    (whole.length >= 3 ? whole : family)
      .replace(/^__(.+?)(?:_Fallback)?_[0-9a-f]{4,8}$/i, '$1')
      .replace(/_/g, ' ')
      .replace(/[ -]?(?:variable|var|fallback|webfont|vf)$/i, '')
      .trim() || family
  );
}
