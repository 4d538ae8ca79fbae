/**
 * Receiving an uploaded image (specification 4.3): multipart/form-data with the field `file`, streamed to
 * storage while its size is counted and its first bytes are judged.
 *
 * Nothing is stored under its key before the whole form has been read and found well-formed.
 */
import { pipeline } from 'node:stream/promises';
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy';
import { upload } from '../../schemas/limits.ts';
import { type ImageType, sniffImage } from './image.ts';
import { contentTypeOf, type Storage } from './storage.ts';
import { untilAborted } from './until-aborted.ts';

/** What of storage receives an upload. */
export type UploadTarget = {
  put(
    key: string,
    pieces: AsyncIterable<Uint8Array>,
    options: Parameters<Storage['put']>[2],
  ): Promise<{ bytes: number }>;
};

export type UploadDeps = {
  storage: UploadTarget;
  /** An unguessable storage key that ends in `.` and the given extension. */
  newKey(extension: string): string;
  signal: AbortSignal;
};

/** `bytes` is the length of the image; `type` is judged by its first bytes. */
export type ReceivedUpload = { key: string; bytes: number; type: ImageType };

/** An upload that is refused: the status to answer, and `message` as the text of the answer. */
export class UploadError extends Error {
  override readonly name = 'UploadError';
  readonly status: 400 | 413 | 415;

  constructor(status: 400 | 413 | 415, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.status = status;
  }
}

/**
 * Stores the first part named `file` of a form; other parts are read over. After any failure storage holds
 * nothing of it.
 *
 * @param header the request's content-type, which names the form's boundary.
 * @throws {UploadError} 400 without a file or for a malformed form, 413 past 10 MB, 415 for another type than
 * png, jpeg or webp. Storage's errors, the body's own and the signal's reason are thrown as they are.
 */
export async function receiveUpload(
  header: string | undefined,
  body: AsyncIterable<Uint8Array>,
  { storage, newKey, signal }: UploadDeps,
): Promise<ReceivedUpload> {
  const form = openForm(header, body, signal);
  try {
    const { type, pieces } = await openImage(await form.file);
    const key = newKey(extensions[type]);
    const contentType = contentTypeOf(key);
    const { bytes } = await storage.put(key, wholeForm(pieces, form), { contentType, signal });
    return { key, bytes, type };
  } catch (error) {
    // A form that broke is why its file did.
    throw form.failure?.cause ?? error;
  } finally {
    form.stop();
  }
}

const extensions = { png: 'png', jpeg: 'jpg', webp: 'webp' } satisfies Record<ImageType, string>;

/** What a form may hold besides the image, in bytes: more is no form of a browser. */
const maxOtherBytes = 1024 * 1024;
const formLimits = {
  fileSize: upload.maxBytes,
  files: 1,
  // Other fields are read over without being kept.
  fields: 0,
  headerPairs: 32,
  headerSize: 16 * 1024,
};
/** Enough for the magic bytes of every type. */
const firstBytesLength = 16;

/** A form being read. */
type Form = {
  /** The first part named `file`, as soon as it begins; undefined when the form ends without one. */
  file: Promise<BusboyFileStream | undefined>;
  /** Settles when the form has been read to its end. */
  end: Promise<void>;
  /** Why reading failed, once it has. */
  failure: { cause: unknown } | undefined;
  /** Reads no further. */
  stop(): void;
};

function openForm(header: string | undefined, body: AsyncIterable<Uint8Array>, signal: AbortSignal): Form {
  const parser = createParser(header);
  const control = new AbortController();
  let file: BusboyFileStream | undefined;
  const began = new Promise<BusboyFileStream>((resolve) => {
    parser.once('file', (_name, stream) => {
      stream.on('error', ignore).once('limit', () => stream.destroy(tooLarge()));
      file = stream;
      resolve(stream);
    });
  });

  const form: Form = { file: began, end: Promise.resolve(), failure: undefined, stop: () => control.abort() };
  // Noted in the same tick: the file's own error, which follows from this one, must not overtake it.
  parser.once('error', (cause) => {
    form.failure ??= { cause: malformed(cause) };
  });
  const read = async () => {
    try {
      await pipeline(counted(body, AbortSignal.any([signal, control.signal]), form), parser);
    } catch (error) {
      form.failure ??= { cause: malformed(error) };
      file?.destroy(error as Error);
      throw form.failure.cause;
    }
  };
  form.end = read();
  form.end.catch(ignore);
  form.file = Promise.race([began, form.end.then(() => undefined)]);
  return form;
}

function createParser(header = ''): BusboyInstance {
  if (!/^multipart\/form-data/i.test(header))
    throw new UploadError(400, 'the body must be multipart/form-data');
  try {
    return new Busboy({
      headers: { 'content-type': header },
      // Whatever a client calls its image's name and type: the field is what counts.
      isPartAFile: (name) => name === 'file',
      limits: formLimits,
    });
  } catch (cause) {
    throw malformed(cause);
  }
}

/** The body, counted. A failure that is not the parser's is noted in the form as it is. */
async function* counted(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  form: Form,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const piece of untilAborted(body, signal)) {
      bytes += piece.byteLength;
      if (bytes > upload.maxBytes + maxOtherBytes) throw tooLarge();
      yield piece;
    }
  } catch (cause) {
    form.failure = { cause };
    throw cause;
  }
}

/** Reads as much of a file as tells its type. `pieces` begin with what was read. */
async function openImage(
  file: BusboyFileStream | undefined,
): Promise<{ type: ImageType; pieces: AsyncGenerator<Uint8Array> }> {
  const rest: AsyncIterator<Buffer> | undefined = file?.[Symbol.asyncIterator]();
  let first = Buffer.alloc(0);
  for (let next = await rest?.next(); next && !next.done; next = await rest?.next()) {
    first = Buffer.concat([first, next.value]);
    if (first.byteLength >= firstBytesLength) break;
  }
  if (!rest || first.byteLength === 0) throw new UploadError(400, 'missing file');

  const type = sniffImage(first);
  if (!type) throw new UploadError(415, 'unsupported type: png, jpeg and webp are accepted');
  return { type, pieces: joined(first, rest) };
}

async function* joined(first: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* { [Symbol.asyncIterator]: () => rest };
}

/** The pieces of a file that ends only when its whole form has: a broken form then stores nothing. */
async function* wholeForm(pieces: AsyncIterable<Uint8Array>, form: Form): AsyncGenerator<Uint8Array> {
  yield* pieces;
  await form.end;
}

function tooLarge(): UploadError {
  return new UploadError(413, `the file is larger than ${upload.maxBytes / 2 ** 20} MB`);
}

function malformed(cause: unknown): UploadError {
  return new UploadError(400, 'malformed multipart body', { cause });
}

function ignore(): void {
  // Whoever reads the form hears of it there.
}
