/** What carries the machines: workers and their slots, providers, partitions with their owners, streams. */
import type { ProviderStatus } from '../../../schemas/operator.ts';
import type { PartitionList, StreamList, WorkerList } from '../../../schemas/operator-console.ts';
import { Badge, type Tone } from '../ui/badge.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Table } from '../ui/table.tsx';
import { formatBytes, formatCount } from '../ui/value.tsx';
import { Id, TimeChoice, to, View, ViewFoot, When } from './parts.tsx';
import { usePoll } from './poll.ts';

/** These ask every worker and every partition: not as often as the rest. */
const slowMs = 5_000;

export function SystemPage() {
  return (
    <>
      <PageHead title="System" actions={<TimeChoice />} />
      <Workers />
      <Providers />
      <Partitions />
      <Streams />
    </>
  );
}

function Workers() {
  const path = '/api/operator/workers';
  const polled = usePoll<WorkerList>(path, slowMs);
  return (
    <Section title="Slots of workers" isWide>
      <View polled={polled} lines={3}>
        {({ workers, silent }) => (
          <>
            {silent.length > 0 && <p class="note">Heard of, and silent now: {silent.join(', ')}.</p>}
            {workers.length === 0 && <p class="note">No worker answers.</p>}
            {workers.map(({ worker, slots }) => (
              <div key={worker} class="stack">
                <h3>
                  <code>{worker}</code>
                </h3>
                <ul class="op-slots">
                  {slots.map(({ slot, capacity, running, waits }) => (
                    <li key={slot}>
                      <span>
                        {slot}{' '}
                        <span class="number note">
                          {running.length} of {capacity}, {formatCount(waits)} waiting
                        </span>
                      </span>
                      <meter value={running.length} max={capacity} aria-label={`${slot}, slots taken`} />
                      {running.length > 0 && (
                        <details>
                          <summary>Who holds them</summary>
                          <ul class="op-list">
                            {running.map(({ id, effect }, index) => (
                              <li key={`${id}-${index}`}>
                                <Id id={id} href={to.machine('asset', id)} /> {effect}
                              </li>
                            ))}
                          </ul>
                        </details>
                      )}
                    </li>
                  ))}
                </ul>
              </div>
            ))}
          </>
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </Section>
  );
}

const providerTones: Record<ProviderStatus['state'], Tone> = { ok: 'good', paused: 'wait', failing: 'bad' };

function Providers() {
  const path = '/api/operator/providers';
  const polled = usePoll<{ providers: ProviderStatus[] }>(path, slowMs);
  return (
    <Section title="Model providers" isWide>
      <View polled={polled} lines={3}>
        {({ providers }) => (
          <Table
            caption="Model providers"
            rows={providers}
            keyOf={({ name }) => name}
            columns={[
              {
                title: 'Provider',
                cell: ({ name }) => <a href={to.machines({ provider: name })}>{name}</a>,
              },
              {
                title: 'Circuit',
                cell: ({ state, paused_until: paused, asked_last_until: last }) => (
                  <>
                    <Badge tone={providerTones[state]}>{state}</Badge>
                    {(paused ?? last) && (
                      <span class="note">
                        {' '}
                        until <When at={paused ?? last ?? ''} />
                      </span>
                    )}
                  </>
                ),
              },
              {
                title: 'Gate',
                cell: ({ name, running, concurrent }) => (
                  <>
                    <meter value={running} max={concurrent} aria-label={`${name}, places taken`} />{' '}
                    <span class="number">
                      {running} of {concurrent}
                    </span>
                  </>
                ),
              },
              {
                title: 'Submits a minute',
                cell: (one) => `${one.submits_last_minute} of ${one.submits_per_minute}`,
                isNumber: true,
                isMinor: true,
              },
              {
                title: 'Last hour',
                cell: ({ predictions_last_hour: count, cost_last_hour_micros: micros }) =>
                  `${formatCount(count)}, $${(micros / 1_000_000).toFixed(2)}`,
                isNumber: true,
              },
              {
                title: 'Last failure',
                cell: ({ last_failure: failure }) =>
                  failure ? (
                    <>
                      {failure.reason}, <When at={failure.at} />
                    </>
                  ) : (
                    <span class="note">—</span>
                  ),
                isMinor: true,
              },
            ]}
          />
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </Section>
  );
}

function Partitions() {
  const path = '/api/operator/partitions';
  const polled = usePoll<PartitionList>(path, slowMs);
  return (
    <Section title="Partitions" isWide>
      <View polled={polled} lines={3}>
        {({ partitions, last_command: last }) => {
          const owners = [...new Set(partitions.map(({ owner }) => owner ?? 'nobody'))];
          const behind = partitions.filter(({ is_behind }) => is_behind).length;
          return (
            <>
              <p>
                {behind === 0 ? 'None is behind.' : `${behind} have commands to apply.`} The last command is{' '}
                <span class="number">{formatCount(last)}</span>.
              </p>
              {owners.map((owner) => (
                <p key={owner} class="note">
                  <code>{owner}</code> owns{' '}
                  {partitions.filter((one) => (one.owner ?? 'nobody') === owner).length}
                </p>
              ))}
              <ul class="op-partitions">
                {partitions.map(({ id, owner, position, last: own, is_behind: isBehind }) => (
                  <li
                    key={id}
                    data-behind={isBehind || undefined}
                    data-none={owner === null || undefined}
                    title={`${owner ?? 'nobody'}, applied up to ${position}, last command ${own}`}
                  >
                    {id}
                    <span class="unseen">{isBehind ? ', behind' : ''}</span>
                  </li>
                ))}
              </ul>
            </>
          );
        }}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </Section>
  );
}

function Streams() {
  const path = '/api/operator/streams';
  const polled = usePoll<StreamList>(path, slowMs);
  return (
    <Section title="Streams" isWide>
      <View polled={polled} lines={3}>
        {({ streams }) => (
          <>
            {streams.map(({ name, messages, bytes, first, last, replicas, consumers }) => (
              <div key={name} class="stack op-stream">
                <h3>
                  <code>{name}</code>{' '}
                  <span class="note">
                    {formatCount(messages)} {messages === 1 ? 'message' : 'messages'}, {formatBytes(bytes)},{' '}
                    {first} to {last}, {replicas} {replicas === 1 ? 'replica' : 'replicas'}
                  </span>
                </h3>
                {consumers.length > 0 && (
                  <Table
                    caption={`Readers of ${name}`}
                    rows={consumers}
                    keyOf={(one) => one.name}
                    columns={[
                      { title: 'Reader', cell: (one) => <code>{one.name}</code> },
                      { title: 'Not read', cell: ({ pending }) => formatCount(pending), isNumber: true },
                      {
                        title: 'Being done',
                        cell: ({ unacknowledged }) => formatCount(unacknowledged),
                        isNumber: true,
                      },
                      { title: 'Again', cell: ({ redelivered }) => formatCount(redelivered), isNumber: true },
                    ]}
                  />
                )}
              </div>
            ))}
          </>
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </Section>
  );
}
