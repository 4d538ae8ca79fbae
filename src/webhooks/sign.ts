/** Signatures of webhooks by the Standard Webhooks scheme (specification 5.8 to 5.10). */
import { createHmac, randomBytes } from 'node:crypto';
import { webhook as limits } from '../../schemas/limits.ts';
import type { WebhookRecord } from '../store/webhooks.ts';

const prefix = 'whsec_';

/** A new secret: `whsec_` and base64 of 32 random bytes. */
export function newWebhookSecret(): string {
  return prefix + randomBytes(limits.secretBytes).toString('base64');
}

/** The beginning of a secret, to recognise it by (specification 2). */
export function secretPreview(secret: string): string {
  return `${secret.slice(0, limits.secretPreviewChars)}…`;
}

/** Secrets that sign at a time (unix ms), newest first: a replaced one does for 24 hours more. */
export function secretsAt(
  { secret, previous }: Pick<WebhookRecord, 'secret' | 'previous'>,
  now: number,
): string[] {
  const replaced = previous.filter(({ untilTs }) => untilTs > now).map((one) => one.secret.open());
  return secret === null ? replaced : [secret.open(), ...replaced];
}

/**
 * The headers of one attempt as names and values by turns (specification 5.9): one signature for each secret, in
 * their order.
 *
 * @param now unix ms
 */
export function signedHeaders(secrets: string[], id: string, body: string, now: number): string[] {
  const timestamp = String(Math.floor(now / 1_000));
  const signatures = secrets.map((secret) => `v1,${signature(secret, id, timestamp, body)}`);
  return [
    'content-type',
    'application/json',
    'webhook-id',
    id,
    'webhook-timestamp',
    timestamp,
    'webhook-signature',
    signatures.join(' '),
  ];
}

function signature(secret: string, id: string, timestamp: string, body: string): string {
  return createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64');
}

function keyOf(secret: string): Buffer {
  return Buffer.from(secret.slice(prefix.length), 'base64');
}
