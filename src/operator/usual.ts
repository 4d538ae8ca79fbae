/**
 * How long the states of an asset usually take, measured on the newest runs that went well: what is stored of them
 * says when each step began and ended. Asked for at most once a minute.
 */
import { operator as limits } from '../../schemas/limits.ts';
import type { StoredFact } from '../store/actors.ts';
import type { OperatorViews } from '../store/operator-views.ts';
import type { StateInfo } from './states.ts';

/** What 95 of 100 took for a step such as `vision.describing`, in ms. */
export type Usual = ReadonlyMap<string, number>;

/** Fewer say nothing. */
const minSamples = 20;
const share = 0.95;

export function createUsual(views: Pick<OperatorViews, 'newestFacts'>, now: () => number) {
  let known: { at: number; usual: Promise<Usual> } | undefined;

  return async (): Promise<Usual> => {
    if (known && now() - known.at < limits.usualMs) return known.usual;
    const usual = views.newestFacts('asset', 'ready', limits.usualRuns).then(measure);
    known = { at: now(), usual };
    // What could not be read is asked for again.
    usual.catch(() => {
      known = undefined;
    });
    return usual;
  };
}

/** When a state is stuck, and what is usual for it; in ms. undefined where nothing is expected. */
export function expectationOf(
  { ms, stage }: StateInfo,
  usual: Usual,
): { expectedMs: number | undefined; usualMs: number | undefined } {
  const usualMs = stage === undefined ? undefined : usual.get(stage);
  if (ms === undefined || usualMs === undefined) return { expectedMs: ms, usualMs };
  const longMs = Math.max(limits.usualAtLeastMs, usualMs * limits.usualFactor);
  return { expectedMs: Math.min(ms, longMs), usualMs };
}

/** Times between the facts of runs, by step. Facts tell of starts and ends; two steps may share the time between. */
export function measure(runs: readonly StoredFact[][]): Usual {
  const samples = new Map<string, number[]>();
  for (const facts of runs) {
    for (const [steps, ms] of stepsOf(facts)) {
      for (const step of steps) samples.set(step, [...(samples.get(step) ?? []), ms]);
    }
  }
  const usual = new Map<string, number>();
  for (const [step, all] of samples) {
    if (all.length < minSamples) continue;
    all.sort((a, b) => a - b);
    usual.set(step, all[Math.floor((all.length - 1) * share)] ?? 0);
  }
  return usual;
}

function* stepsOf(facts: readonly StoredFact[]): Generator<[steps: string[], ms: number]> {
  const begin = facts.findLastIndex(({ event }) => event === 'queued');
  let before = facts[begin];
  for (const fact of facts.slice(begin + 1)) {
    const steps = stepsBefore(fact);
    if (before && steps.length > 0) yield [steps, fact.ts - before.ts];
    before = fact;
  }
}

/** The steps that end with a fact. After a failure times are those of a repetition, and say nothing. */
function stepsBefore({ event, stage, attempt }: StoredFact): string[] {
  if (attempt !== 1) return [];
  const name = String(stage);
  if (event === 'vision_started') return ['source.fetching', 'vision.asked'];
  if (event === 'vision_completed') return ['vision.describing'];
  if (event === 'stage_started') return name === 'merge' ? ['merge.asked'] : [`${name}.submitting`];
  if (event === 'stage_completed')
    return name === 'merge' ? ['merge.merging'] : [`${name}.waiting`, `${name}.copying`];
  return event === 'store_write_completed' ? ['storing.writing'] : [];
}
