/** Work that is given to one of many takers, and to another when that one falls silent. */
import { AckPolicy, type ConsumerMessages, type JsMsg, nanos } from 'nats';
import type { Log, Server } from './bus.ts';
import { consume } from './consume.ts';

const decoder = new TextDecoder();

export type WorkItem = {
  body: unknown;
  /** Sequence in the stream: the same for every delivery of one message. */
  seq: number;
  /** How often it was delivered, 1-based: more than once means that a worker was lost or slow. */
  deliveries: number;
  /** Keeps it from being given to another worker. To be called well within the ack wait. */
  keep(): void;
  /** It is done: waits until the server knows. */
  done(): Promise<void>;
  /** Leaves it to another worker, who gets it after the ack wait or when this one calls `back`. */
  back(): void;
  /** Another delivery of the same message takes its place. */
  forget(): void;
};

/** How long a worker may be silent about a piece of work before another gets it, in ms. */
export const workAckWaitMs = 4_000;
const maxWorkHeld = 20_000;
/** Items that wait in the client's own buffer, where nobody keeps them: few, and taken out at once. */
const pulledAhead = 64;

type WorkOptions = {
  effect: string;
  held: number;
  onWork: (item: WorkItem) => void;
  log: Log;
  /** Sequences up to here were delivered before this consumer was made. */
  givenOut: number;
};

export async function takeWork(
  server: Server,
  { effect, held, onWork, log, givenOut: givenOutAtFirst }: WorkOptions,
): Promise<{ stop(): Promise<void> }> {
  const { subjects } = server;
  const stopping = new AbortController();
  const { signal } = stopping;
  let givenOut = givenOutAtFirst;
  let count = 0;
  let wake: (() => void) | undefined;
  const release = () => {
    count -= 1;
    wake?.();
  };

  const take = async (from: ConsumerMessages): Promise<void> => {
    for await (const message of from) {
      if (signal.aborted) return;
      const body = readWork(message, log);
      if (body === undefined) continue;
      count += 1;
      onWork(toWorkItem(message, body, { release, givenOut }));
      while (count >= held && !signal.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  };
  const reading = await consume(server, {
    stream: subjects.streams.work,
    config: {
      durable_name: effect,
      filter_subject: subjects.workOf(effect),
      ack_policy: AckPolicy.Explicit,
      ack_wait: nanos(workAckWaitMs),
      max_ack_pending: maxWorkHeld,
      max_deliver: -1,
    },
    maxMessages: pulledAhead,
    take,
    // Its sequences begin anew.
    onReplaced() {
      givenOut = 0;
    },
    onInterrupted: (err) => log.warn({ err, effect }, 'taking work was interrupted, going on'),
    signal,
  });
  return {
    async stop() {
      stopping.abort();
      reading.close();
      wake?.();
      await reading.ended;
    },
  };
}

/** @param release called once, when the item is this worker's no more. */
function toWorkItem(
  message: JsMsg,
  body: unknown,
  { release, givenOut }: { release: () => void; givenOut: number },
): WorkItem {
  let isHeld = true;
  const letGo = () => {
    if (isHeld) release();
    isHeld = false;
  };
  return {
    body,
    seq: message.seq,
    deliveries: message.info.deliveryCount + (message.seq <= givenOut ? 1 : 0),
    keep: () => message.working(),
    async done() {
      letGo();
      await message.ackAck();
    },
    back() {
      letGo();
      message.nak();
    },
    forget: letGo,
  };
}

/** Work that nobody can read is taken out of the queue. */
function readWork(message: JsMsg, log: Log): unknown {
  try {
    return JSON.parse(decoder.decode(message.data));
  } catch (err) {
    log.error({ err, seq: message.seq, subject: message.subject }, 'work that is no JSON');
    message.term();
    return;
  }
}
