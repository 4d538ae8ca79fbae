/**
 * Checks that a file is a clip that every browser plays: mp4 that starts at once, one H.264 track, yuv420p.
 *
 * Reads the boxes around the pictures, never the pictures: little memory, and no decoder meets the bytes.
 */
import { open } from 'node:fs/promises';
import { createFile, Log, MP4BoxBuffer, type Track } from 'mp4box';
import { EffectError } from '../../schemas/errors.ts';

/** Largest clip that is accepted, in bytes. */
export const maxClipBytes = 50 * 1024 * 1024;

const maxBoxes = 64;
const maxIndexBytes = 4 * 1024 * 1024;
const maxFrames = 10_000;
const maxSide = 4096;

export type ClipInfo = {
  width: number;
  height: number;
  seconds: number;
  frames: number;
  bytes: number;
  /** As in a MIME type's codecs, e.g. avc1.64001f. */
  codec: string;
  hasAudio: boolean;
};

/**
 * Reads what a clip is, from its path or its bytes.
 *
 * @throws {EffectError} `i2v_failed` when it is not a faststart mp4 with exactly one H.264 track in 8-bit 4:2:0 of
 * even size, or is cut short, empty or over `maxClipBytes`.
 */
export async function checkClip(clip: string | Uint8Array): Promise<ClipInfo> {
  return typeof clip === 'string' ? withFile(clip, inspect) : inspect(memoryReader(clip));
}

async function withFile<Result>(path: string, use: (reader: Reader) => Promise<Result>): Promise<Result> {
  const handle = await open(path).catch((cause: unknown) => {
    throw unfit('it cannot be opened', cause);
  });
  try {
    const { size } = await handle.stat();
    return await use({
      size,
      async read(start, length) {
        const { buffer, bytesRead } = await handle.read(new Uint8Array(length), 0, length, start);
        return buffer.subarray(0, bytesRead);
      },
    });
  } finally {
    await handle.close();
  }
}

/**
 * Reads what a file of another's making is: a whole mp4 with one picture track that lasts, of any common codec and
 * wherever its index is. To be encoded anew before anybody plays it.
 *
 * @throws {EffectError} `i2v_failed` when it is not, or is over `maxClipBytes`.
 */
export async function checkForeignClip(path: string): Promise<ClipInfo> {
  return withFile(path, async (reader) => {
    const { head, index } = await findIndex(reader);
    if (head.size > maxIndexBytes) throw unfit('its head is too long');
    // The parser reads a file from its beginning: the index is put there.
    const parts = await Promise.all([head, index].map(({ start, size }) => reader.read(start, size)));
    const parsed = parseIndex(Buffer.concat(parts));
    if (!foreignCodecs.test(parsed.track.codec)) throw unfit(`its codec is ${parsed.track.codec}`);
    return describeTrack(parsed, reader.size);
  });
}

const foreignCodecs = /^(avc[13]|hvc1|hev1|vp09|av01|mp4v)/;

type Reader = { size: number; read(start: number, length: number): Promise<Uint8Array> };
type Box = { type: string; start: number; size: number };

function memoryReader(bytes: Uint8Array): Reader {
  return { size: bytes.length, read: async (start, length) => bytes.subarray(start, start + length) };
}

async function inspect(reader: Reader): Promise<ClipInfo> {
  const { index, data } = await findIndex(reader);
  if (index.start > data.start) throw unfit('its index comes after its pictures');
  return describe(parseIndex(await reader.read(0, index.start + index.size)), reader.size);
}

async function findIndex(reader: Reader): Promise<{ head: Box; index: Box; data: Box }> {
  if (reader.size > maxClipBytes) throw unfit(`it has ${reader.size} bytes`);
  const boxes = await readBoxes(reader);
  const [head] = boxes;
  const index = boxes.find(({ type }) => type === 'moov');
  const data = boxes.find(({ type }) => type === 'mdat');
  if (head?.type !== 'ftyp' || !index || !data) throw unfit('it is no mp4');
  if (index.size > maxIndexBytes) throw unfit(`its index has ${index.size} bytes`);
  return { head, index, data };
}

/** The boxes of the top level, which must fill the file exactly: a file that was cut short does not. */
async function readBoxes({ size, read }: Reader): Promise<Box[]> {
  const boxes: Box[] = [];
  for (let start = 0; start < size; ) {
    if (boxes.length === maxBoxes) throw unfit('it has too many boxes');
    const box = boxAt(await read(start, 16), start, size);
    boxes.push(box);
    start += box.size;
  }
  return boxes;
}

function boxAt(head: Uint8Array, start: number, fileSize: number): Box {
  if (head.length < 8) throw unfit('it is cut short');
  const view = new DataView(head.buffer, head.byteOffset, head.length);
  const type = String.fromCharCode(...head.subarray(4, 8));
  const short = view.getUint32(0);
  // 1 announces a 64-bit size, 0 a box that reaches to the end of the file.
  const long = short === 1 && head.length === 16 ? Number(view.getBigUint64(8)) : short;
  const size = long === 0 ? fileSize - start : long;
  if (size < 8 || start + size > fileSize) throw unfit('it is cut short');
  return { type, start, size };
}

type Index = { track: Track; videoTracks: number; hasAudio: boolean; parameterSet: Uint8Array };

function parseIndex(bytes: Uint8Array): Index {
  refuseHugeTables(bytes);
  Log.setLogLevel(Log.error);
  const file = createFile();
  let failure: string | undefined;
  file.onError = (_module: string, message: string) => {
    failure = message;
  };
  try {
    file.appendBuffer(MP4BoxBuffer.fromArrayBuffer(Uint8Array.from(bytes).buffer, 0), true);
    if (failure !== undefined) throw new Error(failure);
    const info = file.getInfo();
    const track = info.videoTracks[0];
    if (!track) throw new Error('no video track');
    return {
      track,
      videoTracks: info.videoTracks.length,
      hasAudio: info.audioTracks.length > 0,
      parameterSet: parameterSetOf(file.getTrackById(track.id)),
    };
  } catch (cause) {
    throw unfit('its index cannot be read', cause);
  }
}

/** A table of a few bytes may claim billions of samples, for which the parser would make room. */
function refuseHugeTables(bytes: Uint8Array): void {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (
    let at = buffer.indexOf('stsz');
    at >= 0 && at + 16 <= buffer.length;
    at = buffer.indexOf('stsz', at + 4)
  ) {
    if (buffer.readUInt32BE(at + 12) > maxFrames) throw unfit('it has too many frames');
  }
}

/** The first sequence parameter set of a track's avcC box, empty when it has none. */
function parameterSetOf(track: unknown): Uint8Array {
  const path = ['mdia', 'minf', 'stbl', 'stsd', 'entries', '0', 'avcC', 'SPS', '0'];
  let value = track;
  for (const name of path) value = (value as Record<string, unknown> | undefined)?.[name];
  const data = (value as { data?: unknown } | undefined)?.data;
  return data instanceof Uint8Array ? data : new Uint8Array();
}

function describe(index: Index, bytes: number): ClipInfo {
  const { codec } = index.track;
  if (!codec.startsWith('avc1')) throw unfit(`its codec is ${codec}`);
  const info = describeTrack(index, bytes);
  if (!isPlanar420(index.parameterSet)) throw unfit('its pixels are not 8-bit yuv420p');
  return info;
}

function describeTrack({ track, videoTracks, hasAudio }: Index, bytes: number): ClipInfo {
  const { width, height } = track.video ?? { width: 0, height: 0 };
  const seconds = track.samples_duration / track.timescale;
  const frames = track.nb_samples;

  if (videoTracks !== 1) throw unfit(`it has ${videoTracks} video tracks`);
  if (!isEvenSize(width) || !isEvenSize(height)) throw unfit(`its size is ${width} x ${height}`);
  if (!(seconds > 0) || frames < 1) throw unfit('it holds no picture');
  return { width, height, seconds, frames, bytes, codec: track.codec, hasAudio };
}

function isEvenSize(side: number): boolean {
  return side > 0 && side <= maxSide && side % 2 === 0;
}

/** Profiles that may have other than 8-bit 4:2:0, and say so in their parameter set (H.264, 7.3.2.1.1). */
const profilesWithFormat = new Set([100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135]);

function isPlanar420(parameterSet: Uint8Array): boolean {
  if (parameterSet.length < 5) return false;
  if (!profilesWithFormat.has(parameterSet[1] ?? 0)) return true;
  const next = numberReader(parameterSet.subarray(4));
  next(); // seq_parameter_set_id
  const chromaFormat = next();
  const lumaDepth = next();
  const chromaDepth = next();
  return chromaFormat === 1 && lumaDepth === 0 && chromaDepth === 0;
}

/** Reads unsigned Exp-Golomb numbers (H.264, 9.1), each at most 31 bits long. */
function numberReader(bytes: Uint8Array): () => number {
  let at = 0;
  const bit = () => {
    const value = ((bytes[at >> 3] ?? 0) >> (7 - (at & 7))) & 1;
    at += 1;
    return value;
  };
  return () => {
    let zeros = 0;
    while (zeros < 31 && bit() === 0) zeros += 1;
    let value = 1;
    for (let i = 0; i < zeros; i += 1) value = value * 2 + bit();
    return value - 1;
  };
}

function unfit(why: string, cause?: unknown): EffectError {
  return new EffectError('i2v_failed', `clip is not playable: ${why}`, { cause });
}
