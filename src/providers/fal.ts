/** fal as a video provider, by its queue (wire formats 4.2). */
import type { JsonWebKey } from 'node:crypto';
import { z } from 'zod';
import { provider as limits } from '../../schemas/limits.ts';
import { type Headers, headerOf } from '../outbound/exchange.ts';
import { priceOf } from './models.ts';
import type { Failure, Submitted, VideoProvider, VideoStatus } from './provider.ts';
import {
  capabilitiesOf,
  goneFailure,
  inputsOf,
  isBilling,
  openWire,
  ownUrl,
  type RemoteOptions,
} from './remote.ts';
import { renewed } from './renewed.ts';
import { verifyFal } from './signatures.ts';
import { messageOf, parseJson, type Wire, type WireAnswer } from './wire.ts';

export type FalOptions = RemoteOptions & { keysUrl: string };

const pollMs = 1_500;
/** Nothing is heard of a request before it has ended. */
const recogniseMs = 150_000;
const keptSeconds = 86_400;

const Queued = z.looseObject({
  request_id: z.string().regex(/^[\w-]{1,128}$/),
  status_url: z.unknown().optional(),

  cancel_url: z.unknown().optional(),
});
const Status = z.looseObject({ status: z.string(), queue_position: z.number().optional() });
const Output = z.looseObject({ video: z.looseObject({ url: z.url() }) });
const Callback = z.looseObject({ request_id: z.string().regex(/^[\w-]{1,128}$/) });

export function createFal(options: FalOptions): VideoProvider {
  const { key, baseUrl, models, canFetch, now } = options;
  const wire = openWire('fal', options, { authorization: `Key ${key}` });
  const keySet = createKeySet(options, wire);

  /** Owner and app alone, without the rest of a model's id. */
  const requestUrl = (modelId: string, id: string) =>
    `${baseUrl}/${modelId.split('/').slice(0, 2).join('/')}/requests/${encodeURIComponent(id)}`;
  const statusUrlOf = ({ id, statusUrl }: Submitted) =>
    ownUrl(baseUrl, statusUrl) ?? `${requestUrl(models.fast.id, id)}/status`;
  return {
    name: 'fal',
    capabilities: capabilitiesOf(models, { callback: 'ed25519', cancel: 'queued', recogniseMs }),

    async submit(job, signal) {
      const model = models[job.model];
      const url = new URL(`${baseUrl}/${model.id}`);
      if (job.callbackUrl) url.searchParams.set('fal_webhook', job.callbackUrl);
      const answer = await wire.ask(
        {
          operation: 'submit',
          method: 'POST',
          url: url.href,
          headers: {
            'x-fal-request-timeout': String(Math.max(5, Math.ceil((job.deadline - now()) / 1000))),
            'x-fal-object-lifecycle-preference': JSON.stringify({ expiration_duration_seconds: keptSeconds }),
            // Attempts are the pipeline's.
            'x-fal-no-retry': '1',
          },
          body: await inputsOf(model, job, canFetch, signal),
          timeoutMs: limits.submitMs,
          id: job.token,
          signal,
        },
        classify,
      );
      const queued = wire.readSubmit(answer, Queued);
      const { request_id: id, status_url: statusUrl, cancel_url: cancelUrl } = queued;
      return {
        id,
        statusUrl: ownUrl(baseUrl, statusUrl) ?? `${requestUrl(model.id, id)}/status`,
        cancelUrl: ownUrl(baseUrl, cancelUrl) ?? `${requestUrl(model.id, id)}/cancel`,
        ...(answer.requestId ? { requestId: answer.requestId } : {}),
      };
    },

    async status(submitted, signal) {
      const url = statusUrlOf(submitted);
      const status = await wire.readStatus(submitted, url, Status, signal);
      if (!status) return { state: 'failed', failure: goneFailure('no such request') };
      const waiting = waitingOf(status);
      if (waiting) return waiting;
      // Failures are completed as well: only the result tells.
      const result = await wire.exchange({
        operation: 'status',
        method: 'GET',
        url: url.replace(/\/status(\?.*)?$/, ''),
        timeoutMs: limits.statusMs,
        id: submitted.id,
        signal,
      });
      return resultOf(result);
    },

    async cancel(submitted, signal) {
      const { status } = await wire.exchange({
        operation: 'cancel',
        method: 'PUT',
        url:
          ownUrl(baseUrl, submitted.cancelUrl) ??
          statusUrlOf(submitted).replace(/\/status(\?.*)?$/, '/cancel'),
        timeoutMs: limits.cancelMs,
        id: submitted.id,
        signal,
      });
      if (status === 200 || status === 202) return 'cancelled';
      return status === 404 ? 'unknown' : 'too_late';
    },

    priceOf: (job) => priceOf(models, job),

    async readCallback({ header, body }) {
      const given = {
        requestId: header('x-fal-webhook-request-id'),
        userId: header('x-fal-webhook-user-id'),
        timestamp: header('x-fal-webhook-timestamp'),
        signature: header('x-fal-webhook-signature'),
        body,
      };
      const isTrue = (keys: JsonWebKey[]) => verifyFal(given, keys, now());
      if (!isTrue(await keySet.now()) && !isTrue(await keySet.fresh()))
        return { ok: false, why: 'signature' };
      const callback = Callback.safeParse(parseJson(body));
      return callback.success
        ? { ok: true, job: { id: callback.data.request_id } }
        : { ok: false, why: 'content' };
    },
  };

  function waitingOf({ status, queue_position: position }: z.infer<typeof Status>): VideoStatus | undefined {
    if (status === 'COMPLETED') return undefined;
    if (status === 'IN_QUEUE') {
      return { state: 'queued', pollAfterMs: pollMs, ...(position === undefined ? {} : { position }) };
    }
    if (status !== 'IN_PROGRESS') wire.wonder(`status ${status}`);
    return { state: 'running', pollAfterMs: pollMs };
  }

  function resultOf(answer: WireAnswer): VideoStatus {
    if (answer.status === 404) return { state: 'failed', failure: goneFailure('the result is gone') };
    if (answer.status !== 200) {
      const failure = wire.failureOf(answer, classify);
      return failure.providerCode === 'client_cancelled'
        ? { state: 'cancelled' }
        : { state: 'failed', failure };
    }
    const output = Output.safeParse(answer.json);
    if (!output.success) {
      return { state: 'failed', failure: { kind: 'transient', reason: 'unknown', message: 'no output' } };
    }
    return { state: 'succeeded', outputUrl: output.data.video.url };
  }
}

const Detail = z.looseObject({
  detail: z.array(z.looseObject({ type: z.string(), msg: z.string().optional() })).min(1),
});

const RequestError = z.looseObject({ error_type: z.string() });

const passing = { kind: 'transient', reason: 'unavailable' } as const;
const overdue = { kind: 'transient', reason: 'timeout' } as const;
/** What the kinds of failure mean that their status does not tell. */
const byType = new Map<string, Partial<Failure>>([
  ['generation_timeout', passing],
  ['downstream_service_error', passing],
  ['downstream_service_unavailable', passing],
  ['internal_server_error', passing],
  ['client_disconnected', passing],
  ['request_timeout', overdue],
  ['startup_timeout', overdue],
]);

/** What an error body says beyond its status; fal's own word on whether to try again comes first. */
function classify({ status, headers, json }: WireAnswer): Partial<Failure> {
  const detail = Detail.safeParse(json).data?.detail[0];
  const type =
    detail?.type ?? RequestError.safeParse(json).data?.error_type ?? headerOf(headers, 'x-fal-error-type');
  const failure: Partial<Failure> = {
    ...(type === undefined ? {} : { providerCode: type.slice(0, 100) }),
    ...(detail?.msg === undefined ? {} : { message: detail.msg }),
  };
  if (type === 'content_policy_violation')
    return { ...failure, kind: 'permanent', reason: 'rejected_content' };
  // An empty account has the status of a key that may not do this.
  if (status === 403 && isBilling(messageOf(json) ?? ''))
    return { ...failure, kind: 'permanent', reason: 'billing' };
  return { ...failure, ...(retryOf(headers) ?? byType.get(type ?? '')) };
}

function retryOf(headers: Headers): Partial<Failure> | undefined {
  const retryable = headerOf(headers, 'x-fal-retryable') ?? headerOf(headers, 'x-fal-needs-retry');
  if (retryable === 'true' || retryable === '1') return passing;
  return retryable === 'false' ? { kind: 'permanent' } : undefined;
}

/** The public keys of callbacks: kept for a day, asked for again when none of them fits, once in a while. */
function createKeySet({ keysUrl, now }: FalOptions, wire: Wire) {
  const ask = async (): Promise<JsonWebKey[]> => {
    const answer = await wire.ask({
      operation: 'keys',
      method: 'GET',
      url: keysUrl,
      // The keys are public: nobody is told ours for them.
      headers: { authorization: '' },
      timeoutMs: limits.cancelMs,
      signal: new AbortController().signal,
    });
    return z.object({ keys: z.array(z.looseObject({ kty: z.string() })) }).parse(answer.json)
      .keys as JsonWebKey[];
  };
  return renewed(ask, { keptMs: limits.keySetMs, againMs: limits.keySetRefetchMs, now });
}
