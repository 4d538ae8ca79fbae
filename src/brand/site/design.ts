/** The manner of a design: its scheme, corners, glass, glows, patterns, as the styles of the home page have them. */
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { Color, chromaOf, distance, isDark } from './color.ts';
import { readMonoFont } from './fonts.ts';
import type { Look, Seen } from './look.ts';
import { isButton, type Palette } from './palette.ts';
import { gradientColors, type Style } from './style.ts';
import { splitAt } from './values.ts';

export type Design = DeepCrawlResult['design'];

export function readDesign(
  look: Look,
  palette: Pick<Palette, 'background' | 'primary'>,
  headingFont: string,
): Design {
  const radius = readRadius(look);
  const pattern = readPattern(look);
  const mono = readMonoFont(look);
  const label = readLabelStyle(look);
  const scheme = isDark(palette.background) ? 'dark' : 'light';
  const traits = {
    hasGlassmorphism: look.seen.some(isGlass),
    hasGradientBorders: look.seen.some(hasGradientBorder),
    hasRadialGlows: look.seen.some(({ style }) => isGlow(style.value('background-image') ?? '', style.color)),
  };
  return {
    vibe: vibeOf({
      scheme,
      radius,
      primary: palette.primary,
      headingFont,
      hasEffects: traits.hasGlassmorphism || traits.hasRadialGlows,
      hasMono: mono !== undefined,
    }),
    borderRadius: radius,
    ...traits,
    colorScheme: scheme,
    ...(pattern === undefined ? {} : { backgroundPattern: pattern }),
    ...(mono === undefined ? {} : { monoFont: mono }),
    ...(label === undefined ? {} : { sectionLabelStyle: label }),
  };
}

/** The corner that buttons, fields and cards have mostly; buttons count double. */
function readRadius({ seen }: Look): string {
  const counts = new Map<string, number>();
  for (const one of seen) {
    const { element, style } = one;
    const isClickable = isButton(one);
    const isCard =
      element.classes.some((one) => /card|panel|box|tile/i.test(one)) &&
      style.value('border-radius') !== undefined;
    if (!isClickable && !isCard && !/^(input|textarea)$/.test(element.tag)) continue;
    const value = radiusText(style.radius);
    counts.set(value, (counts.get(value) ?? 0) + (isClickable ? 2 : 1));
  }
  const [most] = [...counts].sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
  return most?.[0] ?? '0px';
}

function radiusText(px: number): string {
  return px >= 100 ? '9999px' : `${Number(px.toFixed(1))}px`;
}

/** Frosted glass: what is behind shines through, blurred. */
function isGlass({ style }: Seen): boolean {
  const blur = /blur\(\s*([\d.]+)/.exec(style.value('backdrop-filter') ?? '')?.[1];
  return Number(blur) > 0;
}

/** A gradient in a border: by border-image, or between two layers of background. */
function hasGradientBorder({ style }: Seen): boolean {
  const image = `${style.value('border-image') ?? ''} ${style.value('border-image-source') ?? ''}`;
  if (/gradient\(/.test(image)) return true;
  const background = style.value('background-image') ?? '';
  const clip = `${style.value('background-clip') ?? ''} ${background}`;
  return /border-box/.test(clip) && /padding-box/.test(clip) && /gradient\(/.test(background);
}

/** A radial gradient that fades from a colour into nothing. */
function isGlow(value: string, current: Color): boolean {
  for (const layer of splitAt(value, ',')) {
    if (!/radial-gradient\(/.test(layer)) continue;
    const colors = gradientColors(layer, current);
    const last = colors.at(-1);
    const [first] = colors;
    if (first && last && first.alpha > 0 && last.alpha < 0.05 && chromaOf(first) > 0.04) return true;
  }
  return false;
}

/** Patterns that repeat behind the page or its bands. */
function readPattern({ seen, styles, page }: Look): string | undefined {
  const tops = page.body ? [styles.of(page.body)] : [];
  const bands = seen
    .filter(({ element }) => /^(main|section|header|div|footer)$/.test(element.tag))
    .map(({ style }) => style);
  for (const style of [...tops, ...bands]) {
    const pattern = patternOf(style);
    if (pattern !== undefined) return pattern;
  }
  return undefined;
}

function patternOf(style: Style): string | undefined {
  const image = style.value('background-image') ?? '';
  if (image === '' || image === 'none') return undefined;
  const size = style.value('background-size') ?? /\/\s*([\d.]+px[^,)]*)/.exec(image)?.[1] ?? '';
  const isSmall = /^\d+(\.\d+)?(px|rem)/.test(size) && Number.parseFloat(size) <= 80;
  if (/repeating-linear-gradient\(/.test(image)) return 'stripes';
  if (isSmall && /radial-gradient\(/.test(image)) return 'dots';
  if (isSmall && (image.match(/linear-gradient\(/g) ?? []).length >= 2) return 'grid';
  if (/url\([^)]*(noise|grain)/i.test(image)) return 'noise';
  return /url\([^)]*(pattern|texture)/i.test(image) ? 'pattern' : undefined;
}

/** Small labels above headings: in capitals, spaced out, or in a pill. */
function readLabelStyle({ seen }: Look): string | undefined {
  for (const { element, style, ownChars, part } of seen) {
    const next = element.parent?.elements[element.parent.elements.indexOf(element) + 1];
    const isLabel =
      ownChars > 1 &&
      ownChars < 40 &&
      next !== undefined &&
      /^h[12]$/.test(next.tag) &&
      part !== 'header' &&
      !/^h[1-4]$/.test(element.tag);
    if (!isLabel || style.fontSize > 20) continue;
    if (style.background.alpha > 0 && style.radius >= 10) return 'pill';
    if (style.inherited('text-transform') === 'uppercase') return 'uppercase';
  }
  return undefined;
}

type Traits = {
  scheme: string;
  radius: string;
  primary: Color;
  headingFont: string;
  hasEffects: boolean;
  hasMono: boolean;
};

/** One word for the whole. */
function vibeOf({ scheme, radius, primary, headingFont, hasEffects, hasMono }: Traits): string {
  const px = Number.parseFloat(radius);
  const isSerif =
    /serif|georgia|playfair|merriweather|lora|garamond|bodoni|times|caslon|crimson|mincho|明朝|baskerville|didot|cormorant/i.test(
      headingFont,
    ) && !/sans/i.test(headingFont);
  const isVivid = chromaOf(primary) > 0.14;
  if (isSerif) return 'elegant';
  if (hasEffects) return 'futuristic';
  if (scheme === 'dark') return hasMono ? 'technical' : 'bold';
  if (px >= 16 && isVivid) return 'playful';
  if (hasMono) return 'technical';
  if (distance(primary, new Color(0, 0, 0)) < 30 || chromaOf(primary) < 0.03) return 'minimal';
  return isVivid ? 'modern' : 'calm';
}
