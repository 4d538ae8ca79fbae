/** Runs histories one after the other, and adds up what they have met. */
import { type FaultKind, faultKinds } from './faults.ts';
import { type Bug, type History, runHistory } from './history.ts';

export type RunOptions = {
  /** Seeds `from`, `from + step`, … while `until` has not come (ms of the monotonic clock) and fewer than `seeds` are done. */
  from: number;
  step: number;
  seeds: number;
  until: number;
  bug?: Bug;
};

export type Summary = {
  histories: number;
  steps: number;
  virtualMs: number;
  faults: Partial<Record<FaultKind, number>>;
  /** The first that broke an invariant: nothing ran after it. */
  failed: History | undefined;
};

export async function runHistories({ from, step, seeds, until, bug }: RunOptions): Promise<Summary> {
  const summary = emptySummary();
  for (let n = 0; n < seeds && performance.now() < until; n += 1) {
    const history = await runHistory({ seed: from + n * step, bug });
    add(summary, { ...history, histories: 1, failed: history.violation === undefined ? undefined : history });
    if (summary.failed) return summary;
  }
  return summary;
}

export function emptySummary(): Summary {
  return { histories: 0, steps: 0, virtualMs: 0, faults: {}, failed: undefined };
}

export function add(summary: Summary, { histories, steps, virtualMs, faults, failed }: Summary): void {
  summary.histories += histories;
  summary.steps += steps;
  summary.virtualMs += virtualMs;
  summary.failed ??= failed;
  for (const kind of faultKinds) {
    const count = faults[kind];
    if (count !== undefined) summary.faults[kind] = (summary.faults[kind] ?? 0) + count;
  }
}

/** What to type to see a history again. */
export function commandFor(seed: number, bug?: Bug): string {
  return `npm run simulate -- --from ${seed} --seeds 1 --trace${bug ? ` --bug ${bug}` : ''}`;
}
