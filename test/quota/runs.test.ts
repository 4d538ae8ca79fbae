/** Runs counted on a real MongoDB: against a model, in races, over changes of the plan and the ends of cycles. */
import { deepStrictEqual as deepEqual } from 'node:assert';
import fc from 'fast-check';
import { MongoClient } from 'mongodb';
import t from 'tap';
import { usage as limits } from '../../schemas/limits.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { resetAfterRun } from '../../src/quota/cycle.ts';
import { recordCycles } from '../../src/quota/history.ts';
import { changePlan } from '../../src/quota/plan-change.ts';
import { createRunQuota, mayStillRun, type OverageProject, runsOf } from '../../src/quota/runs.ts';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import type { Hold, QuotaUser, RunTotals, Taken } from '../../src/store/quota.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const database = uniqueName('runs');
const log = { info: () => undefined, warn: () => undefined };
const store = await openStore(mongodbUrl, database, { log });
const client = await new MongoClient(mongodbUrl).connect();
const users = client.db(database).collection<QuotaUser>('users');
t.teardown(async () => {
  await client.close();
  await store.close();
});
const { quota } = store;

const dayMs = 86_400_000;
const utc = (text: string) => Date.parse(`${text}Z`);
const iso = (ts: number | null | undefined) => (typeof ts === 'number' ? new Date(ts).toISOString() : ts);

async function newUser(plan: PlanName = 'free', billingDay: number | null = null): Promise<string> {
  const id = newId('usr');
  await store.users.insert({ id, email: `${id}@example.com`, name: 'Ada', passwordHash: null, createdTs: 1 });
  await store.users.setPlan(id, plan, billingDay);
  return id;
}

async function read(userId: string): Promise<QuotaUser> {
  const user = await quota.find(userId);
  if (!user) throw new Error('no such user');
  return user;
}

const projectOf = (id: string, capCents?: number | null): OverageProject => ({
  id,
  overageEnabled: capCents !== undefined,
  overageCapCents: capCents ?? null,
});

let runs = 0;

/** The rules with a clock that is set by hand. */
function createRules(start: string) {
  const clock = { now: utc(start) };
  const rules = createRunQuota(quota, () => clock.now);
  return {
    ...rules,
    clock,
    set: (time: string) => {
      clock.now = utc(time);
    },
    async start(userId: string, project = projectOf('prj_1')): Promise<Hold | 'exhausted'> {
      runs += 1;
      return rules.take(await read(userId), project, `ast_${runs}:1`);
    },
    async startMany(count: number, userId: string, project = projectOf('prj_1')): Promise<number> {
      const user = await read(userId);
      const taken = await Promise.all(
        Array.from({ length: count }, (_, n) => rules.take(user, project, `ast_${runs}_${n}:1`)),
      );
      runs += 1;
      return taken.filter((one) => typeof one === 'object').length;
    },
    /** As after so many runs, without making them one by one. */
    async use(userId: string, count: number): Promise<void> {
      const { plan, billingDay } = await read(userId);
      const byProject = { prj_1: { runs: count, overageRuns: 0, overageCents: 0 } };
      const resetAt = resetAfterRun(plan, billingDay, clock.now);
      const times = { firstRunTs: clock.now, lastRunTs: clock.now };
      await users.updateOne({ _id: userId }, { $set: { used: count, byProject, resetAt, ...times } });
    },
    now: async (userId: string) => runsOf(await read(userId), clock.now),
    record: () => recordCycles(store, clock.now),
    setPlan: (userId: string, plan: PlanName, billingDay: number | null) =>
      changePlan(quota, userId, { plan, billingDay }, () => clock.now),
  };
}

/** What counting means, in the plainest words. */
function createModel(resetAfterMs: number) {
  const zero = (): RunTotals => ({ runs: 0, overageRuns: 0, overageCents: 0 });
  const state = {
    ...zero(),
    resetAt: null as number | null,
    cycleTs: 0,
    byProject: {} as Record<string, RunTotals>,
    holds: new Map<string, { ts: number; project: string; cents: number; isPast: boolean }>(),
    ended: [] as { endTs: number; runs: number; overageRuns: number; overageCents: number }[],
  };
  const add = (project: string, count: 1 | -1, cents: number) => {
    const own = state.byProject[project] ?? zero();
    state.byProject[project] = own;
    for (const totals of [state, own]) {
      totals.runs += count;
      totals.overageRuns += cents > 0 ? count : 0;
      totals.overageCents += count * cents;
    }
  };
  /** undefined: it is refused. */
  const priceOf = ({ project, limit, overage }: Pick<Wish, 'project' | 'limit' | 'overage'>) => {
    if (state.runs - state.overageRuns < limit) return 0;
    if (overage === null) return undefined;
    const spent = (state.byProject[project]?.overageCents ?? 0) + overage.cents;
    return spent <= (overage.capCents ?? Infinity) ? overage.cents : undefined;
  };
  return {
    state,
    take({ key, project, now, limit, overage }: Wish): string {
      const held = state.holds.get(key);
      if (held) {
        held.ts = Math.max(held.ts, now);
        return 'held';
      }
      if ((state.resetAt ?? Infinity) <= now || state.cycleTs > now) return 'stale';
      const cents = priceOf({ project, limit, overage });
      if (cents === undefined) return 'exhausted';
      add(project, 1, cents);
      state.resetAt = Math.max(state.resetAt ?? 0, now + resetAfterMs);
      state.holds.set(key, { ts: now, project, cents, isPast: false });
      return 'held';
    },
    giveBack(key: string) {
      const held = state.holds.get(key);
      if (held && !held.isPast) add(held.project, -1, held.cents);
      if (held && !held.isPast && state.runs === 0) state.resetAt = null;
      state.holds.delete(key);
    },
    settle: (key: string) => void state.holds.delete(key),
    end() {
      if (state.resetAt === null) return;
      const { runs, overageRuns, overageCents } = state;
      state.ended.push({ endTs: state.resetAt, runs, overageRuns, overageCents });
      Object.assign(state, zero(), { byProject: {}, resetAt: null, cycleTs: state.resetAt });
      for (const held of state.holds.values()) held.isPast = true;
    },
  };
}

type Wish = {
  key: string;
  project: string;
  now: number;
  limit: number;
  overage: { cents: number; capCents: number | null } | null;
};

const project = fc.constantFrom('prj_1', 'prj_2');
const key = fc.integer({ min: 1, max: 9 }).map((n) => `ast_${n}:1`);
const overage = fc.constantFrom(null, { cents: 10, capCents: null }, { cents: 8, capCents: 20 });
const operation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('take' as const),
      key,
      project,
      limit: fc.integer({ min: 1, max: 4 }),
      overage,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('giveBack' as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('settle' as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('end' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('wait' as const), days: fc.integer({ min: 1, max: 20 }) }),
  },
);
type Operation = typeof operation extends fc.Arbitrary<infer One> ? One : never;
const nonZero = (byProject: Record<string, RunTotals> = {}) =>
  Object.fromEntries(Object.entries(byProject).filter(([, { runs }]) => runs !== 0));

/** One user, counted by the store and by the model at once. */
async function createPair() {
  const userId = await newUser();
  const model = createModel(10 * dayMs);
  const { state } = model;
  const holds = new Map<string, Hold>();
  let now = utc('2026-01-10T00:00:00');

  const end = async (one: { do: 'giveBack' | 'settle'; key: string }) => {
    const hold = holds.get(one.key);
    if (hold) await quota[one.do](userId, hold);
    holds.delete(one.key);
    model[one.do](one.key);
  };

  return {
    /** Answers what both say of it. */
    async apply(one: Operation): Promise<[string, string] | undefined> {
      switch (one.do) {
        case 'wait':
          now += one.days * dayMs;
          return;
        case 'take': {
          const { do: _, project: projectId, ...wish } = one;
          const taken = await quota.take({ ...wish, userId, projectId, now, resetAt: now + 10 * dayMs });
          if (typeof taken === 'object') holds.set(one.key, taken);
          return [typeof taken === 'object' ? 'held' : taken, model.take({ ...one, now })];
        }
        case 'end':
          await quota.endCycle(userId, { startTs: 0, endTs: state.resetAt ?? 0 });
          return void model.end();
        default:
          return end(one) as Promise<undefined>;
      }
    },

    /** What both know, in one form. */
    async look(): Promise<[object, object]> {
      const user = await read(userId);
      const inStore = {
        totals: [user.used, user.overageRuns ?? 0, user.overageCents ?? 0],
        resetAt: user.resetAt,
        byProject: nonZero(user.byProject),
        holds: user.holds.map((hold) => hold.key).sort(),
        ended: (user.endedCycles ?? []).map(({ startTs: _, plan: _plan, ...cycle }) => cycle),
      };
      const inModel = {
        totals: [state.runs, state.overageRuns, state.overageCents],
        resetAt: state.resetAt,
        byProject: nonZero(state.byProject),
        holds: [...state.holds.keys()].sort(),
        ended: state.ended,
      };
      return [inStore, inModel];
    },
  };
}

t.test('take, give back, settle and reset in any order do what the model does', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 10, maxLength: 25 }), async (operations) => {
      const pair = await createPair();
      for (const one of operations) {
        const said = await pair.apply(one);
        if (said) deepEqual(...said);
        deepEqual(...(await pair.look()));
      }
    }),
    { numRuns: 10 },
  );
  t.pass();
});

t.test('of runs and give-backs at once none is refused wrongly or counted past the limit', async (t) => {
  const batch = fc.record({
    giveBacks: fc.integer({ min: 0, max: 5 }),
    takes: fc.integer({ min: 1, max: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(batch, { minLength: 2, maxLength: 4 }), async (batches) => {
      const userId = await newUser();
      const held: Hold[] = [];
      const limit = 6;
      let runs = 0;
      for (const { giveBacks, takes } of batches) {
        const given = held.splice(0, giveBacks);
        const left = limit - held.length - given.length;
        const works = Array.from({ length: takes }, () => {
          runs += 1;
          const wish = { key: `ast_${runs}:1`, now: 1, limit, overage: null, resetAt: 9 };
          return quota.take({ ...wish, userId, projectId: 'prj_1' });
        });
        const [taken] = await Promise.all([
          Promise.all(works),
          ...given.map((one) => quota.giveBack(userId, one)),
        ]);
        const accepted = taken.filter((one: Taken): one is Hold => typeof one === 'object');
        held.push(...accepted);
        const { used } = await read(userId);
        t.equal(used, held.length);
        t.ok(accepted.length >= Math.min(takes, left), 'what was free before is taken');
        t.ok(accepted.length <= Math.min(takes, left + given.length), 'no more than became free');
      }
    }),
    { numRuns: 6 },
  );
});

t.test('the cap of a project bounds what that project spends, not what others do', async (t) => {
  const rules = createRules('2026-03-10T00:00:00');
  const userId = await newUser('pro', 1);
  await rules.use(userId, 100);
  const [capped, open] = [projectOf('prj_capped', 35), projectOf('prj_open', null)];
  t.equal(await rules.startMany(7, userId, open), 7);
  t.equal(await rules.startMany(12, userId, capped), 3, '30 of 35 cents, while the other has spent 70');
  t.equal(rules.isOpen(await read(userId), capped), false);
  t.equal(rules.isOpen(await read(userId), open), true);
  t.equal(rules.isOpen(await read(userId), projectOf('prj_3')), false, 'overage switched off');
  t.match(await rules.now(userId), {
    runs: 110,
    overageRuns: 10,
    overageCents: 100,
    byProject: {
      prj_1: { runs: 100, overageRuns: 0, overageCents: 0 },
      prj_open: { runs: 7, overageRuns: 7, overageCents: 70 },
      prj_capped: { runs: 3, overageRuns: 3, overageCents: 30 },
    },
  });
});

t.test('a place that is given back is taken again before overage is', async (t) => {
  const rules = createRules('2026-03-10T00:00:00');
  const userId = await newUser('pro', 1);
  const included = await rules.start(userId);
  await rules.use(userId, 100);
  t.equal(await rules.startMany(3, userId, projectOf('prj_1', null)), 3);
  if (typeof included === 'object') await quota.giveBack(userId, included);
  t.match(await rules.start(userId, projectOf('prj_1', null)), { overageCents: 0 });
  t.match(await rules.now(userId), { runs: 103, overageRuns: 3, overageCents: 30 });
});

t.test(
  'projects past those that are told apart are one sum, which their caps are held against',
  async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser('pro', 1);
    const one = { runs: 1, overageRuns: 0, overageCents: 0 };
    const known = Object.fromEntries(
      Array.from({ length: limits.projectsCounted }, (_, n) => [`prj_${n}`, one]),
    );
    await users.updateOne(
      { _id: userId },
      { $set: { byProject: known, used: 100, resetAt: rules.clock.now + 1 } },
    );
    t.match(await rules.start(userId, projectOf('prj_a', 25)), { overageCents: 10 });
    const second = await rules.start(userId, projectOf('prj_b', 25));
    t.match(second, { overageCents: 10 });
    t.equal(rules.isOpen(await read(userId), projectOf('prj_c', 25)), false);
    t.equal(await rules.start(userId, projectOf('prj_c', 25)), 'exhausted');
    t.match(
      await rules.start(userId, projectOf('prj_7', 10)),
      { overageCents: 10 },
      'one that is told apart',
    );
    if (typeof second === 'object') await quota.giveBack(userId, second);
    const { byProject = {} } = await read(userId);
    t.match(byProject, { others: { runs: 1, overageCents: 10 }, prj_7: { runs: 2, overageCents: 10 } });
    t.equal(Object.keys(byProject).length, limits.projectsCounted + 1, 'bounded');
  },
);

t.test('a cycle ends at its last millisecond', async (t) => {
  t.test('paid: on the billing day, the last of a shorter month', async (t) => {
    const rules = createRules('2026-02-27T23:59:59.999');
    const userId = await newUser('pro', 31);
    t.match(await rules.now(userId), {
      runs: 0,
      resetAt: utc('2026-02-28T00:00:00'),
      startTs: utc('2026-01-31T00:00:00'),
    });
    await rules.use(userId, 98);
    t.equal(await rules.startMany(4, userId), 2);
    t.equal(await rules.start(userId), 'exhausted');
    rules.set('2026-02-28T00:00:00');
    t.match(await rules.now(userId), { runs: 0, resetAt: utc('2026-03-31T00:00:00') });
    t.equal(await rules.startMany(3, userId), 3);
    t.match(await rules.now(userId), { runs: 3, resetAt: utc('2026-03-31T00:00:00') });
  });

  t.test('free: 30 days after the last run, and every run moves it', async (t) => {
    const rules = createRules('2026-01-01T12:00:00');
    const userId = await newUser();
    t.match(await rules.now(userId), { resetAt: null, startTs: null });
    await rules.start(userId);
    rules.set('2026-01-30T12:00:00');
    t.equal(await rules.startMany(5, userId), 4);
    rules.set('2026-02-15T00:00:00');
    t.equal(await rules.start(userId), 'exhausted', 'a refused run moves nothing');
    t.match(await rules.now(userId), {
      runs: 5,
      resetAt: utc('2026-03-01T12:00:00'),
      startTs: utc('2026-01-01T12:00:00'),
    });
    rules.set('2026-03-01T11:59:59.999');
    t.equal(await rules.start(userId), 'exhausted');
    rules.set('2026-03-01T12:00:00');
    t.match(await rules.now(userId), { runs: 0, resetAt: null });
    t.equal(await rules.startMany(9, userId), 5);
    t.equal(iso((await rules.now(userId)).resetAt), '2026-03-31T12:00:00.000Z');
  });

  t.test('a process whose clock is behind counts into the cycle that has begun', async (t) => {
    const ahead = createRules('2026-04-01T00:00:00');
    const behind = createRules('2026-03-31T23:59:59.900');
    const userId = await newUser('pro', 1);
    await behind.start(userId);
    await ahead.start(userId);
    behind.set('2026-03-31T23:59:59.950');
    t.type(await behind.start(userId), 'object');
    t.match(await read(userId), { used: 2, resetAt: utc('2026-05-01T00:00:00') });
  });
});

t.test('a plan that changes in mid-cycle', async (t) => {
  t.test('up: what is used stays, the rest of the larger quota is there, the reset moves', async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser();
    t.equal(await rules.startMany(8, userId), 5);
    rules.set('2026-03-12T00:00:00');
    t.equal(await rules.setPlan(userId, 'pro', 15), true);
    t.match(await rules.now(userId), { runs: 5, resetAt: utc('2026-03-15T00:00:00') });
    await rules.use(userId, 95);
    t.equal(await rules.startMany(9, userId), 5);
    rules.set('2026-03-15T00:00:00');
    t.match(await rules.now(userId), { runs: 0, resetAt: utc('2026-04-15T00:00:00') });
  });

  t.test('up with overage paid: it stays paid, and takes no place', async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser('pro', 1);
    await rules.use(userId, 100);
    t.equal(await rules.startMany(3, userId, projectOf('prj_1', null)), 3);
    await rules.setPlan(userId, 'team', 1);
    await users.updateOne({ _id: userId }, { $inc: { used: 398 } });
    t.equal(await rules.startMany(4, userId), 2);
    t.match(await rules.now(userId), { runs: 503, overageRuns: 3, overageCents: 30 });
  });

  t.test('down: new runs are refused at once, or priced by the new plan', async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser('team', 1);
    await rules.use(userId, 120);
    const asRead = await read(userId);
    await rules.setPlan(userId, 'pro', 1);
    t.equal(await rules.start(userId), 'exhausted');
    t.equal(
      await rules.take(asRead, projectOf('prj_1'), 'ast_late:1'),
      'exhausted',
      'also by who read the old plan',
    );
    t.match(await rules.start(userId, projectOf('prj_1', null)), { overageCents: 10 });
    rules.set('2026-03-20T00:00:00');
    await rules.setPlan(userId, 'free', null);
    t.equal(await rules.start(userId, projectOf('prj_1', null)), 'exhausted');
    t.equal(iso((await rules.now(userId)).resetAt), '2026-04-09T00:00:00.000Z', '30 days after the last run');
  });

  t.test('the billing day alone: the cycle ends on the new one', async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser('pro', 25);
    await rules.start(userId);
    await rules.setPlan(userId, 'pro', 12);
    t.equal(iso((await rules.now(userId)).resetAt), '2026-03-12T00:00:00.000Z');
    t.equal(await rules.setPlan('usr_nobody', 'pro', 1), false);
  });

  t.test('after its time has passed: the old cycle ends as what it was', async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser('pro', 15);
    await rules.use(userId, 100);
    await rules.startMany(2, userId, projectOf('prj_1', null));
    rules.set('2026-03-20T00:00:00');
    await rules.setPlan(userId, 'team', 25);
    t.match(await rules.now(userId), { runs: 0, resetAt: utc('2026-03-25T00:00:00') });
    await rules.record();
    t.match(await store.usage.list(userId), [{ plan: 'pro', runs: 102, overageRuns: 2, overageCents: 20 }]);
  });

  t.test('while 30 runs begin: each is counted once, on one plan or the other', async (t) => {
    const rules = createRules('2026-03-10T00:00:00');
    const userId = await newUser();
    const [accepted] = await Promise.all([rules.startMany(30, userId), rules.setPlan(userId, 'pro', 15)]);
    const { used, holds, resetAt } = await read(userId);
    t.ok(accepted >= 5, `${accepted} accepted`);
    t.strictSame([used, holds.length], [accepted, accepted]);
    t.equal(iso(resetAt), '2026-03-15T00:00:00.000Z');
  });
});

t.test(
  'ended cycles are recorded once, also of users who never come back, and the last twelve are kept',
  async (t) => {
    const rules = createRules('2026-01-10T00:00:00');
    const userId = await newUser('pro', 5);
    await rules.use(userId, 100);
    await rules.start(userId, projectOf('prj_1', null));
    rules.set('2026-02-05T00:00:00');
    await Promise.all(Array.from({ length: 8 }, () => rules.record()));
    t.strictSame(await store.usage.list(userId), [
      {
        startTs: utc('2026-01-05T00:00:00'),
        endTs: utc('2026-02-05T00:00:00'),
        plan: 'pro',
        runs: 101,
        overageRuns: 1,
        overageCents: 10,
      },
    ]);
    t.match(await read(userId), { used: 0, resetAt: null, endedCycles: [] });
    // A process that died between recording a cycle and forgetting it: the next one finds both.
    const [cycle] = await store.usage.list(userId);
    if (cycle) await users.updateOne({ _id: userId }, { $push: { endedCycles: { ...cycle, runs: 7 } } });
    await rules.record();
    t.match(await store.usage.list(userId), [{ runs: 101 }]);
    t.match(await read(userId), { endedCycles: [] });

    for (let month = 2; month <= 14; month += 1) {
      rules.clock.now = Date.UTC(2026, month, 6);
      await rules.start(userId);
    }
    await rules.record();
    const history = await store.usage.list(userId);
    t.equal(history.length, limits.historyCycles);
    t.match(history[0], { runs: 1, endTs: Date.UTC(2027, 2, 5) });
    t.equal(
      await client
        .db(database)
        .collection('usage_cycles')
        .countDocuments({ userId: userId as never }),
      12,
    );
  },
);

t.test('a run that was accepted on another plan', async (t) => {
  const run = { plan: 'team', model: 'fast', aspect: 'source' } as const;
  const user = { _id: 'usr_1', plan: 'pro', billingDay: 1, used: 100, resetAt: 2, holds: [] } as QuotaUser;
  const plain = projectOf('prj_1');
  const cases: [
    may: boolean,
    why: string,
    Parameters<typeof mayStillRun>[0],
    OverageProject,
    typeof run | object,
  ][] = [
    [true, 'within the new quota', user, plain, run],
    [false, 'past the new quota', { ...user, used: 101 }, plain, run],
    [true, 'past it, and overage is paid', { ...user, used: 101 }, projectOf('prj_1', null), run],
    [
      false,
      'past it, and the plan sells no overage',
      { ...user, plan: 'free' },
      projectOf('prj_1', null),
      run,
    ],
    [true, 'in a cycle that has passed since', { ...user, used: 400, resetAt: 1 }, plain, run],
    [false, 'with a model of the old plan', user, plain, { ...run, model: 'cinema' }],
    [false, 'with an aspect', { ...user, plan: 'free', used: 1 }, plain, { ...run, aspect: '1:1' }],
    [true, 'the same plan', { ...user, plan: 'team', used: 9_999 }, plain, { ...run, model: 'cinema' }],
  ];
  for (const [may, why, now, of, wish] of cases)
    t.equal(mayStillRun(now, of, { ...run, ...wish }, 1), may, why);
  t.equal(plans.pro.generationsPerMonth, 100);
});
