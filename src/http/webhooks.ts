/** Webhooks: configuration, test, deliveries (specification 4.5, decisions 6). */
import { ErrorBody, RetryErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { webhook as limits, perMinute } from '../../schemas/limits.ts';
import { OkResponse } from '../../schemas/user.ts';
import {
  type Delivery,
  DeliveryDetail,
  DeliveryList,
  DeliveryQuery,
  RedeliverRequest,
  RedeliverResponse,
  WebhookConfig,
  WebhookConfigRequest,
  WebhookConfigSaved,
  WebhookSecret,
} from '../../schemas/webhook.ts';
import { deliveryStatusOf } from '../actors/delivery.ts';
import type { DeliveryDocument } from '../store/deliveries.ts';
import type { WebhookRecord } from '../store/webhooks.ts';
import { secretPreview } from '../webhooks/sign.ts';
import { badCursor, pageOf, parseCursor } from './cursor.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';

// Someone else's project answers like none at all, so that ids cannot be probed.
const notFound = { error: 'not found' };
const noUrl = { error: 'no webhook_url is configured' };

const readWebhooks = route({
  method: 'get',
  path: '/api/projects/:projectId/webhooks',
  summary: 'Read the webhook configuration',
  responses: { 200: WebhookConfig, 404: ErrorBody },
  async handle({ userId, projectId }, services) {
    if (!(await isOwner(projectId, userId, services))) return reply(404, notFound);
    return reply(200, toConfig(await services.webhooks.find(projectId)));
  },
});

const saveWebhooks = route({
  method: 'put',
  path: '/api/projects/:projectId/webhooks',
  summary: 'Save the webhook configuration; the first save with a URL makes the secret and shows it once',
  body: WebhookConfigRequest,
  responses: { 200: WebhookConfigSaved, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ userId, projectId, body }, services) {
    if (!(await isOwner(projectId, userId, services))) return reply(404, notFound);
    const { webhook_url: url, webhook_events: events, webhooks_enabled: isEnabled } = body;
    const reason = url === null ? undefined : services.webhooks.refuseUrl(url);
    if (reason !== undefined) {
      const issues = [{ path: 'webhook_url', message: reason }];
      return reply(400, { error: `webhook_url: ${reason}`, issues });
    }
    const saved = await services.webhooks.save(projectId, { url, events, isEnabled });
    if (!saved) return reply(404, notFound);
    const { webhook, madeSecret } = saved;
    const shown = madeSecret === undefined ? {} : { webhook_secret: madeSecret };
    return reply(200, { ...toConfig(webhook), ...shown });
  },
});

const rotateSecret = route({
  method: 'post',
  path: '/api/projects/:projectId/webhooks/rotate-secret',
  summary: 'Make a new webhook secret; the one before signs beside it for 24 hours',
  responses: { 200: WebhookSecret, 404: ErrorBody },
  async handle({ userId, projectId }, services) {
    if (!(await isOwner(projectId, userId, services))) return reply(404, notFound);
    const secret = await services.webhooks.rotateSecret(projectId);
    return secret === undefined ? reply(404, notFound) : reply(200, { webhook_secret: secret });
  },
});

const testWebhooks = route({
  method: 'post',
  path: '/api/projects/:projectId/webhooks/test',
  summary: 'Send a test event; the first one that is delivered enables webhooks',
  perMinute: perMinute.webhookTest,
  responses: { 200: OkResponse, 400: ErrorBody, 404: ErrorBody, 429: RetryErrorBody },
  async handle({ userId, projectId, requestId }, services) {
    if (!(await isOwner(projectId, userId, services))) return reply(404, notFound);
    const webhook = await services.webhooks.find(projectId);
    if (!webhook?.url) return reply(400, noUrl);
    await services.webhooks.test(webhook, requestId);
    return reply(200, { ok: true });
  },
});

const listDeliveries = route({
  method: 'get',
  path: '/api/projects/:projectId/webhooks/deliveries',
  summary: 'List deliveries, newest first',
  query: DeliveryQuery,
  responses: { 200: DeliveryList, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ userId, projectId, query }, services) {
    if (!(await isOwner(projectId, userId, services))) return reply(404, notFound);
    const after = parseCursor(query.cursor);
    if (after === null) return reply(400, badCursor);
    const limit = query.limit ?? limits.maxListed;
    const filter = {
      ...(query.status ? { status: query.status } : {}),
      ...(query.event_type ? { eventType: query.event_type } : {}),
      ...(query.asset_id ? { assetId: query.asset_id } : {}),
    };
    const found = await services.webhooks.list(projectId, filter, limit + 1, after);
    const { entries, nextCursor } = pageOf(found, limit, ({ createdTs, _id: id }) => ({ createdTs, id }));
    return reply(200, { deliveries: entries.map(toDelivery), next_cursor: nextCursor });
  },
});

const readDelivery = route({
  method: 'get',
  path: '/api/projects/:projectId/webhooks/deliveries/:deliveryId',
  summary: 'Read a delivery with its payload and the answer it got',
  responses: { 200: DeliveryDetail, 404: ErrorBody },
  async handle({ userId, projectId, deliveryId }, services) {
    const delivery = await findOwned(projectId, userId, deliveryId, services);
    return delivery ? reply(200, toDetail(delivery)) : reply(404, notFound);
  },
});

const redeliver = route({
  method: 'post',
  path: '/api/projects/:projectId/webhooks/deliveries/:deliveryId/redeliver',
  summary: 'Send a delivery again, or bring its next attempt forward',
  responses: { 200: OkResponse, 400: ErrorBody, 404: ErrorBody },
  async handle({ userId, projectId, deliveryId }, services) {
    const delivery = await findOwned(projectId, userId, deliveryId, services);
    if (!delivery) return reply(404, notFound);
    const webhook = await services.webhooks.find(projectId);
    if (!webhook?.url) return reply(400, noUrl);
    await services.webhooks.redeliver(webhook, delivery);
    return reply(200, { ok: true });
  },
});

const redeliverDead = route({
  method: 'post',
  path: '/api/projects/:projectId/webhooks/deliveries/redeliver',
  summary: 'Send all dead deliveries again that were made since a time',
  body: RedeliverRequest,
  responses: { 200: RedeliverResponse, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ userId, projectId, body }, services) {
    if (!(await isOwner(projectId, userId, services))) return reply(404, notFound);
    const webhook = await services.webhooks.find(projectId);
    if (!webhook?.url) return reply(400, noUrl);
    const { redelivered, hasMore } = await services.webhooks.redeliverDead(webhook, body.since);
    return reply(200, { ok: true, redelivered, has_more: hasMore });
  },
});

export const webhookRoutes: AnyRoute[] = [
  readWebhooks,
  saveWebhooks,
  rotateSecret,
  testWebhooks,
  listDeliveries,
  readDelivery,
  redeliver,
  redeliverDead,
];

async function isOwner(projectId: string, userId: string, { store }: Services): Promise<boolean> {
  return (await store.projects.findOwned(projectId, userId)) !== undefined;
}

async function findOwned(
  projectId: string,
  userId: string,
  deliveryId: string,
  services: Services,
): Promise<DeliveryDocument | undefined> {
  if (!(await isOwner(projectId, userId, services))) return undefined;
  return services.webhooks.findDelivery(projectId, deliveryId);
}

function toConfig(webhook: WebhookRecord | undefined): WebhookConfig {
  return {
    webhook_url: webhook?.url ?? null,
    webhook_events: webhook?.events ?? ['asset.completed', 'asset.failed'],
    webhooks_enabled: webhook?.isEnabled ?? false,
    webhook_secret_preview: webhook?.secret ? secretPreview(webhook.secret.open()) : null,
  };
}

function toDelivery({ _id: id, machine, state, dueTs, createdTs }: DeliveryDocument): Delivery {
  const { eventId, eventType, assetId, attempt, code, deliveredTs } = machine.context;
  return {
    id,
    event_id: eventId,
    event_type: eventType,
    asset_id: assetId,
    attempt,
    status: deliveryStatusOf(state),
    response_code: code,
    next_attempt_ts: state === 'retrying' ? dueTs : null,
    created_at: createdTs,
    delivered_at: deliveredTs,
  };
}

function toDetail(delivery: DeliveryDocument): DeliveryDetail {
  const { preview, failure } = delivery.machine.context;
  return {
    ...toDelivery(delivery),
    response_body_preview: preview,
    payload_json: delivery.fixed.payload,
    failure,
  };
}
