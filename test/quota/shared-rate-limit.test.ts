/** Rate limits that processes share: in virtual time over a bad network, and over a real one. */
import fc from 'fast-check';
import t from 'tap';
import { openBus } from '../../src/bus/bus.ts';
import { linkRateLimit } from '../../src/quota/limit-link.ts';
import { createRandom } from '../../src/random.ts';
import { startFront } from '../fixtures/http.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { LimitNetwork, minuteMs } from './limit-network.ts';

const limits = fc.constantFrom(10, 30, 60, 300);
const counts = fc.integer({ min: 2, max: 8 });
const seeds = fc.integer({ min: 1, max: 1_000_000 });
const allowed = (limit: number) => Math.floor(limit * 1.05);

async function started(seed: number, processes: number): Promise<LimitNetwork> {
  const network = new LimitNetwork(seed);
  for (let n = 0; n < processes; n += 1) network.start(`p${n}`);
  await network.pass(2_000);
  return network;
}

/** Spreads requests over some time and processes. */
function flood(
  network: LimitNetwork,
  {
    seed,
    requests,
    ms,
    limit,
    to,
  }: {
    seed: number;
    requests: number;
    ms: number;
    limit: number;
    to(random: number): string;
  },
): void {
  const random = createRandom(seed);
  for (let n = 0; n < requests; n += 1) {
    network.at(random() * ms, () => network.request(to(random()), 'bucket', limit));
  }
}

const anyOf = (processes: number) => (random: number) => `p${Math.floor(random * processes)}`;

t.test('traffic at one process: exact, whoever it is, and told how long to wait', async (t) => {
  await fc.assert(
    fc.asyncProperty(seeds, counts, limits, fc.nat(7), async (seed, processes, limit, which) => {
      const network = await started(seed, processes);
      const only = `p${which % processes}`;
      // A burst, then more than enough for two minutes.
      flood(network, { seed, requests: 2 * limit, ms: 5, limit, to: () => only });
      flood(network, { seed: seed + 1, requests: limit, ms: 70_000, limit, to: () => only });
      await network.pass(71_000);
      t.equal(network.mostInMinute(), limit);
      for (const { at, waitMs } of network.refused) {
        if (network.inMinuteTo(at) !== limit) t.fail(`refused with room for one, seed ${seed}`);
        const free = network.accepted.filter((ts) => ts <= at && at - ts < minuteMs)[0] ?? 0;
        if (Math.abs(free + minuteMs - at - waitMs) > 20) t.fail(`told to wait ${waitMs}, seed ${seed}`);
      }
      t.ok(network.longestHeldMs < 50, `a request waited ${network.longestHeldMs} ms`);
    }),
    { numRuns: 3 },
  );
});

t.test('traffic everywhere: at most 5 % too many, and hardly one refused without need', async (t) => {
  await fc.assert(
    fc.asyncProperty(seeds, counts, limits, fc.boolean(), async (seed, processes, limit, isBurst) => {
      const network = await started(seed, processes);
      const to = anyOf(processes);
      flood(network, { seed, requests: 3 * limit, ms: isBurst ? 20 : minuteMs, limit, to });
      flood(network, { seed: seed + 1, requests: limit, ms: 70_000, limit, to });
      await network.pass(75_000);
      t.ok(network.mostInMinute() <= allowed(limit), `${network.mostInMinute()} of ${limit}, seed ${seed}`);
      // What is on its way from one process to another is nobody's for a moment: seldom more than 10 %, once 15.
      const least = Math.min(limit, ...network.refused.map(({ at }) => network.inMinuteTo(at)));
      t.ok(least >= limit * 0.8 - 1, `refused at ${least} of ${limit}, seed ${seed}`);
    }),
    { numRuns: 3 },
  );
});

t.test('loss, delay and processes that stand still: never more than 5 % too many', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      seeds,
      counts,
      limits,
      fc.double({ min: 0, max: 0.3, noNaN: true }),
      async (...given) => {
        const [seed, processes, limit, loss] = given;
        const network = await started(seed, processes);
        network.weather = { delayMs: (random) => 1 + random ** 4 * 200, loss };
        const random = createRandom(seed + 2);
        const to = anyOf(processes);
        for (let n = 0; n < 6; n += 1) {
          network.at(random() * minuteMs, () => network.stop(to(random()), random() * 6_000));
        }
        flood(network, { seed, requests: 4 * limit, ms: 100_000, limit, to });
        await network.pass(2 * minuteMs);
        t.ok(network.mostInMinute() <= allowed(limit), `${network.mostInMinute()} of ${limit}, seed ${seed}`);
        t.ok(network.accepted.length >= limit, 'and they go on');
      },
    ),
    { numRuns: 3 },
  );
});

t.test('processes that come, go and are killed', async (t) => {
  await fc.assert(
    fc.asyncProperty(seeds, limits, async (seed, limit) => {
      const network = await started(seed, 3);
      flood(network, { seed, requests: 3 * limit, ms: 30_000, limit, to: anyOf(3) });
      network.at(5_000, () => network.start('p3'));
      // The first one keeps the ledger, or the second does: both go, one of them without a word.
      network.at(10_000, () => network.leave('p0'));
      network.at(20_000, () => network.kill('p1'));
      await network.pass(30_000);
      flood(network, {
        seed: seed + 1,
        requests: 2 * limit,
        ms: 30_000,
        limit,
        to: (r) => (r < 0.5 ? 'p2' : 'p3'),
      });
      await network.pass(31_000);
      // What the killed one let in within its last tick is known to nobody.
      const unknown = Math.ceil((limit / 30_000) * 3 * 150) + 1;
      t.ok(
        network.mostInMinute() <= allowed(limit) + unknown,
        `${network.mostInMinute()} of ${limit}, ${seed}`,
      );
      const since = network.now + 2 * minuteMs;
      await network.pass(2 * minuteMs);
      flood(network, { seed: seed + 2, requests: limit + 50, ms: 10, limit, to: () => 'p3' });
      await network.pass(5_000);
      t.equal(network.mostInMinute(since), limit, 'all of it is there again');
    }),
    { numRuns: 2 },
  );
});

t.test('without the bus each has the limit for itself; with it again they share', async (t) => {
  const network = await started(7, 3);
  const to = anyOf(3);
  for (const id of ['p0', 'p1', 'p2']) network.cut(id, true);
  flood(network, { seed: 1, requests: 90, ms: 1_000, limit: 10, to });
  await network.pass(2_000);
  t.equal(network.accepted.length, 30);
  t.ok(network.longestHeldMs < 5, 'nobody waits for what cannot come');
  for (const id of ['p0', 'p1', 'p2']) network.cut(id, false);
  await network.pass(5_000);
  flood(network, { seed: 2, requests: 90, ms: 1_000, limit: 10, to });
  await network.pass(2_000);
  t.equal(network.accepted.length, 30, 'what was let in counts');
  await network.pass(2 * minuteMs);
  const since = network.now;
  flood(network, { seed: 3, requests: 90, ms: 1_000, limit: 10, to });
  await network.pass(5_000);
  t.equal(network.mostInMinute(since), 10);
});

t.test(
  'buckets that nobody uses cost nothing: a user below its credit asks for nothing in between',
  async (t) => {
    const network = await started(3, 8);
    const before = network.sent;
    await network.pass(10_000);
    const idle = network.sent - before;
    network.request('p7', 'bucket', 300);
    await network.pass(10_000);
    t.ok(network.sent - before - 2 * idle <= 4, 'one question and its answer');
    t.equal(network.longestHeldMs, 0, 'nobody waited');
  },
);

t.test('three front ends over a real bus let through what one would', async (t) => {
  const { natsUrl } = await testServers();
  const prefix = `${uniqueName('limits')}.`;
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const fronts = await Promise.all(
    [0, 1, 2].map(async () => {
      const bus = await openBus({ url: natsUrl, prefix, replicas: 1, lastPosition: async () => 0, log });
      const rateLimit = linkRateLimit(bus);
      const front = await startFront({ services: { rateLimit } });
      return { bus, rateLimit, front };
    }),
  );
  t.teardown(async () => {
    for (const { rateLimit, front } of fronts) {
      rateLimit.stop();
      await front.close();
    }
    await fronts[0]?.bus.deleteStreams();
    for (const { bus } of fronts) await bus.close();
  });
  const turns = await Promise.all(
    Array.from({ length: 240 }, async (_, n) => fronts[n % 3]?.rateLimit.take('user prepare', 60)),
  );
  const accepted = turns.filter((turn) => turn?.waitMs === 0).length;
  t.ok(accepted >= 59 && accepted <= 63, `${accepted} of 60`);
  t.ok(turns.every((turn) => turn && turn.waitMs >= 0 && turn.waitMs <= minuteMs));

  const [one] = fronts;
  if (!one) return t.fail('no front end');
  const { cookie } = await one.front.signUp();
  const { status, headers } = await one.front.call('GET', '/api/projects', { cookie });
  t.equal(status, 200);
  t.equal(headers.get('ratelimit-policy'), '"other";q=300;w=60');
  t.equal(headers.get('ratelimit'), '"other";r=299;t=60');
});
