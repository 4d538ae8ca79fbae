/**
 * Vision without a model: measures the source and decides how it should move.
 *
 * The plan follows the picture (where it is interesting, how bright, how flat), the wished motion scales it, and
 * words of a prompt override steer it. Costs no call, gives the same answer for the same bytes.
 */
import type { Motion } from '../../schemas/asset.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import { readImage } from '../media/image.ts';
import { type Measures, measure, measuredSide } from '../media/measure.ts';
import { createRandom } from '../random.ts';
import type { VisionProvider, VisionRequest, VisionResult } from './provider.ts';

/** Makes the local vision provider. It holds nothing and may be shared. */
export function createLocalVision(): VisionProvider {
  return {
    name: 'local',
    async describe(request, signal) {
      const bytes = await request.image.read(signal);
      const image = await readImage(bytes, signal);
      const small = await image.thumbnail(measuredSide, signal);
      return planMotion(measure(small), image, request);
    },
  };
}

function planMotion(
  measures: Measures,
  { width, height, hasAlpha }: { width: number; height: number; hasAlpha: boolean },
  { motion, promptOverride, seed }: VisionRequest,
): VisionResult {
  const { attention, brightness, contrast, saturation, palette } = measures;
  const isCutOut = hasAlpha && measures.cutOut > 0.01;
  const strength = strengths[motion];
  // Straight edges on flat ground show the slightest bend: less depth and more of the plain camera move.
  const graphic = Math.max(measures.flatness, isCutOut ? 0.55 : 0);

  const plan: MotionPlan = {
    width,
    height,
    attention: { x: round(attention.x), y: round(attention.y) },
    brightness: round(brightness),
    contrast: round(contrast),
    saturation: round(saturation),
    palette,
    hasAlpha: isCutOut,
    parallax: round(strength.parallax * (1 - 0.6 * graphic)),
    zoom: round(strength.zoom * (1 - 0.2 * graphic)),
    light: round(strength.light * (1 - 0.5 * graphic) * (brightness > 0.85 ? 0.5 : 1)),
    motes: round(
      motion === 'kinetic' && !isCutOut ? (1 - measures.flatness) * Math.min(1, 1.35 - brightness) : 0,
    ),
    heading: round(headingFrom(attention, seed)),
  };
  if (promptOverride?.trim()) return { prompt: promptOverride.trim(), plan: steer(plan, promptOverride) };
  return { prompt: describe(plan, motion), plan };
}

/** Strengths of each motion on a plain photo: see MotionPlan. */
const strengths: Record<Motion, { parallax: number; zoom: number; light: number }> = {
  subtle: { parallax: 0.5, zoom: 0.5, light: 0.55 },
  medium: { parallax: 0.75, zoom: 0.75, light: 0.75 },
  kinetic: { parallax: 1, zoom: 1, light: 0.95 },
};

/** The camera drifts towards the wider part of the picture; the seed picks among directions that look alike. */
function headingFrom(attention: { x: number; y: number }, seed: number): number {
  const random = createRandom(seed);
  const away = attention.x > 0.55 ? Math.PI : attention.x < 0.45 ? 0 : random() < 0.5 ? 0 : Math.PI;
  // Mostly sideways: a camera on rails, not a lift.
  const tilt = (random() - 0.5) * 0.7;
  return away === 0 ? tilt : Math.PI - tilt;
}

/** The motion in words, for a remote model and for whoever reads the timeline. */
function describe(plan: MotionPlan, motion: Motion): string {
  const pace = { subtle: 'Very slow', medium: 'Slow', kinetic: 'Flowing' }[motion];
  const zoom = plan.zoom > 0.3 ? `, easing in on the ${placeName(plan.attention)}` : '';
  const depth =
    plan.parallax > 0.3 ? 'gentle parallax between foreground and background' : 'the subject still and sharp';
  const light = plan.light > 0.25 ? ` A soft band of ${lightName(plan)} light passes over the scene.` : '';
  const motes = plan.motes > 0.25 ? ' A few specks of dust hover in the air.' : '';
  return (
    `${pace} camera drift toward the ${directionName(plan.heading)}${zoom}, with ${depth}.${light}${motes}` +
    ' No cuts, no morphing, straight lines stay straight.'
  );
}

function directionName(heading: number): string {
  const names = ['right', 'lower right', 'bottom', 'lower left', 'left', 'upper left', 'top', 'upper right'];
  const turn = (heading / (2 * Math.PI)) * names.length;
  return names[((Math.round(turn) % names.length) + names.length) % names.length] ?? 'right';
}

function placeName({ x, y }: { x: number; y: number }): string {
  const column = x < 0.38 ? 'left' : x > 0.62 ? 'right' : '';
  const row = y < 0.38 ? 'upper' : y > 0.62 ? 'lower' : '';
  if (row && column) return `${row} ${column}`;
  if (row) return `${row} part`;
  return column ? `${column} side` : 'centre';
}

function lightName({ palette, brightness }: MotionPlan): string {
  const value = Number.parseInt((palette[0] ?? '#808080').slice(1), 16);
  const warmth = ((value >> 16) & 255) - (value & 255);
  if (warmth > 20) return 'warm';
  return warmth < -20 || brightness < 0.25 ? 'cool' : 'clear';
}

/** Words of a prompt override and what they change. Later rows win over earlier ones. */
const steering: readonly { words: RegExp; change: (plan: MotionPlan) => Partial<MotionPlan> }[] = [
  { words: /\bright(wards?)?\b/, change: () => ({ heading: 0 }) },
  { words: /\bleft(wards?)?\b/, change: () => ({ heading: round(Math.PI) }) },
  { words: /\b(up|upwards?|rise|rising)\b/, change: () => ({ heading: round(-Math.PI / 2) }) },
  { words: /\b(down|downwards?|sink|sinking)\b/, change: () => ({ heading: round(Math.PI / 2) }) },
  {
    words: /\b(pan|drift|slide|parallax|orbit|depth)/,
    change: (plan) => ({ parallax: stronger(plan.parallax) }),
  },
  {
    words: /\b(zoom|push in|dolly|closer)/,
    change: (plan) => ({ zoom: stronger(plan.zoom), zoomOut: false }),
  },
  { words: /\b(zoom(ing)? out|pull(ing)? (back|out|away))\b/, change: () => ({ zoomOut: true }) },
  { words: /\b(light|lights|sun|sunlight|sunbeams?|shine|shimmer|glow|glint)/, change: () => ({ light: 1 }) },
  {
    words: /\b(dust|particles?|motes?|sparkles?|fireflies)\b/,
    change: () => ({ motes: 1, moteKind: 'dust' }),
  },
  { words: /\bsnow/, change: () => ({ motes: 1, moteKind: 'snow' }) },
  { words: /\b(still|static|locked|minimal|barely)\b/, change: still },
  { words: /\b(no|without) (zoom|zooming)\b/, change: () => ({ zoom: 0 }) },
  { words: /\b(no|without) (light|lights|shine|glow)\b/, change: () => ({ light: 0 }) },
  { words: /\b(no|without) (dust|particles?|motes?|snow|sparkles?)\b/, change: () => ({ motes: 0 }) },
];

/** Changes a plan as the words of a prompt ask; words that it does not know change nothing. */
function steer(plan: MotionPlan, prompt: string): MotionPlan {
  const text = prompt.toLowerCase();
  let steered = plan;
  for (const { words, change } of steering) {
    if (words.test(text)) steered = { ...steered, ...change(steered) };
  }
  // A colour in the words is the ground of a cut-out.
  const colour = plan.hasAlpha ? text.match(/#[0-9a-f]{6}\b/)?.[0] : undefined;
  return colour ? { ...steered, palette: [colour, ...steered.palette.slice(1)] } : steered;
}

function stronger(share: number): number {
  return round(Math.min(1, share * 1.4 + 0.1));
}

function still({ parallax, zoom }: MotionPlan): Partial<MotionPlan> {
  return { parallax: round(parallax * 0.15), zoom: round(zoom * 0.15) };
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
