/** Everything that one request has caused, in one place. */
import type { RequestPage as Answer } from '../../../schemas/operator-console.ts';
import { PageHead, Section } from '../ui/page.tsx';
import { AuditRows } from './audit.tsx';
import { Events } from './machine.tsx';
import { Rows } from './machines.tsx';
import { Id, TimeChoice, View, ViewFoot, When } from './parts.tsx';
import { usePoll } from './poll.ts';

export function RequestPage({ id }: { id: string }) {
  const path = `/api/operator/requests/${encodeURIComponent(id)}`;
  const polled = usePoll<Answer>(path);
  return (
    <>
      <PageHead title="Request" actions={<TimeChoice />}>
        <Id id={id} />
      </PageHead>
      <View polled={polled}>
        {({ machines, predictions, events, audit }) => (
          <>
            <Section title="Machines" isWide>
              <Rows rows={machines} caption="Machines that work for it" />
            </Section>
            <Section title="What happened" isWide>
              <Events events={events} />
            </Section>
            {predictions.length > 0 && (
              <Section title="Calls of providers" isWide>
                <ul class="op-list">
                  {predictions.map((one) => (
                    <li key={`${one.asset_id}-${one.stage}-${one.attempt}`}>
                      <When at={one.began_at} /> {one.stage}, attempt {one.attempt}: {one.provider}{' '}
                      {one.prediction_id && <Id id={one.prediction_id} />} {one.state}
                    </li>
                  ))}
                </ul>
              </Section>
            )}
            {audit.length > 0 && (
              <Section title="What operators did" isWide>
                <AuditRows entries={audit} />
              </Section>
            )}
            <p class="note">
              In the log: every line about it has this <code>requestId</code>.
            </p>
          </>
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}
