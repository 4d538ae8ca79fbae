/**
 * Files of storage as they are served: what is known of each, and the bytes of small ones that are asked for
 * more than once.
 *
 * A key's content never changes, so what is known of it stays true; `forget` is for what was deleted.
 */
import { LRUCache } from 'lru-cache';
import type { Storage, StoredObject } from '../media/storage.ts';
import { createLimiter } from '../sse/limiter.ts';

/** A file of storage. `modifiedTs` is unix ms of a whole second. */
export type MediaFile = {
  readonly key: string;
  readonly total: number;
  readonly etag: string;
  readonly modifiedTs: number;
  readonly contentType: string;
  /** Whether its bytes may be kept in memory and are read at once. */
  readonly isSmall: boolean;
  /** How often its bytes were asked for. */
  uses: number;
  /** Headers of an answer by kind of answer: see serve-media.ts. */
  readonly headers: Map<string, string>;
};

export type MediaFiles = ReturnType<typeof createMediaFiles>;

export type MediaFilesOptions = { maxCachedBytes?: number; smallBytes?: number };

const defaultCachedBytes = 256 * 1024 * 1024;
const defaultSmallBytes = 1024 * 1024;
const maxKnown = 50_000;
const maxReads = 64;
const maxReadsWaiting = 10_000;
const readMs = 30_000;
/** A file is kept once it was asked for a second time: one look at everything empties no cache. */
const usesBeforeKept = 2;

export function createMediaFiles(storage: Storage, options: MediaFilesOptions = {}) {
  const { maxCachedBytes = defaultCachedBytes, smallBytes = defaultSmallBytes } = options;
  const known = new LRUCache<string, MediaFile>({ max: maxKnown });
  const bodies = new LRUCache<string, Buffer>({
    maxSize: maxCachedBytes,
    sizeCalculation: ({ byteLength }) => Math.max(byteLength, 1),
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
      uses: 0,
      headers: new Map(),
    };
    known.set(key, file);
    return file;
  };

  const readWhole = async (file: MediaFile): Promise<Buffer | undefined> => {
    const bytes = await limiter.run(() => storage.read(file.key, AbortSignal.timeout(readMs), smallBytes));
    if (!bytes || bytes.byteLength !== file.total) {
      known.delete(file.key);
      return undefined;
    }
    const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (file.uses >= usesBeforeKept && known.peek(file.key) === file) bodies.set(file.key, body);
    return body;
  };

  return {
    /** What is known of a file; undefined when there is none. Answers at once where it can. @throws {StorageError} */
    find(key: string): MediaFile | undefined | Promise<MediaFile | undefined> {
      return known.get(key) ?? shared(heads, key, () => lookUp(key));
    },

    /**
     * The bytes of a small file; undefined when it has gone. At once where it can: several requests share one
     * read. @throws {StorageError}
     */
    bytesOf(file: MediaFile): Buffer | Promise<Buffer | undefined> {
      file.uses += 1;
      return bodies.get(file.key) ?? shared(reads, file.key, () => readWhole(file));
    },

    /** Part of a file as a stream, both ends included; undefined when it has gone. @throws {StorageError} */
    async open(
      file: MediaFile,
      range: { start: number; end: number },
      signal: AbortSignal,
    ): Promise<StoredObject | undefined> {
      const object = await storage.get(file.key, range, signal);
      if (!object) known.delete(file.key);
      return object;
    },

    /** Forgets files by their key or by the folder they are in, with its slash: they were deleted. */
    forget(...names: string[]): void {
      const gone = new Set(names);
      const isGone = (key: string) => gone.has(key) || gone.has(key.slice(0, key.lastIndexOf('/') + 1));
      for (const cache of [known, bodies]) for (const key of cache.keys()) if (isGone(key)) cache.delete(key);
      for (const key of heads.keys()) if (isGone(key)) goneMeanwhile.add(key);
    },

    get stats() {
      return { files: known.size, bodies: bodies.size, bytes: bodies.calculatedSize };
    },
  };
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
