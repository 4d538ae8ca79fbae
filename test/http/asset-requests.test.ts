/**
 * Accepting runs, over a real MongoDB and NATS with a real owner: each run is counted exactly once, whatever races or
 * dies on the way (invariant I7). No worker runs: what it would answer is sent by hand.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { MongoClient } from 'mongodb';
import t from 'tap';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import { asset as limits, pipeline, runtime } from '../../schemas/limits.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { createAssetKind } from '../../src/actors/asset.ts';
import { systemClock } from '../../src/actors/clock.ts';
import { startOwner } from '../../src/actors/owner.ts';
import { startReconciler } from '../../src/actors/reconcile.ts';
import { openBus } from '../../src/bus/bus.ts';
import {
  type Asked,
  type AssetProject,
  type AssetRequestsPorts,
  type AssetView,
  createAssetRequests,
  type Prepared,
} from '../../src/http/asset-requests.ts';
import { assetRoutes } from '../../src/http/assets.ts';
import { newId } from '../../src/store/ids.ts';
import { messageOf, singlePath } from '../fixtures/asset-messages.ts';
import { startFront } from '../fixtures/http.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { until } from '../fixtures/until.ts';

const { mongodbUrl, natsUrl } = await testServers();
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const front = await startFront({ routes: assetRoutes });
const { store } = front;
await store.partitions.ensure(runtime.partitions);
const bus = await openBus({
  url: natsUrl,
  prefix: `${uniqueName('requests')}.`,
  replicas: 1,
  lastPosition: async () => 0,
  log,
});
const kind = createAssetKind(store.assets.actors, pipeline);
const kinds = new Map([[kind.name, kind]]);
const owner = startOwner({
  workerId: 'owner-1',
  partitions: runtime.partitions,
  kinds,
  bus,
  records: store.partitions,
  clock: systemClock,
  log,
});
const client = await new MongoClient(mongodbUrl).connect();
const resolutions = client.db(store.assets.actors.collection.dbName).collection('resolutions');
t.teardown(async () => {
  await owner.stop();
  await bus.deleteStreams();
  await bus.close();
  await client.close();
  await front.close();
});

/** Requests of one process; `ports` change what it meets. */
function create(ports: Partial<AssetRequestsPorts> = {}) {
  return createAssetRequests({
    assets: store.assets,
    quota: store.quota,
    bus,
    kind,
    queueWaitMs: () => 0,
    onSourceUsed: async () => undefined,
    now: Date.now,
    ...ports,
  });
}

/** A process that dies at a step: what it did before is stored. */
const dead = async (): Promise<never> => {
  throw new Error('the process has died');
};

const requests = create();
Object.assign(front.services, {
  assets: requests,
  uploadKey: () => undefined,
  judgeUrl: (text: string) => (text.includes('10.0.0.1') ? { ok: false, reason: 'blocked' } : { ok: true }),
  mediaUrl: (key: string) => `https://media.example/${key}`,
});

async function newUser(plan: PlanName = 'free', used = 0): Promise<string> {
  const id = newId('usr');
  const email = `${id}@example.com`;
  await store.users.insert({ id, email, name: 'Ada', passwordHash: null, createdTs: Date.now() });
  await store.users.setPlan(id, plan, plan === 'free' ? null : 15);
  for (let n = 0; n < used; n += 1) {
    const resetAt = Date.now() + 1_000_000;
    const taken = {
      userId: id,
      projectId: 'prj_1',
      key: `used_${n}:1`,
      now: Date.now(),
      limit: used,
      overage: null,
      resetAt,
    };
    const hold = await store.quota.take(taken);
    if (typeof hold === 'object') await store.quota.settle(id, hold);
  }
  return id;
}

function newProject(userId: string, more: Partial<AssetProject> = {}): AssetProject {
  return {
    id: newId('prj'),
    userId,
    defaultMotion: null,
    defaultMode: null,
    defaultDurSeconds: null,
    sourceHosts: null,
    overageEnabled: false,
    overageCapCents: null,
    ...more,
  };
}

let sources = 0;
function newSource(): string {
  sources += 1;
  return `https://example.com/${sources}.png`;
}

const usedBy = async (userId: string) => (await store.quota.find(userId))?.used;
const holdsOf = async (userId: string) => (await store.quota.find(userId))?.holds ?? [];

function assetOf(prepared: Prepared | { outcome: string }): AssetView {
  if (!('asset' in prepared)) throw new Error(prepared.outcome);
  return prepared.asset;
}

async function prepareNew(project: AssetProject, asked: Partial<Asked> = {}): Promise<AssetView> {
  return assetOf(await requests.prepare(project, { src: newSource(), ...asked }, 'req_1'));
}

/** Waits until an asset is as wanted: its owner works on its own time. */
async function whenAsset(id: string, isWanted: (asset: AssetView) => boolean): Promise<AssetView> {
  const look = async () => (await requests.find(id)) ?? undefined;
  return (await until(look, (asset) => asset !== undefined && isWanted(asset), 10_000)) as AssetView;
}

const begun = (asset: AssetView) => asset.runStartedTs > 0;

async function send(asset: AssetView, message: AssetMessage, n: number): Promise<void> {
  const subject = bus.subjects.command(asset.projectId, 'asset', asset.id);
  await bus.publish({ subject, id: `${asset.id}:test:${n}`, body: message });
}

/** An asset whose run has come to a state. */
async function assetIn(state: 'pending' | 'ready' | 'failed' | 'cancelled', project: AssetProject) {
  const asset = await whenAsset((await prepareNew(project, { mode: 'animate-in' })).id, begun);
  if (state === 'failed') {
    const ref = { run: 1, stage: 'source', attempt: 1 } as const;
    await send(
      asset,
      { ...messageOf.WORK_FAILED(ref, 0), code: 'vision_blocked', retry: 'permanent' } as AssetMessage,
      0,
    );
  }
  if (state === 'cancelled') await requests.cancel(asset, 'req_cancel');
  if (state === 'ready') {
    const stages = [
      'source',
      'source',
      'vision',
      'vision',
      'single',
      'single',
      'single',
      'store_write',
    ] as const;
    for (const [n, type] of singlePath.entries()) {
      const stage = stages[n] ?? 'source';
      await send(asset, messageOf[type]({ run: 1, stage, attempt: 1 }, 0), n);
    }
  }
  return whenAsset(asset.id, (one) => one.state.startsWith(state));
}

t.test('one request asked 50 times at once is one asset, counted once', async (t) => {
  const userId = await newUser();
  const project = newProject(userId);
  const src = newSource();
  const others = create();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) => (n % 2 ? requests : others).prepare(project, { src }, `req_${n}`)),
  );
  const ids = new Set(answers.map((answer) => assetOf(answer).id));
  t.equal(ids.size, 1);
  t.equal(await usedBy(userId), 1);
  const [id = ''] = ids;
  t.match(id, /^ast_[0-9A-Za-z]{20}$/);
  const asset = await whenAsset(id, begun);
  t.strictSame(
    asset.facts.map(({ event }) => event),
    ['queued'],
  );
  t.equal(await store.assets.count([project.id]), 1);
  t.match(await requests.prepare(project, { src }, 'req_x'), { outcome: 'existing', asset: { id } });
  t.equal(await usedBy(userId), 1);
});

t.test('many different requests at once take what is left of the quota, and no more', async (t) => {
  const userId = await newUser('free');
  const project = newProject(userId);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => requests.prepare(project, { src: newSource() }, `req_${n}`)),
  );
  const made = answers.filter(({ outcome }) => outcome === 'created');
  t.equal(made.length, plans.free.generationsPerMonth);
  t.equal(await usedBy(userId), plans.free.generationsPerMonth);
  t.equal(await store.assets.count([project.id]), plans.free.generationsPerMonth);
});

t.test('identity', async (t) => {
  const userId = await newUser('team');
  const project = newProject(userId, { defaultMotion: 'medium' });

  t.test('defaults that change later do not turn a known request into a new asset', async (t) => {
    const src = newSource();
    const asset = await prepareNew(project, { src });
    t.match(asset.options, {
      motion: 'medium',
      mode: 'loop',
      seconds: limits.defaultSeconds,
      loopMode: 'native',
    });
    const changed = { ...project, defaultMotion: 'kinetic' as const, defaultMode: 'animate-in' as const };
    t.equal((await prepareNew(changed, { src })).id, asset.id);
    t.equal((await requests.lookup(changed, { src }))?.id, asset.id);
    t.not(
      (await prepareNew(changed, { src, motion: 'kinetic' })).id,
      asset.id,
      'what is asked for by name is new',
    );
  });

  t.test('options that say what the defaults say are the same asset', async (t) => {
    const src = newSource();
    const before = await usedBy(userId);
    const asset = await prepareNew(project, { src });
    const spelled: Partial<Asked>[] = [
      { motion: 'medium' },
      { mode: 'loop', dur_seconds: limits.defaultSeconds },
      { aspect: 'source', model: 'fast', motion: 'medium', mode: 'loop', dur_seconds: limits.defaultSeconds },
    ];
    for (const asked of spelled) t.equal((await prepareNew(project, { src, ...asked })).id, asset.id);
    t.equal(await usedBy(userId), (before ?? 0) + 1);
  });

  t.test('the fragment of the source does not count, all else does', async (t) => {
    const src = newSource();
    const asset = await prepareNew(project, { src: `${src}#a` });
    t.equal(asset.src, src);
    t.equal((await prepareNew(project, { src })).id, asset.id);
    t.equal((await prepareNew(project, { src: `${src}#motion=kinetic` })).id, asset.id);
    t.equal((await prepareNew(project, { src: src.replace('example', 'EXAMPLE') })).id, asset.id);
    const others: Partial<Asked>[] = [
      { src: `${src}?v=2` },
      { src, motion: 'subtle' },
      { src, mode: 'animate-in' },
      { src, dur_seconds: 8 },
      { src, seed: 0 },
      { src, prompt_override: '' },
      { src, aspect: '1:1' },
      { src, model: 'cinema' },
    ];
    const ids = new Set([asset.id]);
    for (const asked of others) ids.add((await prepareNew(project, asked)).id);
    ids.add((await prepareNew(newProject(userId, { defaultMotion: 'medium' }), { src })).id);
    t.equal(ids.size, others.length + 2);
  });

  t.test('a source that is used is told of once its run is counted', async (t) => {
    const used: string[] = [];
    const telling = create({ onSourceUsed: async (src) => void used.push(src) });
    const src = newSource();
    await telling.prepare(project, { src: `${src}#x` }, 'req_1');
    await telling.prepare(project, { src }, 'req_2');
    t.strictSame(used, [src]);
  });
});

t.test('what is refused leaves nothing behind', async (t) => {
  const refused = async (
    t: Tap,
    project: AssetProject,
    asked: Partial<Asked>,
    wanted: object,
    by = requests,
  ) => {
    const before = [await resolutions.countDocuments(), await usedBy(project.userId)];
    t.match(await by.prepare(project, { src: newSource(), ...asked }, 'req_1'), wanted);
    t.strictSame([await resolutions.countDocuments(), await usedBy(project.userId)], before);
    t.equal(await store.assets.count([project.id]), 0);
  };
  type Tap = typeof t;

  t.test('an exhausted plan', async (t) => {
    const free = newProject(await newUser('free', 5));
    await refused(t, free, {}, { outcome: 'exhausted', paidPlan: false });
    await refused(t, { ...free, overageEnabled: true }, {}, { outcome: 'exhausted', paidPlan: false });
    await refused(t, newProject('usr_nobody'), {}, { outcome: 'exhausted', paidPlan: false });
    const pro = newProject(await newUser('pro', plans.pro.generationsPerMonth));
    await refused(t, pro, {}, { outcome: 'exhausted', paidPlan: true });
    const priced = { ...pro, overageEnabled: true };
    t.match(await requests.prepare(priced, { src: newSource() }, 'req_1'), { outcome: 'created' });
    t.match(await store.quota.find(pro.userId), { overageRuns: 1, overageCents: plans.pro.overageCents });
  });

  t.test('a queue that is too long, which says when to come again', async (t) => {
    const waitMs = pipeline.maxQueueWaitMs;
    const project = newProject(await newUser());
    const busy = create({ queueWaitMs: () => waitMs + 7_000 });
    await refused(t, project, {}, { outcome: 'busy', retryAfterMs: 7_000 }, busy);
    const full = create({ queueWaitMs: () => waitMs });
    t.match(await full.prepare(project, { src: newSource() }, 'req_1'), { outcome: 'created' });
  });

  t.test('what the plan does not have, though assets outlive a downgrade', async (t) => {
    const userId = await newUser('pro');
    const project = newProject(userId);
    await refused(t, project, { model: 'cinema' }, { outcome: 'not in plan', what: 'model' });
    const src = newSource();
    const asset = await prepareNew(project, { src, model: 'standard', aspect: '9:16' });
    await store.users.setPlan(userId, 'free', null);
    const known = await requests.prepare(project, { src, model: 'standard', aspect: '9:16' }, 'req_1');
    t.match(known, { outcome: 'existing', asset: { id: asset.id } });
    const spelled = { src, model: 'standard', aspect: '9:16', motion: 'subtle' } as const;
    t.match(await requests.prepare(project, spelled, 'req_1'), { asset: { id: asset.id } });
    t.match(await requests.prepare(project, { src: newSource(), aspect: '9:16' }, 'req_1'), {
      outcome: 'not in plan',
      what: 'aspect',
    });
    t.match(await requests.regenerate(project, asset, {}, 'req_1'), {
      outcome: 'not in plan',
      what: 'model',
    });
    t.equal(await usedBy(userId), 1);
  });

  t.test('a source of another host', async (t) => {
    const project = newProject(await newUser(), { sourceHosts: ['example.com'] });
    const refusal = { outcome: 'source host not allowed' };
    for (const src of [
      'https://badexample.com/a.png',
      'https://example.com.evil.example/a.png',
      'https://com/a.png',
    ])
      await refused(t, project, { src }, refusal);
    await refused(t, { ...project, sourceHosts: [] }, {}, refusal);
    for (const src of ['https://example.com/a.png', 'https://cdn.EXAMPLE.com:8443/a.png'])
      t.match(await requests.prepare(project, { src }, 'req_1'), { outcome: 'created' });
  });
});

t.test('regenerate', async (t) => {
  t.test('leads from every state to the next run, counted', async (t) => {
    const userId = await newUser('team');
    const project = newProject(userId);
    for (const state of ['pending', 'ready', 'failed', 'cancelled'] as const) {
      const asset = await assetIn(state, project);
      const before = (await usedBy(userId)) ?? 0;
      const answer = await requests.regenerate(project, asset, { motion: 'kinetic' }, 'req_again');
      t.match(answer, { outcome: 'accepted', asset: { id: asset.id, status: 'pending', run: 2 } });
      const again = await whenAsset(asset.id, ({ run }) => run === 2);
      t.match(again, { status: 'pending', options: { motion: 'kinetic', mode: 'animate-in', seconds: 4 } });
      t.equal(await usedBy(userId), before + 1, state);
      const ends = asset.state.startsWith('pending') ? ['cancelled'] : [];
      const told = again.facts.slice(asset.facts.length).map(({ event }) => event);
      t.strictSame(told, [...ends, 'queued'], 'one end of each run');
      t.equal(Boolean(again.media), state === 'ready', 'the earlier file stays');
    }
  });

  t.test('of a run that was never begun ends it first', async (t) => {
    const project = newProject(await newUser());
    const silent = create({ bus: { ...bus, publish: dead } });
    const src = newSource();
    await t.rejects(silent.prepare(project, { src }, 'req_1'), { message: 'the process has died' });
    const [asset] = await requests.list({ projectIds: [project.id] }, 1);
    if (!asset) return t.fail('no asset');
    t.match(asset, { state: 'new', status: 'pending' });
    await requests.regenerate(project, asset, {}, 'req_2');
    const again = await whenAsset(asset.id, ({ run }) => run === 2);
    t.strictSame(
      again.facts.map(({ event, run }) => [event, run]),
      [
        ['queued', 1],
        ['cancelled', 1],
        ['queued', 2],
      ],
    );
    t.equal(await usedBy(project.userId), 2);
  });

  t.test('twice at once is one run, counted once', async (t) => {
    const userId = await newUser();
    const project = newProject(userId);
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) => requests.regenerate(project, asset, {}, `req_${n}`)),
    );
    t.ok(answers.every(({ outcome }) => outcome === 'accepted'));
    t.equal(await usedBy(userId), 2);
    const again = await whenAsset(asset.id, ({ run }) => run === 2);
    t.strictSame(
      again.facts.map(({ event }) => event),
      ['queued', 'cancelled', 'queued'],
    );
    const hold = (await holdsOf(userId)).find(({ key }) => key === `${asset.id}:2`);
    t.equal(again.holdId, hold?.id);
  });

  t.test('that is refused changes nothing', async (t) => {
    const userId = await newUser('free', 4);
    const project = newProject(userId);
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    t.match(await requests.regenerate(project, asset, {}, 'req_2'), {
      outcome: 'exhausted',
      paidPlan: false,
    });
    t.match(await requests.regenerate({ ...project, userId: 'usr_nobody' }, asset, {}, 'req_2'), {
      outcome: 'exhausted',
    });
    const busy = create({ queueWaitMs: () => pipeline.maxQueueWaitMs + 1 });
    t.match(await busy.regenerate(project, asset, {}, 'req_2'), { outcome: 'busy', retryAfterMs: 1 });
    t.same(await requests.find(asset.id), asset);
    t.equal(await usedBy(userId), 5);
  });

  t.test('makes the loop as the present plan closes it', async (t) => {
    const userId = await newUser();
    const project = newProject(userId);
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    t.equal(asset.options.loopMode, 'crossfade');
    await store.users.setPlan(userId, 'pro', 1);
    const more = { seed: 0, prompt_override: 'slower', dur_seconds: 6 };
    t.match(await requests.regenerate(project, asset, more, 'req_2'), {
      asset: { options: { loopMode: 'native', seed: 0, promptOverride: 'slower', seconds: 6 } },
    });
    const next = await whenAsset(asset.id, ({ run }) => run === 2);
    t.match(await requests.regenerate(project, next, { mode: 'animate-on-hover' }, 'req_3'), {
      asset: { run: 3, options: { loopMode: 'none', seed: 0, promptOverride: 'slower', seconds: 6 } },
    });
  });
});

t.test('cancel', async (t) => {
  const userId = await newUser('team');
  const project = newProject(userId);

  t.test('ends a pending run; it stays counted', async (t) => {
    const asset = await assetIn('pending', project);
    const before = await usedBy(userId);
    t.match(await requests.cancel(asset, 'req_2'), { state: 'cancelled', status: 'failed', error: null });
    t.equal(await usedBy(userId), before);
  });

  t.test('of a later run leaves the earlier file', async (t) => {
    const asset = await assetIn('ready', project);
    await requests.regenerate(project, asset, {}, 'req_2');
    const again = await whenAsset(asset.id, ({ run }) => run === 2);
    t.match(await requests.cancel(again, 'req_3'), {
      state: 'cancelled',
      status: 'ready',
      media: { run: 1 },
    });
  });

  t.test('changes nothing when nothing is pending', async (t) => {
    for (const state of ['ready', 'failed', 'cancelled'] as const) {
      const asset = await assetIn(state, project);
      t.equal(await requests.cancel(asset, 'req_2'), undefined);
      t.same(await requests.find(asset.id), asset);
    }
  });

  t.test('of a whole project ends what is pending there, and nothing else', async (t) => {
    const doomed = newProject(userId);
    const ids = [await prepareNew(doomed), await prepareNew(doomed)].map(({ id }) => id);
    const other = await prepareNew(project);
    await requests.cancelAll(doomed.id, 'req_delete');
    for (const id of ids) await whenAsset(id, ({ state }) => state === 'cancelled');
    t.match(await whenAsset(other.id, begun), { status: 'pending' });
  });
});

t.test('a process that dies on the way', async (t) => {
  const minuteMs = 60_000;
  /** The sweeper, some time later. */
  const sweepAfter = (ms: number) => create({ now: () => Date.now() + ms }).settleHolds();
  const { actors } = store.assets;

  t.test(
    'between count and document: the run is given back after a minute, and may be asked again',
    async (t) => {
      const project = newProject(await newUser());
      const src = newSource();
      const dying = create({ assets: { ...store.assets, actors: { ...actors, insert: dead } } });
      await t.rejects(dying.prepare(project, { src }, 'req_1'), { message: 'the process has died' });
      t.equal(await usedBy(project.userId), 1);
      await sweepAfter(minuteMs - 5_000);
      t.equal(await usedBy(project.userId), 1, 'not while its request may still be under way');
      await sweepAfter(minuteMs + 5_000);
      await sweepAfter(minuteMs + 5_000);
      t.equal(await usedBy(project.userId), 0);
      t.match(await requests.prepare(project, { src }, 'req_2'), { outcome: 'created' });
      t.equal(await usedBy(project.userId), 1);
    },
  );

  t.test('between count and document, and the client asks again at once: counted once', async (t) => {
    const project = newProject(await newUser());
    const src = newSource();
    const dying = create({ onSourceUsed: dead });
    await t.rejects(dying.prepare(project, { src }, 'req_1'), { message: 'the process has died' });
    const asset = assetOf(await requests.prepare(project, { src }, 'req_2'));
    t.match(await holdsOf(project.userId), [{ id: asset.holdId }]);
    await sweepAfter(2 * minuteMs);
    t.match(await store.quota.find(project.userId), { used: 1, holds: [] });
  });

  t.test('between document and START: the reconciler starts it, and its hold is settled', async (t) => {
    const project = newProject(await newUser());
    const src = newSource();
    const dying = create({ bus: { ...bus, publish: dead }, now: () => Date.now() - 5_000 });
    await t.rejects(dying.prepare(project, { src }, 'req_1'), { message: 'the process has died' });
    const [asset] = await requests.list({ projectIds: [project.id] }, 10);
    t.match(asset, { state: 'new', run: 1, facts: [] });
    const duties = [() => sweepAfter(2 * minuteMs)];
    const { partitions: records, streams } = store;
    const startDeliveries = async () => undefined;
    const ports = { kinds, bus, records, streams, startDeliveries, clock: systemClock, log, duties };
    const reconcilers = [startReconciler(ports), startReconciler(ports)];
    const started = await whenAsset(asset?.id ?? '', begun).finally(() =>
      Promise.all(reconcilers.map((one) => one.stop())),
    );
    t.strictSame(
      started.facts.map(({ event }) => event),
      ['queued'],
      'two reconcilers start it once',
    );
    await sweepAfter(2 * minuteMs);
    t.match(await store.quota.find(project.userId), { used: 1, holds: [] });
    t.match(await requests.prepare(project, { src }, 'req_2'), { outcome: 'existing' });
  });

  t.test('in the middle of a regenerate that is asked again as the same run: counted once', async (t) => {
    const project = newProject(await newUser());
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    const dying = create({ bus: { ...bus, publish: dead } });
    await t.rejects(dying.regenerate(project, asset, {}, 'req_2', 2), { message: 'the process has died' });
    t.match(await requests.regenerate(project, asset, {}, 'req_3', 2), { asset: { run: 2 } });
    const again = await whenAsset(asset.id, ({ run }) => run === 2);
    t.same(await requests.regenerate(project, again, {}, 'req_4', 2), { outcome: 'accepted', asset: again });
    t.equal(await usedBy(project.userId), 2);
  });

  t.test('before a regenerate is sent: given back once nobody can still send it', async (t) => {
    const project = newProject(await newUser());
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    const dying = create({ bus: { ...bus, publish: dead } });
    await t.rejects(dying.regenerate(project, asset, {}, 'req_2'), { message: 'the process has died' });
    t.equal(await usedBy(project.userId), 2);
    await sweepAfter(9 * minuteMs);
    t.equal(await usedBy(project.userId), 2);
    await sweepAfter(25 * 60 * minuteMs);
    t.match(await store.quota.find(project.userId), { used: 1, holds: [] });
  });

  t.test('after a regenerate is sent: the run stays counted', async (t) => {
    const project = newProject(await newUser());
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    await requests.regenerate(project, asset, {}, 'req_2');
    await whenAsset(asset.id, ({ run }) => run === 2);
    await sweepAfter(11 * minuteMs);
    t.match(await store.quota.find(project.userId), { used: 2, holds: [] });
  });

  t.test('whose hold was given back while it slept: who comes after counts for both', async (t) => {
    const project = newProject(await newUser());
    const src = newSource();
    let wake: () => void = () => undefined;
    const asleep = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const slow = create({ onSourceUsed: () => asleep });
    const first = slow.prepare(project, { src }, 'req_1');
    while ((await usedBy(project.userId)) === 0) await wait(5);
    await sweepAfter(2 * minuteMs);
    t.equal(await usedBy(project.userId), 0);
    const second = assetOf(await requests.prepare(project, { src }, 'req_2'));
    wake();
    t.equal(assetOf(await first).id, second.id);
    t.match(await holdsOf(project.userId), [{ id: second.holdId }]);
    t.equal(await usedBy(project.userId), 1);
  });

  t.test('across a reset: what is given back was not counted in the new cycle', async (t) => {
    const userId = await newUser('pro');
    const project = newProject(userId);
    const dying = create({ onSourceUsed: dead });
    await t.rejects(dying.prepare(project, { src: newSource() }, 'req_1'), {
      message: 'the process has died',
    });
    const nextCycle = Date.now() + 32 * 86_400_000;
    const later = create({ now: () => nextCycle });
    t.match(await later.prepare(project, { src: newSource() }, 'req_2'), { outcome: 'created' });
    await sweepAfter(2 * minuteMs);
    t.equal(await usedBy(userId), 1);
  });
});

t.test('a process that is slow, and others that go on meanwhile', async (t) => {
  const minuteMs = 60_000;
  const sweepAfter = (ms: number) => create({ now: () => Date.now() + ms }).settleHolds();
  const gate = () => {
    let open: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    return { open: () => open(), opened };
  };

  t.test(
    'a process that slept through the give-back does not make a run that nobody has counted',
    async (t) => {
      const project = newProject(await newUser());
      const src = newSource();
      const { open, opened } = gate();
      let offsetMs = 0;
      const slow = create({ onSourceUsed: () => opened, now: () => Date.now() + offsetMs });
      const first = slow.prepare(project, { src }, 'req_1');
      while ((await usedBy(project.userId)) === 0) await wait(5);
      await sweepAfter(2 * minuteMs);
      offsetMs = 2 * minuteMs;
      open();
      const answer = await first;
      const runs = await store.assets.count([project.id]);
      t.equal(await usedBy(project.userId), runs, `${answer.outcome}: ${runs} runs`);
    },
  );

  t.test('a regenerate that its owner reads late is counted', async (t) => {
    const project = newProject(await newUser());
    const asset = await whenAsset((await prepareNew(project)).id, begun);
    const held: (() => Promise<unknown>)[] = [];
    const publish: typeof bus.publish = async (message) => {
      held.push(() => bus.publish(message));
      return { seq: 1, duplicate: false };
    };
    await create({ bus: { ...bus, publish } }).regenerate(project, asset, {}, 'req_2');
    await sweepAfter(15 * minuteMs);
    for (const late of held) await late();
    await whenAsset(asset.id, ({ run }) => run === 2);
    t.equal(await usedBy(project.userId), 2);
  });

  t.test('a late prepare does not give back the hold of a run that was regenerated meanwhile', async (t) => {
    const project = newProject(await newUser());
    const src = newSource();
    const { open, opened } = gate();
    const late = create({
      assets: {
        ...store.assets,
        async resolve(...args) {
          await opened;
          return store.assets.resolve(...args);
        },
      },
    });
    const first = late.prepare(project, { src }, 'req_1');
    await wait(200);
    const asset = await whenAsset(assetOf(await requests.prepare(project, { src }, 'req_2')).id, begun);
    await requests.regenerate(project, asset, {}, 'req_3');
    await whenAsset(asset.id, ({ run }) => run === 2);
    open();
    t.match(await first, { outcome: 'existing' });
    t.equal(await usedBy(project.userId), 2);
  });

  t.test('an exhausted cap leaves nothing behind, and is not called a disabled overage', async (t) => {
    const project = newProject(await newUser('pro', 100), { overageEnabled: true, overageCapCents: 5 });
    const before = await resolutions.countDocuments();
    const answer = await requests.prepare(project, { src: newSource() }, 'req_1');
    t.match(answer, { outcome: 'exhausted', paidPlan: false });
    t.equal(await resolutions.countDocuments(), before);
  });

  t.test(
    'a process that dies before the request is remembered: changed defaults do not make it new',
    async (t) => {
      const project = newProject(await newUser());
      const src = newSource();
      let calls = 0;
      const dying = create({
        assets: {
          ...store.assets,
          async resolve(...args) {
            calls += 1;
            return calls === 2 ? dead() : store.assets.resolve(...args);
          },
        },
      });
      await t.rejects(dying.prepare(project, { src }, 'req_1'));
      const [asset] = await requests.list({ projectIds: [project.id] }, 10);
      const again = await requests.prepare({ ...project, defaultMotion: 'kinetic' }, { src }, 'req_2');
      const assets = await requests.list({ projectIds: [project.id] }, 10);
      t.equal(assets.length, 1, `${asset?.id} and ${assetOf(again).id}`);
      await sweepAfter(2 * minuteMs);
      t.equal(await usedBy(project.userId), 1);
    },
  );
});

t.test('when a cycle has passed, the next run begins a new one, whoever comes first', async (t) => {
  const userId = await newUser('free', 5);
  const project = newProject(userId);
  const later = Date.now() + 40 * 86_400_000;
  const processes = [create({ now: () => later }), create({ now: () => later + 3 })];
  t.match(await requests.prepare(project, { src: newSource() }, 'req_0'), { outcome: 'exhausted' });
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, n) =>
      processes[n % 2]?.prepare(project, { src: newSource() }, `req_${n}`),
    ),
  );
  t.equal(answers.filter((answer) => answer?.outcome === 'created').length, 5);
  t.match(await store.quota.find(userId), { used: 5 });
});

t.test('the wait of a new asset is what the newest of its kind took, at least a second', async (t) => {
  let now = Date.now();
  const timed = create({ now: () => now });
  const project = newProject(await newUser('team'));
  const asset = await prepareNew(project, { model: 'cinema', mode: 'animate-on-hover' });
  t.ok((await timed.etaMs(asset)) > 10_000, 'nothing is known yet');
  await assetIn('ready', project);
  const known = await prepareNew(project, { mode: 'animate-in' });
  t.ok((await timed.etaMs(known)) < 10_000);
  now += 600_000;
  t.equal(await timed.etaMs(known), 1_000);
  t.equal(await requests.find('ast_none'), undefined);
});

t.test('over HTTP', async (t) => {
  const { call } = front;
  const { cookie, userId } = await front.signUp();
  await store.users.setPlan(userId, 'team', 1);
  const { body: made } = await call('GET', '/api/projects', { cookie });
  const project_id = (made['projects'] as { id: string }[])[0]?.id ?? '';
  const prepare = (body: object = {}) =>
    call('POST', '/api/v1/prepare', { cookie, body: { project_id, src: newSource(), ...body } });

  t.test('200 for prepare, read, timeline, regenerate and cancel of what is one’s own', async (t) => {
    const { status, body } = await prepare();
    t.match({ status, body }, { status: 200, body: { status: 'pending', eta_seconds: Number } });
    const id = String(body['asset_id']);
    await whenAsset(id, begun);
    t.match((await call('GET', `/api/assets/${id}`, { cookie })).body, { asset: { asset_id: id, run: 1 } });
    const timeline = await call('GET', `/api/assets/${id}/timeline`, { cookie });
    t.match(timeline.body, { events: [{ event: 'queued', asset_id: id, project_id }] });
    t.match(await call('POST', `/api/assets/${id}/regenerate`, { cookie, body: { seed: 5 } }), {
      status: 200,
      body: { asset_id: id, status: 'pending' },
    });
    await whenAsset(id, ({ run }) => run === 2);
    t.match(await call('POST', `/api/assets/${id}/cancel`, { cookie }), {
      status: 200,
      body: { status: 'failed' },
    });
    t.match(await call('POST', `/api/assets/${id}/cancel`, { cookie }), { status: 409 });
  });

  t.test('404 for what is somebody else’s, and 400 for a source that is refused by its text', async (t) => {
    const stranger = (await front.signUp()).cookie;
    const id = String((await prepare()).body['asset_id']);
    const paths = [
      ['GET', `/api/assets/${id}`],
      ['GET', `/api/assets/${id}/timeline`],
      ['POST', `/api/assets/${id}/regenerate`],
      ['POST', `/api/assets/${id}/cancel`],
      ['GET', `/api/assets?project_id=${project_id}`],
    ];
    for (const [method = '', path = ''] of paths)
      t.match(await call(method, path, { cookie: stranger }), { status: 404, body: { error: 'not found' } });
    const body = { project_id, src: newSource() };
    t.equal((await call('POST', '/api/v1/prepare', { cookie: stranger, body })).status, 404);
    t.strictSame((await call('GET', '/api/assets', { cookie: stranger })).body, {
      assets: [],
      next_cursor: null,
    });
    t.match(await prepare({ src: 'http://10.0.0.1/a.png' }), {
      status: 400,
      body: { error: 'src: blocked' },
    });
  });

  t.test('429, 403 and 503 with what to do about them', async (t) => {
    const other = await front.signUp();
    const { body: own } = await call('GET', '/api/projects', { cookie: other.cookie });
    const ask = (more: object = {}) => {
      const body = { project_id: (own['projects'] as { id: string }[])[0]?.id, src: newSource(), ...more };
      return call('POST', '/api/v1/prepare', { cookie: other.cookie, body });
    };
    const upgrade_url = 'http://localhost:8080/dashboard/billing';
    t.match(await ask({ model: 'cinema' }), {
      status: 403,
      body: { error: 'model is not in your plan', upgrade_url },
    });
    for (let n = 0; n < plans.free.generationsPerMonth; n += 1) t.equal((await ask()).status, 200);
    t.match(await ask(), { status: 429, body: { error: 'monthly limit reached', upgrade_url } });
    front.services.assets = create({ queueWaitMs: () => pipeline.maxQueueWaitMs + 1_500 });
    t.teardown(() => {
      front.services.assets = requests;
    });
    const busy = await prepare();
    t.match(busy, { status: 503, body: { error: 'busy', retry_after_ms: 1_500 } });
    t.equal(busy.headers.get('retry-after'), '2');
  });

  t.test('200 for lists: newest first, page by page, by status, each asset once', async (t) => {
    const { cookie, userId } = await front.signUp();
    await store.users.setPlan(userId, 'team', 1);
    const { body: list } = await call('GET', '/api/projects', { cookie });
    const project = newProject(userId, { id: (list['projects'] as { id: string }[])[0]?.id ?? '' });
    const at = Date.now();
    // Three of them were made in the same millisecond.
    const times = [at - 50, at - 40, at - 40, at - 40, at - 10];
    const ids: string[] = [];
    for (const ts of times) {
      const timed = create({ now: () => ts });
      ids.push(assetOf(await timed.prepare(project, { src: newSource() }, 'req_1')).id);
    }
    await prepareNew(newProject(userId));
    const page = async (query: string) => {
      const { body } = await call('GET', `/api/assets?${query}`, { cookie });
      const assets = body['assets'] as { asset_id: string; created_at: number }[];
      return { assets, next: body['next_cursor'] as string | null };
    };
    const seen: { asset_id: string; created_at: number }[] = [];
    let cursor = '';
    for (let pages = 1; pages <= 3; pages += 1) {
      const { assets, next } = await page(`project_id=${project.id}&limit=2${cursor}`);
      seen.push(...assets);
      t.equal(next === null, pages === 3, `page ${pages}`);
      cursor = `&cursor=${next}`;
    }
    t.strictSame(seen.map(({ asset_id }) => asset_id).sort(), [...ids].sort());
    const stamps = seen.map(({ created_at }) => created_at);
    t.strictSame(
      stamps,
      [...stamps].sort((a, b) => b - a),
    );
    t.strictSame((await page(`limit=${times.length}`)).next, null, 'a page that is just full is the last');

    const failed = await assetIn('failed', project);
    t.match((await page('status=failed')).assets, [{ asset_id: failed.id, error_code: 'vision_blocked' }]);
    t.equal((await page('status=pending')).assets.length, times.length);
    for (const query of ['cursor=nonsense', 'cursor=', 'limit=0', 'limit=101', 'status=new'])
      t.equal((await call('GET', `/api/assets?${query}`, { cookie })).status, 400, query);
  });
});
