/** One machine, whole: what it waits for and why, its run to scale, what may be done to it, and everything stored. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type {
  HistoryEvent,
  MachineDetail,
  MachineKind,
  NotStarted,
  PossibleAction,
} from '../../../schemas/operator-console.ts';
import { post } from '../api.ts';
import { Chart } from '../charts/chart.tsx';
import { settings } from '../settings.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field, Switch } from '../ui/field.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatDuration } from '../ui/value.tsx';
import { AuditRows } from './audit.tsx';
import { LastError, Rows } from './machines.tsx';
import { Id, State, TimeChoice, to, View, ViewFoot, When } from './parts.tsx';
import { type Polled, usePoll } from './poll.ts';
import { Timeline } from './timeline.tsx';

export function MachinePage({ kind, id }: { kind: MachineKind; id: string }) {
  const path = `/api/operator/machines/${kind}/${encodeURIComponent(id)}`;
  const polled = usePoll<MachineDetail>(path);
  return (
    <>
      <PageHead title={kind === 'asset' ? 'Asset' : 'Delivery'} actions={<TimeChoice />}>
        <Id id={id} />
      </PageHead>
      <View polled={polled} lines={16}>
        {(detail) => (
          <>
            <Present detail={detail} />
            <Actions detail={detail} polled={polled} />
            <History detail={detail} />
            <Section title="States" isWide>
              <Chart name={kind} state={detail.machine.state} />
            </Section>
            <Stored detail={detail} />
          </>
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}

function Present({ detail }: { detail: MachineDetail }) {
  const { machine: row, project, user, partition, not_started: notStarted } = detail;
  const { waits_for: wait, in_state_ms: ms, usual_ms: usual, expected_ms: expected } = row;
  return (
    <Section title="Now" isWide>
      <dl class="op-facts">
        <Fact name="State">
          <State row={row} />
        </Fact>
        <Fact name="Waits for">
          {wait.text}
          {wait.until && (
            <>
              , <When at={wait.until} />
            </>
          )}
        </Fact>
        <Fact name="In this state">
          <span class="number">{formatDuration(ms)}</span>
          {usual !== null && `, usually ${formatDuration(usual)}`}
          {expected !== null && `, stuck from ${formatDuration(expected)} on`}
        </Fact>
        <Fact name="Attempt">
          {row.attempt} of {row.max_attempts}
          {row.run !== null && `, run ${row.run}`}
        </Fact>
        <Fact name="Ends by itself">
          {row.deadline_at ? <When at={row.deadline_at} /> : 'no limit is set'}
        </Fact>
        <Fact name="Next wake">{row.next_wake_at ? <When at={row.next_wake_at} /> : 'none'}</Fact>
        <Fact name="Last error">
          <LastError row={row} />
        </Fact>
        <Fact name="Request">
          <Id id={row.request_id} href={to.request(row.request_id)} />
        </Fact>
        <Fact name="Project">
          <Id id={row.project_id} href={to.machines({ project: row.project_id })} /> {project?.name}
        </Fact>
        <Fact name="Owner">{user ? <a href={to.user(user.id)}>{user.email}</a> : 'the project is gone'}</Fact>
        {row.asset_id && (
          <Fact name="Asset">
            <Id id={row.asset_id} href={to.machine('asset', row.asset_id)} />
          </Fact>
        )}
        {row.event_id && (
          <Fact name="Event">
            <Id id={row.event_id} /> {row.event_type}
          </Fact>
        )}
        <Fact name="Partition">
          {partition.id < 0 ? 'not yet' : partition.id}, {partition.owner ?? 'nobody'}
        </Fact>
        <Fact name="Applied">
          message {partition.applied}, its partition is at {partition.position}
        </Fact>
      </dl>
      {notStarted && <WhyNot why={notStarted} />}
    </Section>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function WhyNot({ why: { text, holders, limit, place, waiting } }: { why: NotStarted }) {
  return (
    <Notice tone={limit === 'at_work' ? 'plain' : 'wait'}>
      <p>
        <strong>Why has it not started? </strong>
        {text}
      </p>
      {place !== null && waiting > 0 && (
        <progress value={waiting - place + 1} max={waiting} aria-label="Place" />
      )}
      {limit !== 'at_work' && holders.length > 0 && (
        <details>
          <summary>Who holds the slots ({holders.length})</summary>
          <ul class="op-list">
            {holders.map(({ id, project_id, effect }) => (
              <li key={`${id}-${effect}`}>
                <Id id={id} href={to.machine('asset', id)} /> {effect}, <code>{project_id}</code>
              </li>
            ))}
          </ul>
        </details>
      )}
    </Notice>
  );
}

// ── Actions ─────────────────────────────────────────────────────────────────────────────────────

const labels: Record<string, string> = {
  retry: 'Retry now',
  'retry_from.source': 'Retry from the source',
  'retry_from.clip': 'Retry from the first clip',
  cancel: 'Cancel',
  fail: 'Fail with a reason',
  redeliver: 'Send again',
};
const labelOf = ({ action, from }: PossibleAction) => labels[from ? `${action}.${from}` : action] ?? action;

function Actions({ detail, polled }: { detail: MachineDetail; polled: Polled<MachineDetail> }) {
  const [asked, ask] = useState<PossibleAction>();
  const [reason, setReason] = useState('');
  const { kind, id } = detail.machine;
  const acting = useSend(async ({ action, from }: PossibleAction) => {
    const body = { action, ...(from ? { from } : {}), ...(action === 'fail' ? { reason } : {}) };
    await post(`/api/operator/machines/${kind}/${encodeURIComponent(id)}/actions`, body);
    say('Told');
    ask(undefined);
    polled.reload();
  });
  const possible = detail.actions.filter((one) => one.is_possible);
  const others = detail.actions.filter((one) => !one.is_possible);
  return (
    <Section title="Actions" about="Each goes into the audit." isWide>
      <ul class="op-actions">
        {possible.map((one) => (
          <li key={labelOf(one)}>
            <Button
              look={one.action === 'retry' ? 'main' : 'plain'}
              onClick={() => {
                acting.clear();
                ask(one);
              }}
            >
              {labelOf(one)}
            </Button>
            <span class="note">{one.will}</span>
          </li>
        ))}
      </ul>
      {others.length > 0 && (
        <p class="note">
          Not possible now: {others.map((one) => `${labelOf(one)} (${one.will})`).join('; ')}.
        </p>
      )}
      <Confirm
        title={asked ? labelOf(asked) : ''}
        isOpen={asked !== undefined}
        action={asked ? labelOf(asked) : ''}
        isBusy={acting.isBusy}
        disabled={asked?.action === 'fail' && reason.trim() === ''}
        onConfirm={() => asked && void acting.send(asked)}
        onClose={() => ask(undefined)}
      >
        <div class="stack">
          <p>{asked?.will}</p>
          {asked?.action === 'fail' && (
            <Field
              label="Reason, which the owner reads"
              value={reason}
              onInput={setReason}
              maxLength={settings.limits.reasonMaxChars}
              required
            />
          )}
          <Problem error={acting.error} />
        </div>
      </Confirm>
    </Section>
  );
}

// ── History ─────────────────────────────────────────────────────────────────────────────────────

function History({ detail }: { detail: MachineDetail }) {
  const [onlyFailed, setOnlyFailed] = useState(false);
  const { history, predictions, machine, deliveries } = detail;
  const shown = onlyFailed ? history.filter(({ event }) => /fail|dead|retry/.test(event)) : history;
  return (
    <Section title="History" isWide>
      <Timeline history={history} predictions={predictions} isActive={machine.expected_ms !== null} />
      <details>
        <summary>Events ({history.length})</summary>
        <Switch label="Only what failed" isOn={onlyFailed} onChange={setOnlyFailed} />
        <Events events={shown} />
      </details>
      {deliveries.length > 0 && (
        <details>
          <summary>Webhooks ({deliveries.length})</summary>
          <Rows rows={deliveries} caption="Deliveries of its events" />
        </details>
      )}
    </Section>
  );
}

/** Events with their fields, in order. */
export function Events({ events }: { events: readonly HistoryEvent[] }) {
  if (events.length === 0) return <p class="note">There is none.</p>;
  return (
    <ol class="op-events">
      {events.map(({ event, ts, request_id: _, ...fields }, index) => (
        <li key={`${ts}-${index}`} data-bad={/fail|dead/.test(event) || undefined}>
          <When at={ts} />
          <strong>{event}</strong>
          <code>
            {Object.entries(fields)
              .filter(([, value]) => value !== null)
              .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
              .join(' ')}
          </code>
        </li>
      ))}
    </ol>
  );
}

function Stored({ detail }: { detail: MachineDetail }) {
  const { timers, outbox, predictions, snapshot, audit } = detail;
  return (
    <Section title="Stored" isWide>
      <h3>Timers</h3>
      {timers.length === 0 ? (
        <p class="note">None is set.</p>
      ) : (
        <ul class="op-list">
          {timers.map(({ id, at, text }) => (
            <li key={id}>
              <When at={at} /> {text} <code class="note">{id}</code>
            </li>
          ))}
        </ul>
      )}
      <h3>Outbox</h3>
      <p class="note">
        {outbox.length === 0
          ? 'Everything that was asked for is published for good.'
          : outbox.map(({ effect, seq }) => `${effect} of message ${seq}`).join(', ')}
      </p>
      {predictions.length > 0 && (
        <>
          <h3>Predictions</h3>
          <ul class="op-list">
            {predictions.map((one) => (
              <li key={`${one.run}-${one.stage}-${one.attempt}`}>
                Run {one.run}, {one.stage}, attempt {one.attempt}: {one.provider}{' '}
                {one.prediction_id && <Id id={one.prediction_id} />} {one.state}
                {one.cost_micros !== null && `, $${(one.cost_micros / 1_000_000).toFixed(3)}`}
              </li>
            ))}
          </ul>
        </>
      )}
      <details>
        <summary>The document</summary>
        <Code name="Without secrets and signatures" text={JSON.stringify(snapshot, undefined, 2)} />
      </details>
      {audit.length > 0 && (
        <>
          <h3>What operators did</h3>
          <AuditRows entries={audit} />
        </>
      )}
    </Section>
  );
}
