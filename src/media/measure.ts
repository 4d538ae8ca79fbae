/** Measures a picture: what is bright, colourful, flat and interesting about it. Plain numbers from few pixels. */
import type { Pixels } from './image.ts';

/** Longest side of the picture that is measured, in pixels. */
export const measuredSide = 192;

/** What the eye would say about a picture. Shares are 0 to 1. */
export type Measures = {
  /** Point of interest, as shares of width and height. */
  attention: { x: number; y: number };
  brightness: number;
  contrast: number;
  saturation: number;
  /** Near 1 for logos and screens with flat grounds, near 0 for photos. */
  flatness: number;
  /** Main colours as #rrggbb, most frequent first, 1 to 5; of a cut-out, the ground that suits it comes first. */
  palette: string[];
  /** Share of pixels that are not opaque. */
  cutOut: number;
};

/** Measures a small picture of four bytes per pixel, at most `measuredSide` pixels a side. */
export function measure(pixels: Pixels): Measures {
  const { luma, chroma, opacity } = channelsOf(pixels);
  const edges = edgesOf(luma, pixels.width, pixels.height);
  const cutOut = shareOf(opacity, (value) => value < 0.98);
  const mean = meanOf(luma);
  const colours = coloursOf(pixels);
  const palette = colours.map(({ name }) => name);
  return {
    attention: attentionOf(pixels, { luma, chroma, opacity, edges }),
    brightness: mean / 255,
    contrast: Math.min(1, Math.sqrt(meanOf(luma.map((value) => (value - mean) ** 2))) / 127.5),
    saturation: Math.min(1, meanOf(chroma) / 128),
    flatness: flatnessOf(edges),
    palette: cutOut > 0.01 ? [groundFor(luma, opacity), ...palette.slice(0, 4)] : palette,
    cutOut,
  };
}

type Channels = { luma: Float32Array; chroma: Float32Array; opacity: Float32Array };

/** Luma (0 to 255), colourfulness and opacity (0 to 1) of each pixel. What is transparent counts as white. */
function channelsOf({ data, width, height }: Pixels): Channels {
  const count = width * height;
  const channels = {
    luma: new Float32Array(count),
    chroma: new Float32Array(count),
    opacity: new Float32Array(count),
  };
  for (let i = 0; i < count; i += 1) {
    const opacity = (data[i * 4 + 3] as number) / 255;
    const ground = 255 * (1 - opacity);
    const r = (data[i * 4] as number) * opacity + ground;
    const g = (data[i * 4 + 1] as number) * opacity + ground;
    const b = (data[i * 4 + 2] as number) * opacity + ground;
    channels.luma[i] = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    channels.chroma[i] = Math.hypot(r - g, (r + g) / 2 - b);
    channels.opacity[i] = opacity;
  }
  return channels;
}

/** Difference of each pixel to its right and lower neighbours. */
function edgesOf(luma: Float32Array, width: number, height: number): Float32Array {
  return luma.map((value, at) => {
    const right = at % width === width - 1 ? value : (luma[at + 1] as number);
    const below = at >= width * (height - 1) ? value : (luma[at + width] as number);
    return Math.abs(value - right) + Math.abs(value - below);
  });
}

/** Share of the picture without any texture, beyond what photos have in skies. */
function flatnessOf(edges: Float32Array): number {
  const flat = shareOf(edges, (edge) => edge < 1.5);
  return Math.min(1, Math.max(0, (flat - 0.45) / 0.45));
}

/**
 * The middle of what stands out most: edges and colour that the borders lack, nearer to the centre rather than
 * further. The strongest of a 24 x 24 grid, softened, and its surroundings.
 */
function attentionOf(
  { width, height }: Pixels,
  { luma, chroma, opacity, edges }: Channels & { edges: Float32Array },
): { x: number; y: number } {
  const side = 24;
  const borders = { luma: borderMean(luma, width, height), chroma: borderMean(chroma, width, height) };
  const cells = new Float32Array(side * side);
  for (let at = 0; at < luma.length; at += 1) {
    const x = at % width;
    const y = Math.floor(at / width);
    const distance =
      Math.abs((luma[at] as number) - borders.luma) + 1.5 * Math.abs((chroma[at] as number) - borders.chroma);
    const weight =
      (Math.min(60, edges[at] as number) + 0.35 * Math.min(120, distance)) * (opacity[at] as number);
    const cell = Math.floor((y * side) / height) * side + Math.floor((x * side) / width);
    cells[cell] = (cells[cell] as number) + weight;
  }
  return peakOf(cells, side);
}

/** Centre of mass of what is within a third of the strongest place's strength. */
function peakOf(cells: Float32Array, side: number): { x: number; y: number } {
  const soft = cells.map((_, at) => {
    const x = at % side;
    const y = Math.floor(at / side);
    const away = Math.hypot((x + 0.5) / side - 0.5, (y + 0.5) / side - 0.5);
    return neighbourhood(cells, side, x, y) * Math.exp(-3 * away * away);
  });
  const strongest = soft.reduce((a, b) => Math.max(a, b), 0);
  let sumX = 0;
  let sumY = 0;
  let sum = 0;
  for (let at = 0; at < soft.length; at += 1) {
    const weight = Math.max(0, (soft[at] as number) - 0.72 * strongest);
    sumX += weight * (((at % side) + 0.5) / side);
    sumY += weight * ((Math.floor(at / side) + 0.5) / side);
    sum += weight;
  }
  return sum > 0 ? { x: sumX / sum, y: sumY / sum } : { x: 0.5, y: 0.5 };
}

/** Mean of the cells within two steps. */
function neighbourhood(cells: Float32Array, side: number, x: number, y: number): number {
  let sum = 0;
  let count = 0;
  for (let row = Math.max(0, y - 2); row <= Math.min(side - 1, y + 2); row += 1) {
    for (let column = Math.max(0, x - 2); column <= Math.min(side - 1, x + 2); column += 1) {
      sum += cells[row * side + column] as number;
      count += 1;
    }
  }
  return sum / count;
}

function borderMean(values: Float32Array, width: number, height: number): number {
  return meanOf(
    values.filter((_, at) => {
      const x = at % width;
      const y = Math.floor(at / width);
      return Math.min(x, width - 1 - x) < width * 0.06 || Math.min(y, height - 1 - y) < height * 0.06;
    }),
  );
}

type Colour = { name: string; count: number };

/** Main colours of the opaque pixels: the fullest boxes of a 4-bit colour cube that do not look alike. */
function coloursOf({ data }: Pixels): Colour[] {
  const boxes = new Map<number, { r: number; g: number; b: number; count: number }>();
  for (let at = 0; at < data.length; at += 4) {
    if ((data[at + 3] as number) < 128) continue;
    const [r, g, b] = [data[at] as number, data[at + 1] as number, data[at + 2] as number];
    const key = ((r >> 4) << 8) | ((g >> 4) << 4) | (b >> 4);
    const box = boxes.get(key) ?? { r: 0, g: 0, b: 0, count: 0 };
    boxes.set(key, { r: box.r + r, g: box.g + g, b: box.b + b, count: box.count + 1 });
  }
  const chosen: { r: number; g: number; b: number; count: number }[] = [];
  for (const { r, g, b, count } of [...boxes.values()].sort((one, two) => two.count - one.count)) {
    const colour = { r: r / count, g: g / count, b: b / count, count };
    if (
      chosen.every((other) => Math.hypot(other.r - colour.r, other.g - colour.g, other.b - colour.b) > 48)
    ) {
      chosen.push(colour);
    }
    if (chosen.length === 5) break;
  }
  if (chosen.length === 0) return [{ name: '#ffffff', count: 0 }];
  return chosen.map(({ r, g, b, count }) => ({ name: hex(r, g, b), count }));
}

function hex(...channels: number[]): string {
  return `#${channels.map((channel) => Math.round(channel).toString(16).padStart(2, '0')).join('')}`;
}

/** White, unless the cut-out itself is so bright that it would vanish on it. */
function groundFor(luma: Float32Array, opacity: Float32Array): string {
  const subject = luma.filter((_, at) => (opacity[at] as number) > 0.5);
  return subject.length > 0 && meanOf(subject) > 215 ? '#1c1f26' : '#ffffff';
}

function meanOf(values: Float32Array): number {
  return values.reduce((a, b) => a + b, 0) / Math.max(1, values.length);
}

function shareOf(values: Float32Array, isCounted: (value: number) => boolean): number {
  let count = 0;
  for (const value of values) if (isCounted(value)) count += 1;
  return count / Math.max(1, values.length);
}
