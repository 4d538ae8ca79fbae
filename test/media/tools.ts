/** What the media tests share: ffmpeg, and looking at the files that were made. */
import { execFile } from 'node:child_process';
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { testServers } from '../fixtures/servers.ts';

const run = promisify(execFile);

/** Path of the ffmpeg to test with: FFMPEG_PATH, else the one that the shared servers came with. */
export async function ffmpegPath(): Promise<string> {
  return process.env['FFMPEG_PATH'] ?? (await testServers()).ffmpegPath;
}

/** Runs ffmpeg and answers its stdout. */
export async function ffmpeg(...args: string[]): Promise<Buffer> {
  const { stdout } = await run(await ffmpegPath(), ['-v', 'error', '-y', ...args], {
    encoding: 'buffer',
    maxBuffer: 2 ** 30,
  });
  return stdout;
}

/** What ffmpeg says about the first video stream, e.g. `h264 (High) (avc1 / 0x31637661), yuv420p(tv, bt709), 960x960`. */
export async function streamLine(path: string): Promise<string> {
  const { stderr } = await run(await ffmpegPath(), [
    '-hide_banner',
    '-i',
    path,
    '-t',
    '0',
    '-f',
    'null',
    '-',
  ]);
  return /Video: .*/.exec(stderr)?.[0] ?? '';
}

/** All frames of a clip as grey bytes, one Buffer per frame. */
export async function greyFrames(path: string, { width, height }: { width: number; height: number }) {
  const bytes = await ffmpeg('-i', path, '-f', 'rawvideo', '-pix_fmt', 'gray', '-');
  return Array.from({ length: bytes.length / (width * height) }, (_, i) =>
    bytes.subarray(i * width * height, (i + 1) * width * height),
  );
}

/** Mean absolute difference of two frames, in levels. */
export function difference(one: Uint8Array, two: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < one.length; at += 1) sum += Math.abs((one[at] ?? 0) - (two[at] ?? 0));
  return sum / one.length;
}

export function meanOf(values: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < values.length; at += 1) sum += values[at] ?? 0;
  return sum / values.length;
}

/** Writes an executable shell script. */
export async function script(path: string, body: string): Promise<string> {
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return path;
}

/** Files below a directory, however deep. */
export async function filesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

/** Command lines of running processes that hold `text`. */
export async function processesWith(text: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  // A process may end between the listing and the reading.
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return lines.map((line) => line.replaceAll('\0', ' ')).filter((line) => line.includes(text));
}
