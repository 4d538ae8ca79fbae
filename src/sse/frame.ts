/**
 * The bytes of one frame (specification 4.4, HTML Standard 9.2): built once from a fact, then shared by every
 * stream that shows it.
 */
import { AssetEvent, type EventName, events } from '../../schemas/events.ts';

/** A fact as streams show it. */
export type Frame = {
  /** Unix ms, strictly increasing within a project: the SSE id. */
  ts: number;
  assetId: string;
  run: number;
  event: EventName;
  /** The key stream carries these alone (decisions 5). */
  isLifecycle: boolean;
  bytes: Buffer;
};

/**
 * A fact as its frame; undefined for what is no event of the catalogue. Fields that clients do not see
 * (`options`) are left out: the data are exactly the fields of AssetEvent.
 */
export function toFrame(fact: unknown): Frame | undefined {
  const parsed = AssetEvent.safeParse(fact);
  if (!parsed.success) return undefined;
  const { ts, asset_id: assetId, run, event } = parsed.data;
  // JSON text has no line breaks of its own, so one data line is enough.
  const bytes = Buffer.from(`id: ${ts}\nevent: ${event}\ndata: ${JSON.stringify(parsed.data)}\n\n`);
  return { ts, assetId, run, event, isLifecycle: events[event].kind === 'lifecycle', bytes };
}

/** A comment: without id, seen by no client's handler. `text` is one line. */
const toComment = (text: string): Buffer => Buffer.from(`: ${text}\n\n`);

/** How long a client waits before it connects again, in whole ms. */
export const toRetry = (ms: number): Buffer => Buffer.from(`retry: ${Math.round(ms)}\n\n`);

/** Keeps the connection alive; also moves what a slow connection still holds back. */
export const heartbeat = Buffer.from(':\n\n');

/** Said when what a client missed is no longer kept whole (decisions 5, Ending early). */
export const lostComment = toComment('some events are older than what is kept');
