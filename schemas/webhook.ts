/** Webhook configuration and deliveries as clients see them (specification 2 and 4.5, decisions 6). */
import { z } from 'zod';
import { WebhookEvent } from './events.ts';

export const WebhookConfig = z.object({
  webhook_url: z.url().nullable(),
  webhook_events: z.array(WebhookEvent),
  webhooks_enabled: z.boolean(),
  webhook_secret_preview: z.string().nullable(),
});
export type WebhookConfig = z.infer<typeof WebhookConfig>;

export const DeliveryStatus = z.enum(['pending', 'retrying', 'delivered', 'dead', 'cancelled']);
export type DeliveryStatus = z.infer<typeof DeliveryStatus>;

/** Times are unix ms. */
export const Delivery = z.object({
  id: z.string(),
  event_id: z.string(),
  event_type: z.string(),
  asset_id: z.string().nullable(),
  attempt: z.int(),
  status: DeliveryStatus,
  response_code: z.int().nullable(),
  next_attempt_ts: z.int().nullable(),
  created_at: z.int(),
  delivered_at: z.int().nullable(),
});
export type Delivery = z.infer<typeof Delivery>;

export const DeliveryDetail = Delivery.extend({
  response_body_preview: z.string().nullable(),
  payload_json: z.string().nullable(),
  failure: z
    .enum(['dns', 'connect', 'tls', 'timeout', 'status', 'redirect', 'reset', 'blocked_address'])
    .nullable()
    .optional(),
});
export type DeliveryDetail = z.infer<typeof DeliveryDetail>;

export const DeliveryList = z.object({ deliveries: z.array(Delivery) });
