/**
 * What is stored of a project's events, read once for all who missed about the same: after a restart or a loss
 * that is everybody.
 *
 * A read is kept as a page: bounded, filled at once whatever its readers' connections take, and dropped soon after.
 * What does not fit into a page is in the next one.
 */
import type { Clock } from './clock.ts';
import { type Frame, toFrame, tsOf } from './frame.ts';
import { maxSliceBytes } from './slices.ts';
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

/** Stored frames above a ts. */
export type Page = {
  readonly sinceTs: number;
  /** Index in the topic's ring below which everything was stored when the page was begun. */
  readonly begin: number;
  /** In pieces, oldest first. */
  readonly frames: Frame[][];
  sizeBytes: number;
  lastTs: number;
  /** Greatest ts met that is not above `sinceTs`; 0 for none. */
  skippedTs: number;
  /** There is more after it. */
  isFull: boolean;
  isWhole: boolean;
  failure: unknown;
  readers: number;
  /** Told when there is more of it. */
  waiting: (() => void)[];
  /** Takes it from its topic, and ends its reading. */
  drop(): void;
};

/** A document on its way: everything below `begin` in the ring is in it. */
export type DocumentRead = { begin: number; frames: Promise<Frame[]> };

const maxPageBytes = 512 * 1024;
const maxPieceFrames = 256;
/** How long a page is given to newcomers: clients come back within seconds of each other. */
const keptMs = 2_000;
/** How much earlier than the wanted ts a read of the facts stream begins: its clock is the server's. */
const skewMs = 30_000;
/** As many facts as one group commit publishes, mostly; of a project there are fewer. */
const maxAhead = 256;
/** Longest wait for the next stored fact. */
const maxReadMs = 10_000;

/** The page above a ts of a project or of one asset of it: one that is there, or a new one. */
export function openPage(
  ports: ReplayPorts,
  clock: Clock,
  topic: Topic,
  assetId: string | undefined,
  sinceTs: number,
): Page {
  const { pages, ring } = topic;
  const name = assetId ?? '*';
  const known = pages.get(name);
  // Of one that was begun earlier the events that followed have left the ring.
  if (known && isFit(known, sinceTs) && known.begin >= ring.start) return known;
  known?.drop();

  const control = new AbortController();
  const cancel = clock.after(keptMs, () => forget());
  const forget = (): void => {
    cancel();
    if (pages.get(name) === page) pages.delete(name);
    // Who reads it reads on.
    if (page.readers === 0) control.abort();
  };
  const page: Page = {
    sinceTs,
    begin: ring.end,
    frames: [],
    sizeBytes: 0,
    lastTs: sinceTs,
    skippedTs: 0,
    isFull: false,
    isWhole: false,
    failure: undefined,
    readers: 0,
    waiting: [],
    drop: forget,
  };
  pages.set(name, page);
  const onSkipped = (ts: number): void => {
    page.skippedTs = ts;
  };
  void fillPage(
    page,
    readStored(ports, clock, topic, { assetId, sinceTs, signal: control.signal, onSkipped }),
  );
  return page;
}

/** Whether all that is above a ts is in a page or after it. */
function isFit(page: Page, sinceTs: number): boolean {
  if (page.failure !== undefined || page.sinceTs > sinceTs) return false;
  return !page.isFull || sinceTs < page.lastTs;
}

async function fillPage(page: Page, stored: AsyncIterable<Frame>): Promise<void> {
  let piece: Frame[] = [];
  let pieceBytes = 0;
  const add = (): void => {
    page.frames.push(piece);
    piece = [];
    pieceBytes = 0;
    wake(page);
  };
  try {
    for await (const frame of stored) {
      if (frame.ts <= page.lastTs) continue;
      piece.push(frame);
      page.lastTs = frame.ts;
      page.sizeBytes += frame.bytes.length;
      pieceBytes += frame.bytes.length;
      if (piece.length >= maxPieceFrames || pieceBytes >= maxSliceBytes) add();
      page.isFull = page.sizeBytes >= maxPageBytes;
      if (page.isFull) break;
    }
    page.isWhole = true;
  } catch (cause) {
    page.failure = cause;
    page.drop();
  }
  add();
}

function wake(page: Page): void {
  const { waiting } = page;
  page.waiting = [];
  for (const call of waiting) call();
}

/** Gives what is in a page, and what comes into it. @throws what reading it has thrown. */
export async function* framesOf(page: Page): AsyncGenerator<Frame[]> {
  page.readers += 1;
  try {
    for (let n = 0; ; ) {
      const piece = page.frames[n];
      if (piece) {
        n += 1;
        yield piece;
      } else if (page.failure !== undefined) {
        throw page.failure;
      } else if (page.isWhole) {
        return;
      } else {
        await new Promise<void>((resolve) => page.waiting.push(resolve));
      }
    }
  } finally {
    page.readers -= 1;
  }
}

/** What an asset's document keeps; who asks while it is read is given the same. */
export function readDocument(ports: ReplayPorts, clock: Clock, topic: Topic, assetId: string): DocumentRead {
  const { documents, ring, projectId } = topic;
  const known = documents.get(assetId);
  if (known && known.begin >= ring.start) return known;
  const toOwn = (fact: object) => toFrame({ ...fact, asset_id: assetId, project_id: projectId });
  const control = new AbortController();
  const frames = within(ports.assetFacts(assetId, control.signal), maxReadMs, clock)
    .then((facts) => facts.map(toOwn).filter((frame) => frame !== undefined))
    .finally(() => {
      control.abort();
      if (documents.get(assetId) === read) documents.delete(assetId);
    });
  const read: DocumentRead = { begin: ring.end, frames };
  documents.set(assetId, read);
  return read;
}

/** `onSkipped` is told of what was read before the first frame, `onHidden` of what is no frame: its ts. */
type StoredRead = {
  assetId: string | undefined;
  sinceTs: number;
  signal: AbortSignal;
  onSkipped?: (ts: number) => void;
  onHidden?: (ts: number) => void;
};

/** Stored frames above a ts, oldest first. @throws when the next stands still for 10 seconds. */
export async function* readStored(
  ports: ReplayPorts,
  clock: Clock,
  topic: Topic,
  read: StoredRead,
): AsyncGenerator<Frame> {
  const ahead: Frame[] = [];
  for await (const frame of readFrames(ports, clock, topic, read)) {
    ahead.push(frame);
    if (ahead.length < 2 * maxAhead) continue;
    ahead.sort(byTs);
    yield* ahead.splice(0, maxAhead);
  }
  yield* ahead.sort(byTs);
}

const byTs = (a: Frame, b: Frame) => a.ts - b.ts;

/** In the order in which they are stored: one that had to be tried again is behind others of its batch. */
async function* readFrames(
  ports: ReplayPorts,
  clock: Clock,
  { projectId }: Topic,
  { assetId, sinceTs, signal, onSkipped, onHidden }: StoredRead,
): AsyncGenerator<Frame> {
  const facts = ports.replayFacts(projectId, assetId ?? '*', sinceTs - skewMs, signal);
  const iterator = facts[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await within(iterator.next(), maxReadMs, clock);
      if (done) return;
      const ts = tsOf(value);
      // A frame costs more than to read its fact, and there may be thousands.
      if (ts !== undefined && ts <= sinceTs) {
        onSkipped?.(ts);
        continue;
      }
      const frame = toFrame(value);
      if (frame) yield frame;
      else if (ts !== undefined) onHidden?.(ts);
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
