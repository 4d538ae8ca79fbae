/** Source images: what is accepted, what is refused and with which code. */
import { setTimeout as delay } from 'node:timers/promises';
import sharp from 'sharp';
import t from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { readImage, sniffImage } from '../../src/media/image.ts';
import { badImages, hugePng, photo, productCutOut, unusualImages } from '../fixtures/images.ts';

const signal = new AbortController().signal;

t.test('the type comes from the first bytes alone', async (t) => {
  const jpeg = await photo();
  t.equal(sniffImage(jpeg.subarray(0, 16)), 'jpeg');
  t.equal(sniffImage(await sharp(jpeg).png().toBuffer()), 'png');
  t.equal(sniffImage(await sharp(jpeg).webp().toBuffer()), 'webp');
  t.equal(sniffImage(Buffer.from('RIFF0000AVI ')), undefined);
  t.equal(sniffImage(new Uint8Array()), undefined);
});

t.test('every readable kind becomes three bytes per pixel of sRGB', async (t) => {
  for (const [name, bytes] of Object.entries(await unusualImages())) {
    const image = await readImage(bytes, signal);
    const region = { left: 0, top: 0, width: image.width, height: image.height };
    const { data, width, height } = await image.pixels(
      { region, width: 64, height: 48, backdrop: '#ffffff' },
      signal,
    );
    t.strictSame([width, height, data.length], [64, 48, 64 * 48 * 3], name);
    const small = await image.thumbnail(50, signal);
    t.equal(small.data.length, small.width * small.height * 4, name);
    t.equal(Math.max(small.width, small.height), 50, name);
  }
});

t.test('a rotated photo is measured and drawn upright', async (t) => {
  const sideways = await sharp({ create: { width: 200, height: 100, channels: 3, background: '#0000ff' } })
    .composite([
      { input: { create: { width: 100, height: 100, channels: 3, background: '#ff0000' } }, gravity: 'west' },
    ])
    .withMetadata({ orientation: 6 })
    .jpeg()
    .toBuffer();
  const image = await readImage(sideways, signal);
  t.strictSame([image.width, image.height], [100, 200]);
  // Orientation 6: what the file has on its left belongs on top.
  const region = { left: 0, top: 0, width: 100, height: 200 };
  const { data } = await image.pixels({ region, width: 10, height: 20, backdrop: '#ffffff' }, signal);
  t.ok((data[0] ?? 0) > 200 && (data[2] ?? 255) < 60, 'red on top');
  t.ok((data.at(-3) ?? 255) < 60 && (data.at(-1) ?? 0) > 200, 'blue below');
});

t.test('of an animation the first frame counts', async (t) => {
  const { 'animated webp': webp, 'animated png': png } = await unusualImages();
  for (const bytes of [webp, png]) {
    const image = await readImage(bytes ?? new Uint8Array(), signal);
    t.strictSame([image.width, image.height], [120, 120]);
    const { data } = await image.thumbnail(10, signal);
    t.ok((data[0] ?? 0) > 200 && (data[2] ?? 255) < 40);
  }
});

t.test('alpha is laid on the backdrop', async (t) => {
  const image = await readImage(await productCutOut(), signal);
  t.equal(image.hasAlpha, true);
  const region = { left: 0, top: 0, width: image.width, height: image.height };
  const { data } = await image.pixels({ region, width: 40, height: 50, backdrop: '#1020f0' }, signal);
  t.strictSame([...data.subarray(0, 3)], [0x10, 0x20, 0xf0]);
  t.equal(sniffImage(await image.jpeg({ maxSide: 100, backdrop: '#ffffff' }, signal)), 'jpeg');
});

t.test('a narrow region of a long picture is cut out before it is scaled', async (t) => {
  const strip = await sharp({ create: { width: 3000, height: 80, channels: 3, background: '#00ff00' } })
    .composite([
      {
        input: { create: { width: 100, height: 80, channels: 3, background: '#ff0000' } },
        left: 1450,
        top: 0,
      },
    ])
    .png()
    .toBuffer();
  const image = await readImage(strip, signal);
  const region = { left: 1455, top: 0, width: 90, height: 80 };
  const { data } = await image.pixels({ region, width: 18, height: 16, backdrop: '#ffffff' }, signal);
  t.strictSame([...data.subarray(0, 3)], [255, 0, 0]);
});

t.test('bad sources are refused with their code, for good', async (t) => {
  for (const [name, { bytes, code }] of Object.entries(await badImages())) {
    const error = await refusal(bytes);
    t.equal(error?.code, code, name);
    t.equal(error?.retry, 'permanent', name);
  }
});

t.test('a refusal for size says which size is accepted', async (t) => {
  const error = await refusal(hugePng(16_000, 16_000));
  t.match(error?.hint, /oversize: 16000 x 16000 pixels, and at most 40 megapixels/);
});

t.test('a wall of pixels is refused without memory or time for it', async (t) => {
  const bytes = hugePng(16_000, 16_000);
  const before = process.memoryUsage().rss;
  const started = performance.now();
  for (let i = 0; i < 20; i += 1) await refusal(bytes);
  t.ok(performance.now() - started < 1000);
  t.ok(process.memoryUsage().rss - before < 50e6);
});

t.test('an abort ends the wait at once with its reason', async (t) => {
  const reason = new Error('the customer left');
  const bytes = await photo({ width: 3000, height: 2000 });
  await t.rejects(readImage(bytes, AbortSignal.abort(reason)), reason);

  const image = await readImage(bytes, signal);
  const controller = new AbortController();
  const region = { left: 0, top: 0, width: 3000, height: 2000 };
  const work = image.pixels({ region, width: 2900, height: 1900, backdrop: '#ffffff' }, controller.signal);
  await delay(1);
  controller.abort(reason);
  await t.rejects(work, reason);
  await t.rejects(image.thumbnail(100, controller.signal), reason);
});

/** The refusal of a source, by its header or when it is decoded. */
async function refusal(bytes: Uint8Array): Promise<EffectError | undefined> {
  try {
    await (await readImage(bytes, signal)).thumbnail(64, signal);
    return undefined;
  } catch (error) {
    if (error instanceof EffectError) return error;
    throw error;
  }
}
