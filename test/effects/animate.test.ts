/** Making a clip: what is asked of a provider, in which order, and what becomes of it when something goes wrong. */
import { writeFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { animate } from '../../src/effects/animate.ts';
import {
  animateParams,
  createBench,
  createFakeVideo,
  type FakeVideoOptions,
  failedStatus,
  gone,
  outputUrl,
  putWork,
  running,
  smallClip,
  sourceRef,
  succeeded,
} from '../fixtures/effects.ts';

const clip = await smallClip();
const token = 'ast_1-1-single-1';
const job = { provider: 'fake', id: token };
const clipKey = 'work/ast_1/1/single-1.mp4';

async function prepare(t: Tap, wish: FakeVideoOptions = {}, more: Parameters<typeof createBench>[1] = {}) {
  const video = createFakeVideo(wish);
  const bench = await createBench(t, { video, ...more });
  await writeFile(bench.output, clip);
  return { video, ...bench };
}
type Tap = Parameters<typeof createBench>[0];

t.test('a prediction is submitted, told of before anything else, followed, copied', async (t) => {
  const order: string[] = [];
  const { video, context, deps, sent, keys, leftovers } = await prepare(
    t,
    { statuses: [{ state: 'queued', position: 2, pollAfterMs: 1 }, running, succeeded] },
    { onSend: ({ type }) => void order.push(`${type} after ${video_reads()} reads`) },
  );
  function video_reads() {
    return video.reads;
  }
  const answer = await animate(animateParams(), context, deps);
  t.match(answer, { type: 'CLIP_COMPLETED', run: 1, stage: 'single', attempt: 1, key: clipKey });
  t.strictSame(order, ['SUBMITTED after 0 reads', 'OUTPUT_READY after 3 reads']);
  t.match(sent, [
    { type: 'SUBMITTED', job: { provider: 'fake', id: token, statusUrl: /^https:/ } },
    { type: 'OUTPUT_READY', outputUrl, costMicros: 40_000 },
  ]);
  t.match(video.submitted, [{ token, segment: 'whole', seconds: 4, model: 'fast', motion: 'subtle' }]);
  t.strictSame(await keys(), [clipKey]);
  t.strictSame(await leftovers(), [], 'its folder is gone');
  t.strictSame(video.cancelled, []);
});

t.test('nothing is read of a prediction whose SUBMITTED could not be stored', async (t) => {
  const { video, context, deps } = await prepare(
    t,
    {},
    {
      onSend() {
        throw new Error('the bus is away');
      },
    },
  );
  await t.rejects(animate(animateParams(), context, deps), { message: 'the bus is away' });
  t.equal(video.reads, 0);
});

t.test('the job names segment, seed, deadline and source', async (t) => {
  const { video, context, deps, storage } = await prepare(t);
  const signal = new AbortController().signal;
  await storage.put('work/ast_1/1/source.jpg', Buffer.from('image'), { contentType: 'image/jpeg', signal });
  const loop = { previousClipKey: null, clockTs: 0 };
  const before = Date.now();
  await animate(animateParams({ ...loop, stage: 'stage1' }), context, deps);
  await animate(animateParams({ ...loop, stage: 'stage2', attempt: 2 }), context, deps);
  const [out, back] = video.submitted;
  t.match(
    [out, back],
    [
      { segment: 'out', token: 'ast_1-1-stage1-1' },
      { segment: 'back', token: 'ast_1-1-stage2-2' },
    ],
  );
  t.equal(out?.seed, back?.seed, 'the clips of one run share its seed');
  t.ok((out?.deadline ?? 0) >= before + 60_000);
  t.same(await out?.source.read(signal), Buffer.from('image'));
});

t.test('a prediction that is known is followed, not submitted again', async (t) => {
  const { video, context, deps, sent } = await prepare(t);
  await animate(animateParams({ job, clockTs: Date.now() }), context, deps);
  t.strictSame(video.submitted, []);
  t.strictSame(
    sent.map(({ type }) => type),
    ['OUTPUT_READY'],
  );
});

t.test('an output that is known is only copied', async (t) => {
  const { video, context, deps, sent } = await prepare(t);
  const answer = await animate(animateParams({ job, outputUrl, clockTs: Date.now() }), context, deps);
  t.match(answer, { type: 'CLIP_COMPLETED', key: clipKey });
  t.strictSame([video.submitted, video.reads, sent], [[], 0, []]);
});

t.test('a lost prediction', async (t) => {
  t.test('that may be repeated is submitted with the same token, and told of once', async (t) => {
    const { video, context, deps, sent } = await prepare(t, {
      repeatable: true,
      statuses: [gone, running, succeeded],
    });
    await animate(animateParams(), context, deps);
    t.strictSame(
      video.submitted.map((one) => one.token),
      [token, token],
    );
    t.strictSame(
      sent.map(({ type }) => type),
      ['SUBMITTED', 'OUTPUT_READY'],
    );
  });

  t.test('that may not is a transient failure', async (t) => {
    const { video, context, deps } = await prepare(t, { statuses: [gone] });
    await t.rejects(animate(animateParams(), context, deps), { code: 'i2v_failed', retry: 'transient' });
    t.equal(video.submitted.length, 1);
  });

  t.test('that is lost again and again is not submitted for ever', async (t) => {
    const { video, context, deps } = await prepare(t, { repeatable: true, statuses: [gone] });
    await t.rejects(animate(animateParams(), context, deps), { code: 'i2v_failed', retry: 'transient' });
    t.equal(video.submitted.length, 4);
  });
});

t.test('failures of a prediction', async (t) => {
  const failureOf = async (t: Tap, wish: FakeVideoOptions) => {
    const { context, deps, leftovers, keys } = await prepare(t, wish);
    const failure = await animate(animateParams(), context, deps).catch((cause: unknown) => cause);
    t.strictSame([await leftovers(), await keys()], [[], []], 'nothing is left');
    return failure;
  };

  t.test('are transient or permanent as the provider says, with its wait', async (t) => {
    const busy = failedStatus({ reason: 'rate_limited', retryAfterMs: 12_000 });
    t.match(await failureOf(t, { statuses: [busy] }), {
      code: 'i2v_failed',
      retry: 'transient',
      retryAfterMs: 12_000,
      hint: undefined,
    });
    const refused = failedStatus({ kind: 'permanent', reason: 'rejected_content' });
    t.match(await failureOf(t, { statuses: [refused] }), { code: 'i2v_failed', retry: 'permanent' });
    t.match(await failureOf(t, { statuses: [{ state: 'cancelled' }] }), {
      code: 'i2v_failed',
      retry: 'transient',
    });
  });

  t.test('that are our own say no more than that', async (t) => {
    for (const reason of ['auth', 'billing'] as const) {
      const status = failedStatus({ kind: 'permanent', reason, message: 'key sk-123 is not valid' });
      t.match(await failureOf(t, { statuses: [status] }), {
        hint: 'provider unavailable',
        retry: 'permanent',
      });
    }
  });

  t.test('of the submit are the provider’s own', async (t) => {
    const error = new EffectError('i2v_failed', '429', { retryAfterMs: 7_000 });
    t.equal(await failureOf(t, { submit: error }), error);
  });

  t.test('include a provider that is not configured any more', async (t) => {
    const { context, deps } = await prepare(t);
    const known = { provider: 'other', id: 'x' };
    await t.rejects(animate(animateParams({ job: known }), context, deps), {
      code: 'i2v_failed',
      retry: 'transient',
    });
  });
});

t.test('a failure that is none of the provider’s leaves the prediction to the next attempt', async (t) => {
  const { video, context, deps, keys } = await prepare(t, { statuses: [succeeded] });
  const { priced } = deps.purchases;
  deps.purchases.priced = async () => Promise.reject(new Error('the store is away'));
  await t.rejects(animate(animateParams(), context, deps), {
    code: 'i2v_failed',
    retry: 'transient',
    isResumable: true,
    message: /the store is away/,
  });
  deps.purchases.priced = priced;
  await animate(animateParams({ attempt: 2, job, clockTs: Date.now() }), context, deps);
  t.equal(video.submitted.length, 1);
  t.strictSame(video.cancelled, []);
  t.equal((await keys()).length, 1);
});

t.test('reading the status', async (t) => {
  t.test('is tried again after a failed read: the prediction is paid and goes on', async (t) => {
    const { video, context, deps } = await prepare(t, {
      statuses: [new EffectError('i2v_failed', '503'), new TypeError('fetch failed'), running, succeeded],
    });
    t.match(await animate(animateParams(), context, deps), { type: 'CLIP_COMPLETED' });
    t.equal(video.reads, 4);
    t.equal(video.submitted.length, 1);
  });

  t.test('is not tried again after a permanent failure', async (t) => {
    const { video, context, deps } = await prepare(t, {
      statuses: [new EffectError('i2v_failed', '401', { retry: 'permanent' })],
    });
    await t.rejects(animate(animateParams(), context, deps), { code: 'i2v_failed', retry: 'permanent' });
    t.equal(video.reads, 1);
  });
});

t.test('the end', async (t) => {
  const whenReading = async (video: { reads: number }) => {
    while (video.reads === 0) await wait(5);
  };

  t.test('of the run cancels the prediction, also one that refuses', async (t) => {
    for (const cancel of [undefined, new Error('500')]) {
      const wish: FakeVideoOptions = { statuses: ['hang'], ...(cancel ? { cancel } : {}) };
      const { video, context, deps, end, leftovers } = await prepare(t, wish);
      const made = animate(animateParams(), context, deps);
      await whenReading(video);
      end();
      await t.rejects(made, { message: 'the run has ended' });
      t.strictSame(video.cancelled, [token]);
      t.strictSame(await leftovers(), []);
    }
  });

  t.test('of the process leaves the prediction to who goes on', async (t) => {
    const { video, context, deps, stop } = await prepare(t, { statuses: ['hang'] });
    const made = animate(animateParams(), context, deps);
    await whenReading(video);
    stop();
    await t.rejects(made, { message: 'the worker stops' });
    t.strictSame(video.cancelled, []);
  });

  t.test('of the stage’s time cuts off a provider that hangs, and cancels', async (t) => {
    const { video, context, deps } = await prepare(t, { statuses: ['hang'] });
    const params = animateParams({ job, clockTs: Date.now() - 60_900 });
    await t.rejects(animate(params, context, deps), { name: 'TimeoutError' });
    t.strictSame(video.cancelled, [token]);
  });

  t.test('of the stage’s time does not come sooner for a slow submit', async (t) => {
    // The machine counts from SUBMITTED: an effect that counted from before would fail first, as another error.
    const { video, context, deps, sent } = await prepare(t, { submitMs: 400, statuses: ['hang'] });
    const made = animate(animateParams({ timeoutMs: 0 }), context, deps);
    await t.rejects(made, { name: 'TimeoutError' });
    t.ok(Date.now() - (sent[0]?.ts ?? 0) >= 990);
    t.strictSame(video.cancelled, [token]);
  });
});

t.test('copying the output', async (t) => {
  t.test('fails the stage when the file is none that browsers play', async (t) => {
    const { context, deps, output, keys, leftovers } = await prepare(t);
    for (const bytes of [
      clip.subarray(0, clip.length - 100),
      Buffer.from('<html>expired'),
      Buffer.alloc(0),
    ]) {
      await writeFile(output, bytes);
      await t.rejects(animate(animateParams(), context, deps), { code: 'i2v_failed', retry: 'transient' });
      t.strictSame([await keys(), await leftovers()], [[], []]);
    }
  });

  t.test('fails as a transient store_write_failed on a full disk', async (t) => {
    const { storage } = await prepare(t);
    const put = async () => {
      throw new EffectError('store_write_failed', 'cannot store: ENOSPC');
    };
    const { context, deps, leftovers } = await prepare(t, {}, { deps: { storage: { ...storage, put } } });
    await t.rejects(animate(animateParams(), context, deps), {
      code: 'store_write_failed',
      retry: 'transient',
    });
    t.strictSame(await leftovers(), []);
  });

  t.test('is transient when the output is gone', async (t) => {
    const gone = new EffectError('i2v_failed', 'the output is gone', { retry: 'transient' });
    const copyOutput = () => Promise.reject(gone);
    const { context, deps } = await prepare(t, {}, { deps: { copyOutput } });
    await t.rejects(animate(animateParams(), context, deps), gone);
  });

  t.test('twice gives the same file under the same key', async (t) => {
    const { context, deps, keys } = await prepare(t);
    const params = animateParams({ job, outputUrl, clockTs: Date.now() });
    await Promise.all([animate(params, context, deps), animate(params, context, deps)]);
    t.strictSame(await keys(), [clipKey]);
  });
});

t.test('the way back begins with the last frame of the way out and ends with the source', async (t) => {
  const { video, context, deps, storage } = await prepare(t, { lastFrame: true });
  await putWork(storage, sourceRef.key, Buffer.from('source'), 'image/jpeg');
  const previousClipKey = await putWork(
    storage,
    'work/ast_1/1/stage1-1.mp4',
    Buffer.from('way out'),
    'video/mp4',
  );
  await animate(animateParams({ stage: 'stage2', previousClipKey }), context, deps);

  const { signal } = new AbortController();
  const [asked] = video.submitted;
  t.equal(asked?.segment, 'back');
  t.equal(
    Buffer.from((await asked?.firstFrame.read(signal)) ?? []).toString(),
    'way out',
    'the stand-in copies the clip',
  );
  t.equal(Buffer.from((await asked?.lastFrame?.read(signal)) ?? []).toString(), 'source');
});
