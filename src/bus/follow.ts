/**
 * A durable reader of facts: each reaches it at least once, also those of the time when no process ran.
 *
 * The consumer belongs to all processes that follow under its name; each fact goes to one of them.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { AckPolicy, type ConsumerMessages, DeliverPolicy, type JsMsg } from 'nats';
import type { Log, Server } from './bus.ts';

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
const pullMs = 3_000;
const heartbeatMs = 1_000;
const reopenMs = 200;
const nsPerMs = 1_000_000;
const decoder = new TextDecoder();

/** Begins with what is published after its first call ever; later ones go on where the last has ended. */
export async function followFacts(
  { manager, stream, subjects }: Server,
  { name, events, onFacts, log }: FollowOptions,
): Promise<{ stop(): Promise<void> }> {
  const open = async (): Promise<ConsumerMessages> => {
    await manager.consumers.add(subjects.streams.facts, {
      durable_name: name,
      filter_subjects: events.map((event) => subjects.factsOf('*', '*', event)),
      deliver_policy: DeliverPolicy.New,
      ack_policy: AckPolicy.Explicit,
      ack_wait: ackWaitMs * nsPerMs,
      max_ack_pending: maxPending,
    });
    const consumer = await stream.consumers.get(subjects.streams.facts, name);
    return consumer.consume({
      max_messages: maxTogether,
      expires: pullMs,
      idle_heartbeat: heartbeatMs,
      abort_on_missing_resource: true,
    });
  };

  let messages: ConsumerMessages | undefined = await open();
  let waiting: JsMsg[] = [];
  let working: Promise<void> | undefined;
  let stopped = false;

  const work = async (): Promise<void> => {
    while (waiting.length > 0 && !stopped) {
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
      if (stopped) return;
      waiting.push(message);
      working ??= nextTurn(work);
      // The client fetches on while nobody iterates: what it holds stays bounded by its own limit.
      if (waiting.length >= maxTogether) await working;
    }
  };

  const run = async (): Promise<void> => {
    while (!stopped) {
      try {
        messages ??= await open();
        await take(messages);
      } catch (err) {
        if (stopped) return;
        log.warn({ err, consumer: name }, 'following facts was interrupted, going on');
      }
      messages = undefined;
      if (!stopped) await delay(reopenMs);
    }
  };
  const running = run();

  return {
    async stop() {
      stopped = true;
      await messages?.close();
      await working;
      for (const message of waiting) message.nak();
      waiting = [];
      await running;
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
