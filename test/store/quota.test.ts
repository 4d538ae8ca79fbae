/** Counting runs on a real MongoDB, where many processes count at once. */
import t from 'tap';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import type { Hold, TakeRun } from '../../src/store/quota.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const log = { info: () => undefined, warn: () => undefined };
const store = await openStore(mongodbUrl, uniqueName('quota'), { log });
t.teardown(() => store.close());
const { quota } = store;

const now = 1_800_000_000_000;
const dayMs = 86_400_000;

async function newUser(): Promise<string> {
  const id = newId('usr');
  await store.users.insert({
    id,
    email: `${id}@example.com`,
    name: 'Ada',
    passwordHash: null,
    createdTs: now,
  });
  return id;
}

const run = (userId: string, key: string, more: Partial<TakeRun> = {}): TakeRun => ({
  userId,
  projectId: 'prj_1',
  key,
  now,
  limit: 10,
  overage: null,
  resetAt: now + 30 * dayMs,
  ...more,
});

async function takeNew(userId: string, key: string, more: Partial<TakeRun> = {}): Promise<Hold> {
  const hold = await quota.take(run(userId, key, more));
  if (typeof hold === 'string') throw new Error(hold);
  return hold;
}

async function oldHolds(beforeTs: number) {
  const all: { userId: string; holds: Hold[] }[] = [];
  for await (const one of quota.withOldHolds(beforeTs)) all.push(one);
  return all;
}

/** Ends the cycle that ends now. */
const endCycle = (userId: string) => quota.endCycle(userId, { startTs: now - 30 * dayMs, endTs: now });

const many = <Result>(count: number, make: (n: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n)));

t.test('of 100 runs at once with a limit of 10, exactly 10 are counted', async (t) => {
  const userId = await newUser();
  const taken = await many(100, (n) => quota.take(run(userId, `ast_${n}:1`)));
  t.equal(taken.filter((one) => typeof one === 'object').length, 10);
  const user = await quota.find(userId);
  t.match(user, { used: 10, resetAt: now + 30 * dayMs });
  t.equal(user?.holds.length, 10);
  t.notOk(user && 'passwordHash' in user, 'the hash of the password stays in the store');
});

t.test('one run asked for 50 times at once is counted once, and all get the same hold', async (t) => {
  const userId = await newUser();
  const taken = await many(50, () => takeNew(userId, 'ast_1:1'));
  t.equal(new Set(taken.map(({ id }) => id)).size, 1);
  t.match(await quota.find(userId), { used: 1, holds: [{ key: 'ast_1:1', ts: now, overageCents: 0 }] });
  const other = await takeNew(userId, 'ast_1:2');
  t.not(other.id, taken[0]?.id, 'the next run has a hold of its own');
});

t.test('a run that is counted already is not refused when nothing is left', async (t) => {
  const userId = await newUser();
  const hold = await takeNew(userId, 'ast_1:1', { limit: 1 });
  t.same(await quota.take(run(userId, 'ast_1:1', { limit: 1 })), hold);
  t.equal(await quota.take(run(userId, 'ast_2:1', { limit: 1 })), 'exhausted');
  t.equal(await quota.take(run('usr_nobody', 'ast_2:1')), 'exhausted');
});

t.test('a run is given back once, however often and by however many', async (t) => {
  const userId = await newUser();
  const hold = await takeNew(userId, 'ast_1:1');
  await takeNew(userId, 'ast_2:1');
  await many(10, () => quota.giveBack(userId, hold));
  t.match(await quota.find(userId), { used: 1, holds: [{ key: 'ast_2:1' }] });
  const again = await takeNew(userId, 'ast_1:1');
  t.not(again.id, hold.id);
  await quota.giveBack(userId, hold);
  t.match(await quota.find(userId), { used: 2 }, 'an old hold takes nothing from a new one');
});

t.test(
  'a hold that somebody takes up again is young: the sweeper that saw it old does not give it back',
  async (t) => {
    const userId = await newUser();
    await takeNew(userId, 'ast_1:1');
    const old = (await oldHolds(now)).find((one) => one.userId === userId);
    const again = await takeNew(userId, 'ast_1:1', { now: now + 60_000 });
    for (const hold of old?.holds ?? []) await quota.giveBack(userId, hold);
    t.match(await quota.find(userId), { used: 1, holds: [{ id: again.id, ts: now + 60_000 }] });
    await takeNew(userId, 'ast_1:1', { now: now + 1 });
    t.match(
      await quota.find(userId),
      { holds: [{ ts: now + 60_000 }] },
      'a clock that is behind makes it no older',
    );
    await quota.giveBack(userId, again);
    t.match(await quota.find(userId), { used: 0, holds: [] });
  },
);

t.test('settling ends the hold, and the run stays counted', async (t) => {
  const userId = await newUser();
  const hold = await takeNew(userId, 'ast_1:1');
  await quota.settle(userId, hold);
  await quota.settle(userId, hold);
  await quota.giveBack(userId, hold);
  t.match(await quota.find(userId), { used: 1, holds: [] });
});

t.test('overage', async (t) => {
  const priced = { limit: 2, overage: { cents: 10, capCents: null } };

  t.test('is recorded with its price, only past the limit', async (t) => {
    const userId = await newUser();
    const taken = await many(5, (n) => takeNew(userId, `ast_${n}:1`, priced));
    t.strictSame(taken.map(({ overageCents }) => overageCents).sort(), [0, 0, 10, 10, 10].sort());
    t.match(await quota.find(userId), { used: 5, overageRuns: 3, overageCents: 30 });
    const paid = taken.find(({ overageCents }) => overageCents > 0);
    if (!paid) return t.fail('none was paid');
    await many(3, () => quota.giveBack(userId, paid));
    t.match(await quota.find(userId), { used: 4, overageRuns: 2, overageCents: 20 });
  });

  t.test('stops at its cap, also when 40 ask at once', async (t) => {
    const userId = await newUser();
    const capped = { limit: 2, overage: { cents: 10, capCents: 55 } };
    const taken = await many(40, (n) => quota.take(run(userId, `ast_${n}:1`, capped)));
    t.equal(taken.filter((one) => typeof one === 'object').length, 7, '2 free and 5 for 50 cents');
    t.match(await quota.find(userId), { used: 7, overageRuns: 5, overageCents: 50 });
    const none = { limit: 2, overage: { cents: 10, capCents: 0 } };
    t.equal(await quota.take(run(userId, 'ast_x:1', none)), 'exhausted');
  });

  t.test('of one run asked for often is paid once', async (t) => {
    const userId = await newUser();
    const none = { limit: 0, overage: { cents: 8, capCents: null } };
    const taken = await many(30, () => takeNew(userId, 'ast_1:1', none));
    t.equal(new Set(taken.map(({ id }) => id)).size, 1);
    t.match(await quota.find(userId), { used: 1, overageRuns: 1, overageCents: 8 });
  });
});

t.test('a reset', async (t) => {
  t.test('by many processes at once loses no run of the new cycle', async (t) => {
    const userId = await newUser();
    const before = { now: now - 1, limit: 1, overage: { cents: 10, capCents: null }, resetAt: now };
    await takeNew(userId, 'ast_0:1', before);
    await takeNew(userId, 'ast_00:1', before);
    const taken = await many(20, async (n) => {
      await endCycle(userId);
      return quota.take(run(userId, `ast_${n}:2`));
    });
    t.equal(taken.filter((one) => typeof one === 'object').length, 10);
    t.match(await quota.find(userId), {
      used: 10,
      overageRuns: 0,
      overageCents: 0,
      resetAt: now + 30 * dayMs,
    });
  });

  t.test('of a cycle that is not the present one changes nothing', async (t) => {
    const userId = await newUser();
    await takeNew(userId, 'ast_1:1', { resetAt: now + 5 });
    await endCycle(userId);
    t.match(await quota.find(userId), { used: 1, resetAt: now + 5 });
  });

  t.test('leaves nothing to give back to the new cycle', async (t) => {
    const userId = await newUser();
    const old = await takeNew(userId, 'ast_1:1', { now: now - 1, resetAt: now });
    await endCycle(userId);
    await takeNew(userId, 'ast_2:1');
    await quota.giveBack(userId, old);
    t.match(await quota.find(userId), { used: 1, holds: [{ key: 'ast_2:1' }] });
  });

  t.test('does not count a run of before once more', async (t) => {
    const userId = await newUser();
    const old = await takeNew(userId, 'ast_1:1', { now: now - 1, resetAt: now });
    await endCycle(userId);
    t.match(await takeNew(userId, 'ast_1:1'), { id: old.id });
    t.match(await quota.find(userId), { used: 0 });
  });

  t.test('is not undone by a process whose clock is behind', async (t) => {
    const userId = await newUser();
    await takeNew(userId, 'ast_1:1', { now: now - 1, resetAt: now });
    // One process is past the billing day already, the other one counts a moment before it.
    await endCycle(userId);
    await takeNew(userId, 'ast_2:1', { now, resetAt: now + 30 * dayMs });
    t.equal(await quota.take(run(userId, 'ast_3:1', { now: now - 1, resetAt: now })), 'stale');
    t.match(await quota.find(userId), { used: 1, resetAt: now + 30 * dayMs }, 'the new cycle goes on');
  });
});

t.test('old holds are found by user, the young ones left out', async (t) => {
  const [one, two] = [await newUser(), await newUser()];
  const old = await takeNew(one, 'ast_1:1', { now: now - 90_000 });
  await takeNew(one, 'ast_2:1', { now });
  await takeNew(two, 'ast_3:1', { now });
  t.strictSame(await oldHolds(now - 60_000), [{ userId: one, holds: [old] }]);
  t.equal(await quota.find('usr_nobody'), undefined);
});
