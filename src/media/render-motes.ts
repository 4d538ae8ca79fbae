/** Motes: specks of dust that hover in the light, or snow that falls. Every life starts and ends unseen, so a loop stays closed. */
import type { MotionPlan } from '../../schemas/motion.ts';
import { createRandom } from '../random.ts';
import type { Frame } from './render-warp.ts';

/** Most motes in a frame, at full strength. */
const most = { dust: 26, snow: 90 };

type Mote = {
  /** Where it is at the start of its life, and how far it goes, in shares of the frame's width and height. */
  x: number;
  y: number;
  goX: number;
  goY: number;
  /** Radius in shares of the frame's width. */
  radius: number;
  /** Share of white that it mixes in at its brightest. */
  opacity: number;
  /** Where in the cycle its life begins. */
  phase: number;
  /** Sideways swing, in shares of the frame's width. */
  swing: number;
};

/**
 * Makes the function that draws the motes of a clip. The same plan and seed give the same motes; `cycle` 0 and 1
 * are the same moment.
 */
export function createMotes(plan: MotionPlan, seed: number): (frame: Frame, cycle: number) => void {
  const kind = plan.moteKind ?? 'dust';
  const random = createRandom(seed);
  const count = Math.round(most[kind] * plan.motes);
  const motes = Array.from({ length: count }, () => (kind === 'snow' ? snowflake(random) : speck(random)));

  return (frame, cycle) => {
    for (const mote of motes) drawMote(frame, mote, (cycle + mote.phase) % 1);
  };
}

function speck(random: () => number): Mote {
  const near = random() ** 2;
  return {
    x: random(),
    y: random(),
    goX: (random() - 0.5) * 0.05,
    goY: -0.02 - 0.05 * random(),
    radius: 0.0011 + 0.0028 * near,
    opacity: 0.3 - 0.16 * near,
    phase: random(),
    swing: 0.006 * random(),
  };
}

function snowflake(random: () => number): Mote {
  const near = random() ** 2;
  return {
    x: random(),
    y: random() * 0.9 - 0.15,
    goX: (random() - 0.5) * 0.06,
    goY: 0.25 + 0.3 * near,
    radius: 0.0013 + 0.0034 * near,
    opacity: 0.7 - 0.3 * near,
    phase: random(),
    swing: 0.012 * random(),
  };
}

function drawMote({ y, width, height }: Frame, mote: Mote, life: number): void {
  const centreX = (mote.x + mote.goX * life + mote.swing * Math.sin(2 * Math.PI * life)) * width;
  const centreY = (mote.y + mote.goY * life) * height;
  const radius = Math.max(1.2, mote.radius * width);
  const opacity = mote.opacity * Math.sin(Math.PI * life) ** 2;

  const left = Math.max(0, Math.floor(centreX - radius));
  const right = Math.min(width - 1, Math.ceil(centreX + radius));
  const bottom = Math.min(height - 1, Math.ceil(centreY + radius));
  for (let row = Math.max(0, Math.floor(centreY - radius)); row <= bottom; row += 1) {
    for (let column = left; column <= right; column += 1) {
      const away = ((column - centreX) ** 2 + (row - centreY) ** 2) / (radius * radius);
      if (away >= 1) continue;
      const at = row * width + column;
      const luma = y[at] as number;
      y[at] = luma + (235 - Math.min(235, luma)) * opacity * (1 - away) * (1 - away);
    }
  }
}
