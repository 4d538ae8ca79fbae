/** Accounts: found by e-mail or name, their plan and what they have used, and what may be changed. */
import { useState } from 'preact/hooks';
import type { OperatorUser, OperatorUserSummary } from '../../../schemas/operator.ts';
import type { PlanName } from '../../../schemas/plans.ts';
import { put, remove } from '../api.ts';
import { place, setQuery } from '../router.ts';
import { useStore } from '../store.ts';
import { Badge } from '../ui/badge.tsx';
import { Button, ButtonLink } from '../ui/button.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field, Form, Select } from '../ui/field.tsx';
import { EmptyState, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Table } from '../ui/table.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatCount, Money } from '../ui/value.tsx';
import { Id, TimeChoice, to, View, ViewFoot, When } from './parts.tsx';
import { type Polled, usePoll } from './poll.ts';

/** Looking for a part of a text reads every account: not again and again. */
const slowMs = 30_000;

export function UsersPage() {
  const query = useStore(place, (context) => context.query.toString());
  const [q, type] = useState(new URLSearchParams(query).get('q') ?? '');
  const path = `/api/operator/users${query === '' ? '' : `?${query}`}`;
  const polled = usePoll<{ users: OperatorUserSummary[]; next_cursor: string | null }>(path, slowMs);
  return (
    <>
      <PageHead title="Users and plans" actions={<TimeChoice />} />
      <Form label="Find accounts" onSubmit={() => setQuery({ q: q.trim(), cursor: undefined })}>
        <Field
          label="E-mail or name"
          type="search"
          value={q}
          onInput={type}
          after={<Button type="submit">Find</Button>}
        />
      </Form>
      <View polled={polled}>
        {({ users, next_cursor: next }) =>
          users.length === 0 ? (
            <EmptyState icon="search" title="No account is like that" />
          ) : (
            <>
              <Table
                caption="Accounts"
                rows={users}
                keyOf={({ id }) => id}
                columns={[
                  { title: 'E-mail', cell: ({ id, email }) => <a href={to.user(id)}>{email}</a> },
                  { title: 'Name', cell: ({ name }) => name, isMinor: true },
                  { title: 'Plan', cell: ({ plan }) => <Badge>{plan}</Badge> },
                  { title: 'Used', cell: ({ used }) => formatCount(used), isNumber: true },
                  { title: 'Since', cell: ({ created_at: at }) => <When at={at} />, isMinor: true },
                ]}
              />
              {next && (
                <ButtonLink
                  href={`${to.users}?${new URLSearchParams({ ...(q ? { q } : {}), cursor: next })}`}
                >
                  Next page
                </ButtonLink>
              )}
            </>
          )
        }
      </View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}

export function UserPage({ id }: { id: string }) {
  const path = `/api/operator/users/${encodeURIComponent(id)}`;
  const polled = usePoll<{ user: OperatorUser }>(path);
  return (
    <>
      <PageHead title="Account" actions={<TimeChoice />}>
        <Id id={id} />
      </PageHead>
      <View polled={polled}>{({ user }) => <Account user={user} path={path} polled={polled} />}</View>
      <ViewFoot path={path} at={polled.at} />
    </>
  );
}

type Parts = { user: OperatorUser; path: string; polled: Polled<{ user: OperatorUser }> };

function Account({ user, path, polled }: Parts) {
  return (
    <>
      <Section title="Account" isWide>
        <dl class="op-facts">
          {(
            [
              ['E-mail', `${user.email}${user.email_verified ? '' : ' (not verified)'}`],
              ['Name', user.name],
              ['Plan', user.plan],
              ['Used', `${user.used} of ${user.limit}`],
              ['Resets', user.reset_at ? <When at={user.reset_at} /> : 'nothing is counted'],
              ['Overage', <Money key="overage" cents={user.overage_cents} />],
              ['Projects', user.projects],
              ['Sessions', user.sessions],
              ['Counted, not begun', user.holds],
            ] as const
          ).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        <p>
          <a href={to.machines({ user: user.id })}>Its assets</a>
        </p>
      </Section>
      <Plan user={user} path={path} polled={polled} />
      <Quota user={user} path={path} polled={polled} />
      <Sessions user={user} path={path} polled={polled} />
    </>
  );
}

function Plan({ user, path, polled }: Parts) {
  const [plan, choose] = useState<PlanName>(user.plan);
  const sending = useSend(async () => {
    await put(`${path}/plan`, { plan });
    say('Saved');
    polled.reload();
  });
  return (
    <Section title="Plan" about="In force at once. A paid plan’s months begin today.">
      <Form label="Plan" onSubmit={() => void sending.send()}>
        <Select<PlanName>
          label="Plan"
          value={plan}
          choices={(['free', 'pro', 'team'] as const).map((value) => ({ value, label: value }))}
          onChange={choose}
        />
        <div class="row">
          <Button type="submit" isBusy={sending.isBusy} disabled={plan === user.plan}>
            Change the plan
          </Button>
        </div>
        <Problem error={sending.error} />
      </Form>
    </Section>
  );
}

function Quota({ user, path, polled }: Parts) {
  const [used, type] = useState(String(user.used));
  const sending = useSend(async () => {
    await put(`${path}/quota`, { used: Number(used) });
    say('Saved');
    polled.reload();
  });
  return (
    <Section title="Used runs" about="0 gives all of them again.">
      <Form label="Used runs" onSubmit={() => void sending.send()}>
        <Field label="Runs that count as used" type="number" min={0} value={used} onInput={type} />
        <div class="row">
          <Button type="submit" isBusy={sending.isBusy}>
            Set
          </Button>
        </div>
        <Problem error={sending.error} />
      </Form>
    </Section>
  );
}

function Sessions({ user, path, polled }: Parts) {
  const [isAsking, ask] = useState(false);
  const sending = useSend(async () => {
    await remove(`${path}/sessions`);
    say('Ended');
    ask(false);
    polled.reload();
  });
  return (
    <Section title="Sessions" about="Everybody who is signed in to the account is signed out.">
      <div class="row">
        <Button look="danger" onClick={() => ask(true)}>
          End every session
        </Button>
      </div>
      <Confirm
        title="End every session"
        isOpen={isAsking}
        action={`End ${user.sessions}`}
        isBusy={sending.isBusy}
        onConfirm={() => void sending.send()}
        onClose={() => ask(false)}
      >
        <p>Whoever is signed in to {user.email} has to sign in again.</p>
        <Problem error={sending.error} />
      </Confirm>
    </Section>
  );
}
