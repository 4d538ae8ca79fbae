/**
 * The media engine: renders clips, closes loops, makes posters. A bounded number of worker threads does the work.
 *
 *   renderClip, merge, poster, lastFrame ──▶ queue ──▶ thread ──▶ ffmpeg
 *
 * Files appear under their name only when they are whole. An abort stops the thread's task and kills its ffmpeg.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Aspect, LoopMode, Mode, Model, Motion } from '../../schemas/asset.ts';
import { EffectError } from '../../schemas/errors.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import type { Segment } from '../providers/provider.ts';
import type { ClipInfo } from './clip-check.ts';
import { readImage } from './image.ts';
import { createPool } from './render-pool.ts';
import type { Task } from './render-worker.ts';

export type EngineOptions = {
  ffmpegPath: string;
  /** For files that are not whole yet. On the file system of the outputs. */
  tempDir: string;
  /** Tasks that may run at once, each in a thread with an ffmpeg of its own. */
  threads: number;
  /** Longest time an ffmpeg may go without progress, in ms. */
  stallMs?: number;
};

export type ClipRequest = {
  /** Bytes of a png, jpeg or webp. */
  source: Uint8Array;
  plan: MotionPlan;
  motion: Motion;
  mode: Mode;
  segment: Segment;
  loopMode: LoopMode;
  seconds: number;
  aspect: Aspect;
  model: Model;
  seed: number;
  /** Path of the mp4 to make. */
  output: string;
};

export type MergeRequest = {
  /** Paths of the way out and the way back, of whatever make. */
  clips: [out: string, back: string];
  loopMode: LoopMode;
  seconds: number;
  model: Model;
  output: string;
};

export type Engine = {
  /**
   * Renders a clip: the whole of an animation, ready to be shown, or one half of a loop for `merge`. Same options, same
   * frames. `onProgress` gets shares from 0 to 1.
   *
   * @throws {EffectError} `i2v_failed` (transient) when rendering or encoding fails; those of readImage for the source.
   */
  renderClip(
    request: ClipRequest,
    signal: AbortSignal,
    onProgress?: (share: number) => void,
  ): Promise<ClipInfo>;
  /**
   * Closes a loop from its two halves and encodes it once, exactly `seconds` long.
   *
   * @throws {EffectError} `merge_failed` (transient); `i2v_failed` when a clip is not playable.
   */
  merge(request: MergeRequest, signal: AbortSignal): Promise<ClipInfo>;
  /**
   * Brings one clip of any make to `seconds`, the service's frame rate and encoding, without sound.
   *
   * @throws {EffectError} as merge.
   */
  conform(
    request: { clip: string; seconds: number; model: Model; output: string },
    signal: AbortSignal,
  ): Promise<ClipInfo>;
  /** Makes the jpg of the frame that the player shows beside it: the last for animate-in, else the first. */
  poster(request: { clip: string; mode: Mode; output: string }, signal: AbortSignal): Promise<void>;
  /** Makes a png of a clip's last frame. */
  lastFrame(request: { clip: string; output: string }, signal: AbortSignal): Promise<void>;
  /**
   * A jpg of a source that has no clip yet, at most 1,280 pixels a side.
   *
   * @throws {EffectError} as readImage.
   */
  sourcePoster(bytes: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
  /** Aborts what runs, ends the threads, removes temporary files. Safe to repeat. */
  close(): Promise<void>;
};

const defaultStallMs = 30_000;

const sourcePosterSide = 1280;

/** Makes an engine. Threads start with the first tasks. */
export function createEngine({
  ffmpegPath,
  tempDir,
  threads,
  stallMs = defaultStallMs,
}: EngineOptions): Engine {
  const pool = createPool({ ffmpegPath, stallMs, threads });
  const parts = prepareParts(tempDir);
  parts.catch(() => undefined);
  let closing: Promise<void> | undefined;

  async function run(
    task: (part: string) => Task,
    signal: AbortSignal,
    onProgress?: (share: number) => void,
  ) {
    signal.throwIfAborted();
    const directory = await parts.catch((cause: unknown) => {
      throw new EffectError('i2v_failed', `cannot make temporary files in ${tempDir}`, { cause });
    });
    return pool.run(task(join(directory, randomUUID())), signal, onProgress);
  }

  async function clip(
    task: (part: string) => Task,
    signal: AbortSignal,
    onProgress?: (share: number) => void,
  ) {
    const info = await run(task, signal, onProgress);
    if (!info) throw new EffectError('i2v_failed', 'the worker answered without a clip');
    return info;
  }

  return {
    renderClip: async ({ source, output, ...spec }, signal, onProgress) =>
      clip((part) => ({ kind: 'render', source, spec, part, output }), signal, onProgress),
    merge: async (request, signal) => clip((part) => ({ kind: 'merge', ...request, part }), signal),
    conform: async ({ clip: path, ...request }, signal) =>
      clip((part) => ({ kind: 'merge', clips: [path], loopMode: 'none', ...request, part }), signal),
    async poster({ clip, mode, output }, signal) {
      const which = mode === 'animate-in' ? 'last' : 'first';
      await run((part) => ({ kind: 'frame', clip, which, format: 'jpg', part, output }), signal);
    },
    async lastFrame({ clip, output }, signal) {
      await run((part) => ({ kind: 'frame', clip, which: 'last', format: 'png', part, output }), signal);
    },
    async sourcePoster(bytes, signal) {
      const image = await readImage(bytes, signal);
      return image.jpeg({ maxSide: sourcePosterSide, backdrop: '#ffffff' }, signal);
    },
    close() {
      closing ??= (async () => {
        await pool.close();
        const directory = await parts.catch(() => undefined);
        if (directory) await rm(directory, { recursive: true, force: true });
      })();
      return closing;
    },
  };
}

/** A directory of this engine's own; those of processes that are gone are removed. */
async function prepareParts(tempDir: string): Promise<string> {
  await mkdir(tempDir, { recursive: true });
  const left = (await readdir(tempDir)).filter((name) => {
    const pid = /^media-(\d+)-/.exec(name)?.[1];
    return pid !== undefined && !isAlive(Number(pid));
  });
  await Promise.all(left.map((name) => rm(join(tempDir, name), { recursive: true, force: true })));
  return mkdtemp(join(tempDir, `media-${process.pid}-`));
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
