/** The local video provider: joining, queueing, cancelling, forgetting; once with the real engine. */
import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { checkClip } from '../../src/media/clip-check.ts';
import { type ClipRequest, createEngine } from '../../src/media/engine.ts';
import { createLocalVideo } from '../../src/providers/local-video.ts';
import { createLocalVision } from '../../src/providers/local-vision.ts';
import type { VideoJob, VideoStatus } from '../../src/providers/provider.ts';
import { photo } from '../fixtures/images.ts';
import { ffmpegPath, filesIn } from '../media/tools.ts';

const { signal } = new AbortController();
const picture = await photo();
const image = { contentType: 'image/jpeg', read: async () => picture };
const { plan, prompt } = await createLocalVision().describe(
  { image, motion: 'subtle', mode: 'loop', seed: 1 },
  signal,
);

function job(token: string, options: Partial<VideoJob> = {}): VideoJob {
  return {
    token,
    source: image,
    firstFrame: image,
    prompt,
    plan,
    motion: 'subtle',
    mode: 'loop',
    segment: 'out',
    loopMode: 'native',
    seconds: 2,
    aspect: 'source',
    model: 'fast',
    seed: 1,
    deadline: Date.now() + 60_000,
    ...options,
  };
}

type Render = {
  request: ClipRequest;
  signal: AbortSignal;
  finish(): Promise<void>;
  fail(error: unknown): void;
  tell(share: number): void;
};

/** A provider whose renders end when the test says so, and a clock that the test moves. */
function provider(t: Test, { poolSize = 2 }: { poolSize?: number } = {}) {
  const tempDir = t.testdir();
  const renders: Render[] = [];
  const clock = { ts: 1_000_000_000_000 };
  const video = createLocalVideo({
    tempDir,
    poolSize,
    now: () => clock.ts,
    engine: {
      renderClip: (request, signal, onProgress) =>
        new Promise((resolve, reject) => {
          if (signal.aborted) reject(signal.reason);
          signal.addEventListener('abort', () => reject(signal.reason));
          renders.push({
            request,
            signal,
            fail: reject,
            tell: (share) => onProgress?.(share),
            async finish() {
              await writeFile(request.output, 'clip');
              resolve({
                width: 2,
                height: 2,
                seconds: 1,
                frames: 30,
                bytes: 4,
                codec: 'avc1',
                hasAudio: false,
              });
            },
          });
        }),
    },
  });
  t.teardown(() => video.close());
  const submit = (token: string, options: Partial<VideoJob> = {}) =>
    video.submit(job(token, { deadline: clock.ts + 60_000, ...options }), signal);
  const started = async (count: number) => {
    while (renders.length < count) await turn();
  };
  return { video, renders, clock, tempDir, submit, started };
}

async function statusWhen(
  read: () => Promise<VideoStatus>,
  state: VideoStatus['state'],
): Promise<VideoStatus> {
  for (;;) {
    const status = await read();
    if (status.state === state) return status;
    await turn();
  }
}

t.test('a job runs, tells its progress and ends with a file', async (t) => {
  const { video, renders, clock, submit, started } = provider(t);
  const submitted = await submit('ast_1/1/stage1/1');
  t.strictSame(submitted, { id: 'ast_1/1/stage1/1' });
  await started(1);
  t.match(await video.status(submitted, signal), { state: 'running', progress: 0, pollAfterMs: Number });
  renders[0]?.tell(0.4);
  t.match(await video.status(submitted, signal), { state: 'running', progress: 0.4 });
  t.match(renders[0]?.request, { segment: 'out', seconds: 2, seed: 1, source: picture });

  await renders[0]?.finish();
  const status = await statusWhen(() => video.status(submitted, signal), 'succeeded');
  t.match(status, { outputUrl: /^file:\/\/\//, seconds: 1, costMicros: 0, expiresAt: clock.ts + 3_600_000 });
  t.equal(
    (await readFile(fileURLToPath(status.state === 'succeeded' ? status.outputUrl : ''))).toString(),
    'clip',
  );
  t.equal(await video.cancel(submitted, signal), 'too_late');
});

t.test('the same token joins the running job and finds the finished file', async (t) => {
  const { video, renders, submit, started } = provider(t);
  await submit('a');
  await submit('a');
  await started(1);
  await submit('a');
  await renders[0]?.finish();
  await statusWhen(() => video.status({ id: 'a' }, signal), 'succeeded');
  await submit('a');
  t.match(await video.status({ id: 'a' }, signal), { state: 'succeeded' });
  t.equal(renders.length, 1);
});

t.test('no more jobs run at once than the pool holds; the others wait their turn', async (t) => {
  const { video, renders, submit, started } = provider(t, { poolSize: 1 });
  await submit('a');
  await submit('b');
  await submit('c');
  await started(1);
  t.match(await video.status({ id: 'c' }, signal), { state: 'queued', position: 2, pollAfterMs: Number });
  t.equal(await video.cancel({ id: 'b' }, signal), 'cancelled');
  t.match(await video.status({ id: 'c' }, signal), { state: 'queued', position: 1 });
  await renders[0]?.finish();
  await started(2);
  t.match(renders.length, 2);
  t.match(await video.status({ id: 'b' }, signal), { state: 'cancelled' });
  t.match(await video.status({ id: 'c' }, signal), { state: 'running' });
});

t.test('cancel stops a running job; its token may be used again', async (t) => {
  const { video, renders, submit, started } = provider(t);
  await submit('a');
  await started(1);
  t.equal(await video.cancel({ id: 'a' }, signal), 'cancelled');
  t.equal(renders[0]?.signal.aborted, true);
  t.match(await video.status({ id: 'a' }, signal), { state: 'cancelled' });
  t.equal(await video.cancel({ id: 'a' }, signal), 'cancelled');
  await submit('a');
  await started(2);
  t.match(await video.status({ id: 'a' }, signal), { state: 'running' });
});

t.test('an unknown job is gone', async (t) => {
  const { video } = provider(t);
  t.match(await video.status({ id: 'x' }, signal), {
    state: 'failed',
    failure: { kind: 'transient', reason: 'gone' },
  });
  t.equal(await video.cancel({ id: 'x' }, signal), 'unknown');
});

t.test('failures say what kind they are', async (t) => {
  const { video, renders, submit, started } = provider(t);
  const cases: [error: unknown, failure: object][] = [
    [
      new EffectError('source_unsupported', 'broken'),
      { kind: 'permanent', reason: 'bad_input', providerCode: 'source_unsupported' },
    ],
    [new EffectError('vision_blocked', 'huge'), { kind: 'permanent', reason: 'rejected_content' }],
    [
      new EffectError('i2v_failed', 'died', { retryAfterMs: 7 }),
      { kind: 'transient', reason: 'unknown', retryAfterMs: 7 },
    ],
    [new Error('odd'), { kind: 'transient', reason: 'unknown', message: 'odd' }],
    ['text', { kind: 'transient', message: 'text' }],
  ];
  for (const [i, [error, failure]] of cases.entries()) {
    await submit(`f${i}`);
    await started(i + 1);
    renders[i]?.fail(error);
    t.match(await statusWhen(() => video.status({ id: `f${i}` }, signal), 'failed'), { failure });
  }
});

t.test('a source that cannot be read fails the job, not the submit', async (t) => {
  const { video, submit } = provider(t);
  const source = {
    contentType: 'image/png',
    read: () => Promise.reject(new EffectError('source_unfetchable', 'gone')),
  };
  await submit('a', { source });
  const status = await statusWhen(() => video.status({ id: 'a' }, signal), 'failed');
  t.match(status, { failure: { kind: 'transient', providerCode: 'source_unfetchable' } });
});

t.test('a job ends at its deadline', async (t) => {
  const { video, submit, clock } = provider(t);
  await submit('late', { deadline: clock.ts - 1 });
  t.match(await statusWhen(() => video.status({ id: 'late' }, signal), 'failed'), {
    failure: { kind: 'transient', reason: 'timeout', providerCode: 'i2v_timeout' },
  });
});

t.test('a file is removed after an hour, and its job is gone', async (t) => {
  const { video, renders, clock, tempDir, submit, started } = provider(t);
  await submit('old');
  await started(1);
  await renders[0]?.finish();
  await statusWhen(() => video.status({ id: 'old' }, signal), 'succeeded');
  clock.ts += 3_600_000 - 1;
  await submit('young');
  t.match(await video.status({ id: 'old' }, signal), { state: 'succeeded' });
  clock.ts += 1;
  await submit('younger');
  t.match(await video.status({ id: 'old' }, signal), { state: 'failed', failure: { reason: 'gone' } });
  t.strictSame(await filesIn(tempDir), []);
});

t.test('only so many jobs may wait', async (t) => {
  const { submit } = provider(t, { poolSize: 1 });
  for (let i = 0; i < 201; i += 1) await submit(`w${i}`);
  await t.rejects(submit('one too many'), { code: 'i2v_failed', retry: 'transient', retryAfterMs: Number });
});

t.test('a start removes what an earlier process left, and close removes the rest', async (t) => {
  const tempDir = t.testdir();
  await mkdir(join(tempDir, 'local-video'), { recursive: true });
  await writeFile(join(tempDir, 'local-video', 'left.mp4'), 'x');
  const renderClip = async ({ output }: ClipRequest) => {
    await writeFile(output, 'clip');
    return { width: 2, height: 2, seconds: 1, frames: 30, bytes: 4, codec: 'avc1', hasAudio: false };
  };
  const video = createLocalVideo({ tempDir, poolSize: 1, engine: { renderClip } });
  await video.submit(job('a'), signal);
  await statusWhen(() => video.status({ id: 'a' }, signal), 'succeeded');
  t.equal((await filesIn(tempDir)).length, 1);
  await video.close();
  t.strictSame(await filesIn(tempDir), []);
  await t.rejects(video.submit(job('b'), signal), { code: 'i2v_failed' });
  await t.rejects(video.submit(job('b'), AbortSignal.abort(new Error('no'))), /no/);
});

t.test('closing aborts what runs', async (t) => {
  const { video, renders, submit, started } = provider(t);
  await submit('a');
  await started(1);
  await video.close();
  t.equal(renders[0]?.signal.aborted, true);
  t.match(await video.status({ id: 'a' }, signal), { state: 'cancelled' });
});

t.test(
  'with the engine: a submitted job becomes a playable clip, a cancelled one leaves nothing',
  async (t) => {
    const tempDir = t.testdir();
    const engine = createEngine({ ffmpegPath: await ffmpegPath(), tempDir, threads: 1 });
    const video = createLocalVideo({ engine, tempDir, poolSize: 1 });
    t.teardown(async () => {
      await video.close();
      await engine.close();
    });
    t.match(video.capabilities, {
      repeatable: true,
      lastFrame: true,
      seed: true,
      seconds: [2, 8],
      cancel: 'running',
    });

    await video.submit(job('real'), signal);
    const status = await statusWhen(() => video.status({ id: 'real' }, signal), 'succeeded');
    const path = fileURLToPath(status.state === 'succeeded' ? status.outputUrl : '');
    t.match(await checkClip(path), { frames: 30, seconds: 1 });

    await video.submit(job('stopped', { seconds: 8, segment: 'whole' }), signal);
    const running = await statusWhen(() => video.status({ id: 'stopped' }, signal), 'running');
    t.equal(running.state, 'running');
    await video.cancel({ id: 'stopped' }, signal);
    await video.submit(job('next'), signal);
    await statusWhen(() => video.status({ id: 'next' }, signal), 'succeeded');
    t.equal((await filesIn(tempDir)).length, 2);
    await access(path);
  },
);
