/**
 * The receiver's side of webhooks with Web Crypto, for every place that has fetch (specification 5.10, Standard
 * Webhooks). webhooks.ts is the same for Node, without a wait.
 */
import type { WebhookEnvelope } from '../../schemas/events.ts';

/** The request is not to be believed: answer 400, and do nothing else. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
}

export type WebhookRequest = {
  /** The body exactly as it came, not parsed and written again: the signature is over its bytes. */
  payload: string | Uint8Array<ArrayBuffer>;
  /** As fetch or node:http hand them over. */
  headers: { get(name: string): string | null } | Readonly<Record<string, string | string[] | undefined>>;
  /** `whsec_…`; several while one is being replaced. */
  secret: string | readonly string[];
  /** How far the time of signing may be from now, in ms. */
  toleranceMs?: number;
  /** Unix ms. */
  now?: number;
};

const fiveMinutesMs = 300_000;

/**
 * Answers the event of a request. Drop events whose `id` you have handled already: each comes at least once.
 *
 * @throws {WebhookVerificationError} when a header is missing, the time is off by more than five minutes, no
 * signature matches, or the body is no event.
 */
export async function verifyWebhook(request: WebhookRequest): Promise<WebhookEnvelope> {
  const { payload, headers, secret, toleranceMs = fiveMinutesMs, now = Date.now() } = request;
  const [id, timestamp, given] = ['id', 'timestamp', 'signature'].map((name) => headerOf(headers, name));
  if (!/^\d{1,12}$/.test(timestamp ?? '') || Math.abs(now - Number(timestamp) * 1_000) > toleranceMs)
    throw new WebhookVerificationError('the timestamp is too far from now');
  const body = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload;
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + body.length);
  signed.set(head);
  signed.set(body, head.length);
  const signatures = (given ?? '').split(' ').filter((one) => one.startsWith('v1,'));
  for (const one of typeof secret === 'string' ? [secret] : secret) {
    const key = await importKey(one);
    for (const signature of signatures) {
      const bytes = fromBase64(signature.slice('v1,'.length));
      if (bytes && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return parse(body, id ?? '');
    }
  }
  throw new WebhookVerificationError('no signature matches');
}

async function importKey(secret: string) {
  const bytes = fromBase64(secret.replace(/^whsec_/, ''));
  // Anybody can sign with an empty key.
  if (!bytes?.length) throw new WebhookVerificationError('the secret is empty, or no base64');
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    // Not base64: matches nothing.
    return undefined;
  }
}

function headerOf(headers: WebhookRequest['headers'], part: string): string {
  const name = `webhook-${part}`;
  const { get } = headers as { get?: unknown };
  const value =
    typeof get === 'function'
      ? (headers as { get(name: string): string | null }).get(name)
      : (headers as Readonly<Record<string, string | string[] | undefined>>)[name];
  const text = Array.isArray(value) ? value[0] : value;
  if (!text) throw new WebhookVerificationError(`the header ${name} is missing`);
  return text;
}

function parse(body: Uint8Array, id: string): WebhookEnvelope {
  let event: Partial<WebhookEnvelope> | undefined;
  try {
    event = Object(JSON.parse(new TextDecoder().decode(body)));
  } catch (cause) {
    throw new WebhookVerificationError('the body is no event', { cause });
  }
  if (typeof event?.type !== 'string' || typeof event.data !== 'object')
    throw new WebhookVerificationError('the body is no event');
  if (event.id !== id) throw new WebhookVerificationError('the body is another event than the header says');
  return event as WebhookEnvelope;
}
