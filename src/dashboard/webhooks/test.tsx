/** A test event, followed until its first attempt has an answer. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Delivery, DeliveryDetail } from '../../../schemas/webhook.ts';
import { get, post } from '../api.ts';
import { Button } from '../ui/button.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { Answer } from './answer.tsx';

const lookEveryMs = 400;
/** The first attempt takes ten seconds at most, and its turn. */
const maxLooks = 45;

export function TestSection(props: { projectId: string; hasUrl: boolean; onDelivered(): void }) {
  const { projectId, hasUrl, onDelivered } = props;
  const [delivery, setDelivery] = useState<DeliveryDetail>();
  const isHere = useRef(true);
  useEffect(
    () => () => {
      isHere.current = false;
    },
    [],
  );
  const { send, isBusy, error } = useSend(async () => {
    const path = `/api/projects/${projectId}/webhooks`;
    setDelivery(undefined);
    await post(`${path}/test`);
    const { deliveries } = await get<{ deliveries: Delivery[] }>(
      `${path}/deliveries?event_type=asset.test&limit=1`,
    );
    const id = deliveries[0]?.id;
    for (let looks = 0; id !== undefined && looks < maxLooks && isHere.current; looks += 1) {
      const detail = await get<DeliveryDetail>(`${path}/deliveries/${id}`);
      setDelivery(detail);
      if (detail.status !== 'pending') {
        if (detail.status === 'delivered') onDelivered();
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  });
  return (
    <>
      <div class="row">
        <Button icon="play" isBusy={isBusy} disabled={!hasUrl} onClick={() => void send()}>
          Send a test
        </Button>
        {!hasUrl && <span class="note">Save an address first.</span>}
      </div>
      <Problem error={error} />
      {delivery && (
        <div class="stack" aria-live="polite">
          {delivery.status === 'pending' ? (
            <Notice tone="wait">
              {isBusy ? 'Sent: waiting for the answer …' : 'No answer yet: see the deliveries.'}
            </Notice>
          ) : (
            <Answer delivery={delivery} />
          )}
        </div>
      )}
    </>
  );
}
