/**
 * Answers with a file: whole or in part, piece by piece, as fast as its reader takes it and not slower than a
 * reader may be.
 */
import { after } from './after.ts';
import { type Selection, selectPart } from './conditional.ts';
import {
  answerJson,
  type Exchange,
  endHead,
  type HeaderSet,
  inOnePiece,
  toBlock,
  writeHead,
} from './exchange.ts';
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
  /** All headers but those of a range, as `headOf` makes them; put together here when absent. */
  block?: string;
};

export type MediaServer = ReturnType<typeof createMediaServer>;

export function createMediaServer(files: MediaFiles, pace: Pace) {
  const turns = createTurns();
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
    const bytes = total === piece.byteLength ? piece : piece.subarray(start - at, end + 1 - at);
    const [isTaken, isDone] = exchange.res.tryEnd(bytes, total);
    if (isDone) {
      exchange.meter.mediaBytes += total;
      exchange.done(part.status);
      return;
    }
    const sending = new Sending(exchange, file, start, end, part.status, files, pace, turns);
    pace.watch(sending);
    exchange.onAborted(() => sending.leave());
    exchange.res.onWritable(() => {
      turns.wait(sending);
      return true;
    });
    if (isTaken) turns.wait(sending);
  };

  return { serve, stats };
}

type Range = { start: number; end: number };
type Part = Extract<Selection, { status: 200 | 206 }>;

/** Some half a millisecond. */
const maxTurnBytes = 1024 * 1024;

type Turns = ReturnType<typeof createTurns>;

/**
 * Bodies that go on, one after the other, some bytes in each turn of the loop: what readers take by the gigabyte,
 * thousands that stop reading say, would hold up everybody who asks for something small.
 */
function createTurns() {
  let waiting: Sending[] = [];
  /** Those whose round it is: who waits meanwhile is in the next one. */
  let round: Sending[] = [];
  let at = 0;
  let isPlanned = false;

  const plan = (): void => {
    if (!isPlanned) setImmediate(run);
    isPlanned = true;
  };

  const run = (): void => {
    isPlanned = false;
    if (at >= round.length) {
      [round, waiting] = [waiting, []];
      at = 0;
    }
    for (let left = maxTurnBytes; left > 0 && at < round.length; at += 1) left -= round[at]?.takeTurn() ?? 0;
    if (at < round.length) {
      plan();
      return;
    }
    // What is done must not be held until somebody else waits.
    round = [];
    at = 0;
    if (waiting.length > 0) plan();
  };

  return {
    wait(sending: Sending): void {
      waiting.push(sending);
      plan();
    },
  };
}

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
  private readonly turns: Turns;
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
    turns: Turns,
  ) {
    this.exchange = exchange;
    this.file = file;
    this.start = start;
    this.end = end;
    this.status = status;
    this.files = files;
    this.pace = pace;
    this.turns = turns;
  }

  /** Goes on, or is cut by its own failure, which must not be that of those behind it. */
  takeTurn(): number {
    try {
      return this.goOn();
    } catch (cause) {
      this.cut(cause);
      return 0;
    }
  }

  /** Sends the next piece, or reads it. Answers how many bytes the connection was offered. */
  private goOn(): number {
    const { exchange, file, files } = this;
    if (!exchange.isOpen || this.isReading) return 0;
    const start = files.startOfPiece(file, this.start + exchange.res.getWriteOffset());
    const piece = files.pieceOf(file, start);
    if (!(piece instanceof Promise)) return this.push(piece, start);
    this.read(piece, start);
    return 0;
  }

  private read(reading: Promise<Buffer | undefined>, start: number): void {
    this.isReading = true;
    reading
      .then((piece) => {
        this.isReading = false;
        if (!this.exchange.isOpen) return;
        if (!piece) throw new Error('the stored object has gone');
        this.push(piece, start);
      })
      .catch((cause: unknown) => this.cut(cause));
  }

  /** Sends what is left of a piece, and waits for its next turn while the connection takes more. Answers the bytes. */
  private push(piece: Buffer, pieceStart: number): number {
    const { exchange, start, end } = this;
    const { res } = exchange;
    const at = start + res.getWriteOffset();
    const bytes = piece.subarray(at - pieceStart, end + 1 - pieceStart);
    let isTaken = false;
    let isDone = false;
    res.cork(() => {
      [isTaken, isDone] = res.tryEnd(bytes, end - start + 1);
    });
    this.sentBytes = isDone ? end - start + 1 : at - start;
    if (isDone) {
      this.leave();
      exchange.done(this.status);
    } else if (isTaken) {
      this.turns.wait(this);
    }
    return bytes.byteLength;
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
  const { exchange, file } = answer;
  const block = answer.block ?? joinHead(answer);
  const range = part.status === 206 ? `\r\nContent-Range: bytes ${part.start}-${part.end}/${file.total}` : '';
  writeHead(exchange, part.status, undefined, range === '' ? block : block + range);
}

/** 304, or a HEAD: its range does not count. */
function answerWithoutBody(answer: MediaAnswer, selected: Selection['status']): void {
  const { exchange, file } = answer;
  const status = selected === 304 ? 304 : 200;
  const write = (): void => {
    writeHead(exchange, status, undefined, answer.block ?? joinHead(answer));
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

type HeadParts = Pick<MediaAnswer, 'file' | 'kind' | 'headers'>;

/** All headers of a whole file, in one piece: for who keeps them. */
export const headOf = (parts: HeadParts): string => inOnePiece(joinHead(parts));

const joinHead = (parts: HeadParts): string => parts.headers.block + blockOf(parts);

/** All headers that depend on file and kind alone. */
function blockOf({ file, kind }: HeadParts): string {
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
