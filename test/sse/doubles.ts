/** Time, bus, documents and connections in memory, for tests of the hub. */
import type { EventName } from '../../schemas/events.ts';
import type { After } from '../../src/bus/publisher.ts';
import type { Clock } from '../../src/sse/clock.ts';
import { createHub, type HubOptions, type HubPorts, type StreamOptions } from '../../src/sse/hub.ts';
import type { StreamResponse } from '../../src/sse/listener.ts';

export type Fact = {
  ts: number;
  event: EventName;
  asset_id: string;
  project_id: string;
  attempt: number;
  request_id: string;
  run: number;
} & Record<string, unknown>;

/** Done at once; never done. */
export const nothing = async (): Promise<void> => undefined;
export const never = (): Promise<never> => new Promise(() => undefined);

const startTs = 1_800_000_000_000;
const passMs = 200;

export function createTime() {
  let ms = 0;
  let timers: { at: number; call: () => void }[] = [];
  let soon: (() => void)[] = [];
  const clock: Clock = {
    now: () => startTs + ms,
    monotonic: () => ms,
    after(delay, call) {
      const timer = { at: ms + delay, call };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    soon: (call) => void soon.push(call),
  };
  /** Lets promises and what was put off come to rest. */
  const settle = async () => {
    for (let turn = 0; turn < 6; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      const calls = soon;
      soon = [];
      for (const call of calls) call();
    }
  };
  return {
    clock,
    settle,
    get timers() {
      return timers.length;
    },
    async advance(delay: number) {
      const until = ms + delay;
      for (;;) {
        const [next] = timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
        if (!next) break;
        timers = timers.filter((other) => other !== next);
        ms = Math.max(ms, next.at);
        next.call();
        if (soon.length > 0) await settle();
      }
      ms = until;
      await settle();
    },
  };
}

/** A bus with a stream of stored facts, and the assets' documents. */
export function createBus(time: ReturnType<typeof createTime>) {
  const stored: Fact[] = [];
  const documents = new Map<string, Fact[]>();
  type Call = Parameters<HubPorts['onFacts']>[1];
  const subscribers = new Set<{ wants: (fact: Fact) => boolean; call: Call }>();
  const missings = new Set<() => void>();
  const reconnects = new Set<() => void>();
  const bus = {
    isConnected: true,
    /** Replaced to make subscribing or reading slow or faulty. */
    onFlush: nothing,
    beforeRead: nothing,
    granted: async () => true,
    warnings: [] as string[],
    reads: 0,
    stored,
    documents,
    get subscriptions() {
      return subscribers.size;
    },
    deliver(fact: Fact, after?: After) {
      if (!bus.isConnected) return;
      const told = { text: JSON.stringify(fact), after };
      for (const { wants, call } of [...subscribers]) if (wants(fact)) call(fact, told);
    },
    /** Stores a fact and delivers it to who listens now; `after` as its owner says. */
    publish(fact: Fact, after?: After) {
      stored.push(fact);
      bus.deliver(fact, after);
    },
    /** A worker's beat has not come. */
    miss() {
      for (const call of missings) call();
    },
    reconnect() {
      bus.isConnected = true;
      for (const call of reconnects) call();
    },
  };
  const subscribe = (wants: (fact: Fact) => boolean, call: Call) => {
    const entry = { wants, call };
    subscribers.add(entry);
    return { stop: () => void subscribers.delete(entry) };
  };
  const ports: HubPorts = {
    onFacts: (projectId, call) => subscribe((fact) => fact.project_id === projectId, call),
    onFactsNamed: (event, call) => subscribe((fact) => fact.event === event, call),
    flush: () => bus.onFlush(),
    isConnected: () => bus.isConnected,
    onReconnect(call) {
      reconnects.add(call);
      return { stop: () => void reconnects.delete(call) };
    },
    onMissing(call) {
      missings.add(call);
      return { stop: () => void missings.delete(call) };
    },
    isGranted: () => bus.granted(),
    async assetFacts(assetId) {
      bus.reads += 1;
      await bus.beforeRead();
      return (documents.get(assetId) ?? []).map(({ asset_id: _, project_id: __, ...fact }) => fact);
    },
    async *replayFacts(projectId, assetId, sinceTs, signal) {
      bus.reads += 1;
      await bus.beforeRead();
      const kept = time.clock.now() - 24 * 3_600_000;
      const found = stored.filter(
        (fact) =>
          fact.project_id === projectId &&
          (assetId === '*' || fact.asset_id === assetId) &&
          fact.ts >= Math.max(sinceTs, kept),
      );
      for (const fact of found) {
        if (signal.aborted) return;
        yield fact;
      }
    },
    log: {
      warn: (_, message) => void bus.warnings.push(message),
      error: (_, message) => void bus.warnings.push(message),
    },
  };
  return Object.assign(bus, { ports });
}

/** A connection that behaves as uWS does: what it keeps while full leaves only along with a next write. */
export function createConnection() {
  let text = '';
  let kept = '';
  let onWritable: (() => boolean) | undefined;
  let isCorked = false;
  const connection = {
    isFull: false,
    isOpen: true,
    isCut: false,
    /** How often the hub has told that it ended the stream. */
    ends: 0,
    onCut: undefined as (() => void) | undefined,
    /** Writes after one that was answered by false and before the connection was writable again. */
    faults: [] as string[],
    headers: {} as Record<string, string>,
    status: '',
    get text() {
      return text;
    },
    get kept() {
      return kept;
    },
    writes: 0,
    /** What was written, as it was handed over. */
    chunks: [] as Uint8Array[],
    writable() {
      if (connection.isOpen) onWritable?.();
    },
    /** Frames seen so far, in order. */
    get events() {
      return [...text.matchAll(/id: (\d+)\nevent: (\w+)\ndata: (.*)\n\n/g)].map(([, id, event, data]) => ({
        id: Number(id),
        event: String(event),
        data: JSON.parse(String(data)) as Record<string, unknown>,
      }));
    },
    get ids() {
      return connection.events.map(({ id }) => id);
    },
  };
  const touch = (what: string) => {
    if (!connection.isOpen) connection.faults.push(`${what} after the end`);
    if (!isCorked) connection.faults.push(`${what} without cork`);
  };
  const response: StreamResponse = {
    writeStatus(status) {
      touch('writeStatus');
      connection.status = status;
    },
    writeHeader(name, value) {
      touch('writeHeader');
      connection.headers[name] = value;
    },
    cork(call) {
      isCorked = true;
      call();
      isCorked = false;
    },
    write(chunk) {
      touch('write');
      connection.writes += 1;
      connection.chunks.push(chunk);
      const bytes = Buffer.from(chunk).toString();
      if (connection.isFull) {
        kept += bytes;
        return false;
      }
      text += kept + bytes;
      kept = '';
      return true;
    },
    end() {
      touch('end');
      connection.isOpen = false;
    },
    close() {
      connection.isOpen = false;
      connection.isCut = true;
      connection.onCut?.();
    },
    onWritable(call) {
      onWritable = call;
    },
  };
  return Object.assign(connection, { response });
}

/** A hub over the doubles, and the ways in which tests use it. */
export function setUp(options: HubOptions = {}) {
  const time = createTime();
  const bus = createBus(time);
  const hub = createHub(bus.ports, { clock: time.clock, random: () => 0.5, ...options });
  let lastTs = startTs;

  /** A fact of asset `a1` in project `p1` unless told otherwise; also added to its document. */
  const fact = (event: EventName, more: Partial<Fact> = {}): Fact => {
    lastTs = Math.max(time.clock.now(), lastTs + 1);
    return {
      ts: lastTs,
      event,
      asset_id: 'a1',
      project_id: 'p1',
      attempt: 1,
      request_id: 'req_1',
      run: 1,
      ...more,
    };
  };
  const publish = (event: EventName, more: Partial<Fact> = {}): Fact => {
    const made = fact(event, more);
    if (!event.startsWith('webhook_')) {
      bus.documents.set(made.asset_id, [...(bus.documents.get(made.asset_id) ?? []), made]);
    }
    bus.publish(made);
    return made;
  };
  /** Opens a stream of the owner on project `p1` unless told otherwise. */
  const open = async (stream: Partial<StreamOptions> = {}) => {
    const connection = createConnection();
    const client = {
      isGone: false,
      onGone: undefined as (() => void) | undefined,
      onEnd() {
        connection.ends += 1;
      },
    };
    connection.onCut = () => client.onGone?.();
    const opening = hub.open(connection.response, {
      projectId: 'p1',
      filter: { isLifecycleOnly: false },
      grant: { kind: 'user', userId: 'u1', sessionId: 's1' },
      lastEventId: '',
      headers: {},
      client: client as StreamOptions['client'],
      ...stream,
    });
    await time.settle();
    return Object.assign(connection, {
      opening,
      leave() {
        client.isGone = true;
        connection.isOpen = false;
        client.onGone?.();
      },
    });
  };
  /** Lets ms pass in small steps, in which what was waited for goes on. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += passMs) await time.advance(passMs);
  };
  return { time, bus, hub, fact, publish, open, pass };
}
