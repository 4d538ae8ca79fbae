/**
 * `npm run bench sse [mode …]`: what streams cost, against a program in C that only sends.
 *
 *   fan-out    CPU per delivery at 1,000, 5,000 and 10,000 listeners of one topic, each event by itself
 *   burst      deliveries per CPU second at 250 events/s and 1,000 listeners, and what joining adds to latency
 *   memory     of an idle stream, and what 100,000 clients that came and went leave behind
 *   replay     100 clients that each missed 1,000 events, from memory and from the stored stream
 *   stuck      100 clients that stop reading
 *   topics     10,000 streams of 10,000 assets
 *   lifetime   when 10,000 streams end, how they come back after a restart, and how late the loop is meanwhile
 *
 * The front end is whole and a process of its own, fed by JetStream; clients are another process and not counted.
 * `--factor 0.1` shortens the life of streams in `lifetime` (1: the contract's five minutes), `--profile <folder>`
 * leaves CPU profiles of the front end.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sse } from '../../schemas/limits.ts';
import { median, quantile, report, spread } from './cpu.ts';
import { openRig, type Rig } from './sse-rig.ts';
import { type Clients, compile, type Seen, startClients, startFloor, type Target } from './sse-tools.ts';

const pairs = 5;
const frameBytes = 300;
const filesNeeded = 12_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { factor: { type: 'string', default: '0.1' }, profile: { type: 'string' } },
});

/** Where a mode runs: programs and a folder. */
type Bench = { folder: string; client: string; floor: string };

const modes: Record<string, (bench: Bench) => Promise<Record<string, unknown>>> = {
  'fan-out': measureFanOut,
  burst: measureBurst,
  memory: measureMemory,
  replay: measureReplay,
  stuck: measureStuck,
  topics: measureTopics,
  lifetime: measureLifetime,
};

async function main(): Promise<void> {
  const wanted = positionals.length === 0 ? Object.keys(modes) : positionals;
  const unknown = wanted.filter((name) => !(name in modes));
  if (unknown.length > 0) throw new Error(`no mode ${unknown.join(', ')}: ${Object.keys(modes).join(', ')}`);
  checkFiles();
  for (const name of wanted) {
    const folder = await mkdtemp(join(tmpdir(), 'bench-sse-'));
    try {
      const programs = {
        client: await compile('sse-client', folder),
        floor: await compile('sse-floor', folder),
      };
      report({ bench: 'sse', mode: name, ...(await modes[name]?.({ folder, ...programs })) });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** A stream is an open file, on either side. @throws when too few are allowed. */
function checkFiles(): void {
  const allowed = Number(execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }));
  if (allowed < filesNeeded) {
    throw new Error(
      `${allowed} open files are allowed and ${filesNeeded} are needed: ulimit -n ${filesNeeded}`,
    );
  }
}

/** Runs something against a front end with an owner, and cleans up after it. */
async function withRig<Result>(
  { folder }: Bench,
  assets: number,
  run: (rig: Rig) => Promise<Result>,
): Promise<Result> {
  const rig = await openRig({ folder, assets, profile: values.profile });
  try {
    return await run(rig);
  } finally {
    await rig.front.stop();
    await rig.close();
  }
}

/** Clients of the front end, ended afterwards. */
async function withClients<Result>(
  { client, folder }: Bench,
  port: number,
  targets: Target[],
  run: (clients: Clients) => Promise<Result>,
): Promise<Result> {
  const clients = await startClients(client, folder, port, targets);
  try {
    return await run(clients);
  } finally {
    await clients.stop();
  }
}

/** Waits until the clients have seen so much. @throws when that takes a minute. */
async function untilSeen(
  clients: Clients,
  isEnough: (seen: Seen) => boolean,
  limitMs = 60_000,
): Promise<Seen> {
  const givenUpAt = Date.now() + limitMs;
  for (;;) {
    const seen = await clients.seen();
    if (isEnough(seen)) return seen;
    if (Date.now() > givenUpAt) throw new Error(`waited in vain: ${JSON.stringify(seen)}`);
    await sleep(20);
  }
}

async function openAll(clients: Clients, count: number): Promise<void> {
  await clients.open(count);
  const { open, refused } = await clients.seen();
  if (open !== count || refused > 0)
    throw new Error(`${open} of ${count} streams are open, ${refused} refused`);
}

const limitsOf = (limits: Record<string, number>) => ({ limits });

// ── fan-out ─────────────────────────────────────────────────────────────────────────────────────

/** Periods are long enough that no two events are joined. */
const fanOuts = [
  { listeners: 1_000, events: 150, periodMs: 30, ratio: 1.5 },
  { listeners: 5_000, events: 25, periodMs: 160, ratio: 1.3 },
  { listeners: 10_000, events: 12, periodMs: 350, ratio: 1.3 },
];

async function measureFanOut(bench: Bench) {
  const results: Record<string, unknown> = {};
  for (const { listeners, events, periodMs, ratio } of fanOuts) {
    results[`at${listeners}`] = await withRig(bench, 1, (rig) =>
      withClients(bench, rig.port, rig.targets.project(), async (clients) => {
        const floor = await startFloor(bench.floor);
        const floorClients = await startClients(bench.client, bench.folder, floor.port, [{ path: '/' }]);
        const [, accepted] = [floorClients.open(listeners), await floor.accept(listeners)];
        if (!accepted) throw new Error('the floor takes no clients');
        await openAll(clients, listeners);
        const product = () => fanOutOnce(rig, clients, { listeners, events, periodMs });
        const least = async () => (await floor.send(events, frameBytes, periodMs)) / (events * listeners);
        const warmUp = { listeners, events: Math.ceil(20_000 / listeners), periodMs };
        await fanOutOnce(rig, clients, warmUp);
        const productUs: number[] = [];
        const floorUs: number[] = [];
        for (let pair = 0; pair < pairs; pair += 1) {
          floorUs.push(await least());
          productUs.push(await product());
        }
        await floor.stop();
        await floorClients.stop();
        const ratios = productUs.map((one, n) => one / (floorUs[n] ?? Number.NaN));
        return {
          productUs: spread(productUs),
          floorUs: spread(floorUs),
          ratio: spread(ratios),
          limit: ratio,
        };
      }),
    );
  }
  return results;
}

/** CPU of the front end in µs per delivery. */
async function fanOutOnce(
  { front, publisher }: Rig,
  clients: Clients,
  { listeners, events, periodMs }: { listeners: number; events: number; periodMs: number },
): Promise<number> {
  await clients.reset();
  const before = await front.vitals();
  await publisher.publishEvery(periodMs, events);
  const seen = await untilSeen(clients, ({ events: count }) => count >= events * listeners);
  const after = await front.vitals();
  if (seen.least !== events || seen.most !== events || seen.repeats > 0) throw new Error('events were lost');
  return (after.cpuUs - before.cpuUs) / (events * listeners);
}

// ── burst ───────────────────────────────────────────────────────────────────────────────────────

const burst = { listeners: 1_000, perSecond: 250, seconds: 4 };

async function measureBurst(bench: Bench) {
  const { listeners, perSecond, seconds } = burst;
  const count = perSecond * seconds;
  return withRig(bench, 1, (rig) =>
    withClients(bench, rig.port, rig.targets.project(), async (clients) => {
      await openAll(clients, listeners);
      await publishAndWait(rig, clients, perSecond, listeners);
      const perCpuSecond: number[] = [];
      const addedMs: number[] = [];
      const p99Ms: number[] = [];
      const waitedMs: number[] = [];
      for (let round = 0; round < pairs; round += 1) {
        const bus = rig.watchBus();
        const before = await rig.front.vitals();
        const seen = await publishAndWait(rig, clients, count, listeners);
        const after = await rig.front.vitals();
        const busMs = bus.stop();
        perCpuSecond.push((count * listeners * 1e6) / (after.cpuUs - before.cpuUs));
        p99Ms.push(seen.late.p99);
        waitedMs.push((after.waitedMs - before.waitedMs) / seconds);
        addedMs.push(seen.late.p99 - quantile(busMs, 0.99));
      }
      return {
        perCpuSecond: spread(perCpuSecond, 0),
        usPerDelivery: Number((1e6 / median(perCpuSecond)).toFixed(2)),
        p99Ms: spread(p99Ms, 0),
        addedP99Ms: spread(addedMs, 0),
        waitedMsPerSecond: spread(waitedMs, 0),
        ...limitsOf({ perCpuSecond: 700_000, addedP99Ms: 25 }),
      };
    }),
  );
}

/** Publishes a number of events at 250 a second; answers what clients saw when each had all. */
async function publishAndWait(
  { publisher }: Rig,
  clients: Clients,
  count: number,
  listeners: number,
): Promise<Seen> {
  await clients.reset();
  await publisher.publishEvery(1_000 / burst.perSecond, count);
  const seen = await untilSeen(clients, ({ events }) => events >= count * listeners);
  if (seen.least !== count || seen.most !== count || seen.repeats > 0) throw new Error('events were lost');
  return seen;
}

// ── memory ──────────────────────────────────────────────────────────────────────────────────────

/** Warmed up with as many streams as are measured: the first of a process make its code and its caches. */
const memory = { streams: 10_000, churned: 100_000 };

async function measureMemory(bench: Bench) {
  const { streams, churned } = memory;
  return withRig(bench, 1_000, (rig) =>
    withClients(bench, rig.port, rig.targets.assets(), async (clients) => {
      const { front } = rig;
      const settled = async () => {
        await untilIdle(front);
        return front.vitalsCollected();
      };
      await openAll(clients, streams);
      await clients.close();
      const empty = await settled();
      await openAll(clients, streams);
      const uncollected = await front.vitals();
      const full = await settled();
      await clients.close();
      await clients.churn(churned / 10);
      await clients.close();
      const first = await settled();
      const cpuBefore = first.cpuUs;
      await clients.churn(churned);
      await clients.close();
      const last = await settled();
      const perStream = (after: number, before: number) => Number(((after - before) / streams).toFixed(2));
      return {
        kbPerStream: perStream(full.rssKb, empty.rssKb),
        kbPerStreamUncollected: perStream(uncollected.rssKb, empty.rssKb),
        heapKbPerStream: perStream(full.heapKb, empty.heapKb),
        rssMb: Object.fromEntries(
          Object.entries({ empty, full, first, last }).map(([name, { rssKb }]) => [
            name,
            Math.round(rssKb / 1_024),
          ]),
        ),
        afterChurn: Number((last.rssKb / first.rssKb).toFixed(3)),
        heapAfterChurnKb: Math.round(last.heapKb - first.heapKb),
        usPerConnection: Math.round((last.cpuUs - cpuBefore) / churned),
        ...limitsOf({ kbPerStream: 3, afterChurn: 1.1 }),
      };
    }),
  );
}

const idleLookMs = 500;
const idleCpuShare = 0.1;
const idleLooks = 60;

/** What a stream begins with is read and let go of some time after it has opened. */
async function untilIdle(front: Rig['front']): Promise<void> {
  let before = (await front.vitals()).cpuUs;
  for (let looks = 0; looks < idleLooks; looks += 1) {
    await sleep(idleLookMs);
    const { cpuUs } = await front.vitals();
    if (cpuUs - before < idleLookMs * 1_000 * idleCpuShare) return;
    before = cpuUs;
  }
  throw new Error('the front end does not come to rest');
}

// ── replay ──────────────────────────────────────────────────────────────────────────────────────

const replay = { clients: 100, missed: 1_000 };
/** Longer than a topic without listeners is kept, and than its clocks may disagree. */
const topicGoneMs = 6_500;

async function measureReplay(bench: Bench) {
  return withRig(bench, 10, async (rig) => {
    const fromRing: Seen[] = [];
    const fromStream: Seen[] = [];
    const ringUs: number[] = [];
    const streamUs: number[] = [];
    // Code that has run some hundred times is not yet compiled for good.
    await replayOnce(bench, rig);
    await sleep(topicGoneMs);
    for (let round = 0; round < pairs; round += 1) {
      await withClients(bench, rig.port, rig.targets.project(), async (keeper) => {
        await openAll(keeper, 1);
        await sleep(topicGoneMs);
        const { seen, us } = await replayOnce(bench, rig);
        fromRing.push(seen);
        ringUs.push(us);
      });
      await sleep(topicGoneMs);
      const { seen, us } = await replayOnce(bench, rig);
      fromStream.push(seen);
      streamUs.push(us);
      await sleep(topicGoneMs);
    }
    const figures = (all: Seen[], us: number[]) => ({
      p50Ms: spread(
        all.map(({ whole }) => whole.p50),
        0,
      ),
      p99Ms: spread(
        all.map(({ whole }) => whole.p99),
        0,
      ),
      usPerEvent: spread(us),
      gaps: all.reduce((sum, { whole }) => sum + replay.clients - whole.count, 0),
      repeats: all.reduce((sum, { repeats }) => sum + repeats, 0),
    });
    return {
      ring: figures(fromRing, ringUs),
      stream: figures(fromStream, streamUs),
      ...limitsOf({ ringP99Ms: 50, streamP99Ms: 500, gaps: 0, repeats: 0 }),
    };
  });
}

async function replayOnce(bench: Bench, rig: Rig) {
  await rig.publisher.publish(1);
  const after = rig.publisher.lastTs;
  await rig.publisher.publish(replay.missed);
  // ids run ahead of the clock when so many come at once: until then they would be the future's.
  await sleep(Math.max(0, rig.publisher.lastTs - Date.now()) + 500);
  return withClients(bench, rig.port, rig.targets.project(after), async (clients) => {
    await clients.goal(replay.missed);
    const before = await rig.front.vitals();
    await clients.open(replay.clients);
    const isWhole = ({ events }: Seen) => events >= replay.clients * replay.missed;
    const seen = await untilSeen(clients, isWhole, 20_000).catch(() => clients.seen());
    const afterwards = await rig.front.vitals();
    return { seen, us: (afterwards.cpuUs - before.cpuUs) / (replay.clients * replay.missed) };
  });
}

// ── stuck ───────────────────────────────────────────────────────────────────────────────────────

const stuck = { clients: 100, live: 100, bytes: 8_000, perSecond: 100, limitMs: 45_000 };
/** Descriptors that come and go by themselves. */
const spare = 4;

async function measureStuck(bench: Bench) {
  return withRig(bench, 1, (rig) =>
    withClients(bench, rig.port, rig.targets.project(), async (live) => {
      await openAll(live, stuck.live);
      const alone = await stuckRound(rig, live);
      const open = rig.front.descriptors();
      return withClients(bench, rig.port, rig.targets.project(), async (slow) => {
        const before = (await rig.front.vitalsCollected()).rssKb;
        await slow.open(stuck.clients, 'stuck');
        // Asked of the server: who does not read sees no end either.
        const leftOf = () => Math.max(0, rig.front.descriptors() - open - spare);
        const round = await stuckRound(rig, live, leftOf);
        return {
          growthMb: Math.round((round.mostKb - before) / 1_024),
          liveP99Ms: { alone: alone.seen.late.p99, withStuck: round.seen.late.p99 },
          liveLost: round.events * stuck.live - round.seen.events,
          endedAfterMs: round.endedAfterMs,
          left: round.left,
          ...limitsOf({ growthMb: 30, liveLost: 0, endedAfterMs: 20_000 }),
        };
      });
    }),
  );
}

/** Publishes large events until the stuck ones have all been cut; without such, for five seconds. */
async function stuckRound({ front, publisher }: Rig, live: Clients, leftOf?: () => number) {
  await live.reset();
  const begunAt = performance.now();
  const limitMs = leftOf ? stuck.limitMs : 5_000;
  let isOver = false;
  let mostKb = 0;
  let left = 0;
  let endedAfterMs = -1;
  const watching = (async () => {
    while (!isOver) {
      mostKb = Math.max(mostKb, (await front.vitals()).rssKb);
      left = leftOf?.() ?? 0;
      if (leftOf && left === 0 && endedAfterMs < 0) endedAfterMs = Math.round(performance.now() - begunAt);
      await sleep(100);
    }
  })();
  const isDone = () => endedAfterMs >= 0 || performance.now() - begunAt > limitMs;
  const count = (limitMs * stuck.perSecond) / 1_000;
  const events = await publisher.publishEvery(1_000 / stuck.perSecond, count, stuck.bytes, isDone);
  const seen = await untilSeen(live, ({ events: all }) => all >= events * stuck.live).catch(() =>
    live.seen(),
  );
  isOver = true;
  await watching;
  return { events, seen, mostKb, left, endedAfterMs };
}

// ── topics ──────────────────────────────────────────────────────────────────────────────────────

const topics = { streams: 10_000, perSecond: 400, events: 2_000 };

async function measureTopics(bench: Bench) {
  return withRig(bench, topics.streams, (rig) =>
    withClients(bench, rig.port, rig.targets.assets(), async (clients) => {
      await openAll(clients, topics.streams);
      const us: number[] = [];
      const idleUs: number[] = [];
      const p99Ms: number[] = [];
      const once = async () => {
        await clients.reset();
        const before = await rig.front.vitals();
        await rig.publisher.publishEvery(1_000 / topics.perSecond, topics.events);
        const seen = await untilSeen(clients, ({ events }) => events >= topics.events);
        const after = await rig.front.vitals();
        if (seen.repeats > 0) throw new Error('events were repeated');
        return { us: (after.cpuUs - before.cpuUs) / topics.events, p99: seen.late.p99 };
      };
      await once();
      for (let round = 0; round < pairs; round += 1) {
        const before = await rig.front.vitals();
        await sleep(2_000);
        idleUs.push(((await rig.front.vitals()).cpuUs - before.cpuUs) / 2);
        const one = await once();
        us.push(one.us);
        p99Ms.push(one.p99);
      }
      return {
        usPerEvent: spread(us, 1),
        idleUsPerSecond: spread(idleUs, 0),
        p99Ms: spread(p99Ms, 0),
        ...limitsOf({ usPerEvent: 60 }),
      };
    }),
  );
}

// ── lifetime ────────────────────────────────────────────────────────────────────────────────────

const lifetime = { streams: 10_000, eventsPerSecond: 2 };

async function measureLifetime(bench: Bench) {
  const factor = Number(values.factor);
  const maxMs = Math.round(sse.maxMs * factor);
  return withRig(bench, 1, async (rig) => {
    await rig.front.stop();
    const first = await rig.frontEnd({ SSE_MAX: `${maxMs}ms` });
    return withClients(bench, rig.port, rig.targets.project(), async (clients) => {
      const { streams } = lifetime;
      await openAll(clients, streams);
      await clients.reset();
      await first.watchStalls();
      const events = await rig.publisher.publishEvery(1_000 * factor * 5, 20);
      const ended = await untilSeen(clients, ({ open }) => open === 0, 2 * maxMs);
      const { stallMs } = await first.vitals();
      const restart = await measureRestart(rig, clients, first);
      const second = ended.endsIn.map((count) => count / streams);
      return {
        maxMs,
        events,
        endsFromSecond: second.findIndex((share) => share > 0),
        endsToSecond: second.length - 1,
        mostInASecond: Math.max(...second),
        /** What it would be with the life of the contract. */
        mostInASecondScaled: Math.max(...second) * factor,
        cuts: ended.cuts,
        stallMs,
        restart,
        ...limitsOf({ mostInASecondScaled: 0.03, lost: 0, stallMs: 50 }),
      };
    });
  });
}

/** Ends the front end in order while events come, and starts another one on its port: clients come back by themselves. */
async function measureRestart(rig: Rig, clients: Clients, running: Rig['front']) {
  const { streams } = lifetime;
  await clients.close();
  await running.stop();
  const before = await rig.frontEnd();
  await clients.reset();
  await openAll(clients, streams);
  await clients.reset();
  await rig.publisher.publishEvery(500, 4);
  await untilSeen(clients, ({ least }) => least >= 4);
  await clients.reopen(true);
  let isBack = false;
  const publishing = rig.publisher.publishEvery(500, 60, 70, () => isBack);
  await sleep(1_000);
  const begunAt = performance.now();
  await before.stop();
  const stopMs = Math.round(performance.now() - begunAt);
  const after = await rig.frontEnd();
  await after.watchStalls();
  await untilSeen(clients, ({ open, backs }) => open === streams && backs >= streams);
  const backMs = Math.round(performance.now() - begunAt);
  isBack = true;
  const events = 4 + (await publishing);
  const seen = await untilSeen(clients, ({ least }) => least >= events, 10_000).catch(() => clients.seen());
  const { stallMs } = await after.vitals();
  await clients.reopen(false);
  await after.stop();
  return {
    stopMs,
    backMs,
    events,
    lost: events * streams - seen.events,
    repeats: seen.repeats,
    refused: seen.refused,
    stallMs,
  };
}

await main();
