/**
 * What a topic may have missed, read from what is stored while newer facts wait.
 *
 * A fact says which one comes before it in its project. The bus hands facts to who listens now, and stores them; a
 * server that comes back does the second before it knows all who listen.
 */
import type { After } from '../bus/publisher.ts';
import type { Clock } from './clock.ts';
import type { Frame } from './frame.ts';

export type Gap = {
  /** What has come meanwhile. */
  held: Frame[];
  /** ts of the facts that those say to come after. */
  named: Set<number>;
  /** ts of facts that came and that no listener is shown. */
  hidden: Set<number>;
  /** More may have been missed since the reading began. */
  isWider: boolean;
};

const maxHeld = 4_096;
/** Its owner tries for longer than ten seconds to store a fact, and may have stored a later one before. */
const patienceMs = 15_000;
const againMs = 250;

/** Whether there may be a fact between those that the topic has had and this one. */
export function isGapBefore(
  { lastTs, completeAfterTs }: { lastTs: number; completeAfterTs: number },
  { ts }: Frame,
  after: After | undefined,
): boolean {
  if (after === undefined || ts <= lastTs) return false;
  if (lastTs === 0) return after !== 'unknown' && after > completeAfterTs;
  return after === 'unknown' || after > lastTs;
}

export function openGap(): Gap {
  return { held: [], named: new Set(), hidden: new Set(), isWider: false };
}

/** Keeps a fact for the end of the gap. Bounded: a gap with more ends the streams, which then resume. */
export function holdFrame({ held, named }: Gap, frame: Frame, after: After | undefined): void {
  if (held.length >= maxHeld) return;
  held.push(frame);
  if (typeof after === 'number') named.add(after);
}

export type GapPorts = {
  /** What is stored above the newest that was added; tells of the ts of facts that are no frames. */
  read(onHidden: (ts: number) => void): AsyncIterable<Frame>;
  /** Newest ts that was added. */
  lastTs(): number;
  add(frame: Frame): void;
  /** All is added: what comes now waits no more. */
  close(): void;
};

/**
 * Adds what was missed, then what was held, in the order of ts: listeners see neither a gap nor a repetition. What is
 * named and not stored yet is waited for, some seconds.
 *
 * @throws what reading throws after these seconds, and when too much was held: the topic's streams must then end.
 */
export async function fillGap(gap: Gap, ports: GapPorts, clock: Clock): Promise<void> {
  const givenUpAt = clock.monotonic() + patienceMs;
  const add = (frames: Frame[]) => {
    for (const frame of frames.sort((a, b) => a.ts - b.ts)) ports.add(frame);
  };
  for (;;) {
    gap.isWider = false;
    const { found, failure } = await readAll(gap, ports, add);
    const isGivenUp = clock.monotonic() >= givenUpAt;
    if (failure !== undefined && isGivenUp) throw failure;
    if (gap.held.length >= maxHeld) throw new RangeError(`more than ${maxHeld} facts while a gap was read`);
    found.push(...gap.held);
    const isRead = failure === undefined && !gap.isWider;
    if (isRead && (isGivenUp || isWhole(gap, found, ports.lastTs()))) {
      add(found);
      ports.close();
      return;
    }
    await new Promise<void>((resolve) => clock.after(againMs, resolve));
  }
}

/** `failure`: what ended the reading, if anything did. */
async function readAll(
  gap: Gap,
  { read }: GapPorts,
  add: (frames: Frame[]) => void,
): Promise<{ found: Frame[]; failure?: unknown }> {
  const found: Frame[] = [];
  try {
    for await (const frame of read((ts) => gap.hidden.add(ts))) {
      found.push(frame);
      // So large a gap is handed on as it is read.
      if (found.length >= maxHeld) add(found.splice(0));
    }
    return { found };
  } catch (failure) {
    return { found, failure };
  }
}

function isWhole({ named, hidden }: Gap, found: readonly Frame[], lastTs: number): boolean {
  const there = new Set(found.map(({ ts }) => ts));
  return [...named].every((ts) => ts <= lastTs || there.has(ts) || hidden.has(ts));
}
