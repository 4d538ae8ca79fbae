/** The machine of an asset: its chart, its timeline to scale, a way back through the past, and its raw events. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Asset } from '../../../schemas/asset.ts';
import type { AssetEvent } from '../../../schemas/events.ts';
import { Chart } from '../charts/chart.tsx';
import { now, useNow } from '../clock.ts';
import { Button } from '../ui/button.tsx';
import { Select } from '../ui/field.tsx';
import { Countdown, formatDuration, Time } from '../ui/value.tsx';
import { RawEvents } from './events.tsx';
import { begunBy, type Span, spanAt, spansOf } from './history.ts';
import { Bars } from './timeline.tsx';
import './machine.css';

export function Machine({ asset, events }: { asset: Asset; events: readonly AssetEvent[] }) {
  const runs = useMemo(
    () => [...new Set([...events.map(({ run }) => run), asset.run])].sort((a, b) => b - a),
    [events, asset.run],
  );
  const [chosen, choose] = useState<number>();
  const run = chosen !== undefined && runs.includes(chosen) ? chosen : asset.run;
  const spans = useMemo(() => spansOf(events, run, asset.mode), [events, run, asset.mode]);
  const [pastTs, lookBack] = useState<number>();
  // Another run has other times.
  useEffect(() => lookBack(undefined), [run]);
  const isRunning = run === asset.run && asset.status === 'pending';
  const shown = pastTs === undefined ? undefined : spanAt(spans, pastTs);
  const last = spans.at(-1);
  const state = shown?.state ?? (run === asset.run ? asset.state : last?.state) ?? asset.state;
  return (
    <div class="machine">
      <div class="machine-chart">
        <Chart name="asset" state={state} isPast={shown !== undefined} />
      </div>
      <div class="machine-side stack">
        {runs.length > 1 && (
          <Select
            label="Run"
            value={String(run)}
            choices={runs.map((one) => ({
              value: String(one),
              label: one === asset.run ? `${one}, the newest` : String(one),
            }))}
            onChange={(value) => choose(Number(value))}
          />
        )}
        <Live isRunning={isRunning}>
          {(ts) => {
            const begun = begunBy(spans, ts);
            return (
              <>
                <NowPanel
                  asset={asset}
                  span={shown ?? begun.at(-1)}
                  isPast={shown !== undefined}
                  isRunning={isRunning}
                />
                {begun.length > 0 && (
                  <>
                    <Bars spans={begun} mode={asset.mode} nowTs={ts} markTs={pastTs} />
                    <Scrubber spans={begun} pastTs={pastTs} onChange={lookBack} />
                  </>
                )}
              </>
            );
          }}
        </Live>
      </div>
      <RawEvents events={events} run={run} />
    </div>
  );
}

const frameMs = 250;

/** Draws again as time goes by, while there is something that grows. */
function Live({
  isRunning,
  children,
}: {
  isRunning: boolean;
  children(ts: number): preact.ComponentChildren;
}) {
  return isRunning ? <Ticking>{children}</Ticking> : children(now());
}

function Ticking({ children }: { children(ts: number): preact.ComponentChildren }) {
  return <>{children(useNow(frameMs))}</>;
}

function NowPanel(props: { asset: Asset; span: Span | undefined; isPast: boolean; isRunning: boolean }) {
  const { asset, span, isPast, isRunning } = props;
  const state = isPast && span ? span.state : asset.state;
  const [, stage, leaf] = state.split('.');
  return (
    <div class="now" data-past={isPast || undefined}>
      <p class="note">{isPast ? 'Then' : 'Now'}</p>
      <p class="now-state">
        {stage === undefined ? state : stage}
        {leaf && <span>{leaf}</span>}
      </p>
      <p class="note">
        {waitsFor(state)}
        {span && stage !== undefined && <> Attempt {span.attempt}.</>}
        {span?.error && <> It ended with {span.error.replaceAll('_', ' ')}.</>}
      </p>
      {isRunning && !isPast && span?.state.endsWith('.retrying') && span.toTs !== undefined && (
        <p>
          Next attempt in <Countdown to={span.toTs} />
        </p>
      )}
      {isPast && span && (
        <p class="note">
          From <Time at={span.fromTs} as="local" />
          {span.toTs !== undefined && <>, for {formatDuration(span.toTs - span.fromTs)}</>}
        </p>
      )}
    </div>
  );
}

/** What a state waits for, in words. */
function waitsFor(state: string): string {
  return waits[state] ?? waits[state.split('.').at(-1) ?? ''] ?? '';
}

const waits: Record<string, string> = {
  new: 'Not begun yet.',
  ready: 'The animation is stored and plays.',
  failed: 'It ended without an animation.',
  cancelled: 'Somebody called it off.',
  fetching: 'The image is on its way here.',
  asked: 'Waits for a worker that is free.',
  describing: 'A model looks at the image and decides what moves.',
  submitting: 'Waits for a worker that hands it to the model.',
  waiting: 'The model makes the clip.',
  copying: 'The clip is copied to our storage.',
  merging: 'Both clips are being joined.',
  writing: 'The finished files are being stored.',
  retrying: 'An attempt failed in a way that may pass: waits for the next one.',
};

/** From state to state through the past, with a slider or the buttons beside it. */
function Scrubber(props: {
  spans: readonly Span[];
  pastTs: number | undefined;
  onChange(ts: number | undefined): void;
}) {
  const { spans, pastTs, onChange } = props;
  const at = pastTs === undefined ? spans.length - 1 : spans.findLastIndex(({ fromTs }) => fromTs <= pastTs);
  const go = (index: number) =>
    onChange(index >= spans.length - 1 ? undefined : spans[Math.max(0, index)]?.fromTs);
  const span = spans[at];
  return (
    <div class="scrubber">
      <Button look="quiet" label="One state back" disabled={at <= 0} onClick={() => go(at - 1)}>
        ‹
      </Button>
      <input
        type="range"
        min={0}
        max={spans.length - 1}
        step={1}
        value={at}
        aria-label="State of the run"
        aria-valuetext={span?.state.replaceAll('.', ', ')}
        onInput={({ currentTarget }) => go(Number(currentTarget.value))}
      />
      <Button look="quiet" label="One state on" disabled={at >= spans.length - 1} onClick={() => go(at + 1)}>
        ›
      </Button>
      <Button look="quiet" disabled={pastTs === undefined} onClick={() => onChange(undefined)}>
        Now
      </Button>
    </div>
  );
}
