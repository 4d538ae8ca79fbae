/** The rules behind the operator console that need no store: the verdict, what is taken out, what is usual. */
import t from 'tap';
import { operator as limits, pipeline, webhook } from '../../schemas/limits.ts';
import { createSlots } from '../../src/actors/slots.ts';
import { redact } from '../../src/operator/redact.ts';
import { activeStates, createStateTable, statesOf } from '../../src/operator/states.ts';
import { expectationOf, measure } from '../../src/operator/usual.ts';
import { judge, type Signs } from '../../src/operator/verdict.ts';
import type { StoredFact } from '../../src/store/actors.ts';

const well: Signs = {
  now: 1_000_000,
  isBusConnected: true,
  countedTs: 999_000,
  workers: 2,
  listenedMs: 60_000,
  active: 12,
  stuck: 0,
  waitingForRetry: 0,
  waitingForEndpoints: 0,
  endpoints: 0,
  movedTs: 999_000,
  oldestWaitMs: 3_000,
  ready: 20,
  failed: 1,
  commonError: 'i2v_failed',
  delivered: 9,
  dead: 0,
  deadEndpoints: 0,
  failingProviders: [],
};

t.test('the verdict says why', async (t) => {
  const cases: [Partial<Signs>, string, RegExp][] = [
    [{}, 'ok', /12 machines under way and moving, the oldest for 3 s\. 20 of 21 runs went well/],
    [{ active: 0, ready: 0, failed: 0 }, 'ok', /Nothing is under way\. No run has ended/],
    [{ stuck: 1 }, 'trouble', /1 of 12 machines under way has not moved/],
    [{ movedTs: 800_000 }, 'trouble', /Nothing has moved for 3 min/],
    [{ movedTs: 800_000, waitingForRetry: 12 }, 'ok', /12 machines under way, none of them due\./],
    [
      { movedTs: 800_000, waitingForRetry: 5, waitingForEndpoints: 7, endpoints: 1 },
      'ok',
      /none of them due\. 1 endpoint of customers does not answer, or not in time: 7 deliveries wait there\./,
    ],
    [{ waitingForEndpoints: 1, endpoints: 1 }, 'ok', /and moving, .*1 delivery waits there\. 20 of 21/],
    [
      { waitingForEndpoints: 9, endpoints: 3, delivered: 0 },
      'trouble',
      /No webhook arrives anywhere: 3 endpoints/,
    ],
    [{ waitingForEndpoints: 9, endpoints: 2, delivered: 0 }, 'ok', /2 endpoints of customers do not/],
    [{ stuck: 2, waitingForEndpoints: 9, endpoints: 2 }, 'trouble', /^2 of 12 machines/],
    [{ workers: 0 }, 'trouble', /No worker is heard/],
    [{ ready: 2, failed: 8 }, 'trouble', /8 of 10 runs have failed.*most with i2v_failed/],
    [{ ready: 0, failed: 4 }, 'ok', /0 of 4 runs/],
    [
      { delivered: 1, dead: 9, deadEndpoints: 3 },
      'trouble',
      /9 of 10 webhooks were given up.*at 3 endpoints/,
    ],
    [{ delivered: 1, dead: 9, deadEndpoints: 2 }, 'ok', /moving/],
    [{ failingProviders: ['fal'] }, 'trouble', /fal/],
    [{ stuck: 2, failed: 90 }, 'trouble', /not moved.*have failed/],
  ];
  for (const [change, verdict, text] of cases) {
    t.match(judge({ ...well, ...change }), { verdict, text }, JSON.stringify(change));
  }
});

t.test('what is not known is unknown, and no other answer is given then', async (t) => {
  const cases: [Partial<Signs>, RegExp][] = [
    [{ countedTs: 900_000, stuck: 3 }, /The store was last heard 2 min ago/],
    [{ isBusConnected: false, failed: 90 }, /bus cannot be reached/],
    [{ workers: 0, listenedMs: 500 }, /just begun to listen/],
  ];
  for (const [change, text] of cases) {
    const verdict = judge({ ...well, ...change });
    t.match(verdict, { verdict: 'unknown', text, moving: { verdict: 'unknown' } });
    t.equal(verdict.succeeding.verdict, 'unknown');
  }
});

t.test('addresses lose what signs them, and secrets go, however deep', async (t) => {
  const shown = redact({
    src: 'https://ada:pw@images.example/cat.png?X-Amz-Signature=abc#frag',
    job: { statusUrl: 'https://api.example/v1/p/1', cancelUrl: 'https://api.example/x?token=t' },
    deep: [{ signingSecret: 'sk_1', text: 'see https://a.example/?sig=1 and https://b.example/c' }],
    at: new Date(0),
    none: null,
    long: 'x'.repeat(5_000),
  });
  t.match(shown, {
    src: 'https://images.example/cat.png?…',
    job: { statusUrl: 'https://api.example/v1/p/1', cancelUrl: 'https://api.example/x?…' },
    deep: [{ signingSecret: '(taken out)', text: 'see https://a.example/?… and https://b.example/c' }],
    at: '1970-01-01T00:00:00.000Z',
    none: null,
  });
  t.notMatch(JSON.stringify(shown), /abc|frag|pw@|sk_1|sig=1|token=t/);
  t.ok((shown as { long: string }).long.length < 2_100);
});

t.test('every state says what is waited for, and the ends that nothing is', async (t) => {
  const table = createStateTable({ pipeline, webhook });
  t.equal(table.asset.size, 27);
  t.strictSame([...table.delivery.keys()].sort(), [
    ...['cancelled', 'dead', 'delivered', 'pending', 'retrying', 'sending'],
  ]);
  for (const kind of ['asset', 'delivery'] as const) {
    for (const [state, { what, ms }] of table[kind]) t.equal(what === 'nothing', ms === undefined, state);
  }
  t.notOk(activeStates(table, 'asset').includes('ready'));
  t.strictSame(statesOf(table, 'asset', 'pending.merge'), [
    ...['asked', 'merging', 'retrying'].map((step) => `pending.merge.${step}`),
  ]);
  t.strictSame(statesOf(table, 'asset', 'pending.mer'), [], 'half a name is none');
});

t.test('what is usual is measured on first attempts of the last run', async (t) => {
  const run = (ms: number): StoredFact[] => [
    { seq: 1, n: 0, ts: 0, event: 'queued', attempt: 1 },
    { seq: 2, n: 0, ts: 5, event: 'vision_started', attempt: 1, stage: 'vision' },
    { seq: 3, n: 0, ts: 5 + ms, event: 'vision_completed', attempt: 1, stage: 'vision' },
    { seq: 4, n: 0, ts: 9_000_000, event: 'stage_started', attempt: 2, stage: 'single' },
  ];
  const runs = Array.from({ length: 40 }, (_, n) => run(n * 100));
  const usual = measure(runs);
  t.equal(usual.get('vision.describing'), 3_700);
  t.notOk(usual.has('single.submitting'), 'a second attempt says nothing');
  t.equal(measure(runs.slice(0, 5)).size, 0, 'a few say nothing');
  const info = { what: 'provider', text: '', ms: 30_000, stage: 'vision.describing' } as const;
  t.strictSame(expectationOf(info, usual), { expectedMs: 3_700 * limits.usualFactor, usualMs: 3_700 });
  t.match(expectationOf({ ...info, ms: 5_000 }, usual), { expectedMs: 5_000 }, 'never past its limit');
});

t.test('a worker tells who holds its slots, and who waits in the order of turns', async (t) => {
  const slots = createSlots({ video: 1 });
  const { signal } = new AbortController();
  const ask = (project: string, id: string) =>
    slots.acquire({ slot: 'video', project, perProject: 2, since: 0, id, effect: 'animate' }, signal);
  const release = await ask('prj_a', 'ast_0');
  const waiting = [ask('prj_a', 'ast_1'), ask('prj_a', 'ast_2'), ask('prj_b', 'ast_3')];
  const [look] = slots.look();
  t.match(look, { slot: 'video', capacity: 1, waits: 3, running: [{ id: 'ast_0', project_id: 'prj_a' }] });
  t.strictSame(
    look?.waiting.map(({ id }) => id),
    ['ast_1', 'ast_3', 'ast_2'],
  );
  release();
  const next = await waiting[0];
  t.match(slots.look(), [{ running: [{ id: 'ast_1' }], waits: 2 }]);
  next?.();
  for (const one of waiting.slice(1)) void one.then((end) => end());
});
