/**
 * A webhook endpoint: one address, connections of its own that are kept alive, one POST at a time on each.
 *
 * Leaner than `request` in outbound.ts, of which a delivery would spend half its time on: no redirects, no
 * streams, no signals. The rules of addresses are the same: the URL is judged by its text, every connection by
 * the addresses that its name has then (decisions 8).
 */
import type { Dispatcher, Pool } from 'undici';
import { createCollector } from './collect.ts';
import { blocked, OutboundError } from './error.ts';
import { asOutboundError, type Headers, headerOf } from './exchange.ts';
import type { Policy } from './policy.ts';

export type EndpointLimits = {
  connections: number;
  /** From the look-up of the name to the end of the answer's headers, in ms. */
  timeoutMs: number;
  /** For the body after the headers, in ms and bytes: then it is left. */
  bodyMs: number;
  maxBodyBytes: number;
  /** Bytes of the body that are handed back. */
  keptBytes: number;
};

export type Post = {
  /** Names and values by turns. */
  headers: string[];
  body: string;
  /**
   * Asked in the moment before the first byte is written, on a connection that stands: false fails the post as
   * `cancelled`, and nothing has been sent.
   */
  maySend(): boolean;
};

export type PostAnswer = {
  statusCode: number;
  retryAfter: string | undefined;
  /** The beginning of the body as it came, never decompressed. */
  body: Uint8Array;
};

/** The post was called off, by `maySend` or by `cancel`: whether it has arrived is not known then. */
export class PostCancelled extends Error {
  override readonly name = 'PostCancelled';
}

export type Endpoint = {
  /**
   * Makes one POST, never a second one by itself. Any status is an answer, and a body that is slow, long or cut
   * does not undo it.
   *
   * @throws {OutboundError} with the class of the failure; {PostCancelled}.
   */
  post(post: Post): Promise<PostAnswer>;
  /** Ends all connections; posts under way fail as cancelled. Safe to repeat. */
  cancel(): void;
};

export type EndpointParts = { policy: Policy; pool: (origin: string, connections: number) => Pool };

/** Refused addresses fail at each post: nothing is thrown here. */
export function openEndpoint(
  { policy, pool }: EndpointParts,
  text: string,
  limits: EndpointLimits,
): Endpoint {
  const judgement = policy.judgeUrl(text);
  if (!judgement.ok) return { post: () => Promise.reject(blocked()), cancel: () => undefined };
  const { url } = judgement;
  const connections = pool(url.origin, limits.connections);
  const path = url.pathname + url.search;
  const running = new Set<Exchange>();
  let isCancelled = false;

  return {
    post: ({ headers, body, maySend }) =>
      new Promise((resolve, reject) => {
        if (isCancelled) return reject(new PostCancelled('the endpoint has another address now'));
        const exchange = new Exchange(limits, maySend, (result) => {
          running.delete(exchange);
          if (result instanceof Error) reject(result);
          else resolve(result);
        });
        running.add(exchange);
        connections.dispatch({ path, method: 'POST', headers, body, blocking: false }, exchange);
      }),
    cancel() {
      isCancelled = true;
      for (const exchange of running) exchange.cancel();
      // Not waited for: what is left of it is closing sockets.
      void connections.destroy();
    },
  };
}

/** One post on its way: undici calls it back. Ends exactly once. */
class Exchange implements Dispatcher.DispatchHandler {
  private readonly limits: EndpointLimits;
  private readonly maySend: () => boolean;
  private readonly end: (result: PostAnswer | Error) => void;
  private readonly collector: ReturnType<typeof createCollector>;
  private timer: NodeJS.Timeout;
  private controller: Dispatcher.DispatchController | undefined;
  private statusCode = 0;
  private retryAfter: string | undefined;
  private receivedBytes = 0;
  private isEnded = false;

  constructor(limits: EndpointLimits, maySend: () => boolean, end: (result: PostAnswer | Error) => void) {
    this.limits = limits;
    this.maySend = maySend;
    this.end = end;
    this.collector = createCollector(limits.keptBytes);
    this.timer = setTimeout(() => {
      this.leave(new OutboundError('timeout', 'the answer took longer than allowed'));
    }, limits.timeoutMs);
  }

  cancel(): void {
    this.leave(new PostCancelled('the endpoint has another address now'));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    if (this.isEnded) controller.abort(late);
    else if (!this.maySend()) this.leave(new PostCancelled('the post was called off'));
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number, headers: Headers): void {
    // Interim answers say nothing yet.
    if (statusCode < 200 || this.isEnded) return;
    this.statusCode = statusCode;
    this.retryAfter = headerOf(headers, 'retry-after');
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.leave(this.answer()), this.limits.bodyMs);
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.isEnded) return;
    this.receivedBytes += chunk.byteLength;
    this.collector.add(chunk);
    if (this.receivedBytes > this.limits.maxBodyBytes) this.leave(this.answer());
  }

  onResponseEnd(): void {
    this.finish(this.answer());
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    // The status decides: a body that broke off does not undo it.
    if (this.statusCode !== 0) this.finish(this.answer());
    else this.finish(asOutboundError(error, never) as Error);
  }

  private answer(): PostAnswer {
    return { statusCode: this.statusCode, retryAfter: this.retryAfter, body: this.collector.bytes() };
  }

  /** Ends it from this side: its connection cannot be used again. */
  private leave(result: PostAnswer | Error): void {
    this.finish(result);
    this.controller?.abort(late);
  }

  private finish(result: PostAnswer | Error): void {
    if (this.isEnded) return;
    this.isEnded = true;
    clearTimeout(this.timer);
    this.end(result);
  }
}

const late = new Error('nobody waits for this answer');
const never = new AbortController().signal;
