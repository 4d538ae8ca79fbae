/** What an excellent stream does, as far as hub.test.ts and test/http/events.test.ts do not show it. */
import t from 'tap';
import { sse } from '../../schemas/limits.ts';
import type { Clock } from '../../src/sse/clock.ts';
import { toFrame } from '../../src/sse/frame.ts';
import { createHub } from '../../src/sse/hub.ts';
import { createWheel } from '../../src/sse/wheel.ts';
import { createConnection, type Fact, nothing, setUp } from './doubles.ts';

/** A clock that stands still, and what was put off until the next turn. */
function createStill() {
  const put: (() => void)[] = [];
  const state = { ms: 0 };
  const timers: (() => void)[] = [];
  const clock: Clock = {
    now: () => 1_800_000_000_000 + state.ms,
    monotonic: () => state.ms,
    after(_ms, call) {
      timers.push(call);
      return () => undefined;
    },
    soon: (call) => void put.push(call),
  };
  const turn = () => {
    for (const call of put.splice(0)) call();
  };
  return { clock, state, timers, turn, put };
}

t.test('comments that fall due together are sent some at a time', async (t) => {
  const { clock, state, timers, turn, put } = createStill();
  const visited: number[] = [];
  const wheel = createWheel<{ slot: number; n: number }>(clock, ({ n }) => void visited.push(n));
  const items = Array.from({ length: 1_000 }, (_, n) => ({ slot: -1, n }));
  for (const item of items) wheel.put(item, 500);
  state.ms = 600;
  timers[0]?.();
  t.ok(visited.length > 0 && visited.length <= 300, `${visited.length} at once`);
  for (const item of items.slice(0, 10)) wheel.remove(item);
  const gone = items.slice(0, 10).filter(({ n }) => !visited.includes(n)).length;
  while (put.length > 0) turn();
  t.equal(visited.length, 1_000 - gone, 'each once, and none that was taken out meanwhile');
  t.equal(new Set(visited).size, visited.length);

  const late = createWheel<{ slot: number }>(clock, () => void visited.push(-1));
  late.put({ slot: -1 }, 500);
  state.ms += 3_600_000;
  timers.at(-1)?.();
  while (put.length > 0) turn();
  t.equal(visited.at(-1), -1, 'after an hour of sleep, too');
  late.put({ slot: -1 }, 500);
  late.stop();
  state.ms += 1_000;
  timers.at(-1)?.();
  t.equal(visited.filter((n) => n === -1).length, 1, 'a wheel that was stopped visits nothing');
});

t.test('a flush to many goes in slices, whatever happens between them', async (t) => {
  const { clock, turn, put } = createStill();
  const { open, publish, hub, bus } = setUp({ clock });
  const streams = [];
  for (let n = 0; n < 1_300; n += 1) streams.push(open());
  const all = await Promise.all(streams);
  const first = publish('queued');
  turn();
  const served = all.filter(({ ids }) => ids.length > 0);
  t.ok(served.length > 0 && served.length <= 600, `${served.length} in the first slice`);

  // Meanwhile some leave, served and not, one connection is full, one comes, and there is more to say.
  const waiting = all.filter(({ ids }) => ids.length === 0);
  const left = [served[0], served[5], waiting[0], waiting[7]];
  for (const stream of left) stream?.leave();
  const full = waiting[3];
  if (!full) throw new Error('nobody waits');
  full.isFull = true;
  const second = publish('ready');
  const late = await open();
  while (put.length > 0) turn();
  const third = publish('queued', { asset_id: 'a2' });
  full.isFull = false;
  full.writable();
  while (put.length > 0) turn();

  const everything = [first.ts, second.ts, third.ts];
  const wrong = all.filter((stream) => !left.includes(stream) && stream.ids.join() !== everything.join());
  t.equal(wrong.length, 0, 'each of the others has all events once and in order');
  t.strictSame(late.ids, [third.ts], 'who came after an event was published is not shown it');
  t.strictSame(
    all.flatMap(({ faults }) => faults),
    [],
  );
  t.equal(hub.stats().streams, 1_297);
  t.equal(bus.reads, 0);
});

t.test('a resume after a restart of the front end misses nothing and repeats nothing', async (t) => {
  const { open, publish, hub, bus, time } = setUp();
  const stream = await open();
  const seen = [publish('queued'), publish('vision_started')];
  await time.settle();
  t.strictSame(
    stream.ids,
    seen.map(({ ts }) => ts),
  );
  const closing = hub.close();
  await time.settle();
  await closing;
  t.notOk(stream.isOpen);
  t.notOk(stream.isCut);
  const [, wait] = stream.text.match(/retry: (\d+)\n\n$/) ?? [];
  t.ok(Number(wait) >= sse.minRestartRetryMs && Number(wait) <= sse.maxRestartRetryMs, 'it is told to wait');

  const missed = [publish('vision_completed'), publish('ready')];
  const next = createHub(bus.ports, { clock: time.clock });
  const again = createConnection();
  await next.open(again.response, {
    projectId: 'p1',
    filter: { isLifecycleOnly: false },
    grant: { kind: 'user', userId: 'u1' },
    lastEventId: String(seen[1]?.ts),
    headers: {},
    client: { isGone: false },
  });
  await time.settle();
  const live = publish('queued', { run: 2 });
  await time.settle();
  t.strictSame(
    again.ids,
    [...missed, live].map(({ ts }) => ts),
  );
});

t.test('a hundred who missed the same are given it by one read', async (t) => {
  const { open, publish, bus, time, hub } = setUp();
  const sent: Fact[] = [];
  for (let n = 0; n < 1_001; n += 1) sent.push(publish('stage_started'));
  await time.advance(60_000);
  const { reads } = bus;
  const after = sent[0]?.ts;
  const streams = await Promise.all(Array.from({ length: 100 }, () => open({ lastEventId: String(after) })));
  await time.settle();
  t.ok(bus.reads - reads <= 2, `${bus.reads - reads} reads`);
  const ids = sent
    .slice(1)
    .map(({ ts }) => ts)
    .join();
  t.equal(streams.filter((stream) => stream.ids.join() === ids).length, 100);
  t.equal(hub.stats().replayed, 100);

  t.test('and who comes a moment later sees what came meanwhile, once', async (t) => {
    const more = [publish('ready'), publish('queued', { run: 2 })];
    const late = await open({ lastEventId: String(more[0]?.ts) });
    const all = await open({ lastEventId: String(sent.at(-1)?.ts) });
    await time.settle();
    t.strictSame(late.ids, [more[1]?.ts]);
    t.strictSame(
      all.ids,
      more.map(({ ts }) => ts),
    );
  });

  t.test('and a read that fails ends them all with a long wait, and is not remembered', async (t) => {
    await time.advance(10_000);
    bus.beforeRead = async () => Promise.reject(new Error('no stream'));
    const failed = await Promise.all([open({ lastEventId: '5' }), open({ lastEventId: '5' })]);
    await time.settle();
    for (const { text } of failed) t.ok(text.endsWith(`retry: ${sse.outageRetryMs}\n\n`));
    bus.beforeRead = nothing;
    const next = await open({ lastEventId: String(after) });
    t.ok(next.ids.length > 1_000);
  });
});

t.test('a stream that opens just after its key or session has ended is checked and ended', async (t) => {
  const { open, hub, bus, time } = setUp();
  const key = {
    filter: { assetId: 'a1', isLifecycleOnly: true },
    grant: { kind: 'key' as const, key: 'pk_1' },
  };
  bus.granted = async () => false;
  hub.endWhere(({ grant }) => grant.kind === 'key');
  const late = await open(key);
  const other = await open();
  await time.settle();
  t.strictSame([late.isOpen, late.isCut, other.isOpen], [false, false, true]);
  await time.advance(6_000);
  const after = await open(key);
  t.ok(after.isOpen, 'later on the route knows');
  for (let n = 0; n < 1_001; n += 1) hub.endWhere(() => false);
  const flooded = await open();
  await time.settle();
  t.notOk(flooded.isOpen, 'when too many have ended to be remembered, everybody is checked');
});

t.test('there is no cap on the streams of an asset, and none is evicted for another', async (t) => {
  const { open, publish, time, hub } = setUp();
  const filter = { assetId: 'a1', isLifecycleOnly: true };
  const streams = await Promise.all(Array.from({ length: 600 }, () => open({ filter })));
  const fact = publish('ready');
  await time.settle();
  t.equal(streams.filter(({ isOpen, ids }) => isOpen && ids.join() === String(fact.ts)).length, 600);
  t.match(hub.stats(), { streams: 600, deliveries: 600 });
});

t.test(
  'one project stream carries every asset, so that a page needs one of its six connections',
  async (t) => {
    const { open, publish, time } = setUp();
    const stream = await open();
    const facts = ['a1', 'a2', 'a3'].map((asset_id) => publish('queued', { asset_id }));
    await time.settle();
    t.strictSame(
      stream.events.map(({ data }) => data['asset_id']),
      ['a1', 'a2', 'a3'],
    );
    t.strictSame(
      stream.ids,
      facts.map(({ ts }) => ts),
    );
  },
);

t.test('line breaks in data stay within one data line, and comments have no id', async (t) => {
  const { fact, open, time } = setUp();
  const text = 'one\ntwo\r\nthree\rfour\u2028five\u0000id: 7\n\nevent: ready';
  const whole = fact('failed', { error_msg: text });
  const frame = toFrame(whole)?.bytes.toString() ?? '';
  const lines = frame.split('\n');
  t.equal(lines.length, 5);
  t.equal(JSON.parse(lines[2]?.slice('data: '.length) ?? '').error_msg, text);
  t.notOk(frame.includes('\r') || frame.includes('\0'));
  const shown = (given: object, indent?: number) =>
    toFrame(given, JSON.stringify(given, null, indent))?.bytes.toString() ?? '';
  t.equal(shown(whole), frame, 'as it came');
  t.equal(shown(whole, 2), frame, 'as it came, in lines');
  const hidden = shown({ ...whole, options: { seed: 1 } }).split('\n');
  t.strictSame(
    JSON.parse(hidden[2]?.slice('data: '.length) ?? ''),
    whole,
    'without what clients are not shown',
  );
  const stream = await open();
  await time.advance(16_000);
  t.equal(stream.text, 'retry: 3000\n\n:\n\n');
});
