/** The timeline of a run to scale: a row a stage, its attempts as segments, waiting hatched and working solid. */
import type { Mode } from '../../../schemas/asset.ts';
import { formatDuration } from '../ui/value.tsx';
import { type Span, stageNames, stagesOf } from './history.ts';

export function Bars(props: {
  spans: readonly Span[];
  mode: Mode;
  nowTs: number;
  markTs: number | undefined;
}) {
  const { spans, mode, nowTs, markTs } = props;
  const fromTs = spans[0]?.fromTs ?? nowTs;
  const last = spans.at(-1);
  const isOver = last !== undefined && !last.state.startsWith('pending');
  const endTs = Math.max(fromTs + 1, isOver ? last.fromTs : Math.max(nowTs, last?.fromTs ?? nowTs));
  const share = (ts: number) => Math.min(1, Math.max(0, (ts - fromTs) / (endTs - fromTs)));
  return (
    <div class="bars">
      <div class="bars-head">
        <span>
          {formatDuration(endTs - fromTs)} {isOver ? 'in all' : 'so far'}
        </span>
        <span class="bars-key">
          <i class="bar work" aria-hidden="true" /> working
        </span>
        <span class="bars-key">
          <i class="bar wait" aria-hidden="true" /> waiting
        </span>
      </div>
      <ol>
        {stagesOf(mode).map((stage) => {
          const own = spans.filter(({ state }) => state.split('.')[1] === stage);
          return (
            <li key={stage}>
              <span class="bars-name">
                {stage}
                <span class="note">{stageNames[stage]}</span>
              </span>
              <span class="bars-track">
                {own.map((span) => (
                  <Bar key={span.fromTs + span.state} span={span} share={share} endTs={endTs} />
                ))}
                {markTs !== undefined && <i class="bars-mark" style={{ left: `${share(markTs) * 100}%` }} />}
              </span>
              <span class="bars-sum number">{own.length > 0 && formatDuration(sumOf(own, endTs))}</span>
              <span class="unseen">{own.map((span) => wordsOf(span, endTs)).join('; ')}</span>
            </li>
          );
        })}
      </ol>
      <div class="bars-axis" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <span key={part} style={{ left: `${part * 100}%` }}>
            {formatDuration((endTs - fromTs) * part)}
          </span>
        ))}
      </div>
    </div>
  );
}

function Bar({ span, share, endTs }: { span: Span; share(ts: number): number; endTs: number }) {
  const left = share(span.fromTs);
  const right = share(span.toTs ?? endTs);
  const kind = `${span.isWork ? 'work' : 'wait'}${span.error ? ' bad' : ''}${span.toTs === undefined ? ' open' : ''}`;
  return (
    <i
      class={`bar ${kind}`}
      title={wordsOf(span, endTs)}
      style={{ left: `${left * 100}%`, width: `${Math.max(0, right - left) * 100}%` }}
    />
  );
}

const sumOf = (spans: readonly Span[], endTs: number): number =>
  spans.reduce((sum, { fromTs, toTs = endTs }) => sum + Math.max(0, Math.min(toTs, endTs) - fromTs), 0);

function wordsOf({ state, fromTs, toTs, attempt, error }: Span, endTs: number): string {
  const leaf = state.split('.').at(-1) ?? state;
  const took = formatDuration(Math.max(0, Math.min(toTs ?? endTs, endTs) - fromTs));
  return `${leaf}, attempt ${attempt}, ${took}${error ? `, ended with ${error.replaceAll('_', ' ')}` : ''}`;
}
