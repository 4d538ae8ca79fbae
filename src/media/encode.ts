/**
 * ffmpeg as a child process: its arguments, and running it so that it can neither hang nor outlive its task.
 *
 * It never sees bytes of customers, only our raw frames and clips that passed clip-check.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import type { LoopMode, Model } from '../../schemas/asset.ts';
import { EffectError, type ErrorCode } from '../../schemas/errors.ts';
import type { ClipInfo } from './clip-check.ts';
import { dissolveFrames, framesPerSecond } from './render-path.ts';
import type { Size } from './render-scene.ts';

/** `stage` clips are encoded again by the merge, so they are cheap and nearly lossless; `final` ones are shown. */
export type Quality = 'stage' | 'final';

/** A running ffmpeg. */
export type Ffmpeg = {
  readonly pid: number | undefined;
  /** Resolves when ffmpeg has taken the bytes; they may be written over then. */
  write(bytes: Uint8Array): Promise<void>;
  /**
   * Ends the input, waits for the end and answers what came out of stdout.
   *
   * @throws {EffectError} transient, with ffmpeg's last lines, when it fails, dies or makes no progress.
   */
  finish(): Promise<Uint8Array>;
  /** Kills it and waits until it is gone. Safe to repeat. */
  kill(): Promise<void>;
};

type RunOptions = {
  ffmpegPath: string;
  args: readonly string[];
  /** Code of its failures. */
  code: ErrorCode;
  /** Longest time without progress, in ms. */
  stallMs: number;
  signal: AbortSignal;
};

const lastLinesChars = 2000;
const maxOutputBytes = 64 * 1024 * 1024;

/** How long the pipes of a process that has ended may stay open, in ms. */
const pipesMs = 1000;

/** Starts ffmpeg at low priority. The signal kills it; whoever starts it calls finish or kill. */
export function startFfmpeg({ ffmpegPath, args, code, stallMs, signal }: RunOptions): Ffmpeg {
  signal.throwIfAborted();
  const child = spawn(ffmpegPath, ['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  lowerPriority(child.pid);

  const output: Buffer[] = [];
  let outputBytes = 0;
  let lastLines = '';
  let broken: string | undefined;
  const fail = (why: string) => {
    broken ??= why;
    child.kill('SIGKILL');
  };
  const watchdog = createWatchdog(stallMs, () => fail(`no progress for ${stallMs} ms`));
  const abort = () => child.kill('SIGKILL');
  signal.addEventListener('abort', abort, { once: true });

  child.stdout.on('data', (chunk: Buffer) => {
    watchdog.touch();
    outputBytes += chunk.length;
    if (outputBytes > maxOutputBytes) fail(`over ${maxOutputBytes} bytes of output`);
    else output.push(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    lastLines = (lastLines + chunk.toString()).slice(-lastLinesChars);
  });
  // A broken pipe says less than the exit that causes it, and comes with it.
  let pipeError = '';
  child.stdin.on('error', (error) => {
    pipeError = String(error);
  });

  const closed = endOf(child).then((how) => {
    watchdog.stop();
    signal.removeEventListener('abort', abort);
    return how;
  });
  const ended = closed.then((how) => {
    if (signal.aborted) throw signal.reason;
    if (how === 'exit 0' && broken === undefined) return;
    throw new EffectError(code, `ffmpeg failed: ${broken ?? how}: ${lastLines.trim() || pipeError}`);
  });
  // finish and write await it; when neither is called any more, its failure is nobody's.
  ended.catch(() => undefined);

  return {
    pid: child.pid,
    async write(bytes) {
      const taken = new Promise<void>((resolve) => child.stdin.write(bytes, () => resolve()));
      await Promise.race([taken, ended]);
      // An ffmpeg that is gone takes nothing more: wait for how it ended.
      if (child.stdin.destroyed || child.exitCode !== null) await unexpectedEnd(ended, code);
      watchdog.touch();
    },
    async finish() {
      child.stdin.end();
      await ended;
      return Buffer.concat(output);
    },
    async kill() {
      child.kill('SIGKILL');
      await closed;
    },
  };
}

/** Arguments that encode raw frames from stdin to `output`. */
export function encodeArgs(
  size: Size,
  frames: number,
  model: Model,
  quality: Quality,
  output: string,
): string[] {
  return [
    ...['-f', 'rawvideo', '-pix_fmt', 'yuv420p', '-video_size', `${size.width}x${size.height}`],
    ...['-framerate', String(framesPerSecond), ...bt709, '-i', 'pipe:0'],
    ...(quality === 'final' ? finalArgs(model, frames) : stageArgs),
    ...fileArgs(output),
  ];
}

/**
 * Arguments that join clips to one of exactly `seconds`, encoded for showing. Two halves of ours fit frame by frame;
 * clips of other makes are retimed, scaled and lose the last frame, which repeats the next clip's first.
 */
export function mergeArgs(
  clips: readonly { path: string; info: ClipInfo }[],
  wish: { loopMode: LoopMode; seconds: number; model: Model; output: string },
): string[] {
  const wanted = Math.round(wish.seconds * framesPerSecond);
  const isCrossfade = wish.loopMode === 'crossfade';
  const drawn = isCrossfade ? wanted + dissolveFrames : wanted;
  const size = sizeWithin(clips[0]?.info, wish.model);
  const timing = timingOf(clips, drawn, isCrossfade);

  const chains = clips.map(({ info }, i) => `[${i}:v:0]${timing(info)},${conform(size)}[c${i}]`);
  const inputs = clips.map((_, i) => `[c${i}]`).join('');
  const exact = `tpad=stop_mode=clone:stop=${drawn},trim=end_frame=${drawn},setpts=PTS-STARTPTS`;
  const joined = `${inputs}concat=n=${clips.length}:v=1:a=0,fps=${framesPerSecond},${exact}`;
  const graph = [
    ...chains,
    isCrossfade ? `${joined}[all];${dissolveGraph(wish.seconds)}` : `${joined}[out]`,
  ].join(';');

  return [
    ...['-filter_threads', '1', '-filter_complex_threads', '1'],
    ...clips.flatMap(({ path }) => [...inputArgs, '-i', path]),
    ...['-filter_complex', graph, '-map', '[out]', '-frames:v', String(wanted)],
    ...finalArgs(wish.model, wanted),
    // Progress lines keep the watchdog quiet while it works.
    ...['-progress', 'pipe:1', '-stats_period', '0.5'],
    ...fileArgs(wish.output),
  ];
}

/** Arguments that write one frame of a clip (its 0-based number) to stdout: three bytes per pixel, as browsers show it. */
export function frameArgs(path: string, frame: number): string[] {
  return [
    ...inputArgs,
    ...['-i', path, '-an', '-frames:v', '1', '-threads', '1'],
    ...[
      '-vf',
      `trim=start_frame=${frame},scale=in_color_matrix=bt709:flags=accurate_rnd+full_chroma_int,format=rgb24`,
    ],
    ...['-f', 'rawvideo', 'pipe:1'],
  ];
}

const bt709 = [
  '-color_range',
  'tv',
  '-color_primaries',
  'bt709',
  '-color_trc',
  'bt709',
  '-colorspace',
  'bt709',
];

/** Only mp4 with H.264 is decoded, and only from plain files. */
const inputArgs = [
  '-noautorotate',
  '-protocol_whitelist',
  'file',
  '-f',
  'mov',
  '-threads',
  '1',
  '-c:v',
  'h264',
];

const stageArgs = ['-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '10', '-g', '15', ...['-threads', '1']];

const finalEncoder: Record<Model, string[]> = {
  fast: ['-preset', 'fast', '-crf', '22'],
  standard: ['-preset', 'medium', '-crf', '20'],
  cinema: ['-preset', 'fast', '-crf', '22'],
};

/**
 * mbtree and psy off: they starve the last frames of a clip and sharpen its first, which shows as a jump where a
 * loop closes. One key frame, since each more of them is a pop.
 */
export function finalArgs(model: Model, frames: number): string[] {
  return [
    ...['-c:v', 'libx264', ...finalEncoder[model], '-x264-params', 'mbtree=0:psy=0', '-profile:v', 'high'],
    ...['-g', String(frames), '-sc_threshold', '0', '-threads', '1'],
  ];
}

function fileArgs(output: string): string[] {
  return [
    ...['-an', '-pix_fmt', 'yuv420p', ...bt709, '-map_metadata', '-1', '-fflags', '+bitexact'],
    ...['-movflags', '+faststart', '-f', 'mp4', output],
  ];
}

/** The filters that give a clip its share of the frames wanted. */
function timingOf(
  clips: readonly { info: ClipInfo }[],
  drawn: number,
  mayTrim: boolean,
): (info: ClipInfo) => string {
  const frames = clips.reduce((sum, { info }) => sum + info.frames, 0);
  const seconds = clips.reduce((sum, { info }) => sum + info.seconds, 0);
  const wanted = drawn / framesPerSecond;
  if (frames === drawn && Math.abs(seconds - wanted) < 0.01) return () => `setpts=N/(${framesPerSecond}*TB)`;

  const used = clips.reduce((sum, { info }) => sum + (info.seconds * keptFrames(info)) / info.frames, 0);
  const stretch = mayTrim && used > wanted ? 1 : wanted / used;
  return (info) => `trim=end_frame=${keptFrames(info)},setpts=(PTS-STARTPTS)*${stretch.toFixed(6)}`;
}

function keptFrames({ frames }: ClipInfo): number {
  return Math.max(1, frames - 1);
}

function conform({ width, height }: Size): string {
  const scale = `scale=${width}:${height}:flags=bicubic:out_color_matrix=bt709:out_range=tv`;
  return `fps=${framesPerSecond},${scale},setsar=1,format=yuv420p`;
}

/** The frames after the first half second, whose last half second dissolves into that first one. */
function dissolveGraph(seconds: number): string {
  const start = 'setpts=PTS-STARTPTS';
  const rate = `fps=${framesPerSecond}`;
  const length = dissolveFrames / framesPerSecond;
  return [
    '[all]split[one][two]',
    `[one]trim=start_frame=${dissolveFrames},${start},${rate}[main]`,
    `[two]trim=end_frame=${dissolveFrames},${start},${rate}[head]`,
    `[main][head]xfade=transition=fade:duration=${length}:offset=${seconds - length}[out]`,
  ].join(';');
}

/** The clip's own size, reduced to the model's number of pixels when it has more. Sides are even. */
function sizeWithin(info: ClipInfo | undefined, model: Model): Size {
  const { width, height } = info ?? { width: 1280, height: 720 };
  const most = model === 'cinema' ? 1920 * 1088 : 1280 * 736;
  const scale = Math.min(1, Math.sqrt(most / (width * height)));
  return { width: 2 * Math.round((width * scale) / 2), height: 2 * Math.round((height * scale) / 2) };
}

/** How a child ended, once its output is read: `exit 0`, `exit 1`, `SIGKILL`, or why it never started. */
function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(signal ?? `exit ${code}`));
    // A process that it has started itself may keep the pipes open after it is gone.
    child.once('exit', (code, signal) => {
      setTimeout(() => {
        for (const pipe of child.stdio) pipe?.destroy();
        resolve(signal ?? `exit ${code}`);
      }, pipesMs).unref();
    });
  });
}

async function unexpectedEnd(ended: Promise<void>, code: ErrorCode): Promise<never> {
  await ended;
  throw new EffectError(code, 'ffmpeg ended before it had all frames');
}

function createWatchdog(stallMs: number, bark: () => void) {
  let timer = setTimeout(bark, stallMs);
  return {
    touch() {
      clearTimeout(timer);
      timer = setTimeout(bark, stallMs);
    },
    stop: () => clearTimeout(timer),
  };
}

/**
 * Lets everything else on the machine go first. Best effort: false where the system refuses.
 *
 * On Linux, 0 is the calling thread alone, and what it starts inherits its priority.
 */
export function lowerPriority(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL);
    return true;
  } catch {
    return false;
  }
}
