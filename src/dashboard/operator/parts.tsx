/** What the pages of the operator share: ids, times as chosen, how old a view is, the same view on the command line. */
import { createStore } from '@xstate/store';
import type { ComponentChildren } from 'preact';
import type { HealthVerdict, MachineKind, MachineRow } from '../../../schemas/operator-console.ts';
import { paths } from '../paths.ts';
import { keep, recall, settings } from '../settings.ts';
import { useStore } from '../store.ts';
import { Badge, type Tone } from '../ui/badge.tsx';
import { Copy } from '../ui/code.tsx';
import { Select } from '../ui/field.tsx';
import { Notice, Problem, Skeleton } from '../ui/messages.tsx';
import { Time } from '../ui/value.tsx';
import type { Polled } from './poll.ts';

// ── Addresses ───────────────────────────────────────────────────────────────────────────────────

const below = (rest: string) => `${paths.operator}/${rest}`;

export const to = {
  machines: (query: Record<string, string> = {}) => {
    const text = new URLSearchParams(query).toString();
    return below(text === '' ? 'machines' : `machines?${text}`);
  },
  machine: (kind: MachineKind, id: string) => below(`machines/${kind}/${encodeURIComponent(id)}`),
  request: (id: string) => below(`requests/${encodeURIComponent(id)}`),
  bulk: (id = '') => below(id === '' ? 'bulk' : `bulk/${encodeURIComponent(id)}`),
  user: (id: string) => below(`users/${encodeURIComponent(id)}`),
  system: below('system'),
  users: below('users'),
  mailbox: below('mailbox'),
  audit: below('audit'),
};

export function Id({ id, href }: { id: string; href?: string | undefined }) {
  return (
    <span class="op-id">
      {href ? (
        <a href={href}>
          <code>{id}</code>
        </a>
      ) : (
        <code>{id}</code>
      )}
      <Copy text={id} label={`Copy ${id}`} isBare />
    </span>
  );
}

// ── Times ───────────────────────────────────────────────────────────────────────────────────────

type TimeForm = 'relative' | 'local' | 'utc';

const times = createStore({
  context: { form: (recall('operator-times') ?? 'relative') as TimeForm },
  on: { chosen: (_, { form }: { form: TimeForm }) => ({ form }) },
});

export function TimeChoice() {
  const form = useStore(times, (context) => context.form);
  return (
    <Select
      label="Times"
      isLabelHidden
      value={form}
      choices={[
        { value: 'relative', label: 'Times: how long ago' },
        { value: 'local', label: 'Times: local' },
        { value: 'utc', label: 'Times: UTC' },
      ]}
      onChange={(chosen) => {
        keep('operator-times', chosen);
        times.trigger.chosen({ form: chosen });
      }}
    />
  );
}

/** A time in the form that was chosen for all of them. */
export function When({ at }: { at: string | number }) {
  const form = useStore(times, (context) => context.form);
  if (form !== 'utc') return <Time at={at} as={form} />;
  const text = new Date(at).toISOString();
  return (
    <time dateTime={text} class="number" title={new Date(at).toLocaleString()}>
      {text.slice(0, 19).replace('T', ' ')}
    </time>
  );
}

const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

// ── Views ───────────────────────────────────────────────────────────────────────────────────────

/** Draws what was read last; says when that is old, and what went wrong when there is nothing. */
export function View<Answer>(props: {
  polled: Polled<Answer>;
  lines?: number | undefined;
  children(answer: Answer): ComponentChildren;
}) {
  const { data, error, at, unknownSince, reload } = props.polled;
  if (!data)
    return error ? <Problem error={error} onRetry={reload} /> : <Skeleton lines={props.lines ?? 6} />;
  return (
    <>
      {unknownSince !== undefined && (
        <Notice tone="wait">
          As of {clock.format(at)}, unknown since {clock.format(unknownSince)}. Trying again.
        </Notice>
      )}
      {props.children(data)}
    </>
  );
}

/** When a view was taken, and the line that asks for the same. */
export function ViewFoot({ path, at }: { path: string; at: number }) {
  const line = `curl -s -b cookies.txt '${settings.baseUrl}${path}'`;
  return (
    <footer class="op-foot note">
      {at > 0 && <span class="number">As of {clock.format(at)}</span>}
      <span class="op-line">
        <code>{line}</code>
        <Copy text={line} label="Copy the command for this view" isBare />
      </span>
    </footer>
  );
}

export const verdictTones: Record<HealthVerdict['verdict'], Tone> = {
  ok: 'good',
  trouble: 'bad',
  unknown: 'wait',
};

const words: Record<string, { tone: Tone; label?: string }> = {
  ready: { tone: 'good' },
  delivered: { tone: 'good' },
  failed: { tone: 'bad' },
  dead: { tone: 'bad' },
  erased: { tone: 'plain' },
  cancelled: { tone: 'plain' },
};

/** The machine's own name of its state: operators need no other. */
export function State({ row }: { row: Pick<MachineRow, 'state' | 'is_stuck'> }) {
  const known = words[row.state];
  return (
    <span class="op-state">
      <Badge tone={row.is_stuck ? 'bad' : (known?.tone ?? 'wait')}>{row.state.replace('pending.', '')}</Badge>
      {row.is_stuck && <Badge tone="bad">stuck</Badge>}
    </span>
  );
}
