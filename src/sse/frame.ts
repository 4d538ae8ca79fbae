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
 *
 * @param text the fact as JSON, where it came as such: it is not written again when it is shown whole.
 */
export function toFrame(fact: unknown, text?: string): Frame | undefined {
  const isWhole = isShownWhole(fact);
  const shown = isWhole ? fact : AssetEvent.safeParse(fact).data;
  if (!shown) return undefined;
  const { ts, asset_id: assetId, run, event } = shown;
  // JSON as it is written here has no line breaks, so one data line is enough.
  const data = isWhole && text !== undefined && !lineBreak.test(text) ? text : JSON.stringify(shown);
  const bytes = Buffer.from(`id: ${ts}\nevent: ${event}\ndata: ${data}\n\n`);
  return { ts, assetId, run, event, isLifecycle: events[event].kind === 'lifecycle', bytes };
}

/** The ts of what may be a fact. */
export function tsOf(fact: unknown): number | undefined {
  const { ts } = (fact ?? {}) as { ts?: unknown };
  return typeof ts === 'number' ? ts : undefined;
}

const lineBreak = /[\r\n]/;
const names = new Set(Object.keys(AssetEvent.shape));
const integers = ['ts', 'run', 'attempt'];
const texts = ['asset_id', 'project_id', 'request_id'];

/**
 * Whether clients see all of a fact, as of most: told by its names, and by the fields that every event has. To hold
 * each against the schema was a quarter of what an event costs where each has a listener of its own.
 */
function isShownWhole(fact: unknown): fact is AssetEvent {
  if (typeof fact !== 'object' || fact === null) return false;
  const fields = fact as Record<string, unknown>;
  if (typeof fields['event'] !== 'string' || !Object.hasOwn(events, fields['event'])) return false;
  for (const name in fields) {
    const type = typeof fields[name];
    if (!names.has(name) || (type !== 'string' && type !== 'number')) return false;
  }
  return (
    integers.every((name) => Number.isSafeInteger(fields[name])) &&
    texts.every((name) => typeof fields[name] === 'string')
  );
}

/** A comment: without id, seen by no client's handler. `text` is one line. */
const toComment = (text: string): Buffer => Buffer.from(`: ${text}\n\n`);

/** How long a client waits before it connects again, in whole ms. */
export const toRetry = (ms: number): Buffer => Buffer.from(`retry: ${Math.round(ms)}\n\n`);

/** Keeps the connection alive; also moves what a slow connection still holds back. */
export const heartbeat = Buffer.from(':\n\n');

/** Said when what a client missed is no longer kept whole (decisions 5, Ending early). */
export const lostComment = toComment('some events are older than what is kept');
