/** Effects as workers run them: slots and their fairness, answers, failures, interruptions. */
import t from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { createSlots } from '../../src/actors/slots.ts';
import { type Effect, type EffectContext, startWorker } from '../../src/actors/worker.ts';
import type { Log } from '../../src/bus/bus.ts';
import { createMemoryBusServer, type MemoryConnection } from '../fixtures/memory-runtime.ts';
import { createVirtualClock } from '../fixtures/virtual-clock.ts';

// ── Slots ───────────────────────────────────────────────────────────────────────────────────────

const never = new AbortController().signal;
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Asks for a slot and notes who got one; `release` gives back what a project got first. */
function createQueue(capacity: number) {
  const slots = createSlots({ cpu: capacity });
  const granted: string[] = [];
  const releases = new Map<string, (() => void)[]>();
  return {
    slots,
    granted,
    ask(project: string, perProject = 100, signal: AbortSignal = never): Promise<void> {
      return slots.acquire({ slot: 'cpu', project, perProject, since: 0 }, signal).then((release) => {
        granted.push(project);
        releases.set(project, [...(releases.get(project) ?? []), release]);
      });
    },
    async release(project: string): Promise<void> {
      releases.get(project)?.shift()?.();
      await settled();
    },
  };
}

t.test('projects take turns, whoever has more to do', async (t) => {
  const { slots, granted, ask, release } = createQueue(1);
  const all = [...Array.from({ length: 5 }, () => 'big'), 'small', 'other', 'other'].map((project) =>
    ask(project),
  );
  await settled();
  t.strictSame(slots.stats(), { cpu: { running: 1, waiting: 7 } });
  for (let n = 0; n < all.length; n += 1) await release(granted.at(-1) ?? '');
  t.strictSame(granted, ['big', 'big', 'small', 'other', 'big', 'other', 'big', 'big']);
  t.strictSame(slots.stats(), { cpu: { running: 0, waiting: 0 } });
  await Promise.all(all);
});

t.test('within a project the oldest run goes first, even when its work comes again late', async (t) => {
  const slots = createSlots({ cpu: 1 });
  const order: number[] = [];
  const ask = (since: number) => slots.acquire({ slot: 'cpu', project: 'p1', perProject: 9, since }, never);
  const release = await ask(1);
  t.strictSame(slots.waitingByProject('cpu'), {});
  const all = [30, 40, 20, 30].map(async (since) => {
    const done = await ask(since);
    order.push(since);
    done();
  });
  t.strictSame(slots.waitingByProject('cpu'), { p1: 4 });
  t.strictSame(slots.waitingByProject('gpu'), {});
  release();
  await Promise.all(all);
  t.strictSame(order, [20, 30, 30, 40]);
});

t.test('a project has no more than its own limit, and others use what it leaves', async (t) => {
  const { slots, granted, ask, release } = createQueue(4);
  void Promise.all([
    ask('free', 2),
    ask('free', 2),
    ask('free', 2),
    ask('pro', 8),
    ask('pro', 8),
    ask('pro', 8),
  ]);
  await settled();
  t.strictSame(granted, ['free', 'free', 'pro', 'pro']);
  await release('pro');
  t.strictSame(granted.at(-1), 'pro', 'the waiting one of the full project is passed over');
  await release('free');
  t.strictSame(granted.at(-1), 'free');
  t.strictSame(slots.stats(), { cpu: { running: 4, waiting: 0 } });
});

t.test('who gives up waiting leaves no gap, and a slot is given back once', async (t) => {
  const { slots, granted, ask, release } = createQueue(1);
  const first = await slots.acquire({ slot: 'cpu', project: 'p0', perProject: 1, since: 0 }, never);
  const leaving = new AbortController();
  const gone = ask('p1', 1, leaving.signal);
  void ask('p2');
  leaving.abort(new Error('changed my mind'));
  leaving.abort();
  await t.rejects(gone, /changed my mind/);
  await t.rejects(ask('p3', 1, leaving.signal), /changed my mind/, 'it is too late to ask');
  first();
  first();
  await settled();
  t.strictSame(granted, ['p2']);
  await release('p2');
  t.strictSame(slots.stats(), { cpu: { running: 0, waiting: 0 } });
  t.throws(
    () => slots.acquire({ slot: 'gpu', project: 'p1', perProject: 1, since: 0 }, never),
    /no slots of class gpu/,
  );
});

// ── The worker ──────────────────────────────────────────────────────────────────────────────────

type Run = (params: Record<string, unknown>, context: EffectContext) => Promise<{ type: string } | undefined>;

const ref = { run: 1, stage: 'stage1', attempt: 1 };

function createSite() {
  const clock = createVirtualClock();
  const server = createMemoryBusServer(clock, { latencyMs: () => 1 });
  const front = server.connect();
  const logged: string[] = [];
  const log: Log = {
    info: (fields, message) =>
      logged.push(`${message} ${(fields as { outcome?: string }).outcome ?? ''}`.trim()),
    warn: (_, message) => logged.push(message),
    error: (_, message) => logged.push(message),
  };
  let works = 0;

  return {
    clock,
    server,
    front,
    logged,
    /** A worker in a process of its own. */
    async start(runs: Record<string, Run>, { perProject = 10, capacity = 100 } = {}) {
      const view = clock.view();
      const bus = server.connect(view);
      const effects = Object.fromEntries(
        Object.entries(runs).map(([name, run]): [string, Effect] => [
          name,
          { slot: 'cpu', errorCode: 'i2v_failed', perProject: () => perProject, run },
        ]),
      );
      const worker = await startWorker({
        effects,
        bus,
        slots: createSlots({ cpu: capacity }),
        clock: view,
        log,
      });
      return {
        worker,
        bus,
        kill() {
          view.kill();
          void bus.close();
        },
        async stop() {
          let isOver = false;
          void worker.stop().then(() => {
            isOver = true;
          });
          await clock.until(() => isOver, 10_000);
        },
      };
    },
    async ask(effect: string, params: Record<string, unknown> = ref, id = 'ast_1', project = 'p1') {
      works += 1;
      await front.publish({
        subject: front.subjects.work(effect, project, 'asset', id),
        id: `work:${works}`,
        body: { kind: 'asset', id, project, effect, params, plan: 'free', requestId: 'req_1' },
      });
    },
    /** Commands that have reached the actors. */
    answers: () => server.commands().map((one) => JSON.parse((one as unknown as { body: string }).body)),
    tell: (bus: MemoryConnection, event: string, run: number) =>
      bus.publish({
        subject: bus.subjects.fact('p1', 'ast_1', event),
        id: `fact:${event}:${run}`,
        body: { event, asset_id: 'ast_1', run },
      }),
  };
}

/** Effects that wait until a test lets them go on. */
function createGate() {
  const waiting: (() => void)[] = [];
  let begun = 0;
  return {
    begun: () => begun,
    open: () => waiting.shift()?.(),
    run: async (_: unknown, { signal }: EffectContext) => {
      begun += 1;
      await new Promise<void>((resolve, reject) => {
        waiting.push(resolve);
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      return { type: 'DONE', ...ref };
    },
  };
}

t.test('an effect gets its parameters, tells on the way, and its answer is delivered', async (t) => {
  const site = createSite();
  const { worker, stop } = await site.start({
    async animate(params, context) {
      t.match(params, { ...ref, prompt: 'blink' });
      t.match(context, { id: 'ast_1', project: 'p1', plan: 'free', requestId: 'req_1' });
      t.equal(context.hasEnded(), false);
      await context.send({ type: 'SUBMITTED', ...ref, job: { provider: 'local', id: 'j1' } });
      return { type: 'CLIP_COMPLETED', ...ref, key: 'clip' };
    },
  });
  await site.ask('animate', { ...ref, prompt: 'blink' });
  await site.clock.advance(100);
  t.match(site.answers(), [{ type: 'SUBMITTED' }, { type: 'CLIP_COMPLETED', key: 'clip' }]);
  t.match(site.server.commands(), [{ project: 'p1', actor: 'ast_1' }, {}]);
  t.strictSame(worker.stats(), { done: 1, failed: 0, resumed: 0, held: 0 });
  t.equal(await site.front.countWork(), 0);
  t.strictSame(site.logged, ['effect done']);
  await stop();
});

t.test(
  'a failure names its code, retry and wait; an unexpected one has the code of its effect',
  async (t) => {
    const site = createSite();
    const { worker, stop } = await site.start({
      async known() {
        throw new EffectError('source_unfetchable', 'the source answered 429', {
          retryAfterMs: 7_000,
          hint: 'Try again later.',
        });
      },
      async final() {
        throw new EffectError('vision_blocked', 'no');
      },
      async unknown() {
        throw new TypeError('x is not a function');
      },
      async withJob(_, context) {
        await context.send({ type: 'SUBMITTED', ...ref, job: { provider: 'local', id: 'j1' } });
        throw new EffectError('i2v_failed', 'gone');
      },
      async silent() {
        throw new EffectError('store_write_failed', 'a courtesy that failed');
      },
    });
    await site.ask('known');
    await site.ask('final', { ...ref, attempt: 2 });
    await site.ask('unknown', { ...ref, attempt: 3 });
    await site.ask('withJob', { ...ref, attempt: 4, job: null });
    await site.ask('silent', { run: 1 });
    await site.clock.advance(100);
    const failures = site.answers().filter(({ type }) => type === 'WORK_FAILED');
    failures.sort((a, b) => a.attempt - b.attempt);
    t.strictSame(failures, [
      {
        type: 'WORK_FAILED',
        ...ref,
        code: 'source_unfetchable',
        retry: 'transient',
        reason: 'the source answered 429',
        retryAfterMs: 7_000,
        hint: 'Try again later.',
      },
      { type: 'WORK_FAILED', ...ref, attempt: 2, code: 'vision_blocked', retry: 'permanent', reason: 'no' },
      {
        type: 'WORK_FAILED',
        ...ref,
        attempt: 3,
        code: 'i2v_failed',
        retry: 'transient',
        reason: 'unknown failed unexpectedly',
      },
      {
        type: 'WORK_FAILED',
        ...ref,
        attempt: 4,
        code: 'i2v_failed',
        retry: 'transient',
        reason: 'gone',
        jobId: 'j1',
      },
    ]);
    t.match(worker.stats(), { done: 0, failed: 5 });
    t.equal(await site.front.countWork(), 0, 'what has no answer is not tried again either');
    await stop();
  },
);

t.test('work whose worker died is not run again: the actor is asked what is still wanted', async (t) => {
  const site = createSite();
  const gate = createGate();
  const first = await site.start({ animate: gate.run });
  await site.ask('animate');
  await site.ask('animate', { run: 1 }, 'ast_2');
  await site.clock.advance(50);
  t.equal(gate.begun(), 2);
  first.kill();
  let run = 0;
  const second = await site.start({
    async animate() {
      run += 1;
      return undefined;
    },
  });
  await site.clock.advance(10_000);
  t.strictSame(site.answers(), [{ type: 'RESUME', ...ref }]);
  t.equal(run, 1, 'what nobody waits for is just done again');
  t.match(second.worker.stats(), { resumed: 1, done: 1 });
  t.equal(await site.front.countWork(), 0);
  await second.stop();
});

t.test('a RESUME that cannot be delivered is tried with the next delivery', async (t) => {
  const site = createSite();
  const first = await site.start({ animate: createGate().run });
  await site.ask('animate');
  await site.clock.advance(50);
  first.kill();
  const second = await site.start({ animate: createGate().run });
  second.bus.failNext('not stored', 2);
  await site.clock.advance(10_000);
  t.strictSame(site.answers(), [{ type: 'RESUME', ...ref }]);
  t.equal(await site.front.countWork(), 0);
  await second.stop();
});

t.test('work that lasts is kept, and an answer is delivered however long that takes', async (t) => {
  const site = createSite();
  const gate = createGate();
  const { worker, bus, stop } = await site.start({ animate: gate.run });
  await site.ask('animate');
  await site.clock.advance(60_000);
  t.match(worker.stats(), { held: 1, resumed: 0 });
  bus.failNext('not stored', 6);
  gate.open();
  await site.clock.advance(30_000);
  t.strictSame(site.answers(), [{ type: 'DONE', ...ref }]);
  t.equal(site.logged.filter((line) => line.includes('trying again')).length, 6);
  t.equal(gate.begun(), 1);
  await stop();
});

t.test('the same work asked for twice runs once, different work beside it', async (t) => {
  const site = createSite();
  const gate = createGate();
  const { stop } = await site.start({ animate: gate.run, cancelVideo: gate.run });
  await site.ask('animate');
  await site.ask('animate');
  await site.ask('animate', { ...ref, attempt: 2 });
  await site.clock.advance(50);
  t.equal(gate.begun(), 2);
  // Two predictions of one run may have to be cancelled at once.
  await site.ask('cancelVideo', { run: 1, job: { id: 'j1' } });
  await site.ask('cancelVideo', { run: 1, job: { id: 'j2' } });
  await site.clock.advance(50);
  t.equal(gate.begun(), 4);
  for (let n = 0; n < 4; n += 1) gate.open();
  await site.clock.advance(50);
  t.equal(await site.front.countWork(), 0);
  await stop();
});

t.test('the end of a run stops its work, at work or waiting, and that of no other', async (t) => {
  const site = createSite();
  const gate = createGate();
  let ended = 0;
  const { worker, stop } = await site.start(
    {
      async animate(params, context) {
        try {
          return await gate.run(params, context);
        } finally {
          if (context.hasEnded()) ended += 1;
        }
      },
      cancelVideo: gate.run,
    },
    { capacity: 3 },
  );
  await site.ask('cancelVideo', { run: 1, job: { id: 'j1' } });
  await site.ask('animate');
  await site.ask('animate', { ...ref, run: 2 });
  await site.ask('animate', { ...ref, attempt: 2 });
  await site.ask('animate', ref, 'ast_2');
  await site.clock.advance(50);
  t.match(worker.stats(), { held: 5 });
  await site.tell(site.front, 'stage_failed', 1);
  await site.clock.advance(50);
  t.match(worker.stats(), { held: 5 });
  await site.tell(site.front, 'cancelled', 1);
  await site.clock.advance(50);
  t.match(worker.stats(), { held: 3 }, 'both of run 1 are gone, the waiting one as well');
  t.equal(ended, 1);
  t.strictSame(site.answers(), [], 'nobody is told');
  await site.tell(site.front, 'failed', 2);
  await site.clock.advance(50);
  t.match(worker.stats(), { held: 2 });
  await stop();
});

t.test('a worker that stops hands back what it holds, and takes nothing new', async (t) => {
  const site = createSite();
  const gate = createGate();
  const first = await site.start({ animate: gate.run });
  await site.ask('animate');
  await site.clock.advance(50);
  const second = await site.start({ animate: gate.run });
  await first.stop();
  await site.clock.advance(50);
  t.strictSame(site.answers(), [{ type: 'RESUME', ...ref }], 'the other one is asked at once');
  t.match(first.worker.stats(), { held: 0, failed: 0 });
  await site.ask('animate', { ...ref, attempt: 2 });
  await site.clock.advance(50);
  t.match(first.worker.stats(), { held: 0 });
  t.match(second.worker.stats(), { held: 1 });
  await second.stop();
});

t.test('an answer that cannot be delivered at a stop does not become a failure', async (t) => {
  const site = createSite();
  const gate = createGate();
  const { worker, bus, stop } = await site.start({ animate: gate.run });
  await site.ask('animate');
  await site.clock.advance(50);
  bus.failNext('not stored', 2);
  gate.open();
  await site.clock.advance(10);
  await stop();
  await site.clock.advance(50);
  t.match(worker.stats(), { failed: 0, held: 0 });
  t.strictSame(
    site.answers().filter(({ type }) => type === 'WORK_FAILED'),
    [],
  );
});

t.test('work of an unknown name is left to a worker that knows it', async (t) => {
  const site = createSite();
  const old = await site.start({ animate: createGate().run });
  // A newer version has put another effect into the queue of this one.
  const { front } = site;
  await front.publish({
    subject: front.subjects.work('animate', 'p1', 'asset', 'ast_1'),
    id: 'work:new',
    body: { kind: 'asset', id: 'ast_1', project: 'p1', effect: 'animateBetter', params: ref, plan: 'free' },
  });
  await site.clock.advance(20);
  t.match(old.worker.stats(), { held: 0, failed: 0 });
  t.equal(await front.countWork(), 1);
  t.strictSame(site.answers(), []);
  await old.stop();
});

t.test('slots bound what runs at once, by project and in all', async (t) => {
  const site = createSite();
  const gate = createGate();
  const { worker, stop } = await site.start({ animate: gate.run }, { perProject: 2, capacity: 3 });
  for (let n = 0; n < 4; n += 1) await site.ask('animate', ref, `ast_a${n}`, 'p1');
  for (let n = 0; n < 4; n += 1) await site.ask('animate', ref, `ast_b${n}`, 'p2');
  await site.clock.advance(50);
  t.equal(gate.begun(), 3);
  t.match(worker.stats(), { held: 8 });
  for (let n = 0; n < 8; n += 1) {
    gate.open();
    await site.clock.advance(10);
  }
  t.match(worker.stats(), { held: 0, done: 8 });
  await stop();
});
