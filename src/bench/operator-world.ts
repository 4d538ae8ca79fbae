/** Many machines as their owners would have stored them, for what operators look at: most are ready, some are not. */
import type { AssetContext, AssetInput } from '../../machines/asset.ts';
import { pipeline, webhook } from '../../schemas/limits.ts';
import { createAssetKind } from '../actors/asset.ts';
import { createDeliveryKind } from '../actors/delivery.ts';
import { newDocument } from '../actors/kind.ts';
import { createRandom } from '../random.ts';
import type { ActorDocument, StoredFact } from '../store/actors.ts';
import type { Store } from '../store/client.ts';
import { newId } from '../store/ids.ts';

export type World = {
  /** The newest time of all. */
  now: number;
  assets: number;
  projects: readonly string[];
};

const hourMs = 3_600_000;
const perProject = 100;
const deliveriesPer = 10;
const batch = 2_000;
const codes = ['i2v_failed', 'source_unfetchable', 'vision_timeout', 'pipeline_stalled'] as const;
const underWay = [
  ...['new', 'pending.source.fetching', 'pending.source.retrying', 'pending.vision.asked'],
  ...['pending.vision.describing', 'pending.stage1.submitting', 'pending.stage1.waiting'],
  ...['pending.stage1.copying', 'pending.stage1.retrying', 'pending.stage2.waiting'],
  ...[
    'pending.single.waiting',
    'pending.single.retrying',
    'pending.merge.merging',
    'pending.storing.writing',
  ],
];

/** Inserts so many assets, and a tenth of that of deliveries. The same seed makes the same world, but for ids. */
export async function fillStore(store: Store, assets: number, seed = 1): Promise<World> {
  const random = createRandom(seed);
  const now = Date.now();
  const projects = Array.from({ length: Math.ceil(assets / perProject) }, () => newId('prj'));
  const pick = <One>(list: readonly One[]): One => list[Math.floor(random() * list.length)] as One;
  const assetKind = createAssetKind(store.assets.actors, pipeline);
  const deliveryKind = createDeliveryKind(store.deliveries.actors, webhook);

  const asset = (): ActorDocument => {
    const project = pick(projects);
    const input: AssetInput = {
      ...{ run: 1, requestId: newId('req'), plan: 'pro', holdId: newId('hld'), projectId: project },
      src: `https://images.example/${newId('img')}.jpg`,
      options: {
        ...({ motion: 'subtle', mode: 'loop', seconds: 4, seed: null, promptOverride: null } as const),
        ...({ aspect: 'source', model: 'fast', loopMode: 'crossfade' } as const),
      },
    };
    const ts = now - Math.floor(random() * 24 * hourMs);
    const made = newDocument(assetKind, { id: newId('ast'), project, input, ts });
    return inState(made, stateOf(random()), random, pick);
  };
  const delivery = (): ActorDocument => {
    const project = pick(projects);
    const ids = { assetId: newId('ast'), requestId: newId('req'), eventId: newId('evt') };
    const input = {
      ...ids,
      run: 1,
      eventType: 'asset.completed' as const,
      isAnnounced: true,
      isForced: false,
    };
    const ts = now - Math.floor(random() * 24 * hourMs);
    const made = newDocument(deliveryKind, { id: newId('dlv'), project, input, ts });
    const state = random() < 0.9 ? 'delivered' : pick(['sending', 'retrying', 'dead', 'cancelled']);
    const hasFailed = state === 'retrying' || state === 'dead';
    const context = {
      ...(made.machine.context as object),
      attempt: hasFailed ? 3 : 1,
      failure: hasFailed ? pick(['timeout', 'status', 'connect']) : null,
    };
    const fixed = { payload: '{}', expiresAt: new Date(ts + 30 * 24 * hourMs) };
    return { ...made, version: 3, state, machine: { ...made.machine, value: state, context }, fixed };
  };

  await insertAll(store.assets.actors.collection, assets, asset);
  await insertAll(store.deliveries.actors.collection, assets / deliveriesPer, delivery);
  return { now, assets, projects };

  function stateOf(share: number): string {
    if (share < 0.9) return 'ready';
    if (share < 0.94) return 'failed';
    return share < 0.95 ? 'cancelled' : pick(underWay);
  }
}

type Inserted = { insertMany(documents: ActorDocument[], options: object): Promise<unknown> };

async function insertAll(collection: Inserted, count: number, make: () => ActorDocument): Promise<void> {
  for (let done = 0; done < count; done += batch) {
    const some = Array.from({ length: Math.min(batch, count - done) }, make);
    await collection.insertMany(some, { ordered: false, writeConcern: { w: 1 } });
  }
}

function inState(
  document: ActorDocument,
  state: string,
  random: () => number,
  pick: <One>(list: readonly One[]) => One,
): ActorDocument {
  const isPending = state.startsWith('pending.');
  const isRetrying = state.endsWith('.retrying');
  const hasFailed = state === 'failed' || isRetrying;
  const enteredTs = document.createdTs + Math.floor(random() * 20_000);
  const [, stage = 'store_write'] = state.split('.');
  const job = /waiting|copying/.test(state)
    ? { provider: pick(['replicate', 'fal']), id: newId('job') }
    : null;
  const code = pick(codes);
  const context: AssetContext = {
    ...(document.machine.context as AssetContext),
    stage: stage as AssetContext['stage'],
    attempt: hasFailed ? 2 + Math.floor(random() * 2) : 1,
    job,
    error: hasFailed ? { code, message: 'It failed.', hint: null } : null,
  };
  const timers = isPending
    ? [
        {
          id: 'xstate.after.stallAfter.asset.pending',
          at: enteredTs + 600_000,
          armed: 1,
          event: { type: 'x' },
        },
      ]
    : [];
  const status = state === 'ready' ? 'ready' : isPending || state === 'new' ? 'pending' : 'failed';
  return {
    ...document,
    version: 12,
    state,
    enteredTs,
    updatedTs: enteredTs,
    machine: { ...document.machine, value: state, context },
    timers,
    dueTs: timers[0]?.at ?? null,
    facts: factsOf(document),
    index: { ...document.index, status },
  };
}

/** As many as a loop has, with times as they are usual. */
function factsOf({ createdTs, machine }: ActorDocument): StoredFact[] {
  const { requestId } = machine.context as AssetContext;
  const steps: [event: string, stage: string | undefined, ms: number][] = [
    ['queued', undefined, 0],
    ['vision_started', 'vision', 40],
    ['vision_completed', 'vision', 200],
    ['stage_started', 'stage1', 30],
    ['stage_completed', 'stage1', 2_500],
    ['stage_started', 'stage2', 30],
    ['stage_completed', 'stage2', 2_500],
    ['stage_started', 'merge', 20],
    ['stage_completed', 'merge', 700],
    ['store_write_completed', 'store_write', 60],
    ['ready', undefined, 1],
  ];
  let ts = createdTs;
  return steps.map(([event, stage, ms], n) => {
    ts += ms;
    return {
      seq: n + 1,
      n: 0,
      ts,
      event,
      run: 1,
      attempt: 1,
      request_id: requestId,
      ...(stage ? { stage } : {}),
    };
  });
}
