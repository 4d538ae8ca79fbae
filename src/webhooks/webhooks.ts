/**
 * What requests do with webhooks: configure, rotate, test, look at deliveries, send them again (specification
 * 4.5, decisions 6).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type DeliveryCommand, deliveryKind } from '../../schemas/delivery-messages.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import type { Bus } from '../bus/bus.ts';
import type { DeliveryCursor, DeliveryDocument, DeliveryFilter, DeliveryStore } from '../store/deliveries.ts';
import type { Settling, WebhookChange, WebhookRecord, WebhookStore } from '../store/webhooks.ts';
import type { Announce } from './changes.ts';
import { newWebhookSecret } from './sign.ts';
import { startMessages, testDelivery } from './start.ts';

export type Webhooks = ReturnType<typeof createWebhooks>;

export type WebhooksPorts = {
  webhooks: WebhookStore;
  deliveries: DeliveryStore;
  bus: Pick<Bus, 'publishAll' | 'subjects'>;
  announce: Announce;
  /** Judges an address by its text alone: see src/outbound. */
  judgeUrl(text: string): { ok: true; url: URL } | { ok: false; reason: string };
  baseUrl: string;
  isHttpsOnly: boolean;
  now(): number;
  onError(cause: unknown): void;
};

/** `madeSecret`: the secret that this save has made. */
export type Saved = { webhook: WebhookRecord; madeSecret: string | undefined };

/** How long an answer waits for its command to be applied: it is then seen by the next read. */
const appliedWithinMs = 1_000;
const lookMs = 10;
const pageSize = 500;
const maxSettling = 50;
const messageWindowMs = 5 * 60_000;

export function createWebhooks(ports: WebhooksPorts) {
  const { webhooks, deliveries, bus, announce, now } = ports;

  const save = async (project: string, change: WebhookChange): Promise<Saved | undefined> => {
    const before = await webhooks.find(project);
    const secret = newWebhookSecret();
    const webhook = await webhooks.save(project, change, secret, now());
    if (!webhook) return undefined;
    await announce(project, { isNewUrl: before?.url !== webhook.url });
    // Not waited for: a hundred thousand may have to be told. What is not told now the scheduler tells.
    settle().catch(ports.onError);
    return { webhook, madeSecret: webhook.secret?.open() === secret ? secret : undefined };
  };

  const command = (project: string, id: string, body: DeliveryCommand, unique: string) => ({
    subject: bus.subjects.command(project, deliveryKind, id),
    id: `${id}:${body.type}:${unique}`,
    body,
  });

  const until = async (isApplied: () => Promise<boolean>): Promise<void> => {
    const givenUpAt = performance.now() + appliedWithinMs;
    while (performance.now() < givenUpAt && !(await isApplied())) await delay(lookMs);
  };

  /** An endpoint that counts as down is tried at once: somebody waits for it. */
  const hurry = (project: string): void => {
    announce(project, { isNewUrl: false }).catch(ports.onError);
  };

  const settle = async (): Promise<void> => {
    for (const { project, revision, settling } of await webhooks.settling(maxSettling)) {
      await settleOne(project, settling);
      await webhooks.settled(project, revision);
    }
  };

  const redeliver = async (webhook: WebhookRecord, delivery: DeliveryDocument): Promise<void> => {
    const { _id: id, project, version } = delivery;
    const body = { type: 'REDELIVER', isAnnounced: webhook.isEnabled } as const;
    await bus.publishAll([command(project, id, body, `${version}`)]);
    hurry(project);
    await until(async () => (await deliveries.find(project, id))?.version !== version);
  };

  return {
    async find(project: string): Promise<WebhookRecord | undefined> {
      return webhooks.find(project);
    },

    /** Why a URL cannot be an endpoint; undefined when it can. The text is fit for the user. */
    refuseUrl(text: string): string | undefined {
      const judgement = ports.judgeUrl(text);
      if (!judgement.ok) return judgement.reason;
      if (ports.isHttpsOnly && judgement.url.protocol !== 'https:') return 'only https is allowed';
      if (judgement.url.origin === new URL(ports.baseUrl).origin) return 'this is the service itself';
      return undefined;
    },

    /**
     * Saves a configuration. It is in force when this answers: nothing goes to an old address any more. undefined
     * when its project is being deleted.
     */
    save,

    /** A new secret; the one before signs beside it for a day. undefined when the project is being deleted. */
    async rotateSecret(project: string): Promise<string | undefined> {
      const secret = newWebhookSecret();
      if (!(await webhooks.rotateSecret(project, secret, now()))) return undefined;
      await announce(project, { isNewUrl: false });
      return secret;
    },

    /** Sends a test event. */
    async test(webhook: WebhookRecord, requestId: string): Promise<void> {
      const delivery = testDelivery(webhook, requestId, now());
      await bus.publishAll(startMessages(bus, [delivery]));
      hurry(webhook.project);
      await until(async () => (await deliveries.find(delivery.project, delivery.id)) !== undefined);
    },

    /** A page of deliveries, newest first. */
    list: (project: string, filter: DeliveryFilter, limit: number, after?: DeliveryCursor) =>
      deliveries.list(project, filter, limit, after),

    findDelivery: (project: string, id: string) => deliveries.find(project, id),

    /** One more attempt at once, or the next one brought forward. */
    redeliver,

    /** Sends again what is dead and was made since a time (unix ms), oldest first. Safe to repeat. */
    async redeliverDead(
      webhook: WebhookRecord,
      sinceTs: number,
    ): Promise<{ redelivered: number; hasMore: boolean }> {
      let redelivered = 0;
      let after: DeliveryCursor | undefined;
      const { project, isEnabled } = webhook;
      while (redelivered < limits.maxRedelivered) {
        const dead = await deliveries.inState(project, 'dead', pageSize, {
          sinceTs,
          ...(after ? { after } : {}),
        });
        await bus.publishAll(
          dead.map(({ id, made }) =>
            command(project, id, { type: 'REDELIVER', isAnnounced: isEnabled, made }, `dead:${made}`),
          ),
        );
        redelivered += dead.length;
        after = dead.at(-1);
        if (dead.length < pageSize) return { redelivered, hasMore: false };
      }
      return { redelivered, hasMore: true };
    },

    /** The project is gone. Its configuration ended with it: what is under way is called off. */
    async onProjectDeleted(project: string): Promise<void> {
      await announce(project, { isNewUrl: true });
      settle().catch(ports.onError);
    },

    /** Tells waiting deliveries of changed configurations; a duty of the scheduler, and safe to repeat. */
    settle,
  };

  async function settleOne(project: string, settling: Settling): Promise<void> {
    const body: DeliveryCommand =
      settling === 'forward' ? { type: 'FORWARD' } : { type: 'CANCEL', reason: settling };
    await tellAll(project, 'retrying', body);
    if (settling !== 'forward') await tellAll(project, 'sending', body);
  }

  async function tellAll(
    project: string,
    state: 'retrying' | 'sending',
    body: DeliveryCommand,
  ): Promise<void> {
    let after: DeliveryCursor | undefined;
    const untilTs = now();
    for (;;) {
      const found = await deliveries.inState(project, state, pageSize, after ? { after } : {});
      // What was made since is none of the change's.
      const told = found.filter(({ createdTs }) => createdTs <= untilTs);
      const unique = `${Math.floor(now() / messageWindowMs)}`;
      await bus.publishAll(told.map(({ id, made }) => command(project, id, body, `${made}:${unique}`)));
      after = found.at(-1);
      if (found.length < pageSize || told.length < found.length) return;
    }
  }
}
