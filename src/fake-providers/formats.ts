/** How each provider writes a prediction down (provider wire formats 4), true or faulty. */
import type { Reply } from './faults.ts';
import type { Prediction, Provider } from './world.ts';

export type Wish = {
  prompt: string;
  model: string;
  input: Record<string, unknown>;
  images: string[];
  callbackUrl: string | undefined;
};

export type Format = {
  /** What a submit asks for. */
  wish(path: string, query: URLSearchParams, body: Record<string, unknown>): Wish;
  submitted(prediction: Prediction, base: string): Reply;
  /** A read of the status, or of the result where that is another address. */
  status(prediction: Prediction, base: string, isResult: boolean): Reply;
  cancelled(outcome: 'cancelled' | 'late' | 'unknown', prediction: Prediction, base: string): Reply;
  callback(prediction: Prediction, base: string): unknown;
};

const text = (value: unknown) => (typeof value === 'string' ? value : '');
const has = ({ faults }: Prediction, fault: string) => faults.includes(fault);
const outputOf = ({ id }: Prediction, base: string) => new URL(`/files/${id}.mp4`, base).href;
const imagesIn = (input: Record<string, unknown>) =>
  Object.entries(input).flatMap(([name, value]) => (/image/.test(name) ? [text(value)] : []));

function replicateJson(one: Prediction, base: string) {
  const words = { running: 'processing', succeeded: 'succeeded', failed: 'failed', cancelled: 'canceled' };
  const isDone = one.state === 'succeeded';
  const isRemoved = isDone && has(one, 'output-removed');
  const url = outputOf(one, base);
  const output = has(one, 'output-list') ? [url] : url;
  const reasons = one.faults.includes('moderated-out') ? 'NSFW content detected' : 'prediction failed';
  return {
    id: one.id,
    model: one.model,
    version: 'hidden',
    input: { prompt: one.prompt },
    logs: '',
    status: has(one, 'unknown-word') && one.state === 'running' ? 'warming' : words[one.state],
    output: isDone && !isRemoved && !has(one, 'output-none') ? output : null,
    error: one.state === 'failed' ? (has(one, 'no-code') ? null : reasons) : null,
    data_removed: isRemoved,
    urls: { get: `${base}/predictions/${one.id}`, cancel: `${base}/predictions/${one.id}/cancel`, web: '' },
  };
}

const replicate: Format = {
  wish(path, _, body) {
    const input = (body['input'] ?? {}) as Record<string, unknown>;
    return {
      prompt: text(input['prompt']),
      model: path.replace(/^\/models\/(.*)\/predictions$/, '$1'),
      input,
      images: imagesIn(input),
      callbackUrl: text(body['webhook']) || undefined,
    };
  },
  submitted: (one, base) => ({ status: 201, json: { ...replicateJson(one, base), status: 'starting' } }),
  status: (one, base) => ({ status: 200, json: replicateJson(one, base) }),
  cancelled: (outcome, one, base) =>
    outcome === 'unknown'
      ? { status: 404, json: { detail: 'no' } }
      : { status: 200, json: replicateJson(one, base) },
  callback: replicateJson,
};

const falRequest = (one: Prediction, base: string) =>
  `${base}/${one.model.split('/').slice(0, 2).join('/')}/requests/${one.id}`;

function falResult(one: Prediction, base: string): Reply {
  const detail = (type: string, msg: string, status: number): Reply => ({
    status,
    json: { detail: [{ loc: ['body'], msg, type }] },
  });
  if (one.state === 'succeeded') {
    if (has(one, 'output-none')) return { status: 200, json: {} };
    if (has(one, 'output-removed')) return { status: 404, json: { detail: 'gone' } };
    return { status: 200, json: { video: { url: outputOf(one, base) } } };
  }
  if (has(one, 'moderated-out')) return detail('content_policy_violation', 'flagged', 422);
  if (has(one, 'bad-input')) return detail('image_too_large', 'too large', 422);
  if (has(one, 'internal')) return detail('downstream_service_error', 'away', 500);
  return { status: 500, json: { detail: 'failed' } };
}

const fal: Format = {
  wish: (path, query, body) => ({
    prompt: text(body['prompt']),
    model: path.slice(1),
    input: body,
    images: imagesIn(body),
    callbackUrl: query.get('fal_webhook') ?? undefined,
  }),
  submitted: (one, base) => ({
    status: 200,
    headers: { 'x-fal-request-id': one.id },
    json: {
      status: 'IN_QUEUE',
      request_id: one.id,
      queue_position: 0,
      response_url: falRequest(one, base),
      status_url: `${falRequest(one, base)}/status`,
      cancel_url: `${falRequest(one, base)}/cancel`,
    },
  }),
  status(one, base, isResult) {
    if (isResult) return falResult(one, base);
    const word = has(one, 'unknown-word') ? 'WARMING' : 'IN_PROGRESS';
    if (one.state === 'running') return { status: 202, json: { status: word, logs: [] } };
    return { status: 200, json: { status: 'COMPLETED', metrics: { inference_time: 1 } } };
  },
  cancelled(outcome) {
    if (outcome === 'unknown') return { status: 404, json: { status: 'NOT_FOUND' } };
    if (outcome === 'late') return { status: 400, json: { status: 'ALREADY_COMPLETED' } };
    return { status: 202, json: { status: 'CANCELLATION_REQUESTED' } };
  },
  callback(one, base) {
    const isDone = one.state === 'succeeded';
    const { json } = falResult(one, base);
    return {
      request_id: one.id,
      gateway_request_id: one.id,
      status: isDone ? 'OK' : 'ERROR',
      payload: json,
    };
  },
};

const runway: Format = {
  wish(_, __, body) {
    const images = (body['promptImage'] ?? []) as { uri: string }[];
    return {
      prompt: text(body['promptText']),
      model: text(body['model']),
      input: body,
      images: images.map(({ uri }) => uri),
      callbackUrl: undefined,
    };
  },
  submitted: ({ id }) => ({ status: 200, json: { id, estimatedCost: { credits: 60 } } }),
  status(one, base) {
    const { id } = one;
    const cost = { credits: 60 };
    if (one.state === 'succeeded') {
      const output = has(one, 'output-none') ? [] : [`${outputOf(one, base)}?signature=secret-of-output`];
      return { status: 200, json: { id, status: 'SUCCEEDED', output, cost } };
    }
    if (one.state === 'failed') {
      const code = {
        'moderated-out': 'SAFETY.OUTPUT.VIDEO',
        'bad-input': 'ASSET.INVALID',
        internal: 'INTERNAL.BAD_OUTPUT.CODE01',
      }[one.faults.find((fault) => fault !== 'no-code') ?? ''];
      return { status: 200, json: { id, status: 'FAILED', failure: 'failed', failureCode: code, cost } };
    }
    if (one.state === 'cancelled') return { status: 200, json: { id, status: 'CANCELLED' } };
    const word = has(one, 'throttled') ? 'THROTTLED' : has(one, 'unknown-word') ? 'WARMING' : 'RUNNING';
    return { status: 200, json: { id, status: word, progress: has(one, 'backwards') ? 1 / one.reads : 0.4 } };
  },
  cancelled: (outcome) => ({ status: outcome === 'unknown' ? 404 : 204 }),
  callback: () => ({}),
};

function lumaJson(one: Prediction, base: string) {
  const words = { running: 'dreaming', succeeded: 'completed', failed: 'failed', cancelled: 'failed' };
  const isDone = one.state === 'succeeded' && !has(one, 'output-none');
  const reason = has(one, 'moderated-out') ? 'Frame flagged by moderation' : 'something went wrong';
  return {
    id: one.id,
    state: has(one, 'unknown-word') && one.state === 'running' ? 'warming' : words[one.state],
    assets: isDone ? { video: outputOf(one, base) } : null,
    failure_reason: one.state === 'failed' && !has(one, 'no-code') ? reason : null,
    model: one.model,
  };
}

const luma: Format = {
  wish(_, __, body) {
    const frames = Object.values((body['keyframes'] ?? {}) as Record<string, { url: string }>);
    return {
      prompt: text(body['prompt']),
      model: text(body['model']),
      input: body,
      images: frames.map(({ url }) => url),
      callbackUrl: text(body['callback_url']) || undefined,
    };
  },
  submitted: (one, base) => ({ status: 201, json: { ...lumaJson(one, base), state: 'queued' } }),
  status: (one, base) => ({ status: 200, json: lumaJson(one, base) }),
  cancelled: (outcome) => ({ status: outcome === 'unknown' ? 404 : 204 }),
  callback: lumaJson,
};

export const formats: Record<Provider, Format> = { replicate, fal, runway, luma };
