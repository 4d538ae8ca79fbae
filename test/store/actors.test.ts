/** The store of actor documents: the real one, and the one in memory that the runtime's tests use. */
import { MongoClient } from 'mongodb';
import t from 'tap';
import { createRandom } from '../../src/random.ts';
import {
  type ActorDocument,
  type ActorStore,
  createActorStore,
  isDuplicate,
} from '../../src/store/actors.ts';
import { createFaultyStore, createMemoryActorStore } from '../fixtures/memory-runtime.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

type Store = Omit<ActorStore, 'collection'>;

const { mongodbUrl } = await testServers();
const client = await new MongoClient(mongodbUrl).connect();
const db = client.db(uniqueName('actors'));
t.teardown(async () => {
  await db.dropDatabase();
  await client.close();
});

function document(id: string, more: Partial<ActorDocument> = {}): ActorDocument {
  return {
    _id: id,
    project: 'p1',
    partition: 3,
    version: 0,
    seq: 0,
    machine: {
      version: 1,
      value: { pending: { vision: 'asked' } },
      context: { count: 0, nested: [1, null, 'x'] },
    },
    state: 'pending.vision.asked',
    enteredTs: 1,
    timers: [],
    dueTs: null,
    facts: [],
    work: [],
    createdTs: 1_000,
    updatedTs: 1_000,
    index: { status: 'pending' },
    ...more,
  };
}

const fact = (seq: number, n = 0) => ({ seq, n, ts: seq * 10 + n, event: 'counted', count: seq });

/** The write that leads a document to its next version with one more fact. */
function stepOf(before: ActorDocument, seq: number, more: Partial<ActorDocument> = {}) {
  const next = { ...before, version: before.version + 1, seq, facts: [...before.facts, fact(seq)], ...more };
  return { before, next, newFacts: [fact(seq)], resetFacts: false };
}

const stores: Record<string, () => Promise<Store>> = {
  'the store in memory': async () => createMemoryActorStore(createRandom(1)),
  'the store in MongoDB': async () => {
    const store = createActorStore(db, uniqueName('c'), [{ 'index.status': 1 }]);
    await store.ensureIndexes();
    return store;
  },
};

for (const [name, create] of Object.entries(stores)) {
  t.test(name, async (t) => {
    t.test('a document comes back as it was inserted, and is inserted once', async (t) => {
      const store = await create();
      t.equal(await store.insert(document('a')), true);
      t.equal(await store.insert(document('a', { project: 'p2' })), false);
      t.strictSame(await store.find('a'), document('a'));
      t.strictSame(await store.load(['a', 'b']), [document('a')]);
      t.equal(await store.find('b'), undefined);
      t.strictSame(await store.load([]), []);
      await store.ensureIndexes();
    });

    t.test(
      'a write moves versions on with their facts, timers and work, and leaves what never changes',
      async (t) => {
        const store = await create();
        const before = document('a');
        await store.insert(before);
        await store.insert(document('b'));
        const change = {
          state: 'ready',
          timers: [{ id: 'reconcile', at: 9, armed: 1, event: { type: 'RECONCILE' } }],
          dueTs: 9,
          work: [{ seq: 5, n: 0, effect: 'vision', params: { run: 1 } }],
          index: { status: 'ready' },
        };
        const first = stepOf(before, 5, change);
        t.equal(await store.write([first, stepOf(document('b'), 6)]), true);
        t.strictSame(await store.find('a'), first.next);
        const second = stepOf(first.next, 7, { project: 'p9', createdTs: 5, timers: [], dueTs: null });
        t.equal(await store.write([second]), true);
        t.strictSame(await store.find('a'), { ...second.next, project: 'p1', createdTs: 1_000 });
        t.equal(await store.write([]), true);
      },
    );

    t.test('facts are appended, left alone, or replaced when a run begins', async (t) => {
      const store = await create();
      const before = document('a', { facts: [fact(1), fact(2)] });
      await store.insert(before);
      const silent = { ...stepOf(before, 3), newFacts: [], next: { ...before, version: 1, seq: 3 } };
      await store.write([silent]);
      t.strictSame((await store.find('a'))?.facts, [fact(1), fact(2)]);
      const next = { ...silent.next, version: 2, seq: 4, facts: [fact(2), fact(4), fact(4, 1)] };
      await store.write([{ before: silent.next, next, newFacts: [fact(4), fact(4, 1)], resetFacts: true }]);
      t.strictSame((await store.find('a'))?.facts, [fact(2), fact(4), fact(4, 1)]);
    });

    t.test('a document that another writer has moved on is left alone, the others are stored', async (t) => {
      const store = await create();
      const documents = ['a', 'b', 'c'].map((id) => document(id));
      for (const one of documents) await store.insert(one);
      const [, b] = documents;
      if (!b) throw new Error('no b');
      await store.write([stepOf(b, 3)]);
      t.equal(await store.write(documents.map((one) => stepOf(one, 5))), false);
      t.strictSame((await store.load(['a', 'b', 'c'])).map(({ version, seq }) => [version, seq]).sort(), [
        [1, 3],
        [1, 5],
        [1, 5],
      ]);
      t.equal(await store.write([stepOf(document('nobody'), 5)]), false);
      t.equal(await store.find('nobody'), undefined, 'a write makes no document');
    });

    t.test('of two writers at one version one wins', async (t) => {
      const store = await create();
      const documents = Array.from({ length: 20 }, (_, n) => document(`d${n}`));
      for (const one of documents) await store.insert(one);
      const results = await Promise.all(
        [5, 6].map((seq) => store.write(documents.map((one) => stepOf(one, seq)))),
      );
      t.ok(results.includes(false));
      for (const { version, facts } of await store.load(documents.map(({ _id }) => _id))) {
        t.equal(version, 1);
        t.equal(facts.length, 1);
      }
    });

    t.test('due timers come most overdue first, of the asked partitions only', async (t) => {
      const store = await create();
      const timers = [{ id: 'x', at: 1, armed: 1, event: { type: 'X' } }];
      await store.insert(document('late', { dueTs: 10, timers }));
      await store.insert(document('later', { dueTs: 5, timers }));
      await store.insert(document('elsewhere', { dueTs: 1, partition: 4, timers }));
      await store.insert(document('future', { dueTs: 100, timers }));
      await store.insert(document('none'));
      const due = await store.due([3], 50, 10);
      t.strictSame(
        due.map(({ _id }) => _id),
        ['later', 'late'],
      );
      t.match(due[0], { project: 'p1', partition: 3, version: 0, timers });
      t.equal((await store.due([3, 4], 50, 2)).length, 2);
      t.strictSame(await store.due([], 50, 2), []);
    });

    t.test('documents at version 0 are found when they are old enough', async (t) => {
      const store = await create();
      await store.insert(document('old', { createdTs: 10 }));
      await store.insert(document('young', { createdTs: 20 }));
      await store.insert(document('started', { createdTs: 5, version: 1 }));
      t.strictSame(await store.unstarted(15, 10), [{ _id: 'old', project: 'p1' }]);
      t.equal((await store.unstarted(50, 1)).length, 1);
    });
  });
}

t.test('the store in MongoDB throws what it does not know', async (t) => {
  const store = createActorStore(db, uniqueName('c'));
  await t.rejects(store.insert({ ...document('a'), _id: ['a list'] } as never));
  t.equal(isDuplicate(new Error('other')), false);
});

t.test('a faulty store fails as told, once', async (t) => {
  const inner = createMemoryActorStore();
  const ids = ['a', 'b', 'c'];
  for (const id of ids) await inner.insert(document(id));
  const writes = () => inner.all().map((one) => stepOf(one, one.seq + 1));
  const store = createFaultyStore(inner);
  const versions = () => inner.all().map(({ version }) => version);
  store.failNext('refused');
  await t.rejects(store.write(writes()));
  t.strictSame(versions(), [0, 0, 0]);
  store.failNext('half');
  await t.rejects(store.write(writes()));
  t.strictSame(versions(), [1, 1, 0]);
  store.failNext('answer lost');
  await t.rejects(store.write(writes()));
  t.strictSame(versions(), [2, 2, 1]);
  t.equal(await store.write(writes()), true);
});
