/**
 * What goes wrong in a history, and how often: drawn from its seed, so that some histories have one kind of trouble
 * in plenty and others a little of everything.
 */
import type { World } from './world.ts';

/** Share of the occasions at which each kind strikes, where a history has it. */
const rates = {
  /** The store refuses, half obeys, or obeys and does not say so. */
  storeRefused: 0.03,
  storeHalf: 0.03,
  storeUnanswered: 0.03,
  storeSlow: 0.03,
  /** A bulk write takes its time between two of its documents. */
  storeTorn: 0.1,
  publishLost: 0.015,
  publishUnconfirmed: 0.015,
  publishLate: 0.015,
  /** A message is stored twice although its id is known. */
  duplicated: 0.045,
  delayed: 0.05,
  heartbeatLost: 0.1,
  workAgain: 0.03,
  workReordered: 0.3,
  /** Of processes, and of all streams: how often a second. */
  crash: 0.3,
  stop: 0.15,
  pause: 0.3,
  clockJump: 0.3,
  cut: 0.15,
  /** It hears nobody but itself: two owners are alive. */
  deaf: 0.25,
  streamsLost: 0.15,
} as const;

export type FaultKind = keyof typeof rates;

export const faultKinds = Object.keys(rates) as FaultKind[];

/** Share of the histories that have a kind at all. */
const share = 0.4;

export class Faults {
  readonly counts: Partial<Record<FaultKind, number>> = {};
  /** From now on everything goes well. */
  isCalm = false;
  private readonly world: World;
  private readonly present: Partial<Record<FaultKind, number>> = {};

  constructor(world: World, only?: readonly FaultKind[]) {
    this.world = world;
    for (const kind of faultKinds) {
      const isPresent = world.chance(share);
      const strength = 0.3 + world.random() * 2;
      if (only ? only.includes(kind) : isPresent) this.present[kind] = rates[kind] * strength;
    }
  }

  has(kind: FaultKind): boolean {
    return this.present[kind] !== undefined;
  }

  strikes(kind: FaultKind): boolean {
    const rate = this.present[kind];
    if (rate === undefined || this.isCalm || !this.world.chance(rate)) return false;
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    return true;
  }
}
