/**
 * Calls of an object store that speaks S3: signed, on connections that are kept, each with time limits, and sent
 * again when it may help. Everything here is safe to repeat.
 *
 * Redirects are not followed: they come from a wrong region or endpoint, and would take bodies elsewhere.
 */
import type { Readable } from 'node:stream';
import { AwsV4Signer } from 'aws4fetch';
import pRetry from 'p-retry';
import { Agent, type Dispatcher } from 'undici';
import { storage as limits } from '../../schemas/limits.ts';
import type { SizedBody } from './s3-body.ts';
import type { S3Credentials, S3Keys } from './s3-credentials.ts';
import { readErrorCode } from './s3-xml.ts';

export type S3Limits = { -readonly [Name in keyof typeof limits]: number };

/** An answer of the store that is none of those expected, or none at all. It never holds a credential. */
export class S3Error extends Error {
  override readonly name = 'S3Error';
  /** 0 without an answer. */
  readonly status: number;
  /** The store's own word, e.g. `NoSuchBucket`; may be empty. */
  readonly code: string;
  /** Whether another attempt may help. */
  readonly isTransient: boolean;

  constructor(
    message: string,
    { status = 0, code = '', isTransient = true, cause }: Partial<S3Error> & { cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.isTransient = isTransient;
  }
}

export type S3Call = {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  url: URL;
  headers?: Record<string, string>;
  body?: SizedBody;
  /** Statuses beside 2xx that are answers and not errors. */
  accepts?: number[];
  signal?: AbortSignal | undefined;
};

type Headers = Record<string, string | string[] | undefined>;
export type S3Answer = { status: number; headers: Headers; body: string };
/** `stream` is to be read to its end or destroyed: it holds a connection. Without a 2xx status it is at its end. */
export type S3Stream = { status: number; headers: Headers; stream: Readable };

export type S3Client = ReturnType<typeof createS3Client>;

export function createS3Client(keys: S3Keys, region: string, times: S3Limits = limits) {
  const common = {
    connect: { timeout: times.connectMs },
    keepAliveTimeout: times.keepAliveMs,
    headersTimeout: times.answerMs,
    bodyTimeout: times.idleMs,
  };
  const calls = new Agent({ ...common, connections: times.connections });
  // Objects go as slowly as their readers take them, each holding a connection: nothing else waits for those.
  const streams = new Agent({ ...common, connections: times.streams });
  const signingKeys = new Map<string, ArrayBuffer>();

  const sign = async ({ method, url, headers, body }: S3Call, credentials: S3Credentials) => {
    // One key a day.
    if (signingKeys.size > 1) signingKeys.clear();
    const signer = new AwsV4Signer({
      ...credentials,
      method,
      url: url.href,
      headers: { ...headers, 'X-Amz-Content-Sha256': body?.sha256 ?? emptySha256 },
      service: 's3',
      region,
      cache: signingKeys,
    });
    return Object.fromEntries((await signer.sign()).headers);
  };

  const request = async (call: S3Call, agent: Agent, credentials: S3Credentials, signal: AbortSignal) => {
    const { method, url, body } = call;
    const headers = await sign(call, credentials);
    if (body) headers['content-length'] = String(body.bytes);
    const { origin, pathname, search } = url;
    const answer = await agent.request({
      origin,
      path: pathname + search,
      method,
      headers,
      body: body?.open() ?? null,
      signal,
    });
    // One whose body is destroyed unread fails, with nobody to hear of it.
    answer.body.on('error', () => undefined);
    return answer;
  };

  /** One attempt, with one more when the credentials have been replaced. The answer's body is still to come. */
  const send = async (call: S3Call, agent: Agent, signal: AbortSignal): Promise<Dispatcher.ResponseData> => {
    const credentials = keys.current();
    const answer = await request(call, agent, credentials, signal);
    if (answer.statusCode !== 403) return answer;
    const isRenewed = await keys.renew(credentials).catch((cause: unknown) => {
      answer.body.destroy();
      throw cause;
    });
    if (!isRenewed) return answer;
    await answer.body.dump();
    return request(call, agent, keys.current(), signal);
  };

  const attempt = async (call: S3Call): Promise<S3Answer> => {
    // A body takes the time it takes: undici cuts off one that the store does not take further.
    const limit = limitOf(call.signal, call.body ? 0 : times.callMs);
    try {
      const { statusCode: status, headers, body: given } = await send(call, calls, limit.signal);
      const body = await readText(given);
      refuseError(call, status, headers, body);
      return { status, headers, body };
    } catch (cause) {
      throw asS3Error(cause, call.signal);
    } finally {
      limit.end();
    }
  };

  const attemptStream = async (call: S3Call): Promise<S3Stream> => {
    const limit = limitOf(call.signal, times.callMs);
    try {
      const { statusCode: status, headers, body: stream } = await send(call, streams, limit.signal);
      stream.once('close', limit.end);
      if (!isSuccess(status)) refuseError(call, status, headers, await readText(stream));
      limit.endTime();
      return { status, headers, stream };
    } catch (cause) {
      limit.end();
      throw asS3Error(cause, call.signal);
    }
  };

  /** Runs until it succeeds, fails for good, or has been tried often enough. */
  const retrying = <Result>(signal: AbortSignal | undefined, run: () => Promise<Result>): Promise<Result> =>
    pRetry(run, {
      retries: times.retries,
      minTimeout: times.retryMs,
      randomize: true,
      shouldRetry: ({ error }) => error instanceof S3Error && error.isTransient,
      ...(signal ? { signal } : {}),
    });

  return {
    /** The whole answer; for those that are short. @throws {S3Error} Throws the signal's reason as it is. */
    ask: (call: S3Call): Promise<S3Answer> => retrying(call.signal, () => attempt(call)),

    /** The answer as a stream; its errors are not repeated. @throws {S3Error} Throws the signal's reason as it is. */
    open: (call: S3Call): Promise<S3Stream> => retrying(call.signal, () => attemptStream(call)),

    /** Opens and takes in an answer, from the start again when it breaks. @throws {S3Error} */
    take: <Result>(call: S3Call, take: (answer: S3Stream) => Promise<Result>): Promise<Result> =>
      retrying(call.signal, async () => {
        const answer = await attemptStream(call);
        try {
          return await take(answer);
        } catch (cause) {
          answer.stream.destroy();
          throw asS3Error(cause, call.signal);
        }
      }),

    /** Ends the connections, those in use too. */
    async close(): Promise<void> {
      await Promise.all([calls.destroy(), streams.destroy()]);
    },
  };
}

/** One value of a header. */
export function headerOf({ headers }: { headers: Headers }, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

const emptySha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
/** A page of 1,000 keys is at most a megabyte and a half. */
const maxAnswerBytes = 4 * 1024 * 1024;

/** 409 is another writer at the same key just now; 408 and 429 are what they are elsewhere. */
const transientStatuses = [408, 409, 429, 500, 502, 503, 504];
/** Sent with a 400 when a body came too slowly. */
const transientCodes = ['RequestTimeout', 'SlowDown'];

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

/** @throws {S3Error} when the status is none that the call accepts. A missing bucket is never a missing object. */
function refuseError(call: S3Call, status: number, headers: Headers, body: string): void {
  if (isSuccess(status)) return;
  const code = readErrorCode(body);
  if (call.accepts?.includes(status) && code !== 'NoSuchBucket') return;
  const region = /^[a-z0-9-]{1,32}$/.exec(headerOf({ headers }, 'x-amz-bucket-region') ?? '')?.[0];
  const elsewhere = status >= 300 && status < 400 && region ? ` (the bucket is in ${region})` : '';
  throw new S3Error(`the store answered ${[status, code].join(' ').trim()}${elsewhere}`, {
    status,
    code,
    isTransient: transientStatuses.includes(status) || transientCodes.includes(code),
  });
}

async function readText(stream: Readable): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of stream as AsyncIterable<Buffer>) {
    bytes += piece.byteLength;
    if (bytes > maxAnswerBytes) throw new S3Error('the answer is too long', { isTransient: false });
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** What went wrong, or the reason of a signal that aborted. */
function asS3Error(cause: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  // What is no failure of the network is a decision, e.g. that an object is too long.
  if (!(cause instanceof Error) || !('code' in cause) || cause instanceof S3Error) return cause;
  return new S3Error(`no answer of the store: ${cause.code}`, { cause });
}

/**
 * A signal that aborts with another, or after `ms` (0 for never) with an S3Error.
 *
 * Not AbortSignal.any over AbortSignal.timeout: Node 20 collects such a timeout as garbage, and then it never fires.
 */
function limitOf(signal: AbortSignal | undefined, ms: number) {
  const control = new AbortController();
  const leave = () => control.abort(signal?.reason);
  const cut = () => control.abort(new S3Error(`no answer of the store within ${ms} ms`));
  const timer = ms > 0 ? setTimeout(cut, ms) : undefined;
  signal?.addEventListener('abort', leave, { once: true });
  if (signal?.aborted) leave();
  return {
    signal: control.signal,
    endTime: () => clearTimeout(timer),
    end() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', leave);
    },
  };
}
