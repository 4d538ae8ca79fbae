/** The records of partitions: the real ones, and those in memory that the runtime's tests use. */
import { MongoClient } from 'mongodb';
import t, { type Test } from 'tap';
import { createPartitionStore, type PartitionStore } from '../../src/store/partitions.ts';
import { createMemoryPartitionStore } from '../fixtures/memory-runtime.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const client = await new MongoClient(mongodbUrl).connect();
t.teardown(() => client.close());

const stores: Record<string, (t: Test) => PartitionStore> = {
  'the records in memory': () => createMemoryPartitionStore(),
  'the records in MongoDB': (t) => {
    const db = client.db(uniqueName('partitions'));
    t.teardown(() => db.dropDatabase());
    return createPartitionStore(db);
  },
};

const idsOf = (records: { _id: number }[]) => records.map(({ _id }) => _id).sort((a, b) => a - b);

for (const [name, create] of Object.entries(stores)) {
  t.test(name, async (t) => {
    t.test('they are made once, and their number cannot change', async (t) => {
      const store = create(t);
      await Promise.all([store.ensure(4), store.ensure(4)]);
      t.strictSame(
        (await store.all()).sort((a, b) => a._id - b._id),
        [0, 1, 2, 3].map((_id) => ({ _id, owner: null, epoch: 0, position: 0, ts: 0 })),
      );
      await t.rejects(store.ensure(8), /has 4 partitions, this build has 8/);
    });

    t.test('a claim takes what is free or of the dead, and answers all that is held', async (t) => {
      const store = create(t);
      await store.ensure(4);
      t.strictSame(idsOf(await store.claim([0, 1, 2], 'a', [])), [0, 1, 2]);
      t.strictSame(idsOf(await store.claim([2, 3], 'b', ['a'])), [3], 'the living keep theirs');
      const [taken] = await store.claim([2], 'b', []);
      t.match(taken, { _id: 2, owner: 'b', epoch: 2 });
      const [held] = await store.claim([0], 'a', ['b']);
      t.match(held, { owner: 'a', epoch: 1 }, 'claiming again what is held changes nothing');
      t.strictSame(idsOf(await store.claim([0, 1, 2], 'a', ['b'])), [0, 1]);
      t.strictSame(await store.claim([], 'a', []), []);
    });

    t.test('of two that claim at once each partition goes to one', async (t) => {
      const store = create(t);
      await store.ensure(16);
      const all = Array.from({ length: 16 }, (_, one) => one);
      const [a, b] = await Promise.all([store.claim(all, 'a', ['b']), store.claim(all, 'b', ['a'])]);
      t.strictSame(
        [...idsOf(a), ...idsOf(b)].sort((x, y) => x - y),
        all,
      );
    });

    t.test('a position that is stored late moves nothing back', async (t) => {
      const store = create(t);
      await store.ensure(1);
      await store.claim([0], 'a', []);
      t.equal(await store.move([{ partition: 0, position: 9, ts: 90 }], 'a'), true);
      t.equal(await store.move([{ partition: 0, position: 7, ts: 70 }], 'a'), true);
      t.match(await store.all(), [{ position: 9, ts: 90 }]);
    });

    t.test('only the owner moves a position or lets go', async (t) => {
      const store = create(t);
      await store.ensure(2);
      await store.claim([0, 1], 'a', []);
      t.equal(await store.move([{ partition: 0, position: 7, ts: 70 }], 'a'), true);
      await store.force([0], 'b');
      const moves = [
        { partition: 0, position: 9, ts: 90 },
        { partition: 1, position: 9, ts: 90 },
      ];
      t.equal(await store.move(moves, 'a'), false, 'one of them has another owner');
      t.equal(await store.move([], 'a'), true);
      await store.release([0, 1], 'a');
      t.match(
        (await store.all()).sort((x, y) => x._id - y._id),
        [
          { owner: 'b', epoch: 2, position: 7, ts: 70 },
          { owner: null, epoch: 1, position: 9, ts: 90 },
        ],
      );
      await store.force([0], 'b');
      t.match(
        await store.claim([0], 'b', []),
        [{ epoch: 2 }],
        'forcing what is held already changes nothing',
      );
    });
  });
}
