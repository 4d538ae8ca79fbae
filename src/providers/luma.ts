/** Luma's Dream Machine as a video provider (wire formats 4.4). Its callbacks are not signed: hints alone. */
import { z } from 'zod';
import { provider as limits } from '../../schemas/limits.ts';
import { priceOf, secondsFor, writtenSeconds } from './models.ts';
import type { Failure, Submitted, VideoJob, VideoProvider, VideoStatus } from './provider.ts';
import {
  capabilitiesOf,
  framesOf,
  goneFailure,
  isModeration,
  openWire,
  promptOf,
  type RemoteOptions,
} from './remote.ts';
import { parseJson } from './wire.ts';

const pollMs = 3_000;
const recogniseMs = 20_000;

const Generation = z.looseObject({
  id: z.string().regex(/^[\w-]{1,128}$/),
  state: z.string(),
  assets: z.looseObject({ video: z.string().nullish() }).nullish(),
  failure_reason: z.string().nullish(),
});
type Generation = z.infer<typeof Generation>;

export function createLuma(options: RemoteOptions): VideoProvider {
  const { key, baseUrl, models, canFetch } = options;
  const wire = openWire('luma', options, { authorization: `Bearer ${key}` });
  const urlOf = ({ id }: Submitted) => `${baseUrl}/generations/${encodeURIComponent(id)}`;

  return {
    name: 'luma',
    capabilities: capabilitiesOf(models, { callback: 'unsigned', cancel: 'running', recogniseMs }),

    async submit(job, signal) {
      const model = models[job.model];
      const { first, last } = await framesOf(job, canFetch, signal);
      const answer = await wire.ask(
        {
          operation: 'submit',
          method: 'POST',
          url: `${baseUrl}/generations/video`,
          body: {
            model: model.id,
            prompt: promptOf(job),
            duration: writtenSeconds(model, secondsFor(model, job)),
            resolution: job.model === 'cinema' ? '1080p' : '720p',
            ...ratioOf(job),
            keyframes: {
              frame0: { type: 'image', url: first },
              ...(last === undefined ? {} : { frame1: { type: 'image', url: last } }),
            },
            ...(job.callbackUrl ? { callback_url: job.callbackUrl } : {}),
          },
          timeoutMs: limits.submitMs,
          id: job.token,
          signal,
        },
        ({ status, json }) =>
          (status === 400 || status === 422) && isModeration(JSON.stringify(json) ?? '')
            ? { kind: 'permanent', reason: 'rejected_content' }
            : {},
      );
      const { id } = wire.readSubmit(answer, Generation);
      return { id, ...(answer.requestId ? { requestId: answer.requestId } : {}) };
    },

    async status(submitted, signal) {
      const generation = await wire.readStatus(submitted, urlOf(submitted), Generation, signal);
      return generation
        ? statusOf(generation)
        : { state: 'failed', failure: goneFailure('no such generation') };
    },

    cancel: (submitted, signal) => wire.remove(submitted, urlOf(submitted), signal),

    priceOf: (job) => priceOf(models, job),

    async readCallback({ body }) {
      const generation = Generation.safeParse(parseJson(body));
      return generation.success
        ? { ok: true, job: { id: generation.data.id } }
        : { ok: false, why: 'content' };
    },
  };

  function statusOf(generation: Generation): VideoStatus {
    switch (generation.state) {
      case 'queued':
        return { state: 'queued', pollAfterMs: pollMs };
      case 'completed':
        return completed(generation);
      case 'failed':
        return { state: 'failed', failure: failureOf(generation.failure_reason ?? '') };
      default:
        if (generation.state !== 'dreaming') wire.wonder(`state ${generation.state}`);
        return { state: 'running', pollAfterMs: pollMs };
    }
  }

  function completed({ assets }: Generation): VideoStatus {
    const outputUrl = assets?.video;
    if (!outputUrl || !URL.canParse(outputUrl)) {
      return { state: 'failed', failure: { kind: 'transient', reason: 'unknown', message: 'no output' } };
    }
    return { state: 'succeeded', outputUrl };
  }

  function failureOf(reason: string): Failure {
    const message = wire.tidy(reason === '' ? 'failed without a reason' : reason);
    return isModeration(reason)
      ? { kind: 'permanent', reason: 'rejected_content', message }
      : { kind: 'transient', reason: 'unavailable', message };
  }
}

/** Without one the clip has the shape of its first frame. */
function ratioOf({ aspect }: VideoJob): { aspect_ratio?: string } {
  return aspect === 'source' ? {} : { aspect_ratio: aspect };
}
