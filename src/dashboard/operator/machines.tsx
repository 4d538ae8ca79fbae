/** Machines by filter: the filter is in the address, the rows say what is waited for, and all of them can be told at once. */
import { useState } from 'preact/hooks';
import type { MachineKind, MachineList, MachineRow } from '../../../schemas/operator-console.ts';
import { place, setQuery } from '../router.ts';
import { useStore } from '../store.ts';
import { Button, ButtonLink } from '../ui/button.tsx';
import { Field, Form, Segments, Select, Switch } from '../ui/field.tsx';
import { EmptyState } from '../ui/messages.tsx';
import { PageHead } from '../ui/page.tsx';
import { type Column, Table } from '../ui/table.tsx';
import { formatDuration } from '../ui/value.tsx';
import { BulkDialog } from './bulk-dialog.tsx';
import { Id, State, TimeChoice, to, View, ViewFoot, When } from './parts.tsx';
import { usePoll } from './poll.ts';
import { stateNames } from './states.ts';

export const filterNames = [
  ...['kind', 'state', 'attempt', 'error', 'project', 'user', 'provider', 'version', 'stuck'],
] as const;
export type Filter = Record<string, string>;

export function MachinesPage() {
  const query = useStore(place, (context) => context.query.toString());
  const all = Object.fromEntries(new URLSearchParams(query));
  const filter: Filter = Object.fromEntries(
    filterNames.flatMap((name) => (all[name] ? [[name, all[name]]] : [])),
  );
  const asked = new URLSearchParams({ ...filter, ...(all['cursor'] ? { cursor: all['cursor'] } : {}) });
  const path = `/api/operator/machines${asked.size > 0 ? `?${asked}` : ''}`;
  const polled = usePoll<MachineList>(path);
  const [isBulk, openBulk] = useState(false);
  return (
    <>
      <PageHead
        title={filter['stuck'] ? 'Stuck machines' : 'Machines'}
        actions={
          <>
            <TimeChoice />
            <Button onClick={() => openBulk(true)}>All of these …</Button>
          </>
        }
      />
      <Filters filter={filter} />
      <View polled={polled} lines={10}>
        {({ machines, next_cursor: next }) =>
          machines.length === 0 ? (
            <EmptyState icon="check" title="There is none">
              No machine is as the filter says{all['cursor'] ? ' after this page' : ''}.
            </EmptyState>
          ) : (
            <>
              <Rows rows={machines} caption="Machines" />
              <div class="row">
                {all['cursor'] && <ButtonLink href={to.machines(filter)}>First page</ButtonLink>}
                {next && <ButtonLink href={to.machines({ ...filter, cursor: next })}>Next page</ButtonLink>}
              </div>
            </>
          )
        }
      </View>
      <ViewFoot path={path} at={polled.at} />
      <BulkDialog isOpen={isBulk} filter={filter} onClose={() => openBulk(false)} />
    </>
  );
}

/** Rows of machines, of one kind or both. */
export function Rows({ rows, caption }: { rows: readonly MachineRow[]; caption: string }) {
  return <Table caption={caption} columns={columns} rows={rows} keyOf={({ kind, id }) => `${kind}.${id}`} />;
}

const columns: Column<MachineRow>[] = [
  {
    title: 'Machine',
    cell: (row) => (
      <>
        <Id id={row.id} href={to.machine(row.kind, row.id)} />
        <span class="note op-block">
          {row.event_type && `${row.event_type}, `}
          <a href={to.machines({ kind: row.kind, project: row.project_id })}>{row.project_id}</a>
        </span>
      </>
    ),
  },
  { title: 'State', cell: (row) => <State row={row} /> },
  { title: 'Waits for', cell: (row) => <WaitsFor row={row} />, isMinor: true },
  { title: 'Attempt', cell: ({ attempt, max_attempts: max }) => `${attempt} of ${max}`, isNumber: true },
  { title: 'In state', cell: (row) => <InState row={row} /> },
  { title: 'Last error', cell: (row) => <LastError row={row} /> },
];

function WaitsFor({ row: { waits_for: wait, prediction, next_wake_at: wake } }: { row: MachineRow }) {
  if (wait.what === 'nothing') return <span class="note">—</span>;
  return (
    <div class="op-wide">
      {wait.text}
      {wait.until && (
        <>
          , <When at={wait.until} />
        </>
      )}
      {prediction && (
        <span class="note op-block">
          {prediction.provider} <code>{prediction.id}</code>
        </span>
      )}
      {wake && wake !== wait.until && (
        <span class="note op-block">
          wakes <When at={wake} />
        </span>
      )}
    </div>
  );
}

export function InState({ row }: { row: MachineRow }) {
  const { in_state_ms: ms, deadline_at: deadline, expected_ms: expected } = row;
  if (expected === null) return <When at={row.entered_at} />;
  return (
    <>
      <span class="number">{formatDuration(ms)}</span>
      <span class="note op-block">
        {expectation(row, expected)}
        {deadline && (
          <>
            , ends <When at={deadline} />
          </>
        )}
      </span>
    </>
  );
}

/** What is late and not stuck waits for an endpoint of a customer. */
function expectation({ in_state_ms: ms, usual_ms: usual, is_stuck: isStuck }: MachineRow, expected: number) {
  if (ms > expected && !isStuck) return 'its endpoint fails, or is slow';
  return usual === null ? `within ${formatDuration(expected)}` : `usually ${formatDuration(usual)}`;
}

export function LastError({ row: { last_error: error } }: { row: MachineRow }) {
  if (!error) return <span class="note">—</span>;
  return (
    <>
      <a href={to.machines({ error: error.code })}>
        <code class="op-code">{breakable(error.code)}</code>
      </a>
      <span class="note op-block">{error.reason ?? error.text}</span>
    </>
  );
}

/** May go on in another line before each underscore, where a column is narrow. */
const breakable = (code: string) =>
  code.split('_').map((part, at) =>
    at === 0 ? (
      part
    ) : (
      <>
        <wbr />_{part}
      </>
    ),
  );

function Filters({ filter }: { filter: Filter }) {
  const kind = (filter['kind'] ?? 'asset') as MachineKind;
  const change = (changes: Filter) => setQuery({ ...changes, cursor: undefined });
  const text = (name: string, label: string) => (
    <TextFilter
      key={name}
      label={label}
      value={filter[name] ?? ''}
      onChange={(value) => change({ [name]: value })}
    />
  );
  return (
    <div class="op-filters">
      <Segments
        label="Kind"
        isLabelHidden
        value={kind}
        choices={[
          { value: 'asset', label: 'Assets' },
          { value: 'delivery', label: 'Deliveries' },
        ]}
        onChange={(value) => change({ kind: value, state: '', error: '', provider: '' })}
      />
      <Select
        label="State"
        value={filter['state'] ?? ''}
        choices={[
          { value: '', label: hasOther(filter) ? 'Any' : 'Under way' },
          { value: 'active', label: 'Under way' },
          ...stateNames[kind].map((state) => ({ value: state, label: state })),
        ]}
        onChange={(value) => change({ state: value })}
      />
      <Select
        label="Attempt"
        value={filter['attempt'] ?? ''}
        choices={[
          { value: '', label: 'Any' },
          { value: '2', label: '2 or later' },
          { value: '3', label: '3 or later' },
        ]}
        onChange={(value) => change({ attempt: value })}
      />
      <Switch
        label="Stuck"
        isOn={filter['stuck'] === 'true'}
        onChange={(isOn) => change({ stuck: isOn ? 'true' : '' })}
      />
      <details open={rarer.some((name) => filter[name] !== undefined)}>
        <summary>Error, project, user, {kind === 'asset' && 'provider, '}version</summary>
        <div class="op-filters">
          {text('error', 'Error')}
          {text('project', 'Project')}
          {text('user', 'User')}
          {kind === 'asset' && text('provider', 'Provider')}
          {text('version', 'Version')}
        </div>
      </details>
    </div>
  );
}

const rarer = ['error', 'project', 'user', 'provider', 'version'];

const hasOther = (filter: Filter) =>
  Object.keys(filter).some((name) => name !== 'kind' && name !== 'state' && name !== 'stuck');

/** Applied when it is left or sent, not at each letter. */
function TextFilter(props: { label: string; value: string; onChange(value: string): void }) {
  const [typed, type] = useState<string>();
  const apply = () => {
    if (typed !== undefined && typed.trim() !== props.value) props.onChange(typed.trim());
    type(undefined);
  };
  return (
    <Form onSubmit={apply} label={props.label}>
      <Field
        label={props.label}
        type="search"
        isCode
        value={typed ?? props.value}
        onInput={type}
        onBlur={apply}
      />
    </Form>
  );
}
