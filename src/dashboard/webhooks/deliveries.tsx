/** The deliveries of a project, newest first: filters in the address, live, and what is dead sent again at once. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Delivery } from '../../../schemas/webhook.ts';
import { get, post } from '../api.ts';
import { now } from '../clock.ts';
import { listenFromNow } from '../gaps.ts';
import { paths } from '../paths.ts';
import { place, setQuery } from '../router.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Segments, Select } from '../ui/field.tsx';
import { EmptyState, Problem, Skeleton } from '../ui/messages.tsx';
import { type Column, Table } from '../ui/table.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { Countdown, Time } from '../ui/value.tsx';
import { DeliveryBadge } from './badge.tsx';
import { DeliveryDialog } from './delivery.tsx';

export function Deliveries({ projectId }: { projectId: string }) {
  const query = useStore(place, (context) => context.query);
  const status = query.get('status') ?? undefined;
  const event = query.get('event') ?? undefined;
  const asset = query.get('asset') ?? undefined;
  const open = query.get('delivery') ?? undefined;
  const list = useDeliveries(projectId, { status, event, asset });
  return (
    <>
      <div class="delivery-bar">
        <Segments
          label="Status"
          isLabelHidden
          value={status ?? 'all'}
          choices={statuses}
          onChange={(value) => setQuery({ status: value === 'all' ? undefined : value })}
        />
        <div class="row">
          <Select
            label="Event"
            isLabelHidden
            value={event ?? ''}
            choices={events}
            onChange={(value) => setQuery({ event: value })}
          />
          <RedeliverDead projectId={projectId} onDone={list.renew} />
        </div>
      </div>
      {asset && (
        <p class="row note">
          Of the asset <code>{asset}</code>
          <Button look="quiet" icon="cross" onClick={() => setQuery({ asset: undefined })}>
            All assets
          </Button>
        </p>
      )}
      <Problem error={list.error} onRetry={list.renew} />
      <Rows {...list} projectId={projectId} open={open} isFiltered={Boolean(status ?? event ?? asset)} />
      {open && (
        <DeliveryDialog
          projectId={projectId}
          id={open}
          onClose={() => setQuery({ delivery: undefined })}
          onChange={list.renew}
        />
      )}
    </>
  );
}

const statuses = [
  { value: 'all', label: 'All' },
  { value: 'pending', label: 'To be sent' },
  { value: 'retrying', label: 'Retrying' },
  { value: 'delivered', label: 'Delivered' },
  { value: 'dead', label: 'Dead' },
  { value: 'cancelled', label: 'Cancelled' },
];

const events = [
  { value: '', label: 'Every event' },
  ...[
    'asset.queued',
    'asset.stage_completed',
    'asset.completed',
    'asset.failed',
    'asset.retry_scheduled',
    'asset.test',
  ].map((value) => ({ value, label: value })),
];

type List = ReturnType<typeof useDeliveries>;

function Rows(props: List & { projectId: string; open: string | undefined; isFiltered: boolean }) {
  const { rows, cursor, isReading, more, projectId } = props;
  if (!rows) return props.error ? null : <Skeleton lines={8} />;
  if (rows.length === 0) {
    return (
      <EmptyState icon="hook" title={props.isFiltered ? 'No delivery fits' : 'Nothing was sent yet'}>
        {props.isFiltered ? 'Try another filter.' : 'Deliveries are kept for 30 days.'}
      </EmptyState>
    );
  }
  return (
    <>
      <Table
        caption="Deliveries, newest first"
        columns={columnsFor(projectId)}
        rows={rows}
        keyOf={({ id }) => id}
        currentKey={props.open}
        onOpen={({ id }) => setQuery({ delivery: id })}
      />
      {cursor && (
        <div class="row">
          <Button isBusy={isReading} onClick={more}>
            Show older ones
          </Button>
        </div>
      )}
    </>
  );
}

const columnsFor = (projectId: string): Column<Delivery>[] => [
  { title: 'Status', cell: ({ status }) => <DeliveryBadge status={status} /> },
  { title: 'Event', cell: ({ event_type: type }) => <code>{type}</code> },
  { title: 'Answer', isNumber: true, cell: ({ response_code: code }) => code ?? '—' },
  { title: 'Attempt', isNumber: true, isMinor: true, cell: ({ attempt }) => attempt },
  {
    title: 'Next',
    isMinor: true,
    cell: ({ next_attempt_ts: ts, status }) =>
      status === 'retrying' && ts !== null ? (
        <>
          in <Countdown to={ts} />
        </>
      ) : (
        ''
      ),
  },
  {
    title: 'Asset',
    isMinor: true,
    cell: ({ asset_id: id }) => id && <a href={paths.asset(projectId, id)}>{id.slice(0, 12)}…</a>,
  },
  { title: 'Made', isMinor: true, cell: ({ created_at: ts }) => <Time at={ts} /> },
];

type Filter = { status: string | undefined; event: string | undefined; asset: string | undefined };

/** Several events of one moment ask for one reading. */
const gatherMs = 300;
const pageSize = 50;

function useDeliveries(projectId: string, { status, event, asset }: Filter) {
  const [state, setState] = useState<{ rows?: Delivery[]; cursor?: string | null; error?: unknown }>({});
  const [isReading, setReading] = useState(false);
  const params = new URLSearchParams({ limit: String(pageSize) });
  if (status) params.set('status', status);
  if (event) params.set('event_type', event);
  if (asset) params.set('asset_id', asset);
  const path = `/api/projects/${projectId}/webhooks/deliveries?${params}`;
  const latest = useRef(path);
  latest.current = path;

  const read = async (cursor?: string) => {
    setReading(true);
    try {
      const page = await get<{ deliveries: Delivery[]; next_cursor?: string | null }>(
        cursor ? `${path}&cursor=${encodeURIComponent(cursor)}` : path,
      );
      if (latest.current !== path) return;
      setState(({ rows = [], cursor: before }) =>
        cursor ? joined(rows, page) : renewedWith(rows, before, page),
      );
    } catch (error) {
      if (latest.current === path) setState((before) => ({ ...before, error }));
    } finally {
      setReading(false);
    }
  };
  useEffect(() => {
    setState({});
    void read();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = listenFromNow({
      events: (all) => {
        if (!all.some((one) => one.event.startsWith('webhook_'))) return;
        timer ??= setTimeout(() => {
          timer = undefined;
          void read();
        }, gatherMs);
      },
      resync: () => void read(),
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [path]);
  return {
    rows: state.rows,
    cursor: state.cursor,
    error: state.error,
    isReading,
    more: () => void (state.cursor && read(state.cursor)),
    renew: () => void read(),
  };
}

type Page = { deliveries: Delivery[]; next_cursor?: string | null };

function joined(rows: readonly Delivery[], page: Page) {
  const known = new Set(rows.map(({ id }) => id));
  return {
    rows: [...rows, ...page.deliveries.filter(({ id }) => !known.has(id))],
    cursor: page.next_cursor ?? null,
  };
}

/** The newest anew; older pages that were read stay below them. */
function renewedWith(rows: readonly Delivery[], before: string | null | undefined, page: Page) {
  const oldest = page.next_cursor ? (page.deliveries.at(-1)?.created_at ?? 0) : 0;
  const ids = new Set(page.deliveries.map(({ id }) => id));
  const older = rows.filter(({ id, created_at: ts }) => ts < oldest && !ids.has(id));
  const cursor = older.length > 0 && before !== undefined ? before : (page.next_cursor ?? null);
  return { rows: [...page.deliveries, ...older], cursor };
}

const spans = [
  { value: '3600000', label: 'the last hour' },
  { value: '86400000', label: 'the last day' },
  { value: '604800000', label: 'the last week' },
  { value: '2592000000', label: 'the last 30 days' },
] as const;

/** Everything that is dead since a time, as many requests as it takes. */
function RedeliverDead({ projectId, onDone }: { projectId: string; onDone(): void }) {
  const [isAsking, ask] = useState(false);
  const [span, setSpan] = useState<(typeof spans)[number]['value']>('86400000');
  const { send, isBusy, error } = useSend(async () => {
    const since = now() - Number(span);
    let count = 0;
    for (;;) {
      const answer = await post<{ redelivered: number; has_more: boolean }>(
        `/api/projects/${projectId}/webhooks/deliveries/redeliver`,
        { since },
      );
      count += answer.redelivered;
      if (!answer.has_more || answer.redelivered === 0) break;
    }
    say(count === 0 ? 'Nothing was dead' : `${count} sent again`);
    ask(false);
    onDone();
  });
  return (
    <>
      <Button icon="refresh" onClick={() => ask(true)}>
        Redeliver dead ones
      </Button>
      <Dialog
        title="Send dead deliveries again"
        isOpen={isAsking}
        onClose={() => ask(false)}
        actions={
          <>
            <Button onClick={() => ask(false)}>Not now</Button>
            <Button look="main" isBusy={isBusy} onClick={() => void send()}>
              Send them again
            </Button>
          </>
        }
      >
        <p class="note">
          Each gets one more attempt, oldest first, under its old id: receivers that keep ids do nothing
          twice.
        </p>
        <Select label="Made in" value={span} choices={spans} onChange={(value) => setSpan(value)} />
        <Problem error={error} />
      </Dialog>
    </>
  );
}
