/**
 * Uploading a source image and reading it back (specification 4.3, decisions 3 Upload). The public address of
 * an upload is its key, which nobody can guess: who has it may read the image.
 */
import { createHash, type Hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { UploadResponse } from '../../schemas/asset.ts';
import { ErrorBody } from '../../schemas/errors.ts';
import { upload as limits } from '../../schemas/limits.ts';
import { receiveUpload, UploadError, type UploadTarget } from '../media/upload.ts';
import type { BodyStream } from './body.ts';
import { type Answer, answerJson, type Exchange, endEmpty, endHead, writeHead } from './exchange.ts';
import { uploadSpec } from './raw-specs.ts';
import { type AnyRoute, rawRoute, reply, route } from './route.ts';

const folder = 'uploads/';
/** What a form may hold beside the image before it is not worth reading. */
const formBytes = 1024 * 1024;

const uploadImage = route({
  method: 'post',
  path: '/api/v1/upload',
  summary: 'Upload a source image',
  description:
    'A png, jpeg or webp image of at most 10 MB, judged by its first bytes. The `url` of the answer is the `src` of a later prepare. An upload that no asset uses is deleted after 7 days.',
  stream: {
    contentType: 'multipart/form-data',
    schema: {
      type: 'object',
      properties: {
        file: { type: 'string', format: 'binary', description: 'png, jpeg or webp, at most 10 MB' },
      },
      required: ['file'],
    },
  },
  responses: { 200: UploadResponse, 400: ErrorBody, 401: ErrorBody, 413: ErrorBody, 415: ErrorBody },
  idempotent: { fingerprint: fingerprintUpload },
  async handle({ userId, stream, signal, operation }, { config, newId, now, storage, store }) {
    const { length = limits.maxBytes } = stream;
    if (length > limits.maxBytes + formBytes) return reply(413, { error: 'the file is larger than 10 MB' });

    const id = newId('upl');
    const bytes = Math.min(length, limits.maxBytes);
    const isReserved = await store.uploads.reserve(
      { id, userId, bytes, createdTs: now() },
      limits.maxUnusedBytesPerUser,
    );
    if (!isReserved) return reply(413, { error: 'too many unused uploads: at most 500 MB' });
    try {
      const newKey = (extension: string) => `${folder}${id}.${extension}`;
      const hash = createHash('sha256');
      const target = operation ? hashed(storage, hash) : storage;
      const stored = await receiveUpload(stream.contentType, stream.chunks, {
        storage: target,
        newKey,
        signal,
      });
      operation?.identify(toFingerprint(stored.type, hash));
      if (!(await store.uploads.complete(id, stored.key, stored.bytes))) {
        // Its user was erased meanwhile: nobody would ever delete the file.
        await storage.delete(stored.key);
        return reply(401, { error: 'authentication required' });
      }
      const key = stored.key.slice(folder.length);
      return reply(200, { url: `${config.baseUrl}/uploads/${key}`, key });
    } catch (cause) {
      await store.uploads.remove(id);
      if (cause instanceof UploadError) return reply(cause.status, { error: cause.message });
      throw cause;
    }
  },
});

/** Of a form: the boundary and the other fields do not matter, its image's bytes and type do. Nothing is stored. */
async function fingerprintUpload(stream: BodyStream, signal: AbortSignal): Promise<string | Answer> {
  const hash = createHash('sha256');
  const storage: UploadTarget = {
    async put(_key, pieces) {
      let bytes = 0;
      for await (const piece of hashing(pieces, hash)) bytes += piece.byteLength;
      return { bytes };
    },
  };
  try {
    const newKey = (extension: string) => `${folder}none.${extension}`;
    const { type } = await receiveUpload(stream.contentType, stream.chunks, { storage, newKey, signal });
    return toFingerprint(type, hash);
  } catch (cause) {
    if (cause instanceof UploadError) return { status: cause.status, body: { error: cause.message } };
    throw cause;
  }
}

function hashed(storage: UploadTarget, hash: Hash): UploadTarget {
  return { put: (key, pieces, options) => storage.put(key, hashing(pieces, hash), options) };
}

async function* hashing(pieces: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    hash.update(piece);
    yield piece;
  }
}

const toFingerprint = (type: string, hash: Hash): string => `${type}:${hash.digest('base64url')}`;

const keyForm = /^[A-Za-z0-9_]{1,64}\.(png|jpg|webp)$/;

const readUpload = (method: 'get' | 'head') =>
  rawRoute({
    method,
    path: '/uploads/:key',
    ...(method === 'get' ? { summary: 'Read an uploaded image', ...uploadSpec } : {}),
    async handle(_res, req, { storage }, exchange) {
      const key = req.getParameter(0);
      const knownTag = req.getHeader('if-none-match');
      const stored = keyForm.test(key) ? await storage.head(`${folder}${key}`) : undefined;
      if (!stored) return answerJson(exchange, { status: 404, body: { error: 'not found' } });
      const headers = {
        'Content-Type': stored.contentType,
        'Cache-Control': 'public, max-age=31536000, immutable',
        'Cross-Origin-Resource-Policy': 'cross-origin',
        // An image and nothing else, whatever its bytes could also be read as.
        'Content-Security-Policy': "default-src 'none'; sandbox",
        'X-Content-Type-Options': 'nosniff',
        'Last-Modified': stored.lastModified.toUTCString(),
        ETag: stored.etag,
      };
      if (knownTag === stored.etag) return answerHead(exchange, 304, headers);
      if (method === 'head') return answerHead(exchange, 200, headers, stored.total);
      const object = await storage.get(`${folder}${key}`, undefined, exchange.signal);
      if (!object) return answerJson(exchange, { status: 404, body: { error: 'not found' } });
      await answerStream(exchange, headers, object.stream, object.total);
    },
  });

export const uploadRoutes: AnyRoute[] = [uploadImage, readUpload('get'), readUpload('head')];

function answerHead(
  exchange: Exchange,
  status: number,
  headers: Record<string, string>,
  totalBytes?: number,
): void {
  if (!exchange.isOpen) return;
  exchange.res.cork(() => {
    writeHead(exchange, status, headers);
    if (totalBytes === undefined) endEmpty(exchange, status);
    else endHead(exchange, totalBytes, false);
  });
  exchange.done(status);
}

/** Sends a stream of known length, no faster than its reader takes it. */
async function answerStream(
  exchange: Exchange,
  headers: Record<string, string>,
  stream: Readable,
  totalBytes: number,
): Promise<void> {
  const { res } = exchange;
  let settle: (isLast: boolean) => void = () => undefined;
  exchange.onAborted(() => {
    stream.destroy();
    settle(false);
  });
  /** Answers, once the part is taken, whether it was the last. */
  const send = (part: Buffer) =>
    new Promise<boolean>((resolve) => {
      settle = resolve;
      const start = res.getWriteOffset();
      const attempt = (offset: number): boolean => {
        let isTaken = false;
        let isLast = false;
        res.cork(() => {
          [isTaken, isLast] = res.tryEnd(part.subarray(offset - start), totalBytes);
        });
        if (isTaken || isLast) resolve(isLast);
        return isTaken;
      };
      if (!attempt(start)) res.onWritable(attempt);
    });

  try {
    if (exchange.isOpen) res.cork(() => writeHead(exchange, 200, headers));
    for await (const part of stream) {
      if (!exchange.isOpen) return;
      if (await send(part as Buffer)) return exchange.done(200);
    }
  } finally {
    stream.destroy();
  }
  if (exchange.isOpen) throw new Error('the stored object is shorter than it says');
}
