/**
 * Files of storage as they are served: what is known of each, and the bytes of those that are asked for more than
 * once. Bytes come in pieces, a small file in one: who sends them holds none while its reader takes none, and asks
 * again when it does.
 *
 * A key's content never changes, so what is known of it stays true; `forget` is for what was deleted.
 */
import { LRUCache } from 'lru-cache';
import { shownEnding } from '../../schemas/limits.ts';
import { type Storage, StorageError } from '../media/storage.ts';
import { createLimiter } from '../sse/limiter.ts';

/** A file of storage. `modifiedTs` is unix ms of a whole second. */
export type MediaFile = {
  readonly key: string;
  readonly total: number;
  readonly etag: string;
  readonly modifiedTs: number;
  readonly contentType: string;
  /** Whether its bytes are one piece. */
  readonly isSmall: boolean;
  /** Whether it is still what `find` answers with. */
  isKnown: boolean;
  /** How often its bytes were asked for. */
  uses: number;
  /** Headers of an answer by kind of answer: see serve-media.ts. */
  readonly headers: Map<string, string>;
};

export type MediaFiles = ReturnType<typeof createMediaFiles>;

export type MediaFilesOptions = {
  maxCachedBytes?: number;
  /** The largest file that is one piece, and the size of the pieces of larger ones. */
  smallBytes?: number;
  pieceBytes?: number;
};

const defaultCachedBytes = 256 * 1024 * 1024;
const defaultSmallBytes = 1024 * 1024;
const defaultPieceBytes = 256 * 1024;
const maxKnown = 50_000;
/** Share of the memory for pieces that were read just now, whatever their file: a slow reader comes back for them. */
const recentShare = 1 / 16;
const maxReads = 64;
const maxReadsWaiting = 10_000;
const readMs = 30_000;
/** A file is kept once it was asked for a second time: one look at everything empties no cache. */
const usesBeforeKept = 2;

export function createMediaFiles(storage: Storage, options: MediaFilesOptions = {}) {
  const {
    maxCachedBytes = defaultCachedBytes,
    smallBytes = defaultSmallBytes,
    pieceBytes = defaultPieceBytes,
  } = options;
  const known = new LRUCache<string, MediaFile>({
    max: maxKnown,
    dispose: (file) => {
      file.isKnown = false;
    },
  });
  const bodies = new LRUCache<string, Buffer>({
    maxSize: maxCachedBytes,
    sizeCalculation: sizeOf,
  });
  const recent = new LRUCache<string, Buffer>({
    maxSize: Math.max(Math.floor(maxCachedBytes * recentShare), 1),
    sizeCalculation: sizeOf,
  });
  const heads = new Map<string, Promise<MediaFile | undefined>>();
  const reads = new Map<string, Promise<Buffer | undefined>>();
  /** Keys that were forgotten while they were looked up: what was found of them is gone. */
  const goneMeanwhile = new Set<string>();
  const limiter = createLimiter(maxReads, maxReadsWaiting);

  const lookUp = async (key: string): Promise<MediaFile | undefined> => {
    let isGone = false;
    const info = await limiter
      .run(() => storage.head(key, AbortSignal.timeout(readMs)))
      .finally(() => {
        isGone = goneMeanwhile.delete(key);
      });
    if (!info || isGone) return undefined;
    const file: MediaFile = {
      key,
      total: info.total,
      etag: isEtag(info.etag) ? info.etag : `"${key.replaceAll('/', '.')}"`,
      modifiedTs: Math.floor(info.lastModified.getTime() / 1_000) * 1_000,
      contentType: info.contentType,
      isSmall: info.total <= smallBytes,
      isKnown: !key.endsWith(shownEnding),
      uses: 0,
      headers: new Map(),
    };
    if (file.isKnown) known.set(key, file);
    return file;
  };

  const readWhole = async (file: MediaFile): Promise<Buffer | undefined> => {
    const bytes = await limiter.run(() => storage.read(file.key, AbortSignal.timeout(readMs), smallBytes));
    if (!bytes || bytes.byteLength !== file.total) {
      known.delete(file.key);
      return undefined;
    }
    return keep(file, file.key, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  };

  const readPiece = async (file: MediaFile, name: string, start: number): Promise<Buffer | undefined> => {
    const end = Math.min(start + pieceBytes, file.total) - 1;
    const bytes = await limiter.run(async () => {
      const object = await storage.get(file.key, { start, end }, AbortSignal.timeout(readMs));
      return object && collect(object.stream, end - start + 1);
    });
    if (!bytes) known.delete(file.key);
    return bytes && keep(file, name, bytes);
  };

  const keep = (file: MediaFile, name: string, bytes: Buffer): Buffer => {
    if (known.peek(file.key) !== file) return bytes;
    if (file.uses >= usesBeforeKept) bodies.set(name, bytes);
    else if (!file.isSmall) recent.set(name, bytes);
    return bytes;
  };

  const read = (file: MediaFile, start: number): Buffer | Promise<Buffer | undefined> => {
    const name = `${file.key}#${start}`;
    return bodies.get(name) ?? recent.get(name) ?? shared(reads, name, () => readPiece(file, name, start));
  };

  return {
    /** What is known of a file; undefined when there is none. Answers at once where it can. @throws {StorageError} */
    find(key: string): MediaFile | undefined | Promise<MediaFile | undefined> {
      return known.get(key) ?? shared(heads, key, () => lookUp(key));
    },

    /** Where the piece begins in which the byte at `at` is. */
    startOfPiece: (file: MediaFile, at: number): number => (file.isSmall ? 0 : at - (at % pieceBytes)),

    /**
     * The piece that begins at `start`, the whole file when it is small; undefined when it has gone. At once where
     * it can: several requests share one read. @throws {StorageError}
     */
    pieceOf(file: MediaFile, start: number): Buffer | Promise<Buffer | undefined> {
      if (!file.isSmall) return read(file, start);
      return bodies.get(file.key) ?? shared(reads, file.key, () => readWhole(file));
    },

    /** Forgets files by their key or by the folder they are in, with its slash: they were deleted. */
    forget(...names: string[]): void {
      const gone = new Set(names);
      const isGone = (name: string) => {
        const [key = ''] = name.split('#', 1);
        return gone.has(key) || gone.has(key.slice(0, key.lastIndexOf('/') + 1));
      };
      for (const cache of [known, bodies, recent])
        for (const key of cache.keys()) if (isGone(key)) cache.delete(key);
      for (const key of heads.keys()) if (isGone(key)) goneMeanwhile.add(key);
    },

    get stats() {
      return { files: known.size, bodies: bodies.size, bytes: bodies.calculatedSize };
    },
  };
}

const sizeOf = ({ byteLength }: Buffer): number => Math.max(byteLength, 1);

/** A stream of so many bytes as one buffer. @throws {StorageError} when it has fewer or fails. */
async function collect(stream: AsyncIterable<Buffer>, total: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(total);
  let at = 0;
  try {
    for await (const chunk of stream) at += chunk.copy(bytes, at);
  } catch (cause) {
    throw new StorageError('the stored object cannot be read', { cause });
  }
  if (at < total) throw new StorageError('the stored object is shorter than it was');
  return bytes;
}

/** Runs work for a key once at a time: who asks meanwhile gets the same answer. */
export function shared<Result>(
  running: Map<string, Promise<Result>>,
  key: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const known = running.get(key);
  if (known) return known;
  const result = work().finally(() => running.delete(key));
  running.set(key, result);
  return result;
}

const isEtag = (text: string): boolean => /^"[\x21\x23-\x7e]*"$/.test(text);
