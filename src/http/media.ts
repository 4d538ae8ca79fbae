/**
 * GET /media/{asset_id}/{run}-{hash}.mp4 and .jpg: finished media, public and for ever the same (decisions 3,
 * mp4_url). They need no key: the hash is what nobody can guess.
 */
import type { HttpRequest } from 'uWebSockets.js';
import { proxy } from '../../schemas/limits.ts';
import { StorageError } from '../media/storage.ts';
import { LimitError } from '../sse/limiter.ts';
import { after } from './after.ts';
import { answerJson, type Exchange, FixedAnswer, HeaderSet, writeHead } from './exchange.ts';
import type { MediaFiles } from './media-files.ts';
import { mediaSpec } from './raw-specs.ts';
import { type RawRoute, rawRoute } from './route.ts';
import type { MediaKind, MediaServer } from './serve-media.ts';

export type MediaPorts = { files: Pick<MediaFiles, 'find'>; media: MediaServer };

const path = '/media/:asset/:file';

/** The routes of finished media. */
export function mediaRoutes({ files, media }: MediaPorts): RawRoute[] {
  const find = (req: HttpRequest) => {
    const key = `media/${req.getParameter(0)}/${req.getParameter(1)}`;
    return keyForm.test(key) ? files.find(key) : undefined;
  };
  const answer = (req: HttpRequest, exchange: Exchange): void | Promise<void> =>
    after(find(req), (file) => {
      if (!file) return notFound.send(exchange);
      return media.serve({ exchange, file, kind, headers: noHeaders });
    });
  const refuse = (exchange: Exchange, cause: unknown): void => {
    if (!isStorageOutage(cause) || exchange.hasBegun) throw cause;
    const headers = { ...anyOrigin, ...unavailable.headers };
    answerJson(exchange, { ...unavailable, headers }, { isHead: exchange.head.isHead });
  };

  return [
    ...(['get', 'head'] as const).map((method) =>
      rawRoute({
        method,
        path,
        ...(method === 'get' ? { summary: 'Read a finished animation or poster', ...mediaSpec } : {}),
        handle(_res, req, _services, exchange) {
          const answered = answer(req, exchange);
          return answered?.catch((cause: unknown) => refuse(exchange, cause));
        },
      }),
    ),
    rawRoute({
      method: 'options',
      path,
      handle(res, _req, _services, exchange) {
        writeHead(exchange, 204, {
          ...anyOrigin,
          'Access-Control-Allow-Methods': 'GET, HEAD, OPTIONS',
          'Access-Control-Allow-Headers': 'Range, If-Range, If-None-Match, If-Modified-Since, X-Request-Id',
          'Access-Control-Max-Age': String(proxy.preflightMaxAgeSeconds),
        });
        res.endWithoutBody();
        exchange.done(204);
      },
    }),
  ];
}

/** Whether storage cannot be read just now: the request may be sent again. */
export function isStorageOutage(cause: unknown): boolean {
  return cause instanceof StorageError || cause instanceof LimitError;
}

export const unavailable = { status: 503, body: { error: 'unavailable' }, headers: { 'Retry-After': '2' } };

const keyForm = /^media\/\w{1,64}\/\d{1,9}-[\w-]{8,128}\.(mp4|jpg)$/;

const anyOrigin = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'ETag, Content-Length, Content-Range, Accept-Ranges, X-Request-Id',
  'Cross-Origin-Resource-Policy': 'cross-origin',
};

const noHeaders = new HeaderSet({});
const notFound = new FixedAnswer(404, { error: 'not found' }, new HeaderSet(anyOrigin));

const kind: MediaKind = {
  name: 'media',
  headers: {
    'Cache-Control': 'public, max-age=31536000, immutable',
    'X-Content-Type-Options': 'nosniff',
    'Timing-Allow-Origin': '*',
    ...anyOrigin,
  },
};
