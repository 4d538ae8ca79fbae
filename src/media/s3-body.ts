/**
 * Bodies as an object store takes them: of a known length and SHA-256, and to be sent again when the first attempt
 * fails. A body that comes in pieces is written to a temporary file first, so that memory stays small.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { StorageBody } from './storage.ts';
import { untilAborted } from './until-aborted.ts';

export type SizedBody = {
  bytes: number;
  /** In hexadecimal, as signatures want it. */
  sha256: string;
  open(): Uint8Array | Readable;
};

/** What this machine, and not the sender of a body, has failed at. */
export class LocalError extends Error {
  override readonly name = 'LocalError';
}

/**
 * Runs with a body; the temporary file is gone afterwards.
 *
 * @throws {LocalError} when a file cannot be read or written. What the body throws and the signal's reason are
 * thrown as they are.
 */
export async function withSizedBody<Result>(
  body: StorageBody,
  { tempDir, signal }: { tempDir: string; signal: AbortSignal },
  run: (sized: SizedBody) => Promise<Result>,
): Promise<Result> {
  if (body instanceof Uint8Array) {
    return run({ ...(await measure(slicesOf(body), signal)), open: () => body });
  }
  if ('file' in body) return run(await measureFile(body.file, signal));

  const file = join(tempDir, randomUUID());
  try {
    await writePieces(body, file, signal);
    return await run(await measureFile(file, signal));
  } finally {
    await rm(file, { force: true });
  }
}

/** Hashing a slice of this length, in bytes, takes about a millisecond: nobody waits longer for the event loop. */
const sliceBytes = 1024 * 1024;
const nothing = new Uint8Array();

async function* slicesOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.byteLength; start += sliceBytes) {
    yield bytes.subarray(start, start + sliceBytes);
    await setImmediate();
  }
}

async function measureFile(file: string, signal: AbortSignal): Promise<SizedBody> {
  const stream = createReadStream(file);
  const size = await local(() => measure(stream, signal), signal);
  return { ...size, open: () => (size.bytes === 0 ? nothing : createReadStream(file)) };
}

async function measure(
  pieces: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const piece of untilAborted(pieces, signal)) {
    hash.update(piece);
    bytes += piece.byteLength;
  }
  return { bytes, sha256: hash.digest('hex') };
}

async function writePieces(
  pieces: AsyncIterable<Uint8Array>,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const handle = await local(() => open(file, 'wx'), signal);
  try {
    for await (const piece of untilAborted(pieces, signal)) {
      await local(() => handle.writeFile(piece), signal);
    }
  } finally {
    await local(() => handle.close(), signal);
  }
}

async function local<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    signal.throwIfAborted();
    const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new LocalError(`a file of this machine failed: ${code}`, { cause });
  }
}
