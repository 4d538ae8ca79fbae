/** The first page of the operator: is it well, how many machines are in which state, and which of them are stuck. */
import type {
  HealthVerdict,
  MachineCounts,
  Overview,
  StateCount,
} from '../../../schemas/operator-console.ts';
import { Badge } from '../ui/badge.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Count } from '../ui/value.tsx';
import { TimeChoice, to, View, ViewFoot, verdictTones, When } from './parts.tsx';
import { usePoll } from './poll.ts';

const path = '/api/operator/overview';

export function OverviewPage() {
  const polled = usePoll<Overview>(path);
  return (
    <>
      <PageHead title="Operator" actions={<TimeChoice />} />
      <View polled={polled} lines={12}>
        {(overview) => (
          <>
            <Health health={polled.unknownSince === undefined ? overview.health : outdated} />
            {overview.machines.map((counts) => (
              <Machines key={counts.kind} counts={counts} />
            ))}
            <Workers overview={overview} />
          </>
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}

const unknown = { verdict: 'unknown', text: 'Not known: the service does not answer.' } as const;
const outdated: HealthVerdict = { ...unknown, moving: unknown, succeeding: unknown, fresh: unknown };
const titles = { ok: 'All is well', trouble: 'Trouble', unknown: 'Unknown' } as const;

function Health({ health }: { health: HealthVerdict }) {
  const questions = [
    ['Is work moving?', health.moving],
    ['Do those that start succeed?', health.succeeding],
    ['Is this fresh?', health.fresh],
  ] as const;
  return (
    <section class={`op-health ${verdictTones[health.verdict]}`} aria-label="Verdict">
      <h2>{titles[health.verdict]}</h2>
      <p role="status">{health.text}</p>
      <dl>
        {questions.map(([question, answer]) => (
          <div key={question}>
            <dt>{question}</dt>
            <dd>
              <Badge tone={verdictTones[answer.verdict]}>{answer.verdict}</Badge> {answer.text}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const names = { asset: 'Assets', delivery: 'Webhook deliveries' } as const;

function Machines({ counts }: { counts: MachineCounts }) {
  const { kind, active, stuck, waiting_for_retry, later_attempts, machine_version, versions } = counts;
  const { endpoints, deliveries } = counts.waiting_for_endpoints;
  const older = versions.filter((one) => one < machine_version);
  const query = { kind };
  return (
    <Section title={names[kind]} isWide>
      <ul class="op-sums">
        <Sum label="under way" value={active} href={to.machines({ ...query, state: 'active' })} />
        <Sum label="stuck" value={stuck} href={to.machines({ ...query, stuck: 'true' })} isBad={stuck > 0} />
        {deliveries > 0 && (
          <Sum
            label={`waiting for ${endpoints} slow ${endpoints === 1 ? 'endpoint' : 'endpoints'} of customers`}
            value={deliveries}
            href={to.machines({ ...query, state: 'sending', stuck: 'true' })}
          />
        )}
        <Sum
          label="at a later attempt"
          value={later_attempts}
          href={to.machines({ ...query, state: 'active', attempt: '2' })}
        />
        <li>
          <strong class="number">
            <Count value={waiting_for_retry} />
          </strong>
          <span class="note">waiting for a retry</span>
        </li>
      </ul>
      {older.length > 0 && (
        <p class="note">
          Some were stored by an earlier version of the machine and are migrated when they are next loaded:{' '}
          {older.map((version) => (
            <a key={version} href={to.machines({ ...query, version: String(version) })}>
              version {version}
            </a>
          ))}
        </p>
      )}
      <ul class="op-states">
        {counts.states.map((one) => (
          <StateCell key={one.state} counts={counts} one={one} />
        ))}
      </ul>
    </Section>
  );
}

function Sum(props: { label: string; value: number; href: string; isBad?: boolean }) {
  return (
    <li data-bad={props.isBad || undefined}>
      <a href={props.href}>
        <strong class="number">
          <Count value={props.value} />
        </strong>
        <span>{props.label}</span>
      </a>
    </li>
  );
}

function StateCell({ counts, one }: { counts: MachineCounts; one: StateCount }) {
  const { state, count, oldest_entered_at: oldest, is_stuck: stuck, later_attempts: later } = one;
  return (
    <li data-none={count === 0 || undefined} data-bad={stuck > 0 || undefined}>
      <a href={to.machines({ kind: counts.kind, state })}>
        <span class="op-name">{state.replace('pending.', '')}</span>
        <strong class="number">
          <Count value={count} />
        </strong>
      </a>
      <p class="note">
        {oldest === null ? (
          '—'
        ) : (
          <>
            oldest <When at={oldest} />
          </>
        )}
        {later > 0 && (
          <>
            {' · '}
            <a href={to.machines({ kind: counts.kind, state, attempt: '2' })}>{later} again</a>
          </>
        )}
        {stuck > 0 && (
          <>
            {' · '}
            <a href={to.machines({ kind: counts.kind, state, stuck: 'true' })}>{stuck} stuck</a>
          </>
        )}
      </p>
    </li>
  );
}

function Workers({ overview: { workers } }: { overview: Overview }) {
  return (
    <Section title="Workers" isWide>
      {workers.length === 0 ? (
        <p class="note">None is heard.</p>
      ) : (
        <ul class="op-list">
          {workers.map(({ id, threads, waiting }) => (
            <li key={id}>
              <code>{id}</code>{' '}
              <span class="note">
                {threads} threads, {waiting} clips waiting
              </span>
            </li>
          ))}
        </ul>
      )}
      <p>
        <a href={to.system}>Slots, partitions, streams and providers</a>
      </p>
    </Section>
  );
}
