/**
 * Bodies of requests. A connection that is closed with bytes unread is reset, and its client never sees why:
 * so what is too large is read on for a while and thrown away, and the answer comes after it.
 */
import type { HttpResponse } from 'uWebSockets.js';

/** What a body turned out to be. `isDrained` false: there is more of it, and the connection must be closed. */
export type Body =
  | { kind: 'whole'; bytes: Buffer }
  | { kind: 'too large'; isDrained: boolean }
  | { kind: 'too slow' }
  | { kind: 'aborted' };

/** A body as it comes, for those too large to be kept. */
export type BodyStream = {
  /** Value of Content-Type, empty without one. */
  contentType: string;
  /** Announced length in bytes; undefined when it comes in chunks. */
  length: number | undefined;
  /** To be read once. Throws when the client goes away or takes too long. */
  chunks: AsyncIterable<Uint8Array>;
};

/** What this module needs of an exchange: see route.ts. */
export type BodyOwner = {
  readonly res: HttpResponse;
  readonly isOpen: boolean;
  onAborted(listener: () => void): void;
};

/** How long bodies may take; tests hand in shorter times. */
export type BodyTimes = { [Name in 'bodyMs' | 'streamMs' | 'bodySilenceMs']: number };

/** A streamed body that came too slowly to its end: the client's doing, answered by 408. */
export class SlowBodyError extends Error {
  override readonly name = 'SlowBodyError';
}

/** Bytes thrown away for the sake of an answer that arrives. */
const maxDrainedBytes = 32 * 1024 * 1024;
/** Less than the parser's own patience with a client that sends nothing: see watchPace. */
const drainMs = 5_000;
/** A reader that is behind by more makes the connection wait. */
const maxQueuedBytes = 256 * 1024;

/**
 * Reads a body into memory. To be called before the handler returns.
 *
 * @param length as announced: what is announced too large is not waited for.
 */
export function collectBody(
  owner: BodyOwner,
  length: number | undefined,
  maxBytes: number,
  times: BodyTimes,
): Promise<Body> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    let bytes = 0;
    let isDone = false;
    const finish = (body: Body) => {
      isDone = true;
      pace.stop();
      resolve(body);
    };
    const overdue = () => finish(bytes > maxBytes ? unread : { kind: 'too slow' });
    const pace = watchPace(owner, times.bodyMs, times.bodySilenceMs, overdue);
    const add = (chunk: ArrayBuffer, isLast: boolean) => {
      bytes += chunk.byteLength;
      if (bytes <= maxBytes) pieces.push(copyOf(chunk));
      else pieces.length = 0;
      if (bytes > maxBytes + maxDrainedBytes) finish(unread);
      else if (!isLast) pace.heard();
      else if (bytes > maxBytes) finish({ kind: 'too large', isDrained: true });
      else finish({ kind: 'whole', bytes: join(pieces) });
    };
    if ((length ?? 0) > maxBytes + maxDrainedBytes) finish(unread);
    owner.onAborted(() => finish({ kind: 'aborted' }));
    owner.res.onData((chunk, isLast) => {
      if (!isDone) add(chunk, isLast);
    });
  });
}

const unread: Body = { kind: 'too large', isDrained: false };

/**
 * Hands a body on as it comes, with back-pressure. To be called before the handler returns.
 *
 * `finish` reads what its reader left. It answers false when there is still more and the connection must be
 * closed.
 */
export function streamBody(
  owner: BodyOwner,
  { contentType, length }: { contentType: string; length: number | undefined },
  times: BodyTimes,
): BodyStream & { finish(): Promise<boolean> } {
  const queue: Buffer[] = [];
  let queuedBytes = 0;
  let drainedBytes = 0;
  let isLast = false;
  let isPaused = false;
  let isDraining = false;
  let failure: Error | undefined;
  let wake: (() => void) | undefined;

  const notify = () => {
    wake?.();
    wake = undefined;
  };
  const changed = () =>
    new Promise<void>((resolve) => {
      wake = resolve;
    });
  const fail = (error: Error) => {
    failure ??= error;
    notify();
  };
  const overdue = () => fail(new SlowBodyError('the body took too long'));
  const pace = watchPace(owner, times.streamMs, times.bodySilenceMs, overdue, () => isPaused);
  const resume = () => {
    if (!isPaused) return;
    isPaused = false;
    if (owner.isOpen) owner.res.resume();
    pace.heard();
  };
  owner.onAborted(() => {
    pace.stop();
    fail(new Error('the client went away'));
  });
  owner.res.onData((chunk, last) => {
    isLast = last;
    if (isDraining) drainedBytes += chunk.byteLength;
    else if (chunk.byteLength > 0) {
      queue.push(copyOf(chunk));
      queuedBytes += chunk.byteLength;
    }
    if (last) pace.stop();
    else if (queuedBytes > maxQueuedBytes && !isPaused) {
      isPaused = true;
      owner.res.pause();
    } else if (!failure) pace.heard();
    notify();
  });

  async function* read(): AsyncGenerator<Uint8Array> {
    while (true) {
      if (failure) throw failure;
      const piece = queue.shift();
      if (piece) {
        queuedBytes -= piece.byteLength;
        yield piece;
      } else if (isLast) {
        return;
      } else {
        const more = changed();
        resume();
        await more;
      }
    }
  }

  return {
    contentType,
    length,
    chunks: { [Symbol.asyncIterator]: read },
    async finish() {
      isDraining = true;
      queue.length = 0;
      queuedBytes = 0;
      const limit = setTimeout(overdue, drainMs);
      resume();
      while (!isLast && !failure && drainedBytes <= maxDrainedBytes) await changed();
      clearTimeout(limit);
      pace.stop();
      return isLast;
    },
  };
}

/**
 * Calls `overdue` when a body has been silent for too long or is not complete in time. The parser hangs up without
 * a word on clients slower than 16 KB/s; being paused for a moment makes it begin its count anew.
 */
function watchPace(
  owner: BodyOwner,
  totalMs: number,
  silenceMs: number,
  overdue: () => void,
  isPaused: () => boolean = () => false,
) {
  const startedAt = performance.now();
  let refreshedAt = startedAt;
  const isLate = () => performance.now() - startedAt >= totalMs;
  const check = () => {
    // A reader of ours that is behind is not the client's silence.
    if (isPaused() && !isLate()) timer.refresh();
    else overdue();
  };
  const timer = setTimeout(check, Math.min(silenceMs, totalMs)).unref();
  return {
    /** To be called for each piece. */
    heard() {
      if (isLate()) {
        overdue();
        return;
      }
      timer.refresh();
      const now = performance.now();
      if (now - refreshedAt < refreshMs || isPaused() || !owner.isOpen) return;
      refreshedAt = now;
      owner.res.pause();
      owner.res.resume();
    },
    stop: () => clearTimeout(timer),
  };
}

const refreshMs = 1_000;

/** uWebSockets.js takes a chunk's memory back when the callback returns. */
function copyOf(chunk: ArrayBuffer): Buffer {
  return Buffer.from(Buffer.from(chunk));
}

function join(pieces: Buffer[]): Buffer {
  const [first = Buffer.alloc(0)] = pieces;
  return pieces.length <= 1 ? first : Buffer.concat(pieces);
}
