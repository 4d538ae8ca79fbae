/**
 * What the renderer works on: the source cropped to the clip's aspect, a little larger than the frame, as Y, U
 * and V planes, and a coarse map of depth.
 */
import type { Aspect, Model } from '../../schemas/asset.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import type { SourceImage } from './image.ts';
import { createDepth, type Depth } from './render-depth.ts';
import { lumaOf, type Planes, rgbOf, toPlanes, yuvOf } from './render-planes.ts';

export type Size = { width: number; height: number };

export type Scene = {
  planes: Planes;
  /** Size of the clip's frames. */
  frame: Size;
  /** Scene pixels per frame pixel. */
  perPixel: number;
  /** Point of interest in the frame, as shares of width and height. */
  attention: { x: number; y: number };
  depth: Depth;
  /** What a picture that is still arriving fades in from, as Y, U, V. */
  fadeFrom: [y: number, u: number, v: number];
};

/**
 * Scene pixels per frame pixel. Sampling a slightly larger picture keeps its sharpness even while it moves by
 * fractions of a pixel; at 1 it would shimmer.
 */
const oversampling = 1.25;

/** Aspects outside these are cropped to them. */
const narrowest = 9 / 16;
const widest = 16 / 9;

/**
 * Pixels of a frame at most, and what its sides are multiples of. 1080 is no multiple of 16. A smaller source has
 * nothing to fill them with: its clip is as large as what is cropped from it, but no smaller than `fewestPixels`.
 */
const budgets: Record<Model, { pixels: number; step: number }> = {
  fast: { pixels: 1280 * 720, step: 16 },
  standard: { pixels: 1280 * 720, step: 16 },
  cinema: { pixels: 1920 * 1080, step: 8 },
};
const fewestPixels = 640 * 360;

/**
 * Frame size of a clip: the aspect as asked or the source's, within 9:16 and 16:9, near the source's number of
 * pixels between 230,400 and 921,600 (cinema: 2,073,600), sides multiples of 16 (8).
 */
export function clipSize(image: Size, aspect: Aspect, model: Model): Size {
  const ratio = clamp(aspectRatio(image, aspect), narrowest, widest);
  const { pixels: most, step } = budgets[model];
  const cropped = Math.min(image.width ** 2 / ratio, image.height ** 2 * ratio);
  const pixels = clamp(cropped, fewestPixels, most);
  const ideal = Math.sqrt(pixels * ratio);

  let best: Size = { width: step, height: step };
  let bestCost = Number.POSITIVE_INFINITY;
  for (let width = step; width <= ideal * 1.1; width += step) {
    const height = Math.max(step, Math.round(width / ratio / step) * step);
    // The right shape matters more than the number of pixels.
    const cost =
      3 * Math.abs(Math.log(width / height / ratio)) + Math.abs(Math.log((width * height) / pixels));
    if (cost < bestCost) {
      best = { width, height };
      bestCost = cost;
    }
  }
  return best;
}

/**
 * Decodes and crops the source around its point of interest.
 *
 * `reach` is the furthest that anything will move, in shares of the frame's width: the scene is larger than the
 * frame by that much on every side, so that no border ever enters the picture.
 *
 * @throws {EffectError} when the image cannot be decoded: see readImage.
 */
export async function createScene(
  image: SourceImage,
  wish: { plan: MotionPlan; aspect: Aspect; model: Model; reach: { shift: number; pan: number } },
  signal: AbortSignal,
): Promise<Scene> {
  const { plan, reach } = wish;
  const frame = clipSize(image, wish.aspect, wish.model);
  const backdrop = plan.palette[0] ?? '#ffffff';

  const margin = frame.width * (reach.shift * maxDepth + reach.pan);
  const width = even((frame.width + 2 * margin) * oversampling);
  const height = even((frame.height + 2 * margin) * oversampling);
  const region = coverRegion(image, width / height, plan.attention);
  const pixels = await image.pixels({ region, width, height, backdrop }, signal);
  const planes = toPlanes(pixels);

  const attention = {
    x: clamp((plan.attention.x * image.width - region.left) / region.width, 0, 1),
    y: clamp((plan.attention.y * image.height - region.top) / region.height, 0, 1),
  };
  return {
    planes,
    frame,
    perPixel: oversampling,
    attention,
    depth: createDepth(planes, attention, maxDepth),
    fadeFrom: fadeColour(plan, backdrop),
  };
}

/** Depth is measured from the point of interest, and never further than this from it. */
const maxDepth = 0.6;

/** The largest region of the wished ratio, as near to centred on the point of interest as the borders allow. */
function coverRegion(image: Size, ratio: number, attention: { x: number; y: number }) {
  const width = Math.min(image.width, image.height * ratio);
  const height = Math.min(image.height, image.width / ratio);
  return {
    width,
    height,
    left: clamp(attention.x * image.width - width / 2, 0, image.width - width),
    top: clamp(attention.y * image.height - height / 2, 0, image.height - height),
  };
}

function aspectRatio(image: Size, aspect: Aspect): number {
  if (aspect === 'source') return image.width / image.height;
  const [width = 1, height = 1] = aspect.split(':').map(Number);
  return width / height;
}

/** Cut-outs and pictures on a bright ground fade in from that ground; all others from the dark. */
function fadeColour(plan: MotionPlan, backdrop: string): [number, number, number] {
  const [r, g, b] = rgbOf(backdrop);
  const isBright = lumaOf(r, g, b) > 215;
  return plan.hasAlpha || isBright ? yuvOf(r, g, b) : yuvOf(0, 0, 0);
}

function even(value: number): number {
  return Math.ceil(value / 2) * 2;
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
