/** The durable runtime on a real MongoDB and a real nats-server: take-overs under load, then the audit. */
import { setTimeout as delay } from 'node:timers/promises';
import { MongoClient } from 'mongodb';
import t from 'tap';
import { systemClock } from '../../src/actors/clock.ts';
import { newDocument } from '../../src/actors/kind.ts';
import { startOwner } from '../../src/actors/owner.ts';
import { startReconciler } from '../../src/actors/reconcile.ts';
import { createCounterKind } from '../../src/bench/counter.ts';
import { openBus } from '../../src/bus/bus.ts';
import { createActorStore } from '../../src/store/actors.ts';
import { createPartitionStore } from '../../src/store/partitions.ts';
import { createMemoryStreamStore } from '../fixtures/memory-runtime.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const partitions = 8;
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function createSite() {
  const { mongodbUrl, natsUrl } = await testServers();
  const name = uniqueName('real');
  const client = await new MongoClient(mongodbUrl, { w: 'majority', journal: true }).connect();
  const db = client.db(name);
  const store = createActorStore(db, 'counters');
  const records = createPartitionStore(db);
  await Promise.all([store.ensureIndexes(), records.ensure(partitions)]);
  const kind = createCounterKind('counter', store);
  const kinds = new Map([['counter', kind]]);
  const open = () =>
    openBus({ url: natsUrl, prefix: `${name}.`, partitions, replicas: 1, lastPosition: async () => 0, log });
  const front = await open();

  return {
    store,
    records,
    kind,
    kinds,
    front,
    async startWorker(workerId: string) {
      const bus = await open();
      const owner = startOwner({ workerId, partitions, kinds, bus, records, clock: systemClock, log });
      return { bus, owner };
    },
    async facts(since: number): Promise<Record<string, unknown>[]> {
      const all: Record<string, unknown>[] = [];
      for await (const fact of front.replayFacts('*', '*', since)) all.push(fact as Record<string, unknown>);
      return all;
    },
    async close() {
      await front.deleteStreams();
      await front.close();
      await db.dropDatabase();
      await client.close();
    },
  };
}

type Site = Awaited<ReturnType<typeof createSite>>;

async function until(condition: () => boolean | Promise<boolean>, maxMs: number): Promise<number> {
  const from = performance.now();
  while (!(await condition())) {
    if (performance.now() - from > maxMs) throw new Error(`not so within ${maxMs} ms`);
    await delay(20);
  }
  return performance.now() - from;
}

/** Counts some rounds on every counter, with a pause between. */
async function count(site: Site, ids: string[], rounds: number, name: string): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await site.front.publishAll(
      ids.map((id) => ({
        subject: site.front.subjects.command(id.split('-')[0] ?? '', 'counter', id),
        id: `${name}:${round}:${id}`,
        body: { type: 'COUNT' },
      })),
    );
    await delay(15);
  }
}

t.test(
  'nothing is lost, doubled or out of order while owners come, vanish and go',
  { timeout: 60_000 },
  async (t) => {
    const site = await createSite();
    t.teardown(() => site.close());
    const began = Date.now() - 5_000;
    const ids = Array.from({ length: 40 }, (_, n) => `p${n % 10}-c${n}`);
    for (const id of ids) {
      const project = id.split('-')[0] ?? '';
      await site.store.insert(newDocument(site.kind, { id, project, input: {}, ts: Date.now() }));
    }
    const steps = async () => (await site.store.load(ids)).reduce((sum, { facts }) => sum + facts.length, 0);

    const first = await site.startWorker('a');
    await until(() => first.owner.stats().owned === partitions, 5_000);
    await count(site, ids, 10, 'alone');
    const second = await site.startWorker('b');
    await count(site, ids, 20, 'joining');
    await until(() => second.owner.stats().owned > 0, 5_000);
    t.equal(first.owner.isAlone(), false);

    // It vanishes in the midst of its work: nothing it sends arrives any more.
    const counting = count(site, ids, 20, 'vanishing');
    await first.bus.close();
    await counting;
    const takeOverMs = await until(() => second.owner.stats().owned === partitions, 6_000);
    t.comment(`taken over after ${Math.round(takeOverMs)} ms`);

    const third = await site.startWorker('c');
    await until(() => third.owner.stats().owned > 0, 5_000);
    const more = count(site, ids, 20, 'leaving');
    await delay(100);
    await second.owner.stop();
    await second.bus.close();
    await more;
    await until(async () => (await steps()) === ids.length * 70, 15_000);
    await delay(500);

    const documents = await site.store.load(ids);
    for (const { _id, version, facts } of documents) {
      t.equal(version, 70, _id);
      t.strictSame(
        facts.map((fact) => fact.count),
        Array.from({ length: 70 }, (_, n) => n + 1),
      );
    }
    const published = await site.facts(began);
    const keys = published.map(({ asset_id, count, ts }) => `${asset_id} ${count} ${ts}`);
    const stored = documents.flatMap(({ _id, facts }) =>
      facts.map(({ count, ts }) => `${_id} ${count} ${ts}`),
    );
    t.strictSame(keys.toSorted(), stored.toSorted(), 'published is what is stored, each once');
    const last = new Map<unknown, number>();
    let disorder = 0;
    for (const { project_id, ts } of published) {
      if (Number(ts) <= (last.get(project_id) ?? 0)) disorder += 1;
      last.set(project_id, Number(ts));
    }
    t.equal(disorder, 0, 'ts increases within each project, in the order of the stream');

    const reconciler = startReconciler({
      kinds: site.kinds,
      bus: site.front,
      records: site.records,
      streams: createMemoryStreamStore(),
      startDeliveries: async () => undefined,
      clock: systemClock,
      log,
      duties: [],
    });
    await delay(100);
    await reconciler.stop();
    await third.owner.stop();
    await third.bus.close();
    await first.owner.stop();
    t.ok((await site.records.all()).every(({ owner }) => owner === null));
  },
);

t.test('the system clock waits, and forgets what is cancelled', async (t) => {
  const before = systemClock.monotonic();
  await new Promise<void>((resolve) => {
    const cancel = systemClock.after(1, () => t.fail('it was cancelled'));
    cancel();
    systemClock.after(20, resolve);
  });
  t.ok(systemClock.monotonic() - before >= 19);
  t.ok(Math.abs(systemClock.now() - Date.now()) < 50);
});
