/** What the dashboard works out by itself: the states of a run by its events, held against the machine; a forecast. */
import fc from 'fast-check';
import t from 'tap';
import type { Mode } from '../../schemas/asset.ts';
import { AssetEvent } from '../../schemas/events.ts';
import { begunBy, spanAt, spansOf, stateAfter } from '../../src/dashboard/assets/history.ts';
import { forecastOf } from '../../src/dashboard/usage/forecast.ts';
import { createWalk, options, type Walk } from '../fixtures/asset-messages.ts';

const inputs = {
  loop: {},
  'animate-in': { options: { ...options, mode: 'animate-in', loopMode: 'none' } },
} as const;

const step = fc.constantFrom(...Array.from({ length: 10 }, () => 'on'), 'fail', 'fail', 'end');

t.test('the state made of the events is the machine’s own, whatever fails on the way', async (t) => {
  const ends = new Set<string>();
  fc.assert(
    fc.property(
      fc.constantFrom(...(Object.keys(inputs) as (keyof typeof inputs)[])),
      fc.array(step, { minLength: 1, maxLength: 30, size: 'max' }),
      (mode, steps) => {
        const { walk, compared } = follow(mode, steps);
        for (const [told, real] of compared) t.equal(told, real);
        ends.add(walk.state);
      },
    ),
    { seed: 7, numRuns: 150 },
  );
  t.strictSame(
    ['failed', 'ready'].filter((state) => !ends.has(state)),
    [],
    'runs came to both ends',
  );
});

t.test('spans follow each other without a gap, and a wait ends where its attempt begins', async (t) => {
  const { events } = follow('loop', [
    'on',
    'on',
    'on',
    'on',
    'fail',
    ...Array.from({ length: 20 }, () => 'on'),
  ]);
  const spans = spansOf(events, 1, 'loop');
  for (const [index, { toTs }] of spans.entries()) t.equal(toTs, spans[index + 1]?.fromTs);
  t.equal(spans.at(-1)?.state, 'ready');
  const wait = spans.find(({ state }) => state === 'pending.stage1.retrying');
  const scheduled = events.find(({ event }) => event === 'retry_scheduled');
  t.equal(wait?.toTs, scheduled?.next_at_ms);
  t.equal(wait?.attempt, 2);
  t.equal(spans[spans.indexOf(wait ?? spans[0] ?? fail()) - 1]?.error, 'i2v_failed', 'what failed says so');
  t.equal(spanAt(spans, wait?.fromTs ?? 0)?.state, 'pending.stage1.retrying');
  const waitedTs = (wait?.toTs ?? 0) - 1;
  t.equal(begunBy(spans, waitedTs).at(-1), wait, 'an attempt to come has not begun');
  t.equal(begunBy(spans, waitedTs + 1).at(-1)?.state, 'pending.stage1.submitting');
  t.strictSame(begunBy(spans, 0), [spans[0]]);
  t.equal(spanAt(spans, 0), spans[0], 'before it all is its beginning');
});

t.test('an attempt that was brought forward cuts its wait short', async (t) => {
  const { events } = follow('loop', ['on', 'on', 'on', 'on', 'fail']);
  const last = events.at(-1) ?? fail();
  const early = { ...last, event: 'cancelled' as const, ts: last.ts + 5, next_at_ms: undefined };
  const spans = spansOf([...events, AssetEvent.parse(early)], 1, 'loop');
  t.match(spans.slice(-2), [
    { state: 'pending.stage1.retrying', toTs: last.ts + 5 },
    { state: 'cancelled', fromTs: last.ts + 5, toTs: undefined },
  ]);
});

function fail(): never {
  throw new Error('there is none');
}

/** Walks the machine, and notes its state beside the one that its events tell of. */
function follow(mode: Mode & keyof typeof inputs, steps: readonly string[]) {
  const walk = createWalk(inputs[mode]);
  const events: AssetEvent[] = [];
  const compared: [told: string, real: string][] = [];
  let told = 'new';
  const take = (step: () => void) => {
    const before = walk.facts.length;
    step();
    const facts = walk.facts.slice(before);
    for (const [index, { delayMs, options: _, ...fact }] of facts.entries()) {
      const event = AssetEvent.parse({
        ...fact,
        ts: walk.now + index,
        asset_id: 'ast_1',
        project_id: 'prj_1',
        ...(delayMs === undefined ? {} : { next_at_ms: walk.now + index + delayMs }),
      });
      events.push(event);
      told = stateAfter(told, event, mode) ?? told;
    }
    if (facts.length > 0) compared.push([told, walk.state]);
  };
  take(() => walk.send('START'));
  for (const step of steps) {
    if (!walk.state.startsWith('pending')) break;
    if (walk.state.endsWith('retrying')) walk.fire('retryDelay');
    else if (step === 'on') take(() => goOn(walk));
    else take(() => walk.fail(step === 'end' ? { retry: 'permanent' } : {}));
  }
  return { walk, events, compared };
}

/** Answers the present work well. */
function goOn(walk: Walk): void {
  const answers: Record<string, Parameters<Walk['send']>[0]> = {
    fetching: 'SOURCE_FETCHED',
    asked: 'WORK_STARTED',
    describing: 'VISION_COMPLETED',
    submitting: 'SUBMITTED',
    waiting: 'OUTPUT_READY',
    copying: 'CLIP_COMPLETED',
    merging: 'CLIP_COMPLETED',
    writing: 'STORED',
  };
  walk.send(answers[walk.state.split('.').at(-1) ?? ''] ?? 'RESUME');
}

t.test('the forecast of a month goes on at its pace, and says nothing before a day has passed', async (t) => {
  const dayMs = 86_400_000;
  const startTs = Date.parse('2026-03-01T00:00:00Z');
  const month = {
    used: 40,
    limit: 100,
    cycle_started_at: '2026-03-01T00:00:00Z',
    resets_at: '2026-03-31T00:00:00Z',
    overage_runs: 0,
    overage_cents: 0,
    overage_price_cents: null,
  };
  t.equal(forecastOf(month, startTs + 10 * dayMs), 120);
  t.equal(forecastOf({ ...month, used: 41 }, startTs + 30 * dayMs - 1), 41, 'at its end what was made');
  t.equal(forecastOf(month, startTs + dayMs - 1), undefined);
  t.equal(forecastOf(month, startTs + 30 * dayMs), undefined, 'over');
  t.equal(forecastOf({ ...month, used: 0 }, startTs + 10 * dayMs), undefined);
  t.equal(forecastOf({ ...month, cycle_started_at: null, resets_at: null }, startTs), undefined);
});
