/** When a quota resets, against a calendar that is walked day by day. */
import fc from 'fast-check';
import t from 'tap';
import {
  billingMonth,
  crawlMonth,
  nextBillingDay,
  resetAfterRun,
  startOfCycle,
} from '../../src/quota/cycle.ts';

const dayMs = 86_400_000;
const utc = (text: string) => Date.parse(`${text}Z`);
const iso = (ts: number) => new Date(ts).toISOString();
const billingDays = fc.integer({ min: 1, max: 31 });
const moments = fc.integer({ min: utc('2019-01-01T00:00:00'), max: utc('2120-01-01T00:00:00') });

/** The same by walking: the first midnight after `now` on the day, or on the last one of a month that lacks it. */
function walk(billingDay: number, now: number): number {
  for (let ts = Math.floor(now / dayMs) * dayMs + dayMs; ; ts += dayMs) {
    const day = new Date(ts).getUTCDate();
    const isLast = new Date(ts + dayMs).getUTCDate() === 1;
    if (day === billingDay || (isLast && day < billingDay)) return ts;
  }
}

t.test('the next billing day is what a calendar says, for every day and moment', async (t) => {
  fc.assert(
    fc.property(
      billingDays,
      moments,
      (billingDay, now) => nextBillingDay(billingDay, now) === walk(billingDay, now),
    ),
    { numRuns: 3_000 },
  );
  t.pass();
});

t.test('a cycle is half open: at its reset the next one has begun', async (t) => {
  fc.assert(
    fc.property(billingDays, moments, (billingDay, now) => {
      const resetAt = nextBillingDay(billingDay, now);
      const following = nextBillingDay(billingDay, resetAt);
      const days = (following - resetAt) / dayMs;
      return (
        resetAt % dayMs === 0 &&
        nextBillingDay(billingDay, resetAt - 1) === resetAt &&
        following > resetAt &&
        days >= 28 &&
        days <= 31
      );
    }),
    { numRuns: 3_000 },
  );
  t.pass();
});

t.test('short months, leap years and the turn of the year', async (t) => {
  const cases: [billingDay: number, now: string, resetAt: string][] = [
    [31, '2026-01-31T00:00:00', '2026-02-28T00:00:00'],
    [31, '2026-02-28T00:00:00', '2026-03-31T00:00:00'],
    [31, '2026-03-31T00:00:00', '2026-04-30T00:00:00'],
    [29, '2028-02-01T00:00:00', '2028-02-29T00:00:00'],
    [30, '2028-02-28T23:59:59.999', '2028-02-29T00:00:00'],
    [29, '2027-02-01T00:00:00', '2027-02-28T00:00:00'],
    [29, '2100-02-01T00:00:00', '2100-02-28T00:00:00'],
    [29, '2000-02-01T00:00:00', '2000-02-29T00:00:00'],
    [31, '2026-12-31T00:00:00', '2027-01-31T00:00:00'],
    [1, '2026-12-31T23:59:59.999', '2027-01-01T00:00:00'],
    [1, '2026-12-01T00:00:00', '2027-01-01T00:00:00'],
    // Where clocks change, UTC has 24 hours all the same.
    [29, '2026-03-28T23:00:00', '2026-03-29T00:00:00'],
    [25, '2026-10-24T23:30:00', '2026-10-25T00:00:00'],
  ];
  for (const [billingDay, now, resetAt] of cases) {
    t.equal(iso(nextBillingDay(billingDay, utc(now))), iso(utc(resetAt)), `day ${billingDay} after ${now}`);
  }
});

t.test('free: 30 days after the run; paid: the billing day, or 30 days as long as none is set', async (t) => {
  const now = utc('2026-02-10T12:34:56.789');
  t.equal(iso(resetAfterRun('free', null, now)), '2026-03-12T12:34:56.789Z');
  t.equal(resetAfterRun('free', 15, now), now + 30 * dayMs, 'a billing day of a plan before means nothing');
  t.equal(iso(resetAfterRun('pro', 10, now)), '2026-03-10T00:00:00.000Z');
  t.equal(iso(resetAfterRun('team', 11, now)), '2026-02-11T00:00:00.000Z');
  t.equal(resetAfterRun('pro', null, now), now + 30 * dayMs);
});

t.test('billing months follow each other without a gap, and each moment lies in one', async (t) => {
  fc.assert(
    fc.property(billingDays, moments, (billingDay, now) => {
      const { startTs, endTs } = billingMonth(billingDay, now);
      return (
        startTs <= now &&
        now < endTs &&
        billingMonth(billingDay, startTs - 1).endTs === startTs &&
        billingMonth(billingDay, endTs).startTs === endTs &&
        nextBillingDay(billingDay, startTs - 1) === startTs
      );
    }),
    { numRuns: 3_000 },
  );
  t.pass();
});

t.test('a cycle starts on the billing day before its first run, on Free with that run', async (t) => {
  const firstRun = utc('2026-03-10T12:00:00');
  t.equal(startOfCycle('free', 5, firstRun), firstRun);
  t.equal(startOfCycle('pro', null, firstRun), firstRun);
  t.equal(iso(startOfCycle('pro', 31, firstRun)), '2026-02-28T00:00:00.000Z');
  t.equal(iso(startOfCycle('team', 10, firstRun)), '2026-03-10T00:00:00.000Z');
});

t.test('crawls: months of the calendar on Free, of billing on paid plans', async (t) => {
  const span = (...args: Parameters<typeof crawlMonth>) => {
    const { startTs, endTs } = crawlMonth(...args);
    return [iso(startTs), iso(endTs)];
  };
  const [january, february] = ['2026-01-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z'];
  t.strictSame(span('free', 15, utc('2026-01-31T23:59:59.999')), [january, february]);
  t.strictSame(span('pro', null, utc('2026-01-31T23:59:59.999')), [january, february]);
  const month = ['2026-02-28T00:00:00.000Z', '2026-03-30T00:00:00.000Z'];
  t.strictSame(span('team', 30, utc('2026-03-01T00:00:00')), month);
});
