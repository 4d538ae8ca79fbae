/** What of an event its webhook says (specification 6, Webhook envelope): shared by the service and its tools. */
import type { RunOptions } from './asset-messages.ts';
import { type AssetEvent, events, type WebhookEnvelope, type WebhookEvent } from './events.ts';

/** An event as it is published; the options of its run are on `queued` alone. */
export type PublishedFact = AssetEvent & { options?: Pick<RunOptions, 'mode' | 'motion' | 'seconds'> };

/** The webhook type that an event leads to; undefined for the others. */
export function webhookTypeOf(event: string): WebhookEvent | undefined {
  const row: { kind: string; webhook?: WebhookEvent } | undefined = events[event as keyof typeof events];
  return row?.webhook;
}

/** Names of the events that lead to a webhook. */
export const webhookFacts = Object.keys(events).filter((event) => webhookTypeOf(event) !== undefined);

/**
 * What an event's id is derived from: its ts is its own within a project (invariant I3), so that a fact that is
 * published again, by whomever and whenever, gets the same id.
 */
export function eventName({
  project_id,
  ts,
  event,
}: Pick<AssetEvent, 'project_id' | 'ts' | 'event'>): string {
  return JSON.stringify([project_id, ts, event]);
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const idChars = 20;

/** An id from a digest of at least 20 bytes: a prefix and 20 base62 characters. */
export function idFrom(prefix: string, digest: Uint8Array): string {
  let text = '';
  for (const byte of digest.subarray(0, idChars)) text += alphabet.charAt(byte % alphabet.length);
  return `${prefix}_${text}`;
}

/** The body of an event's webhook. */
export function toEnvelope(id: string, type: WebhookEvent, fact: PublishedFact): WebhookEnvelope {
  const { ts, asset_id, project_id, request_id } = fact;
  return { id, type, ts, asset_id, project_id, request_id, data: dataOf[type](fact) };
}

const dataOf: Record<WebhookEvent, (fact: PublishedFact) => Record<string, unknown>> = {
  'asset.queued': ({ options }) => ({
    mode: options?.mode,
    motion: options?.motion,
    dur_seconds: options?.seconds,
  }),
  'asset.stage_completed': ({ stage, latency_ms }) => ({ stage, latency_ms }),
  'asset.completed': ({ mp4_url, bytes, loop_mode }) => ({ mp4_url, bytes, loop_mode }),
  'asset.failed': ({ error_code, error_msg }) => ({ error_code, error_msg }),
  'asset.retry_scheduled': ({ stage, attempt, next_at_ms }) => ({ stage, attempt, next_at_ms }),
};
