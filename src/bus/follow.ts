/**
 * A durable reader of facts: each reaches it at least once, also those of the time when no process ran.
 *
 * The consumer belongs to all processes that follow under its name; each fact goes to one of them.
 */
import { AckPolicy, type ConsumerMessages, DeliverPolicy, type JsMsg, nanos } from 'nats';
import type { Log, Server } from './bus.ts';
import { consume } from './consume.ts';

export type FollowOptions = {
  name: string;
  events: string[];
  /** Facts that have arrived together, in stream order. They come again when it throws. */
  onFacts(facts: unknown[]): Promise<void>;
  log: Log;
};

const maxTogether = 256;
const maxPending = 4_096;
const ackWaitMs = 30_000;
const againMs = 1_000;
const decoder = new TextDecoder();

/**
 * The first call ever begins with what is stored: processes that publish may have started before those that follow.
 * Later ones go on where the last has ended.
 */
export async function followFacts(
  server: Server,
  { name, events, onFacts, log }: FollowOptions,
): Promise<{ stop(): Promise<void> }> {
  const { subjects } = server;
  const stopping = new AbortController();
  const { signal } = stopping;
  let waiting: JsMsg[] = [];
  let working: Promise<void> | undefined;

  const work = async (): Promise<void> => {
    while (waiting.length > 0 && !signal.aborted) {
      const together = waiting.splice(0, maxTogether);
      try {
        await onFacts(together.flatMap((message) => readFact(message, log)));
        for (const message of together) message.ack();
      } catch (err) {
        log.warn({ err, consumer: name }, 'facts could not be taken, they come again');
        for (const message of together) message.nak(againMs);
      }
    }
    working = undefined;
  };

  const take = async (from: ConsumerMessages): Promise<void> => {
    for await (const message of from) {
      if (signal.aborted) return;
      waiting.push(message);
      working ??= nextTurn(work);
      // The client fetches on while nobody iterates: what it holds stays bounded by its own limit.
      if (waiting.length >= maxTogether) await working;
    }
  };

  const reading = await consume(server, {
    stream: subjects.streams.facts,
    config: {
      durable_name: name,
      filter_subjects: events.map((event) => subjects.factsOf('*', '*', event)),
      deliver_policy: DeliverPolicy.All,
      ack_policy: AckPolicy.Explicit,
      ack_wait: nanos(ackWaitMs),
      max_ack_pending: maxPending,
    },
    maxMessages: maxTogether,
    take,
    onInterrupted: (err) => log.warn({ err, consumer: name }, 'following facts was interrupted, going on'),
    signal,
  });

  return {
    async stop() {
      stopping.abort();
      reading.close();
      await working;
      for (const message of waiting) message.nak();
      waiting = [];
      await reading.ended;
    },
  };
}

/** What has arrived in the same turn belongs together. */
function nextTurn(call: () => Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    setImmediate(() => call().then(resolve, reject));
  });
}

/** What is no JSON is nobody's fact. */
function readFact({ data, seq }: JsMsg, log: Log): unknown[] {
  try {
    return [JSON.parse(decoder.decode(data))];
  } catch (err) {
    log.error({ err, seq }, 'fact that is no JSON');
    return [];
  }
}
