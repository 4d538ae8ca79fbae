/**
 * What a stream shows before it is live: where it can go on from, and what was missed, read from what is stored.
 *
 * A run's own events are in its asset's document, all others in the facts stream for a day (decisions 5). The
 * topic's subscription is older than every read, so what is not in a read comes through the ring.
 */
import { sse } from '../../schemas/limits.ts';
import type { Clock } from './clock.ts';
import { type Frame, toFrame } from './frame.ts';
import type { Filter } from './listener.ts';
import type { Topic } from './topic.ts';

export type ReplayPorts = {
  /** Facts kept in the asset's document, oldest first; empty when there is none. */
  assetFacts(assetId: string, signal: AbortSignal): Promise<readonly object[]>;
  /** Stored facts of a project or one asset of it from a time on (unix ms), oldest first. */
  replayFacts(
    projectId: string,
    assetId: string | '*',
    sinceTs: number,
    signal: AbortSignal,
  ): AsyncIterable<unknown>;
};

/** Where a stream begins: in the ring at an index, or with what is stored. */
export type Start =
  | { from: 'ring'; next: number; afterTs: number }
  /** `afterId` undefined: from the beginning of the current run. */
  | { from: 'store'; afterId: number | undefined };

/**
 * Decides where a stream begins (decisions 5, First frames and Ending early).
 *
 * @param lastEventId as the client sent it; the empty string when it sent none.
 */
export function startOf(topic: Topic, filter: Filter, lastEventId: string): Start {
  const { ring, lastTs, completeAfterTs } = topic;
  const live: Start = { from: 'ring', next: ring.end, afterTs: 0 };
  if (lastEventId !== '') {
    const id = parseId(lastEventId);
    if (id === undefined) return live;
    const isComplete = id >= completeAfterTs && (ring.start === 0 || id >= ring.at(ring.start).ts);
    if (!isComplete) return { from: 'store', afterId: id };
    // Above everything that was issued: no honest client has it.
    return id > lastTs ? live : { from: 'ring', next: ring.indexAfter(id), afterTs: id };
  }
  if (filter.assetId === undefined) return live;
  const isBegin = ({ event, assetId, ts }: Frame) =>
    event === 'queued' && assetId === filter.assetId && ts >= completeAfterTs;
  const begin = ring.lastIndex(isBegin);
  return begin === undefined
    ? { from: 'store', afterId: undefined }
    : { from: 'ring', next: begin, afterTs: ring.at(begin).ts - 1 };
}

/** Digits alone, and few enough to be exact; undefined otherwise. */
function parseId(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

export type Missed = {
  /** Wanted or not: the caller filters. Oldest first. */
  frames: AsyncGenerator<Frame>;
  /** Something after the id was kept no longer. Known before the first frame. */
  isLossy(): boolean;
  /** Greatest ts met so far, in frames or before them; 0 for none. */
  seenTs(): number;
};

/** How much earlier than the wanted ts a read of the facts stream begins: its clock is the server's. */
const skewMs = 30_000;
const keptMs = sse.keptHours * 3_600_000;
/** Longest wait for the next stored fact. */
const maxReadMs = 10_000;

/** Reads what a stream has missed. @throws what reading throws, and when it stands still for 10 seconds. */
export function readMissed(
  ports: ReplayPorts,
  clock: Clock,
  topic: Topic,
  filter: Filter,
  afterId: number | undefined,
  signal: AbortSignal,
): Missed {
  const { projectId } = topic;
  const { assetId } = filter;
  let seenTs = 0;
  let isLossy = false;
  let shownAfter = afterId ?? 0;
  const isTooOld = afterId !== undefined && afterId < clock.now() - keptMs;

  const stored = (since: number) =>
    toFrames(withDeadline(ports.replayFacts(projectId, assetId ?? '*', since - skewMs, signal), clock));

  async function* ofAsset(id: string): AsyncGenerator<Frame> {
    const document = await readDocument(ports, projectId, id, signal);
    const kept = afterId === undefined ? ofCurrentRun(document) : document;
    const first = kept[0];
    isLossy = isTooOld && (first === undefined || afterId < first.ts);
    // What the document keeps is enough, unless deliveries or earlier runs are to be seen too.
    const since = afterId ?? (first ? first.ts - 1 : undefined);
    const isEnough =
      since === undefined || (filter.isLifecycleOnly && first !== undefined && since >= first.ts - 1);
    shownAfter = since ?? 0;
    yield* isEnough ? kept : merge(kept, stored(since));
  }

  async function* all(): AsyncGenerator<Frame> {
    isLossy = isTooOld;
    const frames = assetId === undefined ? stored(afterId ?? clock.now()) : ofAsset(assetId);
    for await (const frame of frames) {
      const isNew = frame.ts > Math.max(seenTs, shownAfter);
      seenTs = Math.max(seenTs, frame.ts);
      if (isNew) yield frame;
    }
  }

  return { frames: all(), isLossy: () => isLossy, seenTs: () => seenTs };
}

/** Frames of what a topic missed since its newest one, or since it was opened. @throws as readMissed. */
export async function* readGap(
  ports: ReplayPorts,
  clock: Clock,
  topic: Topic,
  signal: AbortSignal,
): AsyncGenerator<Frame> {
  const since = topic.lastTs === 0 ? topic.openedTs : topic.lastTs;
  const stored = withDeadline(ports.replayFacts(topic.projectId, '*', since - skewMs, signal), clock);
  for await (const frame of toFrames(stored)) if (frame.ts > since) yield frame;
}

async function readDocument(
  ports: ReplayPorts,
  projectId: string,
  assetId: string,
  signal: AbortSignal,
): Promise<Frame[]> {
  const facts = await ports.assetFacts(assetId, signal);
  return facts
    .map((fact) => toFrame({ ...fact, asset_id: assetId, project_id: projectId }))
    .filter((frame) => frame !== undefined);
}

function ofCurrentRun(frames: Frame[]): Frame[] {
  const run = frames.at(-1)?.run;
  return frames.filter((frame) => frame.run === run);
}

async function* toFrames(facts: AsyncIterable<unknown>): AsyncGenerator<Frame> {
  for await (const fact of facts) {
    const frame = toFrame(fact);
    if (frame) yield frame;
  }
}

/** Both in order of ts; what is in both comes once. */
async function* merge(kept: Frame[], stored: AsyncIterable<Frame>): AsyncGenerator<Frame> {
  let n = 0;
  for await (const frame of stored) {
    for (let next = kept[n]; next && next.ts <= frame.ts; next = kept[n]) {
      if (next.ts < frame.ts) yield next;
      n += 1;
    }
    yield frame;
  }
  yield* kept.slice(n);
}

async function* withDeadline(facts: AsyncIterable<unknown>, clock: Clock): AsyncGenerator<unknown> {
  const iterator = facts[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await within(iterator.next(), maxReadMs, clock);
      if (done) return;
      yield value;
    }
  } finally {
    // Not waited for: one that stands still never answers.
    void iterator.return?.()?.catch(() => undefined);
  }
}

/** Waits for a promise, at most some ms. @throws what it throws, and when the time is over. */
export function within<Result>(
  promise: Promise<Result>,
  ms: number,
  clock: Pick<Clock, 'after'>,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(new Error(`no answer within ${ms} ms`)));
    promise.then(resolve, reject).finally(cancel);
  });
}
