/** The effects beside animate, each over real storage, real images and, where pictures are made, the real engine. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import sharp from 'sharp';
import t from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { source } from '../../schemas/limits.ts';
import { cancelVideo } from '../../src/effects/cancel-video.ts';
import { cleanUp } from '../../src/effects/clean-up.ts';
import { createAssetEffects } from '../../src/effects/effects.ts';
import { fetchSource } from '../../src/effects/fetch-source.ts';
import { withLimit } from '../../src/effects/limit.ts';
import { merge } from '../../src/effects/merge.ts';
import { seedOf } from '../../src/effects/seed.ts';
import { storeWrite } from '../../src/effects/store-write.ts';
import { vision } from '../../src/effects/vision.ts';
import { checkClip } from '../../src/media/clip-check.ts';
import { createEngine } from '../../src/media/engine.ts';
import { options } from '../fixtures/asset-messages.ts';
import {
  createBench,
  createFakeVideo,
  fetchParams,
  hang,
  mergeParams,
  putWork,
  smallClip,
  sourceRef,
  storeParams,
  visionParams,
} from '../fixtures/effects.ts';
import { photo } from '../fixtures/images.ts';
import { ffmpegPath } from '../media/tools.ts';

const clip = await smallClip();
const image = await photo();
const engine = createEngine({
  ffmpegPath: await ffmpegPath(),
  tempDir: join(t.testdir({}), 'media'),
  threads: 1,
});
t.teardown(() => engine.close());
const signal = new AbortController().signal;
const upload = 'https://here.example/uploads/abc.jpg';

t.test('fetchSource', async (t) => {
  t.test('reads an upload from storage, its type judged by its bytes', async (t) => {
    const png = await sharp(image).png().toBuffer();
    const { context, deps, storage, keys } = await createBench(t);
    await putWork(storage, 'uploads/abc.jpg', png, 'image/jpeg');
    const answer = await fetchSource(fetchParams(upload), context, deps);
    t.match(answer, {
      type: 'SOURCE_FETCHED',
      run: 1,
      stage: 'source',
      attempt: 1,
      key: 'work/ast_1/1/source.png',
      contentType: 'image/png',
    });
    t.same(await storage.read('work/ast_1/1/source.png', signal, source.maxBytes), png);
    await fetchSource(fetchParams(upload), context, deps);
    t.strictSame(await keys(), ['uploads/abc.jpg', 'work/ast_1/1/source.png'], 'a repeat is harmless');
  });

  t.test('refuses an upload that is gone or no image, for good', async (t) => {
    const { context, deps, storage, keys } = await createBench(t);
    await t.rejects(fetchSource(fetchParams(upload), context, deps), {
      code: 'source_unfetchable',
      retry: 'permanent',
      hint: 'The upload does not exist any more.',
    });
    await putWork(storage, 'uploads/abc.jpg', Buffer.from('<svg/>'), 'image/jpeg');
    await t.rejects(fetchSource(fetchParams(upload), context, deps), {
      code: 'source_unsupported',
      retry: 'permanent',
    });
    t.strictSame(await keys(), ['uploads/abc.jpg']);
  });

  t.test('fetches what is outside, with the code and retry that the fetch names', async (t) => {
    const asked: string[] = [];
    const src = 'https://example.com/a.webp';
    const fetched = async (url: string) => {
      asked.push(url);
      return { bytes: image, contentType: 'image/webp' };
    };
    const { context, deps, keys } = await createBench(t, { deps: { fetchSource: fetched } });
    t.match(await fetchSource(fetchParams(src), context, deps), { key: 'work/ast_1/1/source.webp' });
    t.strictSame([asked, await keys()], [[src], ['work/ast_1/1/source.webp']]);

    const failure = new EffectError('source_too_large', 'it has no end');
    const { deps: failing } = await createBench(t, { deps: { fetchSource: () => Promise.reject(failure) } });
    await t.rejects(fetchSource(fetchParams(src), context, failing), failure);
  });

  t.test('is cut off by the end of the run', async (t) => {
    const { context, deps, end } = await createBench(t, { deps: { fetchSource: (_, until) => hang(until) } });
    const fetching = fetchSource(fetchParams('https://example.com/slow.png'), context, deps);
    end();
    await t.rejects(fetching, { message: 'the run has ended' });
  });
});

t.test('vision', async (t) => {
  t.test('starts its clock, then plans the motion', async (t) => {
    const { context, deps, storage, sent } = await createBench(t);
    await putWork(storage, sourceRef.key, image, 'image/jpeg');
    const answer = await vision(visionParams(), context, deps);
    t.match(answer, {
      type: 'VISION_COMPLETED',
      stage: 'vision',
      prompt: /\w/,
      motionPlan: { width: 480, height: 320 },
    });
    t.match(sent, [{ type: 'WORK_STARTED', stage: 'vision', attempt: 1 }]);
    const told = { ...options, promptOverride: 'only the clouds drift', seed: 7 };
    t.match(await vision(visionParams({ options: told }), context, deps), {
      prompt: 'only the clouds drift',
    });
  });

  t.test('does not begin when the plan no longer allows it', async (t) => {
    const asked: unknown[] = [];
    const mayRun = async (...args: unknown[]) => {
      asked.push(args);
      return false;
    };
    const { context, deps, sent } = await createBench(t, { deps: { mayRun } });
    const cinema = { ...options, model: 'cinema' as const };
    await t.rejects(vision(visionParams({ options: cinema }), context, deps), {
      code: 'quota_exceeded',
      retry: 'permanent',
    });
    t.strictSame([sent, asked], [[], [['prj_1', { plan: 'free', model: 'cinema', aspect: 'source' }]]]);
  });

  t.test('refuses a source that cannot be decoded, and waits for one that is gone', async (t) => {
    const { context, deps, storage } = await createBench(t);
    await t.rejects(vision(visionParams(), context, deps), {
      code: 'store_write_failed',
      retry: 'transient',
    });
    await putWork(storage, sourceRef.key, image.subarray(0, 2_000), 'image/jpeg');
    await t.rejects(vision(visionParams(), context, deps), {
      code: 'source_unsupported',
      retry: 'permanent',
    });
  });

  t.test('is cut off a second after its time, whatever is collected as garbage meanwhile', async (t) => {
    const { context, deps } = await createBench(t, {
      deps: { visionTimeoutMs: -600, vision: { name: 'slow', describe: (_, until) => hang(until) } },
    });
    const describing = vision(visionParams(), context, deps);
    const collecting = setInterval(collectGarbage(), 50);
    t.teardown(() => clearInterval(collecting));
    const late = wait(5_000, 'it was never cut off', { ref: false });
    await t.rejects(Promise.race([describing, late]), { name: 'TimeoutError' });
  });
});

t.test('merge', async (t) => {
  const prepare = async (t: Parameters<typeof createBench>[0], deps = {}) => {
    const bench = await createBench(t, {
      deps: {
        async merge(job, until) {
          await engine.merge(job, until);
        },
        ...deps,
      },
    });
    for (const key of mergeParams().clipKeys) await putWork(bench.storage, key, clip, 'video/mp4');
    return bench;
  };

  t.test('joins both clips into one that browsers play, of the length asked for', async (t) => {
    const { context, deps, storage, sent, leftovers } = await prepare(t);
    const answer = await merge(mergeParams({ attempt: 2 }), context, deps);
    const key = 'work/ast_1/1/merge-2.mp4';
    t.match(answer, { type: 'CLIP_COMPLETED', stage: 'merge', attempt: 2, key });
    t.match(sent, [{ type: 'WORK_STARTED', stage: 'merge', attempt: 2 }]);
    const merged = await storage.read(key, signal, 50_000_000);
    t.match(await checkClip(merged ?? ''), { seconds: 2, hasAudio: false });
    t.strictSame(await leftovers(), []);
  });

  t.test('is transient when a clip is gone, and leaves no folder', async (t) => {
    const { context, deps, storage, leftovers } = await prepare(t);
    await storage.delete('work/ast_1/1/stage2-1.mp4');
    await t.rejects(merge(mergeParams(), context, deps), {
      code: 'store_write_failed',
      retry: 'transient',
    });
    t.strictSame(await leftovers(), []);
  });

  t.test('stores nothing that the check refuses', async (t) => {
    const broken = ({ output }: { output: string }) => writeFile(output, 'not a clip');
    const { context, deps, keys, leftovers } = await prepare(t, { merge: broken });
    await t.rejects(merge(mergeParams(), context, deps), { code: 'i2v_failed', retry: 'transient' });
    t.strictSame([await keys(), await leftovers()], [[...mergeParams().clipKeys], []]);
  });

  t.test('is cut off a second after its time', async (t) => {
    const never = (_: unknown, until: AbortSignal) => hang(until);
    const { context, deps, leftovers } = await prepare(t, { merge: never });
    await t.rejects(merge(mergeParams({ timeoutMs: -900 }), context, deps), { name: 'TimeoutError' });
    t.strictSame(await leftovers(), []);
  });
});

t.test('storeWrite', async (t) => {
  const clipKey = storeParams().clipKey;
  const prepare = async (t: Parameters<typeof createBench>[0], deps = {}) => {
    const bench = await createBench(t, { deps: { poster: engine.poster, ...deps } });
    await putWork(bench.storage, clipKey, clip, 'video/mp4');
    return bench;
  };

  t.test('stores clip and poster under addresses made from the content', async (t) => {
    const { context, deps, storage, keys, leftovers } = await prepare(t);
    const answer = await storeWrite(storeParams(), context, deps);
    t.match(answer, {
      type: 'STORED',
      stage: 'store_write',
      media: {
        run: 1,
        mp4Key: /^media\/ast_1\/1-[0-9a-f]{30}\.mp4$/,
        posterKey: /^media\/ast_1\/1-[0-9a-f]{30}\.jpg$/,
        bytes: clip.length,
        width: 160,
        height: 120,
        loopMode: 'crossfade',
      },
      mp4Url: /^https:\/\/here\.example\/media\/.+\.mp4$/,
      posterUrl: /\.jpg$/,
    });
    const { mp4Key, posterKey } = (answer as { media: { mp4Key: string; posterKey: string } }).media;
    t.same(await storage.read(mp4Key, signal, 50_000_000), clip);
    const before = await storage.head(posterKey);
    t.match(await storeWrite(storeParams({ attempt: 2 }), context, deps), { media: { mp4Key, posterKey } });
    t.same(await storage.head(posterKey), before, 'what is there already is left alone');
    t.strictSame(await keys(), [mp4Key, posterKey, clipKey].sort());
    t.strictSame(await leftovers(), []);
    const other = await storeWrite(storeParams({ run: 2 }), context, deps);
    t.match(other, { media: { mp4Key: /^media\/ast_1\/2-/ } }, 'each run has addresses of its own');
  });

  t.test('takes the frame that the player shows beside the clip', async (t) => {
    const { context, deps, storage } = await prepare(t);
    const posterOf = async (mode: 'loop' | 'animate-in' | 'animate-on-hover', run: number) => {
      const answer = await storeWrite(storeParams({ run, options: { ...options, mode } }), context, deps);
      const { posterKey } = (answer as { media: { posterKey: string } }).media;
      return storage.read(posterKey, signal, 1_000_000);
    };
    const [first, hover, last] = [
      await posterOf('loop', 1),
      await posterOf('animate-on-hover', 2),
      await posterOf('animate-in', 3),
    ];
    t.same(first, hover);
    t.notSame(first, last);
    t.match(await sharp(last).metadata(), { format: 'jpeg', width: 160, height: 120 });
  });

  t.test('is transient when the clip is gone or storage is full, and leaves no folder', async (t) => {
    const { context, deps, storage, leftovers } = await prepare(t);
    const full = async () => {
      throw new EffectError('store_write_failed', 'cannot store: ENOSPC');
    };
    const failing = { ...deps, storage: { ...storage, put: full } };
    await t.rejects(storeWrite(storeParams(), context, failing), {
      code: 'store_write_failed',
      retry: 'transient',
    });
    await storage.delete(clipKey);
    await t.rejects(storeWrite(storeParams(), context, deps), {
      code: 'store_write_failed',
      retry: 'transient',
    });
    t.strictSame(await leftovers(), []);
  });
});

t.test(
  'cancelVideo asks the prediction’s own provider, and nobody when it is not configured any more',
  async (t) => {
    const video = createFakeVideo();
    const { context, deps } = await createBench(t, { video });
    const job = { provider: 'fake', id: 'job_1' };
    await cancelVideo({ run: 1, job }, context, deps);
    await cancelVideo({ run: 1, job }, context, deps);
    await cancelVideo({ run: 1, job: { ...job, provider: 'gone' } }, context, deps);
    t.strictSame(video.cancelled, ['job_1', 'job_1']);
  },
);

t.test('cleanUp removes the files of its run alone, and again', async (t) => {
  const { context, deps, storage, keys } = await createBench(t);
  const kept = [
    'media/ast_1/1-abc.mp4',
    'work/ast_1/11/single-1.mp4',
    'work/ast_1/2/single-1.mp4',
    'work/ast_10/1/single-1.mp4',
  ];
  for (const key of [...kept, 'work/ast_1/1/single-1.mp4', 'work/ast_1/1/stage1-2.mp4'])
    await putWork(storage, key, clip, 'video/mp4');
  await cleanUp({ run: 1 }, context, deps);
  await cleanUp({ run: 1 }, context, deps);
  t.strictSame(await keys(), kept);
});

t.test('the record of effects: slots by plan, and each runs with what it is handed', async (t) => {
  const video = createFakeVideo();
  const { context, deps } = await createBench(t, { video });
  const effects = createAssetEffects(deps);
  t.strictSame(Object.keys(effects).sort(), [
    'animate',
    'cancelVideo',
    'cleanUp',
    'fetchSource',
    'merge',
    'storeWrite',
    'vision',
  ]);
  t.match(effects['animate'], { slot: 'video', errorCode: 'i2v_failed' });
  t.ok((effects['animate']?.perProject('team') ?? 0) > (effects['animate']?.perProject('free') ?? 0));
  await effects['cancelVideo']?.run({ run: 1, job: { provider: 'fake', id: 'job_2' } } as never, context);
  t.strictSame(video.cancelled, ['job_2']);
});

t.test('a seed is the one asked for, 0 too, else one of the run’s own', async (t) => {
  t.equal(seedOf(0, 'ast_1', 1), 0);
  t.equal(seedOf(4_294_967_295, 'ast_1', 1), 4_294_967_295);
  t.equal(seedOf(null, 'ast_1', 1), seedOf(null, 'ast_1', 1));
  t.not(seedOf(null, 'ast_1', 1), seedOf(null, 'ast_1', 2));
  t.ok(seedOf(null, 'ast_1', 1) <= 2 ** 32 - 1);
});

t.test('a limit', async (t) => {
  t.test('hands on what is answered and what is thrown, and ends with the outer signal', async (t) => {
    t.equal(await withLimit(signal, 1_000, async () => 7), 7);
    await t.rejects(
      withLimit(signal, 1_000, () => Promise.reject(new Error('no'))),
      { message: 'no' },
    );
    const reason = new Error('over');
    await t.rejects(withLimit(AbortSignal.abort(reason), 1_000, hang), reason);
  });

  t.test('leaves no listener behind', async (t) => {
    const controller = new AbortController();
    let inner: AbortSignal | undefined;
    await withLimit(controller.signal, 1_000, async (limited) => {
      inner = limited;
    });
    controller.abort();
    t.equal(inner?.aborted, false);
  });
});

/** The collector, which Node does not show by itself. */
function collectGarbage(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}
