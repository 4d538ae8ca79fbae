/** Event streams of the client, read with fetch: the headers of a token, and what is known, can be sent along. */
import type { AssetEvent, EventName } from '../../schemas/events.ts';
import { errorOf, ServiceError } from './error.ts';
import { addressOf, createLimit, failureOf, pause, type Transport } from './request.ts';

export type StreamOptions = {
  signal?: AbortSignal | undefined;
  /** The `ts` of the last event that is known: what came after it follows. */
  lastEventId?: string | number | undefined;
  /** Names of the events that are wanted; all of them without. */
  types?: readonly EventName[] | undefined;
};

/** The service says something at least every fifteen seconds. */
const silentMs = 35_000;
const maxFrameChars = 1_048_576;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/**
 * The events of a stream, in order and none twice. Lost or ended streams are opened again, where they ended.
 *
 * Ends with `break`, or when the signal is aborted: it then throws the reason.
 *
 * @throws {ServiceError} when the service refuses the stream: coming again would not help
 */
export async function* eventsOf(
  transport: Transport,
  path: string,
  options: StreamOptions = {},
): AsyncGenerator<AssetEvent, void, undefined> {
  const place = { lastEventId: options.lastEventId, pauseMs: firstPauseMs };
  for (;;) {
    try {
      yield* connect(transport, path, options, place);
    } catch (cause) {
      if (isFinal(cause, options.signal)) throw cause;
      place.pauseMs = Math.min(place.pauseMs * 2, longestPauseMs);
    }
    await pause(place.pauseMs * (0.75 + Math.random() / 4), options.signal);
  }
}

function isFinal(cause: unknown, signal?: AbortSignal): boolean {
  if (signal?.aborted || !(cause instanceof ServiceError)) return true;
  return cause.status >= 400 && cause.status < 500 && cause.status !== 429;
}

/** What the next connection needs to go on. */
type Place = { lastEventId: string | number | undefined; pauseMs: number };

/** The events of one connection, until it ends. */
export async function* connect(
  transport: Transport,
  path: string,
  { types, signal }: StreamOptions,
  place: Place,
): AsyncGenerator<AssetEvent, void, undefined> {
  const limit = createLimit(silentMs, signal);
  try {
    const address = addressOf(transport, path, { types: types?.join() });
    const { lastEventId } = place;
    const response = await transport.fetch(address, {
      headers: {
        ...transport.headers,
        ...(lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) }),
      },
      signal: limit.signal,
    });
    if (!response.ok || !response.body) throw errorOf(response, await response.text());
    // Whoever loses a stream before its first event goes on from when it was opened.
    const openedTs = Date.parse(response.headers.get('date') ?? '');
    if (Number.isFinite(openedTs)) place.lastEventId ??= openedTs;
    for await (const frame of framesOf(response.body, limit.renew)) {
      const event = takeFrame(frame, place);
      if (!event) continue;
      // What is done with an event takes as long as it takes.
      limit.renew(2 ** 31 - 1);
      yield event;
      limit.renew();
    }
  } catch (cause) {
    throw failureOf(cause, limit.signal);
  } finally {
    limit.end();
  }
}

function takeFrame(frame: string, place: Place): AssetEvent | undefined {
  let data = '';
  for (const line of frame.split('\n')) {
    const [, name, value = ''] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === 'id') place.lastEventId = value;
    if (name === 'retry') place.pauseMs = Number(value) || firstPauseMs;
    if (name === 'data') data = value;
  }
  return data === '' ? undefined : JSON.parse(data);
}

async function* framesOf(body: ReadableStream<Uint8Array>, onChunk: () => void) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onChunk();
      const frames = (text + decoder.decode(value, { stream: true })).split('\n\n');
      text = frames.pop() ?? '';
      if (text.length > maxFrameChars) throw new ServiceError('invalid_answer', 'an event is too long');
      yield* frames;
    }
  } finally {
    // Closes the connection when the caller has had enough.
    reader.cancel().catch(() => undefined);
  }
}
