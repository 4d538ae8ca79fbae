/** What operators see of the streams and of those who read them. */
import type { Server } from './bus.ts';

export type StreamFacts = {
  name: string;
  messages: number;
  bytes: number;
  first: number;
  last: number;
  replicas: number;
  consumers: ConsumerFacts[];
};
/** Not delivered yet; delivered and not acknowledged; delivered more than once. */
type ConsumerFacts = { name: string; pending: number; unacknowledged: number; redelivered: number };

/** Readers of a stream that are told of. */
const maxConsumers = 100;

export function describeStreams({
  manager,
  subjects,
}: Pick<Server, 'manager' | 'subjects'>): Promise<StreamFacts[]> {
  return Promise.all(
    Object.values(subjects.streams).map(async (name) => {
      const { state, config } = await manager.streams.info(name);
      const consumers: ConsumerFacts[] = [];
      for await (const one of manager.consumers.list(name)) {
        consumers.push({
          name: one.name,
          pending: one.num_pending,
          unacknowledged: one.num_ack_pending,
          redelivered: one.num_redelivered,
        });
        if (consumers.length === maxConsumers) break;
      }
      const { messages, bytes, first_seq: first, last_seq: last } = state;
      return { name, messages, bytes, first, last, replicas: config.num_replicas, consumers };
    }),
  );
}
