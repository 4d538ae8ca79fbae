/** Which files count as clips: real ones made by ffmpeg, and broken ones. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { checkClip, maxClipBytes } from '../../src/media/clip-check.ts';
import { ffmpeg } from './tools.ts';

const directory = t.testdir();
const picture = ['-f', 'lavfi', '-i', 'testsrc=size=192x108:rate=25:duration=1'];
const tone = ['-f', 'lavfi', '-i', 'sine=duration=1'];
const h264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'];
const fast = ['-movflags', '+faststart'];

async function make(name: string, ...args: string[]): Promise<string> {
  const path = join(directory, name);
  await ffmpeg(...args, path);
  return path;
}

async function refusal(clip: string | Uint8Array): Promise<string> {
  try {
    await checkClip(clip);
    return 'accepted';
  } catch (error) {
    if (error instanceof EffectError && error.code === 'i2v_failed') return error.message;
    throw error;
  }
}

t.test('a faststart H.264 clip is described, from its path and from its bytes', async (t) => {
  const path = await make('good.mp4', ...picture, ...h264, ...fast);
  const info = await checkClip(path);
  t.match(info, { width: 192, height: 108, seconds: 1, frames: 25, hasAudio: false, codec: /^avc1\./ });
  t.equal(info.bytes, (await readFile(path)).length);
  t.strictSame(await checkClip(await readFile(path)), info);
});

t.test('profiles of either kind pass: with their format named, and too old to name one', async (t) => {
  for (const profile of ['baseline', 'main', 'high']) {
    const path = await make(
      `${profile}.mp4`,
      ...picture,
      '-c:v',
      'libx264',
      '-pix_fmt',
      'yuv420p',
      '-profile:v',
      profile,
      ...fast,
    );
    t.equal((await checkClip(path)).frames, 25, profile);
  }
});

t.test('sound is noted, not refused', async (t) => {
  const path = await make('sound.mp4', ...picture, ...tone, ...h264, '-c:a', 'aac', ...fast);
  t.match(await checkClip(path), { hasAudio: true, frames: 25 });
});

t.test('what browsers would not play is refused', async (t) => {
  const codec = (...args: string[]) => [...picture, '-c:v', ...args, ...fast];
  const cases: [file: string, args: string[], why: RegExp][] = [
    ['late.mp4', [...picture, ...h264], /index comes after/],
    ['444.mp4', codec('libx264', '-pix_fmt', 'yuv444p'), /not 8-bit yuv420p/],
    ['10bit.mp4', codec('libx264', '-pix_fmt', 'yuv420p10le'), /not 8-bit yuv420p/],
    ['mpeg4.mp4', codec('mpeg4'), /codec is mp4v/],
    ['two.mp4', [...picture, '-map', '0:v', '-map', '0:v', ...h264, ...fast], /2 video tracks/],
    ['sound-only.mp4', [...tone, '-c:a', 'aac', ...fast], /cannot be read/],
    ['pieces.mp4', [...picture, ...h264, '-movflags', 'frag_keyframe+empty_moov'], /holds no picture/],
    ['other.mkv', [...picture, ...h264], /is cut short|is no mp4/],
  ];
  for (const [file, args, why] of cases) t.match(await refusal(await make(file, ...args)), why, file);
});

t.test('broken files are refused, whatever is broken', async (t) => {
  const good = await readFile(await make('whole.mp4', ...picture, ...h264, ...fast));
  const changed = (change: (copy: Buffer) => void) => {
    const copy = Buffer.from(good);
    change(copy);
    return copy;
  };
  const at = (name: string) => good.indexOf(name);

  t.match(await refusal(join(directory, 'missing.mp4')), /cannot be opened/);
  t.match(await refusal(new Uint8Array()), /is no mp4/);
  t.match(await refusal(Buffer.from('not a film')), /cut short/);
  t.match(await refusal(good.subarray(0, good.length - 100)), /cut short/);
  t.match(await refusal(good.subarray(0, at('moov') + 100)), /cut short/);
  t.match(await refusal(changed((copy) => copy.write('free', at('moov')))), /is no mp4/);
  t.match(await refusal(changed((copy) => copy.fill(0xff, at('moov') + 4, at('mdat') - 4))), /cut short/);
  t.match(await refusal(changed((copy) => copy.writeUInt32BE(4, 0))), /cut short/);
  t.match(await refusal(Buffer.concat(Array.from({ length: 70 }, () => emptyBox))), /too many boxes/);
  t.match(await refusal(changed((copy) => copy.write('xxxx', at('avcC')))), /./);
});

t.test('a table that claims billions of frames is refused before it is built', async (t) => {
  const good = await readFile(await make('table.mp4', ...picture, ...h264, ...fast));
  good.writeUInt32BE(1, good.indexOf('stsz') + 8);
  good.writeUInt32BE(0xfffffff0, good.indexOf('stsz') + 12);
  t.match(await refusal(good), /too many frames/);
});

t.test('a file over the cap is refused by its size', async (t) => {
  const path = join(directory, 'large.mp4');
  await writeFile(path, Buffer.alloc(maxClipBytes + 1));
  t.match(await refusal(path), /bytes/);
});

const emptyBox = Buffer.from([0, 0, 0, 8, ...Buffer.from('free')]);
