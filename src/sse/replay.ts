/**
 * What a stream shows before it is live: where it can go on from, and what was missed, read from what is stored.
 *
 * A run's own events are in its asset's document, all others in the facts stream for a day (decisions 5). The
 * topic's subscription is older than every read, so what is not in a read comes through the ring.
 */
import { runtime, sse } from '../../schemas/limits.ts';
import type { Clock } from './clock.ts';
import type { Frame } from './frame.ts';
import type { Filter, Group } from './listener.ts';
import { framesOf, openPage, type ReplayPorts, readDocument, readStored } from './stored.ts';
import type { Topic } from './topic.ts';

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
  frames: AsyncGenerator<Frame[]>;
  /** Something after the id was kept no longer. Known before the first frame. */
  isLossy(): boolean;
  /** Greatest ts met so far, in frames or before them; 0 for none. */
  seenTs(): number;
  /** Index in the ring below which everything was stored when it was read. */
  begin(): number;
};

const keptMs = sse.keptHours * 3_600_000;

/** Reads what a stream has missed. @throws what reading throws, and when it stands still for 10 seconds. */
export function readMissed(
  ports: ReplayPorts,
  clock: Clock,
  { topic, filter }: Group,
  afterId: number | undefined,
): Missed {
  const { assetId } = filter;
  let begin = topic.ring.end;
  let seenTs = 0;
  let isLossy = false;
  let shownAfter = afterId ?? 0;
  const isTooOld = afterId !== undefined && afterId < clock.now() - keptMs;

  async function* stored(since: number): AsyncGenerator<Frame[]> {
    let page = openPage(ports, clock, topic, assetId, since);
    for (;;) {
      begin = page.begin;
      yield* framesOf(page);
      seenTs = Math.max(seenTs, page.skippedTs);
      if (!page.isFull) return;
      page = openPage(ports, clock, topic, assetId, Math.max(since, page.lastTs));
    }
  }

  async function* ofAsset(id: string): AsyncGenerator<Frame[]> {
    const read = readDocument(ports, clock, topic, id);
    begin = read.begin;
    const document = await read.frames;
    const kept = afterId === undefined ? ofCurrentRun(document) : document;
    const first = kept[0];
    isLossy = isTooOld && (first === undefined || afterId < first.ts);
    // What the document keeps is enough, unless deliveries or earlier runs are to be seen too.
    const since = afterId ?? (first ? first.ts - 1 : undefined);
    const isEnough =
      since === undefined || (filter.isLifecycleOnly && first !== undefined && since >= first.ts - 1);
    shownAfter = since ?? 0;
    if (isEnough) yield kept;
    else yield* merge(kept, stored(since));
  }

  async function* all(): AsyncGenerator<Frame[]> {
    isLossy = isTooOld;
    const read = assetId === undefined ? stored(afterId ?? clock.now()) : ofAsset(assetId);
    for await (const frames of read) {
      const fresh = frames.filter(({ ts }) => {
        const isNew = ts > Math.max(seenTs, shownAfter);
        seenTs = Math.max(seenTs, ts);
        return isNew;
      });
      // The same piece to all that it is new to: it is joined once.
      yield fresh.length === frames.length ? frames : fresh;
    }
  }

  return { frames: all(), isLossy: () => isLossy, seenTs: () => seenTs, begin: () => begin };
}

/**
 * Frames of what a topic missed since its newest one, or since it was opened. @throws as readMissed.
 *
 * @param onHidden told of the ts of facts that are no frames.
 */
export async function* readGap(
  ports: ReplayPorts,
  clock: Clock,
  topic: Topic,
  signal: AbortSignal,
  onHidden: (ts: number) => void,
): AsyncGenerator<Frame> {
  // A fact bears the time of its command, which may have waited.
  const since = topic.lastTs === 0 ? topic.openedTs - runtime.maxLagMs : topic.lastTs;
  yield* readStored(ports, clock, topic, { assetId: undefined, sinceTs: since, signal, onHidden });
}

function ofCurrentRun(frames: Frame[]): Frame[] {
  const run = frames.at(-1)?.run;
  return frames.filter((frame) => frame.run === run);
}

/** Both in order of ts; what is in both comes once. */
async function* merge(kept: Frame[], stored: AsyncIterable<Frame[]>): AsyncGenerator<Frame[]> {
  let n = 0;
  for await (const some of stored) {
    const merged: Frame[] = [];
    for (const frame of some) {
      for (let next = kept[n]; next && next.ts <= frame.ts; next = kept[n]) {
        if (next.ts < frame.ts) merged.push(next);
        n += 1;
      }
      merged.push(frame);
    }
    yield merged;
  }
  yield kept.slice(n);
}
