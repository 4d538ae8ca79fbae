/**
 * What a run went through, made of its events: the states of its machine one after another, and the bars of its
 * timeline.
 *
 * Events tell of what was stored, not of every transition: between `queued` and `vision_started` the image is fetched,
 * and after a completed stage the next one waits for a worker.
 */
import type { Mode } from '../../../schemas/asset.ts';
import type { AssetEvent, EventName, Stage } from '../../../schemas/events.ts';

/** A state from one event to the next. `toTs` is undefined for the last one. */
export type Span = {
  /** Path in the machine. */
  state: string;
  fromTs: number;
  toTs: number | undefined;
  attempt: number;
  /** Somebody works on it; else it waits, for a worker or for the next attempt. */
  isWork: boolean;
  /** What began it. */
  event: EventName;
  /** How it ended, when badly. */
  error: string | undefined;
};

/** The spans of one run, oldest first. */
export function spansOf(events: readonly AssetEvent[], run: number, mode: Mode): Span[] {
  const spans: Span[] = [];
  let state = 'new';
  for (const event of events) {
    if (event.run !== run) continue;
    const last = spans.at(-1);
    const next = stateAfter(state, event, mode);
    const error = errorOf(event);
    const isOfNext = event.event === 'vision_failed' && next !== undefined;
    if (last && !isOfNext) last.error ??= error;
    if (next === undefined) continue;
    if (last) close(spans, last, event.ts);
    spans.push({
      state: next,
      fromTs: event.ts,
      toTs: undefined,
      attempt: event.attempt,
      isWork: isWork(next),
      event: event.event,
      error: isOfNext ? error : undefined,
    });
    splitWait(spans, event);
    state = next;
  }
  return spans;
}

/** The machine's state after an event; undefined when it stays where it is. */
export function stateAfter(state: string, event: AssetEvent, mode: Mode): string | undefined {
  switch (event.event) {
    case 'queued':
      return 'pending.source.fetching';
    case 'vision_started':
      return 'pending.vision.describing';
    case 'vision_failed':
      // Fetching fails without an event of its own: a worker had been asked to look already.
      return state.startsWith('pending.source') ? 'pending.vision.asked' : undefined;
    case 'vision_completed':
      return mode === 'loop' ? 'pending.stage1.submitting' : 'pending.single.submitting';
    case 'stage_started':
      return event.stage === 'merge' ? 'pending.merge.merging' : `pending.${event.stage}.waiting`;
    case 'stage_completed':
      return afterStage[event.stage ?? 'merge'];
    case 'retry_scheduled':
      return `pending.${stageOf(state, event.stage)}.retrying`;
    case 'ready':
    case 'failed':
    case 'cancelled':
      return event.event;
    default:
      return undefined;
  }
}

const afterStage: Record<Stage, string | undefined> = {
  vision: undefined,
  stage1: 'pending.stage2.submitting',
  stage2: 'pending.merge.asked',
  merge: 'pending.storing.writing',
  single: 'pending.storing.writing',
  store_write: undefined,
};

/** Events name fetching the source `vision`, and storing `store_write`. */
function stageOf(state: string, stage: Stage | undefined): string {
  if (stage === 'vision' && state.startsWith('pending.source')) return 'source';
  if (stage === 'store_write') return 'storing';
  return stage ?? state.split('.')[1] ?? 'source';
}

const errorOf = ({ event, error_code: code }: AssetEvent): string | undefined =>
  event === 'vision_failed' || event === 'stage_failed' || event === 'failed' ? (code ?? event) : undefined;

const working = new Set(['describing', 'waiting', 'copying', 'merging', 'writing', 'fetching']);
const isWork = (state: string): boolean => working.has(state.split('.').at(-1) ?? '');

const firstOf: Record<string, string> = {
  source: 'fetching',
  vision: 'asked',
  merge: 'asked',
  storing: 'writing',
};

/** After its wait an attempt begins, which no event tells: the wait ends by the clock. */
function splitWait(spans: Span[], { next_at_ms: nextTs }: AssetEvent): void {
  const last = spans.at(-1);
  if (!last || nextTs === undefined) return;
  const stage = last.state.split('.')[1] ?? '';
  const state = `pending.${stage}.${firstOf[stage] ?? 'submitting'}`;
  const fromTs = Math.max(nextTs, last.fromTs);
  last.toTs = fromTs;
  spans.push({ ...last, state, fromTs, toTs: undefined, isWork: isWork(state) });
}

/** An event may come before the wait was over: the retry was hurried, or the run ended. */
function close(spans: Span[], last: Span, ts: number): void {
  if (last.fromTs > ts) {
    spans.pop();
    const before = spans.at(-1);
    if (before) before.toTs = ts;
    return;
  }
  last.toTs = ts;
}

/** Stages of a run in their order, for the rows of the timeline. */
export const stagesOf = (mode: Mode): string[] =>
  mode === 'loop'
    ? ['source', 'vision', 'stage1', 'stage2', 'merge', 'storing']
    : ['source', 'vision', 'single', 'storing'];

export const stageNames: Record<string, string> = {
  source: 'Get the image',
  vision: 'Look at it',
  stage1: 'The way out',
  stage2: 'The way back',
  single: 'One clip',
  merge: 'Join both',
  storing: 'Keep it',
};

/** Those that have begun: while a run waits for its next attempt, that one is known and still to come. */
export function begunBy(spans: readonly Span[], ts: number): readonly Span[] {
  const begun = spans.filter(({ fromTs }) => fromTs <= ts);
  // A clock that is a moment behind the service's has the first of them to come.
  return begun.length > 0 ? begun : spans.slice(0, 1);
}

/** The state at a time. */
export function spanAt(spans: readonly Span[], ts: number): Span | undefined {
  return spans.findLast((span) => span.fromTs <= ts) ?? spans[0];
}
