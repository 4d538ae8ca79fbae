/**
 * One attempt at a webhook delivery.
 *
 * Safe to repeat: the receiver sees the same id and the same bytes, and drops what it has had (specification 6).
 */
import type { DeliveryCommand } from '../../schemas/delivery-messages.ts';
import type { DeliveryFailure } from '../../schemas/events.ts';
import { webhook as limits } from '../../schemas/limits.ts';

export type Attempt = { eventId: string; attempt: number; payload: string };

/** What of an answer counts. */
export type EndpointAnswer = { statusCode: number; retryAfter: string | undefined; body: Uint8Array };

export type DeliverDeps = {
  /** Sends bytes with a signature of now; fails with an error that `failureOf` knows, or that is thrown on. */
  post(attempt: Attempt): Promise<EndpointAnswer>;
  /** Class of a failure to get an answer; undefined for what is no failure of the endpoint. */
  failureOf(error: unknown): DeliveryFailure | undefined;
  /** Wait that a Retry-After header asks for, in ms; undefined where it is not followed. */
  retryAfterMs(value: string | undefined): number | undefined;
  /** 0 to 1. */
  random(): number;
};

/** What an attempt ends in, as its machine hears it. */
export type AttemptResult = Extract<DeliveryCommand, { type: 'DELIVERED' | 'ATTEMPT_FAILED' }>;

/** @throws what `post` throws when it was called off: then nothing is known, and the attempt does not count. */
export async function deliver(delivery: Attempt, deps: DeliverDeps): Promise<AttemptResult> {
  const { attempt } = delivery;
  const failed = { type: 'ATTEMPT_FAILED', attempt, spread: deps.random() } as const;
  let answer: EndpointAnswer;
  try {
    answer = await deps.post(delivery);
  } catch (error) {
    const failure = deps.failureOf(error);
    if (failure === undefined) throw error;
    return { ...failed, failure, code: null, preview: null };
  }

  const { statusCode: code } = answer;
  const preview = previewOf(answer.body);
  if (code >= 200 && code < 300) return { type: 'DELIVERED', attempt, code, preview };
  const retryAfterMs = deps.retryAfterMs(answer.retryAfter);
  return {
    ...failed,
    failure: code >= 300 && code < 400 ? 'redirect' : 'status',
    code,
    preview,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

const decoder = new TextDecoder();
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is dropped.
const controlCharacters = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** The first bytes as text that can be shown anywhere (decisions 6, Success); null for an empty body. */
function previewOf(body: Uint8Array): string | null {
  if (body.byteLength === 0) return null;
  return decoder.decode(body.subarray(0, limits.previewBytes)).replace(controlCharacters, '');
}
