/**
 * The receiver's side of webhooks: checks that a request comes from the service, is whole and is not old
 * (specification 5.10, Standard Webhooks).
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { WebhookEnvelope } from '../../schemas/events.ts';
import { webhook as limits } from '../../schemas/limits.ts';

/** The request is not to be believed: answer 400, and do nothing else. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
}

/** As node:http, express or fetch hand them over. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | string[] | undefined>>;

export type WebhookRequest = {
  /** The body exactly as it came, not parsed and written again: the signature is over its bytes. */
  payload: string | Uint8Array;
  headers: WebhookHeaders;
  /** `whsec_…`; several while one is being replaced. */
  secret: string | readonly string[];
  /** How far the time of signing may be from now, in ms. */
  toleranceMs?: number;
  /** Unix ms. */
  now?: number;
};

/**
 * Answers the event of a request. Drop events whose `id` you have handled already: each comes at least once.
 *
 * @throws {WebhookVerificationError} when a header is missing, the time is off by more than five minutes, no
 * signature matches, or the body is no event.
 */
export function verifyWebhook({
  payload,
  headers,
  secret,
  toleranceMs = limits.toleranceMs,
  now = Date.now(),
}: WebhookRequest): WebhookEnvelope {
  const id = headerOf(headers, 'webhook-id');
  const timestamp = headerOf(headers, 'webhook-timestamp');
  const given = headerOf(headers, 'webhook-signature');
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp) * 1_000) > toleranceMs) {
    throw new WebhookVerificationError('the timestamp is too far from now');
  }
  const secrets = typeof secret === 'string' ? [secret] : secret;
  const expected = secrets.map((one) => digest(one, id, timestamp, payload));
  if (!signaturesIn(given).some((signature) => expected.some((one) => isEqual(one, signature)))) {
    throw new WebhookVerificationError('no signature matches');
  }
  return parse(payload, id);
}

/**
 * Headers that sign a request, for tests of a receiver.
 *
 * @param now unix ms
 */
export function signWebhook(secret: string, id: string, payload: string, now = Date.now()) {
  const timestamp = String(Math.floor(now / 1_000));
  const signature = digest(secret, id, timestamp, payload).toString('base64');
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
}

const prefix = 'whsec_';

function digest(secret: string, id: string, timestamp: string, payload: string | Uint8Array): Buffer {
  const key = Buffer.from(secret.startsWith(prefix) ? secret.slice(prefix.length) : secret, 'base64');
  // Anybody can sign with an empty key.
  if (key.byteLength === 0) throw new WebhookVerificationError('the secret is empty');
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(payload).digest();
}

function signaturesIn(header: string): Buffer[] {
  return header
    .split(' ')
    .map((one) => one.split(','))
    .filter(([version]) => version === 'v1')
    .map(([, signature = '']) => Buffer.from(signature, 'base64'));
}

function isEqual(a: Buffer, b: Buffer): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}

function headerOf(headers: WebhookHeaders, name: string): string {
  const get = (headers as { get?: unknown }).get;
  const value =
    typeof get === 'function'
      ? (headers as { get(name: string): string | null }).get(name)
      : (headers as Readonly<Record<string, string | string[] | undefined>>)[name];
  const text = Array.isArray(value) ? value[0] : value;
  if (!text) throw new WebhookVerificationError(`the header ${name} is missing`);
  return text;
}

function parse(payload: string | Uint8Array, id: string): WebhookEnvelope {
  try {
    const event = WebhookEnvelope.parse(JSON.parse(Buffer.from(payload).toString()));
    if (event.id === id) return event;
  } catch (cause) {
    throw new WebhookVerificationError('the body is no event', { cause });
  }
  throw new WebhookVerificationError('the body is another event than the header says');
}
