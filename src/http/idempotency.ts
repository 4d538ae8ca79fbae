/**
 * Idempotency-Key (decisions 3): of all requests of a user to a route with one key, one runs; what it answered
 * with 2xx is sent again for a day.
 *
 *   400  the key is empty, longer than 255, not printable ASCII, or sent more than once
 *   409  the first request with this key is still running
 *   422  the key was used for another request
 *
 * An answer other than 2xx leaves the key free. A process that dies leaves it claimed until its lease is over;
 * whoever asks again then goes on with what was begun: see Operation.
 */
import { createHash } from 'node:crypto';
import { idempotency as limits } from '../../schemas/limits.ts';
import type { IdempotencyStore, KeptAnswer } from '../store/idempotency.ts';
import { newId } from '../store/ids.ts';
import type { Answer } from './exchange.ts';

/** One request with a key, for its handler: what it makes must be the same for every attempt. */
export type Operation = {
  /** An id like newId's, the same for every attempt. */
  id(prefix: string): string;
  /** Writes something down before it is done. @returns what the first attempt wrote. */
  remember(memo: string): Promise<string>;
  /** Says what the request was, where only its handler knows: see `fingerprint` of a route. */
  identify(fingerprint: string): void;
};

export type KeyedRequest = {
  /** As sent. */
  key: string;
  userId: string;
  /** Method and path of the route, and what the request asks of it. */
  route: string;
  /** SHA-256 of what makes two requests the same, or what finds it out by reading the body. */
  fingerprint: string | (() => Promise<string | Answer>);
};

export type IdempotencyPorts = {
  store: IdempotencyStore;
  now(): number;
  onTrouble(err: unknown): void;
};

const keyForm = new RegExp(`^[\\x20-\\x7e]{1,${limits.keyMaxChars}}$`);

/**
 * Answers a request with a key, by `run` or by what was answered before.
 *
 * @throws what `run` throws; the store's errors before it has begun.
 */
export async function answerOnce(
  { key, userId, route, fingerprint }: KeyedRequest,
  run: (operation: Operation) => Promise<Answer>,
  { store, now, onTrouble }: IdempotencyPorts,
): Promise<Answer> {
  if (!keyForm.test(key)) return { status: 400, body: { error: wrongKey } };
  const id = fingerprintOf([userId, route, key]);
  const token = newId('att');
  let print = typeof fingerprint === 'string' ? fingerprint : '';
  const claimed = await store.claim({ id, token, seed: newId('op'), fingerprint: print, now: now() });
  if (claimed.outcome === 'mismatch') return mismatch;
  if (claimed.outcome === 'running') return running;
  if (claimed.outcome === 'answered') {
    const given = typeof fingerprint === 'string' ? fingerprint : await fingerprint();
    if (typeof given !== 'string') return given;
    return given === claimed.fingerprint ? replay(claimed.answer) : mismatch;
  }

  const suffix = claimed.seed.slice(claimed.seed.indexOf('_'));
  const operation: Operation = {
    id: (prefix) => prefix + suffix,
    remember: (memo) => store.remember(id, token, memo),
    identify(found) {
      print = found;
    },
  };
  const timer = setInterval(() => {
    store.extend(id, token, now()).catch(onTrouble);
  }, limits.leaseMs / 3);
  try {
    const answer = await run(operation);
    const kept = toKept(answer);
    // The answer is true, whether or not it can be kept: an attempt that comes again goes on with its work.
    if (kept) await store.finish({ id, token, fingerprint: print, now: now() }, kept).catch(onTrouble);
    else await giveUp(answer.status);
    return answer;
  } catch (cause) {
    await giveUp(serverError);
    throw cause;
  } finally {
    clearInterval(timer);
  }

  async function giveUp(status: number): Promise<void> {
    const freed = status >= serverError ? store.yield(id, token) : store.release(id, token);
    await freed.catch(onTrouble);
  }
}

/** SHA-256 over parts, each with its length. */
export function fingerprintOf(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
  return hash.digest('base64url');
}

const serverError = 500;
const wrongKey = `Idempotency-Key: one value of 1 to ${limits.keyMaxChars} printable ASCII characters`;
const mismatch: Answer = {
  status: 422,
  body: { error: 'the Idempotency-Key was used for another request' },
};
const running: Answer = {
  status: 409,
  body: { error: 'a request with this Idempotency-Key is still running' },
  headers: { 'Retry-After': '1' },
};

/** What is kept of an answer; nothing of one that is no success, or too large. */
function toKept({ status, body, headers = {} }: Answer): KeptAnswer | undefined {
  const text = body === undefined ? '' : JSON.stringify(body);
  if (status < 200 || status >= 300 || Buffer.byteLength(text) > limits.maxAnswerBytes) return undefined;
  const { 'Set-Cookie': _, ...rest } = headers;
  return { status, headers: rest, body: text };
}

function replay({ status, headers, body }: KeptAnswer): Answer {
  return {
    status,
    ...(body === '' ? {} : { body: JSON.parse(body) as unknown }),
    headers: { ...headers, 'Idempotent-Replayed': 'true' },
  };
}
