/** What operators look at, on a real MongoDB: each view is one index, in its order, and finds what it says. */
import type { Document } from 'mongodb';
import t from 'tap';
import { operator as limits, pipeline, webhook } from '../../schemas/limits.ts';
import type { MachineFilterQuery } from '../../schemas/operator-console.ts';
import { fillStore } from '../../src/bench/operator-world.ts';
import type { Outgoing } from '../../src/bus/publisher.ts';
import { createActions } from '../../src/operator/actions.ts';
import { createBulkRunner } from '../../src/operator/bulk.ts';
import { createConsole } from '../../src/operator/console.ts';
import { createFilters } from '../../src/operator/filters.ts';
import { createStateTable } from '../../src/operator/states.ts';
import { createUsual } from '../../src/operator/usual.ts';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const log = { info: () => undefined, warn: () => undefined };
const store = await openStore(mongodbUrl, uniqueName('views'), { log });
t.teardown(() => store.close());
const views = store.operatorViews;
const assets = 4_000;
const world = await fillStore(store, assets);
const clock = { now: world.now };
const now = () => clock.now;
const table = createStateTable({ pipeline, webhook });
const usual = createUsual(views, now);
const filters = createFilters({ store, table, usual, now });
const sent: Outgoing[] = [];
const bus = {
  connected: () => true,
  subjects: { command: (project: string, kind: string, id: string) => `c.${project}.${kind}.${id}` },
  publish: async (message: Outgoing) => void sent.push(message),
  publishAll: async (messages: Outgoing[]) => void sent.push(...messages),
} as unknown as Parameters<typeof createConsole>[0]['bus'];
const workers = { alive: () => [], listenedMs: () => 0, look: async () => [], stop: () => undefined };
const times = { pipeline, webhook };
const parts = {
  store,
  bus,
  workers,
  times,
  providers: ['fal', 'replicate'],
  providerStatus: async () => [],
  newId,
  now,
};
const operator = createConsole(parts);
const author = { by: 'usr_boss', byEmail: 'boss@example.com', requestId: 'req_bulk' };

const [project = ''] = world.projects;
const everyView: Record<string, MachineFilterQuery> = {
  'what is under way': {},
  'one state': { state: 'ready' },
  'a branch of states': { state: 'pending.stage1' },
  attempts: { attempt: 2 },
  'attempts in a state': { attempt: 2, state: 'pending.single.retrying' },
  errors: { error: 'i2v_failed' },
  'errors in a state': { error: 'i2v_failed', state: 'failed' },
  project: { project },
  'a project in a state': { project, state: 'ready' },
  'a provider': { provider: 'fal' },
  'a version': { version: 1 },
  stuck: { stuck: 'true' },
  'stuck in a state': { stuck: 'true', state: 'pending.stage1.waiting' },
  'deliveries under way': { kind: 'delivery' },
  'deliveries in a state': { kind: 'delivery', state: 'dead' },
  'deliveries by failure': { kind: 'delivery', error: 'timeout' },
  'deliveries of a project': { kind: 'delivery', project },
  'deliveries of a project in a state': { kind: 'delivery', project, state: 'delivered' },
  'stuck deliveries': { kind: 'delivery', stuck: 'true' },
};

const stagesOf = (plan: Document): string[] => [
  plan['stage'],
  ...[plan['inputStage'], ...(plan['inputStages'] ?? [])].filter(Boolean).flatMap(stagesOf),
];

t.test('each view is read from one index in its order, and hardly more of it than is shown', async (t) => {
  const limit = 50;
  for (const [name, query] of Object.entries(everyView)) {
    const view = await filters.read(query);
    if (!view) return t.fail(name);
    const first = await views.list(view.kind, view.filter, limit);
    const last = first.at(-1);
    t.ok(last, `${name} finds something`);
    const ts = view.isByAge ? last?.createdTs : last?.enteredTs;
    for (const after of [undefined, { ts: ts ?? 0, id: last?._id ?? '' }]) {
      const { queryPlanner, executionStats: stats } = await views.explain(
        view.kind,
        view.filter,
        limit,
        after,
      );
      const stages = stagesOf(queryPlanner['winningPlan']['queryPlan'] ?? queryPlanner['winningPlan']);
      t.ok(stages.includes('IXSCAN'), `${name}: ${stages}`);
      t.notOk(stages.includes('SORT') || stages.includes('COLLSCAN'), `${name}: ${stages}`);
      // A key is read ahead in each state that is merged.
      const { totalDocsExamined, totalKeysExamined, nReturned } = stats;
      t.ok(totalDocsExamined <= 2 * nReturned + 1, `${name}: ${totalDocsExamined} for ${nReturned}`);
      t.ok(
        totalKeysExamined <= 2 * (nReturned + table[view.kind].size),
        `${name}: ${totalKeysExamined} keys`,
      );
    }
  }
});

t.test('page after page shows each machine once, and all that fit', async (t) => {
  const all = store.assets.actors.collection;
  const count = (filter: object) => all.find(filter).hint({ _id: 1 }).toArray();
  const expected: [MachineFilterQuery, object][] = [
    [{ state: 'failed' }, { state: 'failed' }],
    [{ attempt: 3 }, { 'machine.context.attempt': { $gte: 3 } }],
    [{ error: 'i2v_failed' }, { 'machine.context.error.code': 'i2v_failed' }],
    [{ provider: 'fal' }, { 'machine.context.job.provider': 'fal' }],
    [{ project }, { project }],
    [
      { project, state: 'failed' },
      { project, state: 'failed' },
    ],
    [{}, { state: { $not: /^(ready|failed|cancelled|erased)$/ } }],
  ];
  for (const [query, filter] of expected) {
    const seen: string[] = [];
    let after: { ts: number; id: string } | undefined;
    do {
      const page = await operator.list(query, 7, after);
      const last = page?.records.at(-1);
      seen.push(...(page?.records ?? []).map(({ _id }) => _id));
      after = last && { ts: page?.isByAge ? last.createdTs : last.enteredTs, id: last._id };
    } while (after);
    t.strictSame(seen.sort(), (await count(filter)).map(({ _id }) => _id).sort(), JSON.stringify(query));
  }
  t.equal(await operator.list({ state: 'no such state' }, 7), undefined);
});

t.test('counts are exact, name the oldest, and are taken once however many ask', async (t) => {
  const [one, other] = await Promise.all([operator.overview(), operator.overview()]);
  t.equal(one.as_of, other.as_of);
  const [asset] = one.machines;
  const total = asset?.states.reduce((sum, { count }) => sum + count, 0);
  t.equal(total, assets);
  for (const { state, count, oldest_entered_at } of asset?.states ?? []) {
    const [oldest] = await views.list('asset', { states: [state] }, 1);
    t.equal(oldest_entered_at, oldest ? new Date(oldest.enteredTs).toISOString() : null, state);
    t.equal(count, await views.count('asset', { states: [state] }, assets), state);
  }
  const stuck = await filters.read({ stuck: 'true' });
  t.equal(asset?.stuck, stuck && (await views.count('asset', stuck.filter, assets)));
  t.ok((asset?.later_attempts ?? 0) > 0);
  clock.now += limits.countsMs;
  t.not((await operator.overview()).as_of, one.as_of, 'after two seconds they are taken again');
});

t.test('what waits for an endpoint that is tried is not stuck; what nobody sends is', async (t) => {
  const deliveries = store.deliveries.actors.collection;
  const sending = async () => {
    clock.now += limits.countsMs;
    const [, counts] = (await operator.overview()).machines;
    return {
      ...counts?.waiting_for_endpoints,
      stuck: counts?.states.find(({ state }) => state === 'sending')?.is_stuck,
    };
  };
  const late = await filters.read({ kind: 'delivery', state: 'sending', stuck: 'true' });
  const all = late ? await views.count('delivery', late.filter, assets) : 0;
  const [first] = late ? await views.list('delivery', late.filter, 1) : [];
  if (!first) return t.fail('no delivery is late');
  const rowOf = async () => (await operator.row('delivery', first._id))?.is_stuck;
  // What the world has tried lately, if anything, is another project's.
  await deliveries.updateMany(
    { project: first.project, state: { $in: ['retrying', 'dead', 'delivered'] } },
    { $set: { enteredTs: 0 } },
    { hint: { project: 1, state: 1, createdTs: -1, _id: -1 } },
  );
  const before = await sending();
  t.equal((before.stuck ?? 0) + (before.deliveries ?? 0), all);
  t.equal(await rowOf(), true);
  const its = await views.count('delivery', { states: ['sending'], projects: [first.project] }, assets);
  const other = await deliveries.findOne({ project: first.project, state: { $in: ['dead', 'retrying'] } });
  const tried = other ?? (await deliveries.findOne({ project: first.project, state: 'delivered' }));
  if (!tried) return t.fail('nothing was ever tried there');
  await deliveries.updateOne({ _id: tried._id }, { $set: { state: 'retrying', enteredTs: clock.now } });
  const after = await sending();
  t.strictSame(after, {
    endpoints: (before.endpoints ?? 0) + 1,
    deliveries: (before.deliveries ?? 0) + its,
    stuck: (before.stuck ?? 0) - its,
  });
  t.equal(await rowOf(), false);
});

t.test('a row says what is waited for, how long that usually takes, and what went wrong', async (t) => {
  const row = async (query: MachineFilterQuery) => (await operator.list(query, 1))?.list.machines[0];
  t.match(await row({ state: 'pending.stage1.waiting' }), {
    waits_for: { what: 'provider', text: 'the provider’s prediction', until: null },
    usual_ms: 2_500,
    expected_ms: limits.usualAtLeastMs,
    is_stuck: true,
    deadline_at: /Z$/,
    attempt: 1,
    max_attempts: 3,
    prediction: { provider: /replicate|fal/ },
  });
  t.match(await row({ state: 'pending.single.retrying' }), {
    waits_for: { what: 'timer' },
    usual_ms: null,
    last_error: { text: 'It failed.' },
  });
  t.match(await row({ state: 'ready' }), {
    expected_ms: null,
    is_stuck: false,
    waits_for: { what: 'nothing' },
  });
  t.match(await row({ kind: 'delivery', state: 'dead' }), { attempt: 3, max_attempts: 5, asset_id: /^ast_/ });
});

t.test('a bulk job tells each machine once, also when its worker dies in the middle', async (t) => {
  const query = { error: 'i2v_failed', state: 'failed' };
  const preview = await operator.bulk.preview(query, { action: 'retry' }, author);
  t.match(preview, { kind: 'asset', will: /not counted/, is_more: false });
  t.equal(preview?.sample.length, Math.min(limits.bulkSample, preview?.count ?? 0));
  t.equal(await operator.bulk.find(preview?.token ?? ''), undefined, 'nothing runs yet');
  const job = await operator.bulk.start(preview?.token ?? '', author);
  t.match(await operator.bulk.start(preview?.token ?? '', author), { id: job?.id }, 'twice is once');
  t.equal((await store.audit.about({ target: job?.id ?? '' }, 5)).length, 1);

  const actions = createActions({ store, bus, now, table });
  const runner = (runnerId: string, over = bus) =>
    createBulkRunner({ store, bus: over, actions, runnerId, now });
  const dying = { ...bus, publishAll: async (messages: Outgoing[]) => void sent.push(...messages) };
  const died = createBulkRunner({
    store: { ...store, bulkJobs: { ...store.bulkJobs, advance: () => Promise.reject(new Error('killed')) } },
    bus: dying,
    actions,
    runnerId: 'first',
    now,
  });
  await t.rejects(died.step(), /killed/);
  const second = runner('second');
  await second.step();
  t.match(await operator.bulk.find(job?.id ?? ''), { job: { told: 0 } }, 'the lease of the dead one holds');
  clock.now += limits.bulkLeaseMs;
  for (let n = 0; n < 20; n += 1) await second.step();
  const done = await operator.bulk.find(job?.id ?? '');
  t.match(done, { job: { state: 'done', told: preview?.count, passed: 0 }, log: [{ outcome: 'told' }] });
  const ids = sent.map(({ id }) => id);
  t.equal(new Set(ids).size, preview?.count, 'what was sent twice has the same id');
  t.ok(ids.length > (preview?.count ?? 0));
  t.match(sent[0], { id: /^ast_\w+:operator:REGENERATE:2$/, body: { run: 2, requestId: 'req_bulk' } });
});

t.test('a cancelled job tells nobody any more, and an outdated preview starts nothing', async (t) => {
  sent.length = 0;
  const preview = await operator.bulk.preview({ state: 'ready' }, { action: 'cancel' }, author);
  const job = await operator.bulk.start(preview?.token ?? '', author);
  const runner = createBulkRunner({
    store,
    bus,
    actions: createActions({ store, bus, now, table }),
    runnerId: 'one',
    now,
  });
  await runner.step();
  const page = await operator.bulk.find(job?.id ?? '');
  t.match(page, { job: { state: 'running', told: 0, passed: limits.bulkPerSecond } });
  t.match(page?.log[0], { outcome: 'passed over: it is ready: nothing is under way' });
  t.match(await operator.bulk.cancel(job?.id ?? '', author), { state: 'cancelled' });
  t.equal(await operator.bulk.cancel(job?.id ?? '', author), 'refused');
  await runner.step();
  t.match(await operator.bulk.find(job?.id ?? ''), { job: { passed: limits.bulkPerSecond } });
  t.strictSame(sent, []);

  const old = await operator.bulk.preview({}, { action: 'retry' }, author);
  clock.now += 20 * 60_000;
  t.equal(await operator.bulk.start(old?.token ?? '', author), undefined);
  t.equal(await operator.bulk.start('blk_none', author), undefined);
  t.match(
    (await operator.bulk.list()).map(({ state }) => state),
    ['cancelled', 'done'],
  );
});

t.test('what has entered its state after the preview is none of the job’s', async (t) => {
  const state = 'pending.merge.merging';
  const preview = await operator.bulk.preview({ state }, { action: 'cancel' }, author);
  const [late] = await views.list('asset', { states: [state] }, 1);
  await store.assets.actors.collection.updateOne(
    { _id: late?._id ?? '' },
    { $set: { enteredTs: clock.now + 1 } },
  );
  await operator.bulk.start(preview?.token ?? '', author);
  const actions = createActions({ store, bus, now, table });
  await createBulkRunner({ store, bus, actions, runnerId: 'late', now }).step();
  t.equal(sent.length, (preview?.count ?? 0) - 1);
  t.notOk(sent.some(({ subject }) => subject.endsWith(late?._id ?? '')));
});
