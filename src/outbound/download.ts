/** Copies what is at an address into a file, piece by piece: nothing of it is held in memory. */
import { createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Dispatcher } from 'undici';
import { asOutboundError, createDeadline, discard, exchange } from './exchange.ts';
import type { Policy } from './policy.ts';

export type DownloadOptions = {
  headers: Record<string, string>;
  /** From the look-up of the name to the last byte, in ms. */
  timeoutMs: number;
  maxBytes: number;
  /** Followed at most, each judged as the first address was. */
  redirects: number;
  signal: AbortSignal;
};

/** `isTooLarge`: there was more than `maxBytes`, and the file is of no use. */
export type Downloaded = { statusCode: number; isTooLarge: boolean };

/**
 * Writes the file when the answer is a 200. Any status is an answer.
 *
 * @throws {OutboundError} with the class of the failure; errors of the file system as they come.
 */
export async function download(
  connection: { agent: Dispatcher; policy: Policy },
  url: string,
  file: string,
  { headers, timeoutMs, maxBytes, redirects, signal }: DownloadOptions,
): Promise<Downloaded> {
  const deadline = createDeadline(signal);
  deadline.limit(timeoutMs, 'the download');
  let isTooLarge = false;
  let bytes = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _, callback) {
      bytes += chunk.byteLength;
      isTooLarge = bytes > maxBytes;
      callback(isTooLarge ? new Error('too large') : null, chunk);
    },
  });
  try {
    const request = { url, method: 'GET' as const, headers, redirects, keepAlive: false };
    const { statusCode, body } = await exchange(connection, { ...request, signal: deadline.signal });
    if (statusCode === 200) await pipeline(body, counted, createWriteStream(file));
    else discard(body);
    return { statusCode, isTooLarge };
  } catch (error) {
    if (isTooLarge) return { statusCode: 200, isTooLarge };
    // A full disk is nobody's fault outside.
    const { syscall } = error as NodeJS.ErrnoException;
    throw syscall === 'write' || syscall === 'open' ? error : asOutboundError(error, deadline.signal);
  } finally {
    deadline.end();
  }
}
