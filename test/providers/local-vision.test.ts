/** Local vision: plans that follow the picture and the words, from any source that is accepted. */
import sharp from 'sharp';
import t from 'tap';
import { Motion } from '../../schemas/asset.ts';
import { MotionPlan } from '../../schemas/motion.ts';
import { createLocalVision } from '../../src/providers/local-vision.ts';
import type { VisionRequest } from '../../src/providers/provider.ts';
import { badImages, nightPhoto, photo, productCutOut, unusualImages } from '../fixtures/images.ts';

const vision = createLocalVision();
const { signal } = new AbortController();

function describe(bytes: Uint8Array, options: Partial<VisionRequest> = {}) {
  const image = { contentType: 'image/jpeg', read: async () => bytes };
  return vision.describe({ image, motion: 'medium', mode: 'loop', seed: 7, ...options }, signal);
}

t.test('every accepted source gets a small, valid plan and a sentence', async (t) => {
  const sources = { photo: await photo(), night: await nightPhoto(), ...(await unusualImages()) };
  for (const [name, bytes] of Object.entries(sources)) {
    for (const motion of Motion.options) {
      const { plan, prompt } = await describe(bytes, { motion });
      t.strictSame(MotionPlan.parse(plan), plan, name);
      t.ok(JSON.stringify(plan).length < 2048);
      t.match(prompt, /camera drift toward the .+\. .*No cuts/);
    }
  }
});

t.test('the same source and seed give the same plan', async (t) => {
  const bytes = await photo();
  t.strictSame(await describe(bytes), await describe(bytes));
  const headings = await Promise.all(
    [1, 2, 3, 4].map(async (seed) => (await describe(bytes, { seed })).plan.heading),
  );
  t.equal(new Set(headings).size, 4);
});

t.test('attention goes to what stands out', async (t) => {
  for (const [x, y] of [
    [0.2, 0.3],
    [0.75, 0.35],
    [0.7, 0.7],
    [0.25, 0.72],
  ] as const) {
    const spot = await sharp({ create: { width: 600, height: 400, channels: 3, background: '#a9b4bd' } })
      .composite([
        {
          input: { create: { width: 90, height: 90, channels: 3, background: '#b3261e' } },
          left: x * 600 - 45,
          top: y * 400 - 45,
        },
      ])
      .png()
      .toBuffer();
    const { plan } = await describe(spot);
    t.ok(Math.hypot(plan.attention.x - x, plan.attention.y - y) < 0.12, `${x} ${y}`);
  }
  const even = await sharp({ create: { width: 200, height: 200, channels: 3, background: '#777777' } })
    .png()
    .toBuffer();
  t.match((await describe(even)).plan.attention, { x: 0.5, y: 0.5 });
});

t.test('the plan follows the picture', async (t) => {
  const { plan: day } = await describe(await photo());
  const { plan: night } = await describe(await nightPhoto());
  t.ok(night.brightness < 0.15 && day.brightness > 0.35);
  t.ok(day.parallax > 0.6 && day.light > 0.5);

  const { plan: cutOut } = await describe(await productCutOut());
  t.equal(cutOut.hasAlpha, true);
  t.equal(cutOut.palette[0], '#ffffff');
  t.ok(cutOut.parallax < day.parallax, 'less depth where straight edges would show it');

  const opaque = await sharp(await photo())
    .ensureAlpha(1)
    .png()
    .toBuffer();
  t.equal((await describe(opaque)).plan.hasAlpha, false, 'alpha that hides nothing is no cut-out');

  const white = await sharp({ create: { width: 200, height: 200, channels: 4, background: '#00000000' } })
    .composite([{ input: { create: { width: 90, height: 90, channels: 4, background: '#fdfdfd' } } }])
    .png()
    .toBuffer();
  t.equal((await describe(white)).plan.palette[0], '#1c1f26', 'a white cut-out is not laid on white');

  const empty = await sharp({ create: { width: 99, height: 99, channels: 4, background: '#00000000' } })
    .png()
    .toBuffer();
  t.equal((await describe(empty)).plan.palette[0], '#ffffff');
});

t.test('stronger motions get stronger plans; motes are for kinetic', async (t) => {
  const bytes = await photo();
  const [subtle, medium, kinetic] = await Promise.all(
    Motion.options.map(async (motion) => (await describe(bytes, { motion })).plan),
  );
  t.ok((subtle?.parallax ?? 1) < (medium?.parallax ?? 0) && (medium?.zoom ?? 1) < (kinetic?.zoom ?? 0));
  t.equal(medium?.motes, 0);
  t.ok((kinetic?.motes ?? 0) > 0.3);
});

t.test('words of a prompt steer, and the prompt is the answer', async (t) => {
  const bytes = await photo();
  const { plan: plain } = await describe(bytes);
  const steered = async (promptOverride: string) => {
    const result = await describe(bytes, { promptOverride });
    t.equal(result.prompt, promptOverride.trim());
    return result.plan;
  };
  t.match(await steered('Drift LEFT slowly'), { heading: Math.round(Math.PI * 1000) / 1000 });
  t.match(await steered('pan right'), { heading: 0 });
  t.match(await steered('the camera goes up'), { heading: -1.571 });
  t.match(await steered('moving down'), { heading: 1.571 });
  t.match(await steered('snow is falling'), { motes: 1, moteKind: 'snow' });
  t.match(await steered(' floating dust particles '), { motes: 1, moteKind: 'dust' });
  t.match(await steered('warm sunlight'), { light: 1 });
  t.match(await steered('no light, no zoom, without snow'), { light: 0, zoom: 0, motes: 0 });
  t.match(await steered('zoom out'), { zoomOut: true });
  t.ok((await steered('strong zoom')).zoom > plain.zoom);
  t.ok((await steered('keep it still')).parallax < 0.3 * plain.parallax);
  t.strictSame(await steered('brighten my upleft copyright'), plain, 'only whole words count');
  t.strictSame((await describe(bytes, { promptOverride: '   ' })).plan, plain);
  t.match((await describe(bytes, { promptOverride: '   ' })).prompt, /camera drift/);

  const onBlue = await describe(await productCutOut(), { promptOverride: 'on #1144AA' });
  t.equal(onBlue.plan.palette[0], '#1144aa');
});

t.test('bad sources are refused with their code', async (t) => {
  for (const [name, { bytes, code }] of Object.entries(await badImages())) {
    await t.rejects(describe(bytes), { name: 'EffectError', code, retry: 'permanent' }, name);
  }
});

t.test('an abort ends it with its reason', async (t) => {
  const reason = new Error('over');
  const image = { contentType: 'image/jpeg', read: () => photo() };
  const request: VisionRequest = { image, motion: 'subtle', mode: 'loop', seed: 1 };
  await t.rejects(vision.describe(request, AbortSignal.abort(reason)), reason);
});

t.test('a photo of 12 megapixels takes less than 300 ms of CPU', async (t) => {
  const bytes = await photo({ width: 4000, height: 3000 });
  await describe(bytes);
  const before = process.cpuUsage();
  await describe(bytes);
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1000;
  t.comment(`${ms} ms`);
  t.ok(ms < 300, `${ms} ms`);
});
