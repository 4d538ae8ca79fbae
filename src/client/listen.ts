/**
 * Forwards a project's events to a developer's machine: read from the project's stream, made webhooks of here,
 * signed with a secret of their own.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventName, idFrom, type PublishedFact, toEnvelope, webhookTypeOf } from '../../schemas/envelope.ts';
import { AssetEvent, type WebhookEvent } from '../../schemas/events.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import { signWebhook } from './webhooks.ts';

export type ListenOptions = {
  /** Address of the service, without a slash at its end. */
  base: string;
  /** What lets in: `cookie` or `authorization`. */
  headers: Record<string, string>;
  projectId: string;
  forwardTo: string;
  secret: string;
  /** Types to forward. */
  types: ReadonlySet<WebhookEvent>;
  /** Told of each thing that happens, one line. */
  say(line: string): void;
  /** Ends the listening. */
  signal: AbortSignal;
};

/** The service does not let this stream in: coming again would change nothing. */
export class ListenRefused extends Error {
  override readonly name = 'ListenRefused';
}

const defaultRetryMs = 2_000;
const maxFrameChars = 1024 * 1024;

/** Forwards until the signal is aborted; comes back after each loss, and misses nothing meanwhile. */
export async function listen(options: ListenOptions): Promise<void> {
  const { say, signal } = options;
  const place = { lastEventId: '', retryMs: defaultRetryMs };
  while (!signal.aborted) {
    try {
      await forwardStream(options, place);
    } catch (cause) {
      if (cause instanceof ListenRefused) throw cause;
      if (!signal.aborted) say(`stream lost (${reasonOf(cause)}), coming back`);
    }
    await delay(place.retryMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Forwards one stream until it ends; notes in `place` how far it got. */
async function forwardStream(
  options: ListenOptions,
  place: { lastEventId: string; retryMs: number },
): Promise<void> {
  for await (const { id, data, retryMs } of framesOf(options, place.lastEventId)) {
    if (retryMs !== undefined) place.retryMs = retryMs;
    if (data !== undefined) await forward(data, options);
    // Only what was forwarded is not asked for again.
    if (id !== undefined) place.lastEventId = id;
  }
}

type Frame = { id?: string; data?: string; retryMs?: number };

async function* framesOf(
  { base, headers, projectId, signal, say }: ListenOptions,
  lastEventId: string,
): AsyncGenerator<Frame> {
  const answer = await fetch(`${base}/api/projects/${encodeURIComponent(projectId)}/activity`, {
    headers: { ...headers, ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }) },
    signal,
  });
  if ([401, 403, 404].includes(answer.status)) {
    throw new ListenRefused(`the service answers ${answer.status}: ${await answer.text()}`);
  }
  if (!answer.ok || !answer.body) throw new Error(`the service answers ${answer.status}`);
  if (lastEventId === '') say('listening');
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of answer.body) {
    text += decoder.decode(chunk, { stream: true });
    const frames = text.split('\n\n');
    text = frames.pop() ?? '';
    if (text.length > maxFrameChars) throw new Error('an event that is too long');
    for (const frame of frames) yield parseFrame(frame);
  }
}

function parseFrame(text: string): Frame {
  const fields = new Map(
    text.split('\n').map((line) => {
      const [, name = '', value = ''] = /^([^:]*): ?(.*)$/.exec(line) ?? [];
      return [name, value];
    }),
  );
  const id = fields.get('id');
  const data = fields.get('data');
  const retry = fields.get('retry');
  return {
    ...(id === undefined ? {} : { id }),
    ...(data === undefined ? {} : { data }),
    ...(retry === undefined ? {} : { retryMs: Number(retry) || defaultRetryMs }),
  };
}

async function forward(data: string, options: ListenOptions): Promise<void> {
  const { data: event } = AssetEvent.safeParse(JSON.parse(data));
  const type = event && webhookTypeOf(event.event);
  if (!type || !options.types.has(type)) return;
  const id = idFrom('evt', createHash('sha256').update(eventName(event)).digest());
  const fact = type === 'asset.queued' ? await withOptions(event, options) : event;
  const body = JSON.stringify(toEnvelope(id, type, fact));
  const startedAt = performance.now();
  const outcome = await post(id, body, options);
  options.say(
    `${type} ${event.asset_id} ${id} -> ${outcome} (${Math.round(performance.now() - startedAt)} ms)`,
  );
}

async function post(id: string, body: string, { forwardTo, secret }: ListenOptions): Promise<string> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(new Error('no answer in time')), limits.timeoutMs);
  try {
    const { signal } = timeout;
    const headers = signWebhook(secret, id, body);
    const answer = await fetch(forwardTo, { method: 'POST', headers, body, redirect: 'manual', signal });
    await answer.body?.cancel();
    return String(answer.status);
  } catch (cause) {
    return `failed: ${reasonOf(cause)}`;
  } finally {
    clearTimeout(timer);
  }
}

/** The stream does not show a run's options, its asset does. */
async function withOptions(
  event: AssetEvent,
  { base, headers, signal }: ListenOptions,
): Promise<PublishedFact> {
  const answer = await fetch(`${base}/api/assets/${encodeURIComponent(event.asset_id)}`, { headers, signal });
  if (!answer.ok) return event;
  const { asset } = (await answer.json()) as {
    asset: { mode: 'loop'; motion: 'subtle'; dur_seconds: number };
  };
  return { ...event, options: { mode: asset.mode, motion: asset.motion, seconds: asset.dur_seconds } };
}

function reasonOf(cause: unknown): string {
  const { message, cause: inner } = cause as Error & { cause?: { code?: string; message?: string } };
  return inner?.code ?? inner?.message ?? message;
}
