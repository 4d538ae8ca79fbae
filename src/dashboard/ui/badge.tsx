/** A word in a colour that says how something is. */
import type { ComponentChildren } from 'preact';
import './badge.css';

export type Tone = 'good' | 'wait' | 'bad' | 'accent' | 'plain';

export function Badge({
  tone = 'plain',
  children,
}: {
  tone?: Tone | undefined;
  children: ComponentChildren;
}) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** The state of a machine with what it waits for: words for people, the state's own name as title. */
export function StateBadge({ state, status }: { state: string; status?: string | undefined }) {
  const { tone, label } = wordsFor(state, status);
  return (
    <span class={`badge ${tone}`} title={state} data-state={state}>
      {tone === 'wait' && <i class="beat" aria-hidden="true" />}
      {label}
    </span>
  );
}

/** What a state waits for; states of machines that come later show their own name. */
const words: Record<string, { tone: Tone; label: string }> = {
  ready: { tone: 'good', label: 'Ready' },
  failed: { tone: 'bad', label: 'Failed' },
  cancelled: { tone: 'plain', label: 'Cancelled' },
  delivered: { tone: 'good', label: 'Delivered' },
  dead: { tone: 'bad', label: 'Dead' },
  queued: { tone: 'wait', label: 'In the queue' },
  fetching: { tone: 'wait', label: 'Fetching the source' },
  vision: { tone: 'wait', label: 'Looking at the image' },
  single: { tone: 'wait', label: 'Animating' },
  stage1: { tone: 'wait', label: 'Animating, first half' },
  stage2: { tone: 'wait', label: 'Animating, second half' },
  merge: { tone: 'wait', label: 'Closing the loop' },
  merging: { tone: 'wait', label: 'Closing the loop' },
  store_write: { tone: 'wait', label: 'Storing' },
  storing: { tone: 'wait', label: 'Storing' },
  retrying: { tone: 'wait', label: 'Waits to try again' },
  waiting: { tone: 'wait', label: 'Waits to try again' },
  pending: { tone: 'wait', label: 'Pending' },
};

function wordsFor(state: string, status: string | undefined): { tone: Tone; label: string } {
  const known = words[state] ?? words[state.split('.').at(-1) ?? ''];
  if (known) return known;
  const label = state
    .replaceAll('_', ' ')
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase();
  return { tone: status === undefined || status === 'pending' ? 'wait' : 'plain', label };
}
