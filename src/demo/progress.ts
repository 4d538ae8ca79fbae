/** The live line of the demo: a small store that events change, and the text it is drawn as. */
import { createStore } from '@xstate/store';
import type { AssetEvent } from '../../schemas/events.ts';

type Stage = { name: string; state: 'running' | 'done' | 'retrying'; ms: number };

export function createProgress() {
  return createStore({
    context: { stages: [] as Stage[], ended: null as AssetEvent | null },
    on: {
      event: (context, { event }: { event: AssetEvent }) => ({
        stages: change(context.stages, event),
        ended:
          event.event === 'ready' || event.event === 'failed' || event.event === 'cancelled'
            ? event
            : context.ended,
      }),
    },
  });
}

function change(stages: Stage[], { event, stage, latency_ms = 0 }: AssetEvent): Stage[] {
  if (stage === undefined) return stages;
  const others = stages.filter(({ name }) => name !== stage);
  if (event.endsWith('_started')) return [...others, { name: stage, state: 'running', ms: 0 }];
  if (event.endsWith('_completed')) return [...others, { name: stage, state: 'done', ms: latency_ms }];
  if (event === 'retry_scheduled') return [...others, { name: stage, state: 'retrying', ms: 0 }];
  return stages;
}

/** One line: `vision 0.2 s · stage1 2.1 s · stage2 …` */
export function drawProgress(stages: readonly Stage[], frame: number): string {
  const spinner = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';
  const parts = stages.map(({ name, state, ms }) => {
    if (state === 'done') return `${name} ${(ms / 1_000).toFixed(1)} s`;
    return state === 'retrying' ? `${name} again soon` : `${name} ${spinner[frame % spinner.length]}`;
  });
  return parts.length === 0 ? `queued ${spinner[frame % spinner.length]}` : parts.join(' · ');
}
