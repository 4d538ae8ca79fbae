/**
 * What a stand-in can do wrong, and when: a fault is named in the prompt (`fault:reset-created`), in the header
 * `x-fake-fault`, or by `POST /control`. `fault:503*2` spoils the first two submits of its prompt instead of one.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** An answer before it is spoilt. */
export type Reply = { status: number; json?: unknown; text?: string; headers?: Record<string, string> };

/** Faults of a submit after which nothing was bought. */
const refusals: Record<string, (now: number) => Reply> = {
  '429': () => ({ status: 429, headers: { 'retry-after': '1' }, json: { detail: 'slow down' } }),
  '429-date': (now) => ({
    status: 429,
    headers: { 'retry-after': new Date(now + 2_000).toUTCString() },
    json: { detail: 'slow down' },
  }),
  '429-text': () => ({
    status: 429,
    json: { detail: 'Request was throttled. Your rate limit resets in ~1s.' },
  }),
  '429-quota': () => ({ status: 429, json: { error: { code: 'insufficient_quota', message: 'no credit' } } }),
  '400-image': () => ({ status: 400, json: { error: { code: 'invalid_image_url', message: 'no image' } } }),
  '401': () => ({ status: 401, json: { detail: 'bad key' } }),
  '402': () => ({ status: 402, json: { detail: 'no credit' } }),
  '422': () => ({ status: 422, json: { detail: 'the input is wrong' } }),
  '422-text': () => ({ status: 422, text: 'the input is wrong' }),
  moderated: () => ({
    status: 422,
    json: { detail: [{ type: 'content_policy_violation', msg: 'flagged by moderation' }] },
  }),
  '500': () => ({ status: 500, json: { error: 'oops' } }),
  '503': () => ({ status: 503, json: { error: 'away' } }),
};

/** Faults of a submit whose answer is lost although it was accepted; with the one that was not, for comparison. */
export const ambiguous = [
  'reset-created',
  'reset-middle',
  'hang-created',
  'bad-json',
  'empty',
  '502-html',
  '504',
] as const;

export function refusalOf(fault: string, now: number): Reply | undefined {
  return refusals[fault]?.(now);
}

/** Sends an answer, spoilt as the fault says. */
export async function send(
  request: IncomingMessage,
  response: ServerResponse,
  reply: Reply,
  fault: string,
): Promise<void> {
  const text = reply.text ?? (reply.json === undefined ? '' : JSON.stringify(reply.json));
  const body = Buffer.from(text);
  const headers = { 'content-type': 'application/json', 'x-request-id': 'req_fake', ...reply.headers };
  switch (fault) {
    case 'reset':
    case 'reset-created':
      request.socket.destroy();
      return;
    case 'reset-middle':
      response.writeHead(reply.status, { ...headers, 'content-length': body.length });
      response.write(body.subarray(0, body.length >> 1), () => request.socket.destroy());
      return;
    case 'hang-created':
      return;
    case '502-html':
      response.writeHead(502, { 'content-type': 'text/html' }).end('<html>bad gateway');
      return;
    case '504':
      response.writeHead(504).end();
      return;
    case 'bad-json':
      response.writeHead(reply.status, headers).end(body.subarray(0, body.length >> 1));
      return;
    case 'empty':
      response.writeHead(reply.status, headers).end();
      return;
    case 'drip':
      response.writeHead(reply.status, headers);
      for (const byte of body) {
        response.write(Buffer.of(byte));
        await sleep(1);
      }
      response.end();
      return;
    default:
      response.writeHead(reply.status, headers).end(body);
  }
}

/** Which faults come next. */
export function createFaults() {
  const counted = new Map<string, number>();
  let ordered: { fault: string; on: string; times: number }[] = [];

  /** Faults in a text, as far as they are not used up. */
  const inText = (text: string): string[] =>
    [...text.matchAll(/fault:([\w-]+)(?:\*(\d+))?/g)].flatMap(([, fault = '', times = '1']) => {
      const key = `${text}\n${fault}`;
      const used = counted.get(key) ?? 0;
      counted.set(key, used + 1);
      return used < Number(times) ? [fault] : [];
    });

  return {
    order(more: { fault: string; on?: string; times?: number }): void {
      ordered.push({ fault: more.fault, on: more.on ?? '', times: more.times ?? 1 });
    },
    /** Faults of a submit to a provider. */
    next(provider: string, prompt: string, header: string): string[] {
      const due = ordered.find(({ on, times }) => times > 0 && (on === '' || on === provider));
      if (due) due.times -= 1;
      ordered = ordered.filter(({ times }) => times > 0);
      return [...(due ? [due.fault] : []), ...(header === '' ? [] : [header]), ...inText(prompt)];
    },
  };
}
