/**
 * What one project's streams share: the subscription to its facts, the ring of recent frames, who listens.
 *
 * Facts come in from the bus, are put into the ring and flushed to the live listeners a moment later, outside
 * of any uWS callback (inside one, cork has no effect on other sockets and every write costs four sends).
 */
import { sse } from '../../schemas/limits.ts';
import type { After } from '../bus/publisher.ts';
import type { Clock } from './clock.ts';
import { type Frame, toFrame, tsOf } from './frame.ts';
import { type Gap, holdFrame, isGapBefore } from './gap.ts';
import { type Filter, filterKey, type Group, type Listener, send, wants } from './listener.ts';
import { createRing, join, type Ring } from './ring.ts';
import type { DocumentRead, Page } from './stored.ts';

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
  /** While facts that may have been missed are being read: newer ones wait. */
  gap: Gap | undefined;
  /** What is read of what is stored, by asset, `*` for all: see stored.ts. */
  pages: Map<string, Page>;
  documents: Map<string, DocumentRead>;
  /** Shared by all topics of a hub. */
  readonly tally: Tally;
  /** What is being given to the live listeners just now. */
  batch: Batch | undefined;
  /** Groups of listeners by what they are shown; among them those of the whole project, and of single assets. */
  groups: Map<string, Group>;
  all: Set<Group>;
  byAsset: Map<string, Set<Group>>;
  stop(): void;
};

/** Events that were joined to one before them in a single write. */
export type Tally = { joined: number };

/** Frames on their way to the live listeners, some listeners at a time. */
type Batch = {
  from: number;
  end: number;
  frames: readonly Frame[];
  firstTs: number;
  lastTs: number;
  /** Groups that have not got everything; the last of them is at work. */
  groups: Group[];
  /** How many of its listeners are left. */
  left: number;
  /** What it is shown of the batch, and how many events that is. */
  bytes: Buffer | undefined;
  shown: number;
};

export type TopicPorts = {
  /** What is told of a fact: itself as JSON, where it came as such, and what it says to come after. */
  onFacts(
    projectId: string,
    onFact: (fact: unknown, told?: { text: string; after: After | undefined }) => void,
  ): { stop(): void };
  /** Waits until the server has seen everything sent so far. */
  flush(): Promise<void>;
  tally: Tally;
};

/** Wall clocks of owners and of this process agree within this time, in ms. */
const maxClockSkewMs = 5_000;

/** @param onNew called when the ring has something to flush. @param onGap opens a gap: facts may have been missed. */
export function openTopic(
  projectId: string,
  ports: TopicPorts,
  clock: Clock,
  onNew: (topic: Topic) => void,
  onGap: (topic: Topic) => void,
): Topic {
  const subscription = ports.onFacts(projectId, (fact, told) => {
    const frame = toFrame(fact, told?.text);
    if (!frame) return passHidden(topic, fact);
    if (!topic.gap && isGapBefore(topic, frame, told?.after)) onGap(topic);
    if (topic.gap) holdFrame(topic.gap, frame, told?.after);
    else addFrame(topic, frame, clock, onNew);
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
      topic.isReady = topic.gap === undefined;
      topic.completeAfterTs = clock.now() + maxClockSkewMs;
    }),
    gap: undefined,
    pages: new Map(),
    documents: new Map(),
    tally: ports.tally,
    batch: undefined,
    groups: new Map(),
    all: new Set(),
    byAsset: new Map(),
    stop() {
      subscription.stop();
      for (const page of [...topic.pages.values()]) page.drop();
    },
  };
  // Who waits for it hears of it; nobody may.
  topic.ready.catch(() => undefined);
  return topic;
}

/** A fact of a newer worker, perhaps, of which this process knows nothing: later ones may say to come after it. */
function passHidden(topic: Topic, fact: unknown): void {
  const ts = tsOf(fact);
  if (ts === undefined) return;
  if (topic.gap) topic.gap.hidden.add(ts);
  else topic.lastTs = Math.max(topic.lastTs, ts);
}

/** Puts a frame into the ring, unless it is a repetition (architecture 3a, 9). */
export function addFrame(topic: Topic, frame: Frame, clock: Clock, onNew: (topic: Topic) => void): void {
  if (frame.ts <= topic.lastTs) return;
  topic.lastTs = frame.ts;
  const { ring } = topic;
  // Nothing may leave the ring before the live listeners have it.
  if (ring.start + ring.wouldDrop(frame.bytes.length) > topic.flushed) flushAll(topic, clock.monotonic());
  ring.add(frame);
  onNew(topic);
}

/** Gives live listeners all that is new. Answers how many writes it took. */
export function flushAll(topic: Topic, now: number): number {
  let writes = 0;
  while (topic.batch || topic.flushed < topic.ring.end) writes += flush(topic, now, Number.POSITIVE_INFINITY);
  return writes;
}

/**
 * Gives live listeners what is new, in a bounded number of writes, which it answers. While `topic.batch` is there
 * afterwards, some have not got it: what comes meanwhile waits until they have.
 */
export function flush(topic: Topic, now: number, maxWrites: number): number {
  if (!topic.batch && topic.flushed < topic.ring.end) topic.batch = takeBatch(topic);
  const { batch } = topic;
  let writes = 0;
  while (batch && batch.groups.length > 0) {
    writes += deliverSome(batch, now, maxWrites - writes);
    if (writes >= maxWrites) return writes;
  }
  topic.batch = undefined;
  return writes;
}

function takeBatch(topic: Topic): Batch {
  const { ring, flushed: from } = topic;
  const { end } = ring;
  topic.flushed = end;
  const frames: Frame[] = [];
  for (let index = from; index < end; index += 1) frames.push(ring.at(index));
  const groups = [...topic.all];
  for (const assetId of new Set(frames.map((frame) => frame.assetId))) {
    for (const group of topic.byAsset.get(assetId) ?? []) groups.push(group);
  }
  const batch: Batch = {
    from,
    end,
    frames,
    firstTs: frames[0]?.ts ?? 0,
    lastTs: frames.at(-1)?.ts ?? 0,
    groups,
    left: 0,
    bytes: undefined,
    shown: 0,
  };
  beginGroup(batch);
  return batch;
}

function beginGroup(batch: Batch): void {
  const group = batch.groups.at(-1);
  batch.left = group?.listeners.length ?? 0;
  const frames = group ? batch.frames.filter((frame) => wants(group.filter, frame)) : [];
  batch.shown = frames.length;
  batch.bytes = join(bytesOf(frames));
}

const bytesOf = (frames: readonly Frame[]): Buffer[] => frames.map(({ bytes }) => bytes);

/** Goes on with the group at work; answers the number of writes. */
function deliverSome(batch: Batch, now: number, maxWrites: number): number {
  const listeners = batch.groups.at(-1)?.listeners ?? [];
  let writes = 0;
  // From behind: the place of one that leaves is taken by the last, which has been there then.
  while (batch.left > 0) {
    if (writes >= maxWrites) return writes;
    batch.left = Math.min(batch.left, listeners.length) - 1;
    const listener = listeners[batch.left];
    if (listener) writes += deliver(listener, batch, now);
  }
  batch.groups.pop();
  beginGroup(batch);
  return writes;
}

/** Answers the number of writes, 0 or 1. */
function deliver(listener: Listener, batch: Batch, now: number): number {
  if (listener.state !== 'live' || listener.next >= batch.end) return 0;
  const isWhole = listener.next <= batch.from && listener.afterTs < batch.firstTs;
  const bytes = isWhole ? batch.bytes : restOf(listener, batch);
  listener.next = batch.end;
  if (bytes === undefined) return 0;
  listener.afterTs = batch.lastTs;
  if (isWhole) listener.group.topic.tally.joined += batch.shown - 1;
  send(listener, bytes, now);
  return 1;
}

/** What a listener that has come to be live lately is still to be shown. */
function restOf({ next, afterTs, group }: Listener, { from, frames }: Batch): Buffer | undefined {
  const isNew = (frame: Frame, n: number) => from + n >= next && frame.ts > afterTs;
  return join(bytesOf(frames.filter((frame, n) => isNew(frame, n) && wants(group.filter, frame))));
}

/** The listeners of a topic that are shown the same: made when there are none. */
export function groupOf(topic: Topic, filter: Filter): Group {
  const key = filterKey(filter);
  const found = topic.groups.get(key);
  if (found) return found;
  const group: Group = { key, topic, filter, listeners: [] };
  topic.groups.set(key, group);
  const { assetId } = filter;
  if (assetId === undefined) topic.all.add(group);
  else addTo(topic.byAsset, assetId, group);
  return group;
}

/** Adds a listener to its group; what is flushed from now on reaches it when it is live. */
export function addListener(listener: Listener): void {
  listener.place = listener.group.listeners.push(listener) - 1;
}

/** Answers whether the topic has nobody left. */
export function removeListener({ group, place }: Listener): boolean {
  const { topic, listeners, key, filter } = group;
  const last = listeners.pop();
  if (last && place < listeners.length) {
    listeners[place] = last;
    last.place = place;
  }
  if (listeners.length === 0) {
    topic.groups.delete(key);
    if (filter.assetId === undefined) topic.all.delete(group);
    else removeFrom(topic.byAsset, filter.assetId, group);
  }
  return topic.groups.size === 0;
}

/** Every listener of a topic, whatever it wants to see. */
export function* listenersOf(topic: Topic): Generator<Listener> {
  for (const { listeners } of topic.groups.values()) yield* listeners;
}

function addTo<Value>(map: Map<string, Set<Value>>, key: string, value: Value): void {
  const among = map.get(key);
  if (among) among.add(value);
  else map.set(key, new Set([value]));
}

function removeFrom<Value>(map: Map<string, Set<Value>>, key: string, value: Value): void {
  const among = map.get(key);
  among?.delete(value);
  if (among?.size === 0) map.delete(key);
}
