/** Starts deliveries from the facts of assets: a durable consumer, so that none is missed. */
import { type PublishedFact, webhookFacts } from '../../schemas/envelope.ts';
import type { Bus } from '../bus/bus.ts';
import type { WebhookStore } from '../store/webhooks.ts';
import { deliveryOf, startMessages } from './start.ts';

export type DispatcherPorts = {
  bus: StarterBus & Pick<Bus, 'followFacts'>;
  webhooks: Pick<WebhookStore, 'findMany'>;
};

/** Name of the consumer, and so what it has read, for as long as the stream of facts exists. */
const consumer = 'webhooks';

/** Starts the deliveries of some facts. A fact that has had its deliveries started makes none again (I8). */
export function createStarter({ bus, webhooks }: Omit<DispatcherPorts, 'bus'> & { bus: StarterBus }) {
  return async (facts: readonly unknown[]): Promise<void> => {
    const published = facts as PublishedFact[];
    // Read for every group, so that a change is in force for what happens after it.
    const configured = await webhooks.findMany([...new Set(published.map(({ project_id }) => project_id))]);
    const deliveries = published
      .map((fact) => deliveryOf(fact, configured.get(fact.project_id)))
      .filter((delivery) => delivery !== undefined);
    if (deliveries.length > 0) await bus.publishAll(startMessages(bus, deliveries));
  };
}

type StarterBus = Pick<Bus, 'publishAll' | 'subjects'>;

export function startDispatcher({ bus, webhooks }: DispatcherPorts): Promise<{ stop(): Promise<void> }> {
  return bus.followFacts(consumer, webhookFacts, createStarter({ bus, webhooks }));
}
