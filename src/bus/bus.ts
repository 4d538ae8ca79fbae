/**
 * The message bus: commands to actors, facts from them, work for workers, plain messages between processes.
 *
 * The only module that speaks NATS. Publishes answer when the message is stored on disk by the server
 * (sync_interval always); each carries a message id, so that repeating one within ten minutes stores nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ConsumerMessages,
  connect,
  headers,
  type JetStreamClient,
  type JetStreamManager,
  type Msg,
  type NatsConnection,
} from 'nats';
import pRetry from 'p-retry';
import { runtime } from '../../schemas/limits.ts';
import { readAddress } from './address.ts';
import { reopenMs } from './consume.ts';
import { describeStreams } from './describe.ts';
import { followFacts } from './follow.ts';
import { patiently } from './patient.ts';
import { type After, createPublisher, type Outgoing, readAfter } from './publisher.ts';
import { type Command, lastOf, readCommands, replayFacts } from './read.ts';
import { checkServer, ensureStreams, isStreamMissing, type StreamOptions, whenMade } from './streams.ts';
import { createSubjects, type Subjects } from './subjects.ts';
import { takeWork, type WorkItem } from './work.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export type Subscription = { stop(): void };

/** A fact as it came, for who would write it again, and what it said to come after. */
export type ToldFact = { text: string; after: After | undefined };

/** A request was served and has failed. */
export class RequestFailure extends Error {
  override readonly name = 'RequestFailure';
}

export type Log = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

export type BusOptions = StreamOptions & {
  url: string;
  prefix?: string;
  partitions?: number;
  log: Log;
  signal?: AbortSignal;
};

export type Bus = Awaited<ReturnType<typeof openBus>>;

/** How long a message waits for its confirmation before it is sent again: sent in the moment of an election it has none. */
const publishTimeoutMs = 1_000;
/** A stream whose leader was killed has none for 4 to 9 s, which the server does not let us change. */
const publishPatienceMs = 10_000;
/** What is asked while there is no leader has no answer either, and is asked again. */
const apiTimeoutMs = 2_000;
const makingMs = 5_000;
const failureHeader = 'Failure';
/** What is stored together has the time of one message. */
const maxTogether = 1_000;
/** Connects, tried again for half a minute, and makes the streams. @throws when the server is not to be had. */
export async function openBus({
  url,
  prefix = '',
  partitions = runtime.partitions,
  log,
  signal,
  ...streams
}: BusOptions) {
  const connection = await pRetry(() => connectOnce(url), {
    retries: 8,
    minTimeout: 100,
    maxTimeout: 5_000,
    maxRetryTime: 30_000,
    ...(signal ? { signal } : {}),
  });
  const subjects = createSubjects(prefix, partitions);
  const maker = await patiently(() => prepare(connection, subjects, streams)).catch(
    async (cause: unknown) => {
      await connection.close();
      throw cause;
    },
  );
  const manager = await connection.jetstreamManager({ timeout: apiTimeoutMs, checkAPI: false });
  const stream = connection.jetstream({ timeout: apiTimeoutMs });
  const restore = createRestorer(() => ensureStreams(maker, subjects, streams), log);
  const publisher = createPublisher(connection, {
    timeoutMs: publishTimeoutMs,
    patienceMs: publishPatienceMs,
    onNoStream: () => void restore(),
    streamOf: subjects.streamOf,
  });
  const readers: Server['readers'] = new Set();
  const isClosed = () => connection.isClosed();
  const server: Server = { manager, stream, subjects, restore, readers, isClosed };
  /** Work up to these sequences was given out by a consumer of before, by effect. */
  const givenOut = new Map<string, number>();
  const reconnects = new Set<() => void>();
  const lost = { count: 0 };
  void reportStatus(connection, log, reconnects, lost);

  return {
    subjects,
    connected: () => !connection.isClosed() && connectedNow(connection),

    /** What is on its way to be stored, and how often the connection was lost. */
    stats: () => ({ ...publisher.stats(), losses: lost.count }),

    /** Stores one message. @throws when the server did not confirm it in time: it may be stored all the same. */
    publish: publisher.publish,

    /** Stores many, in order. @throws when one of them was not confirmed. */
    async publishAll(messages: Outgoing[]): Promise<void> {
      for (let from = 0; from < messages.length; from += maxTogether)
        await publisher.publishTogether(messages.slice(from, from + maxTogether));
    },

    /**
     * Commands of some partitions in stream order, from after a position. No acknowledgements: the reader keeps
     * its own position. `onCommand` answers whether it can take more; `resume` goes on after it could not.
     */
    readCommands: (of: number[], after: number, onCommand: (command: Command) => boolean) =>
      readCommands(server, { of, after, onCommand, log, partitions }),

    /** Last sequence of the command stream, 0 for an empty one. */
    async lastCommand(): Promise<number> {
      return (await manager.streams.info(subjects.streams.commands)).state.last_seq;
    },

    /** Sequence of a partition's last command, 0 without one. */
    async lastCommandOf(partition: number): Promise<number> {
      const found = await lastOf(server, subjects.streams.commands, subjects.commandsOf(partition));
      return found?.seq ?? 0;
    },

    /** Drops commands that every partition has passed. */
    async trimCommands(before: number): Promise<void> {
      await manager.streams.purge(subjects.streams.commands, { seq: before });
    },

    /** Work of one effect for this worker, at most `held` items at a time. */
    takeWork: (effect: string, held: number, onWork: (item: WorkItem) => void) =>
      takeWork(server, { effect, held, onWork, log, givenOut: givenOut.get(effect) ?? 0 }),

    /**
     * Gives what lost workers held to the living at once. Only when this worker is the only one, and before it
     * takes work: what had been given out still counts as delivered before.
     */
    async reclaimWork(effects: string[]): Promise<void> {
      for (const effect of effects) {
        const info = await manager.consumers.info(subjects.streams.work, effect).catch(() => undefined);
        if (info === undefined) continue;
        givenOut.set(effect, info.delivered.stream_seq);
        await manager.consumers.delete(subjects.streams.work, effect).catch(() => false);
      }
    },

    /**
     * When the streams were made: another answer than before means that all that was under way is lost. Streams that
     * are missing are made again while the bus is in use.
     */
    streamsMade: () =>
      whenMade(manager, subjects).catch(async (cause: unknown) => {
        await restore(cause);
        throw cause;
      }),

    /** Pieces of work that wait or are being done, by effect. */
    async countWork(): Promise<number> {
      return (await manager.streams.info(subjects.streams.work)).state.messages;
    },

    /** The streams and their readers, for operators. */
    describeStreams: () => describeStreams(server),

    /**
     * Facts as they are published, in this process's own time; see `replayFacts` for older ones.
     */
    onFacts(
      project: string,
      id: string,
      event: string,
      onFact: (fact: unknown, subject: string, told?: ToldFact) => void,
    ): Subscription {
      const subscription = connection.subscribe(subjects.factsOf(project, id, event), {
        callback: (error, message) => {
          if (error) log.error({ err: error }, 'fact subscription failed');
          else {
            const text = textOf(message.data);
            onFact(JSON.parse(text), message.subject, { text, after: readAfter(message) });
          }
        },
      });
      return { stop: () => subscription.unsubscribe() };
    },

    /** Stored facts of a project or asset since a time (unix ms), oldest first, until all that were there are read. */
    replayFacts: (project: string, id: string, sinceTs: number, signal?: AbortSignal) =>
      replayFacts(server, { subject: subjects.factsOf(project, id), sinceTs, ...(signal ? { signal } : {}) }),

    /** Drops the stored facts of a project, or of one asset of it. Safe to repeat. */
    async purgeFacts(project: string, id?: string): Promise<void> {
      await manager.streams.purge(subjects.streams.facts, { filter: subjects.factsOf(project, id) });
    },

    /** Facts of some names for the durable consumer `name`, none missed: see follow.ts. */
    followFacts: (name: string, events: string[], onFacts: (facts: unknown[]) => Promise<void>) =>
      followFacts(server, { name, events, onFacts, log }),

    /** Plain messages between processes: delivered to who listens now. */
    send(name: string, body: unknown): void {
      if (!connection.isClosed())
        connection.publish(subjects.plain(name), encoder.encode(JSON.stringify(body)));
    },
    listen(name: string, onMessage: (body: unknown) => void): Subscription {
      const subscription = connection.subscribe(subjects.plain(name), {
        callback: (error, message) => {
          if (error) log.error({ err: error }, 'subscription failed');
          else onMessage(JSON.parse(decoder.decode(message.data)));
        },
      });
      return { stop: () => subscription.unsubscribe() };
    },

    /**
     * Asks whichever process serves that name, and waits for its answer.
     *
     * @throws {RequestFailure} when it failed there. Other errors when nobody serves it or answers in time.
     */
    async request(name: string, body: unknown, timeoutMs: number): Promise<Uint8Array> {
      const data = encoder.encode(JSON.stringify(body));
      const answer = await connection.request(subjects.plain(name), data, { timeout: timeoutMs });
      const failure = answer.headers?.get(failureHeader);
      if (failure) throw new RequestFailure(`${name}: ${failure}`);
      return answer.data;
    },

    /** Answers requests of that name; of several processes that serve it, one gets each. */
    serve(name: string, answer: (body: unknown) => Promise<Uint8Array>): Subscription {
      const respond = async (message: Msg) => {
        try {
          message.respond(await answer(JSON.parse(decoder.decode(message.data))));
        } catch (err) {
          const failed = headers();
          // A header is one line.
          failed.set(
            failureHeader,
            String(err instanceof Error ? err.message : err).replace(/[\r\n]+/g, ' '),
          );
          message.respond(new Uint8Array(), { headers: failed });
        }
      };
      const subscription = connection.subscribe(subjects.plain(name), {
        queue: name,
        callback: (error, message) => {
          if (error) log.error({ err: error, name }, 'serving requests failed');
          else void respond(message);
        },
      });
      return { stop: () => subscription.unsubscribe() };
    },

    /** Calls back each time the connection is there again after a loss: plain messages were missed. */
    onReconnect(call: () => void): Subscription {
      reconnects.add(call);
      return { stop: () => reconnects.delete(call) };
    },

    /** Waits until the server has seen everything sent so far. */
    flush: () => connection.flush(),

    /** Removes the streams: for tests that share a server. */
    async deleteStreams(): Promise<void> {
      for (const name of Object.values(subjects.streams))
        await manager.streams.delete(name).catch(() => false);
    },

    async close(): Promise<void> {
      if (!connection.isClosed()) await connection.close();
      // The client goes on looking after them for ever.
      for (const reader of readers) void reader.close();
      publisher.stop();
    },
  };
}

/**
 * Answers what makes streams, which may take a server longer than what else it is asked.
 *
 * @throws when the server is too old or has a stream that differs from what is wanted.
 */
async function prepare(
  connection: NatsConnection,
  subjects: Subjects,
  options: StreamOptions,
): Promise<JetStreamManager> {
  checkServer(connection);
  const manager = await connection.jetstreamManager({ timeout: makingMs });
  await ensureStreams(manager, subjects, options);
  return manager;
}

function connectOnce(servers: string): Promise<NatsConnection> {
  return connect({
    ...readAddress(servers),
    name: 'animated-asset-service',
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
    reconnectJitter: 200,
    pingInterval: 5_000,
    maxPingOut: 2,
    timeout: 5_000,
    // Two stack traces for every publish, of which nobody reads one, cost as much as the rest of it.
    noAsyncTraces: true,
  });
}

/** What comes often is short, and a decoder takes longer to be called than to decode it. */
function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString();
}

function connectedNow(connection: NatsConnection): boolean {
  return (connection as unknown as { protocol: { connected: boolean } }).protocol.connected;
}

async function reportStatus(
  connection: NatsConnection,
  log: Log,
  reconnects: ReadonlySet<() => void>,
  lost: { count: number },
): Promise<void> {
  for await (const { type } of connection.status()) {
    if (type === 'disconnect') {
      lost.count += 1;
      log.warn({}, 'message bus lost, reconnecting');
    }
    if (type !== 'reconnect') continue;
    log.info({}, 'message bus is back');
    for (const call of reconnects) call();
  }
}

export type Server = {
  manager: JetStreamManager;
  stream: JetStreamClient;
  subjects: Subjects;
  /** Makes missing streams again; with the error of a request, only if that is what it says. Never throws. */
  restore(cause?: unknown): Promise<void>;
  /** What is being read: it ends with the bus. */
  readers: Set<ConsumerMessages>;
  isClosed(): boolean;
};

/** Whoever finds a stream missing asks for it; one at a time, and with a pause for a server that has not the room. */
function createRestorer(ensure: () => Promise<void>, log: Log): Server['restore'] {
  let running: Promise<void> | undefined;
  const run = async (): Promise<void> => {
    log.error({}, 'a stream is missing, making it again');
    await ensure().catch((err: unknown) => log.error({ err }, 'streams could not be made'));
    await delay(reopenMs);
    running = undefined;
  };
  return async (cause) => {
    if (cause !== undefined && !isStreamMissing(cause)) return;
    running ??= run();
    await running;
  };
}
