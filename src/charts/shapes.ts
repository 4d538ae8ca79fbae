/** What drawings are made of. Lengths are CSS pixels. */
import type { ChartLine } from './model.ts';

export type Point = { x: number; y: number };

/** A plain state. */
export type Box = Point & { path: string; name: string; width: number; height: number };

export type Label = Point & { text: string; anchor: 'start' | 'middle' };

/** Part of a line or all of it; without one it shows where a state begins. */
export type Drawn = { line?: ChartLine; points: Point[]; isArrow: boolean; label?: Label };

const charWidth = { name: 7.1, label: 5.9 };

/** About how wide a text is: the fonts of readers differ. */
export const textWidth = (text: string, kind: keyof typeof charWidth = 'name'): number =>
  Math.ceil(text.length * charWidth[kind]);
