/** API tokens: made, shown once, revoked. */
import { useState } from 'preact/hooks';
import type { ApiToken } from '../../../schemas/user.ts';
import { post, remove } from '../api.ts';
import { now } from '../clock.ts';
import { settings } from '../settings.ts';
import { Button } from '../ui/button.tsx';
import { Secret } from '../ui/code.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field, Form, Select } from '../ui/field.tsx';
import { issueOf, Problem, Skeleton } from '../ui/messages.tsx';
import { Table } from '../ui/table.tsx';
import { useRead, useSend } from '../ui/use-request.ts';
import { Time } from '../ui/value.tsx';

const dayMs = 24 * 60 * 60_000;
const lifetimes = [
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: 'A year' },
  { value: '', label: 'No end' },
] as const;
type Lifetime = (typeof lifetimes)[number]['value'];

export function Tokens() {
  const { data, error, reload } = useRead<{ tokens: ApiToken[] }>('/api/user/tokens');
  const [made, setMade] = useState<string>();
  const [revoked, revoke] = useState<ApiToken>();
  const removal = useSend(async (id: string) => {
    await remove(`/api/user/tokens/${id}`);
    revoke(undefined);
    reload();
  });
  return (
    <>
      {made && <Secret text={made} label="API token" />}
      <Problem error={error} onRetry={reload} />
      {data === undefined && error === undefined && <Skeleton lines={2} />}
      {data && data.tokens.length > 0 && (
        <Table
          caption="API tokens"
          rows={data.tokens}
          keyOf={({ id }) => id}
          columns={[
            {
              title: 'Name',
              cell: ({ name, preview }) => (
                <>
                  {name}
                  <br />
                  <code class="soft">{preview}</code>
                </>
              ),
            },
            {
              title: 'Last used',
              isMinor: true,
              cell: ({ last_used_at }) => (last_used_at === null ? 'Never' : <Time at={last_used_at} />),
            },
            {
              title: 'Ends',
              cell: ({ expires_at }) => (expires_at === null ? 'Never' : <Time at={expires_at} />),
            },
            {
              title: 'Revoke',
              isNumber: true,
              cell: (token) => (
                <Button
                  look="quiet"
                  icon="bin"
                  label={`Revoke ${token.name}`}
                  onClick={() => revoke(token)}
                />
              ),
            },
          ]}
        />
      )}
      <NewToken
        onMade={(token) => {
          setMade(token);
          reload();
        }}
      />
      <Confirm
        title={`Revoke ${revoked?.name ?? ''}?`}
        isOpen={revoked !== undefined}
        action="Revoke it"
        isBusy={removal.isBusy}
        onConfirm={() => revoked && void removal.send(revoked.id)}
        onClose={() => revoke(undefined)}
      >
        <p>What uses this token is refused at once.</p>
        <Problem error={removal.error} />
      </Confirm>
    </>
  );
}

function NewToken({ onMade }: { onMade(token: string): void }) {
  const [name, setName] = useState('');
  const [days, setDays] = useState<Lifetime>('90');
  const { send, isBusy, error } = useSend(async () => {
    const expires_at = days === '' ? null : Math.round(now() + Number(days) * dayMs);
    const { token } = await post<{ token: string }>('/api/user/tokens', { name, expires_at });
    setName('');
    onMade(token);
  });
  return (
    <Form onSubmit={() => void send()} label="New API token">
      <div class="pair">
        <Field
          label="Name of a new token"
          value={name}
          onInput={setName}
          placeholder="Build server"
          required
          maxLength={settings.limits.tokenNameMaxChars}
          error={issueOf(error, 'name')}
        />
        <Select label="Ends after" value={days} choices={lifetimes} onChange={(chosen) => setDays(chosen)} />
      </div>
      <Problem error={error} />
      <Button type="submit" isBusy={isBusy}>
        Make a token
      </Button>
    </Form>
  );
}
