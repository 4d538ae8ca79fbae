/** Webhooks, put together: the sender of deliveries, the dispatcher that starts them, what requests do with them. */
import type { DeliveryFailure } from '../schemas/events.ts';
import { webhook as limits } from '../schemas/limits.ts';
import { systemClock } from './actors/clock.ts';
import { createDeliveryKind } from './actors/delivery.ts';
import type { ActorKind } from './actors/kind.ts';
import { lostSubject } from './actors/reconcile.ts';
import { type Line, leaseMs, type Sender, type Sending, startSender } from './actors/sender.ts';
import type { Bus } from './bus/bus.ts';
import type { Config } from './config.ts';
import { type AttemptResult, deliver } from './effects/deliver.ts';
import type { Log } from './log.ts';
import { PostCancelled } from './outbound/endpoint.ts';
import { OutboundError } from './outbound/error.ts';
import type { Outbound } from './outbound/outbound.ts';
import { readRetryAfter } from './outbound/retry-after.ts';
import type { Store } from './store/client.ts';
import { createAnnounce, followWebhookChanges } from './webhooks/changes.ts';
import { startDispatcher } from './webhooks/dispatcher.ts';
import { secretsAt, signedHeaders } from './webhooks/sign.ts';
import { createWebhooks, type Webhooks } from './webhooks/webhooks.ts';

export type DeliveryParts = {
  config: Pick<Config, 'webhook' | 'baseUrl' | 'isDevelopment'>;
  log: Log;
  store: Pick<Store, 'webhooks' | 'deliveries' | 'partitions'>;
  bus: Bus;
  outbound: Pick<Outbound, 'openEndpoint' | 'judgeUrl'>;
  /** Told of every attempt that counts, and how long it took. */
  onAttempt?(sending: Sending, result: AttemptResult, ms: number): void;
};

export type DeliverySender = {
  /** For the owner of the partitions whose deliveries are sent here. */
  kind: ActorKind;
  onOwned: Sender['onOwned'];
  stats: Sender['stats'];
  /** To be stopped before the owner: what is under way is then not sent by the next one too. */
  stop(): Promise<void>;
};

/** What requests and the scheduler do with webhooks. */
export function createWebhookRequests({ config, log, store, bus, outbound }: DeliveryParts): Webhooks {
  const owners = async () => {
    const records = await store.partitions.all();
    return [...new Set(records.map(({ owner }) => owner).filter((owner) => owner !== null))];
  };
  return createWebhooks({
    webhooks: store.webhooks,
    deliveries: store.deliveries,
    bus,
    announce: createAnnounce({ bus, owners, leaseMs }),
    judgeUrl: outbound.judgeUrl,
    baseUrl: config.baseUrl,
    isHttpsOnly: !config.isDevelopment,
    now: systemClock.now,
    onError: (err) => log.error({ err }, 'webhooks: background task failed'),
  });
}

/** Begins to start deliveries at once; they are sent for the partitions that `onOwned` names. */
export async function startDeliveries(parts: DeliveryParts, workerId: string): Promise<DeliverySender> {
  const { store, bus, log, config } = parts;
  const announce = createAnnounce({ bus, owners: async () => [], leaseMs: 0 });
  const sender = startSender({
    deliveries: store.deliveries,
    findWebhooks: store.webhooks.findMany,
    openLine: (url) => openLine(parts, url),
    async onTestDelivered(project, url) {
      const isEnabled = await store.webhooks.enableByTest(project, url, systemClock.now());
      if (isEnabled) await announce(project, { isNewUrl: false });
    },
    command: bus.subjects.command,
    publish: bus.publish,
    clock: systemClock,
    log,
  });
  const dispatcher = await startDispatcher({ bus, webhooks: store.webhooks });
  const changes = followWebhookChanges(bus, workerId, sender.onChanged);
  const losses = bus.listen(lostSubject, sender.onLost);
  return {
    kind: createDeliveryKind(store.deliveries.actors, config.webhook, sender.onStored),
    onOwned: sender.onOwned,
    stats: sender.stats,
    async stop() {
      await dispatcher.stop();
      await sender.stop();
      changes.stop();
      losses.stop();
    },
  };
}

function openLine({ config, outbound, log, onAttempt }: DeliveryParts, url: string): Line {
  const endpoint = outbound.openEndpoint(url, {
    connections: limits.maxInFlightPerEndpoint,
    timeoutMs: config.webhook.timeoutMs,
    bodyMs: limits.bodyMs,
    maxBodyBytes: limits.maxAnswerBytes,
    keptBytes: limits.previewBytes,
  });
  const now = systemClock.now;
  return {
    async attempt(sending, webhook) {
      const startedAt = performance.now();
      const result = await deliver(sending, {
        async post({ eventId, payload }) {
          const record = webhook();
          if (!record) throw new PostCancelled('the configuration is not known to be of now');
          const headers = signedHeaders(secretsAt(record, now()), eventId, payload, now());
          const maySend = () => webhook()?.url === url;
          return endpoint.post({ headers: [...headers, ...standardHeaders], body: payload, maySend });
        },
        failureOf(error) {
          if (error instanceof PostCancelled) return undefined;
          if (error instanceof OutboundError) return failures[error.failure] ?? 'reset';
          // A mistake of ours must not be tried in a circle.
          log.error({ err: error, delivery: sending.id }, 'webhook attempt failed unexpectedly');
          return 'connect';
        },
        retryAfterMs: (value) =>
          config.webhook.followsRetryAfter ? readRetryAfter(value, now(), limits.maxRetryAfterMs) : undefined,
        random: Math.random,
      });
      onAttempt?.(sending, result, performance.now() - startedAt);
      return result;
    },
    cancel: endpoint.cancel,
  };
}

const standardHeaders = ['user-agent', 'AnimatedAssetService/1.0', 'accept-encoding', 'identity'];

const failures: Partial<Record<OutboundError['failure'], DeliveryFailure>> = {
  blocked_address: 'blocked_address',
  dns: 'dns',
  connect: 'connect',
  tls: 'tls',
  timeout: 'timeout',
  reset: 'reset',
};
