/**
 * One open stream: what it wants to see, how far it is, and its connection.
 *
 * Nothing is queued for it. While its connection takes what is written it is live and gets what is new; when
 * the connection is full it keeps an index into the project's ring and goes on from there once it drains.
 */
import type { StreamEventName } from '../../schemas/events.ts';
import type { Frame } from './frame.ts';
import { heartbeat } from './frame.ts';
import type { Topic } from './topic.ts';

/** What of a uWS response a stream uses. */
export type StreamResponse = {
  writeStatus(status: string): unknown;
  writeHeader(name: string, value: string): unknown;
  cork(call: () => void): unknown;
  /** Answers false when the connection is full: the bytes are kept, nothing more may follow. */
  write(chunk: Uint8Array): boolean;
  end(): unknown;
  close(): unknown;
  onWritable(call: () => boolean): unknown;
};

/** On whose word a stream is open: it ends when that ends (decisions 5, Ending early). */
export type Grant = { kind: 'key'; key: string } | { kind: 'user'; userId: string; sessionId?: string };

/** What a stream shows. Without `assetId`: all assets of the project. */
export type Filter = {
  assetId?: string;
  isLifecycleOnly: boolean;
  types?: ReadonlySet<StreamEventName>;
};

/** Listeners of one topic that are shown the same. */
export type Group = {
  readonly key: string;
  readonly topic: Topic;
  readonly filter: Filter;
  readonly listeners: Listener[];
};

/** The other end: the route marks it gone when uWS says so, and calls who asked to be told. */
export type Client = {
  isGone: boolean;
  onGone?: (() => void) | undefined;
  /** Told once, when the stream was ended from this side. */
  onEnd?(): void;
};

export type Listener = {
  readonly response: StreamResponse;
  readonly group: Group;
  /** Where it stands among the group's listeners. */
  place: number;
  readonly grant: Grant;
  readonly client: Client;
  /** Index in the ring of the next frame to look at; that of a live one may lag behind what was flushed. */
  next: number;
  /** ts up to which everything was shown, or is not to be. */
  afterTs: number;
  /** `replaying` is fed from what is stored, `behind` from the ring, `live` gets what is new. */
  state: 'replaying' | 'behind' | 'live' | 'closed';
  /** Since when the connection is full, on the monotonic clock; undefined: it is not. */
  blockedAt: number | undefined;
  /** To be called when the connection takes bytes again; uWS knows of it from the first time on that it is full. */
  readonly onWritable: (listener: Listener) => void;
  hasBeenBlocked: boolean;
  /** Goes on with a replay that waits for the connection. */
  onDrained: (() => void) | undefined;
  lastWriteAt: number;
  /** When its life is over, on the monotonic clock. */
  endAt: number;
  slot: number;
};

export function wants({ assetId, isLifecycleOnly, types }: Filter, frame: Frame): boolean {
  if (assetId !== undefined && frame.assetId !== assetId) return false;
  if (isLifecycleOnly && !frame.isLifecycle) return false;
  return types === undefined || types.has(frame.event);
}

/** Streams with equal keys are shown the same, so their bytes can be shared. */
export function filterKey({ assetId, isLifecycleOnly, types }: Filter): string {
  const kind = isLifecycleOnly ? 'lifecycle' : 'all';
  if (assetId === undefined && types === undefined) return kind;
  return `${kind} ${assetId ?? '*'} ${types === undefined ? '*' : [...types].sort().join()}`;
}

/**
 * Writes and answers whether more may follow. Must not be called for a stream that is blocked, but to find out
 * whether it still is: what is written then is kept by uWS.
 */
export function send(listener: Listener, bytes: Uint8Array, now: number): boolean {
  listener.lastWriteAt = now;
  if (write(listener.response, bytes)) {
    listener.blockedAt = undefined;
    return true;
  }
  if (listener.blockedAt === undefined) {
    listener.blockedAt = now;
    if (!listener.hasBeenBlocked) watchDrain(listener);
    if (listener.state === 'live') fallBehind(listener);
  }
  return false;
}

/** Most connections are never full: what each would hold for the case is made when it is. */
function watchDrain(listener: Listener): void {
  listener.hasBeenBlocked = true;
  listener.response.onWritable(() => {
    listener.onWritable(listener);
    return true;
  });
}

/**
 * A live stream was given everything that is flushed, but perhaps what is on its way just now: from there it must
 * go on, past what it was shown.
 */
function fallBehind(listener: Listener): void {
  const { batch, flushed } = listener.group.topic;
  listener.state = 'behind';
  listener.next = Math.max(listener.next, batch?.from ?? flushed);
}

/**
 * To be called when the connection takes bytes again; answers whether it is free.
 *
 * uWS sends what it has kept only along with a next write, so there must be one.
 */
export function drain(listener: Listener, now: number): boolean {
  return send(listener, heartbeat, now);
}

/** Ends the stream in order, or cuts it when its connection is full. */
export function end(listener: Listener): void {
  const { response } = listener;
  if (listener.blockedAt !== undefined) response.close();
  else response.cork(() => response.end());
}

// One cork callback for all writes instead of a closure for each.
let target: StreamResponse;
let payload: Uint8Array;
let accepted = false;

const writePayload = (): void => {
  accepted = target.write(payload);
};

function write(response: StreamResponse, bytes: Uint8Array): boolean {
  target = response;
  payload = bytes;
  response.cork(writePayload);
  return accepted;
}
