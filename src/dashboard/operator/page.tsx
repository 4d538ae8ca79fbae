/** The operator console: which of its pages the address names, and a way to find anything by its id. */
import { useState } from 'preact/hooks';
import type { FoundList } from '../../../schemas/operator-console.ts';
import { get } from '../api.ts';
import { paths } from '../paths.ts';
import { navigate } from '../router.ts';
import { session } from '../session.ts';
import { useStore } from '../store.ts';
import { Button, ButtonLink } from '../ui/button.tsx';
import { Field, Form } from '../ui/field.tsx';
import { EmptyState, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { AuditPage, MailboxPage } from './audit.tsx';
import { BulkListPage, BulkPage } from './bulk.tsx';
import { MachinePage } from './machine.tsx';
import { MachinesPage } from './machines.tsx';
import { OverviewPage } from './overview.tsx';
import { to } from './parts.tsx';
import { RequestPage } from './request.tsx';
import { SystemPage } from './system.tsx';
import { UserPage, UsersPage } from './users.tsx';
import './operator.css';

export function Page({ params: { rest } }: { params: { rest: string } }) {
  const profile = useStore(session, (context) => context.profile);
  if (!profile) return <div aria-busy="true" />;
  // To everybody else there is nothing here, as in the API.
  if (!profile.isOperator) return <Nothing />;
  return (
    <div class="operator">
      <Tools rest={rest} />
      <Shown rest={rest} />
    </div>
  );
}

function Shown({ rest }: { rest: string }) {
  const [area = '', first = '', second = ''] = rest.split('/');
  const isKind = first === 'asset' || first === 'delivery';
  switch (area) {
    case '':
      return <OverviewPage />;
    case 'machines':
      if (second !== '' && isKind) return <MachinePage kind={first} id={second} />;
      return first === '' ? <MachinesPage /> : <Nothing />;
    case 'requests':
      return first === '' ? <Nothing /> : <RequestPage id={first} />;
    case 'bulk':
      return first === '' ? <BulkListPage /> : <BulkPage id={first} />;
    case 'users':
      return first === '' ? <UsersPage /> : <UserPage id={first} />;
    case 'system':
      return <SystemPage />;
    case 'mailbox':
      return <MailboxPage />;
    case 'audit':
      return <AuditPage />;
    default:
      return <Nothing />;
  }
}

function Nothing() {
  return (
    <EmptyState
      icon="search"
      title="There is nothing here"
      action={<ButtonLink href={paths.home}>Go to the start</ButtonLink>}
    >
      The address is wrong, or what it named is gone.
    </EmptyState>
  );
}

const links: [label: string, href: string, area: string][] = [
  ['Overview', paths.operator, ''],
  ['Machines', to.machines(), 'machines'],
  ['Stuck', to.machines({ stuck: 'true' }), '-'],
  ['Bulk jobs', to.bulk(), 'bulk'],
  ['System', to.system, 'system'],
  ['Users', to.users, 'users'],
  ['Mailbox', to.mailbox, 'mailbox'],
  ['Audit', to.audit, 'audit'],
];

function Tools({ rest }: { rest: string }) {
  const [q, type] = useState('');
  const [several, setSeveral] = useState<FoundList['found']>();
  const finding = useSend(async (text: string) => {
    setSeveral(undefined);
    const { found } = await get<FoundList>(`/api/operator/search?q=${encodeURIComponent(text)}`);
    const [first] = found;
    if (first && found.length === 1) navigate(first.page);
    else setSeveral(found);
  });
  const [area] = rest.split('/');
  return (
    <div class="op-tools">
      <nav aria-label="Operator">
        <ul>
          {links.map(([label, href, name]) => (
            <li key={label}>
              <a href={href} aria-current={area === name ? 'page' : undefined}>
                {label}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Form label="Find by id" onSubmit={() => q.trim() !== '' && void finding.send(q.trim())}>
        <Field
          label="Find any id"
          type="search"
          isCode
          placeholder="ast_ dlv_ evt_ prj_ usr_ request, prediction, e-mail"
          value={q}
          onInput={type}
          after={
            <Button type="submit" isBusy={finding.isBusy}>
              Find
            </Button>
          }
        />
      </Form>
      <div role="status">
        {several && several.length === 0 && <p class="note">Nothing has that id.</p>}
        {several && several.length > 0 && (
          <ul class="op-list">
            {several.map(({ type: kind, id, text, page }) => (
              <li key={page}>
                <a href={page}>
                  {kind} <code>{id}</code>
                </a>{' '}
                <span class="note">{text}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
      <Problem error={finding.error} />
    </div>
  );
}
