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

/** What a state waits for; states that come later show their own name. */
const words: Record<string, { tone: Tone; label: string }> = {
  new: { tone: 'wait', label: 'Accepted' },
  queued: { tone: 'wait', label: 'Accepted' },
  pending: { tone: 'wait', label: 'Pending' },
  source: { tone: 'wait', label: 'Fetching the source' },
  vision: { tone: 'wait', label: 'Looking at the image' },
  single: { tone: 'wait', label: 'Animating' },
  stage1: { tone: 'wait', label: 'Animating the way there' },
  stage2: { tone: 'wait', label: 'Animating the way back' },
  merge: { tone: 'wait', label: 'Closing the loop' },
  storing: { tone: 'wait', label: 'Storing' },
  store_write: { tone: 'wait', label: 'Storing' },
  sending: { tone: 'wait', label: 'Sending' },
  retrying: { tone: 'wait', label: 'Waits to try again' },
  ready: { tone: 'good', label: 'Ready' },
  delivered: { tone: 'good', label: 'Delivered' },
  failed: { tone: 'bad', label: 'Failed' },
  dead: { tone: 'bad', label: 'Dead' },
  cancelled: { tone: 'plain', label: 'Cancelled' },
  erased: { tone: 'plain', label: 'Erased' },
};

/** The innermost part of a state that has words: `pending.stage1.waiting` is about stage1. */
function wordsFor(state: string, status: string | undefined): { tone: Tone; label: string } {
  const known = state
    .split('.')
    .reverse()
    .map((part) => words[part])
    .find((found) => found !== undefined);
  if (known) return known;
  return {
    tone: status === undefined || status === 'pending' ? 'wait' : 'plain',
    label: state.replaceAll('_', ' '),
  };
}
