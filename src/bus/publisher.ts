/**
 * Stores messages in streams: sends them, and hears from the server which are stored.
 *
 * The client's own way makes a request of each message, with an inbox entry, a timer and an error (for the case that
 * the time is up) whose stack is taken beforehand: more work than sending it. Here all share one inbox, one timer,
 * and what is published in one turn of the event loop goes out in one write.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createInbox, type Msg, type MsgHdrs, type NatsConnection, NatsError } from 'nats';

/** A message to store: `id` makes a repeat harmless. */
export type Outgoing = { subject: string; id: string; body: unknown };

/** What the server says of a message. `duplicate`: its id was stored before, at `seq`. */
export type Stored = { seq: number; duplicate: boolean };

type Settle = (failure: NatsError | undefined, stored: Stored) => void;
type Pending = { settle: Settle; deadline: number };

const none: Stored = { seq: 0, duplicate: false };
const sweepMs = 250;
const noResponders = 503;
const timeoutCode = 'TIMEOUT';
const minAgainMs = 50;
const maxAgainMs = 500;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const lineBreak = /[\r\n]/;

export type Patience = {
  /** How long one try is waited for. */
  timeoutMs: number;
  /** How long all tries of a message may take: the last one ends at most `timeoutMs` later. */
  patienceMs: number;
};

/** @param onNoStream told of a message that no stream takes. */
export function createPublisher(
  connection: NatsConnection,
  { timeoutMs, patienceMs, onNoStream = () => undefined }: Patience & { onNoStream?: () => void },
) {
  const inbox = createInbox();
  const stopping = new AbortController();
  /** In the order of their deadlines. */
  const pending = new Map<number, Pending>();
  let waiting: { message: Outgoing; settle: Settle }[] = [];
  let last = 0;
  const counts = { stored: 0, failed: 0, repeated: 0 };
  let timer: NodeJS.Timeout | undefined;

  const hear = (error: NatsError | null, message: Msg): void => {
    if (error) return;
    const token = Number(message.subject.slice(inbox.length + 1));
    const known = pending.get(token);
    if (!known) return;
    pending.delete(token);
    if (message.headers?.code === noResponders) onNoStream();
    settleBy(message, known.settle);
  };
  connection.subscribe(`${inbox}.*`, { callback: hear });

  const sweep = (): void => {
    const now = performance.now();
    for (const [token, { deadline, settle }] of pending) {
      if (deadline > now) break;
      pending.delete(token);
      settle(new NatsError('a message was not confirmed in time', timeoutCode), none);
    }
    if (pending.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  const send = ({ subject, id, body }: Outgoing, settle: Settle): void => {
    last += 1;
    const token = last;
    pending.set(token, { settle, deadline: performance.now() + timeoutMs });
    timer ??= setInterval(sweep, sweepMs);
    try {
      const headers = idHeader(id);
      connection.publish(subject, encoder.encode(JSON.stringify(body)), {
        reply: `${inbox}.${token}`,
        headers,
      });
    } catch (cause) {
      pending.delete(token);
      settle(cause as NatsError, none);
    }
  };

  const sendWaiting = (): void => {
    const messages = waiting;
    waiting = [];
    for (const { message, settle } of messages) send(message, settle);
  };

  /** Waits before another try. Answers false when the time is up, or the bus closed meanwhile. */
  const mayTryAgain = async (failure: NatsError, since: number, tries: number): Promise<boolean> => {
    const waitMs = Math.min(maxAgainMs, minAgainMs * 2 ** tries);
    if (!isPassing(failure) || performance.now() + waitMs - since > patienceMs) return false;
    await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    return !stopping.signal.aborted;
  };

  /** Resolves when all are stored, or with the first that is not and why. */
  const sendAll = (
    messages: readonly Outgoing[],
  ): Promise<{ first: number; failure: NatsError } | undefined> =>
    new Promise((resolve) => {
      let left = messages.length;
      let worst: { first: number; failure: NatsError } | undefined;
      for (const [place, message] of messages.entries()) {
        send(message, (failure) => {
          left -= 1;
          if (failure && place < (worst?.first ?? messages.length)) worst = { first: place, failure };
          if (left === 0) resolve(worst);
        });
      }
    });

  const sendOne = (message: Outgoing): Promise<{ failure: NatsError | undefined; stored: Stored }> =>
    new Promise((resolve) => {
      if (waiting.length === 0) setImmediate(sendWaiting);
      waiting.push({ message, settle: (failure, stored) => resolve({ failure, stored }) });
    });

  return {
    /** @throws {NatsError} when the server did not confirm it in time: it may be stored all the same. */
    async publish(message: Outgoing): Promise<Stored> {
      const since = performance.now();
      for (let tries = 0; ; tries += 1) {
        const { failure, stored } = await sendOne(message);
        if (!failure) {
          counts.stored += 1;
          return stored;
        }
        if (!(await mayTryAgain(failure, since, tries))) {
          counts.failed += 1;
          throw failure;
        }
        counts.repeated += 1;
      }
    },

    /** Stores many, in order. @throws {NatsError} when one of them was not confirmed. */
    async publishTogether(messages: readonly Outgoing[]): Promise<void> {
      const since = performance.now();
      let rest = messages;
      for (let tries = 0; rest.length > 0; tries += 1) {
        const failed = await sendAll(rest);
        if (!failed) {
          counts.stored += rest.length;
          return;
        }
        counts.stored += failed.first;
        if (!(await mayTryAgain(failed.failure, since, tries))) {
          counts.failed += rest.length - failed.first;
          throw failed.failure;
        }
        counts.repeated += rest.length - failed.first;
        // All that follow it too: those that were stored are known by their ids.
        rest = rest.slice(failed.first);
      }
    },

    /** Messages that were sent or are to be and not confirmed yet; totals of those that were, or were not in time. */
    stats: () => ({ pending: pending.size + waiting.length, ...counts }),

    /** Nothing more is waited for. */
    stop(): void {
      stopping.abort();
      clearInterval(timer);
      for (const { settle } of pending.values())
        settle(new NatsError('the bus was closed', 'CONNECTION_CLOSED'), none);
      pending.clear();
    },
  };
}

/** Whether a message may be stored when it is sent again: nobody took it, or nobody answered. */
function isPassing({ code }: NatsError): boolean {
  return code === String(noResponders) || code === timeoutCode;
}

function settleBy({ headers, data }: Msg, settle: Settle): void {
  if (headers?.code === noResponders) {
    settle(new NatsError('no stream takes this message', String(noResponders)), none);
    return;
  }
  const {
    seq,
    duplicate = false,
    error,
  } = JSON.parse(decoder.decode(data)) as Partial<Stored> & {
    error?: { code: number; description: string };
  };
  if (seq === undefined) {
    settle(new NatsError(error?.description ?? 'not stored', String(error?.code ?? '')), none);
    return;
  }
  settle(undefined, { seq, duplicate });
}

/**
 * The header that names a message, ready to be sent: the client's own kind keeps and checks each field of each
 * message in a map, and calls nothing but this.
 */
function idHeader(id: string): MsgHdrs {
  if (lineBreak.test(id)) throw new NatsError('the id of a message has a line break', 'BAD_HEADER');
  const encode = () => encoder.encode(`NATS/1.0\r\nNats-Msg-Id: ${id}\r\n\r\n`);
  return { encode } as unknown as MsgHdrs;
}
