/** One process of the service: the real runtime, on the models of store and bus. */
import { createAssetKind } from '../actors/asset.ts';
import { sleep } from '../actors/clock.ts';
import { createDeliveryKind } from '../actors/delivery.ts';
import type { ActorKind, ActorStorePort } from '../actors/kind.ts';
import { type Owner, startOwner } from '../actors/owner.ts';
import { lostSubject, startReconciler } from '../actors/reconcile.ts';
import { startSender } from '../actors/sender.ts';
import { createSlots } from '../actors/slots.ts';
import { startWorker, type Worker } from '../actors/worker.ts';
import type { WebhookRecord } from '../store/webhooks.ts';
import { createStarter, startDispatcher } from '../webhooks/dispatcher.ts';
import type { ModelBus } from './model-bus.ts';
import type { ModelStore } from './model-store.ts';
import type { Outside } from './outside.ts';
import { createTallyKind } from './tally.ts';
import { deliveryTimes, pipelineTimes } from './times.ts';
import { Host, type World } from './world.ts';

export type ServiceParts = {
  world: World;
  store: ModelStore;
  bus: ModelBus;
  outside: Outside;
  partitions: number;
  webhooks: ReadonlyMap<string, WebhookRecord>;
};

export type SimulatedService = {
  host: Host;
  connection: ReturnType<ModelBus['connect']>;
  owner: Owner;
  /** In order, as at a deployment. */
  stop(): Promise<void>;
  kill(): void;
};

/** As long as the real service listens for other workers before it takes work. */
const hearPeersMs = 1_000;

/** Longer than the models of this folder have anything under way. */
const writesUnderWayMs = 5_000;

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

export function startSimulated(name: string, parts: ServiceParts): SimulatedService {
  const { world, store, outside, partitions } = parts;
  const host = new Host(world, name);
  const connection = parts.bus.connect(host);
  const { bus } = connection;
  const webhooks = { findMany: async (projects: string[]) => configured(parts.webhooks, projects) };

  const sender = startSender({
    deliveries: store.deliveries(host),
    findWebhooks: webhooks.findMany,
    openLine: () => outside.openLine(host),
    onTestDelivered: () => Promise.resolve(),
    command: bus.subjects.command,
    publish: bus.publish,
    clock: host,
    log: quiet,
  });
  bus.listen(lostSubject, sender.onLost);
  const kinds = new Map<string, ActorKind>(
    [
      { ...assetKind, store: store.actorStore(host, 'asset') },
      { ...deliveryKind, store: store.actorStore(host, 'delivery'), onStored: sender.onStored },
      createTallyKind(store.actorStore(host, 'tally')),
    ].map((kind) => [kind.name, kind]),
  );
  const owner = startOwner({
    workerId: name,
    partitions,
    kinds,
    bus,
    records: store.records(host),
    clock: host,
    log: quiet,
    onOwned: sender.onOwned,
  });
  const reconciler = startReconciler({
    kinds,
    bus,
    records: store.records(host),
    streams: store.streams(host),
    startDeliveries: createStarter({ bus, webhooks }),
    clock: host,
    log: quiet,
    writesUnderWayMs,
    duties: [],
  });
  const dispatching = untilDone(host, () => startDispatcher({ bus, webhooks }));
  let worker: Worker | undefined;
  const working = startWork();

  async function startWork(): Promise<void> {
    await sleep(host, hearPeersMs);
    const effects = outside.effectsOf(host);
    if (owner.isAlone()) await untilDone(host, () => bus.reclaimWork(Object.keys(effects)));
    const slots = createSlots({ cpu: 2, video: 3, io: 4 });
    worker = await untilDone(host, () => startWorker({ effects, bus, slots, clock: host, log: quiet }));
  }

  const kill = () => {
    host.kill();
    connection.close();
  };
  return {
    host,
    connection,
    owner,
    async stop() {
      await working;
      await worker?.stop();
      await reconciler.stop();
      await (await dispatching).stop();
      await sender.stop();
      await owner.stop();
      kill();
    },
    kill,
  };
}

/** As a real start is: it is tried again, by whoever keeps the process alive, until it works. */
async function untilDone<Result>(host: Host, run: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await run();
    } catch {
      await sleep(host, 100);
    }
  }
}

function configured(all: ReadonlyMap<string, WebhookRecord>, projects: string[]): Map<string, WebhookRecord> {
  return new Map([...all].filter(([project]) => projects.includes(project)));
}

/** A place for the stores of the kinds below: each process has its own. */
const noStore: ActorStorePort = {
  load: () => Promise.resolve([]),
  write: () => Promise.resolve(false),
  due: () => Promise.resolve([]),
  unstarted: () => Promise.resolve([]),
  async *touchedSince() {
    // Nothing is there.
  },
};

/** Made once: building a machine takes longer than a history. */
export const assetKind = createAssetKind(noStore, pipelineTimes);
const deliveryKind = createDeliveryKind(noStore, deliveryTimes);
