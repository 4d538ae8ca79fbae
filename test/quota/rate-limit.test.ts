import fc from 'fast-check';
import t from 'tap';
import { createRateLimit } from '../../src/quota/rate-limit.ts';

t.test(
  'accepts the limit within a minute, wherever the minute begins, and says how long to wait',
  async (t) => {
    let now = 0;
    const { take } = createRateLimit({ now: () => now });
    t.equal(take('u', 2).waitMs, 0);
    now = 40_000;
    t.equal(take('u', 2).waitMs, 0);
    t.equal(take('u', 2).waitMs, 20_000);
    t.equal(take('other', 2).waitMs, 0, 'buckets are apart');
    now = 59_999.5;
    t.equal(take('u', 2).waitMs, 1);
    now = 60_000;
    t.equal(take('u', 2).waitMs, 0);
    t.equal(take('u', 2).waitMs, 40_000);
    now = 100_000;
    t.equal(take('u', 2).waitMs, 0);
  },
);

t.test('random requests: no minute holds more than the limit, none is refused without need', async () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 7 }),
      fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 120 }),
      (limit, gaps) => {
        let now = 0;
        const { take } = createRateLimit({ now: () => now });
        const accepted: number[] = [];
        for (const gap of gaps) {
          now += gap;
          const inMinute = accepted.filter((ts) => ts > now - 60_000).length;
          const { waitMs } = take('u', limit);
          if ((waitMs === 0) !== inMinute < limit || waitMs > 60_000) return false;
          if (waitMs === 0) accepted.push(now);
        }
        return true;
      },
    ),
  );
});

t.test('a clock that goes back makes nobody wait for more than a minute', async (t) => {
  let now = 10_000_000;
  const { take } = createRateLimit({ now: () => now });
  take('u', 1);
  now = 0;
  t.equal(take('u', 1).waitMs, 60_000);
});

t.test('the bucket that has been idle longest is forgotten first', async (t) => {
  const { take } = createRateLimit({ now: () => 0, maxBuckets: 2 });
  take('a', 1);
  take('b', 1);
  take('a', 1);
  take('c', 1);
  t.ok(take('a', 1).waitMs > 0);
  t.equal(take('b', 1).waitMs, 0);
});
