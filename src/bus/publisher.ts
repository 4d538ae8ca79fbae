/**
 * Stores messages in streams: sends them, and hears from the server which are stored.
 *
 * The server writes each message of a stream to the disk by itself, one after the other: most of what it does, and what
 * all wait for. So only some of a stream's are on their way at a time; what gathers behind them goes as one atomic
 * batch, which it writes at once. A batch that it refuses, since some of it was stored before or its beginning was
 * lost, is sent again message by message.
 *
 * The client's own way makes a request of each message, with an inbox entry, a timer and an error (for the case that
 * the time is up) whose stack is taken beforehand: more work than sending it. Here all share one inbox, one timer,
 * and what is published in one turn of the event loop goes out in one write.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createInbox, type Msg, type MsgHdrs, type NatsConnection, NatsError, nuid } from 'nats';

/**
 * A message to store: `id` makes a repeat harmless. `after`, of a fact: the ts of the one before it in its project, so
 * that who listens knows when one was missed.
 */
export type Outgoing = { subject: string; id: string; body: unknown; after?: After };

/** Unix ms, or that its owner does not know. */
export type After = number | 'unknown';

/** What the server says of a message. `duplicate`: its id was stored before, at `seq`. */
export type Stored = { seq: number; duplicate: boolean };

type Settle = (failure: NatsError | undefined, stored: Stored) => void;
/** `deadline` on the monotonic clock, ms. */
type Item = { message: Outgoing; settle: Settle; deadline: number };
type Pending = { settle: Settle; deadline: number };
/** What is to be stored in one stream, in order. */
type Lane = { waiting: Item[]; underWay: number; hasBatch: boolean };

const none: Stored = { seq: 0, duplicate: false };
const sweepMs = 250;
const noResponders = 503;
const timeoutCode = 'TIMEOUT';
/** A replicated stream is storing a message of this id, and cannot say yet where. */
const inProcess = 10158;
const inProcessCode = 'IN_PROCESS';
const passing = new Set([String(noResponders), timeoutCode, inProcessCode]);
const minAgainMs = 50;
const maxAgainMs = 500;
/** Enough for the server to have always one to go on with. */
const maxSingles = 16;
/** A batch of fewer costs the server more than its messages by themselves: it keeps each in a store of its own first. */
const minBatch = 32;
/** The server takes no larger one. */
const maxBatch = 1_000;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const lineBreak = /[\r\n]/;
const afterHeader = 'After';
const afterMark = `\r\n${afterHeader}: `;

export type Patience = {
  /** How long one try is waited for. */
  timeoutMs: number;
  /** How long all tries of a message may take: the last one ends at most `timeoutMs` later. */
  patienceMs: number;
};

export type PublisherOptions = Patience & {
  /** Told of a message that no stream takes. */
  onNoStream?: () => void;
  /** Tells by its subject which stream takes a message. */
  streamOf(subject: string): string;
};

export function createPublisher(
  connection: NatsConnection,
  { timeoutMs, patienceMs, onNoStream = () => undefined, streamOf }: PublisherOptions,
) {
  const inbox = createInbox();
  const stopping = new AbortController();
  /** In the order of their deadlines. */
  const pending = new Map<number, Pending>();
  const lanes = new Map<string, Lane>();
  let isGoingOn = false;
  /** Messages that are not confirmed yet. */
  let open = 0;
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
      settle(timeUp(), none);
    }
    for (const { waiting } of lanes.values()) {
      const isLate = ({ deadline }: Item) => deadline <= now;
      for (const { settle } of waiting.splice(0, waiting.filter(isLate).length)) settle(timeUp(), none);
    }
    if (open > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  const post = ({ subject, body }: Outgoing, headers: MsgHdrs, reply?: string): void => {
    const options = reply === undefined ? { headers } : { headers, reply };
    connection.publish(subject, encoder.encode(JSON.stringify(body)), options);
  };

  /** The answer to what `call` sends comes to the inbox that it is handed. */
  const expect = (settle: Settle, call: (reply: string) => void): void => {
    last += 1;
    const token = last;
    pending.set(token, { settle, deadline: performance.now() + timeoutMs });
    try {
      call(`${inbox}.${token}`);
    } catch (cause) {
      pending.delete(token);
      settle(cause as NatsError, none);
    }
  };

  const sendOne = (lane: Lane, { message, settle }: Item): void => {
    lane.underWay += 1;
    const settled: Settle = (failure, stored) => {
      lane.underWay -= 1;
      settle(failure, stored);
      goOnSoon();
    };
    expect(settled, (reply) => post(message, toHeader(message), reply));
  };

  const sendBatch = (lane: Lane, items: readonly Item[]): void => {
    const batch = nuid.next();
    lane.hasBatch = true;
    const settled: Settle = (failure, { seq }) => {
      lane.hasBatch = false;
      for (const [place, item] of items.entries()) {
        if (!failure) item.settle(undefined, { seq: seq - items.length + place + 1, duplicate: false });
        else if (stopping.signal.aborted) item.settle(failure, none);
        else sendOne(lane, item);
      }
      goOnSoon();
    };
    expect(settled, (reply) => {
      for (const [place, { message }] of items.entries()) {
        const isLast = place === items.length - 1;
        post(message, toHeader(message, batchLines(batch, place + 1, isLast)), isLast ? reply : undefined);
      }
    });
  };

  const goOn = (): void => {
    isGoingOn = false;
    for (const lane of lanes.values()) {
      const { waiting, hasBatch, underWay } = lane;
      if (hasBatch) continue;
      if (waiting.length >= minBatch) sendBatch(lane, waiting.splice(0, maxBatch));
      else for (const item of waiting.splice(0, Math.max(0, maxSingles - underWay))) sendOne(lane, item);
    }
  };

  /** What is published in this turn is sent together. */
  const goOnSoon = (): void => {
    if (isGoingOn || stopping.signal.aborted) return;
    isGoingOn = true;
    setImmediate(goOn);
  };

  const enqueue = (message: Outgoing, settle: Settle): void => {
    if (stopping.signal.aborted) {
      settle(closed(), none);
      return;
    }
    const stream = streamOf(message.subject);
    let lane = lanes.get(stream);
    if (!lane) {
      lane = { waiting: [], underWay: 0, hasBatch: false };
      lanes.set(stream, lane);
    }
    open += 1;
    const settled: Settle = (failure, stored) => {
      open -= 1;
      settle(failure, stored);
    };
    lane.waiting.push({ message, settle: settled, deadline: performance.now() + timeoutMs });
    timer ??= setInterval(sweep, sweepMs);
    goOnSoon();
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
        enqueue(message, (failure) => {
          left -= 1;
          if (failure && place < (worst?.first ?? messages.length)) worst = { first: place, failure };
          if (left === 0) resolve(worst);
        });
      }
    });

  return {
    /** @throws {NatsError} when the server did not confirm it in time: it may be stored all the same. */
    async publish(message: Outgoing): Promise<Stored> {
      const since = performance.now();
      for (let tries = 0; ; tries += 1) {
        const { failure, stored } = await new Promise<Outcome>((resolve) => {
          enqueue(message, (failure, stored) => resolve({ failure, stored }));
        });
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
    stats: () => ({ pending: open, ...counts }),

    /** Nothing more is waited for. */
    stop(): void {
      stopping.abort();
      clearInterval(timer);
      const left = [...pending.values(), ...[...lanes.values()].flatMap(({ waiting }) => waiting.splice(0))];
      pending.clear();
      for (const { settle } of left) settle(closed(), none);
    },
  };
}

type Outcome = { failure: NatsError | undefined; stored: Stored };

const closed = (): NatsError => new NatsError('the bus was closed', 'CONNECTION_CLOSED');
const timeUp = (): NatsError => new NatsError('a message was not confirmed in time', timeoutCode);

/** Whether a message may be stored when it is sent again: nobody took it, nobody answered, or it is being stored. */
function isPassing({ code }: NatsError): boolean {
  return passing.has(code);
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
    error?: { code: number; err_code?: number; description: string };
  };
  // An error may come with the sequence 0.
  if (error || seq === undefined) {
    const code = error?.err_code === inProcess ? inProcessCode : String(error?.code ?? '');
    settle(new NatsError(error?.description ?? 'not stored', code), none);
    return;
  }
  settle(undefined, { seq, duplicate });
}

/**
 * The header that names a message, ready to be sent: the client's own kind keeps and checks each field of each
 * message in a map, and calls nothing but this.
 */
function toHeader({ id, after }: Outgoing, more = ''): MsgHdrs {
  if (lineBreak.test(id)) throw new NatsError('the id of a message has a line break', 'BAD_HEADER');
  const order = after === undefined ? '' : `${afterHeader}: ${after}\r\n`;
  const encode = () => encoder.encode(`NATS/1.0\r\nNats-Msg-Id: ${id}\r\n${order}${more}\r\n`);
  return { encode } as unknown as MsgHdrs;
}

/**
 * What a message said to come after; undefined when it said nothing. Read from the bytes: the client's own kind
 * takes every header apart, which costs more than the rest of receiving a fact.
 */
export function readAfter(message: Msg): After | undefined {
  const { _msg: frame, _rdata: bytes } = message as unknown as Received;
  if (frame.hdr <= 0) return undefined;
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, frame.hdr).toString('latin1');
  const at = head.indexOf(afterMark);
  if (at < 0) return undefined;
  const ts = Number(head.slice(at + afterMark.length, head.indexOf('\r', at + 2)));
  return Number.isSafeInteger(ts) ? ts : 'unknown';
}

/** A message as the client keeps it: the header is the first `hdr` bytes, -1 when there is none. */
type Received = { _msg: { hdr: number }; _rdata: Uint8Array };

function batchLines(batch: string, place: number, isLast: boolean): string {
  const commit = isLast ? 'Nats-Batch-Commit: 1\r\n' : '';
  return `Nats-Batch-Id: ${batch}\r\nNats-Batch-Sequence: ${place}\r\n${commit}`;
}
