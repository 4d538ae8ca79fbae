/** The engine with a real ffmpeg: every mode and motion, closed loops, posters, clips of other makes. */
import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import t from 'tap';
import type { Mode, Motion } from '../../schemas/asset.ts';
import { type ClipRequest, createEngine } from '../../src/media/engine.ts';
import { createLocalVision } from '../../src/providers/local-vision.ts';
import { nightPhoto, photo, productCutOut } from '../fixtures/images.ts';
import { difference, ffmpeg, ffmpegPath, filesIn, greyFrames, meanOf, streamLine } from './tools.ts';

// Rendering is work, and the machine may be busy with other tests.
t.setTimeout(240_000);

const directory = t.testdir();
const tempDir = join(directory, 'temp');
const engine = createEngine({ ffmpegPath: await ffmpegPath(), tempDir, threads: 2 });
const { signal } = new AbortController();
t.teardown(() => engine.close());

async function request(
  options: Partial<ClipRequest> & { output: string },
  bytes?: Buffer,
): Promise<ClipRequest> {
  const source = bytes ?? (await photo());
  const image = { contentType: 'image/png', read: async () => source };
  const { plan } = await createLocalVision().describe(
    { image, motion: 'medium', mode: 'loop', seed: 7 },
    signal,
  );
  return {
    source,
    plan,
    motion: 'medium',
    mode: 'loop',
    segment: 'whole',
    loopMode: 'native',
    seconds: 2,
    aspect: 'source',
    model: 'fast',
    seed: 7,
    ...options,
    output: join(directory, options.output),
  };
}

/** Each mode, each motion, and the calmest and the liveliest of two modes: rendering all nine would take minutes. */
const combinations: readonly [Mode, Motion][] = [
  ['loop', 'medium'],
  ['loop', 'subtle'],
  ['animate-in', 'medium'],
  ['animate-in', 'kinetic'],
  ['animate-on-hover', 'medium'],
];

t.test('every mode and every motion gives a playable clip of the wished length', async (t) => {
  const sources = {
    loop: await photo(),
    'animate-in': await productCutOut(),
    'animate-on-hover': await nightPhoto(),
  };
  const made = combinations.map(async ([mode, motion]) => {
    const loopMode = mode === 'loop' ? 'native' : 'none';
    const wish = await request({ mode, motion, loopMode, output: `${mode}-${motion}.mp4` }, sources[mode]);
    const info = await engine.renderClip(wish, signal);
    t.match(info, { frames: 60, seconds: 2, hasAudio: false, codec: 'avc1.64001e' }, `${mode} ${motion}`);
    t.equal((info.width % 16) + (info.height % 16), 0);
    t.match(await streamLine(wish.output), /h264 \(High\).*yuv420p\(tv, bt709/);
    const first = await ffmpeg(
      '-i',
      wish.output,
      '-frames:v',
      '1',
      '-f',
      'rawvideo',
      '-pix_fmt',
      'gray',
      '-',
    );
    t.ok(meanOf(first) > 20, 'the first frame is not black');
  });
  await Promise.all(made);
  t.strictSame(await filesIn(tempDir), [], 'nothing is left behind');
});

t.test('two halves close to a loop without a seam, native and crossfade', async (t) => {
  for (const loopMode of ['native', 'crossfade'] as const) {
    const out = await request({ segment: 'out', loopMode, output: `${loopMode}-out.mp4` });
    const back = { ...out, segment: 'back' as const, output: join(directory, `${loopMode}-back.mp4`) };
    await Promise.all([engine.renderClip(out, signal), engine.renderClip(back, signal)]);
    const output = join(directory, `${loopMode}.mp4`);
    const wish = {
      clips: [out.output, back.output] as [string, string],
      loopMode,
      seconds: 2,
      model: 'fast' as const,
      output,
    };
    const info = await engine.merge(wish, signal);

    t.match(info, { frames: 60, seconds: 2, width: 576, height: 384 });
    t.match(await streamLine(output), /h264 \(High\).*yuv420p\(tv, bt709/);
    const frames = await greyFrames(output, info);
    t.equal(frames.length, 60);
    const steps = frames.slice(1).map((frame, i) => difference(frame, frames[i] ?? frame));
    const seam = difference(frames[59] ?? new Uint8Array(), frames[0] ?? new Uint8Array());
    t.ok(seam < 2 + 1.5 * Math.max(...steps), `seam ${seam}, largest step ${Math.max(...steps)}`);
    t.ok(Math.min(...steps.slice(0, -15)) > 0, 'no frame is shown twice');
  }
});

t.test('the merge of two halves shows what the whole shows', async (t) => {
  const whole = await request({ loopMode: 'crossfade', output: 'whole-crossfade.mp4' });
  const info = await engine.renderClip(whole, signal);
  const one = await greyFrames(whole.output, info);
  const two = await greyFrames(join(directory, 'crossfade.mp4'), info);
  for (const i of [0, 30, 44, 45, 52, 59]) {
    t.ok(difference(one[i] ?? new Uint8Array(), two[i] ?? new Uint8Array()) < 2, `frame ${i}`);
  }
});

t.test('the poster is the frame beside the player, in the colours that browsers show', async (t) => {
  for (const [mode, frame] of [
    ['loop', 0],
    ['animate-in', 59],
    ['animate-on-hover', 0],
  ] as const) {
    const clip = join(directory, `${mode}-medium.mp4`);
    const output = join(directory, `${mode}.jpg`);
    await engine.poster({ clip, mode, output }, signal);
    const { data, info } = await sharp(await readFile(output))
      .raw()
      .toBuffer({ resolveWithObject: true });
    const shown = await ffmpeg(
      ...['-i', clip, '-vf', `select=eq(n\\,${frame}),scale=in_color_matrix=bt709,format=rgb24`],
      ...['-frames:v', '1', '-f', 'rawvideo', '-'],
    );
    t.equal(data.length, shown.length);
    t.equal(info.channels, 3);
    t.ok(difference(data, shown) < 2, `${mode}: ${difference(data, shown)}`);
    t.ok((await readFile(output)).length < 300_000);
  }
});

t.test('the last frame is given as a png', async (t) => {
  const clip = join(directory, 'native-out.mp4');
  const output = join(directory, 'last.png');
  await engine.lastFrame({ clip, output }, signal);
  const info = await sharp(await readFile(output)).metadata();
  t.match(info, { format: 'png', width: 576, height: 384 });
  const next = await greyFrames(join(directory, 'native-back.mp4'), { width: 576, height: 384 });
  const last = await sharp(await readFile(output))
    .greyscale()
    .raw()
    .toBuffer();
  t.ok(difference(last, next[0] ?? new Uint8Array()) < 12, 'the way back begins where the way out ends');
});

t.test('clips of other makes are scaled, retimed and closed too', async (t) => {
  const make = async (name: string, size: string, rate: number, seconds: number) => {
    const path = join(directory, name);
    await ffmpeg(
      ...['-f', 'lavfi', '-i', `testsrc2=size=${size}:rate=${rate}:duration=${seconds}`],
      ...['-f', 'lavfi', '-i', `sine=duration=${seconds}`, '-c:v', 'libx264', '-preset', 'ultrafast'],
      ...['-pix_fmt', 'yuv420p', '-c:a', 'aac', '-movflags', '+faststart', path],
    );
    return path;
  };
  const small = await make('small.mp4', '320x180', 24, 1.25);
  const large = await make('large.mp4', '1920x1080', 25, 0.5);
  const cases = [
    { clips: [small, small], loopMode: 'native', seconds: 2, size: [320, 180] },
    { clips: [small, large], loopMode: 'crossfade', seconds: 1, size: [320, 180] },
    { clips: [large, small], loopMode: 'crossfade', seconds: 2.5, size: [1294, 728] },
  ] as const;
  for (const [i, { clips, loopMode, seconds, size }] of cases.entries()) {
    const output = join(directory, `foreign-${i}.mp4`);
    const info = await engine.merge({ clips: [...clips], loopMode, seconds, model: 'fast', output }, signal);
    t.match(info, { frames: seconds * 30, seconds, width: size[0], height: size[1], hasAudio: false });
    t.equal((await greyFrames(output, info)).length, seconds * 30);
  }

  const output = join(directory, 'conformed.mp4');
  const info = await engine.conform({ clip: small, seconds: 1.5, model: 'standard', output }, signal);
  t.match(info, { frames: 45, seconds: 1.5, width: 320, height: 180, hasAudio: false });
});

t.test('an aspect and a model are obeyed, and progress is told', async (t) => {
  const shares: number[] = [];
  const large = await photo({ width: 1920, height: 1440 });
  const wish = await request({ aspect: '9:16', model: 'standard', output: 'tall.mp4' }, large);
  const info = await engine.renderClip(wish, signal, (share) => shares.push(share));
  t.match(info, { width: 720, height: 1280 });
  t.ok(
    shares.length >= 5 &&
      shares.every((share, i) => share >= 0 && share <= 1 && share >= (shares[i - 1] ?? 0)),
  );

  const cinema = await engine.renderClip(
    await request({ aspect: '16:9', model: 'cinema', segment: 'out', output: 'cinema.mp4' }, large),
    signal,
  );
  t.match(cinema, { width: 1920, height: 1080, frames: 30 });
});

t.test('a file is replaced whole when it is made again', async (t) => {
  const output = join(directory, 'again.mp4');
  await copyFile(join(directory, 'loop-subtle.mp4'), output);
  const wish = await request({ segment: 'out', output: 'again.mp4' });
  t.match(await engine.renderClip(wish, signal), { frames: 30 });
});

t.test('a source without a clip gets a poster of its own', async (t) => {
  const bytes = await engine.sourcePoster(await photo({ width: 2000, height: 1000 }), signal);
  t.match(await sharp(bytes).metadata(), { format: 'jpeg', width: 1280, height: 640 });
  const white = await sharp(await engine.sourcePoster(await productCutOut(), signal))
    .raw()
    .toBuffer();
  t.ok((white[0] ?? 0) > 250, 'transparency is white');
  await t.rejects(engine.sourcePoster(Buffer.from('<svg/>'), signal), { code: 'source_unsupported' });
});

t.test('a source that turns out broken fails for good', async (t) => {
  const whole = await photo();
  const source = whole.subarray(0, whole.length * 0.6);
  const wish = { ...(await request({ output: 'broken.mp4' })), source };
  await t.rejects(engine.renderClip(wish, signal), { code: 'source_unsupported', retry: 'permanent' });
});
