/** Runway as a video provider (wire formats 4.3). It calls nobody back: its tasks are asked for. */
import { z } from 'zod';
import { provider as limits } from '../../schemas/limits.ts';
import { type ChosenModel, secondsFor, seedFor } from './models.ts';
import type { Failure, Submitted, VideoJob, VideoProvider, VideoStatus } from './provider.ts';
import {
  capabilitiesOf,
  framesOf,
  goneFailure,
  isBilling,
  openWire,
  promptOf,
  type RemoteOptions,
} from './remote.ts';
import { messageOf, type WireAnswer } from './wire.ts';

const version = '2024-11-06';
/** More often than every five seconds brings nothing. */
const pollMs = 6_000;
const pollSpreadMs = 1_500;
const microsPerCredit = 10_000;

const Id = z.looseObject({ id: z.string().regex(/^[\w-]{1,128}$/) });
const Task = Id.extend({
  status: z.string(),
  progress: z.number().optional(),
  output: z.array(z.string()).nullish(),
  failure: z.string().nullish(),
  failureCode: z.string().nullish(),
  cost: z.looseObject({ credits: z.number() }).nullish(),
});
type Task = z.infer<typeof Task>;

/** @param random from 0 to 1: spreads the reads of many tasks. */
export function createRunway(options: RemoteOptions, random: () => number = Math.random): VideoProvider {
  const { key, baseUrl, models, canFetch } = options;
  const wire = openWire('runway', options, {
    authorization: `Bearer ${key}`,
    'x-runway-version': version,
  });
  const pollAfterMs = () => pollMs + Math.round((2 * random() - 1) * pollSpreadMs);
  const taskUrl = ({ id }: Submitted) => `${baseUrl}/v1/tasks/${encodeURIComponent(id)}`;

  return {
    name: 'runway',
    capabilities: capabilitiesOf(models, { callback: 'none', cancel: 'running' }),

    async submit(job, signal) {
      const model = models[job.model];
      const { first, last } = await framesOf(job, canFetch, signal);
      const images = [
        { uri: first, position: 'first' },
        ...(model.last !== undefined && last !== undefined ? [{ uri: last, position: 'last' }] : []),
      ];
      const answer = await wire.ask(
        {
          operation: 'submit',
          method: 'POST',
          url: `${baseUrl}/v1/image_to_video`,
          body: {
            model: model.id,
            ratio: ratioOf(job, model),
            duration: secondsFor(model, job),
            promptText: promptOf(job),
            ...(model.takesSeed ? { seed: seedFor(job.seed) } : {}),
            promptImage: images,
          },
          timeoutMs: limits.submitMs,
          id: job.token,
          signal,
        },
        classify,
      );
      const { id } = wire.readSubmit(answer, Id);
      return { id, ...(answer.requestId ? { requestId: answer.requestId } : {}) };
    },

    async status(submitted, signal) {
      const task = await wire.readStatus(submitted, taskUrl(submitted), Task, signal);
      return task ? statusOf(task) : { state: 'failed', failure: goneFailure('no such task') };
    },

    async cancel(submitted, signal) {
      // Of a task that has ended this deletes the output: it is asked for only while nobody has use for it.
      return wire.remove(submitted, taskUrl(submitted), signal);
    },
  };

  function statusOf(task: Task): VideoStatus {
    switch (task.status) {
      case 'PENDING':
      case 'THROTTLED':
        return { state: 'queued', pollAfterMs: pollAfterMs() };
      case 'SUCCEEDED':
        return succeeded(task);
      case 'FAILED':
        return { state: 'failed', failure: failureOf(task) };
      case 'CANCELLED':
      case 'CANCELED':
        return { state: 'cancelled' };
      default:
        if (task.status !== 'RUNNING') wire.wonder(`status ${task.status}`);
        return {
          state: 'running',
          pollAfterMs: pollAfterMs(),
          ...(task.progress === undefined ? {} : { progress: task.progress }),
        };
    }
  }

  function succeeded({ output, cost }: Task): VideoStatus {
    const outputUrl = output?.[0];
    if (outputUrl === undefined || !URL.canParse(outputUrl)) {
      return { state: 'failed', failure: { kind: 'transient', reason: 'unknown', message: 'no output' } };
    }
    return {
      state: 'succeeded',
      outputUrl,
      ...(cost ? { costMicros: Math.round(cost.credits * microsPerCredit) } : {}),
    };
  }

  function failureOf({ failure, failureCode }: Task): Failure {
    const code = failureCode ?? '';
    const words = wire.tidy(failure ?? 'failed without a reason');
    const told = { message: words, ...(code === '' ? {} : { providerCode: code.slice(0, 100) }) };
    if (/^(SAFETY|INPUT_PREPROCESSING\.SAFETY)\./.test(code)) {
      return { kind: 'permanent', reason: 'rejected_content', ...told };
    }
    if (code.startsWith('ASSET.INVALID')) return { kind: 'permanent', reason: 'bad_input', ...told };
    if (code !== '' && !/^(INTERNAL|INPUT_PREPROCESSING|THIRD_PARTY)(\.|$)/.test(code))
      wire.wonder(`failure code ${code}`);
    return { kind: 'transient', reason: 'unavailable', ...told };
  }
}

/** An empty account has the status of an input that is wrong. */
function classify({ status, json }: WireAnswer): Partial<Failure> {
  return status === 400 && isBilling(messageOf(json) ?? '') ? { kind: 'permanent', reason: 'billing' } : {};
}

/** The size of the clip: the aspect that was asked for, or the source's own as far as there is one like it. */
function ratioOf({ aspect, plan }: VideoJob, { sizes = [] }: ChosenModel): string {
  const wished = aspect === 'source' ? plan.width / plan.height : aspects[aspect];
  const distance = (size: string) => {
    const [width = 1, height = 1] = size.split(':').map(Number);
    return Math.abs(Math.log(width / height / wished));
  };
  return sizes.reduce((best, size) => (distance(size) < distance(best) ? size : best), sizes[0] ?? '');
}

const aspects = { '1:1': 1, '16:9': 16 / 9, '9:16': 9 / 16, '4:3': 4 / 3, '3:4': 3 / 4 };
