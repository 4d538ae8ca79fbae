/** What benchmarks of the durable runtime run on: a database and streams of their own, and one kind of actor. */
import { MongoClient } from 'mongodb';
import { runtime } from '../../schemas/limits.ts';
import type { ActorKind } from '../actors/kind.ts';
import { openBus } from '../bus/bus.ts';
import { type ActorStore, createActorStore } from '../store/actors.ts';
import { createPartitionStore } from '../store/partitions.ts';

export type Servers = { mongodbUrl: string; natsUrl: string };

export type RuntimeRig = Awaited<ReturnType<typeof openRuntimeRig>>;

/** Nothing is said: it would be counted. */
export const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** @param name of the database and of the streams; @param collection where the actors are kept. */
export async function openRuntimeRig(
  { mongodbUrl, natsUrl }: Servers,
  name: string,
  collection: string,
  createKind: (store: ActorStore) => ActorKind,
) {
  const client = await MongoClient.connect(mongodbUrl);
  const db = client.db(name);
  const records = createPartitionStore(db);
  await records.ensure(runtime.partitions);
  const store = createActorStore(db, collection);
  await store.ensureIndexes();
  const lastPosition = async () => 0;
  const bus = await openBus({ url: natsUrl, prefix: `${name}.`, log: silent, replicas: 1, lastPosition });
  return {
    db,
    records,
    store,
    bus,
    kind: createKind(store),
    async close(): Promise<void> {
      await bus.deleteStreams();
      await bus.close();
      await db.dropDatabase();
      await client.close();
    },
  };
}
