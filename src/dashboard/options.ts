/** What can be chosen of an animation, in words. */
import type { Aspect, Mode, Motion } from '../../schemas/asset.ts';
import { settings } from './settings.ts';
import type { Choice } from './ui/field.tsx';

export const motions: readonly Choice<Motion>[] = [
  { value: 'subtle', label: 'Subtle' },
  { value: 'medium', label: 'Medium' },
  { value: 'kinetic', label: 'Kinetic' },
];

export const modes: readonly Choice<Mode>[] = [
  { value: 'loop', label: 'Loop' },
  { value: 'animate-in', label: 'Animate in' },
  { value: 'animate-on-hover', label: 'On hover' },
];

export const aspects: readonly Choice<Aspect>[] = [
  { value: 'source', label: 'As the image' },
  { value: '1:1', label: '1:1' },
  { value: '16:9', label: '16:9' },
  { value: '9:16', label: '9:16' },
  { value: '4:3', label: '4:3' },
  { value: '3:4', label: '3:4' },
];

export const secondsChoices: readonly Choice<string>[] = Array.from(
  { length: settings.limits.maxSeconds - settings.limits.minSeconds + 1 },
  (_, index) => {
    const seconds = settings.limits.minSeconds + index;
    return { value: String(seconds), label: `${seconds} seconds` };
  },
);
