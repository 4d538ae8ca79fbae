/** The events of a run as they were told, one click away. */
import { useState } from 'preact/hooks';
import type { AssetEvent } from '../../../schemas/events.ts';
import { Button } from '../ui/button.tsx';
import { Switch } from '../ui/field.tsx';
import { type Column, Table } from '../ui/table.tsx';
import { formatDuration } from '../ui/value.tsx';

export function RawEvents({ events, run }: { events: readonly AssetEvent[]; run: number }) {
  const [isOpen, open] = useState(false);
  const [isFailedOnly, showFailed] = useState(false);
  const [hasWebhooks, showWebhooks] = useState(false);
  const own = events.filter((event) => event.run === run);
  const shown = own.filter(
    (event) => (hasWebhooks || !isWebhook(event)) && (!isFailedOnly || isFailure(event)),
  );
  const failed = own.filter(isFailure).length;
  return (
    <div class="events">
      <Button icon="code" expanded={isOpen} onClick={() => open(!isOpen)}>
        {isOpen ? 'Hide the events' : `Raw events, ${own.length}`}
      </Button>
      {isOpen && (
        <div class="stack">
          <div class="row">
            <Switch label={`Only failed, ${failed}`} isOn={isFailedOnly} onChange={showFailed} />
            <Switch label="Webhooks too" isOn={hasWebhooks} onChange={showWebhooks} />
          </div>
          {shown.length === 0 ? (
            <p class="note">{isFailedOnly ? 'Nothing has failed in this run.' : 'No events are kept.'}</p>
          ) : (
            <Table
              caption={`Events of run ${run}`}
              columns={columnsFrom(own[0]?.ts ?? 0)}
              rows={shown}
              keyOf={({ ts }) => String(ts)}
            />
          )}
        </div>
      )}
    </div>
  );
}

const isWebhook = ({ event }: AssetEvent): boolean => event.startsWith('webhook_');
const isFailure = ({ event, error_code: code }: AssetEvent): boolean =>
  code !== undefined || event.endsWith('_failed') || event === 'failed' || event === 'webhook_dead_letter';

const columnsFrom = (startTs: number): Column<AssetEvent>[] => [
  {
    title: 'After',
    isNumber: true,
    cell: ({ ts }) => <span title={new Date(ts).toISOString()}>{formatDuration(ts - startTs)}</span>,
  },
  { title: 'Event', cell: ({ event }) => <code>{event}</code> },
  { title: 'Stage', cell: ({ stage }) => stage ?? '' },
  { title: 'Attempt', isNumber: true, cell: ({ attempt }) => attempt },
  {
    title: 'Took',
    isNumber: true,
    isMinor: true,
    cell: ({ latency_ms: ms }) => (ms === undefined ? '' : formatDuration(ms)),
  },
  {
    title: 'What else',
    cell: (event) => (
      <>
        {event.error_code && <a href={`/docs/errors/${event.error_code}`}>{event.error_code}</a>}{' '}
        {event.error_msg}
        {event.response_code ? ` ${event.response_code}` : ''} {event.failure ?? ''}
      </>
    ),
  },
  { title: 'Request', isMinor: true, cell: ({ request_id: id }) => <code>{id}</code> },
];
