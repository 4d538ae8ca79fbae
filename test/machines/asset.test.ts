/** The ways an asset can go, and random walks through its machine. The transition table has its own file. */
import fc from 'fast-check';
import t from 'tap';
import { type AssetContext, assetMachineVersion } from '../../machines/asset.ts';
import { delayBefore } from '../../machines/retry.ts';
import { type EventName, isTerminal } from '../../schemas/events.ts';
import { pipeline } from '../../schemas/limits.ts';
import {
  type Change,
  createWalk,
  failed,
  jobOf,
  loopPath,
  type MessageType,
  messageOf,
  motionPlan,
  options,
  requestOf,
  singlePath,
  type Walk,
} from '../fixtures/asset-messages.ts';

const minute = 60_000;
const single = { options: { ...options, mode: 'animate-on-hover', loopMode: 'none' } } as const;
const toVideo = loopPath.slice(0, 4);

const named = ({ facts }: Pick<Walk, 'facts'>) =>
  facts.map(({ event, stage }) => (stage ? `${event} ${stage}` : event));
const asked = ({ work }: Change) => work.map(({ effect }) => effect);

t.test('a loop tells its facts in order and ends with its files', async (t) => {
  const walk = createWalk().follow(...loopPath);
  t.equal(walk.state, 'ready');
  t.strictSame(named(walk), [
    'queued',
    'vision_started vision',
    'vision_completed vision',
    'stage_started stage1',
    'stage_completed stage1',
    'stage_started stage2',
    'stage_completed stage2',
    'stage_started merge',
    'stage_completed merge',
    'store_write_completed store_write',
    'ready',
  ]);
  const [queued] = walk.facts;
  t.match(queued, { run: 1, request_id: 'req_1', attempt: 1, options });
  t.match(walk.facts.at(-1), {
    event: 'ready',
    mp4_url: 'https://service.example/media/1.mp4',
    poster_url: 'https://service.example/media/1.jpg',
    bytes: 123_456,
    loop_mode: 'crossfade',
    latency_ms: 120,
  });
  t.strictSame(
    walk.facts.map(({ latency_ms }) => latency_ms).filter((ms) => ms !== undefined),
    [10, 20, 20, 10, 10, 120],
    'completed stages and the run say how long they took',
  );
  t.equal(walk.context.costMicros, 40_000, 'both predictions were paid');
  t.match(walk.context, { media: { run: 1, mp4Key: 'media/1.mp4' }, latencyMs: 120, error: null });
  t.strictSame(walk.timers, [], 'nothing is left to wake it');
  t.equal(assetMachineVersion, 1);
});

t.test('the other modes make one clip and store it', async (t) => {
  const walk = createWalk(single);
  const effects = singlePath.flatMap((type) => asked(walk.send(type)));
  t.strictSame(effects, ['fetchSource', 'vision', 'animate', 'storeWrite', 'cleanUp']);
  t.strictSame(named(walk).slice(3, 5), ['stage_started single', 'stage_completed single']);
  t.equal(walk.state, 'ready');
});

t.test('each stage asks for its work with what the stages before have left', async (t) => {
  const walk = createWalk();
  const effects = new Map(
    loopPath.flatMap((type) =>
      walk.send(type).work.map(({ effect, params }) => [effectKey(effect, params), params]),
    ),
  );
  const source = { key: 'work/1/source', contentType: 'image/png' };
  t.strictSame(
    [...effects.keys()],
    [
      'fetchSource source',
      'vision vision',
      'animate stage1',
      'animate stage2',
      'merge merge',
      'storeWrite store_write',
      'cleanUp',
    ],
  );
  t.match(effects.get('fetchSource source'), { run: 1, attempt: 1, src: 'https://example.com/cat.png' });
  t.match(effects.get('vision vision'), { source, options, plan: 'free' });
  t.match(effects.get('animate stage1'), {
    source,
    prompt: 'a cat blinks',
    motionPlan,
    previousClipKey: null,
    job: null,
    outputUrl: null,
    clockTs: 0,
    timeoutMs: pipeline.videoTimeoutMs,
  });
  t.match(effects.get('animate stage2'), { previousClipKey: 'work/1/stage1', job: null, clockTs: 0 });
  t.match(effects.get('merge merge'), { clipKeys: ['work/1/stage1', 'work/1/stage2'] });
  t.match(effects.get('storeWrite store_write'), { clipKey: 'work/1/merge' });
  t.match(effects.get('cleanUp'), { run: 1 });
});

t.test(
  'a transient failure is tried again after 1 s and 4 s, and the third failure is the last',
  async (t) => {
    const walk = createWalk(single).follow(...toVideo);
    const first = walk.fail();
    t.match(first.facts, [
      { event: 'stage_failed', stage: 'single', attempt: 1, error_code: 'i2v_failed', latency_ms: 0 },
      { event: 'retry_scheduled', stage: 'single', attempt: 2, delayMs: 1_000, error_code: 'i2v_failed' },
    ]);
    t.match(first.set, [{ delayMs: 1_000 }]);
    t.strictSame(asked(first), [], 'the second attempt is not asked for before its delay');
    t.match(walk.fire('retryDelay').work, [{ effect: 'animate', params: { attempt: 2, job: null } }]);

    const second = walk.fail();
    t.match(second.facts[1], { event: 'retry_scheduled', attempt: 3, delayMs: 4_000 });
    walk.fire('retryDelay');

    const third = walk.fail({ hint: 'The provider is down.' });
    t.equal(third.state, 'failed');
    t.match(third.facts, [
      { event: 'stage_failed', attempt: 3 },
      { event: 'failed', stage: 'single', error_code: 'i2v_failed', error_msg: 'The provider is down.' },
    ]);
    t.strictSame(asked(third), ['cleanUp']);
    t.strictSame(walk.timers, []);
  },
);

t.test('every stage has attempts of its own', async (t) => {
  const walk = createWalk().follow('START');
  for (const type of loopPath.slice(1)) {
    if (/(fetching|asked|submitting|writing)$/.test(walk.state)) {
      t.equal(walk.context.attempt, 1, walk.state);
      walk.fail();
      walk.fire('retryDelay');
      t.equal(walk.context.attempt, 2, walk.state);
    }
    walk.send(type);
  }
  t.equal(walk.state, 'ready');
});

t.test('a permanent failure ends the run at once, wherever it happens', async (t) => {
  for (let steps = 1; steps < loopPath.length; steps += 1) {
    const walk = createWalk().follow(...loopPath.slice(0, steps));
    const change = walk.fail({ retry: 'permanent', code: 'quota_exceeded' });
    t.equal(change.state, 'failed');
    t.match(change.facts.at(-1), { event: 'failed', error_code: 'quota_exceeded', error_msg: /plan/ });
    t.equal(named(walk).filter((name) => name.startsWith('retry_scheduled')).length, 0);
  }
});

t.test('what the other side asks to wait counts when it is longer than the schedule', async (t) => {
  const waits = async (retryAfterMs: number) => {
    const walk = createWalk().follow(...toVideo);
    return walk.fail({ retryAfterMs }).facts[1]?.delayMs;
  };
  t.equal(await waits(20_000), 20_000);
  t.equal(await waits(10), 1_000);
  const walk = createWalk().follow(...toVideo);
  walk.fail({ retryAfterMs: 20_000 });
  walk.fire('retryDelay');
  t.equal(walk.fail().facts[1]?.delayMs, 4_000, 'it does not outlive its attempt');
  t.equal(delayBefore(5, [0, 1_000]), 1_000, 'a short schedule repeats its last');
  t.equal(delayBefore(2, []), 0);
});

t.test('vision that takes too long is tried again, and fails with its own code in the end', async (t) => {
  const walk = createWalk().follow('START', 'SOURCE_FETCHED', 'WORK_STARTED');
  const late = walk.fire('visionTimeout');
  t.match(late.facts, [
    {
      event: 'vision_failed',
      stage: 'vision',
      error_code: 'vision_timeout',
      latency_ms: pipeline.visionTimeoutMs,
    },
    { event: 'retry_scheduled', attempt: 2, delayMs: 1_000 },
  ]);
  walk.fire('retryDelay');
  walk.send('WORK_STARTED');
  walk.fire('visionTimeout');
  walk.fire('retryDelay');
  walk.send('WORK_STARTED');
  t.match(walk.fire('visionTimeout').facts.at(-1), { event: 'failed', error_code: 'vision_timeout' });
});

t.test('waiting for a worker starts no clock', async (t) => {
  for (const steps of [1, 2, 4, 12]) {
    const walk = createWalk().follow(...loopPath.slice(0, steps));
    t.strictSame(
      walk.timers.map(({ id }) => id).sort(),
      ['reconcile', 'xstate.after.stallAfter.asset.pending'],
      `${walk.state} has the run's timers alone`,
    );
  }
});

t.test('a prediction that takes too long is repeated only when another full limit fits', async (t) => {
  const noRoom = createWalk().follow(...toVideo, 'SUBMITTED');
  const last = noRoom.fire('videoTimeout');
  t.match(last.facts, [
    { event: 'stage_failed', error_code: 'i2v_timeout', latency_ms: pipeline.videoTimeoutMs },
    { event: 'failed', error_code: 'i2v_timeout' },
  ]);
  t.match(last.work, [
    { effect: 'cleanUp' },
    { effect: 'cancelVideo', params: { job: { id: 'job-1-stage1-1' } } },
  ]);

  const room = createWalk({}, { videoTimeoutMs: 2 * minute }).follow(...toVideo, 'SUBMITTED');
  const first = room.fire('videoTimeout');
  t.match(first.state, /stage1.retrying/);
  t.strictSame(asked(first), ['cancelVideo'], 'the one that took too long is cancelled');
  t.match(room.fire('retryDelay').work, [
    { effect: 'animate', params: { attempt: 2, job: null, clockTs: 0 } },
  ]);
});

t.test('a prediction and the copy of its output share one clock', async (t) => {
  const walk = createWalk().follow(...toVideo, 'SUBMITTED');
  const due = walk.timers.find(({ id }) => id.includes('videoTimeout'))?.at;
  walk.pass(2 * minute);
  walk.send('OUTPUT_READY');
  t.equal(walk.timers.find(({ id }) => id.includes('videoTimeout'))?.at, due);
  t.match(walk.fire('videoTimeout'), { state: 'failed' });
  t.match(walk.context.error, { code: 'i2v_timeout' });
});

t.test('a merge that takes too long is repeated while there is room', async (t) => {
  const walk = createWalk({}, { mergeTimeoutMs: minute }).follow(...loopPath.slice(0, 11));
  t.equal(walk.state, 'pending.merge.merging');
  t.match(walk.fire('mergeTimeout').facts, [
    { event: 'stage_failed', stage: 'merge', error_code: 'merge_failed' },
    { event: 'retry_scheduled', stage: 'merge', attempt: 2 },
  ]);
  const noRoom = createWalk().follow(...loopPath.slice(0, 11));
  t.match(noRoom.fire('mergeTimeout'), { state: 'failed' });
});

t.test('a run that stands still for ten minutes fails, and its prediction is cancelled', async (t) => {
  const walk = createWalk({}, { videoTimeoutMs: 20 * minute }).follow(...toVideo, 'SUBMITTED');
  const start = 1_000_010;
  const stalled = walk.fire('stallAfter');
  t.equal(walk.now, start + pipeline.stallAfterMs, 'counted from the start of the run');
  t.match(stalled.facts, [{ event: 'failed', stage: 'stage1', error_code: 'pipeline_stalled' }]);
  t.strictSame(asked(stalled).sort(), ['cancelVideo', 'cleanUp']);
  t.strictSame(walk.timers, []);

  const waiting = createWalk().follow('START');
  t.strictSame(asked(waiting.fire('stallAfter')), ['cleanUp'], 'there is nothing to cancel without one');
});

t.test('a pending run is looked at after five minutes, then every minute', async (t) => {
  const walk = createWalk({}, { videoTimeoutMs: 20 * minute }).follow(...toVideo, 'SUBMITTED');
  const first = walk.fire('reconcile');
  t.equal(walk.now, 1_000_010 + pipeline.reconcileAfterMs);
  t.match(first.work, [{ effect: 'animate', params: { attempt: 1, job: jobOf(walk.ref()) } }]);
  t.strictSame(first.set, [{ id: 'reconcile', delayMs: pipeline.reconcileEveryMs }]);
  t.strictSame(walk.fire('reconcile').set, first.set);
  t.strictSame(named(walk).at(-1), 'stage_started stage1', 'nobody is told');

  const idle = createWalk().follow(...toVideo, 'WORK_FAILED');
  t.strictSame(asked(idle.send('RECONCILE')), [], 'between attempts there is nothing to ask for');
  t.equal(
    createWalk().follow('START', 'CANCEL').send('RECONCILE').set.length,
    0,
    'an ended run is left alone',
  );
});

t.test('interrupted work is asked for again as far as it had come, and no clock starts again', async (t) => {
  for (let steps = 1; steps < loopPath.length; steps += 1) {
    const walk = createWalk().follow(...loopPath.slice(0, steps));
    const before = [JSON.stringify(walk.snapshot), JSON.stringify(walk.timers)];
    const { job, outputUrl, clockTs } = walk.context;
    const change = walk.send('RESUME');
    t.equal(change.work.length, 1, walk.state);
    t.match(change.work[0]?.params, walk.ref());
    if (walk.state.includes('stage')) t.match(change.work[0]?.params, { job, outputUrl, clockTs });
    t.strictSame([JSON.stringify(walk.snapshot), JSON.stringify(walk.timers)], before);
    t.strictSame(change.facts, []);
  }
});

t.test('a cancel ends the run once, and its prediction with it', async (t) => {
  const withJob = createWalk().follow(...toVideo, 'SUBMITTED');
  const change = withJob.send('CANCEL');
  t.match(change.facts, [{ event: 'cancelled', run: 1 }]);
  t.strictSame(asked(change).sort(), ['cancelVideo', 'cleanUp']);
  t.strictSame(withJob.timers, []);
  t.strictSame(withJob.send('CANCEL').facts, []);

  const without = createWalk().follow('START', 'WORK_FAILED');
  t.strictSame(asked(without.send('CANCEL')), ['cleanUp']);
  t.equal(without.context.error, null, 'what had failed on the way is not why it ended');
});

t.test('a cancel of an earlier run leaves the one that has begun meanwhile alone', async (t) => {
  const walk = createWalk().follow('START', 'REGENERATE');
  const late = walk.send('CANCEL', { run: 1 });
  t.strictSame([late.facts, asked(late)], [[], []]);
  t.equal(walk.state, 'pending.source.fetching');
  walk.send('CANCEL', { run: undefined });
  t.equal(walk.state, 'cancelled', 'without a run it means whichever there is');
});

t.test('a cancel before START has come ends the run, and START does not revive it', async (t) => {
  const walk = createWalk().follow('CANCEL', 'START');
  t.equal(walk.state, 'cancelled');
  t.strictSame(named(walk), ['queued', 'cancelled']);
});

t.test(
  'an erasure ends a pending run and its prediction, and nothing begins or is kept after it',
  async (t) => {
    const prompted = { options: { ...options, promptOverride: 'my secret cat' } };
    const withJob = createWalk(prompted).follow(...toVideo, 'SUBMITTED', 'OUTPUT_READY');
    const change = withJob.send('ERASE');
    t.match(change.facts, [{ event: 'cancelled', run: 1 }]);
    t.strictSame(asked(change).sort(), ['cancelVideo', 'cleanUp']);
    t.strictSame(withJob.timers, []);
    t.strictSame(asked(createWalk().follow('START').send('ERASE')), ['cleanUp']);

    const ready = createWalk(prompted).follow(...loopPath);
    t.strictSame(ready.send('ERASE').facts, [], 'a run that has ended has its end already');
    for (const walk of [withJob, ready]) {
      const { src, media, source, vision, clips, outputUrl } = walk.context;
      t.strictSame([src, media, source, vision, clips, outputUrl], ['', null, null, null, {}, null]);
      t.notMatch(JSON.stringify(walk.context), /secret|example|blinks/);
      t.match(
        walk.context,
        { run: 1, holdId: 'hld_1', requestId: 'req_1' },
        'which run was counted is known',
      );
      for (const type of ['START', 'REGENERATE', 'STORED', 'ERASE'] as const) walk.send(type);
      t.equal(walk.state, 'erased');
    }
  },
);

t.test('a run that was erased before START has come has its end told, and is not begun', async (t) => {
  const walk = createWalk().follow('ERASE', 'START', 'REGENERATE');
  t.equal(walk.state, 'erased');
  t.strictSame(named(walk), ['queued', 'cancelled']);
});

t.test('a prediction that is heard of after the erasure is cancelled', async (t) => {
  const walk = createWalk().follow(...toVideo);
  const ref = walk.ref();
  walk.send('ERASE');
  const late = walk.apply(messageOf.SUBMITTED(ref, walk.now + 1));
  t.match(late.work, [{ effect: 'cancelVideo', params: { job: jobOf(ref) } }]);
  t.equal(walk.state, 'erased');
});

t.test('a regenerate of a pending run cancels it and starts the next', async (t) => {
  const walk = createWalk().follow(...toVideo, 'SUBMITTED');
  const change = walk.send('REGENERATE', requestOf(2, { options: single.options, plan: 'pro' }));
  t.match(change.facts, [
    { event: 'cancelled', run: 1, request_id: 'req_1', stage: undefined },
    { event: 'queued', run: 2, request_id: 'req_2', attempt: 1, options: single.options },
  ]);
  t.match(change.work, [
    { effect: 'cleanUp', params: { run: 1 } },
    { effect: 'cancelVideo', params: { run: 1, job: { id: 'job-1-stage1-1' } } },
    { effect: 'fetchSource', params: { run: 2, attempt: 1 } },
  ]);
  t.match(walk.context, {
    run: 2,
    plan: 'pro',
    holdId: 'hld_2',
    job: null,
    vision: null,
    source: null,
    costMicros: 0,
  });
  t.match(
    walk.timers.map(({ at }) => at - walk.now).sort((a, b) => a - b),
    [pipeline.reconcileAfterMs, pipeline.stallAfterMs],
    'both clocks of the run start again',
  );
  walk.follow(...singlePath.slice(1));
  t.equal(walk.state, 'ready');
  t.equal(walk.context.media?.run, 2);
});

t.test('a regenerate of an ended run starts the next without ending the last once more', async (t) => {
  const ends: Record<string, Walk> = {
    ready: createWalk().follow(...loopPath),
    cancelled: createWalk().follow('START', 'CANCEL'),
    failed: createWalk().follow(...toVideo),
  };
  ends.failed?.fail({ retry: 'permanent' });
  for (const [state, walk] of Object.entries(ends)) {
    t.equal(walk.state, state);
    const { media } = walk.context;
    const change = walk.send('REGENERATE');
    t.strictSame(named(change), ['queued']);
    t.strictSame(asked(change), ['fetchSource']);
    t.strictSame(walk.context.media, media, 'the last finished files stay until there are new ones');
    t.match(walk.context, { run: 2, attempt: 1, error: null, clips: {}, runStartedTs: walk.now });
  }
});

t.test('a run whose START was lost still has its end told when the next one starts', async (t) => {
  const walk = createWalk();
  t.match(walk.send('REGENERATE').facts, [
    { event: 'queued', run: 1 },
    { event: 'cancelled', run: 1 },
    { event: 'queued', run: 2 },
  ]);
  t.strictSame(walk.send('START').facts, []);
});

t.test('a prediction that nobody waits for is cancelled whenever it is heard of', async (t) => {
  const other = { provider: 'local', id: 'job-stray' };
  const places: Record<string, Walk> = {
    followsAnother: createWalk().follow(...toVideo, 'SUBMITTED'),
    between: createWalk().follow(...toVideo, 'WORK_FAILED'),
    ended: createWalk().follow(...toVideo, 'CANCEL'),
    elsewhere: createWalk().follow('START'),
  };
  for (const [place, walk] of Object.entries(places)) {
    const change = walk.send('SUBMITTED', { job: other });
    t.match(change.work, [{ effect: 'cancelVideo', params: { job: other } }], place);
    t.strictSame(change.facts, []);
  }
  t.strictSame(
    asked(
      createWalk()
        .follow(...toVideo, 'SUBMITTED')
        .send('SUBMITTED'),
    ),
    [],
    'its own is not',
  );
});

t.test(
  'the failure of a stray prediction does not end the attempt of the one that is followed',
  async (t) => {
    const walk = createWalk().follow(...toVideo, 'SUBMITTED');
    t.strictSame(walk.fail({ jobId: 'job-stray' }).facts, []);
    t.equal(walk.state, 'pending.stage1.waiting');
    t.match(walk.fail({ jobId: jobOf(walk.ref()).id }), { state: 'pending.stage1.retrying' });

    const before = createWalk().follow(...toVideo);
    t.match(before.fail({ jobId: 'job-any' }), { state: 'pending.stage1.retrying' }, 'none is followed yet');
  },
);

t.test('a prediction that is given up for another attempt is cancelled', async (t) => {
  const waiting = createWalk().follow(...toVideo, 'SUBMITTED');
  t.match(waiting.fail().work, [{ effect: 'cancelVideo', params: { job: { id: 'job-1-stage1-1' } } }]);
  const copying = createWalk().follow(...toVideo, 'SUBMITTED', 'OUTPUT_READY');
  t.strictSame(asked(copying.fail()), [], 'one that has finished is not');
});

// ── Random walks ────────────────────────────────────────────────────────────────────────────────

/** What may come next: the message that is waited for, one at random, an old or failed answer, a timer. */
type Move =
  | { kind: 'next' }
  | { kind: 'message'; type: MessageType }
  | { kind: 'old'; type: MessageType; back: number }
  | { kind: 'fail'; retry: 'transient' | 'permanent' }
  | { kind: 'timer'; place: number };

const types = Object.keys(messageOf) as MessageType[];
const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 8, arbitrary: fc.constant({ kind: 'next' } as const) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('message' as const), type: fc.constantFrom(...types) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('old' as const),
      type: fc.constantFrom(...types),
      back: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('fail' as const),
      retry: fc.constantFrom('transient' as const, 'transient' as const, 'permanent' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('timer' as const), place: fc.nat(5) }) },
);

const expected: [pattern: RegExp, type: MessageType][] = [
  [/^new$/, 'START'],
  [/fetching$/, 'SOURCE_FETCHED'],
  [/asked$/, 'WORK_STARTED'],
  [/describing$/, 'VISION_COMPLETED'],
  [/submitting$/, 'SUBMITTED'],
  [/waiting$/, 'OUTPUT_READY'],
  [/(copying|merging)$/, 'CLIP_COMPLETED'],
  [/writing$/, 'STORED'],
];

function play(walk: Walk, one: Move): Change | undefined {
  switch (one.kind) {
    case 'next': {
      const type = expected.find(([pattern]) => pattern.test(walk.state))?.[1];
      if (type) return walk.send(type);
      return walk.state.endsWith('retrying') ? walk.fire('retryDelay') : undefined;
    }
    case 'message':
      return walk.send(one.type);
    case 'old': {
      const { run, stage, attempt } = walk.ref();
      const ref =
        one.back % 2 === 0 ? { run: run - 1, stage, attempt } : { run, stage, attempt: attempt - one.back };
      return walk.apply(messageOf[one.type](ref, walk.now + 1));
    }
    case 'fail':
      return walk.apply(failed(walk.ref(), walk.now + 1, { retry: one.retry }));
    case 'timer': {
      const timer = walk.timers[one.place % Math.max(1, walk.timers.length)];
      return timer ? walk.fire(timer.id) : undefined;
    }
  }
}

/** Events that may follow each within a run; `end` stands for the three that end it. */
const afterStage = ['stage_started', 'stage_failed', 'retry_scheduled', 'store_write_completed', 'end'];
const legal: Record<string, string[]> = {
  queued: ['vision_started', 'vision_failed', 'retry_scheduled', 'end'],
  vision_started: ['vision_completed', 'vision_failed', 'end'],
  vision_completed: ['stage_started', 'stage_failed', 'end'],
  vision_failed: ['retry_scheduled', 'end'],
  stage_started: ['stage_completed', 'stage_failed', 'end'],
  stage_completed: afterStage,
  stage_failed: ['retry_scheduled', 'end'],
  retry_scheduled: [
    'vision_started',
    'vision_failed',
    'stage_started',
    'stage_failed',
    'store_write_completed',
    'retry_scheduled',
    'end',
  ],
  store_write_completed: ['end'],
};

const isEnd = (event: string) => isTerminal(event as EventName);

t.test('2,000 random walks keep the promises of the machine', async (t) => {
  fc.assert(
    fc.property(fc.boolean(), fc.array(move, { minLength: 5, maxLength: 60 }), (isLoop, moves) => {
      const input = isLoop ? {} : single;
      const walk = createWalk(input);
      for (const one of moves) {
        const before = walk.state;
        const change = play(walk, one);
        checkChange(walk, one, change, before);
      }
      checkFacts(walk);
      const twin = createWalk(input);
      for (const one of moves) play(twin, one);
      equal(
        JSON.stringify(twin.snapshot),
        JSON.stringify(walk.snapshot),
        'the same messages give the same document',
      );
      equal(JSON.stringify(twin.facts), JSON.stringify(walk.facts), 'and the same facts');
    }),
    { numRuns: 2_000, ...(process.env['FC_SEED'] ? { seed: Number(process.env['FC_SEED']) } : {}) },
  );
  t.pass('all of them');
});

function checkChange(walk: Walk, one: Move, change: Change | undefined, before: string): void {
  const { context, state } = walk;
  equal(context.attempt <= pipeline.maxAttempts, true, `attempt ${context.attempt} in ${state}`);
  const text = JSON.stringify(context);
  equal(text.length < 8_192, true, 'the context stays under 8 KB');
  if (before === 'erased') equal(state, 'erased', 'an erasure is for good');
  if (state === 'erased') equal(/example|blinks|work\//.test(text), false, 'and keeps nothing of the owner');
  equal(JSON.stringify(JSON.parse(text) as AssetContext), text, 'and is plain JSON');
  equal(hasUndefined(context), false, 'and holds no undefined, which the store would make null of');
  const hasTimers = walk.timers.length > 0;
  equal(hasTimers, state.startsWith('pending'), `only a pending run has timers: ${state}`);
  const isStale =
    one.kind === 'old' && 'attempt' in messageOf[one.type]({ run: 1, stage: 'vision', attempt: 1 }, 0);
  if (!isStale || change === undefined) return;
  equal(state, before, 'an answer to older work changes nothing');
  equal(change.facts.length, 0, 'and tells nothing');
}

function checkFacts({ facts, context, state }: Walk): void {
  for (const run of new Set(facts.map((fact) => fact.run))) {
    const ofRun = facts.filter((fact) => fact.run === run);
    const [first] = ofRun;
    equal(first?.event, 'queued', 'a run begins with queued');
    const ends = ofRun.filter(({ event }) => isEnd(event)).length;
    const isOver = run < context.run || !state.startsWith('pending');
    equal(ends, isOver ? 1 : 0, `run ${run} of ${context.run} in ${state} has ${ends} ends`);
    for (const [place, { event }] of ofRun.slice(1).entries()) {
      const last = ofRun[place]?.event ?? '';
      equal(legal[last]?.includes(isEnd(event) ? 'end' : event), true, `${event} after ${last}`);
    }
  }
  const order = facts.map(({ run }) => run);
  equal(order.join(), order.toSorted((a, b) => a - b).join(), 'runs follow each other');
}

function hasUndefined(value: unknown): boolean {
  if (value === undefined) return true;
  return typeof value === 'object' && value !== null && Object.values(value).some(hasUndefined);
}

function equal<Value>(found: Value, wanted: Value, what: string): void {
  if (!Object.is(found, wanted)) throw new Error(`${what}: found ${found}, wanted ${wanted}`);
}

function effectKey(effect: string, params: Record<string, unknown>): string {
  return params.stage === undefined ? effect : `${effect} ${params.stage}`;
}

// ── What operators do ───────────────────────────────────────────────────────────────────────────

t.test('an attempt that waits for its time begins at once, and only the one that is named', async (t) => {
  const walk = createWalk().follow('START');
  walk.fail();
  t.equal(walk.state, 'pending.source.retrying');
  const early = walk.send('HURRY', { attempt: 1 });
  t.equal(early.state, 'pending.source.retrying', 'the attempt of before has ended');
  const { state, work, cancelled } = walk.send('HURRY');
  t.equal(state, 'pending.source.fetching');
  t.match(work, [{ effect: 'fetchSource', params: { attempt: 2 } }]);
  t.match(cancelled, [/retryDelay/], 'its timer does not fire any more');
});

t.test('an operator ends a run with words that its owner reads, and its prediction with it', async (t) => {
  const walk = createWalk().follow(...loopPath.slice(0, 5));
  const code = 'pipeline_stalled';
  t.equal(
    walk.send('FAIL', { run: 2 }).state,
    'pending.stage1.waiting',
    'another run is none of its business',
  );
  const { state, facts, work } = walk.send('FAIL', { code, reason: 'The source never ends.' });
  t.equal(state, 'failed');
  t.match(facts, [{ event: 'failed', error_code: code, error_msg: 'The source never ends.' }]);
  t.match(work, [{ effect: 'cleanUp' }, { effect: 'cancelVideo' }]);
  const unborn = createWalk().send('FAIL');
  t.match(
    unborn.facts,
    [{ event: 'queued' }, { event: 'failed' }],
    'one terminal fact for one that never began',
  );
});

t.test('a run that keeps what vision said goes from its source to its first clip', async (t) => {
  for (const mode of ['loop', 'animate-in'] as const) {
    const options = { ...createWalk().context.options, mode };
    const walk = createWalk({ options }).follow(...loopPath.slice(0, 4));
    const { prompt } = walk.context.vision ?? {};
    walk.fail({ retry: 'permanent' });
    walk.send('REGENERATE', { options, keepsVision: true });
    t.match(walk.context, { run: 2, vision: { prompt }, source: null, error: null });
    const { state, work } = walk.send('SOURCE_FETCHED');
    t.equal(state, mode === 'loop' ? 'pending.stage1.submitting' : 'pending.single.submitting');
    t.match(work, [{ effect: 'animate', params: { run: 2, attempt: 1, prompt } }]);
  }
  const nothing = createWalk().follow('START');
  nothing.send('REGENERATE', { keepsVision: true });
  t.equal(nothing.send('SOURCE_FETCHED').state, 'pending.vision.asked', 'there is nothing to keep');
  const ordinary = createWalk().follow(...loopPath);
  ordinary.send('REGENERATE');
  t.equal(ordinary.context.vision, null);
});

t.test('operators read why the last attempt failed; its owner does not', async (t) => {
  const walk = createWalk().follow('START');
  const { facts } = walk.fail({ reason: `503 of 10.0.0.7 ${'x'.repeat(400)}` });
  t.match(walk.context.error, { code: 'i2v_failed', reason: /^503 of 10/ });
  t.equal(walk.context.error?.reason?.length, 300, 'and no more of it than is of use');
  t.notMatch(JSON.stringify(facts), /10\.0\.0\.7/);
});
