/**
 * The event catalogue (specification 6): one row per event, what streams and webhooks make of it,
 * and the shapes that travel.
 */
import { z } from 'zod';
import { LoopMode } from './asset.ts';
import { ErrorCode } from './errors.ts';

/** Stages named in events (specification 6). */
export const Stage = z.enum(['vision', 'stage1', 'stage2', 'merge', 'single', 'store_write']);
export type Stage = z.infer<typeof Stage>;

/** Stages whose work is a prediction or a merge: they have stage_started, stage_completed and stage_failed. */
export const ClipStage = z.enum(['stage1', 'stage2', 'merge', 'single']);
export type ClipStage = z.infer<typeof ClipStage>;

type Row = {
  /** Events of a run's life, and of webhook deliveries: the key stream carries the first kind alone. */
  kind: 'lifecycle' | 'delivery';
  /** Ends a run; each run has exactly one of these (invariant I7). */
  terminal?: true;
  /** Webhook type that it leads to (specification 6, Webhook envelope). */
  webhook?: `asset.${string}`;
};

export const events = {
  queued: { kind: 'lifecycle', webhook: 'asset.queued' },
  vision_started: { kind: 'lifecycle' },
  vision_completed: { kind: 'lifecycle' },
  vision_failed: { kind: 'lifecycle' },
  stage_started: { kind: 'lifecycle' },
  stage_completed: { kind: 'lifecycle', webhook: 'asset.stage_completed' },
  stage_failed: { kind: 'lifecycle' },
  retry_scheduled: { kind: 'lifecycle', webhook: 'asset.retry_scheduled' },
  store_write_completed: { kind: 'lifecycle' },
  ready: { kind: 'lifecycle', terminal: true, webhook: 'asset.completed' },
  failed: { kind: 'lifecycle', terminal: true, webhook: 'asset.failed' },
  cancelled: { kind: 'lifecycle', terminal: true },
  webhook_dispatched: { kind: 'delivery' },
  webhook_delivered: { kind: 'delivery' },
  webhook_failed: { kind: 'delivery' },
  webhook_dead_letter: { kind: 'delivery' },
} as const satisfies Record<string, Row>;

export type EventName = keyof typeof events;
export const EventName = z.enum(Object.keys(events) as [EventName, ...EventName[]]);

/** Whether the event ends its run. */
export function isTerminal(name: EventName): boolean {
  const row: Row = events[name];
  return row.terminal === true;
}

/** Why an attempt at a webhook failed (decisions 6). `status` is an answer that is neither 2xx nor 3xx. */
export const DeliveryFailure = z.enum([
  'dns',
  'connect',
  'tls',
  'timeout',
  'status',
  'redirect',
  'reset',
  'blocked_address',
]);
export type DeliveryFailure = z.infer<typeof DeliveryFailure>;

/** An event as SSE and timelines show it: the common fields, and what some events add (decisions 5). */
export const AssetEvent = z.object({
  event: EventName,
  /** Unix ms, strictly increasing within a project: also the SSE id. */
  ts: z.int(),
  attempt: z.int(),
  request_id: z.string(),
  asset_id: z.string(),
  project_id: z.string(),
  run: z.int(),
  stage: Stage.optional(),
  latency_ms: z.int().optional(),
  error_code: ErrorCode.optional(),
  error_msg: z.string().optional(),
  next_at_ms: z.int().optional(),
  mp4_url: z.string().optional(),
  poster_url: z.string().optional(),
  bytes: z.int().optional(),
  loop_mode: LoopMode.optional(),
  delivery_id: z.string().optional(),
  event_id: z.string().optional(),
  event_type: z.string().optional(),
  response_code: z.int().nullable().optional(),
  failure: DeliveryFailure.optional(),
});
export type AssetEvent = z.infer<typeof AssetEvent>;

/**
 * How far a deep crawl of a project is; additive, in the stream of the project alone. It has no id and is not kept:
 * who missed one sees the next.
 */
export const CrawlProgress = z.object({
  event: z.literal('crawl_progress'),
  project_id: z.string(),
  /** In normal form. */
  domain: z.string(),
  pages_fetched: z.int(),
  /** Grows while pages name others. */
  pages_planned: z.int(),
});
export type CrawlProgress = z.infer<typeof CrawlProgress>;

/** What a stream can be asked to show. */
export const StreamEventName = z.enum([...EventName.options, CrawlProgress.shape.event.value]);
export type StreamEventName = z.infer<typeof StreamEventName>;

export const Timeline = z.object({ events: z.array(AssetEvent) });

/** Types a project can subscribe its webhook to (specification 2). */
export const WebhookEvent = z.enum([
  'asset.queued',
  'asset.stage_completed',
  'asset.completed',
  'asset.failed',
  'asset.retry_scheduled',
]);
export type WebhookEvent = z.infer<typeof WebhookEvent>;

/** What a delivery may be of. `asset.test` is additive and cannot be subscribed to (decisions 6). */
export const DeliveryEvent = z.enum([...WebhookEvent.options, 'asset.test']);
export type DeliveryEvent = z.infer<typeof DeliveryEvent>;

/** Body of an outbound webhook (specification 6). */
export const WebhookEnvelope = z.object({
  id: z.string(),
  type: DeliveryEvent,
  ts: z.int(),
  asset_id: z.string(),
  project_id: z.string(),
  request_id: z.string(),
  data: z.record(z.string(), z.unknown()),
});
export type WebhookEnvelope = z.infer<typeof WebhookEnvelope>;
