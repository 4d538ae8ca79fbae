/** Readers of a stream that keep their own position: the commands of partitions, and facts again. */
import { setTimeout as delay } from 'node:timers/promises';
import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerMessages,
  DeliverPolicy,
  type JsMsg,
  millis,
  nanos,
  nuid,
} from 'nats';
import type { Log, Server } from './bus.ts';
import { pull, reopenMs } from './consume.ts';
import type { Subjects } from './subjects.ts';

const decoder = new TextDecoder();

export type Command = {
  seq: number;
  /** When the stream took it, Unix ms by the server's clock. */
  ts: number;
  partition: number;
  project: string;
  kind: string;
  id: string;
  message: { type: string } & Record<string, unknown>;
  /** Messages behind this one that had not been delivered when it was. */
  pending: number;
};

type ReadOptions = {
  of: number[];
  after: number;
  partitions: number;
  onCommand: (command: Command) => boolean;
  log: Log;
};

/** What a reader of commands is steered by. */
export type CommandReader = { resume(): void; stop(): Promise<void> };

const readerIdleMs = 5_000;
const maxRead = 512;

export async function readCommands(
  server: Server,
  { of, after, partitions, onCommand, log }: ReadOptions,
): Promise<CommandReader> {
  const { subjects } = server;
  const filters = of.length === partitions ? [subjects.allCommands] : of.map(subjects.commandsOf);
  let last = after;
  let stopped = false;
  let wake: (() => void) | undefined;

  const open = () =>
    openReader(server, subjects.streams.commands, maxRead, {
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: last + 1,
      filter_subjects: filters,
    });
  let opened: Reader | undefined = await open();

  /** Ends when no more can be taken. Nothing is missing between two deliveries, or it throws. */
  const read = async (messages: ConsumerMessages): Promise<void> => {
    let deliveries = 0;
    for await (const message of messages) {
      deliveries += 1;
      if (stopped) return;
      if (message.info.deliverySequence !== deliveries) throw new Error('a command was skipped');
      last = message.seq;
      if (!onCommand(parseCommand(message, subjects, log))) return;
    }
  };

  const run = async (): Promise<void> => {
    while (!stopped && !server.isClosed()) {
      const resumed = new Promise<void>((resolve) => {
        wake = resolve;
      });
      try {
        opened ??= await open();
        // Stopped meanwhile: `stop` found nothing to end.
        if (stopped) await opened.close();
        else await read(opened.messages);
        if (stopped) return;
        // Closed rather than paused, which bounds the client's buffer: it goes on fetching in a pause.
        await opened.close();
        opened = undefined;
        await resumed;
      } catch (err) {
        if (stopped || server.isClosed()) return;
        log.warn({ err }, 'reading commands was interrupted, going on after the last one');
        await opened?.close();
        opened = undefined;
        await server.restore(err);
        await delay(reopenMs);
      }
    }
  };
  const running = run();

  return {
    resume: () => wake?.(),
    async stop() {
      stopped = true;
      wake?.();
      await opened?.close();
      await running;
    },
  };
}

type Reader = { messages: ConsumerMessages; close(): Promise<void> };

/**
 * A reader of one stream, without acknowledgements; its messages end with an error when the server loses it.
 *
 * Not the client's ordered consumer: that one takes neither the time of its idleness nor a pause of its reader
 * into account, and would buffer the whole stream.
 */
async function openReader(
  server: Server,
  name: string,
  maxMessages: number,
  config: Partial<ConsumerConfig>,
): Promise<Reader> {
  const { manager, readers } = server;
  const info = await manager.consumers.add(name, {
    ...config,
    name: nuid.next(),
    ack_policy: AckPolicy.None,
    max_deliver: 1,
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: nanos(readerIdleMs),
  });
  const messages = await pull(server, name, info.name, maxMessages);
  return {
    messages,
    async close() {
      readers.delete(messages);
      // Not waited for: it ends only for somebody who still iterates, and a server that cannot be reached forgets
      // its consumer by itself.
      void messages.close();
      void manager.consumers.delete(name, info.name).catch(() => false);
    },
  };
}

function parseCommand(message: JsMsg, subjects: Subjects, log: Log): Command {
  return {
    seq: message.seq,
    ts: millis(message.info.timestampNanos),
    ...subjects.parseCommand(message.subject),
    message: readMessage(message, log),
    pending: message.info.pending,
  };
}

/** What cannot be read becomes a message that no machine knows: it is passed, and in nobody's way. */
function readMessage({ data, seq, subject }: JsMsg, log: Log): Command['message'] {
  try {
    const message = JSON.parse(decoder.decode(data));
    if (typeof message?.type === 'string') return message;
    log.error({ seq, subject }, 'command without a type');
  } catch (err) {
    log.error({ err, seq, subject }, 'command that is no JSON');
  }
  return { type: '' };
}

/** Asked for at once: a replay reads some thousands, and waits for the server each time that it asks. */
const maxReplayRead = 1_024;

const noMessageFound = 10037;

/** The last message of a subject, as the stream's leader knows it. `ts`: when it was stored, Unix ms. */
export async function lastOf(
  { manager }: Server,
  stream: string,
  subject: string,
): Promise<{ seq: number; ts: number } | undefined> {
  try {
    const { seq, time } = await manager.streams.getMessage(stream, { last_by_subj: subject });
    return { seq, ts: time.getTime() };
  } catch (cause) {
    const code = (cause as { api_error?: { err_code?: number } }).api_error?.err_code;
    if (code === noMessageFound) return undefined;
    throw cause;
  }
}

type ReplayOptions = { subject: string; sinceTs: number; signal?: AbortSignal };

/**
 * Facts of a subject, oldest first, from a time on to the last that the stream has now.
 *
 * The last is the leader's: a reader may be given to a replica that has not caught up, and would end early by what
 * that one says is left.
 */
export async function* replayFacts(
  server: Server,
  { subject, sinceTs, signal }: ReplayOptions,
): AsyncGenerator<unknown> {
  const stream = server.subjects.streams.facts;
  const last = await lastOf(server, stream, subject);
  if (last === undefined || last.ts < sinceTs || signal?.aborted) return;
  const reader = await openReader(server, stream, maxReplayRead, {
    deliver_policy: DeliverPolicy.StartTime,
    opt_start_time: new Date(sinceTs).toISOString(),
    filter_subjects: [subject],
  });
  const leave = () => void reader.messages.close();
  signal?.addEventListener('abort', leave, { once: true });
  try {
    if (signal?.aborted) return;
    for await (const message of reader.messages) {
      yield JSON.parse(decoder.decode(message.data));
      if (message.seq >= last.seq || signal?.aborted) return;
    }
  } finally {
    signal?.removeEventListener('abort', leave);
    await reader.close();
  }
}
