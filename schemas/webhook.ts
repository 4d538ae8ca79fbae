/** Webhook configuration and deliveries as clients see them (specification 2 and 4.5, decisions 6). */
import { z } from 'zod';
import { DeliveryEvent, DeliveryFailure, WebhookEvent } from './events.ts';
import { webhook as limits } from './limits.ts';

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
  failure: DeliveryFailure.nullable().optional(),
});
export type DeliveryDetail = z.infer<typeof DeliveryDetail>;

/** `next_cursor` is additive: null on the last page. */
export const DeliveryList = z.object({
  deliveries: z.array(Delivery),
  next_cursor: z.string().nullable().optional(),
});

/** PUT /api/projects/{id}/webhooks (specification 4.5). */
export const WebhookConfigRequest = z
  .object({
    webhook_url: z
      .url({ protocol: /^https?$/ })
      .max(limits.maxUrlChars)
      .meta({ format: 'uri' })
      .nullable(),
    webhook_events: z
      .array(WebhookEvent)
      .max(WebhookEvent.options.length)
      .refine((events) => new Set(events).size === events.length, 'an event is named twice'),
    webhooks_enabled: z.boolean(),
  })
  .refine(({ webhook_url, webhooks_enabled }) => webhook_url !== null || !webhooks_enabled, {
    path: ['webhooks_enabled'],
    message: 'webhooks cannot be enabled without a webhook_url',
  });
export type WebhookConfigRequest = z.infer<typeof WebhookConfigRequest>;

/** The save that makes the secret shows it once (decisions 6, Saving). */
export const WebhookConfigSaved = WebhookConfig.extend({ webhook_secret: z.string().optional() });

export const WebhookSecret = z.object({ webhook_secret: z.string() });

export const DeliveryQuery = z.object({
  limit: z.coerce.number().int().min(1).max(limits.maxListed).optional(),
  status: DeliveryStatus.optional(),
  event_type: DeliveryEvent.optional(),
  asset_id: z.string().min(1).max(64).optional(),
  cursor: z.string().max(128).optional(),
});

/** Sends everything dead again that was made since a time (unix ms). */
export const RedeliverRequest = z.object({ since: z.int().min(0) });
/** `has_more`: more are dead than one request sends again; the same request again takes the next. */
export const RedeliverResponse = z.object({ ok: z.boolean(), redelivered: z.int(), has_more: z.boolean() });
