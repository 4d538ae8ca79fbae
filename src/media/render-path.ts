/**
 * Where the camera stands in every frame: the three modes as paths, pure numbers without pixels.
 *
 *   loop, native      a closed orbit; frame N would equal frame 0
 *   loop, crossfade   a steady drift; its last half second dissolves into its first frames
 *   animate-in        from further away to rest, ease-out, at rest for the last 15 %
 *   animate-on-hover  rest, out to a peak at 45 %, back to rest
 */
import type { LoopMode, Mode, Motion } from '../../schemas/asset.ts';
import { asset } from '../../schemas/limits.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import type { Segment } from '../providers/provider.ts';

export const framesPerSecond = 30;

/** Length of the dissolve that closes a crossfade loop, in frames. */
export const dissolveFrames = 15;

/** The most that taste allows: shift in shares of the frame's width, zoom in shares of its size, light in luma. */
const most = { shift: 0.024, zoom: 0.075, light: 11 };

/** Share of `most` that each motion may use, whatever the plan asks for. */
const cap: Record<Motion, number> = { subtle: 0.55, medium: 0.8, kinetic: 1 };

/** An animation that starts away from rest may begin this much further out. */
const entry = 1.3;

export type PathSpec = {
  plan: MotionPlan;
  motion: Motion;
  mode: Mode;
  segment: Segment;
  loopMode: LoopMode;
  seconds: number;
  seed: number;
};

/** The camera in one frame. Lengths in shares of the frame's width. */
export type Pose = {
  /** Shift of what lies in front of or behind the point of interest, per unit of depth. */
  shiftX: number;
  shiftY: number;
  /** Shift of everything. */
  panX: number;
  panY: number;
  /** At least 1. */
  zoom: number;
  /** Where the band of light is, from 0 (off one side) to 1 (off the other). */
  sweep: number;
  /** How much of the picture is there: 1 is all of it, less lets the fade colour through. */
  presence: number;
  /** Place in the cycle of the motes, 0 to 1. */
  cycle: number;
};

/** One frame to draw: a pose, or a pose that dissolves into another by `share`. */
export type FramePose = { pose: Pose; into?: { pose: Pose; share: number } };

export type Path = {
  /** Number of frames of this clip. */
  frames: number;
  /** The largest shift and pan of any frame, in shares of the frame's width. */
  reach: { shift: number; pan: number };
  /** Luma levels that the band of light adds at most. */
  light: number;
  /** `index` counts from 0 within the clip. */
  at(index: number): FramePose;
};

/** The frames that a clip with these options has: 30 a second, and the dissolve's on top for loops to be crossfaded. */
export function createPath(spec: PathSpec): Path {
  const strength = strengths(spec);
  const wanted = Math.round(clamp(spec.seconds, asset.minSeconds, asset.maxSeconds) * framesPerSecond);
  const closes = spec.mode === 'loop' && spec.loopMode === 'crossfade';
  const drawn = closes ? wanted + dissolveFrames : wanted;
  const { first, frames } = cut(spec, closes, wanted, drawn);
  const poseOf = (frame: number) => poses[poseKind(spec)](frame, drawn, strength);

  return {
    frames,
    reach: { shift: strength.shift * entry, pan: strength.pan * entry },
    light: strength.light,
    at(index) {
      const frame = first + index;
      if (!closes || spec.segment !== 'whole') return { pose: poseOf(frame) };
      const share = (frame + 1 - wanted) / (dissolveFrames + 1);
      return share <= 0
        ? { pose: poseOf(frame) }
        : { pose: poseOf(frame), into: { pose: poseOf(frame - wanted), share } };
    },
  };
}

type Strength = {
  shift: number;
  pan: number;
  zoom: number;
  light: number;
  heading: number;
  turn: number;
  zoomOut: boolean;
};

function strengths({ plan, motion, seed }: PathSpec): Strength {
  const limit = cap[motion];
  const shift = most.shift * Math.min(plan.parallax, limit);
  return {
    shift,
    pan: shift * 0.22,
    zoom: most.zoom * Math.min(plan.zoom, limit),
    light: most.light * Math.min(plan.light, limit),
    heading: plan.heading,
    // The seed decides which way round an orbit goes.
    turn: seed % 2 === 0 ? 1 : -1,
    zoomOut: plan.zoomOut === true,
  };
}

/**
 * A loop comes in two halves. The whole of a crossfade loop starts after the frames that it dissolves into,
 * which is where the merge of the two halves starts it too.
 */
function cut({ mode, segment }: PathSpec, closes: boolean, wanted: number, drawn: number) {
  if (mode !== 'loop' || segment === 'whole') return { first: closes ? dissolveFrames : 0, frames: wanted };
  const half = Math.ceil(drawn / 2);
  return segment === 'out' ? { first: 0, frames: half } : { first: half, frames: drawn - half };
}

type PoseKind = 'orbit' | 'drift' | 'arrive' | 'visit';

function poseKind({ mode, loopMode }: PathSpec): PoseKind {
  if (mode === 'animate-in') return 'arrive';
  if (mode === 'animate-on-hover') return 'visit';
  return loopMode === 'crossfade' ? 'drift' : 'orbit';
}

const poses: Record<PoseKind, (frame: number, frames: number, strength: Strength) => Pose> = {
  orbit(frame, frames, strength) {
    const angle = (frame / frames) * 2 * Math.PI;
    const away = (1 - Math.cos(angle)) / 2;
    return {
      // A flat ellipse along the heading: the drift reads as one direction, and never stops dead.
      ...shifted(strength, Math.sin(angle), strength.turn * 0.5 * Math.cos(angle)),
      zoom: 1 + strength.zoom * (strength.zoomOut ? 1 - away : away),
      sweep: frame / frames,
      presence: 1,
      cycle: frame / frames,
    };
  },
  drift(frame, frames, strength) {
    const share = frame / (frames - 1);
    const along = strength.zoomOut ? 1 - share : share;
    return {
      ...shifted(strength, 0.7 * (2 * share - 1), 0),
      zoom: (1 + 0.8 * strength.zoom) ** along,
      // The light is off the picture wherever the dissolve shows two frames at once.
      sweep: clamp((frame - dissolveFrames) / (frames - 2 * dissolveFrames), 0, 1),
      presence: 1,
      cycle: frame / (frames - dissolveFrames),
    };
  },
  arrive(frame, frames, strength) {
    const share = Math.min(1, frame / (frames - 1) / 0.85);
    const left = entry * (1 - settle(share));
    return {
      ...shifted(strength, -left, 0),
      zoom: 1 + strength.zoom * left,
      sweep: smooth(clamp(share * 1.05, 0, 1)),
      presence: 0.6 + 0.4 * smooth(clamp(share / 0.5, 0, 1)),
      cycle: frame / frames,
    };
  },
  visit(frame, frames, strength) {
    const share = frame / (frames - 1);
    const out = share < 0.45 ? smooth(share / 0.45) : smooth((1 - share) / 0.55);
    return {
      ...shifted(strength, out, 0),
      zoom: 1 + strength.zoom * out,
      sweep: share,
      presence: 1,
      cycle: frame / frames,
    };
  },
};

function shifted({ shift, pan, heading }: Strength, along: number, across: number) {
  const x = along * Math.cos(heading) - across * Math.sin(heading);
  const y = along * Math.sin(heading) + across * Math.cos(heading);
  return { shiftX: shift * x, shiftY: shift * y, panX: pan * x, panY: pan * y };
}

/** Quartic ease-out with a short ramp at the start, so that the picture does not jerk into motion. */
function settle(share: number): number {
  const ramp = 0.08;
  const travelled = share < ramp ? (share * share) / (2 * ramp) : share - ramp / 2;
  return 1 - (1 - travelled / (1 - ramp / 2)) ** 4;
}

/** 0 to 1 with no speed and no acceleration at either end. */
function smooth(share: number): number {
  return share * share * share * (share * (share * 6 - 15) + 10);
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
