/** The hub over doubles of bus and connections, on a virtual clock: see real.test.ts for the real ones. */
import fc from 'fast-check';
import t from 'tap';
import { sse } from '../../schemas/limits.ts';
import type { Filter } from '../../src/sse/listener.ts';
import { endStreamsOnMessages, projectChanged, sessionEnded } from '../../src/sse/messages.ts';
import { createConnection, type Fact, never, nothing, setUp } from './doubles.ts';

/** Facts that a test tells apart. */
type Five = [Fact, Fact, Fact, Fact, Fact];
const tsOf = ({ ts }: Fact) => ts;
const asset = (assetId: string) => ({ assetId, isLifecycleOnly: false });
const keyOf = (assetId: string) => ({
  filter: { assetId, isLifecycleOnly: true },
  grant: { kind: 'key' as const, key: 'pk_1' },
});

t.test('a stream begins at once with its head and retry', async (t) => {
  const { open, hub } = setUp();
  const stream = await open({ headers: { 'Access-Control-Allow-Origin': '*' } });
  t.equal(await stream.opening, 'open');
  t.equal(stream.status, '200 OK');
  t.match(stream.headers, {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-store, no-transform',
    'X-Accel-Buffering': 'no',
    'Access-Control-Allow-Origin': '*',
  });
  t.equal(stream.text, 'retry: 3000\n\n');
  t.match(hub.stats(), { streams: 1, topics: 1, blocked: 0 });
  t.strictSame(stream.faults, []);
});

t.test('live events reach who wants them, once, in order, with their ts as id', async (t) => {
  const { open, publish, time, bus } = setUp();
  const all = await open();
  const one = await open({ filter: asset('a1') });
  const other = await open({ filter: asset('a2') });
  const some = await open({
    filter: { isLifecycleOnly: false, types: new Set(['ready', 'webhook_failed']) },
  });
  const key = await open(keyOf('a1'));
  const foreign = await open({ projectId: 'p2' });

  // Two in one millisecond: their ts differ all the same.
  const queued = publish('queued', { options: { secret: 'prompt' } });
  const ready = publish('ready', { mp4_url: 'http://x/m.mp4' });
  const hook = publish('webhook_failed', { delivery_id: 'd1', response_code: null });
  bus.deliver(queued);
  bus.deliver({ ...ready, ts: ready.ts });
  bus.deliver({ nonsense: true } as unknown as Fact);
  await time.settle();

  t.strictSame(all.ids, [queued.ts, ready.ts, hook.ts]);
  t.strictSame(one.ids, [queued.ts, ready.ts, hook.ts]);
  t.strictSame(other.ids, []);
  t.strictSame(some.ids, [ready.ts, hook.ts]);
  t.strictSame(key.ids, [queued.ts, ready.ts]);
  t.strictSame(foreign.ids, []);
  t.notOk('options' in (all.events[0]?.data ?? {}), 'data are the fields of an event and no more');
  t.match(all.events[1], {
    event: 'ready',
    data: { event: 'ready', mp4_url: 'http://x/m.mp4', ts: ready.ts },
  });
  t.equal(all.writes, 2, 'all that is new goes out in one write');
});

t.test('an asset stream shows the current run first, then goes on live', async (t) => {
  const { open, publish, time, bus } = setUp();
  publish('queued');
  publish('failed', { error_code: 'i2v_failed' });
  const run2 = { run: 2 };
  const shown = [publish('queued', run2), publish('vision_started', { ...run2, stage: 'vision' })];
  const hook = publish('webhook_dispatched', { ...run2, delivery_id: 'd1' });
  publish('queued', { asset_id: 'a2' });

  // What is published while the document is read comes once.
  let during: Fact | undefined;
  bus.beforeRead = async () => {
    bus.beforeRead = nothing;
    during = publish('vision_completed', { ...run2, stage: 'vision', latency_ms: 5 });
  };
  const key = await open(keyOf('a1'));
  const owner = await open({ filter: asset('a1') });
  const live = publish('ready', run2);
  await time.settle();

  const ids = shown.map(({ ts }) => ts);
  t.strictSame(key.ids, [...ids, during?.ts, live.ts]);
  t.strictSame(owner.ids, [...ids, hook.ts, during?.ts, live.ts]);
});

t.test('many streams of one asset are given its run from memory', async (t) => {
  const { open, publish, time, bus } = setUp();
  await open();
  await time.advance(6_000);
  const run = [publish('queued'), publish('vision_started')];
  await time.settle();
  const { reads } = bus;
  const streams = await Promise.all(Array.from({ length: 20 }, () => open(keyOf('a1'))));
  t.equal(bus.reads, reads);
  for (const stream of streams)
    t.strictSame(
      stream.ids,
      run.map(({ ts }) => ts),
    );
});

t.test('an asset without events shows nothing until there is one', async (t) => {
  const { open, publish, time } = setUp();
  const stream = await open(keyOf('a9'));
  t.strictSame(stream.ids, []);
  const queued = publish('queued', { asset_id: 'a9' });
  await time.settle();
  t.strictSame(stream.ids, [queued.ts]);
});

t.test('a resume continues right after the id', async (t) => {
  const { open, publish, time, bus } = setUp();
  const events = [
    publish('queued'),
    publish('vision_started'),
    publish('webhook_dispatched'),
    publish('vision_completed'),
    publish('ready'),
  ];
  const ids = events.map(({ ts }) => ts);
  await time.advance(60_000);

  t.test('from what is stored, every seam', async (t) => {
    for (const [n, id] of ids.entries()) {
      const project = await open({ lastEventId: String(id) });
      t.strictSame(project.ids, ids.slice(n + 1), 'project stream');
      const owner = await open({ filter: asset('a1'), lastEventId: String(id) });
      t.strictSame(owner.ids, ids.slice(n + 1), 'asset stream');
      const key = await open({ ...keyOf('a1'), lastEventId: String(id) });
      t.strictSame(
        key.ids,
        ids.slice(n + 1).filter((other) => other !== ids[2]),
        'key stream',
      );
    }
    const filtered = await open({
      filter: { isLifecycleOnly: false, types: new Set(['ready']) },
      lastEventId: String(ids[0]),
    });
    t.strictSame(filtered.ids, ids.slice(4));
  });

  t.test('from memory, every seam, and then live', async (t) => {
    await time.advance(6_000);
    const more = [publish('queued', { asset_id: 'a2' }), publish('ready', { asset_id: 'a2' })];
    await time.settle();
    const { reads } = bus;
    const first = await open({ lastEventId: String(more[0]?.ts) });
    const last = await open({ lastEventId: String(more[1]?.ts) });
    t.equal(bus.reads, reads, 'nothing is read');
    const live = publish('queued', { asset_id: 'a3' });
    await time.settle();
    t.strictSame(first.ids, [more[1]?.ts, live.ts]);
    t.strictSame(last.ids, [live.ts]);
  });

  t.test('an id that is none, or was never issued, means live events only', async (t) => {
    const now = time.clock.now();
    for (const lastEventId of ['abc', '-1', '1e3', `${now + 10_000_000}`, '9'.repeat(40)]) {
      for (const filter of [{ isLifecycleOnly: false }, asset('a1'), keyOf('a1').filter]) {
        const stream = await open({ lastEventId, filter });
        t.strictSame(stream.ids, [], lastEventId);
        const live = publish('queued');
        await time.settle();
        t.strictSame(stream.ids, [live.ts], `${lastEventId} then live`);
        stream.leave();
      }
    }
  });
});

t.test('a resume from before what is kept says so and shows all that is kept', async (t) => {
  const { open, publish, time } = setUp();
  const old = publish('queued');
  const oldDone = publish('ready');
  await time.advance(25 * 3_600_000);
  const kept = [publish('queued', { asset_id: 'a2' }), publish('ready', { asset_id: 'a2' })];
  const lost = ': some events are older than what is kept\n\n';

  const project = await open({ lastEventId: String(old.ts - 5) });
  t.strictSame(
    project.ids,
    kept.map(({ ts }) => ts),
  );
  t.ok(project.text.startsWith(`retry: 3000\n\n${lost}id:`));

  const whole = await open({ ...keyOf('a1'), lastEventId: String(old.ts) });
  t.strictSame(whole.ids, [oldDone.ts], 'the current run stays with the asset');
  t.notMatch(whole.text, lost);

  const before = await open({ ...keyOf('a1'), lastEventId: String(old.ts - 10) });
  t.strictSame(before.ids, [old.ts, oldDone.ts]);
  t.match(before.text, lost);
  const nothing = await open({ ...keyOf('a7'), lastEventId: String(old.ts - 10) });
  t.equal(nothing.text, `retry: 3000\n\n${lost}`);
});

t.test('a resume reaches back over a regenerate to earlier runs', async (t) => {
  const { open, publish, time, bus } = setUp();
  const first = [publish('queued'), publish('ready')];
  const second = [publish('queued', { run: 2 }), publish('ready', { run: 2 })];
  // The document keeps the present run alone; the facts stream has the rest of the day.
  bus.documents.set('a1', second);
  await time.advance(60_000);
  const stream = await open({ ...keyOf('a1'), lastEventId: String(first[0]?.ts) });
  t.strictSame(
    stream.ids,
    [first[1], ...second].map((fact) => fact?.ts),
  );
});

t.test('a full connection is written nothing and goes on where it stopped', async (t) => {
  const { open, publish, time, hub } = setUp();
  const slow = await open();
  const quick = await open();
  const sent: number[] = [];
  const say = async (count: number) => {
    for (let n = 0; n < count; n += 1) sent.push(publish('queued', { asset_id: `a${n}` }).ts);
    await time.settle();
  };
  await say(3);
  slow.isFull = true;
  await say(3);
  const { writes, kept } = slow;
  await say(500);
  t.equal(slow.writes, writes, 'nothing more while it is full');
  t.equal(slow.kept, kept);
  t.equal(hub.stats().blocked, 1);
  t.strictSame(quick.ids, sent, 'the others get everything');

  slow.writable();
  t.equal(hub.stats().blocked, 1, 'it was writable for less than what is kept');
  slow.isFull = false;
  slow.writable();
  t.strictSame(slow.ids, sent);
  await say(2);
  // So many events in a moment are load.
  await time.advance(20);
  t.strictSame(slow.ids, sent, 'and it is live again');
  t.equal(hub.stats().blocked, 0);
  t.strictSame([slow.faults, quick.faults], [[], []]);
});

t.test('catching up goes in slices, each waiting for the connection', async (t) => {
  const { open, publish, time } = setUp();
  const slow = await open();
  slow.isFull = true;
  const sent: number[] = [];
  for (let n = 0; n < 900; n += 1) sent.push(publish('failed', { error_msg: 'x'.repeat(600) }).ts);
  await time.settle();
  const afterFirst = slow.kept.length;
  slow.isFull = false;
  const write = slow.response.write.bind(slow.response);
  const sizes: number[] = [];
  slow.response.write = (chunk) => {
    sizes.push(chunk.length);
    write(chunk);
    // Takes each slice whole, and is full again after it.
    return chunk.length < 10;
  };
  for (let turn = 0; turn < 40 && slow.ids.length < sent.length; turn += 1) slow.writable();
  t.strictSame(slow.ids, sent);
  t.ok(Math.max(...sizes) <= 64 * 1024, 'at most 64 KB at once');
  t.ok(afterFirst > 0);
});

t.test('who missed the same is given it from one joining, and everybody what it asked for', async (t) => {
  const { open, publish, time } = setUp();
  const ids = Array.from({ length: 4 }, (_, n) => publish('stage_started', { asset_id: `a${n % 2}` }).ts);
  const after = (id: number | undefined, more = {}) => open({ lastEventId: String(id), ...more });
  const types = new Set(['ready'] as const);
  const filter = { isLifecycleOnly: false, types };

  const [stored, too] = await Promise.all([after(ids[0]), after(ids[0])]);
  const ready = await after(ids[0], { filter });
  for (const stream of [stored, too]) t.strictSame(stream.ids, ids.slice(1));
  t.equal(stored.chunks[1], too.chunks[1], 'of what is stored');
  t.strictSame(ready.ids, []);

  await time.advance(6_000);
  const more = Array.from({ length: 6 }, (_, n) => publish('ready', { asset_id: `a${n % 2}` }).ts);
  await time.settle();
  const [first, second, later] = [await after(more[0]), await after(more[0]), await after(more[2])];
  const one = await after(more[0], { filter: { ...filter, assetId: 'a1' } });
  t.equal(first.chunks[1], second.chunks[1], 'of what is in memory');
  t.strictSame(first.ids, more.slice(1));
  t.strictSame(second.ids, more.slice(1));
  t.strictSame(later.ids, more.slice(3));
  t.strictSame(one.ids, [more[1], more[3], more[5]]);

  const live = publish('ready', { asset_id: 'a1' }).ts;
  await time.settle();
  const last = await after(more[0]);
  t.strictSame(last.ids, [...more.slice(1), live]);
  for (const stream of [first, second, later, one, ready]) t.equal(stream.ids.at(-1), live);
  await time.advance(2_000);
  const anew = await after(more[0]);
  t.strictSame(anew.ids, last.ids);
  t.not(anew.chunks[1], first.chunks[1], 'it is not kept');
});

t.test('a connection that stays full is cut after 15 seconds, and may resume', async (t) => {
  const { open, publish, time, hub } = setUp();
  const slow = await open();
  slow.isFull = true;
  const first = publish('queued');
  await time.settle();
  await time.advance(sse.blockedMs - 300);
  t.ok(slow.isOpen);
  await time.advance(500);
  t.ok(slow.isCut);
  t.equal(slow.ends, 1);
  t.match(hub.stats(), { streams: 0, endedSlow: 1, blocked: 0 });
  const missed = publish('ready');
  await time.settle();
  const again = await open({ lastEventId: String(first.ts) });
  t.strictSame(again.ids, [missed.ts]);
});

t.test('who has fallen out of the ring is cut when it drains', async (t) => {
  const { open, publish, time, hub } = setUp();
  const slow = await open();
  slow.isFull = true;
  for (let n = 0; n < sse.ringEvents + 10; n += 1) publish('queued');
  await time.settle();
  for (let n = 0; n < sse.ringEvents + 10; n += 1) publish('queued');
  await time.settle();
  slow.isFull = false;
  slow.writable();
  t.notOk(slow.isOpen);
  t.equal(hub.stats().endedSlow, 1);
  slow.writable();
  t.strictSame(slow.faults, []);
});

t.test('more events in one turn than the ring holds all reach a live stream', async (t) => {
  const { open, publish, time } = setUp();
  const stream = await open();
  const sent: number[] = [];
  for (let n = 0; n < 3 * sse.ringEvents; n += 1) sent.push(publish('queued').ts);
  await time.settle();
  t.strictSame(stream.ids, sent);
});

t.test('a resume of a large project is sent in pieces that wait for the connection', async (t) => {
  const { open, publish, time } = setUp();
  const sent = [publish('queued').ts];
  for (let n = 0; n < 2_000; n += 1) sent.push(publish('failed', { error_msg: 'x'.repeat(300) }).ts);
  await time.advance(60_000);
  const connection = createConnection();
  connection.isFull = true;
  const stream = await open({ lastEventId: String(sent[0]) });
  t.strictSame(stream.ids, sent.slice(1));

  const slow = await open({ lastEventId: String(sent[1]) });
  t.ok(slow.ids.length > 0);
  const full = await open({ lastEventId: 'x' });
  full.leave();
  t.strictSame(slow.ids, sent.slice(2));
});

t.test('a replay waits while its connection is full, and ends with it', async (t) => {
  const { open, publish, time, bus, hub } = setUp();
  const sent = [publish('queued').ts];
  for (let n = 0; n < 1_000; n += 1) sent.push(publish('failed', { error_msg: 'x'.repeat(300) }).ts);
  await time.advance(60_000);
  const gates: (() => void)[] = [];
  bus.beforeRead = () => new Promise((resolve) => gates.push(resolve));
  const slow = await open({ lastEventId: String(sent[0]) });
  const stuck = await open({ lastEventId: String(sent[0]) });
  slow.isFull = true;
  stuck.isFull = true;
  for (const gate of gates) gate();
  await time.settle();
  const { writes } = slow;
  const live = publish('ready');
  await time.settle();
  t.equal(slow.writes, writes);
  slow.isFull = false;
  slow.writable();
  await time.settle();
  t.strictSame(slow.ids, [...sent.slice(1), live.ts]);
  await time.advance(sse.blockedMs + 500);
  t.ok(stuck.isCut);
  t.equal(hub.stats().streams, 1);
  t.strictSame([slow.faults, stuck.faults], [[], []]);
});

t.test('silence is broken by a comment every 15 seconds, and only silence', async (t) => {
  const { open, publish, time } = setUp();
  const stream = await open();
  const comments = () => stream.text.split('\n\n').filter((part) => part === ':').length;
  await time.advance(14_800);
  t.equal(comments(), 0);
  await time.advance(400);
  t.equal(comments(), 1);
  await time.advance(10_000);
  publish('queued');
  await time.settle();
  await time.advance(14_500);
  t.equal(comments(), 1, 'an event starts the silence anew');
  await time.advance(1_000);
  t.equal(comments(), 2);
});

t.test('a stream lives for 80 to 100 % of five minutes and ends in order', async (t) => {
  const random = [0, 0, 1, 1];
  const { open, time, hub, bus } = setUp({ random: () => random.shift() ?? 0.5 });
  const short = await open();
  const long = await open();
  t.match(short.text, 'retry: 1000\n');
  t.match(long.text, 'retry: 5000\n');
  await time.advance(0.8 * sse.maxMs - 200);
  t.ok(short.isOpen);
  await time.advance(400);
  t.notOk(short.isOpen);
  t.notOk(short.isCut);
  t.equal(short.ends, 1);
  await time.advance(0.2 * sse.maxMs - 600);
  t.ok(long.isOpen);
  await time.advance(600);
  t.notOk(long.isOpen);

  t.equal(hub.stats().topics, 1, 'the subscription stays for a moment');
  await time.advance(6_000);
  t.equal(hub.stats().topics, 0);
  t.equal(bus.subscriptions, 4, 'those for ends of runs alone');
  t.equal(time.timers, 0, 'nothing ticks without streams');
});

t.test('a client that leaves takes everything about it along', async (t) => {
  const { open, publish, time, hub } = setUp();
  const stream = await open({ filter: asset('a1') });
  stream.leave();
  publish('queued');
  await time.settle();
  await time.advance(20_000);
  t.strictSame(stream.faults, []);
  t.equal(stream.ends, 0);
  t.match(hub.stats(), { streams: 0, topics: 0 });

  const early = setUp();
  let subscribed: () => void = () => undefined;
  early.bus.onFlush = () => new Promise((resolve) => (subscribed = resolve));
  const gone = await early.open();
  gone.leave();
  subscribed();
  t.equal(await gone.opening, 'gone');
  t.equal(gone.text, '');
});

t.test('streams end at once when what let them in has ended', async (t) => {
  const { open, hub } = setUp();
  const handlers = new Map<string, (body: unknown) => void>();
  const endings = endStreamsOnMessages(hub, (name, call) => {
    handlers.set(name, call);
    return { stop: () => void handlers.delete(name) };
  });
  const send = (name: string, body: unknown) => handlers.get(name)?.(body);
  const user = (sessionId: string, projectId = 'p1') =>
    open({ projectId, grant: { kind: 'user', userId: 'u1', sessionId } });
  const key = (name: string) => open({ ...keyOf('a1'), grant: { kind: 'key', key: name } });
  const [oldKey, newKey, s1, s2, s3, other] = await Promise.all([
    key('pk_old'),
    key('pk_new'),
    user('s1'),
    user('s2'),
    user('s3'),
    user('s3', 'p2'),
  ]);

  send(projectChanged, { projectId: 'p1' });
  send(projectChanged, { nonsense: 1 });
  send(sessionEnded, { nonsense: 1 });
  t.equal(hub.stats().streams, 6);
  send(projectChanged, { projectId: 'p1', key: 'pk_old' });
  t.strictSame([oldKey.isOpen, newKey.isOpen, s1.isOpen], [false, true, true]);
  send(sessionEnded, { sessionId: 's1' });
  t.strictSame([s1.isOpen, s2.isOpen], [false, true]);
  send(sessionEnded, { userId: 'u1', exceptSessionId: 's3' });
  t.strictSame([s2.isOpen, s3.isOpen, newKey.isOpen], [false, true, true]);
  send(projectChanged, { projectId: 'p1', isDeleted: true });
  t.strictSame([newKey.isOpen, s3.isOpen, other.isOpen], [false, false, true]);
  send(sessionEnded, { userId: 'u2' });
  t.ok(other.isOpen);
  send(sessionEnded, { userId: 'u1' });
  t.notOk(other.isOpen);
  t.equal(oldKey.ends + s1.ends + s2.ends, 3);
  endings.stop();
  t.equal(handlers.size, 0);
});

t.test('what was missed while the bus was away comes when it is back', async (t) => {
  const { open, publish, time, bus, hub } = setUp();
  const before = publish('queued');
  const stream = await open({ filter: asset('a1') });
  const quiet = await open({ projectId: 'p2' });
  await time.advance(10_000);

  bus.isConnected = false;
  t.equal(await (await open()).opening, 'unavailable');
  const missed = [publish('vision_started'), publish('vision_completed')];
  // Its command had come before the stream was opened.
  const missedToo = publish('queued', { project_id: 'p2', asset_id: 'b1', ts: before.ts - 5_000 });
  const reads: (() => void)[] = [];
  bus.beforeRead = () => new Promise((resolve) => reads.push(resolve));
  bus.reconnect();
  await time.settle();
  bus.beforeRead = nothing;
  const during = publish('ready');
  await time.settle();
  t.strictSame(stream.ids, [before.ts], 'nothing overtakes what was missed');
  for (const read of reads) read();
  await time.settle();
  await time.settle();
  t.strictSame(stream.ids, [before.ts, ...missed.map(({ ts }) => ts), during.ts]);
  t.strictSame(quiet.ids, [missedToo.ts]);
  const resumed = await open({ lastEventId: String(missed[0]?.ts) });
  t.strictSame(resumed.ids, [missed[1]?.ts, during.ts]);
  t.equal(hub.stats().streams, 3);
});

t.test('a fact that says to come after one that was not heard waits until that one is read', async (t) => {
  const { open, fact, time, bus } = setUp();
  const stream = await open();
  await time.advance(10_000);
  const [one, two, three, four, five] = Array.from({ length: 5 }, () => fact('stage_started')) as Five;
  bus.publish(one, 'unknown');
  bus.publish(two, one.ts);
  await time.settle();
  t.strictSame(stream.ids, [one.ts, two.ts]);
  t.equal(bus.reads, 0, 'nothing is read while all are heard');

  bus.stored.push(three);
  bus.publish(four, three.ts);
  bus.publish(five, four.ts);
  await time.settle();
  await time.settle();
  t.strictSame(stream.ids, [one, two, three, four, five].map(tsOf));
  t.equal(bus.reads, 1);

  bus.deliver(two, one.ts);
  bus.publish(fact('ready'));
  await time.settle();
  t.equal(bus.reads, 1, 'neither a repetition nor one that says nothing is read after');

  const unknown = fact('of a later version' as 'ready');
  bus.publish(unknown);
  bus.publish(fact('ready'), unknown.ts);
  await time.settle();
  t.equal(bus.reads, 1, 'nor one after an event that is shown to nobody');
  const unheard = fact('of a later version' as 'ready');
  bus.stored.push(unheard);
  const last = fact('ready');
  bus.publish(last, unheard.ts);
  await time.settle();
  await time.settle();
  t.strictSame([bus.reads, stream.ids.at(-1)], [2, last.ts], 'nor is one waited for');
});

t.test('an owner that does not know what came before has it looked up', async (t) => {
  const { open, fact, time, bus } = setUp();
  const stream = await open();
  await time.advance(10_000);
  const [one, two, three] = Array.from({ length: 3 }, () => fact('stage_started')) as Five;
  bus.publish(one, 'unknown');
  bus.stored.push(two);
  bus.publish(three, 'unknown');
  await time.settle();
  t.strictSame(stream.ids, [one, two, three].map(tsOf));

  const fresh = await open({ projectId: 'p2' });
  await time.advance(10_000);
  const [missed, heard] = Array.from({ length: 2 }, () => fact('queued', { project_id: 'p2' })) as Five;
  bus.stored.push(missed);
  bus.publish(heard, missed.ts);
  await time.settle();
  t.strictSame(fresh.ids, [missed, heard].map(tsOf), 'also the first of a project');
});

t.test('a named fact that is stored late is waited for, one that never is for 15 seconds', async (t) => {
  const { open, fact, time, bus, pass } = setUp();
  const stream = await open();
  await time.advance(10_000);
  const [one, two, three, four, five] = Array.from({ length: 5 }, () => fact('stage_started')) as Five;
  bus.publish(one);
  bus.publish(three, two.ts);
  await time.advance(1_000);
  t.strictSame(stream.ids, [one.ts], 'nothing overtakes');
  // Stored behind a later one, as after a try that failed.
  bus.stored.push(two);
  await time.advance(300);
  t.strictSame(stream.ids, [one, two, three].map(tsOf));
  const resumed = await open({ lastEventId: String(one.ts - 1) });
  t.strictSame(
    resumed.ids,
    [one, two, three].map(tsOf),
    'in order, also for who reads it from what is stored',
  );

  bus.publish(five, four.ts);
  await pass(14_000);
  t.strictSame(stream.ids, [one, two, three].map(tsOf));
  await pass(2_000);
  t.strictSame(stream.ids, [one, two, three, five].map(tsOf));
  t.ok(stream.isOpen);
});

t.test('when a beat of a worker has not come, every project looks for what it missed', async (t) => {
  const { open, fact, time, bus } = setUp();
  const streams = [await open(), await open({ projectId: 'p2' })];
  await time.advance(10_000);
  const missed = [fact('queued'), fact('queued', { project_id: 'p2' })];
  bus.stored.push(...missed);
  bus.miss();
  bus.miss();
  await time.advance(900);
  t.strictSame(
    streams.map(({ ids }) => ids),
    [[], []],
    'the bus is given a second to know again who listens',
  );
  await time.advance(200);
  t.strictSame(
    streams.map(({ ids }) => ids),
    missed.map(({ ts }) => [ts]),
  );
  t.equal(bus.reads, 2, 'once for all that were missed together');
});

t.test('a gap in which more comes than is held ends the streams', async (t) => {
  const { open, fact, time, bus } = setUp();
  const stream = await open();
  await time.advance(10_000);
  bus.publish(fact('queued'));
  bus.beforeRead = () => new Promise((resolve) => time.clock.after(5_000, resolve));
  const lost = fact('stage_started').ts;
  for (let n = 0; n < 4_200; n += 1) bus.publish(fact('stage_started'), lost);
  await time.advance(6_000);
  t.notOk(stream.isOpen);
});

t.test('streams whose missed events cannot be read end, and those let in no more', async (t) => {
  const { open, bus, time, hub, pass } = setUp();
  const stream = await open();
  await time.advance(1_000);
  bus.beforeRead = async () => Promise.reject(new Error('no stream'));
  bus.reconnect();
  await pass(14_000);
  t.ok(stream.isOpen, 'as long as the bus may have no leader');
  await pass(2_000);
  t.notOk(stream.isOpen);
  t.match(bus.warnings.join(), 'their facts cannot be read');
  t.equal(hub.stats().topics, 0);

  bus.beforeRead = never;
  const stuck = await open();
  bus.reconnect();
  bus.reconnect();
  await pass(14_000);
  t.ok(stuck.isOpen);
  await pass(10_000);
  t.notOk(stuck.isOpen, 'a read that stands still');

  bus.beforeRead = nothing;
  const revoked = await open(keyOf('a1'));
  const revokedToo = await open(keyOf('a2'));
  bus.granted = async () => false;
  bus.reconnect();
  await time.settle();
  t.strictSame([revoked.isOpen, revokedToo.isOpen], [false, false]);
  const unknown = await open();
  bus.granted = async () => Promise.reject(new Error('no store'));
  bus.reconnect();
  await time.settle();
  t.notOk(unknown.isOpen);
});

t.test('a stream that cannot be subscribed for is refused within two seconds', async (t) => {
  const { open, bus, time, hub } = setUp();
  bus.onFlush = never;
  const stream = await open();
  await time.advance(2_100);
  t.equal(await stream.opening, 'unavailable');
  t.equal(stream.text, '');
  t.equal(hub.stats().topics, 0);
  bus.onFlush = () => Promise.reject(new Error('closed'));
  t.equal(await (await open()).opening, 'unavailable');
  bus.onFlush = nothing;
  t.equal(await (await open()).opening, 'open');
});

t.test('a replay that fails ends with a long retry, and one that stands still too', async (t) => {
  const { open, bus, time, publish } = setUp();
  const fact = publish('queued');
  bus.beforeRead = async () => Promise.reject(new Error('no stream'));
  const failed = await open({ lastEventId: String(fact.ts) });
  t.notOk(failed.isOpen);
  t.ok(failed.text.endsWith(`retry: ${sse.outageRetryMs}\n\n`));
  t.match(bus.warnings.join(), 'a replay ended early');

  bus.beforeRead = never;
  const stuck = await open({ lastEventId: String(fact.ts) });
  await time.advance(11_000);
  t.notOk(stuck.isOpen);
  t.ok(stuck.text.endsWith(`retry: ${sse.outageRetryMs}\n\n`));
});

t.test('a project that is quicker than its replay ends the stream instead of skipping', async (t) => {
  const { open, bus, publish, time } = setUp();
  const fact = publish('queued');
  await time.advance(60_000);
  bus.beforeRead = async () => {
    for (let n = 0; n < 2 * sse.ringEvents; n += 1) bus.deliver({ ...publish('queued') });
  };
  const stream = await open({ lastEventId: String(fact.ts) });
  await time.settle();
  await time.settle();
  await time.settle();
  t.strictSame([...stream.ids].sort(), [...new Set(stream.ids)], 'nothing twice, nothing out of order');
  t.notOk(stream.isOpen);
});

t.test('a thousand waiters are told in one turn, and time out on their own', async (t) => {
  const { hub, publish, time, bus } = setUp();
  const waits = Array.from({ length: 1_000 }, () => hub.waitForEnd('a1', 8_000));
  const other = hub.waitForEnd('a2', 8_000);
  const gone = new AbortController();
  const aborted = hub.waitForEnd('a1', 8_000, gone.signal);
  t.equal(hub.stats().waiting, 1_002);
  t.equal(bus.subscriptions, 4, 'none for a waiter');
  gone.abort();
  t.equal(await aborted, 'timeout');
  t.equal(await hub.waitForEnd('a1', 8_000, gone.signal), 'timeout');
  publish('vision_started');
  t.equal(hub.stats().waiting, 1_001);
  publish('ready');
  t.strictSame(new Set(await Promise.all(waits)), new Set(['ready']));
  t.equal(hub.stats().waiting, 1);
  await time.advance(7_999);
  t.equal(hub.stats().waiting, 1);
  await time.advance(1);
  t.equal(await other, 'timeout');

  const seen: string[] = [];
  const changes = hub.onRunChange(({ assetId, event }) => seen.push(`${assetId} ${event}`));
  const failed = hub.waitForEnd('a3', 8_000);
  const cancelled = hub.waitForEnd('a4', 8_000);
  publish('queued', { asset_id: 'a3' });
  publish('failed', { asset_id: 'a3' });
  publish('cancelled', { asset_id: 'a4' });
  bus.deliver({ event: 'ready' } as Fact);
  t.strictSame([await failed, await cancelled], ['failed', 'cancelled']);
  t.strictSame(seen, ['a3 queued', 'a3 failed', 'a4 cancelled']);
  changes.stop();
  publish('failed', { asset_id: 'a3' });
  t.equal(seen.length, 3);
});

t.test('a stop gives what is new, ends every stream in order and lets waiters go', async (t) => {
  const { open, hub, publish, time, bus } = setUp();
  const streams = await Promise.all(Array.from({ length: 450 }, () => open()));
  const wait = hub.waitForEnd('a9', 8_000);
  const last = publish('ready');
  const closing = hub.close();
  await time.settle();
  await closing;
  for (const { isOpen, isCut, ids, ends } of streams) {
    if (isOpen || isCut || ids[0] !== last.ts || ends !== 1) t.fail('a stream was not ended in order');
  }
  t.equal(await wait, 'timeout');
  t.match(streams[0]?.text, /\n\nretry: 5000\n\n$/, 'with a wait of its own');
  t.equal(await (await open()).opening, 'stopping');
  t.equal(bus.subscriptions, 0);
  t.equal(time.timers, 0);
  const refused = createConnection();
  hub.postpone(refused.response, {});
  t.equal(refused.text, 'retry: 5000\n\n', 'sooner than in an outage');
  t.notOk(refused.isOpen);
});

t.test('under load events are joined over at most 20 ms', async (t) => {
  const { open, publish, time } = setUp();
  const stream = await open();
  // A slow write makes the flush long.
  const write = stream.response.write.bind(stream.response);
  stream.response.write = (chunk) => {
    void time.advance(50);
    return write(chunk);
  };
  publish('queued');
  await time.settle();
  const { writes } = stream;
  publish('vision_started');
  publish('vision_completed');
  await time.settle();
  t.equal(stream.writes, writes, 'not at once');
  await time.advance(20);
  t.equal(stream.writes, writes + 1);
  t.equal(stream.ids.length, 3);
});

t.test('many events are joined too, however short each flush, and a lone one is not', async (t) => {
  const { open, publish, time } = setUp();
  const stream = await open();
  const publishSome = async (count: number) => {
    const { writes } = stream;
    for (let n = 0; n < count; n += 1) {
      publish('stage_started');
      await time.advance(5);
    }
    await time.advance(20);
    return stream.writes - writes;
  };
  t.equal(await publishSome(16), 16, 'until it is known that there are many');
  t.ok((await publishSome(32)) <= 9, 'four at a time');
  t.equal(stream.ids.length, 48);
  await time.advance(1_000);
  const { writes } = stream;
  publish('ready');
  await time.settle();
  t.equal(stream.writes, writes + 1, 'at once after a pause');
});

t.test('whatever happens to it, a client that resumes sees every event once and in order', async (t) => {
  const filters = [{ isLifecycleOnly: false }, asset('a1'), keyOf('a1').filter];
  const names = ['publish', 'repeat', 'full', 'drain', 'resume', 'lose', 'wait', 'burst'] as const;
  const step = fc.oneof({ weight: 6, arbitrary: fc.constant('publish' as const) }, fc.constantFrom(...names));

  const run = async (steps: (typeof names)[number][], filter: Filter) => {
    const { open, publish, time, bus } = setUp();
    const seed = publish('queued');
    const sent: Fact[] = [];
    const seen: number[] = [];
    let stream = await open({ filter, lastEventId: String(seed.ts) });
    const say = (count: number) => {
      for (let n = 0; n < count; n += 1) sent.push(publish('stage_started'));
    };
    const actions: Record<(typeof names)[number], () => void | Promise<void>> = {
      publish: () => say(1),
      burst: () => say(40),
      repeat: () => bus.deliver(sent[sent.length >> 1] ?? seed),
      full() {
        stream.isFull = true;
      },
      drain() {
        stream.isFull = false;
        stream.writable();
      },
      wait: () => time.advance(7_000),
      lose() {
        bus.isConnected = false;
        say(1);
        bus.reconnect();
      },
      async resume() {
        seen.push(...stream.ids);
        stream.leave();
        stream = await open({ filter, lastEventId: String(seen.at(-1) ?? seed.ts) });
      },
    };
    for (const name of steps) {
      await actions[name]();
      if (!stream.isOpen) await actions.resume();
      await time.settle();
    }
    await actions.resume();
    seen.push(...stream.ids);
    return { seen, sent: sent.map(({ ts }) => ts), faults: stream.faults };
  };

  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.constantFrom(...filters),
      async (steps, filter) => {
        const { seen, sent, faults } = await run(steps, filter);
        if (seen.join() !== sent.join() || faults.length > 0) {
          throw new Error(`saw ${seen} of ${sent}; ${faults}`);
        }
      },
    ),
    { numRuns: 100 },
  );
  t.pass('all runs');
});
