/** The message bus: the real one, and the one in memory that the runtime's tests use. */
import { createServer, connect as dial, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type NatsConnection, NatsError } from 'nats';
import t, { type Test } from 'tap';
import { type Bus, type BusOptions, openBus } from '../../src/bus/bus.ts';
import { patiently } from '../../src/bus/patient.ts';
import type { Command } from '../../src/bus/read.ts';
import { checkServer } from '../../src/bus/streams.ts';
import { type WorkItem, workAckWaitMs } from '../../src/bus/work.ts';
import { createMemoryBusServer, partitionOf } from '../fixtures/memory-runtime.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { createVirtualClock } from '../fixtures/virtual-clock.ts';

const partitions = 8;
const { natsUrl } = await testServers();
const logged: string[] = [];
const note = (_: object, message: string) => logged.push(message);
const log = { info: note, warn: note, error: note };

const optionsFor = (prefix: string, more: Partial<BusOptions> = {}): BusOptions => ({
  url: natsUrl,
  prefix,
  partitions,
  replicas: 1,
  lastPosition: async () => 0,
  log,
  ...more,
});

/** A prefix of its own on the shared server, whose streams go with the test. */
async function open(t: Test, more: Partial<BusOptions> = {}): Promise<Bus> {
  const bus = await openBus(optionsFor(`${uniqueName('b')}.`, more));
  t.teardown(async () => {
    await bus.deleteStreams();
    await bus.close();
  });
  return bus;
}

type Site = { bus: Bus; pass(ms: number): Promise<void> };

const sites: Record<string, (t: Test) => Promise<Site>> = {
  'the bus in memory': async () => {
    const clock = createVirtualClock(Date.now());
    return { bus: createMemoryBusServer(clock, { partitions }).connect(), pass: clock.advance };
  },
  'the bus over NATS': async (t) => ({ bus: await open(t), pass: (ms) => delay(ms) }),
};

async function until(
  { pass }: Pick<Site, 'pass'>,
  condition: () => boolean | Promise<boolean>,
  maxMs = 8_000,
) {
  for (let waited = 0; !(await condition()); waited += 10) {
    if (waited > maxMs) throw new Error(`not so within ${maxMs} ms`);
    await pass(10);
  }
}

let ids = 0;
function command(bus: Bus, project: string, id: string, more: Record<string, unknown> = {}) {
  ids += 1;
  return {
    subject: bus.subjects.command(project, 'counter', id),
    id: `cmd:${ids}`,
    body: { type: 'COUNT', ...more },
  };
}

const all = Array.from({ length: partitions }, (_, one) => one);
const systemTime: Pick<Site, 'pass'> = { pass: (ms) => delay(ms) };

for (const [name, create] of Object.entries(sites)) {
  t.test(name, async (t) => {
    t.test('a message is stored once per id, in order', async (t) => {
      const { bus } = await create(t);
      t.equal(bus.connected(), true);
      const first = command(bus, 'p1', 'c1');
      t.match(await bus.publish(first), { seq: 1, duplicate: false });
      t.match(await bus.publish(first), { seq: 1, duplicate: true });
      await bus.publishAll([command(bus, 'p1', 'c1'), first, command(bus, 'p2', 'c2')]);
      await bus.publishAll([]);
      t.equal(await bus.lastCommand(), 3);
      await bus.flush();
    });

    t.test('many are stored in order, and those of them that are stored already not again', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const many = Array.from({ length: 1_200 }, (_, n) => command(bus, `p${n % 7}`, 'c', { n }));
      await bus.publishAll(many.slice(0, 5));
      await bus.publishAll(many);
      await bus.publishAll(many);
      t.equal(await bus.lastCommand(), many.length);
      const facts: unknown[] = [];
      const after: unknown[] = [];
      const events = bus.onFacts('p1', '*', '*', (fact, _, told) => {
        facts.push(fact);
        after.push(told?.after);
      });
      await bus.flush();
      const fact = (n: number) => ({
        subject: bus.subjects.fact('p1', 'a', 'ready'),
        id: `f${n}`,
        body: { n },
        ...(n > 1 ? { after: n - 1 } : n === 1 ? { after: 'unknown' as const } : {}),
      });
      const numbers = Array.from({ length: 40 }, (_, n) => n);
      await bus.publishAll([command(bus, 'p1', 'c'), ...numbers.map(fact), command(bus, 'p1', 'c')]);
      t.equal(await bus.lastCommand(), many.length + 2, 'of two streams each gets its own');
      await until(site, () => facts.length === numbers.length);
      t.strictSame(
        facts,
        numbers.map((n) => ({ n })),
      );
      t.strictSame(after, [undefined, 'unknown', ...numbers.slice(1, -1)], 'what each said to come after');
      events.stop();
      const read: unknown[] = [];
      const reader = await bus.readCommands(all, 0, ({ message }) => read.push(message['n']) > 0);
      await until(site, () => read.length === many.length + 2);
      t.strictSame(
        read.slice(0, many.length),
        many.map((_, n) => n),
      );
      await reader.stop();
    });

    t.test(
      'commands are read in stream order with what they carry, of the asked partitions only',
      async (t) => {
        const site = await create(t);
        const { bus } = site;
        const projects = ['p1', 'p2', 'p3', 'prj_x', 'prj_y'];
        for (const project of projects)
          await bus.publish(command(bus, project, `${project}-c`, { of: project }));
        const read: Command[] = [];
        const reader = await bus.readCommands(all, 0, (one) => read.push(one) > 0);
        await until(site, () => read.length === 5);
        t.strictSame(
          read.map(({ seq, project, kind, id, partition, message, pending }) => ({
            seq,
            project,
            kind,
            id,
            partition,
            message,
            pending,
          })),
          projects.map((project, n) => ({
            seq: n + 1,
            project,
            kind: 'counter',
            id: `${project}-c`,
            partition: partitionOf(project, partitions),
            message: { type: 'COUNT', of: project },
            pending: 4 - n,
          })),
        );
        await reader.stop();

        const some = [partitionOf('p2', partitions)];
        const later: Command[] = [];
        const second = await bus.readCommands(some, 1, (one) => later.push(one) > 0);
        await bus.publish(command(bus, 'p2', 'p2-c'));
        const wanted = read.filter(({ partition, seq }) => some.includes(partition) && seq > 1).length + 1;
        await until(site, () => later.length === wanted);
        t.ok(later.every(({ partition }) => some.includes(partition)));
        await second.stop();
        t.equal(await bus.lastCommandOf(some[0] ?? 0), 6);
        const empty = all.find((one) => read.every(({ partition }) => partition !== one)) ?? 0;
        t.equal(await bus.lastCommandOf(empty), 0);
      },
    );

    t.test('a reader that can take no more waits, and goes on where it was', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const count = 2_500;
      await bus.publishAll(Array.from({ length: count }, (_, n) => command(bus, `p${n % 7}`, 'c', { n })));
      const seqs: number[] = [];
      const reader = await bus.readCommands(all, 0, ({ seq }) => {
        seqs.push(seq);
        return seqs.length % 600 !== 0;
      });
      for (const stop of [600, 1_200, 1_800, 2_400]) {
        await until(site, () => seqs.length === stop);
        await site.pass(30);
        t.equal(seqs.length, stop, 'nothing comes meanwhile');
        reader.resume();
      }
      await until(site, () => seqs.length === count);
      t.strictSame(
        seqs,
        Array.from({ length: count }, (_, n) => n + 1),
      );
      await reader.stop();
      await bus.publish(command(bus, 'p1', 'c'));
      await site.pass(30);
      t.equal(seqs.length, count, 'nothing comes after a stop');
    });

    t.test('a reader can be stopped while it waits', async (t) => {
      const site = await create(t);
      const { bus } = site;
      await bus.publishAll([command(bus, 'p1', 'c'), command(bus, 'p1', 'c')]);
      let read = 0;
      const reader = await bus.readCommands(all, 0, () => {
        read += 1;
        return false;
      });
      await until(site, () => read === 1);
      await reader.stop();
      reader.resume();
      await site.pass(30);
      t.equal(read, 1);
    });

    t.test('trimmed commands are gone, and numbers go on', async (t) => {
      const site = await create(t);
      const { bus } = site;
      await bus.publishAll([1, 2, 3, 4].map(() => command(bus, 'p1', 'c')));
      await bus.trimCommands(4);
      const seqs: number[] = [];
      const reader = await bus.readCommands(all, 0, ({ seq }) => seqs.push(seq) > 0);
      await bus.publish(command(bus, 'p1', 'c'));
      await until(site, () => seqs.length === 2);
      t.strictSame(seqs, [4, 5]);
      await reader.stop();
    });

    t.test('facts are heard live by project, asset and event, and can be read again', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const heard: unknown[] = [];
      const ended: unknown[] = [];
      const one = bus.onFacts('p1', 'a1', '*', (fact) => heard.push(fact));
      const two = bus.onFacts('*', '*', 'ready', (fact) => ended.push(fact));
      const tell = (project: string, id: string, event: string, n: number) =>
        bus.publish({ subject: bus.subjects.fact(project, id, event), id: `f${n}`, body: { event, n } });
      await bus.flush();
      await tell('p1', 'a1', 'queued', 1);
      await tell('p1', 'a2', 'ready', 2);
      await tell('p2', 'a1', 'ready', 3);
      await tell('p1', 'a1', 'ready', 4);
      await until(site, () => heard.length === 2 && ended.length === 3);
      t.strictSame(heard, [
        { event: 'queued', n: 1 },
        { event: 'ready', n: 4 },
      ]);
      one.stop();
      two.stop();
      await tell('p1', 'a1', 'failed', 5);
      await site.pass(30);
      t.equal(heard.length, 2);

      const since = Date.now() - 60_000;
      t.strictSame(await replayed(bus, 'p1', '*', since), [1, 2, 4, 5]);
      t.strictSame(await replayed(bus, 'p1', 'a1', since), [1, 4, 5]);
      t.strictSame(await replayed(bus, 'p9', '*', since), []);
      t.strictSame(await replayed(bus, 'p1', '*', Date.now() + 3_600_000), []);
      const leaving = new AbortController();
      const some: unknown[] = [];
      for await (const fact of bus.replayFacts('p1', '*', since, leaving.signal)) {
        some.push(fact);
        leaving.abort();
      }
      t.equal(some.length, 1, 'no more after an abort');
      t.strictSame(await replayed(bus, 'p1', '*', since, AbortSignal.abort()), []);
    });

    t.test('work goes to one taker, and is gone when it is done', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const [first, second, other]: [WorkItem[], WorkItem[], WorkItem[]] = [[], [], []];
      const takers = [
        await bus.takeWork('vision', 2, (item) => first.push(item)),
        await bus.takeWork('vision', 2, (item) => second.push(item)),
        await bus.takeWork('merge', 2, (item) => other.push(item)),
      ];
      const give = (n: number) =>
        bus.publish({ subject: bus.subjects.work('vision', 'p1', 'asset', 'a'), id: `w${n}`, body: { n } });
      for (let n = 0; n < 4; n += 1) await give(n);
      await until(site, () => first.length + second.length === 4);
      await give(4);
      await site.pass(50);
      t.equal(first.length + second.length, 4, 'both hold as much as they may');
      const seen = [...first, ...second];
      t.strictSame(seen.map(({ body }) => (body as { n: number }).n).sort(), [0, 1, 2, 3]);
      t.ok(seen.every(({ deliveries }) => deliveries === 1));
      await Promise.all(seen.map((item) => item.done()));
      await until(site, () => first.length + second.length === 5);
      const last = [...first, ...second].find(({ body }) => (body as { n: number }).n === 4);
      t.equal(await bus.countWork(), 1);
      // Handed back, it comes again at once, to anybody.
      last?.back();
      await until(site, () => first.length + second.length === 6);
      const again = [...first, ...second].filter(({ seq }) => seq === last?.seq);
      t.strictSame(again.map(({ deliveries }) => deliveries).sort(), [1, 2]);
      await again.find(({ deliveries }) => deliveries === 2)?.done();
      await until(site, async () => (await bus.countWork()) === 0);
      t.strictSame(other, []);
      for (const taker of takers) await taker.stop();
    });

    t.test('work of a silent worker is given again after the ack wait, kept work is not', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const items: WorkItem[] = [];
      const taker = await bus.takeWork('vision', 10, (item) => items.push(item));
      for (const n of [1, 2]) {
        const subject = bus.subjects.work('vision', 'p1', 'asset', `a${n}`);
        await bus.publish({ subject, id: `silent:${n}`, body: { n } });
      }
      await until(site, () => items.length === 2);
      const [kept, silent] = items;
      const step = workAckWaitMs / 4;
      for (let waited = 0; waited < workAckWaitMs * 1.5; waited += step) {
        await site.pass(step);
        kept?.keep();
      }
      t.strictSame(
        items.slice(2).map(({ seq, deliveries }) => [seq, deliveries]),
        [[silent?.seq, 2]],
      );
      silent?.forget();
      await Promise.all([kept?.done(), items[2]?.done()]);
      await until(site, async () => (await bus.countWork()) === 0);
      await taker.stop();
    });

    t.test('what lost workers held can be had at once, and counts as delivered before', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const give = (n: number) =>
        bus.publish({ subject: bus.subjects.work('vision', 'p1', 'asset', 'a'), id: `r${n}`, body: { n } });
      await give(1);
      const lost: WorkItem[] = [];
      const first = await bus.takeWork('vision', 10, (item) => lost.push(item));
      await until(site, () => lost.length === 1);
      await first.stop();
      await give(2);
      await bus.reclaimWork(['vision', 'merge']);
      const items: WorkItem[] = [];
      const second = await bus.takeWork('vision', 10, (item) => items.push(item));
      await until(site, () => items.length === 2, 2_000);
      t.strictSame(items.map(({ body, deliveries }) => [(body as { n: number }).n, deliveries]).sort(), [
        [1, 2],
        [2, 1],
      ]);
      await Promise.all(items.map((item) => item.done()));
      await second.stop();
    });

    t.test('a request is answered by who serves it, with bytes or with why not', async (t) => {
      const { bus } = await create(t);
      await t.rejects(bus.request('echo', {}, 300), 'nobody serves it');
      const serving = bus.serve('echo', async (body) => {
        const { text } = body as { text: string };
        if (text === '') throw new Error('nothing\nto say');
        return Buffer.from(text);
      });
      await bus.flush();
      t.equal(Buffer.from(await bus.request('echo', { text: 'hello' }, 2_000)).toString(), 'hello');
      await t.rejects(bus.request('echo', { text: '' }, 2_000), {
        name: 'RequestFailure',
        message: /echo: nothing.to say/s,
      });
      serving.stop();
      await bus.flush();
      await t.rejects(bus.request('echo', { text: 'hello' }, 300));
    });

    t.test('plain messages reach who listens now', async (t) => {
      const site = await create(t);
      const { bus } = site;
      const heard: unknown[] = [];
      bus.send('own.hb', { n: 0 });
      const one = bus.listen('own.hb', (body) => heard.push(body));
      await bus.flush();
      bus.send('own.hb', { n: 1 });
      bus.send('own.bye', { n: 2 });
      await until(site, () => heard.length === 1);
      one.stop();
      bus.send('own.hb', { n: 3 });
      await site.pass(30);
      t.strictSame(heard, [{ n: 1 }]);
      await bus.close();
      t.equal(bus.connected(), false);
      bus.send('own.hb', { n: 4 });
      await t.rejects(bus.publish(command(bus, 'p1', 'c')));
    });
  });
}

async function replayed(bus: Bus, project: string, id: string, since: number, signal?: AbortSignal) {
  const list: number[] = [];
  for await (const fact of bus.replayFacts(project, id, since, signal)) list.push((fact as { n: number }).n);
  return list;
}

// ── What only a real server can show ────────────────────────────────────────────────────────────

async function raw(t: Test): Promise<NatsConnection> {
  const connection = await connect({ servers: natsUrl });
  t.teardown(() => connection.close());
  return connection;
}

t.test('a server that does not answer yet is asked again, one that refuses is not', async (t) => {
  const failures = [new NatsError('timed out', 'TIMEOUT'), new NatsError('no responders', '503')];
  const asked = async () => {
    const failure = failures.shift();
    if (failure) throw failure;
    return 'made';
  };
  t.equal(await patiently(asked), 'made');
  let times = 0;
  const refused = patiently(async () => {
    times += 1;
    throw new NatsError('too many replicas', '400');
  });
  await t.rejects(refused, { code: '400' });
  t.equal(times, 1);
});

t.test('a server that is too old, or without JetStream, is refused', async (t) => {
  const server = (version: string, jetstream?: boolean) =>
    ({ info: { version, jetstream } }) as NatsConnection;
  t.throws(() => checkServer(server('2.9.25', true)), /2\.9\.25 is too old: 2\.12 or newer/);
  t.throws(() => checkServer(server('2.11.99', true)), /too old/);
  t.throws(() => checkServer(server('1.99.0', true)), /too old/);
  t.throws(() => checkServer(server('', true)), /too old/);
  t.throws(() => checkServer({} as NatsConnection), /too old/);
  t.throws(() => checkServer(server('2.12.0')), /without JetStream/);
  t.doesNotThrow(() => checkServer(server('2.12.0-RC.1', true)));
  t.doesNotThrow(() => checkServer(server('2.15.2', true)));
  t.doesNotThrow(() => checkServer(server('3.0.0', true)));
});

t.test('a server that is not there ends the start when it is given up', async (t) => {
  await t.rejects(openBus(optionsFor('x.', { url: '127.0.0.1:1', signal: AbortSignal.timeout(300) })));
});

t.test('streams are made once, and one that differs from what is wanted stops the start', async (t) => {
  const prefix = `${uniqueName('b')}.`;
  const first = await openBus(optionsFor(prefix));
  t.teardown(async () => {
    await first.deleteStreams();
    await first.close();
  });
  await first.publish(command(first, 'p1', 'c'));
  const second = await openBus(optionsFor(prefix, { lastPosition: async () => 1 }));
  t.equal(await second.lastCommand(), 1, 'what is there stays');
  await second.close();
  const third = await openBus(optionsFor(prefix, { lastPosition: async () => 99 }));
  t.ok((await third.lastCommand()) > 99, 'one that ends below the stored positions goes on above them');
  await third.close();
  await t.rejects(openBus(optionsFor(prefix, { partitions: 16 })), /has subject_transform .*wanted/);
});

t.test('streams of a version that knew no batches take them from now on', async (t) => {
  const prefix = `${uniqueName('b')}.`;
  const before = await openBus(optionsFor(prefix));
  const manager = await (await raw(t)).jetstreamManager();
  const names = Object.values(before.subjects.streams);
  const setTo = (allow_atomic: boolean) =>
    Promise.all(names.map((name) => manager.streams.update(name, { allow_atomic } as object)));
  const read = () =>
    Promise.all(names.map(async (name) => (await manager.streams.info(name)).config as object));
  await before.publish(command(before, 'p1', 'c'));
  await before.close();
  await setTo(false);
  t.match(
    await read(),
    [{}, {}, {}].map(() => ({ allow_atomic: undefined })),
  );
  const after = await openBus(optionsFor(prefix));
  t.teardown(async () => {
    await after.deleteStreams();
    await after.close();
  });
  t.match(
    await read(),
    [{}, {}, {}].map(() => ({ allow_atomic: true })),
  );
  t.equal(await after.lastCommand(), 1);
  const many = Array.from({ length: 100 }, () => command(after, 'p1', 'c'));
  await after.publishAll(many);
  const { header } = await manager.streams.getMessage(after.subjects.streams.commands, { seq: 50 });
  t.equal(header.get('Nats-Batch-Sequence'), '49');
});

t.test('a command stream that is made anew begins above every stored position', async (t) => {
  const bus = await open(t, { lastPosition: async () => 41 });
  const { seq } = await bus.publish(command(bus, 'p1', 'c'));
  t.ok(seq > 41 + 100_000, `it begins at ${seq}`);
  const seqs: number[] = [];
  const reader = await bus.readCommands(all, 41, (one) => seqs.push(one.seq) > 0);
  await until(systemTime, () => seqs.length === 1);
  t.strictSame(seqs, [seq]);
  await reader.stop();
});

t.test('what is no message is passed over, by readers and takers alike', async (t) => {
  const bus = await open(t);
  const connection = await raw(t);
  const stream = connection.jetstream();
  const subject = bus.subjects.command('p1', 'counter', 'c');
  await stream.publish(subject, 'no json');
  await stream.publish(subject, '{"without":"type"}');
  await stream.publish(subject, 'null');
  await bus.publish(command(bus, 'p1', 'c'));
  const types: string[] = [];
  const reader = await bus.readCommands(all, 0, ({ message }) => types.push(message.type) > 0);
  await until(systemTime, () => types.length === 4);
  t.strictSame(types, ['', '', '', 'COUNT']);
  await reader.stop();

  await stream.publish(bus.subjects.work('vision', 'p1', 'asset', 'a'), 'no json');
  await bus.publish({ subject: bus.subjects.work('vision', 'p1', 'asset', 'a'), id: 'w', body: { n: 1 } });
  const items: WorkItem[] = [];
  const taker = await bus.takeWork('vision', 10, (item) => items.push(item));
  await until(systemTime, () => items.length === 1);
  await items[0]?.done();
  await until(systemTime, async () => (await bus.countWork()) === 0);
  t.ok(logged.includes('work that is no JSON') && logged.includes('command that is no JSON'));
  await taker.stop();
});

t.test('readers and takers go on when the server has lost their consumers', async (t) => {
  const bus = await open(t);
  const manager = await (await raw(t)).jetstreamManager();
  const seqs: number[] = [];
  const reader = await bus.readCommands(all, 0, ({ seq }) => seqs.push(seq) > 0);
  const items: WorkItem[] = [];
  const taker = await bus.takeWork('vision', 10, (item) => items.push(item));
  await bus.publish(command(bus, 'p1', 'c'));
  await until(systemTime, () => seqs.length === 1);
  for (const name of [bus.subjects.streams.commands, bus.subjects.streams.work])
    for await (const consumer of manager.consumers.list(name))
      await manager.consumers.delete(name, consumer.name);
  await bus.publish(command(bus, 'p1', 'c'));
  await bus.publish({ subject: bus.subjects.work('vision', 'p1', 'asset', 'a'), id: 'w', body: {} });
  await until(systemTime, () => seqs.length === 2 && items.length === 1, 10_000);
  t.strictSame(seqs, [1, 2]);
  await reader.stop();
  await taker.stop();
});

/** A way to the server that can be cut. */
async function createWay(t: Test) {
  const { port, hostname } = new URL(natsUrl.includes('://') ? natsUrl : `nats://${natsUrl}`);
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((socket) => {
    if (isCut) return socket.destroy();
    const onward = dial(Number(port), hostname);
    for (const one of [socket, onward]) {
      sockets.add(one);
      one.on('error', () => one.destroy());
      one.on('close', () => sockets.delete(one));
    }
    socket.pipe(onward).pipe(socket);
    return socket;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    cut() {
      isCut = true;
      for (const socket of sockets) socket.destroy();
    },
    heal() {
      isCut = false;
    },
  };
}

t.test('who follows facts for the first time has those of before, and later only what is new', async (t) => {
  const bus = await open(t);
  const told: unknown[] = [];
  const follow = () =>
    bus.followFacts('first', ['ready'], async (facts) => {
      told.push(...facts);
    });
  const publish = (n: number) =>
    bus.publish({ subject: bus.subjects.fact('p1', 'a', 'ready'), id: `f${n}`, body: { n } });
  await publish(1);
  const first = await follow();
  await publish(2);
  await until(systemTime, () => told.length === 2);
  await first.stop();
  await publish(3);
  const second = await follow();
  await until(systemTime, () => told.length === 3);
  t.strictSame(told, [{ n: 1 }, { n: 2 }, { n: 3 }]);
  await second.stop();
});

t.test('what reads ends with the bus, and leaves nothing that would keep a process', async (t) => {
  const prefix = `${uniqueName('b')}.`;
  const keeper = await open(t, { prefix });
  const bus = await openBus(optionsFor(prefix));
  const before = logged.length;
  await bus.readCommands(all, 0, () => true);
  await bus.takeWork('merge', 1, () => undefined);
  await bus.followFacts('ends', ['ready'], async () => undefined);
  const watches = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const watching = watches();
  await bus.close();
  await until(systemTime, () => watches() < watching);
  await delay(1_000);
  t.strictSame(logged.slice(before), [], 'nobody goes on trying');
  t.equal(keeper.connected(), true);
});

t.test('a lost connection comes back, with its reader, its taker and who listens', async (t) => {
  const way = await createWay(t);
  const prefix = `${uniqueName('b')}.`;
  const other = await openBus(optionsFor(prefix));
  const bus = await openBus(optionsFor(prefix, { url: way.url }));
  t.teardown(async () => {
    await bus.close();
    await other.deleteStreams();
    await other.close();
  });
  let reconnects = 0;
  const counting = bus.onReconnect(() => {
    reconnects += 1;
  });
  const seqs: number[] = [];
  const heard: unknown[] = [];
  const items: WorkItem[] = [];
  const reader = await bus.readCommands(all, 0, ({ seq }) => seqs.push(seq) > 0);
  const taker = await bus.takeWork('vision', 10, (item) => items.push(item));
  bus.listen('own.hb', (body) => heard.push(body));
  await other.publish(command(other, 'p1', 'c'));
  await until(systemTime, () => seqs.length === 1);

  way.cut();
  await until(systemTime, () => !bus.connected());
  await other.publish(command(other, 'p1', 'c'));
  await other.publish({ subject: other.subjects.work('vision', 'p1', 'asset', 'a'), id: 'w', body: {} });
  await delay(300);
  t.equal(seqs.length, 1);
  way.heal();
  await until(systemTime, () => bus.connected());
  await until(systemTime, () => seqs.length === 2 && items.length === 1, 12_000);
  other.send('own.hb', { n: 1 });
  await until(systemTime, () => heard.length === 1);
  t.equal(reconnects, 1);
  counting.stop();
  t.ok(logged.includes('message bus is back'));
  await bus.publish(command(bus, 'p1', 'c'));
  await until(systemTime, () => seqs.length === 3);
  await reader.stop();
  await taker.stop();
});
