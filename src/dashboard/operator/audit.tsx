/** What operators have done, and the mails that nobody sent. */
import type { AuditEntry, MailboxEntry } from '../../../schemas/operator.ts';
import { place } from '../router.ts';
import { useStore } from '../store.ts';
import { ButtonLink } from '../ui/button.tsx';
import { EmptyState } from '../ui/messages.tsx';
import { PageHead } from '../ui/page.tsx';
import { Table } from '../ui/table.tsx';
import { Id, TimeChoice, to, View, ViewFoot, When } from './parts.tsx';
import { usePoll } from './poll.ts';

export function AuditPage() {
  const cursor = useStore(place, (context) => context.query.get('cursor') ?? '');
  const path = `/api/operator/audit${cursor === '' ? '' : `?cursor=${encodeURIComponent(cursor)}`}`;
  const polled = usePoll<{ entries: AuditEntry[]; next_cursor: string | null }>(path);
  return (
    <>
      <PageHead title="Audit" actions={<TimeChoice />} />
      <View polled={polled}>
        {({ entries, next_cursor: next }) =>
          entries.length === 0 ? (
            <EmptyState icon="check" title="Nothing was changed yet" />
          ) : (
            <>
              <AuditRows entries={entries} />
              {next && (
                <ButtonLink href={`${to.audit}?cursor=${encodeURIComponent(next)}`}>Next page</ButtonLink>
              )}
            </>
          )
        }
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}

export function AuditRows({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <Table
      caption="What operators did"
      rows={entries}
      keyOf={({ id }) => id}
      columns={[
        { title: 'When', cell: ({ created_at: at }) => <When at={at} /> },
        { title: 'Who', cell: ({ by, by_email: email }) => email ?? by },
        { title: 'What', cell: ({ action }) => <code>{action}</code> },
        { title: 'To', cell: (entry) => <Target entry={entry} />, isMinor: true },
        {
          title: 'Change',
          cell: ({ before, after }) => <Change before={before} after={after} />,
          isMinor: true,
        },
      ]}
    />
  );
}

function Target({ entry: { target, user_id: user, before } }: { entry: AuditEntry }) {
  if (user) return <Id id={user} href={to.user(user)} />;
  if (!target) return <span class="note">—</span>;
  const kind = before['kind'] === 'delivery' ? 'delivery' : 'asset';
  return <Id id={target} href={target.startsWith('blk_') ? to.bulk(target) : to.machine(kind, target)} />;
}

function Change({ before, after }: Pick<AuditEntry, 'before' | 'after'>) {
  return (
    <code class="op-wrap">
      {JSON.stringify(before)} → {JSON.stringify(after)}
    </code>
  );
}

export function MailboxPage() {
  const path = '/api/operator/mailbox';
  const polled = usePoll<{ mails: MailboxEntry[] }>(path);
  return (
    <>
      <PageHead title="Mailbox" actions={<TimeChoice />}>
        Mails that were kept because no mail server is configured.
      </PageHead>
      <View polled={polled}>
        {({ mails }) =>
          mails.length === 0 ? (
            <EmptyState icon="check" title="No mail was kept" />
          ) : (
            <ul class="op-mails">
              {mails.map(({ id, created_at: at, to: address, subject, text }) => (
                <li key={id}>
                  <details>
                    <summary>
                      <strong>{subject}</strong> <span class="note">to {address}, </span>
                      <When at={at} />
                    </summary>
                    <pre class="op-wrap">{text}</pre>
                  </details>
                </li>
              ))}
            </ul>
          )
        }
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}
