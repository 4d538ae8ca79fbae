/**
 * Storage in a bucket of an object store that speaks S3.
 *
 *   <bucket>/<folder of STORAGE_URL>/<key>
 *
 * One PUT stores an object whole or not at all; `If-None-Match: *` lets one of several creators win. What is sent is
 * signed with its hash, so that a store that got other bytes refuses them. Content types follow from the extension.
 * Names in the bucket that are no keys are left out of lists, and go with their folder.
 */
import { createHash, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { EffectError } from '../../schemas/errors.ts';
import { storage as limits } from '../../schemas/limits.ts';
import { LocalError, withSizedBody } from './s3-body.ts';
import {
  createS3Client,
  headerOf,
  type S3Answer,
  type S3Client,
  S3Error,
  type S3Limits,
  type S3Stream,
} from './s3-client.ts';
import { openS3Keys, type S3CredentialSource } from './s3-credentials.ts';
import { addressIn, type S3Place } from './s3-place.ts';
import { BadXmlError, type ListPage, readDeleteErrors, readListPage, writeDelete } from './s3-xml.ts';
import {
  type ByteRange,
  checkFolder,
  checkKey,
  checkPrefix,
  checkPut,
  contentTypeOf,
  isKey,
  type ObjectInfo,
  resolveRange,
  type Storage,
  StorageError,
} from './storage.ts';

export type S3StorageOptions = {
  place: S3Place;
  credentials: S3CredentialSource;
  /** Where bodies of unknown length are kept until they are sent; must exist. */
  tempDir: string;
  times?: S3Limits;
};

/**
 * Opens a bucket once it has shown that objects can be listed, created, read and deleted there, and that of two
 * creators one wins.
 *
 * @throws {StorageError} with one line that says what is missing.
 */
export async function openS3Storage(
  options: S3StorageOptions,
): Promise<Storage & { close(): Promise<void> }> {
  const { place, times } = options;
  const client = createS3Client(await openS3Keys(options.credentials), place.region, times);
  const storage = { ...createStorage(client, options), close: client.close };
  try {
    await checkBucket(storage, times?.checkMs ?? limits.checkMs);
    return storage;
  } catch (cause) {
    await client.close();
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StorageError(`the bucket ${place.bucket} cannot be used (${place.bucketUrl}): ${why}`, {
      cause,
    });
  }
}

function createStorage(client: S3Client, { place, tempDir }: S3StorageOptions): Storage {
  const urlOf = (key: string) => addressIn(place, { key });

  const find = async (key: string, signal: AbortSignal | undefined): Promise<Found | undefined> => {
    const answer = await client.ask({ method: 'HEAD', url: urlOf(key), accepts: [404], signal });
    if (answer.status === 404) return undefined;
    return { info: infoOf(key, answer, lengthOf(answer)), writer: headerOf(answer, writerHeader) };
  };

  /** Pages of everything whose name in the bucket begins with that of a prefix. */
  async function* pagesOf(prefix: string, signal: AbortSignal | undefined): AsyncGenerator<ListPage> {
    const named = place.prefix + prefix;
    for (let next: string | undefined, isFirst = true; isFirst || next; isFirst = false) {
      const query = new URLSearchParams({ 'list-type': '2', 'max-keys': String(pageKeys), prefix: named });
      if (next) query.set('continuation-token', next);
      const { body } = await client.ask({
        method: 'GET',
        url: addressIn(place, { query: query.toString() }),
        signal,
      });
      const page = readListPage(body);
      // What is listed may be deleted: nothing of others is ever taken for ours.
      if (!page.objects.every(({ key }) => key.startsWith(named))) {
        throw new S3Error('the list holds what was not asked for', { isTransient: false });
      }
      if (page.next === next && next) throw new S3Error('the list does not end', { isTransient: false });
      yield page;
      next = page.next;
    }
  }

  return {
    async put(key, body, options) {
      checkPut(key, options);
      const { contentType, ifAbsent = false, signal } = options;
      signal.throwIfAborted();

      const writer = randomBytes(12).toString('hex');
      const headers = { 'content-type': contentType, [writerHeader]: writer };
      try {
        return await withSizedBody(body, { tempDir, signal }, async (sized) => {
          const answer = await client.ask({
            method: 'PUT',
            url: urlOf(key),
            headers: ifAbsent ? { ...headers, 'if-none-match': '*' } : headers,
            body: sized,
            accepts: ifAbsent ? [412] : [],
            signal,
          });
          if (answer.status !== 412) return { bytes: sized.bytes, created: true };
          const kept = await find(key, signal);
          // An attempt whose answer was lost may have created it, and the next then found its object.
          return { bytes: kept?.info.total ?? sized.bytes, created: kept?.writer === writer };
        });
      } catch (cause) {
        if (!isFailure(cause)) throw cause;
        throw new EffectError('store_write_failed', `cannot store ${key}: ${cause.message}`, { cause });
      }
    },

    async get(key, range, signal) {
      checkKey(key);
      resolveRange(range, 0);
      return reading(key, signal, async () => {
        const asked = range ? { range: `bytes=${range.start}-${range.end}` } : {};
        const answer = await client.open({
          method: 'GET',
          url: urlOf(key),
          headers: asked,
          accepts: [404, 416],
          signal,
        });
        try {
          if (answer.status === 404) return undefined;
          if (answer.status === 416) {
            const found = await find(key, signal);
            return found && { ...found.info, bytes: 0, stream: Readable.from([]) };
          }
          const { total, bytes } = partOf(answer, range);
          return { ...infoOf(key, answer, total), bytes, stream: answer.stream };
        } catch (cause) {
          answer.stream.destroy();
          throw cause;
        }
      });
    },

    async read(key, signal, maxBytes) {
      checkKey(key);
      return reading(key, signal, () =>
        client.take({ method: 'GET', url: urlOf(key), accepts: [404], signal }, async (answer) => {
          if (answer.status === 404) return undefined;
          const bytes = lengthOf(answer);
          if (bytes > maxBytes) {
            throw new StorageError(`${key} is longer than ${maxBytes} bytes`, { isTransient: false });
          }
          return collect(answer.stream, bytes);
        }),
      );
    },

    async head(key, signal) {
      checkKey(key);
      return reading(key, signal, async () => (await find(key, signal))?.info);
    },

    async delete(key, signal) {
      checkKey(key);
      await reading(key, signal, () =>
        client.ask({ method: 'DELETE', url: urlOf(key), accepts: [404], signal }),
      );
    },

    async deletePrefix(prefix, signal) {
      checkFolder(prefix);
      await reading(prefix, signal, async () => {
        for await (const { objects } of pagesOf(prefix, signal)) {
          if (objects.length > 0) await deleteAll(client, place, objects, signal);
        }
      });
    },

    async *list(prefix, signal) {
      checkPrefix(prefix);
      const pages = pagesOf(prefix, signal);
      for (;;) {
        const page = await reading(prefix, signal, () => pages.next());
        if (page.done) return;
        for (const { key, ...rest } of page.value.objects) {
          const own = key.slice(place.prefix.length);
          if (isKey(own)) yield { key: own, ...rest };
        }
      }
    },
  };
}

type Found = { info: ObjectInfo; writer: string | undefined };

/** Names who created an object, so that a creator knows its own again. */
const writerHeader = 'x-amz-meta-writer';
/** As many as a page of a list, and a batch delete, may have. */
const pageKeys = 1000;

async function checkBucket(storage: Storage, checkMs: number): Promise<void> {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(new Error(`no answer within ${checkMs} ms`)), checkMs);
  const { signal } = control;
  const key = `probe-${randomBytes(12).toString('hex')}`;
  const bytes = Buffer.from(key);
  const options = { contentType: contentTypeOf(key), ifAbsent: true, signal };
  try {
    for await (const _ of storage.list(key, signal)) break;
    const first = await storage.put(key, bytes, options);
    const second = await storage.put(key, bytes, options);
    if (!first.created || second.created) throw new Error('it does not honour If-None-Match');
    const kept = await storage.read(key, signal, bytes.byteLength);
    if (!kept || !bytes.equals(kept)) throw new Error('what was stored is not read back');
    await storage.delete(key, signal);
  } finally {
    clearTimeout(timer);
  }
}

async function deleteAll(
  client: S3Client,
  place: S3Place,
  objects: { key: string }[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const xml = Buffer.from(writeDelete(objects.map(({ key }) => key)));
  const digest = (algorithm: string) => createHash(algorithm).update(xml).digest();
  const answer = await client.ask({
    method: 'POST',
    url: addressIn(place, { query: 'delete=' }),
    headers: { 'content-type': 'application/xml', 'content-md5': digest('md5').toString('base64') },
    body: { bytes: xml.byteLength, sha256: digest('sha256').toString('hex'), open: () => xml },
    signal,
  });
  const [code] = readDeleteErrors(answer.body);
  if (code !== undefined) throw new S3Error(`not everything was deleted: ${code}`, { code });
}

/** What an answer holds of an object. @throws {S3Error} when it is not what was asked for. */
function partOf(answer: S3Stream, range: ByteRange | undefined): { total: number; bytes: number } {
  const bytes = lengthOf(answer);
  const [, start, end, total] =
    /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headerOf(answer, 'content-range') ?? '')?.map(Number) ?? [];
  const isPart = answer.status === 206;
  const given = isPart ? { start, end, total } : { start: 0, end: Math.max(bytes - 1, 0), total: bytes };
  const asked = resolveRange(range, given.total ?? 0);
  const isAsked = given.start === asked.start && bytes === asked.bytes;
  if (given.total === undefined || !isAsked || (isPart && given.end !== asked.end)) {
    throw new S3Error('the store sent another part than was asked for', { isTransient: false });
  }
  return { total: given.total, bytes };
}

function infoOf(key: string, answer: S3Answer | S3Stream, total: number): ObjectInfo {
  const lastModified = new Date(headerOf(answer, 'last-modified') ?? '');
  const [, tag] = /^(?:W\/)?"?([\x21\x23-\x7e]+)"?$/.exec(headerOf(answer, 'etag') ?? '') ?? [];
  if (tag === undefined || Number.isNaN(lastModified.getTime())) {
    throw new S3Error('the store says neither ETag nor Last-Modified', { isTransient: false });
  }
  return { total, lastModified, etag: `"${tag}"`, contentType: contentTypeOf(key) };
}

function lengthOf(answer: S3Answer | S3Stream): number {
  const text = headerOf(answer, 'content-length') ?? '';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new S3Error('the store does not say how long the object is', { isTransient: false });
}

/** All of a stream of known length. */
async function collect(stream: Readable, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const piece of stream as AsyncIterable<Uint8Array>) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}

async function reading<Result>(
  name: string,
  signal: AbortSignal | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  signal?.throwIfAborted();
  try {
    return await work();
  } catch (cause) {
    if (!isFailure(cause) || cause instanceof StorageError) throw cause;
    const isTransient = !(cause instanceof S3Error) || cause.isTransient;
    throw new StorageError(`cannot read or delete ${name}: ${cause.message}`, { isTransient, cause });
  }
}

/** Whether the store or this machine has failed, rather than a body or a signal's owner. */
function isFailure(cause: unknown): cause is Error {
  return [S3Error, LocalError, StorageError, BadXmlError].some((one) => cause instanceof one);
}
