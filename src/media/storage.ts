/**
 * Where uploads, sources and finished media are kept: one interface for a folder on this machine and for an
 * object store. test/media/storage.test.ts states what every store must do.
 *
 * Keys are segments of `a-zA-Z0-9._-` separated by `/`, at most 512 characters, without `..`; no key may go on
 * below another one (`a` and `a/b`), for stores that are folders. Every function throws a TypeError for
 * another form.
 */
import type { Readable } from 'node:stream';

export type StorageBody = Uint8Array | AsyncIterable<Uint8Array> | { file: string };

export type PutOptions = {
  /** What the key's extension stands for: see contentTypeOf. A TypeError otherwise. */
  contentType: string;
  /** Leaves an object that exists as it is: of several writers at once, exactly one creates it. */
  ifAbsent?: boolean;
  signal: AbortSignal;
};

/** Bytes from `start` to `end`, both included, 0-based. An `end` past the last byte means the last byte. */
export type ByteRange = { start: number; end: number };

export type ObjectInfo = {
  /** Length of the whole object. */
  total: number;
  contentType: string;
  lastModified: Date;
  /** Strong, with its quotes, as HTTP wants it. */
  etag: string;
};

export type StoredObject = ObjectInfo & {
  /** Length of what `stream` gives; 0 when the range begins past the end. */
  bytes: number;
  /** To be read to its end or destroyed: it holds a descriptor or a connection. */
  stream: Readable;
};

export type ListedObject = { key: string; bytes: number; lastModified: Date };

export type Storage = {
  /**
   * Stores an object whole or not at all; it is durable when this answers. Safe to repeat when the body is.
   *
   * @returns `bytes`, the length of the object now stored; `created`, false only when `ifAbsent` found one.
   * @throws {EffectError} `store_write_failed`, transient. What the body throws and the signal's reason are
   * thrown as they are.
   */
  put(key: string, body: StorageBody, options: PutOptions): Promise<{ bytes: number; created: boolean }>;
  /** Opens an object for reading; undefined when there is none. @throws {StorageError} */
  get(key: string, range: ByteRange | undefined, signal: AbortSignal): Promise<StoredObject | undefined>;
  /** An object's bytes; undefined when there is none. @throws {StorageError} also when it is over `maxBytes`. */
  read(key: string, signal: AbortSignal, maxBytes: number): Promise<Uint8Array | undefined>;
  /** @throws {StorageError} */
  head(key: string, signal?: AbortSignal): Promise<ObjectInfo | undefined>;
  /** Deletes an object; a missing one is fine. @throws {StorageError} */
  delete(key: string, signal?: AbortSignal): Promise<void>;
  /** Deletes all objects below a folder; `prefix` ends in `/`. @throws {StorageError} */
  deletePrefix(prefix: string, signal?: AbortSignal): Promise<void>;
  /** Objects whose key begins with `prefix` (`''` for all), in no promised order. @throws {StorageError} */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<ListedObject>;
  /** The object's path, for stores on this machine; whether there is one is not checked. To be read only. */
  localPath?(key: string): string;
};

/** A store that cannot be read or deleted from, or an object that is not what its reader expects. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  /** Whether the same call may succeed at another time. */
  readonly isTransient: boolean;

  constructor(
    message: string,
    { isTransient = true, cause }: { isTransient?: boolean; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.isTransient = isTransient;
  }
}

/** The content type that an object has by its key's extension. */
export function contentTypeOf(key: string): string {
  const extension = /\.([a-z0-9]+)$/.exec(key)?.[1] ?? '';
  return contentTypes.get(extension) ?? 'application/octet-stream';
}

/** Whether a name, of an object that someone else may have stored, is of the form that every store takes. */
export function isKey(text: string): boolean {
  if (text.length > maxKeyChars || text.includes('..')) return false;
  return text
    .split('/')
    .every((part) => /^[a-zA-Z0-9._-]+$/.test(part) && part !== '.' && part.length <= maxSegmentChars);
}

/** @throws {TypeError} when `key` is not of the form that every store takes. */
export function checkKey(key: string): void {
  if (!isKey(key)) throw new TypeError(`not a storage key: ${JSON.stringify(key.slice(0, maxKeyChars))}`);
}

/** @throws {TypeError} when `prefix` cannot begin a key. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '' && !isKey(`${prefix}x`)) throw new TypeError(`not a prefix: ${JSON.stringify(prefix)}`);
}

/** @throws {TypeError} when `prefix` is not the name of a folder with its slash. */
export function checkFolder(prefix: string): void {
  checkPrefix(prefix);
  // Without the slash "a1" would also take "a10/" with it.
  if (!prefix.endsWith('/')) throw new TypeError(`not a folder: ${JSON.stringify(prefix)}`);
}

/** @throws {TypeError} when key and content type disagree, or either is not of the form that every store takes. */
export function checkPut(key: string, { contentType }: PutOptions): void {
  checkKey(key);
  if (contentType !== contentTypeOf(key)) {
    throw new TypeError(`the content type of ${key} is ${contentTypeOf(key)}, not ${contentType}`);
  }
}

/** The bytes that a range means of an object of `total` bytes; `bytes` is 0 past the end. @throws {TypeError} */
export function resolveRange(range: ByteRange | undefined, total: number): ByteRange & { bytes: number } {
  const { start, end } = range ?? { start: 0, end: Math.max(total - 1, 0) };
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || end < start) {
    throw new TypeError(`not a range: ${start}-${end}`);
  }
  const last = Math.min(end, total - 1);
  return { start, end: last, bytes: Math.max(last - start + 1, 0) };
}

const maxKeyChars = 512;
const maxSegmentChars = 255;

const contentTypes = new Map([
  ['mp4', 'video/mp4'],
  ['jpg', 'image/jpeg'],
  ['png', 'image/png'],
  ['webp', 'image/webp'],
]);
