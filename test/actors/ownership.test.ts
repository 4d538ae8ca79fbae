/** Who owns which partition, as workers come, go, die, pause and lose the bus (invariant I4, architecture 3a). */
import t from 'tap';
import { type Ownership, type OwnershipPorts, startOwnership } from '../../src/actors/ownership.ts';
import { watchBeats } from '../../src/bus/beats.ts';
import {
  createMemoryBusServer,
  createMemoryPartitionStore,
  type MemoryConnection,
} from '../fixtures/memory-runtime.ts';
import { type ClockView, createVirtualClock } from '../fixtures/virtual-clock.ts';

const partitions = 16;

type Member = {
  name: string;
  ownership: Ownership;
  view: ClockView;
  bus: MemoryConnection;
  isRunning: boolean;
  /** Sizes of what it was given, change by change. */
  changes: number[];
  pause(): void;
  resume(): void;
  kill(): void;
  stop(): Promise<void>;
};

async function createTeam() {
  const clock = createVirtualClock();
  const server = createMemoryBusServer(clock, { partitions, latencyMs: () => 1 });
  const records = createMemoryPartitionStore();
  await records.ensure(partitions);
  const members: Member[] = [];
  const errors: unknown[] = [];

  const team = {
    clock,
    server,
    records,
    errors,
    members,
    join(name: string, change: Partial<OwnershipPorts> = {}): Member {
      const view = clock.view();
      const bus = server.connect(view);
      const changes: number[] = [];
      const ownership = startOwnership({
        workerId: name,
        version: 1,
        partitions,
        clock: view,
        send: bus.send,
        listen: bus.listen,
        onReconnect: bus.onReconnect,
        records,
        beforeDrop: () => view.running(),
        async onChange(owned) {
          await view.running();
          changes.push(owned.length);
        },
        onError: (cause) => errors.push(cause),
        ...change,
      });
      const member: Member = {
        name,
        ownership,
        view,
        bus,
        isRunning: true,
        changes,
        pause() {
          view.pause();
          member.isRunning = false;
        },
        resume() {
          view.resume();
          member.isRunning = true;
        },
        kill() {
          view.kill();
          void bus.close();
          member.isRunning = false;
        },
        async stop() {
          member.isRunning = false;
          let isOver = false;
          void ownership.stop().then(() => {
            isOver = true;
          });
          await clock.until(() => isOver, 2_000);
        },
      };
      members.push(member);
      return member;
    },
    /** How many partitions nobody that runs owns, and how many more than one owns. */
    state(): { orphans: number; shared: number } {
      const owners = new Map<number, number>();
      for (const { ownership, isRunning } of members)
        if (isRunning) for (const one of ownership.owned()) owners.set(one, (owners.get(one) ?? 0) + 1);
      return {
        orphans: partitions - owners.size,
        shared: [...owners.values()].filter((count) => count > 1).length,
      };
    },
    /** Watches for some ms: for how long partitions were without owner, or with two, in all. */
    async watch(ms: number): Promise<{ orphanMs: number; sharedMs: number }> {
      const stepMs = 10;
      let [orphanMs, sharedMs] = [0, 0];
      for (let passed = 0; passed < ms; passed += stepMs) {
        await clock.advance(stepMs);
        const { orphans, shared } = team.state();
        if (orphans > 0) orphanMs += stepMs;
        if (shared > 0) sharedMs += stepMs;
      }
      return { orphanMs, sharedMs };
    },
    /** Two workers that share everything. */
    async pair(): Promise<[Member, Member]> {
      const pair: [Member, Member] = [team.join('a'), team.join('b')];
      await clock.advance(2_000);
      return pair;
    },
  };
  return team;
}

const count = ({ ownership }: Member) => ownership.owned().length;

t.test('a first worker owns everything within half a second', async (t) => {
  const team = await createTeam();
  const first = team.join('a');
  const { orphanMs } = await team.watch(1_000);
  t.ok(orphanMs <= 500, `${orphanMs} ms`);
  t.equal(count(first), partitions);
  t.equal(first.ownership.isAlone(), true);
  t.strictSame(
    (await team.records.all()).map(({ owner, epoch }) => `${owner} ${epoch}`),
    Array.from({ length: partitions }, () => 'a 1'),
  );
});

t.test('who joins gets a share at once, and nothing is owned twice', async (t) => {
  const team = await createTeam();
  const first = team.join('a');
  await team.clock.advance(1_000);
  const second = team.join('b');
  const { orphanMs, sharedMs } = await team.watch(1_500);
  t.ok(orphanMs <= 200, `${orphanMs} ms without owner`);
  t.equal(sharedMs, 0);
  t.equal(count(first) + count(second), partitions);
  t.ok(count(second) > 0 && count(first) > 0);
  const third = team.join('c');
  const kept = new Set(first.ownership.owned());
  await team.watch(1_500);
  t.ok(count(third) > 0);
  t.ok(
    first.ownership.owned().every((one) => kept.has(one)),
    'few move: nobody else gains when one joins',
  );
  t.strictSame(team.errors, []);
});

t.test('who leaves cleanly is succeeded at once, who dies within 1.3 s', async (t) => {
  const team = await createTeam();
  const [first, second] = await team.pair();
  await first.stop();
  const clean = await team.watch(1_000);
  t.ok(clean.orphanMs <= 60, `${clean.orphanMs} ms after a stop`);
  t.equal(count(second), partitions);
  t.strictSame(first.ownership.owned(), []);

  const third = team.join('c');
  await team.clock.advance(2_000);
  third.kill();
  const dead = await team.watch(2_000);
  t.ok(dead.orphanMs <= 1_300, `${dead.orphanMs} ms after a death`);
  t.equal(count(second), partitions);
});

t.test(
  'who was paused owns nothing when it comes back, although its own old beats are still there',
  async (t) => {
    const team = await createTeam();
    const [first, second] = await team.pair();
    // Its last beat is on its way back to it.
    await team.clock.until(() => team.clock.monotonic() % 250 < 10, 300);
    first.pause();
    await team.watch(3_000);
    t.equal(count(second), partitions);
    first.resume();
    const { sharedMs } = await team.watch(300);
    t.ok(sharedMs <= 20, `${sharedMs} ms with two owners`);
    await team.watch(2_000);
    t.equal(count(first) + count(second), partitions, 'then they share again');
    t.strictSame(team.state(), { orphans: 0, shared: 0 });
  },
);

t.test(
  'who is cut off from the bus lets go, claims nothing meanwhile, and gets its share back',
  async (t) => {
    const team = await createTeam();
    const [first, second] = await team.pair();
    first.bus.cut();
    const { orphanMs, sharedMs } = await team.watch(2_500);
    t.ok(orphanMs <= 1_300 && sharedMs <= 300, `${orphanMs} ms without owner, ${sharedMs} ms with two`);
    t.equal(count(first), 0);
    t.equal(count(second), partitions);
    first.bus.heal();
    await team.watch(2_500);
    t.strictSame(team.state(), { orphans: 0, shared: 0 });
    t.ok(count(first) > 0);
  },
);

t.test('a worker alone that loses the bus starts again when it is back', async (t) => {
  const team = await createTeam();
  const first = team.join('a');
  await team.clock.advance(1_000);
  first.bus.cut();
  await team.clock.advance(2_000);
  t.equal(count(first), 0);
  first.bus.heal();
  await team.clock.advance(1_000);
  t.equal(count(first), partitions);
  t.strictSame(first.changes, [partitions, 0, partitions]);
});

t.test('a peer that lives and does not let go is forced after 1.5 s', async (t) => {
  const team = await createTeam();
  const stuck = team.join('a', { beforeDrop: () => new Promise(() => undefined) });
  await team.clock.advance(1_000);
  const second = team.join('b');
  await team.clock.advance(1_000);
  t.equal(count(second), 0, 'not yet');
  await team.clock.advance(1_500);
  t.ok(count(second) > 0);
  t.equal(
    (await team.records.all()).filter(({ owner }) => owner === 'b').length,
    count(second),
    'the records say so as well',
  );
  t.ok(count(stuck) > 0);
});

t.test('partitions that were robbed are begun anew within a beat or two, given back or not', async (t) => {
  const team = await createTeam();
  const a = team.join('a');
  await team.clock.advance(2_000);
  const before = a.changes.length;
  await team.records.force([3, 4], 'b');
  await team.records.force([3, 4], 'a');
  await team.clock.advance(300);
  t.equal(a.changes.length, before + 1, 'its memory of them is void');
  t.equal(a.changes.at(-1), partitions);

  await team.records.force([5], 'b');
  await team.clock.advance(300);
  t.equal(a.changes.length, before + 2);
  t.strictSame(team.state(), { orphans: 0, shared: 0 }, 'the robber is not heard of, so it is had again');
  await team.clock.advance(5_000);
  t.equal(a.changes.length, before + 2, 'and then there is peace');
  await a.stop();
  t.strictSame(team.errors, []);
});

t.test('a start that fails is tried again, and so is a claim', async (t) => {
  const team = await createTeam();
  let failures = 3;
  const given: number[] = [];
  const failing = async () => {
    failures -= 1;
    if (failures >= 0) throw new Error('not now');
  };
  const first = team.join('a', {
    records: {
      ...team.records,
      async claim(...args) {
        if (failures > 1) await failing();
        return team.records.claim(...args);
      },
    },
    async onChange(owned) {
      await failing();
      given.push(owned.length);
    },
  });
  await team.clock.advance(3_000);
  t.equal(count(first), partitions);
  t.strictSame(given, [partitions]);
  t.equal(team.errors.length, 3);
});

t.test('a worker that was robbed without noticing starts again from the records', async (t) => {
  const team = await createTeam();
  const first = team.join('a');
  await team.clock.advance(1_000);
  const all = Array.from({ length: partitions }, (_, one) => one);
  await team.records.force(all, 'thief');
  await team.records.release(all, 'thief');
  await team.clock.advance(3_000);
  t.ok((await team.records.all()).every(({ owner }) => owner === 'a'));
  t.strictSame(first.changes, [partitions, partitions]);
});

t.test('who stops while it is cut off from the bus leaves no record in its name', async (t) => {
  const team = await createTeam();
  const first = team.join('a');
  await team.clock.advance(1_000);
  first.bus.cut();
  await team.clock.advance(1_500);
  t.equal(count(first), 0);
  await first.stop();
  t.ok((await team.records.all()).every(({ owner }) => owner === null));
});

t.test('refresh reads the records again', async (t) => {
  const team = await createTeam();
  const first = team.join('a');
  await team.clock.advance(1_000);
  await first.ownership.refresh();
  t.strictSame(first.changes, [partitions, partitions]);
});

t.test('beats are numbered, with a number left out when the connection was lost', async (t) => {
  const team = await createTeam();
  const bus = team.server.connect();
  let missing = 0;
  watchBeats(bus, () => {
    missing += 1;
  });
  const [first] = await team.pair();
  await team.clock.advance(5_000);
  t.equal(missing, 0);
  first.bus.cut();
  await team.clock.advance(50);
  first.bus.heal();
  await team.clock.advance(1_000);
  t.equal(missing, 1, 'even where no beat was due meanwhile');
  t.strictSame(team.errors, []);
});
