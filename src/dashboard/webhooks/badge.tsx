/** How a delivery is, in words. */
import type { DeliveryStatus } from '../../../schemas/webhook.ts';
import { Badge, type Tone } from '../ui/badge.tsx';

const tones: Record<DeliveryStatus, Tone> = {
  pending: 'wait',
  retrying: 'bad',
  delivered: 'good',
  dead: 'bad',
  cancelled: 'plain',
};

const statusWords: Record<DeliveryStatus, string> = {
  pending: 'To be sent',
  retrying: 'Failed, retrying',
  delivered: 'Delivered',
  dead: 'Dead',
  cancelled: 'Cancelled',
};

export function DeliveryBadge({ status }: { status: DeliveryStatus }) {
  return <Badge tone={tones[status]}>{statusWords[status]}</Badge>;
}
