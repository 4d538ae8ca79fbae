/**
 * What can happen to a webhook delivery, and what its machine begins with.
 *
 * Every message carries `ts`, unix ms, stamped by the owner of the project's partition. Answers name the attempt
 * that they belong to, so that late ones are recognised (invariant I6).
 */
import { z } from 'zod';
import { DeliveryEvent, DeliveryFailure } from './events.ts';

/** The kind of actor that a delivery is: a token of its commands' subjects. */
export const deliveryKind = 'delivery';

/** What a delivery is of. `assetId` is null for a test. */
export const DeliveryInput = z.object({
  assetId: z.string().nullable(),
  run: z.int(),
  requestId: z.string(),
  eventId: z.string(),
  eventType: DeliveryEvent,
  /** Its facts are published: webhooks were enabled when it was made, or sent again. */
  isAnnounced: z.boolean(),
  /** Somebody asked for it: it is sent although webhooks are disabled. */
  isForced: z.boolean(),
});
export type DeliveryInput = z.infer<typeof DeliveryInput>;

const ts = z.int();
const attempt = z.int();
/** Status of the answer and the beginning of its body; null where there was none. */
const answer = { code: z.int().nullable(), preview: z.string().nullable() };

export const DeliveryMessage = z.discriminatedUnion('type', [
  /** Makes the delivery. `payload` is the body, byte for byte the same on every attempt. */
  z.object({
    type: z.literal('START'),
    ts,
    input: DeliveryInput,
    payload: z.string(),
  }),
  z.object({ type: z.literal('DELIVERED'), ts, attempt, ...answer }),
  z.object({
    type: z.literal('ATTEMPT_FAILED'),
    ts,
    attempt,
    ...answer,
    failure: DeliveryFailure,
    /** 0 to 1: how much of the longest lengthening the next wait gets. */
    spread: z.number(),
    /** What the endpoint asked for, where that is followed. */
    retryAfterMs: z.int().optional(),
  }),
  /** Its owner wants it sent. With `made`, only if it has been tried that often, so that a repeat is harmless. */
  z.object({ type: z.literal('REDELIVER'), ts, isAnnounced: z.boolean(), made: z.int().optional() }),
  /** The endpoint has a new address: what waits for its next attempt waits no longer. */
  z.object({ type: z.literal('FORWARD'), ts }),
  /** `disabled` leaves alone what somebody asked for; `no_url` and an operator end everything. */
  z.object({ type: z.literal('CANCEL'), ts, reason: z.enum(['disabled', 'no_url', 'operator']) }),
]);
export type DeliveryMessage = z.infer<typeof DeliveryMessage>;

type Unstamped<Message> = Message extends { ts: number } ? Omit<Message, 'ts'> : never;
/** A message as it is sent: the owner stamps it. */
export type DeliveryCommand = Unstamped<DeliveryMessage>;
