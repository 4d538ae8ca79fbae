/**
 * The durable runtime on virtual time, with stores and a bus in memory: whatever fails, every command is applied
 * once, every fact is published once and in order (invariants I1 to I4).
 */
import t from 'tap';
import { assign, setup } from 'xstate';
import { declare } from '../../machines/declare.ts';
import { pipeline, runtime } from '../../schemas/limits.ts';
import { createAssetKind } from '../../src/actors/asset.ts';
import { type ActorKind, newDocument } from '../../src/actors/kind.ts';
import { type Owner, type OwnerPorts, startOwner } from '../../src/actors/owner.ts';
import { startReconciler } from '../../src/actors/reconcile.ts';
import { createStepper } from '../../src/actors/step.ts';
import { createCounterKind } from '../../src/bench/counter.ts';
import { createRandom } from '../../src/random.ts';
import type { ActorDocument } from '../../src/store/actors.ts';
import { assetInput, type MessageType, messageOf, type Ref } from '../fixtures/asset-messages.ts';
import {
  createFaultyStore,
  createMemoryActorStore,
  createMemoryBusServer,
  createMemoryPartitionStore,
  createMemoryStreamStore,
  type MemoryConnection,
  partitionOf,
} from '../fixtures/memory-runtime.ts';
import { type ClockView, createVirtualClock } from '../fixtures/virtual-clock.ts';

type WorldOptions = {
  partitions?: number;
  seed?: number;
  /** Longest way of a message, and of a store's answer, in ms. */
  latencyMs?: number;
  /** Workers do not hear each other and own everything. */
  alone?: boolean;
};

type Member = {
  owner: Owner;
  view: ClockView;
  bus: MemoryConnection;
  counters: ReturnType<typeof createFaultyStore>;
  /** How many of the next reads of partition records fail. */
  failClaims(count: number): void;
  kill(): void;
  stop(): Promise<void>;
};

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function createWorld({ partitions = 8, seed = 1, latencyMs = 0, alone = false }: WorldOptions = {}) {
  const random = createRandom(seed);
  const clock = createVirtualClock();
  const latency = () => (latencyMs === 0 ? 0 : 1 + Math.floor(random() * latencyMs));
  const server = createMemoryBusServer(clock, { partitions, latencyMs: latency });
  const records = createMemoryPartitionStore();
  await records.ensure(partitions);
  const stores = { counter: createMemoryActorStore(random), asset: createMemoryActorStore(random) };
  const front = server.connect();
  const kinds = {
    counter: createCounterKind('counter', stores.counter),
    asset: createAssetKind(stores.asset, pipeline),
  };
  const errors: unknown[] = [];
  const members: Member[] = [];
  const expected = new Map<string, number>();
  let sent = 0;

  /** A port of one process: nothing of it happens while that is paused, and nothing is heard of it when dead. */
  const gated = <Port extends object>(port: Port, view: ClockView): Port =>
    new Proxy(port, {
      get(target, name) {
        const method = Reflect.get(target, name);
        if (typeof method !== 'function' || name === 'failNext') return method;
        return async (...args: unknown[]) => {
          await view.running();
          if (latencyMs > 0) await new Promise<void>((resolve) => view.after(latency(), resolve));
          const result = await method.apply(target, args);
          await view.running();
          return result;
        };
      },
    });

  const world = {
    clock,
    server,
    records,
    stores,
    front,
    kinds,
    errors,
    members,

    addWorker(name: string, change: (ports: OwnerPorts) => Partial<OwnerPorts> = () => ({})): Member {
      const view = clock.view();
      const bus = server.connect(view);
      const counters = createFaultyStore(stores.counter);
      let claimsToFail = 0;
      const ownRecords = {
        ...records,
        async claim(...args: Parameters<typeof records.claim>) {
          claimsToFail -= 1;
          if (claimsToFail >= 0) throw new Error('the database is gone');
          if (!alone) return records.claim(...args);
          return (await records.all()).filter(({ _id }) => args[0].includes(_id));
        },
        async move(moves: Parameters<typeof records.move>[0], owner: string) {
          if (!alone) return records.move(moves, owner);
          const stored = new Map((await records.all()).map((record) => [record._id, record]));
          const forward = moves.filter(
            ({ partition, position }) => position > (stored.get(partition)?.position ?? 0),
          );
          await records.force(
            forward.map(({ partition }) => partition),
            owner,
          );
          return records.move(forward, owner);
        },
      };
      const withStore = (kind: ActorKind, store: ActorKind['store']) => ({
        ...kind,
        store: gated(store, view),
      });
      const ports: OwnerPorts = {
        workerId: name,
        partitions,
        kinds: new Map([
          ['counter', withStore(kinds.counter, counters)],
          ['asset', withStore(kinds.asset, stores.asset)],
        ]),
        bus: alone
          ? {
              ...bus,
              listen: (event, onMessage) =>
                bus.listen(event, (body) => (body as { id: string }).id === name && onMessage(body)),
            }
          : bus,
        records: gated(ownRecords, view),
        clock: view,
        log: { ...quiet, error: ({ err }: { err?: unknown }) => errors.push(err) },
      };
      const owner = startOwner({ ...ports, ...change(ports) });
      const member: Member = {
        owner,
        view,
        bus,
        counters,
        failClaims(count) {
          claimsToFail = count;
        },
        kill() {
          view.kill();
          void bus.close();
          members.splice(members.indexOf(member), 1);
        },
        async stop() {
          members.splice(members.indexOf(member), 1);
          await finished(clock, owner.stop());
          await bus.close();
        },
      };
      members.push(member);
      return member;
    },

    /** A counter that waits for messages. */
    async addCounter(project: string, id: string): Promise<void> {
      await stores.counter.insert(newDocument(kinds.counter, { id, project, input: {}, ts: clock.now() }));
    },

    /** Sends COUNTs to counters `<project>-<n>`. */
    async count(project: string, ...ids: string[]): Promise<void> {
      for (const id of ids) {
        sent += 1;
        expected.set(id, (expected.get(id) ?? 0) + 1);
        const subject = front.subjects.command(project, 'counter', id);
        await front.publish({ subject, id: `count:${sent}`, body: { type: 'COUNT' } });
      }
    },

    counted: () => stores.counter.countFacts(),
    expectedCount: () => [...expected.values()].reduce((sum, count) => sum + count, 0),

    /** Lets time pass until everything that was sent is applied, published, and stored as passed. */
    async finish(maxMs = 60_000): Promise<void> {
      await clock.until(() => world.counted() >= world.expectedCount(), maxMs);
      await clock.advance(6_000);
    },

    /** Compares documents, facts and what was sent; answers what is wrong. */
    audit(): string[] {
      const published = server.facts();
      const counters = stores.counter.all();
      return [
        ...miscounted(counters, expected),
        ...unpublished([...counters, ...stores.asset.all()], published),
        ...outOfOrder(published.map(({ body }) => body)),
        ...misplaced(published),
      ];
    },
  };
  return world;
}

/** Counters that have lost or doubled a COUNT. */
function miscounted(counters: ActorDocument[], expected: Map<string, number>): string[] {
  const found = new Map(counters.map(({ _id, facts }) => [_id, facts.map(({ count }) => count).join()]));
  return [...expected].flatMap(([id, count]) => {
    const wanted = Array.from({ length: count }, (_, n) => n + 1).join();
    return found.get(id) === wanted ? [] : [`${id} counted ${found.get(id)}, wanted 1 to ${count}`];
  });
}

/** Facts that are stored and not published just so, or published and not stored. */
function unpublished(documents: ActorDocument[], published: ReturnType<World['server']['facts']>): string[] {
  const stored = documents.flatMap(({ _id, facts }) =>
    facts.map(({ seq, n, ts }) => [`${_id}:${seq}:f${n}`, ts] as const),
  );
  const known = new Map(published.map(({ id, body }) => [id, body.ts]));
  const wrong = stored
    .filter(([key, ts]) => known.get(key) !== ts)
    .map(([key, ts]) => `${key} is stored with ts ${ts}, published with ${known.get(key)}`);
  if (stored.length !== published.length)
    wrong.push(`${stored.length} facts are stored, ${published.length} published`);
  return wrong;
}

/** Facts of a project whose ts does not increase in the order of the stream. */
function outOfOrder(facts: Record<string, unknown>[]): string[] {
  const last = new Map<unknown, number>();
  const wrong: string[] = [];
  for (const { project_id, asset_id, ts } of facts) {
    const before = last.get(project_id) ?? 0;
    if (Number(ts) <= before) wrong.push(`${project_id}: ts ${ts} of ${asset_id} comes after ${before}`);
    last.set(project_id, Math.max(before, Number(ts)));
  }
  return wrong;
}

/** Facts that say to come after another one than the one before them in their project. */
function misplaced(published: ReturnType<World['server']['facts']>): string[] {
  const last = new Map<unknown, unknown>();
  const wrong: string[] = [];
  for (const { id, after, body } of published) {
    const before = last.get(body.project_id) ?? 'unknown';
    if (after !== before && after !== 'unknown')
      wrong.push(`${id} says to come after ${after}, comes after ${before}`);
    last.set(body.project_id, body.ts);
  }
  return wrong;
}

type World = Awaited<ReturnType<typeof createWorld>>;

/** Lets virtual time pass until a promise settles. */
async function finished<Result>(clock: World['clock'], promise: Promise<Result>): Promise<Result> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  promise.then(over, over);
  await clock.until(() => isOver, 60_000);
  return promise;
}

const idsOf = (project: string, count: number) => Array.from({ length: count }, (_, n) => `${project}-${n}`);

async function addCounters(world: World, project: string, count: number): Promise<string[]> {
  const ids = idsOf(project, count);
  for (const id of ids) await world.addCounter(project, id);
  return ids;
}

t.test('commands are applied in order, and a repeated one only once', async (t) => {
  const world = await createWorld();
  const ids = await addCounters(world, 'p1', 3);
  const worker = world.addWorker('a');
  await world.clock.advance(500);
  for (let round = 0; round < 5; round += 1) await world.count('p1', ...ids);
  const again = { subject: world.front.subjects.command('p1', 'counter', 'p1-0'), body: { type: 'COUNT' } };
  await world.front.publish({ ...again, id: 'count:1' });
  await world.finish();
  t.strictSame(world.audit(), []);
  t.match(worker.owner.stats(), { steps: 15, owned: 8, queued: 0, failures: 0 });
  t.equal(worker.owner.isAlone(), true);
  const [record] = (await world.records.all()).filter(({ _id }) => _id === partitionOf('p1', 8));
  t.equal(record?.position, 15);
  await worker.stop();
  t.strictSame(world.errors, []);
});

t.test(
  'a publish that fails between store and publish is made up for, and nothing is told twice',
  async (t) => {
    const faults = { 'not stored': 20, 'not confirmed': 3 } as const;
    for (const [fault, count] of Object.entries(faults)) {
      const world = await createWorld();
      const ids = await addCounters(world, 'p1', 10);
      const worker = world.addWorker('a');
      await world.clock.advance(500);
      worker.bus.failNext(fault as keyof typeof faults, count);
      await world.count('p1', ...ids, ...ids);
      await world.finish();
      t.strictSame(world.audit(), [], fault);
      t.equal(worker.owner.stats().failures, 1);
      await worker.stop();
    }
  },
);

t.test('a bulk write that fails, at once, half-way or only in its answer, is made up for', async (t) => {
  for (const fault of ['refused', 'half', 'answer lost'] as const) {
    const world = await createWorld();
    const ids = await addCounters(world, 'p1', 10);
    const worker = world.addWorker('a');
    await world.clock.advance(500);
    worker.counters.failNext(fault);
    await world.count('p1', ...ids, ...ids);
    await world.finish();
    t.strictSame(world.audit(), [], fault);
    await worker.stop();
  }
});

t.test('nothing that was not stored is ever published, also when the database stays away', async (t) => {
  const world = await createWorld();
  const ids = await addCounters(world, 'p1', 10);
  const worker = world.addWorker('a');
  await world.clock.advance(500);
  worker.counters.failNext('refused');
  worker.failClaims(5);
  await world.count('p1', ...ids);
  await world.finish();
  t.strictSame(world.audit(), []);
  t.equal(world.counted(), 10);
  await worker.stop();
});

t.test('positions are not lifted over commands that wait while the reader is changed', async (t) => {
  const world = await createWorld();
  const ids = await addCounters(world, 'p1', 600);
  // Closing a reader takes longer than the rounds in which positions are lifted and stored.
  const slowly = ({ bus, clock }: OwnerPorts): Partial<OwnerPorts> => ({
    bus: {
      ...bus,
      async readCommands(...args) {
        const reader = await bus.readCommands(...args);
        return {
          ...reader,
          async stop() {
            await reader.stop();
            await new Promise<void>((resolve) => clock.after(5_000, resolve));
          },
        };
      },
    },
  });
  const worker = world.addWorker('a', slowly);
  await world.clock.advance(500);
  worker.counters.failNext('refused');
  worker.counters.failNext('refused');
  await world.count('p1', ...ids);
  await world.finish();
  t.strictSame(world.audit(), []);
  await worker.stop();
});

t.test('a worker whose reader cannot be opened at first tries again', async (t) => {
  const world = await createWorld();
  const ids = await addCounters(world, 'p1', 5);
  let tries = 0;
  const worker = world.addWorker('a', ({ bus }) => ({
    bus: {
      ...bus,
      async readCommands(...args) {
        tries += 1;
        if (tries <= 2) throw new Error('TIMEOUT');
        return bus.readCommands(...args);
      },
    },
  }));
  await world.count('p1', ...ids);
  await world.finish();
  t.strictSame(world.audit(), []);
  t.ok(tries > 2);
  await worker.stop();
});

t.test('what was read again after a crash tells its own facts again, and changes nothing', async (t) => {
  const world = await createWorld();
  const ids = await addCounters(world, 'p1', 4);
  const first = world.addWorker('a');
  await world.clock.advance(1_000);
  await world.count('p1', ...ids, ...ids);
  await world.clock.until(() => world.counted() === 8, 240);
  await world.clock.advance(0);
  first.kill();
  const before = world.stores.counter.all();
  const positions = (await world.records.all()).map(({ position }) => position);
  t.ok(Math.max(...positions) < 8, 'the position had not been stored');

  const published: string[] = [];
  const second = world.addWorker('b', ({ bus }) => ({
    bus: {
      ...bus,
      async publishAll(messages) {
        published.push(...messages.map(({ id }) => id));
        return bus.publishAll(messages);
      },
    },
  }));
  await world.finish();
  t.strictSame(world.stores.counter.all(), before);
  t.strictSame(
    published.sort(),
    before.flatMap(({ _id, facts }) => facts.map(({ seq, n }) => `${_id}:${seq}:f${n}`)).sort(),
  );
  t.strictSame(world.audit(), []);
  await second.stop();
});

t.test('facts that were never told come before later ones of the same document', async (t) => {
  const world = await createWorld();
  await world.addCounter('p1', 'p1-0');
  const first = world.addWorker('a');
  await world.clock.advance(500);
  first.bus.failNext('not stored', 100);
  await world.count('p1', 'p1-0');
  await world.clock.until(() => world.counted() === 1, 1_000);
  first.kill();
  t.equal(world.server.facts().length, 0);
  await world.count('p1', 'p1-0', 'p1-0');
  const second = world.addWorker('b');
  await world.finish();
  t.strictSame(
    world.server.facts().map(({ body }) => body.count),
    [1, 2, 3],
  );
  t.strictSame(world.audit(), []);
  await second.stop();
});

t.test('a half-written batch of a dead owner comes out in order, however long the backlog is', async (t) => {
  const world = await createWorld({ partitions: 1 });
  const ids = await addCounters(world, 'p1', 1_500);
  // It dies while it writes the batch around the 512th command, with every other document of that batch stored.
  const dying = ({ kinds }: OwnerPorts): Partial<OwnerPorts> => {
    const counter = kinds.get('counter') ?? world.kinds.counter;
    const write: ActorKind['store']['write'] = async (writes) => {
      if (!writes.some(({ next }) => next._id === 'p1-511')) return counter.store.write(writes);
      await counter.store.write(writes.filter((_, place) => place % 2 === 0));
      first.kill();
      return new Promise(() => undefined);
    };
    return { kinds: new Map([['counter', { ...counter, store: { ...counter.store, write } }]]) };
  };
  const first = world.addWorker('a', dying);
  await world.clock.advance(400);
  await world.count('p1', ...ids.slice(0, 100));
  await world.clock.advance(1);
  await world.count('p1', ...ids.slice(100));
  await world.clock.until(() => world.members.length === 0, 200);
  t.ok(world.counted() < 1_000, 'it was in the midst of it');
  t.equal((await world.records.all())[0]?.position, 0, 'no position had been stored');
  await world.clock.advance(2_000);
  const second = world.addWorker('b');
  await world.finish();
  t.strictSame(world.audit(), []);
  await second.stop();
});

t.test('ts increases within a project across owners, restarts and clocks that go backwards', async (t) => {
  const world = await createWorld({ partitions: 4, seed: 3, latencyMs: 3 });
  const projects = ['p1', 'p2', 'p3'];
  const ids = new Map<string, string[]>();
  for (const project of projects) ids.set(project, await addCounters(world, project, 20));
  const skews = [0, 30_000, -60_000, 5_000, -1];
  for (const [round, skewMs] of skews.entries()) {
    const worker = world.addWorker(`w${round}`);
    worker.view.skew(skewMs);
    await world.clock.advance(1_500);
    for (const project of projects) await world.count(project, ...(ids.get(project) ?? []));
    await world.clock.advance(5 + 40 * round);
    worker.view.skew(-10_000);
    for (const project of projects) await world.count(project, ...(ids.get(project) ?? []));
    await world.clock.advance(3 + 20 * round);
    worker.kill();
  }
  world.addWorker('last');
  await world.finish();
  t.strictSame(world.audit(), []);
});

t.test(
  'a bound that a skewed clock has left behind is kept when only repeats have been met since',
  async (t) => {
    const world = await createWorld({ partitions: 1 });
    await addCounters(world, 'p1', 2);
    const first = world.addWorker('a');
    first.view.skew(60_000);
    await world.clock.advance(1_000);
    await world.count('p1', 'p1-0');
    await world.clock.until(() => world.server.facts().length === 1, 200);
    first.kill();
    // It repeats the fact, passes it, and is gone before it has one of its own.
    const second = world.addWorker('b');
    await world.clock.advance(4_000);
    second.kill();
    t.equal((await world.records.all())[0]?.position, 1);
    world.addWorker('c');
    await world.clock.advance(1_500);
    await world.count('p1', 'p1-1');
    await world.finish();
    t.strictSame(world.audit(), []);
  },
);

t.test('two owners of everything are slow, not wrong', async (t) => {
  for (const seed of [1, 2, 3]) {
    const world = await createWorld({ seed, latencyMs: 4, alone: true });
    const ids = await addCounters(world, 'p1', 30);
    world.addWorker('a');
    world.addWorker('b');
    await world.clock.advance(1_000);
    for (let round = 0; round < 12; round += 1) {
      await world.count('p1', ...ids);
      await world.clock.advance(20);
    }
    await world.finish(120_000);
    // The order of ts between documents is what one owner is for; everything else holds without.
    t.strictSame(
      world.audit().filter((text) => !text.includes('comes after')),
      [],
      `seed ${seed}`,
    );
    const failures = world.members.map(({ owner }) => owner.stats().failures);
    t.ok(
      failures.some((count) => count > 0),
      'they were in each other’s way',
    );
  }
});

t.test('deaths, pauses, cuts and joins at random leave nothing lost, doubled or out of order', async (t) => {
  const first = Number(process.env['STORM_SEED'] ?? 11);
  const storms = Number(process.env['STORMS'] ?? 4);
  for (let seed = first; seed < first + storms; seed += 1) {
    const world = await createWorld({ partitions: 8, seed, latencyMs: 3 });
    await storm(world, createRandom(seed));
    await world.clock.advance(5_000);
    await world.finish(120_000);
    t.strictSame(world.audit(), [], `seed ${seed}`);
    t.equal(
      (await world.records.all()).filter(({ owner }) => owner === null).length,
      0,
      'every partition has an owner in the end',
    );
  }
});

/** Commands for five projects all the while, and every few 100 ms something happens to one of the workers. */
async function storm(world: World, random: () => number): Promise<void> {
  const projects = ['p1', 'p2', 'p3', 'p4', 'p5'];
  for (const project of projects) await addCounters(world, project, 6);
  const calamities = calamitiesOf(world, random);
  for (let round = 0; round < 25; round += 1) {
    if (world.members.length < 2 || random() < 0.2) world.addWorker(`w${round}`);
    for (const project of projects) await world.count(project, ...idsOf(project, 6));
    await world.clock.advance(50 + random() * 400);
    const member = world.members[Math.floor(random() * world.members.length)];
    const calamity = calamities[Math.floor(random() * calamities.length)];
    if (member && calamity) await calamity(member);
  }
  world.addWorker('last');
}

function calamitiesOf({ clock }: World, random: () => number): ((member: Member) => void | Promise<void>)[] {
  const aWhile = () => 200 + random() * 3_000;
  return [
    (member) => member.kill(),
    (member) => member.stop(),
    (member) => {
      member.view.pause();
      clock.after(aWhile(), () => member.view.resume());
    },
    (member) => {
      member.bus.cut();
      clock.after(aWhile(), () => member.bus.heal());
    },
    (member) => member.counters.failNext(random() < 0.5 ? 'half' : 'answer lost'),
    (member) => member.bus.failNext('not confirmed'),
    (member) => member.view.skew(Math.floor(random() * 4_000) - 2_000),
  ];
}

t.test('a clean stop hands over within a fraction of a second', async (t) => {
  const world = await createWorld({ latencyMs: 2 });
  const ids = await addCounters(world, 'p1', 10);
  const first = world.addWorker('a');
  const second = world.addWorker('b');
  await world.clock.advance(2_000);
  t.equal(first.owner.stats().owned + second.owner.stats().owned, 8);
  t.notOk(first.owner.isAlone());
  await world.count('p1', ...ids);
  await first.stop();
  await world.count('p1', ...ids);
  const from = world.clock.now();
  await world.clock.until(() => second.owner.stats().owned === 8 && world.counted() === 20, 2_000);
  t.ok(world.clock.now() - from < 300, `took ${world.clock.now() - from} ms`);
  await world.finish();
  t.strictSame(world.audit(), []);
  t.equal(second.owner.isAlone(), true);
});

t.test('a queue that is full stops the reader, which goes on when there is room', async (t) => {
  const world = await createWorld({ partitions: 1, latencyMs: 1 });
  const ids = await addCounters(world, 'p1', 3_000);
  await world.count('p1', ...ids, ...ids, ...ids);
  const worker = world.addWorker('a');
  let most = 0;
  await world.clock.until(() => {
    most = Math.max(most, worker.owner.stats().queued);
    return worker.owner.stats().steps === 9_000;
  }, 60_000);
  t.ok(most <= runtime.maxQueued, `${most} were queued`);
  t.ok(most > runtime.maxQueued / 2);
  await world.finish();
  t.strictSame(world.audit(), []);
});

t.test('a command that its machine throws at is passed over, and so is one for nobody', async (t) => {
  const world = await createWorld({ partitions: 1 });
  await world.addCounter('p1', 'p1-0');
  await world.stores.asset.insert(
    newDocument(world.kinds.asset, {
      id: 'ast_1',
      project: 'p1',
      input: assetInput({ projectId: 'p1' }),
      ts: 1,
    }),
  );
  world.addWorker('a');
  await world.clock.advance(500);
  const { front } = world;
  const send = (kind: string, id: string, body: unknown) =>
    front.publish({ subject: front.subjects.command('p1', kind, id), id: `${kind}:${id}`, body });
  await send('asset', 'ast_1', { type: 'REGENERATE', run: 2 });
  await send('asset', 'ast_unknown', { type: 'START' });
  await send('unknown', 'u1', { type: 'START' });
  await send('counter', 'p1-0', { type: 'NOBODY_KNOWS' });
  await world.count('p1', 'p1-0');
  await world.finish();
  t.strictSame(world.audit(), []);
  t.match(world.errors, [/options|mode/]);
  t.match((await world.records.all())[0]?.position, 5);
  t.equal((await world.stores.asset.find('ast_1'))?.version, 0);
});

t.test(
  'beside a later version of a machine the earlier one owns nothing, and passes over none of its documents',
  async (t) => {
    const world = await createWorld({ partitions: 4 });
    const ids = await addCounters(world, 'p1', 3);
    const later = ({ kinds }: OwnerPorts) => {
      const counter = kinds.get('counter');
      if (!counter) throw new Error('every worker has counters');
      return { kinds: new Map([...kinds, ['counter', { ...counter, ...laterCounter }]]) };
    };
    const old = world.addWorker('old');
    await world.clock.advance(1_000);
    await world.count('p1', ...ids);
    await world.finish();

    const next = world.addWorker('next', later);
    await world.count('p1', ...ids);
    await world.clock.advance(2_000);
    t.equal(next.owner.stats().owned, 4);
    t.equal(old.owner.stats().owned, 0);
    await world.count('p1', ...ids);
    await world.finish();
    t.match(
      world.stores.counter.all().map(({ machine }) => machine),
      ids.map(() => ({ version: 2, value: 'tallying', context: { total: 3 } })),
      'what the earlier one had stored was migrated',
    );
    t.strictSame(world.audit(), []);

    next.kill();
    await world.clock.advance(3_000);
    t.equal(old.owner.stats().owned, 4);
    await world.count('p1', ...ids);
    await world.clock.advance(10_000);
    t.ok(world.stores.counter.all().every(({ machine }) => machine.version === 2));
    t.equal(world.counted(), 9, 'the earlier one waits');

    const again = world.addWorker('again', later);
    await world.finish();
    t.equal(again.owner.stats().owned, 4);
    t.strictSame(world.audit(), []);
  },
);

/** The counter with another state, and another name for what it has counted. */
const laterMachine = setup({
  types: { context: {} as { total: number }, events: {} as { type: 'COUNT'; ts: number } },
  actions: { record: declare<{ event: string; count: number }>() },
}).createMachine({
  id: 'counter',
  context: { total: 0 },
  initial: 'tallying',
  states: {
    tallying: {
      on: {
        COUNT: {
          actions: [
            assign({ total: ({ context }) => context.total + 1 }),
            { type: 'record', params: ({ context }) => ({ event: 'counted', count: context.total }) },
          ],
        },
      },
    },
  },
});
const laterCounter: Pick<ActorKind, 'stepper' | 'machineVersion' | 'migrate'> = {
  stepper: createStepper(laterMachine),
  machineVersion: 2,
  migrate: ({ context }) => ({
    value: 'tallying',
    context: { total: (context as { count: number }).count },
  }),
};

// ── Assets: timers, work, two kinds at once ─────────────────────────────────────────────────────

const answers: Record<string, MessageType[]> = {
  fetchSource: ['SOURCE_FETCHED'],
  vision: ['WORK_STARTED', 'VISION_COMPLETED'],
  animate: ['SUBMITTED', 'OUTPUT_READY', 'CLIP_COMPLETED'],
  merge: ['WORK_STARTED', 'CLIP_COMPLETED'],
  storeWrite: ['STORED'],
  cleanUp: [],
  cancelVideo: [],
};

/** Does all work at once, but what `fails` says. Answers how often each effect was asked for. */
async function doWork(world: World, fails: (effect: string, ref: Ref) => boolean = () => false) {
  const asked: string[] = [];
  const bus = world.server.connect();
  for (const [effect, types] of Object.entries(answers)) {
    await bus.takeWork(effect, 100, (item) => {
      const { id, project, params } = item.body as { id: string; project: string; params: Ref };
      asked.push(`${effect} ${params.stage ?? ''} ${params.attempt ?? ''}`.trim());
      const list: MessageType[] = fails(effect, params) ? ['WORK_FAILED'] : types;
      for (const type of list) {
        void bus.publish({
          subject: bus.subjects.command(project, 'asset', id),
          id: `${id}:${params.run}:${params.stage}:${params.attempt}:${type}`,
          body: messageOf[type](params, 0),
        });
      }
      void item.done();
    });
  }
  return asked;
}

async function addAsset(world: World, project: string, id: string): Promise<void> {
  const input = assetInput({ projectId: project });
  await world.stores.asset.insert(
    newDocument(world.kinds.asset, { id, project, input, ts: world.clock.now() }),
  );
}

const start = (world: World, project: string, id: string) =>
  world.front.publish({
    subject: world.front.subjects.command(project, 'asset', id),
    id: `${id}:1:START`,
    body: { type: 'START' },
  });

const stateOf = async (world: World, id: string) => (await world.stores.asset.find(id))?.state;

t.test('an asset goes its way, beside counters of the same project, in one order of ts', async (t) => {
  const world = await createWorld({ latencyMs: 2 });
  const ids = await addCounters(world, 'p1', 3);
  await addAsset(world, 'p1', 'ast_1');
  await addAsset(world, 'p1', 'ast_2');
  const asked = await doWork(world);
  world.addWorker('a');
  world.addWorker('b');
  await world.clock.advance(1_500);
  await start(world, 'p1', 'ast_1');
  await world.count('p1', ...ids);
  await start(world, 'p1', 'ast_2');
  await world.count('p1', ...ids);
  await world.clock.until(async () => (await stateOf(world, 'ast_2')) === 'ready', 5_000);
  await world.finish();
  t.strictSame(world.audit(), []);
  t.equal(await stateOf(world, 'ast_1'), 'ready');
  t.equal(asked.length, 14, 'each piece of work was asked for once');
  const document = await world.stores.asset.find('ast_1');
  t.match(document, {
    version: 13,
    dueTs: null,
    timers: [],
    index: { status: 'ready', run: 1, requestId: 'req_1' },
  });
  const [queued] = world.server.facts().filter(({ subject }) => subject.endsWith('ast_1.queued'));
  t.match(queued?.body, { asset_id: 'ast_1', project_id: 'p1', run: 1, options: { mode: 'loop' } });
});

t.test('a retry comes when its timer is due, once, and names that time', async (t) => {
  const world = await createWorld({ latencyMs: 1 });
  await addAsset(world, 'p1', 'ast_1');
  const asked = await doWork(world, (effect, { attempt }) => effect === 'fetchSource' && attempt === 1);
  world.addWorker('a');
  await world.clock.advance(1_000);
  await start(world, 'p1', 'ast_1');
  await world.clock.until(async () => (await stateOf(world, 'ast_1')) === 'pending.source.retrying', 1_000);
  const [timer] =
    (await world.stores.asset.find('ast_1'))?.timers.filter(({ id }) => id.includes('retry')) ?? [];
  t.ok(timer);
  const fact = world.server.facts().find(({ subject }) => subject.endsWith('retry_scheduled'));
  t.equal(fact?.body.next_at_ms, timer?.at);

  // A firing of before, of another timer of that name, is no firing of this one.
  const stale = { type: 'TIMER', timer: timer?.id, armed: (timer?.armed ?? 0) - 1 };
  const { front } = world;
  const subject = front.subjects.command('p1', 'asset', 'ast_1');
  await front.publish({ subject, id: 'stale', body: stale });
  await world.clock.advance(500);
  t.equal(await stateOf(world, 'ast_1'), 'pending.source.retrying');

  const from = world.clock.now();
  await world.clock.until(async () => (await stateOf(world, 'ast_1')) !== 'pending.source.retrying', 2_000);
  const late = world.clock.now() - Math.max(timer?.at ?? 0, from);
  t.ok(late >= 0 && late < 50, `${late} ms late`);
  await front.publish({ subject, id: 'again', body: { ...stale, armed: timer?.armed } });
  await world.clock.advance(20_000);
  t.equal(await stateOf(world, 'ast_1'), 'ready');
  t.equal(asked.filter((one) => one.startsWith('fetchSource')).length, 2);
  t.strictSame(world.audit(), []);
});

t.test('a timer whose firing was lost fires again, also under another owner', async (t) => {
  const world = await createWorld({ partitions: 1 });
  await addAsset(world, 'p1', 'ast_1');
  await doWork(world, (effect, { attempt }) => effect === 'fetchSource' && attempt === 1);
  const first = world.addWorker('a');
  await world.clock.advance(1_000);
  await start(world, 'p1', 'ast_1');
  await world.clock.until(async () => (await stateOf(world, 'ast_1')) === 'pending.source.retrying', 1_000);
  await world.clock.advance(700);
  first.bus.failNext('not stored');
  await world.clock.advance(1_000);
  t.equal(await stateOf(world, 'ast_1'), 'pending.source.retrying', 'its firing was lost');
  await world.clock.advance(7_000);
  t.equal(await stateOf(world, 'ast_1'), 'ready');

  await addAsset(world, 'p1', 'ast_2');
  await start(world, 'p1', 'ast_2');
  await world.clock.until(async () => (await stateOf(world, 'ast_2')) === 'pending.source.retrying', 1_000);
  first.kill();
  world.addWorker('b');
  await world.clock.advance(5_000);
  t.equal(await stateOf(world, 'ast_2'), 'ready');
  t.strictSame(world.audit(), []);
});

t.test('a run with nobody to do its work is asked about, and given up after ten minutes', async (t) => {
  const world = await createWorld({ partitions: 1 });
  await addAsset(world, 'p1', 'ast_1');
  world.addWorker('a');
  await world.clock.advance(500);
  await start(world, 'p1', 'ast_1');
  await world.clock.advance(pipeline.stallAfterMs - 2_000);
  t.equal(await stateOf(world, 'ast_1'), 'pending.source.fetching');
  t.equal(await world.front.countWork(), 6, 'asked for at the start, and each minute from the fifth on');
  await world.clock.advance(3_000);
  const document = await world.stores.asset.find('ast_1');
  t.match(document, { state: 'failed', index: { status: 'failed' }, timers: [] });
  t.match(document?.facts.at(-1), { event: 'failed', error_code: 'pipeline_stalled' });
  t.strictSame(world.audit(), []);
});

t.test('facts of earlier runs are bounded, those of the present one all stay', async (t) => {
  const world = await createWorld({ partitions: 1 });
  await addAsset(world, 'p1', 'ast_1');
  world.addWorker('a');
  await world.clock.advance(500);
  await start(world, 'p1', 'ast_1');
  const { front } = world;
  for (let run = 1; run <= 150; run += 1) {
    const body = messageOf.REGENERATE({ run, stage: 'source', attempt: 1 }, 0);
    await front.publish({
      subject: front.subjects.command('p1', 'asset', 'ast_1'),
      id: `regenerate:${run}`,
      body,
    });
    if (run % 10 === 0) await world.clock.advance(600);
  }
  await world.clock.advance(1_000);
  const facts = (await world.stores.asset.find('ast_1'))?.facts ?? [];
  t.ok(facts.length > 100 && facts.length < 130, `${facts.length} facts are kept`);
  t.match(facts.at(-1), { event: 'queued', run: 151 });
  t.equal(world.server.facts().length, 301);
  t.strictSame(outOfOrder(world.server.facts().map(({ body }) => body)), []);
});

t.test('many runs within one batch that is lost half-way still have their ends told', async (t) => {
  const world = await createWorld({ partitions: 1 });
  await addAsset(world, 'p1', 'ast_1');
  const worker = world.addWorker('a');
  await world.clock.advance(500);
  worker.bus.failNext('not stored', 10_000);
  await start(world, 'p1', 'ast_1');
  const { front } = world;
  for (let run = 1; run <= 120; run += 1) {
    const body = messageOf.REGENERATE({ run, stage: 'source', attempt: 1 }, 0);
    await front.publish({
      subject: front.subjects.command('p1', 'asset', 'ast_1'),
      id: `regenerate:${run}`,
      body,
    });
  }
  await world.clock.until(() => worker.owner.stats().failures > 0, 2_000);
  worker.kill();
  world.addWorker('b');
  await world.clock.advance(5_000);
  const ends = world.server.facts().filter(({ body }) => body.event === 'cancelled');
  t.equal(ends.length, 120, 'one for each run but the last');
});

t.test('an erased asset tells its end once, also by its next owner, and then keeps no facts', async (t) => {
  const world = await createWorld({ partitions: 1 });
  const ids = await addCounters(world, 'p1', 1);
  await addAsset(world, 'p1', 'ast_1');
  const first = world.addWorker('a');
  await world.clock.advance(1_500);
  await start(world, 'p1', 'ast_1');
  await world.clock.until(async () => (await stateOf(world, 'ast_1')) === 'pending.source.fetching', 5_000);
  await world.clock.advance(1_000);
  // Stored, and then the owner dies before anybody hears of it.
  first.bus.failNext('not stored', 100);
  const erase = { type: 'ERASE' };
  const subject = world.front.subjects.command('p1', 'asset', 'ast_1');
  await world.front.publish({ subject, id: 'ast_1:erase', body: erase });
  await world.clock.until(async () => (await stateOf(world, 'ast_1')) === 'erased', 5_000);
  first.kill();
  world.addWorker('b');
  await world.clock.advance(5_000);
  await world.front.publish({ subject, id: 'ast_1:erase:again', body: erase });
  await start(world, 'p1', 'ast_1');
  await world.count('p1', ...ids);
  await world.finish();
  t.strictSame(world.audit(), ['2 facts are stored, 3 published'], 'in order, and one is not kept');
  const told = world.server.facts().filter(({ body }) => body['asset_id'] === 'ast_1');
  t.strictSame(
    told.map(({ body }) => body['event']),
    ['queued', 'cancelled'],
  );
  const document = await world.stores.asset.find('ast_1');
  t.match(document, { state: 'erased', timers: [], dueTs: null, index: { status: 'failed' } });
  t.strictSame(
    document?.facts.map(({ event }) => event),
    ['cancelled'],
    'what was published before has gone with the step',
  );
});

// ── The reconciler ──────────────────────────────────────────────────────────────────────────────

t.test(
  'documents whose START was lost are started, and duties do not stand in each other’s way',
  async (t) => {
    const world = await createWorld({ partitions: 1 });
    await addAsset(world, 'p1', 'ast_1');
    await doWork(world);
    world.addWorker('a');
    let done = 0;
    const errors: unknown[] = [];
    const reconciler = startReconciler({
      kinds: new Map(Object.entries(world.kinds)),
      bus: world.front,
      records: world.records,
      streams: createMemoryStreamStore(),
      startDeliveries: async () => undefined,
      clock: world.clock,
      log: { ...quiet, error: ({ err }: { err?: unknown }) => errors.push(err) },
      duties: [
        async () => {
          throw new Error('this one never works');
        },
        async () => {
          done += 1;
        },
      ],
    });
    await world.clock.advance(1_500);
    t.equal(await stateOf(world, 'ast_1'), 'new', 'its START may still be on the way');
    await world.clock.advance(4_000);
    t.equal(await stateOf(world, 'ast_1'), 'ready');
    t.ok(done >= 2);
    t.match(errors[0], /never works/);
    await finished(world.clock, reconciler.stop());
    t.strictSame(world.audit(), []);
  },
);

t.test(
  'a step bears the time at which the stream took its command, whatever clock its owner has',
  async (t) => {
    const world = await createWorld({ partitions: 1 });
    const [id = ''] = await addCounters(world, 'p1', 1);
    world.addWorker('a', ({ clock }) => ({ clock: { ...clock, now: () => clock.now() - 2_000 } }));
    await world.clock.advance(3_000);
    const sentTs = world.clock.now();
    await world.count('p1', id);
    await world.clock.advance(1_000);
    await world.count('p1', id, id);
    await world.finish();
    const stamps = () =>
      world.stores.counter.all().flatMap(({ facts }) => facts.map(({ ts }) => ts - sentTs));
    t.strictSame(stamps(), [0, 1_000, 1_001]);
    for (const member of [...world.members]) await member.stop();

    await world.count('p1', id);
    await world.clock.advance(15_000);
    world.addWorker('b');
    await world.finish();
    const late = (stamps().at(-1) ?? 0) - (stamps().at(-2) ?? 0);
    t.ok(late > 15_000, `${late} ms: one that has waited for an owner takes place when there is one`);
    t.strictSame(world.audit(), []);
  },
);

t.test(
  'after a loss of the streams it is looked again when what was being written has arrived',
  async (t) => {
    const world = await createWorld({ partitions: 1 });
    await addAsset(world, 'p1', 'ast_1');
    const streams = createMemoryStreamStore();
    await streams.note({ made: 'before', lookedTs: world.clock.now() });
    const looks: number[] = [];
    const began = world.clock.now();
    const reconciler = startReconciler({
      kinds: new Map(),
      bus: world.front,
      records: world.records,
      streams: {
        ...streams,
        async note(seen) {
          looks.push(world.clock.now() - began);
          await streams.note(seen);
        },
      },
      startDeliveries: async () => undefined,
      clock: world.clock,
      log: { ...quiet, warn: () => looks.push(world.clock.now() - began) },
      duties: [],
    });
    await world.clock.advance(30_000);
    t.match(looks, [0, 16_000, 16_000], 'twice, and it is noted after the second time');
    await finished(world.clock, reconciler.stop());
  },
);

t.test(
  'commands that everybody has passed are dropped, and an idle partition does not hold them back',
  async (t) => {
    const world = await createWorld({ partitions: 4 });
    const ids = await addCounters(world, 'p1', 2_000);
    world.addWorker('a');
    world.addWorker('b');
    const reconciler = startReconciler({
      kinds: new Map(),
      bus: world.front,
      records: world.records,
      streams: createMemoryStreamStore(),
      startDeliveries: async () => undefined,
      clock: world.clock,
      log: quiet,
      duties: [],
    });
    await world.clock.advance(2_000);
    for (let round = 0; round < 8; round += 1) await world.count('p1', ...ids);
    await world.finish();
    await world.clock.advance(20_000);
    const left = world.server.commands().length;
    t.ok(left <= 10_000, `${left} of 16,000 are left`);
    const positions = (await world.records.all()).map(({ position }) => position);
    t.ok(Math.min(...positions) > 5_000, positions.join());
    await finished(world.clock, reconciler.stop());
    t.strictSame(world.audit(), []);
  },
);
