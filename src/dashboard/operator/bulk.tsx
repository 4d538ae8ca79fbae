/** Bulk jobs: which there were, and how far one is, with its log. */
import type { BulkJob, BulkJobList, BulkJobResponse } from '../../../schemas/operator-console.ts';
import { post } from '../api.ts';
import { Badge, type Tone } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { EmptyState, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Table } from '../ui/table.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatCount } from '../ui/value.tsx';
import { Id, TimeChoice, to, View, ViewFoot, When } from './parts.tsx';
import { usePoll } from './poll.ts';

const tones: Record<BulkJob['state'], Tone> = { running: 'wait', done: 'good', cancelled: 'plain' };

export function BulkListPage() {
  const path = '/api/operator/bulk';
  const polled = usePoll<BulkJobList>(path);
  return (
    <>
      <PageHead title="Bulk jobs" actions={<TimeChoice />} />
      <View polled={polled}>
        {({ jobs }) =>
          jobs.length === 0 ? (
            <EmptyState icon="sliders" title="No job has run yet">
              A list of machines has a button for all that its filter finds.
            </EmptyState>
          ) : (
            <Table
              caption="Bulk jobs"
              rows={jobs}
              keyOf={({ id }) => id}
              columns={[
                { title: 'Job', cell: ({ id }) => <Id id={id} href={to.bulk(id)} /> },
                { title: 'Action', cell: (job) => actionOf(job) },
                { title: 'State', cell: ({ state }) => <Badge tone={tones[state]}>{state}</Badge> },
                { title: 'Told', cell: ({ told, count }) => `${told} of ${count}`, isNumber: true },
                { title: 'By', cell: ({ by_email: by }) => by ?? '—', isMinor: true },
                { title: 'Begun', cell: ({ created_at: at }) => <When at={at} />, isMinor: true },
              ]}
            />
          )
        }
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}

const actionOf = ({ action, from }: BulkJob) => (from ? `${action} ${from}` : action).replace('_', ' ');

export function BulkPage({ id }: { id: string }) {
  const path = `/api/operator/bulk/${encodeURIComponent(id)}`;
  const polled = usePoll<BulkJobResponse>(path);
  const stopping = useSend(async () => {
    await post(`${path}/cancel`);
    polled.reload();
  });
  return (
    <>
      <PageHead title="Bulk job" actions={<TimeChoice />}>
        <Id id={id} />
      </PageHead>
      <View polled={polled}>
        {({ job, log }) => (
          <>
            <section class="stack" aria-label="Progress">
              <p role="status">
                <Badge tone={tones[job.state]}>{job.state}</Badge> {actionOf(job)}:{' '}
                <strong class="number">
                  {formatCount(job.told)} told, {formatCount(job.passed)} passed over
                </strong>{' '}
                of {formatCount(job.count)}.
              </p>
              <progress value={job.told + job.passed} max={Math.max(1, job.count)} aria-label="Progress" />
              <p class="note">
                <a href={to.machines({ ...job.filter, kind: job.kind })}>
                  <code>{new URLSearchParams(job.filter).toString() || 'all that was under way'}</code>
                </a>
                , asked for by {job.by_email ?? 'somebody'} <When at={job.created_at} />
                {job.ended_at && (
                  <>
                    , ended <When at={job.ended_at} />
                  </>
                )}
              </p>
              {job.state === 'running' && (
                <div class="row">
                  <Button look="danger" isBusy={stopping.isBusy} onClick={() => void stopping.send()}>
                    Stop it
                  </Button>
                  <span class="note">What was told stays told.</span>
                </div>
              )}
              <Problem error={stopping.error} />
            </section>
            <Section title="Log" about="The newest first, at most 500 lines." isWide>
              <ol class="op-events">
                {log.map((line) => (
                  <li key={line.id}>
                    <When at={line.at} />
                    <a href={to.machine(job.kind, line.id)}>
                      <code>{line.id}</code>
                    </a>
                    <span>{line.outcome}</span>
                  </li>
                ))}
              </ol>
            </Section>
          </>
        )}
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}
