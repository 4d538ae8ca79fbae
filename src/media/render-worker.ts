/**
 * The thread that renders and encodes, one task at a time.
 *
 * It starts ffmpeg itself and writes frames straight to it, so that neither pixels nor waiting for pipes touch the
 * event loop that answers requests. See engine.ts for the other side.
 */
import { rename, rm } from 'node:fs/promises';
import { parentPort } from 'node:worker_threads';
import sharp from 'sharp';
import type { LoopMode, Model } from '../../schemas/asset.ts';
import { EffectError, type ErrorCode, type Retry } from '../../schemas/errors.ts';
import { type ClipInfo, checkClip, checkForeignClip } from './clip-check.ts';
import { encodeArgs, type Ffmpeg, frameArgs, lowerPriority, mergeArgs, startFfmpeg } from './encode.ts';
import { createRenderer, type RenderSpec } from './render.ts';
import { createFrame } from './render-warp.ts';

/** What a worker may be asked for. `part` is where a file is written before it is whole and moved to `output`. */
export type Task =
  | { kind: 'render'; source: Uint8Array; spec: RenderSpec; part: string; output: string }
  | {
      kind: 'merge';
      clips: string[];
      loopMode: LoopMode;
      seconds: number;
      model: Model;
      part: string;
      output: string;
    }
  | {
      kind: 'frame';
      clip: string;
      which: 'first' | 'last';
      format: 'jpg' | 'png';
      part: string;
      output: string;
    };

export type ToWorker =
  | { type: 'run'; id: number; task: Task; ffmpegPath: string; stallMs: number }
  | { type: 'abort'; id: number };

/** An EffectError as it travels between threads. */
export type TaskFailure = { code: ErrorCode; retry: Retry; message: string; hint?: string };

export type FromWorker =
  | { type: 'progress'; id: number; share: number }
  /** ffmpeg runs under this pid, or no longer does (null). */
  | { type: 'child'; id: number; pid: number | null }
  | { type: 'done'; id: number; info: ClipInfo | null }
  | { type: 'failed'; id: number; failure: TaskFailure };

type Context = { id: number; ffmpegPath: string; stallMs: number; signal: AbortSignal };

const port = parentPort;
if (!port) throw new Error('render-worker runs in a worker thread only');

/** Frames between two reports of progress. */
const progressEvery = 10;

const running = new Map<number, AbortController>();

if (process.platform === 'linux') lowerPriority(0);
port.on('message', (message: ToWorker) => {
  if (message.type === 'abort') running.get(message.id)?.abort();
  else void perform(message);
});

async function perform({ id, task, ffmpegPath, stallMs }: ToWorker & { type: 'run' }): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const info = await attempt(task, { id, ffmpegPath, stallMs, signal: controller.signal });
    post({ type: 'done', id, info });
  } catch (error) {
    await rm(task.part, { force: true });
    post({ type: 'failed', id, failure: failureOf(error, task) });
  } finally {
    running.delete(id);
  }
}

function attempt(task: Task, context: Context): Promise<ClipInfo | null> {
  if (task.kind === 'render') return render(task, context);
  return task.kind === 'merge' ? merge(task, context) : extract(task, context);
}

async function render(
  { source, spec, part, output }: Task & { kind: 'render' },
  context: Context,
): Promise<ClipInfo> {
  const renderer = await createRenderer(source, spec, context.signal);
  const { size, frames } = renderer;
  const quality = spec.segment === 'whole' ? 'final' : 'stage';
  const args = encodeArgs(size, frames, spec.model, quality, part);

  await withFfmpeg(args, 'i2v_failed', context, async (ffmpeg) => {
    // Two buffers: one is drawn while the other may still be on its way to the encoder.
    const buffers = [createFrame(size.width, size.height), createFrame(size.width, size.height)] as const;
    let taken: Promise<void> = Promise.resolve();
    for (let index = 0; index < frames; index += 1) {
      const frame = buffers[index % 2 === 0 ? 0 : 1];
      renderer.draw(index, frame);
      await taken;
      taken = ffmpeg.write(frame.buffer);
      if (index % progressEvery === 0) post({ type: 'progress', id: context.id, share: index / frames });
    }
    await taken;
    await ffmpeg.finish();
  });
  return deliver(part, output);
}

async function merge(
  { clips, loopMode, seconds, model, part, output }: Task & { kind: 'merge' },
  context: Context,
): Promise<ClipInfo> {
  const checked = await Promise.all(
    clips.map(async (path) => ({ path, info: await checkForeignClip(path) })),
  );
  const args = mergeArgs(checked, { loopMode, seconds, model, output: part });
  await withFfmpeg(args, 'merge_failed', context, async (ffmpeg) => {
    await ffmpeg.finish();
  });
  return deliver(part, output);
}

async function extract(
  { clip, which, format, part, output }: Task & { kind: 'frame' },
  context: Context,
): Promise<null> {
  const { frames, width, height } = await checkForeignClip(clip);
  const args = frameArgs(clip, which === 'first' ? 0 : frames - 1);
  const pixels = await withFfmpeg(args, 'i2v_failed', context, (ffmpeg) => ffmpeg.finish());

  const size = width * height * 3;
  if (pixels.length !== size) {
    throw new EffectError('i2v_failed', `ffmpeg gave ${pixels.length} bytes for a frame of ${size}`);
  }
  const image = sharp(pixels, { raw: { width, height, channels: 3 } });
  const encoded = format === 'png' ? image.png({ compressionLevel: 3 }) : image.jpeg(posterJpeg);
  await encoded.toFile(part);
  await rename(part, output);
  return null;
}

/** Fine enough that the swap from poster to video cannot be seen. */
const posterJpeg = { quality: 90, chromaSubsampling: '4:4:4' };

/** Runs ffmpeg for as long as `use` takes and leaves none behind. */
async function withFfmpeg<T>(
  args: readonly string[],
  code: ErrorCode,
  { id, ffmpegPath, stallMs, signal }: Context,
  use: (ffmpeg: Ffmpeg) => Promise<T>,
): Promise<T> {
  const ffmpeg = startFfmpeg({ ffmpegPath, args, code, stallMs, signal });
  post({ type: 'child', id, pid: ffmpeg.pid ?? null });
  try {
    return await use(ffmpeg);
  } finally {
    await ffmpeg.kill();
    post({ type: 'child', id, pid: null });
  }
}

/** Checks a finished clip before anyone sees it under its name. */
async function deliver(part: string, output: string): Promise<ClipInfo> {
  const info = await checkClip(part);
  await rename(part, output);
  return info;
}

function failureOf(error: unknown, task: Task): TaskFailure {
  if (error instanceof EffectError) {
    const { code, retry, message, hint } = error;
    return { code, retry, message, ...(hint === undefined ? {} : { hint }) };
  }
  // A full or missing disk, or an output that may not be written.
  const code = task.kind === 'merge' ? 'merge_failed' : 'i2v_failed';
  return { code, retry: 'transient', message: `cannot ${task.kind} ${task.output}: ${String(error)}` };
}

function post(message: FromWorker): void {
  port?.postMessage(message);
}
