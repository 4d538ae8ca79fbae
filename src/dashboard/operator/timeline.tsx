/**
 * One run to scale: a row for each stage, waiting hatched and working solid, each attempt a piece of its own. Made of
 * the facts that the machine has told, so it shows what was and nothing else; what is under way grows.
 */
import type { HistoryEvent, MachinePrediction } from '../../../schemas/operator-console.ts';
import { useNow } from '../clock.ts';
import { formatDuration } from '../ui/value.tsx';

type Piece = { from: number; to: number | undefined; kind: 'wait' | 'work' | 'failed'; text: string };
type Lane = { stage: string; pieces: Piece[] };

export function Timeline(props: {
  history: readonly HistoryEvent[];
  predictions: readonly MachinePrediction[];
  isActive: boolean;
}) {
  const live = useNow(1_000);
  const run = lastRun(props.history);
  const [first] = run;
  const last = run.at(-1);
  if (!first || !last) return <p class="note">Nothing has been told of it yet.</p>;
  const lanes = lanesOf(run, props.isActive);
  const end = props.isActive ? Math.max(live, last.ts) : last.ts;
  const length = Math.max(1, end - first.ts);
  const share = (ts: number) => (100 * (ts - first.ts)) / length;
  return (
    <figure class="op-timeline">
      <figcaption class="note">
        Run {String(first['run'])}, {formatDuration(length)} from the request to{' '}
        {props.isActive ? 'now' : 'its end'}.
      </figcaption>
      <ul>
        {lanes.map(({ stage, pieces }) => (
          <li key={stage}>
            <span class="op-lane-name">
              {stage}
              {costOf(stage, props.predictions, Number(first['run']))}
            </span>
            <span class="op-lane">
              {pieces.map((piece) => {
                const to = piece.to ?? end;
                const text = `${piece.text}: ${formatDuration(to - piece.from)}`;
                return (
                  <span
                    key={`${piece.from}-${piece.kind}`}
                    class={`op-piece ${piece.kind}`}
                    data-live={piece.to === undefined || undefined}
                    style={{
                      left: `${share(piece.from)}%`,
                      width: `${Math.max(0.4, share(to) - share(piece.from))}%`,
                    }}
                    title={text}
                  >
                    <span class="unseen">{text}</span>
                  </span>
                );
              })}
            </span>
            <span class="number note">{formatDuration(durationOf(pieces, end))}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function lastRun(history: readonly HistoryEvent[]): HistoryEvent[] {
  const begin = history.findLastIndex(({ event }) => event === 'queued');
  return history.slice(Math.max(0, begin));
}

function costOf(stage: string, predictions: readonly MachinePrediction[], run: number) {
  const own = predictions.filter((one) => one.run === run && one.stage === stage);
  if (own.length === 0) return null;
  const micros = own.reduce((sum, { cost_micros }) => sum + (cost_micros ?? 0), 0);
  return (
    <span class="note op-block">
      {own.map(({ provider, prediction_id: id }) => `${provider} ${id ?? 'not told'}`).join(', ')}
      {micros > 0 && `, $${(micros / 1_000_000).toFixed(3)}`}
    </span>
  );
}

function durationOf(pieces: readonly Piece[], end: number): number {
  return pieces.reduce((sum, { from, to = end }) => sum + to - from, 0);
}

/** What the time before a fact was: of which stage, and whether somebody worked. */
type Before = { stage: string; kind: Piece['kind']; text: string };

function lanesOf(run: readonly HistoryEvent[], isActive: boolean): Lane[] {
  const lanes = new Map<string, Piece[]>();
  const add = ({ stage, kind, text }: Before, from: number, to: number | undefined) => {
    const pieces = lanes.get(stage) ?? [];
    if (to === undefined || to > from) lanes.set(stage, [...pieces, { from, to, kind, text }]);
  };
  let before = run[0];
  for (const fact of run.slice(1)) {
    const what = timeBefore(fact, before);
    if (before && what) add(what, before.ts, fact.ts);
    before = fact;
  }
  if (isActive && before) add(timeAfter(before), before.ts, undefined);
  return [...lanes].map(([stage, pieces]) => ({ stage, pieces }));
}

function timeBefore(fact: HistoryEvent, before: HistoryEvent | undefined): Before | undefined {
  const { event } = fact;
  const stage = String(fact['stage'] ?? before?.['stage'] ?? 'source');
  const attempt = `attempt ${fact['attempt'] ?? 1}`;
  if (event.startsWith('webhook_')) return { stage: 'delivery', kind: 'wait', text: event };
  if (event === 'vision_started')
    return before?.event === 'retry_scheduled'
      ? { stage, kind: 'wait', text: `waiting for ${attempt}` }
      : { stage: 'source', kind: 'wait', text: 'fetching the source, waiting for vision' };
  if (event === 'stage_started') return { stage, kind: 'wait', text: `waiting for a place, ${attempt}` };
  if (/_completed$/.test(event)) return { stage, kind: 'work', text: `at work, ${attempt}` };
  if (/_failed$/.test(event)) return { stage, kind: 'failed', text: `failed, ${attempt}` };
  if (event === 'retry_scheduled') return { stage, kind: 'failed', text: 'failed' };
  return { stage, kind: event === 'failed' ? 'failed' : 'wait', text: event };
}

function timeAfter(fact: HistoryEvent): Before {
  const stage = String(fact['stage'] ?? 'source');
  const isAtWork = fact.event === 'vision_started' || fact.event === 'stage_started';
  if (isAtWork) return { stage, kind: 'work', text: 'at work' };
  if (fact.event === 'retry_scheduled') return { stage, kind: 'wait', text: 'waiting for its next attempt' };
  return { stage: fact.event === 'queued' ? 'source' : 'next', kind: 'wait', text: 'waiting' };
}
