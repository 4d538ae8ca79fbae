/** Replicate as a video provider (wire formats 4.1). */
import { z } from 'zod';
import { provider as limits } from '../../schemas/limits.ts';
import { priceOf } from './models.ts';
import type { Failure, Submitted, VideoProvider, VideoStatus } from './provider.ts';
import {
  capabilitiesOf,
  goneFailure,
  inputsOf,
  isModeration,
  openWire,
  ownUrl,
  type RemoteOptions,
} from './remote.ts';
import { renewed } from './renewed.ts';
import { verifyReplicate } from './signatures.ts';
import { parseJson } from './wire.ts';

export type ReplicateOptions = RemoteOptions & {
  /** `whsec_…`; asked for from the account when it is not set. */
  webhookSecret?: string | undefined;
};

const pollMs = 2_000;
/** `start` is sent when a prediction has begun. */
const recogniseMs = 20_000;
/** Hosts of outputs that may be read with the key. */
const outputHosts = ['replicate.delivery', 'api.replicate.com'];

const Prediction = z.looseObject({
  id: z.string().regex(/^[\w-]{1,128}$/),
  status: z.string(),
  output: z.unknown().optional(),
  error: z.unknown().optional(),
  data_removed: z.boolean().nullish(),
  urls: z.looseObject({ get: z.unknown().optional(), cancel: z.unknown().optional() }).nullish(),
});
type Prediction = z.infer<typeof Prediction>;

export function createReplicate(options: ReplicateOptions): VideoProvider {
  const { key, baseUrl, models, canFetch, now } = options;
  const wire = openWire('replicate', options, { authorization: `Bearer ${key}` });
  const secret = createSecret(options, wire);

  const submittedOf = ({ id, urls }: Prediction, requestId?: string): Submitted => ({
    id,
    statusUrl: ownUrl(baseUrl, urls?.get) ?? `${baseUrl}/predictions/${id}`,
    cancelUrl: ownUrl(baseUrl, urls?.cancel) ?? `${baseUrl}/predictions/${id}/cancel`,
    ...(requestId ? { requestId } : {}),
  });
  const urlOf = ({ id, statusUrl }: Submitted) =>
    ownUrl(baseUrl, statusUrl) ?? `${baseUrl}/predictions/${encodeURIComponent(id)}`;

  return {
    name: 'replicate',
    capabilities: capabilitiesOf(models, { callback: 'hmac', cancel: 'running', recogniseMs }),

    async submit(job, signal) {
      const model = models[job.model];
      const input = await inputsOf(model, job, canFetch, signal);
      const leftMs = Math.max(5_000, job.deadline - now());
      const answer = await wire.ask(
        {
          operation: 'submit',
          method: 'POST',
          url: `${baseUrl}/models/${model.id}/predictions`,
          // Kept by the provider itself: bounds the bill when this side dies.
          headers: { 'cancel-after': `${Math.ceil(leftMs / 1000)}s` },
          body: {
            input,
            ...(job.callbackUrl
              ? { webhook: job.callbackUrl, webhook_events_filter: ['start', 'completed'] }
              : {}),
          },
          timeoutMs: limits.submitMs,
          id: job.token,
          signal,
        },
        contentFailure,
      );
      return submittedOf(wire.readSubmit(answer, Prediction), answer.requestId);
    },

    async status(submitted, signal) {
      const prediction = await wire.readStatus(submitted, urlOf(submitted), Prediction, signal);
      return prediction
        ? statusOf(prediction)
        : { state: 'failed', failure: goneFailure('no such prediction') };
    },

    async cancel(submitted, signal) {
      const answer = await wire.exchange({
        operation: 'cancel',
        method: 'POST',
        url: ownUrl(baseUrl, submitted.cancelUrl) ?? `${urlOf(submitted)}/cancel`,
        timeoutMs: limits.cancelMs,
        id: submitted.id,
        signal,
      });
      if (answer.status !== 200) return answer.status === 404 ? 'unknown' : 'too_late';
      const status = Prediction.safeParse(answer.json).data?.status;
      return status === 'succeeded' || status === 'failed' ? 'too_late' : 'cancelled';
    },

    async readCallback({ header, body }) {
      const given = { id: header('webhook-id'), timestamp: header('webhook-timestamp'), body };
      const signatures = header('webhook-signature');
      const isTrue = (secretText: string) => verifyReplicate({ ...given, signatures }, secretText, now());
      // A secret that was changed at the provider is asked for again, once in a while.
      if (!isTrue(await secret.now()) && !isTrue(await secret.fresh()))
        return { ok: false, why: 'signature' };
      const prediction = Prediction.safeParse(parseJson(body));
      return prediction.success
        ? { ok: true, job: submittedOf(prediction.data) }
        : { ok: false, why: 'content' };
    },

    priceOf: (job) => priceOf(models, job),

    outputHeaders(url) {
      const { protocol, hostname, origin } = new URL(url);
      const isOwn = outputHosts.some((host) => hostname === host || hostname.endsWith(`.${host}`));
      const mayKnow = (protocol === 'https:' && isOwn) || origin === new URL(baseUrl).origin;
      return mayKnow ? { authorization: `Bearer ${key}` } : {};
    },
  };

  function statusOf(prediction: Prediction): VideoStatus {
    switch (prediction.status) {
      case 'starting':
        return { state: 'queued', pollAfterMs: pollMs };
      case 'processing':
        return { state: 'running', pollAfterMs: pollMs };
      case 'succeeded':
        return succeeded(prediction);
      case 'failed':
        return { state: 'failed', failure: failureOf(String(prediction.error ?? '')) };
      case 'canceled':
      case 'aborted':
        return { state: 'cancelled' };
      default:
        wire.wonder(`status ${prediction.status}`);
        return { state: 'running', pollAfterMs: pollMs };
    }
  }

  function succeeded(prediction: Prediction): VideoStatus {
    if (prediction.data_removed) {
      return { state: 'failed', failure: goneFailure('the output was removed') };
    }
    const { output } = prediction;
    const outputUrl: unknown = Array.isArray(output) ? output[0] : output;
    if (typeof outputUrl !== 'string' || !URL.canParse(outputUrl)) {
      return { state: 'failed', failure: { kind: 'transient', reason: 'unknown', message: 'no output' } };
    }
    return { state: 'succeeded', outputUrl };
  }

  function failureOf(text: string): Failure {
    const message = wire.tidy(text === '' ? 'failed without a reason' : text);
    return isModeration(text)
      ? { kind: 'permanent', reason: 'rejected_content', message }
      : { kind: 'transient', reason: 'unavailable', message };
  }
}

/** A refusal of the input for what it shows. */
function contentFailure({ status, json }: { status: number; json: unknown }): Partial<Failure> {
  return (status === 400 || status === 422) && isModeration(JSON.stringify(json) ?? '')
    ? { kind: 'permanent', reason: 'rejected_content' }
    : {};
}

/** The secret of callbacks: configured, or the account's, asked for at most every so often. */
function createSecret({ webhookSecret, baseUrl, now }: ReplicateOptions, wire: ReturnType<typeof openWire>) {
  if (webhookSecret !== undefined) {
    const configured = async () => webhookSecret;
    return { now: configured, fresh: configured };
  }
  const ask = async (): Promise<string> => {
    const answer = await wire.ask({
      operation: 'keys',
      method: 'GET',
      url: `${baseUrl}/webhooks/default/secret`,
      timeoutMs: limits.cancelMs,
      signal: new AbortController().signal,
    });
    return z.object({ key: z.string() }).parse(answer.json).key;
  };
  return renewed(ask, { keptMs: limits.webhookSecretMs, againMs: limits.keySetRefetchMs, now });
}
