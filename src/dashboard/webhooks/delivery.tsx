/** One delivery: why it failed, what was sent, what came back, attempt by attempt, and sending it again. */
import { useEffect, useState } from 'preact/hooks';
import type { AssetEvent } from '../../../schemas/events.ts';
import type { DeliveryDetail } from '../../../schemas/webhook.ts';
import { get, post } from '../api.ts';
import { Chart } from '../charts/chart.tsx';
import { listenFromNow } from '../gaps.ts';
import { paths } from '../paths.ts';
import { Button } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Problem, Skeleton } from '../ui/messages.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { Countdown, Time } from '../ui/value.tsx';
import { Answer, causeOf } from './answer.tsx';
import { DeliveryBadge } from './badge.tsx';

export function DeliveryDialog(props: { projectId: string; id: string; onClose(): void; onChange(): void }) {
  const { projectId, id, onClose, onChange } = props;
  const path = `/api/projects/${projectId}/webhooks/deliveries/${encodeURIComponent(id)}`;
  const { delivery, events, error, reload } = useDelivery(path, id);
  const [isChartOpen, openChart] = useState(false);
  const redeliver = useSend(async () => {
    await post(`${path}/redeliver`);
    say('It is being sent again');
    reload();
    onChange();
  });
  const isWaiting = delivery?.status === 'pending' || delivery?.status === 'retrying';
  return (
    <Dialog
      title={delivery ? delivery.event_type : 'Delivery'}
      isOpen
      isWide
      onClose={onClose}
      actions={
        <Button
          look="main"
          icon="refresh"
          isBusy={redeliver.isBusy}
          disabled={!delivery || delivery.status === 'pending'}
          onClick={() => void redeliver.send()}
        >
          {isWaiting ? 'Try now' : 'Redeliver'}
        </Button>
      }
    >
      <Problem error={error} onRetry={reload} />
      <Problem error={redeliver.error} />
      {!delivery && !error && <Skeleton lines={8} />}
      {delivery && (
        <>
          <Head projectId={projectId} delivery={delivery} />
          {delivery.status === 'pending' && delivery.response_code === null && !delivery.failure ? null : (
            <Answer delivery={delivery} />
          )}
          <Attempts events={events} />
          <Code name="Request" text={requestOf(delivery)} />
          <Button look="quiet" expanded={isChartOpen} onClick={() => openChart(!isChartOpen)}>
            {isChartOpen ? 'Hide its states' : 'Show its states'}
          </Button>
          {isChartOpen && (
            <Chart name="delivery" state={delivery.status === 'pending' ? 'sending' : delivery.status} />
          )}
        </>
      )}
    </Dialog>
  );
}

/** The delivery and the events of its attempts, followed while it is shown. */
function useDelivery(path: string, id: string) {
  const [delivery, setDelivery] = useState<DeliveryDetail>();
  const [told, setTold] = useState<readonly AssetEvent[]>([]);
  const [live, setLive] = useState<readonly AssetEvent[]>([]);
  const [error, setError] = useState<unknown>();
  const [round, setRound] = useState(0);
  const reload = () => setRound((count) => count + 1);
  useEffect(() => {
    let isWanted = true;
    const read = async () => {
      const detail = await get<DeliveryDetail>(path);
      if (!isWanted) return;
      setDelivery(detail);
      setError(undefined);
      if (detail.asset_id === null) return;
      // An asset that was erased has no timeline: what is known of the attempts then is the last answer.
      const { events } = await get<{ events: AssetEvent[] }>(`/api/assets/${detail.asset_id}/timeline`).catch(
        () => ({
          events: [],
        }),
      );
      if (isWanted) setTold(events.filter((event) => event.delivery_id === id));
    };
    read().catch((cause: unknown) => {
      if (isWanted) setError(cause);
    });
    return () => {
      isWanted = false;
    };
  }, [path, round]);
  useEffect(
    () =>
      listenFromNow({
        events: (all) => {
          const own = all.filter((event) => event.delivery_id === id);
          if (own.length === 0) return;
          setLive((before) => [...before, ...own]);
          reload();
        },
        resync: reload,
      }),
    [id],
  );
  const known = new Set(told.map(({ ts }) => ts));
  return { delivery, events: [...told, ...live.filter(({ ts }) => !known.has(ts))], error, reload };
}

function Head({ projectId, delivery }: { projectId: string; delivery: DeliveryDetail }) {
  const { status, attempt, next_attempt_ts: nextTs, asset_id: assetId, delivered_at: deliveredTs } = delivery;
  return (
    <p class="row note">
      <DeliveryBadge status={status} />
      <span>Attempt {attempt}</span>
      {status === 'retrying' && nextTs !== null && (
        <span>
          next in <Countdown to={nextTs} />
        </span>
      )}
      <span>
        made <Time at={delivery.created_at} />
      </span>
      {deliveredTs !== null && (
        <span>
          delivered <Time at={deliveredTs} />
        </span>
      )}
      {assetId && <a href={paths.asset(projectId, assetId)}>Its asset</a>}
    </p>
  );
}

/** What each attempt came to, as far as events of it are kept. */
function Attempts({ events }: { events: readonly AssetEvent[] }) {
  const ended = events.filter(({ event }) => event !== 'webhook_dispatched');
  if (ended.length === 0) return null;
  return (
    <ol class="attempts" aria-label="Attempts">
      {ended.map(({ ts, event, attempt, response_code: code = null, failure }) => (
        <li key={ts} data-good={event === 'webhook_delivered' || undefined}>
          <span class="number">{attempt}</span>
          <span>{event === 'webhook_delivered' ? `Answered ${code}.` : causeOf(failure, code)}</span>
          <span class="note">
            <Time at={ts} as="local" />
          </span>
        </li>
      ))}
    </ol>
  );
}

/** As it goes over the wire; the signature is made anew for each attempt. */
function requestOf({ event_id: id, payload_json: payload }: DeliveryDetail): string {
  return [
    'POST',
    'content-type: application/json',
    `webhook-id: ${id}`,
    'webhook-timestamp: <unix seconds of the attempt>',
    'webhook-signature: v1,<HMAC-SHA256 of id.timestamp.body>',
    '',
    payload === null ? '(the payload is no longer kept)' : pretty(payload),
  ].join('\n');
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    return json;
  }
}
