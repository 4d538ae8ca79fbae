/** What happens when ffmpeg, the disk, a thread or the customer gives up: an error with its code, and nothing left. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import type { EffectError } from '../../schemas/errors.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import { type ClipRequest, createEngine } from '../../src/media/engine.ts';
import { createPool } from '../../src/media/render-pool.ts';
import { photo } from '../fixtures/images.ts';
import { ffmpegPath, filesIn, processesWith, script } from './tools.ts';

// Rendering is work, and the machine may be busy with other tests.
t.setTimeout(240_000);

const directory = t.testdir();
const realPath = await ffmpegPath();
const { signal } = new AbortController();
const source = await photo();

const plan: MotionPlan = {
  width: 480,
  height: 320,
  attention: { x: 0.5, y: 0.5 },
  brightness: 0.5,
  contrast: 0.3,
  saturation: 0.3,
  palette: ['#607080'],
  hasAlpha: false,
  parallax: 0.5,
  zoom: 0.5,
  light: 0.5,
  motes: 0,
  heading: 0,
};

function request(output: string, options: Partial<ClipRequest> = {}): ClipRequest {
  return {
    source,
    plan,
    motion: 'medium',
    mode: 'loop',
    segment: 'out',
    loopMode: 'native',
    seconds: 8,
    aspect: 'source',
    model: 'fast',
    seed: 1,
    output: join(directory, output),
    ...options,
  };
}

/** One engine for most tests, since a thread takes a while to start: its ffmpeg is a script that each test writes. */
const tempDir = join(directory, 'temp');
const scripted = join(directory, 'ffmpeg.sh');
const engine = createEngine({ ffmpegPath: scripted, tempDir, threads: 1 });
t.teardown(() => engine.close());

const ffmpegIs = (body: string) => script(scripted, body);
const ffmpegIsReal = () => ffmpegIs(`exec ${realPath} "$@"`);

t.afterEach(async () => {
  const left = await filesIn(tempDir);
  if (left.length > 0) throw new Error(`files are left behind: ${left}`);
});

t.test('an ffmpeg that fails is a transient failure with its last words', async (t) => {
  await ffmpegIs('echo "Unknown encoder libx264" >&2; exit 1');
  const failure = {
    name: 'EffectError',
    code: 'i2v_failed',
    retry: 'transient',
    message: /exit 1: Unknown encoder/,
  };
  await t.rejects(engine.renderClip(request('fails.mp4'), signal), failure);
  await t.rejects(engine.renderClip(request('fails.mp4'), signal), failure, 'the thread goes on working');
});

t.test('an ffmpeg that is missing or may not run is a transient failure', async (t) => {
  await rm(scripted);
  await t.rejects(engine.renderClip(request('x.mp4'), signal), { code: 'i2v_failed', message: /ENOENT/ });
  await writeFile(scripted, 'text');
  await t.rejects(engine.renderClip(request('x.mp4'), signal), { code: 'i2v_failed', message: /EACCES/ });
});

t.test('an ffmpeg that hangs is killed when it makes no progress', async (t) => {
  const impatient = createEngine({ ffmpegPath: scripted, tempDir, threads: 1, stallMs: 400 });
  t.teardown(() => impatient.close());
  const failure = { code: 'i2v_failed', message: /no progress/ };
  await ffmpegIs('exec sleep 61');
  await t.rejects(impatient.renderClip(request('hangs.mp4'), signal), failure);
  // The shell's child keeps the pipes open after the shell itself is killed.
  await ffmpegIs('sleep 4');
  await t.rejects(impatient.renderClip(request('holds.mp4'), signal), failure);
});

t.test('an ffmpeg that takes all frames and makes no file is caught', async (t) => {
  await ffmpegIs('cat > /dev/null');
  const wish = request('eats.mp4', { seconds: 2 });
  await t.rejects(engine.renderClip(wish, signal), { code: 'i2v_failed', message: /not playable/ });
});

t.test('an ffmpeg that ends well before it has all frames is caught', async (t) => {
  await ffmpegIs('head -c 100000 > /dev/null; exit 0');
  await t.rejects(engine.renderClip(request('leaves.mp4'), signal), {
    code: 'i2v_failed',
    message: /before it had all/,
  });
});

t.test('an ffmpeg killed in the middle is a transient failure', async (t) => {
  await ffmpegIs('head -c 9000000 > /dev/null; kill -9 $$');
  await t.rejects(engine.renderClip(request('dies.mp4'), signal), { code: 'i2v_failed', message: /SIGKILL/ });
});

t.test('a full disk is a transient failure', async (t) => {
  await ffmpegIs(`ulimit -f 200; exec ${realPath} "$@"`);
  await t.rejects(engine.renderClip(request('full.mp4'), signal), { code: 'i2v_failed', retry: 'transient' });
});

t.test('an output that may not be written is a transient failure', async (t) => {
  await ffmpegIsReal();
  const render = request('no/such/folder/x.mp4', { seconds: 2 });
  await t.rejects(engine.renderClip(render, signal), {
    code: 'i2v_failed',
    retry: 'transient',
    message: /ENOENT/,
  });

  await writeFile(join(directory, 'a-file'), '');
  const blocked = createEngine({ ffmpegPath: realPath, tempDir: join(directory, 'a-file'), threads: 1 });
  await t.rejects(blocked.renderClip(request('x.mp4'), signal), {
    code: 'i2v_failed',
    message: /temporary/,
  });
});

t.test('a merge fails with its own code', async (t) => {
  await ffmpegIsReal();
  const clip = join(directory, 'clip.mp4');
  await engine.renderClip(request('clip.mp4', { seconds: 2 }), signal);
  const merge = {
    loopMode: 'native',
    seconds: 2,
    model: 'fast',
    output: join(directory, 'merged.mp4'),
  } as const;
  const missing = { ...merge, clips: [clip, join(directory, 'none.mp4')] as [string, string] };
  await t.rejects(engine.merge(missing, signal), { code: 'i2v_failed', message: /cannot be opened/ });

  const nowhere = {
    ...merge,
    clips: [clip, clip] as [string, string],
    output: join(directory, 'no/folder.mp4'),
  };
  await t.rejects(engine.merge(nowhere, signal), { code: 'merge_failed', retry: 'transient' });

  // The boxes are in order, the pictures are not.
  const noise = await readFile(clip);
  noise.fill(0x11, noise.indexOf('mdat') + 4);
  await writeFile(join(directory, 'noise.mp4'), noise);
  const broken = {
    ...merge,
    clips: [join(directory, 'noise.mp4'), join(directory, 'noise.mp4')] as [string, string],
  };
  await t.rejects(engine.merge(broken, signal), { name: 'EffectError' });

  await ffmpegIs('echo "Conversion failed" >&2; exit 187');
  const halves = { ...merge, clips: [clip, clip] as [string, string] };
  await t.rejects(engine.merge(halves, signal), {
    code: 'merge_failed',
    message: /exit 187: Conversion failed/,
  });
});

t.test('a poster of something that is no clip fails', async (t) => {
  await writeFile(join(directory, 'no-clip.mp4'), 'text');
  const wish = {
    clip: join(directory, 'no-clip.mp4'),
    mode: 'loop',
    output: join(directory, 'p.jpg'),
  } as const;
  await t.rejects(engine.poster(wish, signal), { code: 'i2v_failed' });
});

t.test('an abort kills ffmpeg, removes the file and frees the thread', async (t) => {
  await ffmpegIsReal();
  const controller = new AbortController();
  const reason = new Error('cancelled by the customer');
  const work = engine.renderClip(request('aborted.mp4'), controller.signal, (share) => {
    if (share > 0) controller.abort(reason);
  });
  await t.rejects(work, reason);
  t.strictSame(await processesWith(tempDir), []);
  t.strictSame(await filesIn(tempDir), []);
  await t.rejects(engine.renderClip(request('x.mp4'), AbortSignal.abort(reason)), reason);
  t.match(await engine.renderClip(request('after.mp4', { seconds: 2 }), signal), { frames: 30 });
});

t.test('an abort frees a thread whose ffmpeg hangs, and a task that waits', async (t) => {
  await ffmpegIs('exec sleep 62');
  const controllers = [new AbortController(), new AbortController()];
  const works = controllers.map((controller) => engine.renderClip(request('y.mp4'), controller.signal));
  const settled = Promise.allSettled(works);
  await delay(50);
  // The second waits for the only thread.
  controllers[1]?.abort(new Error('second'));
  await t.rejects(works[1] as Promise<unknown>, /second/);
  controllers[0]?.abort(new Error('first'));
  await settled;
  await t.rejects(works[0] as Promise<unknown>, /first/);
  t.strictSame(await processesWith('sleep 62'), []);
});

t.test('a plan that cannot be drawn fails its task alone', async (t) => {
  await ffmpegIsReal();
  const bad = request('bad.mp4', { plan: { ...plan, palette: ['#zz'] } });
  await t.rejects(engine.renderClip(bad, signal), { name: 'EffectError' });
  t.match(await engine.renderClip(request('good.mp4', { seconds: 2 }), signal), { frames: 30 });
});

t.test('a thread that dies fails its task, takes its ffmpeg along and is replaced', async (t) => {
  const { pool, task } = await poolOf(t, 'process.exit(3)');
  const failure = { code: 'i2v_failed', retry: 'transient', message: /render thread died: exit 3/ };
  await t.rejects(pool.run(task, signal), failure);
  t.strictSame(await filesIn(tempDir), [], 'its file is gone');
  await t.rejects(pool.run(task, signal), failure, 'and so on with the next thread');

  const throwing = await poolOf(t, 'throw new Error("out of luck")');
  await t.rejects(throwing.pool.run(throwing.task, signal), { message: /out of luck/ });
});

t.test('a thread that does not obey an abort is ended by force, with its ffmpeg', async (t) => {
  const { pool, task } = await poolOf(t, 'for (;;);');
  const controller = new AbortController();
  const work = pool.run(task, controller.signal);
  const settled = Promise.allSettled([work]);
  while ((await processesWith('sleep 65')).length === 0) await delay(20);
  controller.abort(new Error('enough'));
  await settled;
  await t.rejects(work, /enough/);
  while ((await processesWith('sleep 65')).length > 0) await delay(20);
});

/** A pool whose threads start a `sleep 65` as their ffmpeg at the first message, and then do as told. */
async function poolOf(t: Test, body: string) {
  const path = join(directory, `thread-${body.length}.mjs`);
  await writeFile(
    path,
    `import { spawn } from 'node:child_process';
     import { parentPort } from 'node:worker_threads';
     parentPort.once('message', ({ id }) => {
       parentPort.postMessage({ type: 'child', id, pid: spawn('sleep', ['65'], { stdio: 'ignore' }).pid });
       setTimeout(() => { ${body} }, 50);
     });`,
  );
  const part = join(tempDir, 'thread-part');
  await writeFile(part, 'half a clip');
  const pool = createPool({
    ffmpegPath: realPath,
    stallMs: 1000,
    threads: 1,
    threadUrl: pathToFileURL(path),
  });
  t.teardown(() => pool.close());
  const task = { kind: 'frame', clip: 'x', which: 'first', format: 'png', part, output: 'y' } as const;
  return { pool, task };
}

t.test('what a process left that is gone is removed at the next start', async (t) => {
  const other = join(directory, 'leftovers');
  await mkdir(join(other, 'media-999999999-abc'), { recursive: true });
  await mkdir(join(other, 'media-1-xyz'), { recursive: true });
  await writeFile(join(other, 'media-999999999-abc', 'part'), 'x');
  await writeFile(join(other, 'media-1-xyz', 'part-of-a-living-process'), 'x');
  const next = createEngine({ ffmpegPath: realPath, tempDir: other, threads: 1 });
  await t.rejects(next.renderClip(request('x.mp4', { source: new Uint8Array() }), signal));
  t.strictSame(await filesIn(other), ['part-of-a-living-process']);
  await next.close();
});

t.test('more tasks than may wait are refused as busy', async (t) => {
  await ffmpegIs('exec sleep 64');
  const controllers = Array.from({ length: 300 }, () => new AbortController());
  const works = controllers.map((controller) => engine.renderClip(request('busy.mp4'), controller.signal));
  const settled = Promise.allSettled(works);
  await t.rejects(works.at(-1) as Promise<unknown>, { code: 'i2v_failed', message: /busy/ });
  for (const controller of controllers) controller.abort();
  const refused = (await settled).filter((one) => one.status === 'rejected' && isBusy(one.reason));
  t.equal(refused.length, 300 - 256 - 1);
});

t.test('closing ends what runs and what waits, and refuses what comes', async (t) => {
  await ffmpegIs('exec sleep 63');
  const works = ['a.mp4', 'b.mp4'].map((name) => engine.renderClip(request(name), signal));
  const settled = Promise.allSettled(works);
  while ((await processesWith('sleep 63')).length === 0) await delay(20);
  await engine.close();
  await engine.close();
  for (const result of await settled) {
    t.match(result, { status: 'rejected', reason: { code: 'i2v_failed', retry: 'transient' } });
  }
  t.strictSame(await processesWith('sleep 63'), []);
  await t.rejects(engine.renderClip(request('c.mp4'), signal), { code: 'i2v_failed' });
});

function isBusy(error: EffectError): boolean {
  return error.message.includes('busy');
}
