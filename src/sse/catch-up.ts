/**
 * Brings a listener from where it is to live: from what is stored, from the ring, and again from the ring after
 * its connection was full.
 */
import type { Clock } from './clock.ts';
import { lostComment } from './frame.ts';
import { createLimiter } from './limiter.ts';
import { drain, type Listener, send } from './listener.ts';
import { type Missed, readMissed } from './replay.ts';
import { createSlices } from './slices.ts';
import type { ReplayPorts } from './stored.ts';

export type CatchUpPorts = ReplayPorts & {
  /** A listener has fallen out of the ring. */
  onFallenOut(listener: Listener): void;
  /** What a listener missed cannot be read. */
  onFailed(listener: Listener, cause: unknown): void;
  /** Aborted when the hub stops. */
  stopping: AbortSignal;
};

const maxReplays = 128;
const maxReplaysWaiting = 20_000;
const maxReplayMs = 120_000;
/** How often what left the ring during a replay is read again. */
const maxRounds = 5;

export function createCatchUp(ports: CatchUpPorts, clock: Clock) {
  const limiter = createLimiter(maxReplays, maxReplaysWaiting);
  const reading = new Set<AbortController>();
  const slices = createSlices(clock);
  let replayed = 0;
  ports.stopping.addEventListener('abort', () => {
    for (const control of reading) control.abort();
  });

  const pump = (listener: Listener): void => {
    const { ring } = listener.group.topic;
    while (listener.state === 'behind') {
      if (listener.next < ring.start) {
        ports.onFallenOut(listener);
        return;
      }
      const { bytes, next, lastTs } = slices.next(listener);
      listener.next = next;
      if (bytes === undefined) {
        listener.state = 'live';
        return;
      }
      listener.afterTs = Math.max(listener.afterTs, lastTs);
      if (!send(listener, bytes, clock.monotonic())) return;
    }
  };

  /** Writes and waits until more may follow. Answers false when the stream has closed. */
  const sendAndWait = async (listener: Listener, bytes: Buffer): Promise<boolean> => {
    if (isClosed(listener)) return false;
    if (!send(listener, bytes, clock.monotonic())) {
      await new Promise<void>((resolve) => {
        listener.onDrained = resolve;
      });
    }
    return !isClosed(listener);
  };

  /** Answers false when the stream has closed meanwhile. */
  const sendMissed = async (listener: Listener, missed: Missed, signal: AbortSignal): Promise<boolean> => {
    let isTold = false;
    const tellLoss = async (): Promise<boolean> => {
      if (isTold || !missed.isLossy()) return !isClosed(listener);
      isTold = true;
      return sendAndWait(listener, lostComment);
    };
    for await (const piece of missed.frames) {
      signal.throwIfAborted();
      if (!(await tellLoss())) return false;
      for (const part of slices.partsOf(listener.group, piece)) {
        if (!(await sendAndWait(listener, part))) return false;
      }
    }
    return tellLoss();
  };

  const replayRounds = async (
    listener: Listener,
    afterId: number | undefined,
    signal: AbortSignal,
  ): Promise<void> => {
    const { ring } = listener.group.topic;
    let after = afterId;
    for (let round = 0; round < maxRounds; round += 1) {
      const begin = ring.end;
      const missed = readMissed(ports, clock, listener.group, after);
      if (!(await sendMissed(listener, missed, signal))) return;
      signal.throwIfAborted();
      const isIssued = passRead(listener, after, missed);
      if (ring.start <= missed.begin()) {
        listener.next = isIssued ? ring.indexAfter(listener.afterTs) : begin;
        listener.state = 'behind';
        pump(listener);
        return;
      }
      after = listener.afterTs;
    }
    throw new RangeError('the project has more events than the stream can be given');
  };

  return {
    /** Sends what the listener missed from the ring, until it is live or its connection is full. */
    pump,

    /** Sends what is stored after an id (undefined: the asset's current run), then goes on from the ring. */
    async replay(listener: Listener, afterId: number | undefined): Promise<void> {
      const control = new AbortController();
      const cancel = clock.after(maxReplayMs, () => control.abort());
      reading.add(control);
      try {
        await limiter.run(() => replayRounds(listener, afterId, control.signal));
        replayed += 1;
      } catch (cause) {
        ports.onFailed(listener, cause);
      } finally {
        control.abort();
        cancel();
        reading.delete(control);
      }
    },

    /** The connection may take bytes again. */
    onWritable(listener: Listener): void {
      if (isClosed(listener) || !drain(listener, clock.monotonic())) return;
      const { onDrained } = listener;
      listener.onDrained = undefined;
      if (onDrained) onDrained();
      else pump(listener);
    },

    get replayed() {
      return replayed;
    },
  };
}

/**
 * Moves a listener past what was read; answers whether the id that it came with was ever issued. With no fact at or
 * above it, it was not: what comes is above what was seen.
 */
function passRead(listener: Listener, after: number | undefined, missed: Missed): boolean {
  const seenTs = missed.seenTs();
  const isIssued = after === undefined || Math.max(seenTs, listener.group.topic.lastTs) >= after;
  listener.afterTs = Math.max(seenTs, isIssued ? (after ?? 0) : 0);
  return isIssued;
}

const isClosed = (listener: Listener): boolean => listener.state === 'closed';
