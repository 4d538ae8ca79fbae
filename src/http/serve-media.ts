/**
 * Answers with a file: whole or in part, piece by piece, as fast as its reader takes it and not slower than a
 * reader may be.
 */
import { after } from './after.ts';
import { type Selection, selectPart } from './conditional.ts';
import { answerJson, type Exchange, endHead, type HeaderSet, toBlock, writeHead } from './exchange.ts';
import type { MediaFile, MediaFiles } from './media-files.ts';
import type { Pace } from './pace.ts';

/** A kind of answer. Its headers are made once per file and never hold anything of a request. */
export type MediaKind = { name: string; headers: Record<string, string> };

export type MediaAnswer = {
  exchange: Exchange;
  file: MediaFile;
  kind: MediaKind;
  /** Headers of this answer alone. */
  headers: HeaderSet;
};

export type MediaServer = ReturnType<typeof createMediaServer>;

export function createMediaServer(files: MediaFiles, pace: Pace) {
  /** Where the first bytes of answers came from. */
  const stats = { fromMemory: 0, fromStorage: 0 };

  /**
   * At once when the bytes are in memory. @throws what storage throws before the first byte; afterwards a failure
   * cuts the answer off.
   */
  const serve = (answer: MediaAnswer): void | Promise<void> => {
    const { exchange, file } = answer;
    if (!exchange.isOpen) return;
    const part = selectPart(exchange.head, file);
    if (part.status === 304 || exchange.head.isHead) return answerWithoutBody(answer, part.status);
    if (part.status === 416) return answerUnsatisfied(answer);
    file.uses += 1;
    const range = part.status === 206 ? part : { start: 0, end: file.total - 1 };
    const start = files.startOfPiece(file, range.start);
    const first = files.pieceOf(file, start);
    if (first instanceof Promise) stats.fromStorage += 1;
    else stats.fromMemory += 1;
    return after(first, (piece) => {
      if (!exchange.isOpen) return;
      if (!piece) answerGone(answer);
      else if (exchange.isInHandler) begin(answer, part, range, piece, start);
      else exchange.res.cork(() => begin(answer, part, range, piece, start));
    });
  };

  /** Sends the head and the first piece, which is all of most files. */
  const begin = (answer: MediaAnswer, part: Part, { start, end }: Range, piece: Buffer, at: number): void => {
    const { exchange, file } = answer;
    writeMediaHead(answer, part);
    const total = end - start + 1;
    const [isTaken, isDone] = exchange.res.tryEnd(piece.subarray(start - at, end + 1 - at), total);
    if (isDone) {
      exchange.meter.mediaBytes += total;
      exchange.done(part.status);
      return;
    }
    const sending = new Sending(exchange, file, start, end, part.status, files, pace);
    pace.watch(sending);
    exchange.onAborted(() => sending.leave());
    exchange.res.onWritable(() => sending.goOn());
    if (isTaken) sending.goOn();
  };

  return { serve, stats };
}

type Range = { start: number; end: number };
type Part = Extract<Selection, { status: 200 | 206 }>;

/** A body on its way to its reader. It holds no bytes: those it sends next are looked for when they are taken. */
class Sending {
  readonly exchange: Exchange;
  pacedAt = performance.now();
  pacedBytes = 0;
  private readonly file: MediaFile;
  private readonly start: number;
  private readonly end: number;
  private readonly status: number;
  private readonly files: MediaFiles;
  private readonly pace: Pace;
  private isReading = false;
  private sentBytes = 0;

  constructor(
    exchange: Exchange,
    file: MediaFile,
    start: number,
    end: number,
    status: number,
    files: MediaFiles,
    pace: Pace,
  ) {
    this.exchange = exchange;
    this.file = file;
    this.start = start;
    this.end = end;
    this.status = status;
    this.files = files;
    this.pace = pace;
  }

  /** Sends until the connection takes no more or bytes have to be read. Answers whether it takes more. */
  goOn(): boolean {
    const { exchange, file, files } = this;
    while (exchange.isOpen && !this.isReading) {
      const start = files.startOfPiece(file, this.start + exchange.res.getWriteOffset());
      const piece = files.pieceOf(file, start);
      if (piece instanceof Promise) this.read(piece, start);
      else if (!this.push(piece, start)) return false;
    }
    return true;
  }

  private read(reading: Promise<Buffer | undefined>, start: number): void {
    this.isReading = true;
    reading
      .then((piece) => {
        this.isReading = false;
        if (!this.exchange.isOpen) return;
        if (!piece) throw new Error('the stored object has gone');
        if (this.push(piece, start)) this.goOn();
      })
      .catch((cause: unknown) => this.cut(cause));
  }

  /** Sends what is left of a piece. Answers whether the connection takes more. */
  private push(piece: Buffer, pieceStart: number): boolean {
    const { exchange, start, end } = this;
    const { res } = exchange;
    const at = start + res.getWriteOffset();
    let isTaken = false;
    let isDone = false;
    res.cork(() => {
      [isTaken, isDone] = res.tryEnd(piece.subarray(at - pieceStart, end + 1 - pieceStart), end - start + 1);
    });
    this.sentBytes = isDone ? end - start + 1 : at - start;
    if (isDone) {
      this.leave();
      exchange.done(this.status);
    }
    return isTaken;
  }

  /** Nothing more is sent, to whomever has all of it or has gone. */
  leave(): void {
    this.exchange.meter.mediaBytes += this.sentBytes;
    this.sentBytes = 0;
    this.pace.leave(this);
  }

  /** The length is out: only a cut tells the client that this is not all. */
  private cut(cause: unknown): void {
    const { exchange, status } = this;
    this.leave();
    if (!exchange.isOpen) return;
    exchange.done(status, { err: cause });
    exchange.res.close();
  }
}

function writeMediaHead(answer: MediaAnswer, part: Part): void {
  const { exchange, headers, file } = answer;
  const block = headers.block + blockOf(answer);
  const range = part.status === 206 ? `\r\nContent-Range: bytes ${part.start}-${part.end}/${file.total}` : '';
  writeHead(exchange, part.status, undefined, block + range);
}

/** 304, or a HEAD: its range does not count. */
function answerWithoutBody(answer: MediaAnswer, selected: Selection['status']): void {
  const { exchange, headers, file } = answer;
  const status = selected === 304 ? 304 : 200;
  const write = (): void => {
    writeHead(exchange, status, undefined, headers.block + blockOf(answer));
    if (status === 304) exchange.res.endWithoutBody();
    else endHead(exchange, file.total, false);
  };
  if (exchange.isInHandler) write();
  else exchange.res.cork(write);
  exchange.done(status);
}

function answerUnsatisfied({ exchange, headers, file, kind }: MediaAnswer): void {
  const { 'Cache-Control': _, 'X-Content-Type-Options': __, ...fixed } = kind.headers;
  answerJson(exchange, {
    status: 416,
    body: { error: 'range not satisfiable' },
    headers: { ...fixed, ...headers.fields, 'Content-Range': `bytes */${file.total}` },
  });
}

/** The object was deleted between being looked up and being read. */
function answerGone({ exchange, headers, kind }: MediaAnswer): void {
  const { 'Cache-Control': _, 'X-Content-Type-Options': __, ...fixed } = kind.headers;
  const answer = { status: 404, body: { error: 'not found' }, headers: { ...fixed, ...headers.fields } };
  answerJson(exchange, answer);
}

/** All headers that depend on file and kind alone. */
function blockOf({ file, kind }: MediaAnswer): string {
  const known = file.headers.get(kind.name);
  if (known !== undefined) return known;
  const block = toBlock({
    'Content-Type': file.contentType,
    ETag: file.etag,
    'Last-Modified': new Date(file.modifiedTs).toUTCString(),
    'Accept-Ranges': 'bytes',
    ...kind.headers,
  });
  file.headers.set(kind.name, block);
  return block;
}
