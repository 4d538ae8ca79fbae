/**
 * The hub of server-sent events: who listens to what, in this process.
 *
 *   bus ──fact──▶ topic (one per project: ring of frames) ──flush──▶ listeners, one write each
 *                                                        └─ catch-up ▶ what a listener missed, then live
 *
 * A topic lives while its project has streams, and some seconds longer. Times and bounds: decisions 5.
 */
import type { StreamEventName } from '../../schemas/events.ts';
import { sse } from '../../schemas/limits.ts';
import { createCatchUp } from './catch-up.ts';
import { type Clock, hubClock } from './clock.ts';
import { createFlusher } from './flusher.ts';
import { heartbeat, toRetry } from './frame.ts';
import { createLimiter } from './limiter.ts';
import {
  type Client,
  end,
  type Filter,
  type Grant,
  type Listener,
  type StreamResponse,
  send,
} from './listener.ts';
import { startOf } from './replay.ts';
import { createRunEnds, type RunEndsPorts } from './run-ends.ts';
import { type ReplayPorts, within } from './stored.ts';
import { addListener, groupOf, listenersOf, removeListener, type Topic, type TopicPorts } from './topic.ts';
import { createTopics } from './topics.ts';
import { createWheel } from './wheel.ts';

export type HubPorts = Omit<TopicPorts, 'tally'> &
  ReplayPorts &
  RunEndsPorts & {
    isConnected(): boolean;
    /** Calls back when the connection to the bus is there again after a loss: facts may have been missed. */
    onReconnect(call: () => void): { stop(): void };
    /** Calls back when messages of a worker have gone missing on their way: facts of it may have. */
    onMissing(call: () => void): { stop(): void };
    /** Whether streams may stay open on a grant; asked after a loss, when word of its end may be lost too. */
    isGranted(projectId: string, grant: Grant, signal: AbortSignal): Promise<boolean>;
    log: { warn(fields: object, message: string): void; error(fields: object, message: string): void };
  };

export type HubOptions = { maxMs?: number; heartbeatMs?: number; clock?: Clock; random?: () => number };

export type StreamOptions = {
  projectId: string;
  filter: Filter;
  grant: Grant;
  /** As the client sent it; the empty string when it sent none. */
  lastEventId: string;
  /** Headers of the answer beside those of every stream. */
  headers: Record<string, string>;
  client: Client;
};

/** A stream as endWhere judges it. */
export type OpenStream = { projectId: string; assetId: string | undefined; grant: Grant };

export type HubStats = {
  streams: number;
  topics: number;
  waiting: number;
  blocked: number;
  /** Totals: writes with new events, streams replayed to, streams ended because they were too slow. */
  deliveries: number;
  replayed: number;
  endedSlow: number;
  /** Events that were joined to one before them in a single write; streams ever opened. */
  joined: number;
  opened: number;
};

export type Hub = ReturnType<typeof createHub>;

const subscribeMs = 2_000;
/** How long after a loss elsewhere the bus knows again who listens. */
const settledMs = 1_000;
const endedAtOnce = 200;
const maxChecks = 16;

export function createHub(ports: HubPorts, options: HubOptions = {}) {
  const {
    maxMs = sse.maxMs,
    heartbeatMs = sse.heartbeatMs,
    clock = hubClock,
    random = Math.random,
  } = options;
  const stopping = new AbortController();
  const flusher = createFlusher(clock);
  const runEnds = createRunEnds(ports, clock);
  const wheel = createWheel<Listener>(clock, (listener) => visit(listener));
  const checks = createLimiter(maxChecks, Number.POSITIVE_INFINITY);
  const ends = createRecentEnds(clock);
  let streams = 0;
  let endedSlow = 0;
  let opened = 0;
  const tally = { joined: 0 };

  const topics = createTopics(
    {
      ...ports,
      tally,
      stopping: stopping.signal,
      onNew: flusher.schedule,
      onLost(topic, cause) {
        ports.log.warn({ err: cause, projectId: topic.projectId }, 'streams end: their facts cannot be read');
        for (const listener of [...listenersOf(topic)]) finish(listener);
      },
    },
    clock,
  );

  const catchUp = createCatchUp(
    {
      ...ports,
      stopping: stopping.signal,
      onFallenOut: (listener) => endSlow(listener),
      onFailed(listener, cause) {
        ports.log.warn({ err: cause, projectId: listener.group.topic.projectId }, 'a replay ended early');
        finish(listener, toRetry(sse.outageRetryMs));
      },
    },
    clock,
  );

  const reconnects = ports.onReconnect(() => {
    topics.fillGaps();
    endRevoked();
  });

  let cancelLook: (() => void) | undefined;
  const missing = ports.onMissing(() => {
    cancelLook ??= clock.after(settledMs, () => {
      cancelLook = undefined;
      topics.fillGaps();
    });
  });

  /** Heartbeat, end of life, end of patience: answers when to look again. */
  const visit = (listener: Listener): number | undefined => {
    const now = clock.monotonic();
    if (listener.blockedAt !== undefined && now - listener.blockedAt >= sse.blockedMs)
      return endSlow(listener);
    if (now >= listener.endAt) return finish(listener);
    if (listener.blockedAt === undefined && now - listener.lastWriteAt >= heartbeatMs)
      send(listener, heartbeat, now);
    const dueAt =
      listener.blockedAt === undefined
        ? listener.lastWriteAt + heartbeatMs
        : listener.blockedAt + sse.blockedMs;
    return Math.min(dueAt, listener.endAt) - now;
  };

  const forget = (listener: Listener): void => {
    if (listener.state === 'closed') return;
    listener.state = 'closed';
    streams -= 1;
    wheel.remove(listener);
    listener.onDrained?.();
    if (removeListener(listener)) topics.release(listener.group.topic);
  };

  /** Made by itself: a closure keeps whatever the others of its function use, the request's headers say. */
  const forgetting = (listener: Listener) => () => forget(listener);

  const between = (min: number, max: number) => min + (max - min) * random();
  const restartRetry = () => toRetry(between(sse.minRestartRetryMs, sse.maxRestartRetryMs));

  /** Ends a stream; `last` is written before, when the connection takes it. */
  const finish = (listener: Listener, last?: Buffer): undefined => {
    if (listener.state === 'closed') return;
    if (last && listener.blockedAt === undefined) send(listener, last, clock.monotonic());
    end(listener);
    listener.client.onEnd?.();
    forget(listener);
  };

  const endSlow = (listener: Listener): undefined => {
    endedSlow += 1;
    return finish(listener);
  };

  /** Whose key, session or project ended while the bus was away is found out by asking. */
  const endRevoked = (): void => {
    const byGrant = new Map<string, Listener[]>();
    for (const listener of topics.listeners()) {
      const name = JSON.stringify([listener.group.topic.projectId, listener.grant]);
      const same = byGrant.get(name);
      if (same) same.push(listener);
      else byGrant.set(name, [listener]);
    }
    for (const group of byGrant.values()) void checks.run(() => endUnlessGranted(group));
  };

  const endUnlessGranted = async (group: Listener[]): Promise<void> => {
    const [first] = group;
    if (!first || stopping.signal.aborted) return;
    let isGranted = false;
    try {
      isGranted = await ports.isGranted(first.group.topic.projectId, first.grant, stopping.signal);
    } catch (err) {
      // Not knowing is no reason to stay open: who may, comes back.
      ports.log.error({ err }, 'the grant of streams cannot be checked');
    }
    if (!isGranted) for (const listener of group) finish(listener);
  };

  const begin = (response: StreamResponse, topic: Topic, stream: StreamOptions): void => {
    const now = clock.monotonic();
    const start = startOf(topic, stream.filter, stream.lastEventId);
    const listener: Listener = {
      response,
      group: groupOf(topic, stream.filter),
      place: -1,
      grant: stream.grant,
      client: stream.client,
      next: start.from === 'ring' ? start.next : topic.ring.end,
      afterTs: start.from === 'ring' ? start.afterTs : 0,
      state: start.from === 'ring' ? 'behind' : 'replaying',
      blockedAt: undefined,
      onWritable: catchUp.onWritable,
      hasBeenBlocked: false,
      onDrained: undefined,
      lastWriteAt: now,
      endAt: now + maxMs * between(sse.minLifeShare, 1),
      slot: -1,
    };
    streams += 1;
    opened += 1;
    addListener(listener);
    wheel.put(listener, Math.min(heartbeatMs, listener.endAt - now));
    stream.client.onGone = forgetting(listener);
    greet(response, stream.headers, toRetry(between(sse.minRetryMs, sse.maxRetryMs)));
    // It may have been let in by what was remembered, or while word of its end arrived.
    if (ends.fit(openStreamOf(listener))) void checks.run(() => endUnlessGranted([listener]));
    if (start.from === 'ring') catchUp.pump(listener);
    else void catchUp.replay(listener, start.afterId);
  };

  const becomesReady = async (topic: Topic): Promise<boolean> => {
    const isReady = await within(topic.ready, subscribeMs, clock).then(
      () => true,
      () => false,
    );
    return isReady && topic.isReady && !stopping.signal.aborted && topics.has(topic);
  };

  return {
    /**
     * Opens a stream: head, `retry:`, then what the client missed, then what is new (decisions 5). The caller
     * has let the client in and has set uWS's onAborted to tell `stream.client`.
     *
     * @returns `unavailable` when the bus cannot be reached, `stopping` when the hub stops: nothing is written
     * then. `gone` when the client left meanwhile.
     */
    async open(
      response: StreamResponse,
      stream: StreamOptions,
    ): Promise<'open' | 'gone' | 'unavailable' | 'stopping'> {
      if (stopping.signal.aborted) return 'stopping';
      if (!ports.isConnected()) return 'unavailable';
      const topic = topics.join(stream.projectId);
      if (!topic.isReady && !(await becomesReady(topic))) {
        topics.leave(topic);
        return stopping.signal.aborted ? 'stopping' : 'unavailable';
      }
      const { isGone } = stream.client;
      if (!isGone) begin(response, topic, stream);
      topics.leave(topic);
      return isGone ? 'gone' : 'open';
    },

    /**
     * Writes a stream that says when to come back, for a client that must not be refused: in half a minute, or
     * sooner when it is only this process that goes.
     */
    postpone(response: StreamResponse, headers: Record<string, string>): void {
      greet(response, headers, stopping.signal.aborted ? restartRetry() : toRetry(sse.outageRetryMs), true);
    },

    /** Waits for the next end of a run of an asset: see run-ends.ts. */
    waitForEnd: runEnds.waitForEnd,
    onRunChange: runEnds.onChange,

    /** Ends the streams that fit, in order and at once. One that fits and opens a moment later is checked. */
    endWhere(fits: Fits): void {
      ends.add(fits);
      for (const listener of topics.listeners()) if (fits(openStreamOf(listener))) finish(listener);
    },

    /**
     * Writes a frame that is kept nowhere to the owner's streams of a whole project that ask for its kind. One that
     * is busy with what it missed, or slow, does without.
     */
    showProgress(projectId: string, event: StreamEventName, bytes: Buffer): void {
      for (const listener of topics.listenersOf(projectId)) {
        const { filter } = listener.group;
        const isWanted =
          filter.assetId === undefined &&
          !filter.isLifecycleOnly &&
          (filter.types === undefined || filter.types.has(event));
        if (isWanted && listener.state === 'live' && listener.blockedAt === undefined)
          send(listener, bytes, clock.monotonic());
      }
    },

    stats(): HubStats {
      const blocked = topics.listeners().filter(({ blockedAt }) => blockedAt !== undefined).length;
      const { size } = topics;
      const { waiting } = runEnds;
      return {
        streams,
        topics: size,
        waiting,
        blocked,
        deliveries: flusher.writes,
        replayed: catchUp.replayed,
        endedSlow,
        joined: tally.joined,
        opened,
      };
    },

    /** Gives every stream what is new, ends all in order, some at a time, and stops listening. */
    async close(): Promise<void> {
      stopping.abort();
      reconnects.stop();
      missing.stop();
      cancelLook?.();
      runEnds.stop();
      flusher.flushAll();
      const listeners = topics.listeners();
      for (let n = 0; n < listeners.length; n += endedAtOnce) {
        for (const listener of listeners.slice(n, n + endedAtOnce)) finish(listener, restartRetry());
        await new Promise<void>((resolve) => clock.soon(resolve));
      }
      topics.close();
      wheel.stop();
    },
  };
}

type Fits = (stream: OpenStream) => boolean;

/** Longer than what let a stream in is remembered, and than its opening takes. */
const recentMs = 5_000;
const maxRecent = 1_000;

/** What has ended lately. When that is too much to be remembered, everything is said to fit. */
function createRecentEnds(clock: Pick<Clock, 'monotonic'>) {
  let recent: { fits: Fits; at: number }[] = [];
  let overflowedAt = Number.NEGATIVE_INFINITY;
  const isRecent = (at: number) => clock.monotonic() - at < recentMs;
  return {
    add(fits: Fits): void {
      recent = recent.filter(({ at }) => isRecent(at));
      if (recent.length >= maxRecent) {
        recent = [];
        overflowedAt = clock.monotonic();
      }
      recent.push({ fits, at: clock.monotonic() });
    },
    fit: (stream: OpenStream): boolean =>
      isRecent(overflowedAt) || recent.some(({ fits, at }) => isRecent(at) && fits(stream)),
  };
}

function openStreamOf({ group, grant }: Listener): OpenStream {
  return { projectId: group.topic.projectId, assetId: group.filter.assetId, grant };
}

const streamHeaders = [
  ['Content-Type', 'text/event-stream'],
  ['Cache-Control', 'no-store, no-transform'],
  ['X-Accel-Buffering', 'no'],
] as const;

/** Head and first bytes of a stream, and where wanted its end. */
function greet(
  response: StreamResponse,
  headers: Record<string, string>,
  first: Buffer,
  isEnd = false,
): void {
  response.cork(() => {
    response.writeStatus('200 OK');
    for (const [name, value] of streamHeaders) response.writeHeader(name, value);
    for (const name in headers) response.writeHeader(name, headers[name] ?? '');
    response.write(first);
    if (isEnd) response.end();
  });
}
