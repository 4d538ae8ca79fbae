/**
 * What one project's streams share: the subscription to its facts, the ring of recent frames, who listens.
 *
 * Facts come in from the bus, are put into the ring and flushed to the live listeners a moment later, outside
 * of any uWS callback (inside one, cork has no effect on other sockets and every write costs four sends).
 */
import { sse } from '../../schemas/limits.ts';
import type { Clock } from './clock.ts';
import { type Frame, toFrame } from './frame.ts';
import { filterKey, type Listener, send, wants } from './listener.ts';
import { createRing, join, type Ring } from './ring.ts';

export type Topic = {
  readonly projectId: string;
  readonly ring: Ring;
  /** Index up to which live listeners were given everything. */
  flushed: number;
  /** Unix ms. */
  openedTs: number;
  /** Unix ms, infinite at first: facts with a greater ts were all published after the subscription. */
  completeAfterTs: number;
  /** ts of the newest fact seen: what is at or below it is a repetition. */
  lastTs: number;
  /** Resolves when nothing published from now on can be missed; rejects when that cannot be reached. */
  ready: Promise<void>;
  isReady: boolean;
  /** Facts that arrive while missed ones are being read. */
  held: Frame[] | undefined;
  /** Listeners of the whole project, and of single assets. */
  all: Set<Listener>;
  byAsset: Map<string, Set<Listener>>;
  stop(): void;
};

export type TopicPorts = {
  onFacts(projectId: string, onFact: (fact: unknown) => void): { stop(): void };
  /** Waits until the server has seen everything sent so far. */
  flush(): Promise<void>;
};

/** Wall clocks of owners and of this process agree within this time, in ms. */
const maxClockSkewMs = 5_000;
const maxHeld = 4_096;

/** @param onNew called when the ring has something to flush. */
export function openTopic(
  projectId: string,
  ports: TopicPorts,
  clock: Clock,
  onNew: (topic: Topic) => void,
): Topic {
  const subscription = ports.onFacts(projectId, (fact) => {
    const frame = toFrame(fact);
    if (frame) takeFrame(topic, frame, clock, onNew);
  });
  const topic: Topic = {
    projectId,
    ring: createRing(sse.ringEvents, sse.ringBytes),
    flushed: 0,
    openedTs: clock.now(),
    completeAfterTs: Number.POSITIVE_INFINITY,
    lastTs: 0,
    isReady: false,
    ready: ports.flush().then(() => {
      topic.isReady = topic.held === undefined;
      topic.completeAfterTs = clock.now() + maxClockSkewMs;
    }),
    held: undefined,
    all: new Set(),
    byAsset: new Map(),
    stop: () => subscription.stop(),
  };
  // Who waits for it hears of it; nobody may.
  topic.ready.catch(() => undefined);
  return topic;
}

function takeFrame(topic: Topic, frame: Frame, clock: Clock, onNew: (topic: Topic) => void): void {
  if (topic.held === undefined) addFrame(topic, frame, clock, onNew);
  // Bounded: a gap with more facts than this ends the streams, which then resume.
  else if (topic.held.length < maxHeld) topic.held.push(frame);
}

/** Puts a frame into the ring, unless it is a repetition (architecture 3a, 9). */
function addFrame(topic: Topic, frame: Frame, clock: Clock, onNew: (topic: Topic) => void): void {
  if (frame.ts <= topic.lastTs) return;
  topic.lastTs = frame.ts;
  const { ring } = topic;
  // Nothing may leave the ring before the live listeners have it.
  if (ring.start + ring.wouldDrop(frame.bytes.length) > topic.flushed) flush(topic, clock.monotonic());
  ring.add(frame);
  onNew(topic);
}

/** From here on facts wait: some before them may have been missed. */
export function hold(topic: Topic): void {
  topic.held = [];
  topic.isReady = false;
}

/**
 * Takes what was missed, then what was held. Listeners see neither a gap nor a repetition.
 *
 * @throws what reading throws, and when too much was held: the topic's streams must then end.
 */
export async function fill(
  topic: Topic,
  missed: AsyncIterable<Frame>,
  clock: Clock,
  onNew: (topic: Topic) => void,
): Promise<void> {
  for await (const frame of missed) addFrame(topic, frame, clock, onNew);
  const held = topic.held ?? [];
  if (held.length >= maxHeld) throw new RangeError(`more than ${maxHeld} facts while a gap was read`);
  topic.held = undefined;
  for (const frame of held) addFrame(topic, frame, clock, onNew);
  topic.isReady = true;
}

/** Gives live listeners what is new. Answers how many writes it took. */
export function flush(topic: Topic, now: number): number {
  const { ring, flushed: from } = topic;
  if (from === ring.end) return 0;
  topic.flushed = ring.end;
  const frames: Frame[] = [];
  for (let index = from; index < ring.end; index += 1) frames.push(ring.at(index));
  const batch: Batch = { from, frames, joined: new Map(), now };
  let writes = 0;
  for (const listener of topic.all) writes += deliver(listener, batch);
  for (const assetId of new Set(frames.map((frame) => frame.assetId))) {
    for (const listener of topic.byAsset.get(assetId) ?? []) writes += deliver(listener, batch);
  }
  return writes;
}

type Batch = {
  from: number;
  frames: readonly Frame[];
  /** Bytes of the whole batch by filter. */
  joined: Map<string, Buffer | undefined>;
  now: number;
};

/** Answers the number of writes, 0 or 1. */
function deliver(listener: Listener, batch: Batch): number {
  if (listener.state !== 'live') return 0;
  const bytes = bytesFor(listener, batch);
  listener.next = batch.from + batch.frames.length;
  if (bytes === undefined) return 0;
  listener.afterTs = batch.frames.at(-1)?.ts ?? listener.afterTs;
  send(listener, bytes, batch.now);
  return 1;
}

function bytesFor(listener: Listener, { from, frames, joined }: Batch): Buffer | undefined {
  const first = frames[0];
  const isWhole = listener.next <= from && first !== undefined && listener.afterTs < first.ts;
  if (!isWhole) {
    const isNew = (frame: Frame, n: number) => from + n >= listener.next && frame.ts > listener.afterTs;
    return join(
      frames.filter((frame, n) => isNew(frame, n) && wants(listener.filter, frame)).map(({ bytes }) => bytes),
    );
  }
  const key = filterKey(listener.filter);
  if (!joined.has(key)) {
    joined.set(key, join(frames.filter((frame) => wants(listener.filter, frame)).map(({ bytes }) => bytes)));
  }
  return joined.get(key);
}

/** Adds a listener; what is flushed from now on reaches it when it is live. */
export function addListener(topic: Topic, listener: Listener): void {
  const { assetId } = listener.filter;
  if (assetId === undefined) {
    topic.all.add(listener);
    return;
  }
  const same = topic.byAsset.get(assetId);
  if (same) same.add(listener);
  else topic.byAsset.set(assetId, new Set([listener]));
}

/** Answers whether the topic has nobody left. */
export function removeListener(topic: Topic, listener: Listener): boolean {
  const { assetId } = listener.filter;
  const among = assetId === undefined ? topic.all : topic.byAsset.get(assetId);
  among?.delete(listener);
  if (assetId !== undefined && among?.size === 0) topic.byAsset.delete(assetId);
  return topic.all.size === 0 && topic.byAsset.size === 0;
}

/** Every listener of a topic, whatever it wants to see. */
export function* listenersOf(topic: Topic): Generator<Listener> {
  yield* topic.all;
  for (const listeners of topic.byAsset.values()) yield* listeners;
}
