/** The renderer without an encoder: paths of the camera, sizes, frames. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { Aspect, LoopMode, Mode, Model, Motion } from '../../schemas/asset.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import { createRenderer, type RenderSpec } from '../../src/media/render.ts';
import { createPath, dissolveFrames, type PathSpec, type Pose } from '../../src/media/render-path.ts';
import { clipSize } from '../../src/media/render-scene.ts';
import { createFrame } from '../../src/media/render-warp.ts';
import { nightPhoto, photo, productCutOut } from '../fixtures/images.ts';
import { difference, meanOf } from './tools.ts';

const signal = new AbortController().signal;

const plan: MotionPlan = {
  width: 480,
  height: 320,
  attention: { x: 0.6, y: 0.5 },
  brightness: 0.5,
  contrast: 0.3,
  saturation: 0.3,
  palette: ['#607080'],
  hasAlpha: false,
  parallax: 1,
  zoom: 1,
  light: 1,
  motes: 1,
  heading: 0.3,
};

const spec: RenderSpec = {
  plan,
  motion: 'kinetic',
  mode: 'loop',
  segment: 'whole',
  loopMode: 'native',
  seconds: 2,
  seed: 7,
  aspect: 'source',
  model: 'fast',
};

const anyPath = fc.record({
  motion: fc.constantFrom(...Motion.options),
  mode: fc.constantFrom(...Mode.options),
  segment: fc.constantFrom('whole' as const, 'out' as const, 'back' as const),
  loopMode: fc.constantFrom(...LoopMode.options),
  seconds: fc.integer({ min: 2, max: 8 }),
  seed: fc.nat(),
  plan: fc.record({
    parallax: fc.double({ min: 0, max: 1, noNaN: true }),
    zoom: fc.double({ min: 0, max: 1, noNaN: true }),
    heading: fc.double({ min: -7, max: 7, noNaN: true }),
    zoomOut: fc.boolean(),
  }),
});

t.test('no pose reaches further than the reserve around the frame', async () => {
  fc.assert(
    fc.property(anyPath, (options) => {
      const path = createPath({ ...options, plan: { ...plan, ...options.plan } });
      for (let i = 0; i < path.frames; i += 1) {
        const { pose, into } = path.at(i);
        if (!isWithin(pose, path.reach) || (into && !isWithin(into.pose, path.reach))) return false;
      }
      return true;
    }),
    { numRuns: 60 },
  );
});

t.test('the two halves of a loop follow one another and make the whole', async (t) => {
  for (const loopMode of ['native', 'crossfade'] as const) {
    for (const seconds of [2, 5, 8]) {
      const [out, back, whole] = (['out', 'back', 'whole'] as const).map((segment) =>
        createPath({ ...spec, loopMode, seconds, segment }),
      ) as [Path, Path, Path];
      const extra = loopMode === 'crossfade' ? dissolveFrames : 0;
      t.equal(whole.frames, seconds * 30);
      t.equal(out.frames + back.frames, seconds * 30 + extra);
      t.strictSame(whole.at(0).pose, out.at(extra).pose);
      t.strictSame(whole.at(whole.frames - 1).pose, back.at(back.frames - 1).pose);
      t.notSame(out.at(out.frames - 1).pose, back.at(0).pose, 'no frame is drawn twice');
    }
  }
});

t.test('a crossfade loop dissolves into the frames that lead to its first', async (t) => {
  const path = createPath({ ...spec, loopMode: 'crossfade' });
  const last = path.at(path.frames - 1);
  const out = createPath({ ...spec, loopMode: 'crossfade', segment: 'out' });
  t.strictSame(last.into?.pose, out.at(dissolveFrames - 1).pose);
  t.ok((last.into?.share ?? 0) > 0.9);
  t.equal(path.at(path.frames - dissolveFrames - 1).into, undefined);
  t.ok((path.at(path.frames - dissolveFrames).into?.share ?? 1) < 0.1);
});

t.test('animate-in comes to rest and stays, on-hover ends where it began', async (t) => {
  const arrive = createPath({ ...spec, mode: 'animate-in', seconds: 4 });
  const { pose: end } = arrive.at(119);
  t.match(end, { zoom: 1, presence: 1 });
  t.ok(Math.hypot(end.shiftX, end.shiftY, end.panX, end.panY) < 1e-9);
  t.ok(Math.abs(arrive.at(105).pose.zoom - 1) < 1e-9);
  t.ok(arrive.at(0).pose.presence >= 0.6);

  const visit = createPath({ ...spec, mode: 'animate-on-hover', seconds: 4 });
  t.ok(Math.abs(visit.at(0).pose.zoom - visit.at(119).pose.zoom) < 1e-9);
  t.ok(visit.at(54).pose.zoom > 1.05);
});

t.test('stronger motions move further', async (t) => {
  const reach = (motion: PathSpec['motion']) => createPath({ ...spec, motion }).reach.shift;
  t.ok(reach('subtle') < reach('medium') && reach('medium') < reach('kinetic'));
});

t.test('frames keep the aspect within 9:16 and 16:9 and have the size of their model', async (t) => {
  t.strictSame(clipSize({ width: 1920, height: 1080 }, 'source', 'fast'), { width: 1280, height: 720 });
  t.strictSame(clipSize({ width: 5000, height: 5000 }, '9:16', 'standard'), { width: 720, height: 1280 });
  t.strictSame(clipSize({ width: 9000, height: 1300 }, 'source', 'cinema'), { width: 1920, height: 1080 });
  t.strictSame(clipSize({ width: 5000, height: 5000 }, 'source', 'fast'), { width: 960, height: 960 });

  const side = fc.integer({ min: 64, max: 8000 });
  fc.assert(
    fc.property(
      side,
      side,
      fc.constantFrom(...Aspect.options),
      fc.constantFrom(...Model.options),
      (...args) => {
        const [width, height, aspect, model] = args;
        const size = clipSize({ width, height }, aspect, model);
        const most = model === 'cinema' ? 2_073_600 : 921_600;
        const step = model === 'cinema' ? 8 : 16;
        const ratio = size.width / size.height;
        const cropped = Math.min(width, height * ratio) * Math.min(height, width / ratio);
        const pixels = Math.min(most, Math.max(230_400, cropped));
        return (
          size.width % step === 0 &&
          size.height % step === 0 &&
          Math.abs((size.width * size.height) / pixels - 1) < 0.12 &&
          ratio > 0.54 &&
          ratio < 1.83
        );
      },
    ),
  );
});

t.test('a clip has no more pixels than its source has for it, and at least 230,400', (t) => {
  t.strictSame(clipSize({ width: 960, height: 540 }, 'source', 'cinema'), { width: 968, height: 544 });
  t.strictSame(clipSize({ width: 1000, height: 1000 }, '16:9', 'fast'), { width: 992, height: 560 });
  t.strictSame(clipSize({ width: 500, height: 500 }, '9:16', 'standard'), { width: 368, height: 656 });
  t.strictSame(clipSize({ width: 64, height: 64 }, 'source', 'cinema'), { width: 480, height: 480 });
  t.end();
});

t.test('the same seed gives the same bytes, another seed other ones', async (t) => {
  const bytes = await photo();
  const first = await hashes(bytes, spec);
  t.strictSame(await hashes(bytes, spec), first);
  t.notSame(await hashes(bytes, { ...spec, seed: 8 }), first);
  t.notSame(await hashes(bytes, { ...spec, plan: { ...plan, moteKind: 'snow' } }), first);
});

t.test('the seam of a native loop is a step like any other', async (t) => {
  const steps = await drawn(await photo(), spec, [0, 1, 58, 59]);
  const [first, second, beforeLast, last] = steps as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
  const seam = difference(last, first);
  t.ok(seam < 1.5 * Math.max(difference(first, second), difference(beforeLast, last)));
});

t.test('animate-in starts from 60 percent of the brightness, of a cut-out from its ground', async (t) => {
  const options = { ...spec, mode: 'animate-in' as const, plan: { ...plan, motes: 0 } };
  const [first, last] = (await drawn(await photo(), options, [0, 59])) as [Uint8Array, Uint8Array];
  const share = (meanOf(first) - 16) / (meanOf(last) - 16);
  t.ok(share > 0.55 && share < 0.66, `share ${share}`);

  const cutOut = { ...options, plan: { ...options.plan, hasAlpha: true, palette: ['#ffffff'] } };
  const [start, end] = (await drawn(await productCutOut(), cutOut, [0, 59])) as [Uint8Array, Uint8Array];
  t.ok(meanOf(start) > meanOf(end), 'brighter on a white page');
  t.equal(start[0], 235, 'the ground itself does not change');
  t.equal(end[0], 235);
});

t.test('light keeps black black and white white', async (t) => {
  const still = { ...plan, parallax: 0, zoom: 0, motes: 0 };
  const lit = { ...spec, plan: still };
  const dark = { ...spec, plan: { ...still, light: 0 } };
  const [withLight] = (await drawn(await nightPhoto(), lit, [30])) as [Uint8Array];
  const [without] = (await drawn(await nightPhoto(), dark, [30])) as [Uint8Array];
  let brightest = 0;
  for (let at = 0; at < withLight.length; at += 1) {
    const more = (withLight[at] ?? 0) - (without[at] ?? 0);
    if ((without[at] ?? 0) <= 16 && more > 0) t.fail('black was lit');
    brightest = Math.max(brightest, more);
  }
  t.ok(brightest <= 12, `at most 12 levels, was ${brightest}`);
});

t.test('a side that is no multiple of the grid is drawn to its last row', async (t) => {
  const large = await photo({ width: 1920, height: 1080 });
  const renderer = await createRenderer(large, { ...spec, model: 'cinema', aspect: '16:9' }, signal);
  t.strictSame(renderer.size, { width: 1920, height: 1080 });
  const frame = createFrame(1920, 1080);
  renderer.draw(10, frame);
  t.ok(meanOf(frame.y.subarray(1079 * 1920)) > 30);
  t.ok(meanOf(frame.u.subarray(539 * 960)) > 30);
});

type Path = ReturnType<typeof createPath>;

function isWithin({ shiftX, shiftY, panX, panY, zoom }: Pose, { shift, pan }: Path['reach']): boolean {
  const isNear = Math.hypot(shiftX, shiftY) <= shift + 1e-9 && Math.hypot(panX, panY) <= pan + 1e-9;
  return isNear && zoom >= 1 && zoom < 1.11;
}

async function hashes(bytes: Uint8Array, spec: RenderSpec): Promise<string[]> {
  const frames = await drawn(bytes, { ...spec, loopMode: 'crossfade' }, [0, 20, 59]);
  return frames.map((frame) => createHash('sha256').update(frame).digest('hex'));
}

/** The luma of some frames. */
async function drawn(bytes: Uint8Array, spec: RenderSpec, indexes: number[]): Promise<Uint8Array[]> {
  const renderer = await createRenderer(bytes, spec, signal);
  const frame = createFrame(renderer.size.width, renderer.size.height);
  return indexes.map((index) => {
    renderer.draw(index, frame);
    return Uint8Array.from(frame.y);
  });
}
