/**
 * The command that makes a delivery. Its id is derived from the event and the endpoint, so that however often an
 * event is read there is one delivery of it (invariant I8); the body's bytes are made here, once.
 */
import { createHash } from 'node:crypto';
import { type DeliveryInput, deliveryKind } from '../../schemas/delivery-messages.ts';
import { eventName, idFrom, type PublishedFact, toEnvelope, webhookTypeOf } from '../../schemas/envelope.ts';
import type { WebhookEnvelope } from '../../schemas/events.ts';
import type { Bus } from '../bus/bus.ts';
import { newId } from '../store/ids.ts';
import type { WebhookRecord } from '../store/webhooks.ts';

export type StartMessage = { type: 'START'; input: DeliveryInput; payload: string };

/** A delivery to be: the id of its actor, its project, the message that makes it. */
export type NewDelivery = { id: string; project: string; message: StartMessage };

/** The delivery of an event to a project's endpoint; undefined when the project does not want it. */
export function deliveryOf(fact: PublishedFact, webhook: WebhookRecord | undefined): NewDelivery | undefined {
  const type = webhookTypeOf(fact.event);
  if (!type || !webhook || !isWanted(fact, webhook) || !webhook.events.includes(type)) return undefined;
  const eventId = idFrom('evt', digest(eventName(fact)));
  return newDelivery(toEnvelope(eventId, type, fact), {
    assetId: fact.asset_id,
    run: fact.run,
    requestId: fact.request_id,
    eventId,
    eventType: type,
    isAnnounced: true,
    isForced: false,
  });
}

/** A test, sent whether or not webhooks are enabled (decisions 6, Test). */
export function testDelivery(webhook: WebhookRecord, requestId: string, now: number): NewDelivery {
  const eventId = newId('evt');
  const envelope = {
    id: eventId,
    type: 'asset.test' as const,
    ts: now,
    asset_id: '',
    project_id: webhook.project,
    request_id: requestId,
    data: { message: 'This is a test of your webhook endpoint.' },
  };
  return newDelivery(envelope, {
    assetId: null,
    run: 0,
    requestId,
    eventId,
    eventType: 'asset.test',
    isAnnounced: webhook.isEnabled,
    isForced: true,
  });
}

/** Messages that make deliveries. A repeat makes none. */
export function startMessages(bus: Pick<Bus, 'subjects'>, deliveries: NewDelivery[]) {
  return deliveries.map(({ id, project, message }) => ({
    subject: bus.subjects.command(project, deliveryKind, id),
    id: `${id}:start`,
    body: message,
  }));
}

function newDelivery(envelope: WebhookEnvelope, input: DeliveryInput): NewDelivery {
  const { id: eventId, project_id: project } = envelope;
  const id = idFrom('dlv', digest(JSON.stringify([eventId, project])));
  return { id, project, message: { type: 'START', input, payload: JSON.stringify(envelope) } };
}

/** Clocks of two processes may differ by this much. */
const skewMs = 60_000;

/** A fact that is read late, or again, must not reach an endpoint that was enabled long after it. */
function isWanted({ ts }: PublishedFact, { isEnabled, url, enabledTs }: WebhookRecord): boolean {
  return isEnabled && url !== null && ts >= enabledTs - skewMs;
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
