/**
 * `npm run bench media`: what the local engine costs and how good it looks, on the bundled photo, 4 s, 720p, 30 fps.
 *
 * CPU is user and system time of this process and its children per second of video: of one stage (animate-on-hover,
 * rendered and encoded once) and of a whole loop run (vision, way out, way back, merge, poster). The baseline is
 * ffmpeg's own zoompan with the same length, size and encoder arguments, in alternation with ours.
 *
 * Metrics, all by ffmpeg:
 *   seam, poster   [a][b]ssim, the value `All`; last frame against first frame, poster against the frame it stands for
 *   jerk           tblend=all_mode=difference,signalstats: rms change of YAVG from frame to frame over its mean
 * The event loop is that of an idle http server in a process of its own, sampled while this one renders.
 */
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { LoopMode, Mode } from '../../schemas/asset.ts';
import { findFfmpeg } from '../embedded/ffmpeg.ts';
import { finalArgs } from '../media/encode.ts';
import { createEngine } from '../media/engine.ts';
import { createLocalVision } from '../providers/local-vision.ts';
import { report, spread } from './cpu.ts';

const pairs = 5;
const seconds = 4;
const frames = seconds * 30;
const resolutionMs = 5;
const ticksPerSecond = 100;

const limits = {
  cpuStage: 1.2,
  cpuLoop: 1.8,
  rssMb: 300,
  seam: 0.96,
  jerk: 0.12,
  poster: 0.975,
  kilobytes: 900,
  eventLoopP99Ms: 20,
  firstFrameLuma: 24,
};

const { signal } = new AbortController();
const run = promisify(execFile);

if (process.argv[2] === 'idle-server') await serve();
else await main();

async function main(): Promise<void> {
  const ffmpegPath = await findFfmpeg();
  const directory = await mkdtemp(join(tmpdir(), 'bench-media-'));
  const engine = createEngine({ ffmpegPath, tempDir: directory, threads: 1 });
  const server = fork(fileURLToPath(import.meta.url), ['idle-server']);
  try {
    await once(server, 'message');
    const photo = await readFile(photoPath());
    const studio = createStudio(engine, photo, directory);
    const zoompan = join(directory, 'zoompan.mp4');

    // Compiles the inner loops; a service has them warm.
    const { width, height } = await studio.stage('animate-on-hover');
    server.send('reset');
    const cpu = { stage: [] as number[], loop: [] as number[], zoompan: [] as number[] };
    for (let i = 0; i < pairs; i += 1) {
      cpu.stage.push(await cpuOf(() => studio.stage('animate-on-hover')));
      cpu.zoompan.push(await cpuOf(() => zoom(ffmpegPath, { width, height }, zoompan)));
      cpu.loop.push(await cpuOf(() => studio.loop('native')));
    }
    server.send('read');
    const [eventLoopP99Ms] = (await once(server, 'message')) as [number];
    const rssMb = process.resourceUsage().maxRSS / 1024;

    await studio.stage('animate-in');
    await studio.loop('crossfade');
    const look = createLook(ffmpegPath);
    const native = studio.path('native.mp4');
    const figures = {
      cpuStage: spread(cpu.stage).median,
      cpuLoop: spread(cpu.loop).median,
      rssMb: Math.round(rssMb),
      seam: await look.seam(native),
      jerk: await look.jerk(native),
      poster: Math.min(
        await look.poster(native, studio.path('native.jpg'), 0),
        await look.poster(studio.path('animate-in.mp4'), studio.path('animate-in.jpg'), frames - 1),
        await look.poster(studio.path('animate-on-hover.mp4'), studio.path('animate-on-hover.jpg'), 0),
      ),
      kilobytes: await kilobytesOf(native),
      eventLoopP99Ms,
      firstFrameLuma: Math.min(
        ...(await Promise.all(
          ['native', 'animate-in', 'animate-on-hover'].map((name) => look.luma(studio.path(`${name}.mp4`))),
        )),
      ),
    };
    const failed = failures(figures);
    report({
      bench: 'media',
      ok: failed.length === 0,
      failed,
      limits,
      figures,
      cpu: { stage: spread(cpu.stage), loop: spread(cpu.loop), zoompan: spread(cpu.zoompan) },
      others: await othersOf(look, studio),
      baseline: { zoompan: { jerk: await look.jerk(zoompan), kilobytes: await kilobytesOf(zoompan) } },
      pairs,
      seconds,
      size: `${width}x${height}`,
      ffmpeg: await versionOf(ffmpegPath),
    });
    process.exitCode = failed.length === 0 ? 0 : 1;
  } finally {
    server.kill();
    await engine.close();
    await rm(directory, { recursive: true, force: true });
  }
}

type Studio = ReturnType<typeof createStudio>;
type Look = ReturnType<typeof createLook>;

/** Makes the clips that are measured, as the pipeline does. */
function createStudio(engine: ReturnType<typeof createEngine>, source: Buffer, directory: string) {
  const vision = createLocalVision();
  const image = { contentType: 'image/jpeg', read: async () => source };
  const path = (name: string) => join(directory, name);

  async function wish(mode: Mode, loopMode: LoopMode) {
    const { plan } = await vision.describe({ image, motion: 'medium', mode, seed: 1 }, signal);
    const options = {
      source,
      plan,
      motion: 'medium',
      mode,
      loopMode,
      seconds,
      aspect: 'source',
      model: 'fast',
    } as const;
    return { ...options, seed: 1 };
  }

  return {
    path,
    async stage(mode: Mode) {
      const output = path(`${mode}.mp4`);
      const info = await engine.renderClip(
        { ...(await wish(mode, 'none')), segment: 'whole', output },
        signal,
      );
      await engine.poster({ clip: output, mode, output: path(`${mode}.jpg`) }, signal);
      return info;
    },
    async loop(loopMode: LoopMode) {
      const options = await wish('loop', loopMode);
      const [out, back, output] = [path('out.mp4'), path('back.mp4'), path(`${loopMode}.mp4`)];
      await engine.renderClip({ ...options, segment: 'out', output: out }, signal);
      await engine.renderClip({ ...options, segment: 'back', output: back }, signal);
      await engine.merge({ clips: [out, back], loopMode, seconds, model: 'fast', output }, signal);
      await engine.poster({ clip: output, mode: 'loop', output: path(`${loopMode}.jpg`) }, signal);
    },
  };
}

/** Measures finished clips: see the metrics above. */
function createLook(ffmpegPath: string) {
  const filter = async (inputs: string[], graph: string) => {
    const { stdout, stderr } = await run(
      ffmpegPath,
      [
        '-hide_banner',
        ...inputs.flatMap((input) => ['-i', input]),
        '-filter_complex',
        graph,
        '-f',
        'null',
        '-',
      ],
      { maxBuffer: 16 * 1024 * 1024 },
    );
    return stdout + stderr;
  };
  const frame = (input: number, number: number) => `[${input}:v]select=eq(n\\,${number}),setpts=0`;
  const ssim = async (inputs: string[], graph: string) => {
    const value = /SSIM.*All:([\d.]+)/.exec(await filter(inputs, graph))?.[1];
    return rounded(Number(value));
  };
  const averages = async (clip: string, graph: string) => {
    const text = await filter(
      [clip],
      `${graph},signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-`,
    );
    return [...text.matchAll(/YAVG=([\d.]+)/g)].map((match) => Number(match[1]));
  };
  return {
    seam: (clip: string) => ssim([clip, clip], `${frame(0, frames - 1)}[a];${frame(1, 0)}[b];[a][b]ssim`),
    poster(clip: string, poster: string, number: number) {
      const shown = `${frame(0, number)},scale=in_color_matrix=bt709,format=gbrp[a]`;
      return ssim([clip, poster], `${shown};[1:v]setpts=0,format=gbrp[b];[a][b]ssim`);
    },
    async jerk(clip: string) {
      const steps = (await averages(clip, '[0:v]format=gray,tblend=all_mode=difference')).slice(1);
      const changes = steps.slice(1).map((step, i) => step - (steps[i] ?? step));
      const rms = Math.sqrt(meanOf(changes.map((change) => change * change)));
      return rounded(rms / meanOf(steps));
    },
    async luma(clip: string) {
      return rounded((await averages(clip, '[0:v]trim=end_frame=1'))[0] ?? 0);
    },
  };
}

/** Figures of the other modes, for comparison. */
async function othersOf(look: Look, studio: Studio) {
  const names = ['crossfade', 'animate-in', 'animate-on-hover'];
  const rows = names.map(async (name) => {
    const clip = studio.path(`${name}.mp4`);
    const seam = name === 'animate-in' ? undefined : await look.seam(clip);
    return [name, { seam, jerk: await look.jerk(clip), kilobytes: await kilobytesOf(clip) }] as const;
  });
  return Object.fromEntries(await Promise.all(rows));
}

/** The usual way to move a still: zoompan at the output's size. */
async function zoom(
  ffmpegPath: string,
  { width, height }: { width: number; height: number },
  output: string,
) {
  const size = `${width}x${height}`;
  const pan = `zoompan=z='1+0.03*(1-cos(2*PI*on/${frames}))':x='iw/2-iw/zoom/2':y='ih/2-ih/zoom/2':d=${frames}:s=${size}:fps=30`;
  await run(ffmpegPath, [
    ...['-v', 'error', '-y', '-threads', '1', '-i', photoPath(), '-filter_threads', '1'],
    ...[
      '-vf',
      `scale=${size}:force_original_aspect_ratio=increase,crop=${width}:${height},${pan},format=yuv420p`,
    ],
    ...['-frames:v', String(frames), ...finalArgs('fast', frames), '-movflags', '+faststart', output],
  ]);
}

/** CPU seconds per second of video that `work` takes, children included. */
async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const before = await ticks();
  await work();
  return ((await ticks()) - before) / ticksPerSecond / seconds;
}

/** User and system time of this process and of its children that have ended, in clock ticks (proc(5)). */
async function ticks(): Promise<number> {
  const fields = (await readFile('/proc/self/stat', 'utf8')).split(') ')[1]?.split(' ') ?? [];
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}

function failures(figures: typeof limits): string[] {
  const atLeast = new Set<string>(['seam', 'poster', 'firstFrameLuma']);
  return Object.entries(limits)
    .filter(([name, limit]) => {
      const value = figures[name as keyof typeof limits];
      return !(atLeast.has(name) ? value >= limit : value <= limit);
    })
    .map(([name]) => name);
}

async function kilobytesOf(path: string): Promise<number> {
  return Math.round((await stat(path)).size / 1024);
}

async function versionOf(ffmpegPath: string): Promise<string> {
  const { stdout } = await run(ffmpegPath, ['-version']);
  return /ffmpeg version (\S+)/.exec(stdout)?.[1] ?? 'unknown';
}

/** The build has no pictures: they stay beside the sources. */
function photoPath(): string {
  const here = fileURLToPath(new URL('.', import.meta.url));
  const root = here.includes(`${sep}dist${sep}`)
    ? here.slice(0, here.lastIndexOf(`${sep}dist${sep}`))
    : join(here, '../..');
  return join(root, 'src/demo/photo.jpg');
}

/** An http server that nobody asks: tells how late its event loop is. */
async function serve(): Promise<void> {
  const server = createServer((_, response) => response.end('ok'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  process.on('message', (message) => {
    if (message === 'reset') delay.reset();
    else process.send?.(rounded(delay.percentile(99) / 1e6 - resolutionMs));
  });
  process.on('disconnect', () => process.exit());
  process.send?.('ready');
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
