/**
 * Answers with a file: whole or in part, from memory or as a stream from storage, as fast as its reader takes it
 * and not slower than a reader may be.
 */

import type { HttpRequest } from 'uWebSockets.js';
import type { Readable } from 'node:stream';
import { type MediaHead, type Selection, selectPart } from './conditional.ts';
import { answerJson, type Exchange, writeHead } from './exchange.ts';
import type { MediaFile, MediaFiles } from './media-files.ts';
import type { Pace } from './pace.ts';

/** A kind of answer. Its headers are made once per file and never hold anything of a request. */
export type MediaKind = { name: string; headers: Record<string, string> };

export type MediaAnswer = {
  exchange: Exchange;
  head: MediaHead;
  file: MediaFile;
  kind: MediaKind;
  /** Headers of this answer alone. */
  headers: Record<string, string>;
};

export type MediaServer = ReturnType<typeof createMediaServer>;

/** Reads what matters of a request: to be called before anything is awaited. */
export function readMediaHead(req: HttpRequest, isHead: boolean): MediaHead {
  return {
    isHead,
    range: req.getHeader('range'),
    ifRange: req.getHeader('if-range'),
    ifNoneMatch: req.getHeader('if-none-match'),
    ifModifiedSince: req.getHeader('if-modified-since'),
  };
}

export function createMediaServer(files: MediaFiles, pace: Pace) {
  /** @throws what storage throws before the first byte; afterwards a failure cuts the answer off. */
  const serve = (answer: MediaAnswer): void | Promise<void> => {
    const { exchange, head, file } = answer;
    if (!exchange.isOpen) return;
    const part = selectPart(head, file);
    if (part.status === 304) return answerUnchanged(answer);
    if (part.status === 416) return answerUnsatisfied(answer);
    if (head.isHead) return answerHead(answer);
    if (!file.isSmall) return stream(answer, part);
    const bytes = files.bytesOf(file);
    if (!(bytes instanceof Promise)) return sendBytes(answer, part, bytes);
    return bytes.then((read) => (read ? sendBytes(answer, part, read) : answerGone(answer)));
  };

  const sendBytes = (answer: MediaAnswer, part: Part, bytes: Buffer): void => {
    const { exchange } = answer;
    if (!exchange.isOpen) return;
    const body = part.status === 206 ? bytes.subarray(part.start, part.end + 1) : bytes;
    const { res } = exchange;
    let isDone = false;
    res.cork(() => {
      writeMediaHead(answer, part);
      isDone = res.tryEnd(body, body.byteLength)[1];
    });
    if (isDone) {
      exchange.done(part.status);
      return;
    }
    const watched = pace.watch(exchange);
    res.onWritable((offset) => {
      let isTaken = false;
      res.cork(() => {
        [isTaken, isDone] = res.tryEnd(body.subarray(offset), body.byteLength);
      });
      if (isDone) {
        watched.stop();
        exchange.done(part.status);
      }
      return isTaken;
    });
  };

  const stream = async (answer: MediaAnswer, part: Part): Promise<void> => {
    const { exchange, file } = answer;
    const range = part.status === 206 ? part : { start: 0, end: file.total - 1 };
    const object = await files.open(file, range, exchange.signal);
    if (!exchange.isOpen) {
      object?.stream.destroy();
      return;
    }
    if (!object) return answerGone(answer);
    exchange.res.cork(() => writeMediaHead(answer, part));
    sendStream(exchange, object.stream, object.bytes, part.status);
  };

  const sendStream = (exchange: Exchange, source: Readable, total: number, status: number): void => {
    const { res } = exchange;
    const watched = pace.watch(exchange);
    /** What the connection has not taken yet, and where in the body it begins. */
    let chunk: Buffer = Buffer.alloc(0);
    let chunkAt = 0;
    let received = 0;

    /** Answers whether the connection takes more. */
    const push = (bytes: Buffer): boolean => {
      let isTaken = false;
      let isDone = false;
      res.cork(() => {
        [isTaken, isDone] = res.tryEnd(bytes, total);
      });
      if (isDone) {
        watched.stop();
        exchange.done(status);
        source.destroy();
      }
      return isTaken;
    };

    source.on('data', (data: Buffer) => {
      if (!exchange.isOpen) return;
      chunk = data;
      received += data.byteLength;
      chunkAt = res.getWriteOffset();
      if (!push(data)) source.pause();
    });
    res.onWritable((offset) => {
      const isTaken = push(chunk.subarray(offset - chunkAt));
      if (isTaken && exchange.isOpen) source.resume();
      return isTaken;
    });
    const cut = (cause?: unknown) => {
      watched.stop();
      if (!exchange.isOpen) return;
      // The length is out: only a cut tells the client that this is not all.
      exchange.done(status, { err: cause ?? new Error('the stored object is shorter than it was') });
      res.close();
    };
    source.on('error', cut);
    source.on('end', () => {
      if (received < total) cut();
    });
    exchange.onAborted(() => {
      watched.stop();
      source.destroy();
    });
  };

  return { serve };
}

type Part = Extract<Selection, { status: 200 | 206 }>;

function writeMediaHead(answer: MediaAnswer, part: Part): void {
  const { exchange, headers, file } = answer;
  writeHead(exchange, part.status, headers);
  const { res } = exchange;
  if (part.status === 206) res.writeHeader('Content-Range', `bytes ${part.start}-${part.end}/${file.total}`);
  res.writeHeader('Content-Type', blockOf(answer));
}

function answerHead(answer: MediaAnswer): void {
  const { exchange, headers, file } = answer;
  const { res } = exchange;
  res.cork(() => {
    writeHead(exchange, 200, headers);
    res.writeHeader('Content-Type', blockOf(answer));
    res.endWithoutBody(file.total);
  });
  exchange.done(200);
}

function answerUnchanged(answer: MediaAnswer): void {
  const { exchange, headers } = answer;
  const { res } = exchange;
  res.cork(() => {
    writeHead(exchange, 304, headers);
    res.writeHeader('Content-Type', blockOf(answer));
    res.endWithoutBody();
  });
  exchange.done(304);
}

function answerUnsatisfied({ exchange, headers, file, kind }: MediaAnswer): void {
  const { 'Cache-Control': _, 'X-Content-Type-Options': __, ...fixed } = kind.headers;
  answerJson(exchange, {
    status: 416,
    body: { error: 'range not satisfiable' },
    headers: { ...fixed, ...headers, 'Content-Range': `bytes */${file.total}` },
  });
}

/** The object was deleted between being looked up and being read. */
function answerGone({ exchange, headers, kind }: MediaAnswer): void {
  const { 'Cache-Control': _, 'X-Content-Type-Options': __, ...fixed } = kind.headers;
  answerJson(exchange, { status: 404, body: { error: 'not found' }, headers: { ...fixed, ...headers } });
}

/** The value of Content-Type and, after line breaks, all headers that depend on file and kind alone. */
function blockOf({ file, kind }: MediaAnswer): string {
  const known = file.headers.get(kind.name);
  if (known !== undefined) return known;
  const lines = Object.entries({
    ETag: file.etag,
    'Last-Modified': new Date(file.modifiedTs).toUTCString(),
    'Accept-Ranges': 'bytes',
    ...kind.headers,
  }).map(([name, value]) => `${name}: ${value}`);
  const block = [file.contentType, ...lines].join('\r\n');
  file.headers.set(kind.name, block);
  return block;
}
