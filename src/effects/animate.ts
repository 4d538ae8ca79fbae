/**
 * Makes one clip: submits a prediction, follows it, copies and checks its output.
 *
 * A prediction that was submitted before is followed, not submitted again. Its id is stored for good before
 * anything else happens (I6 and the rules for adapters): `send` waits for that.
 *
 * @throws {EffectError} `i2v_failed` as the provider's failure says, transient when the output is gone.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage, VideoJobRef } from '../../schemas/asset-messages.ts';
import { EffectError } from '../../schemas/errors.ts';
import type {
  Failure,
  ImageRef,
  Segment,
  VideoJob,
  VideoProvider,
  VideoStatus,
} from '../providers/provider.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { readWork, withFolder, workKey, workToFile } from './files.ts';
import { withLimit } from './limit.ts';
import { seedOf } from './seed.ts';

type Params = AssetEffects['animate'];

/** Time limits of single exchanges with a provider, in ms (rules for adapters, 3). */
const submitMs = 30_000;
const statusMs = 15_000;
const cancelMs = 10_000;
const downloadMs = 120_000;
const minPollMs = 50;
const maxPollMs = 15_000;
/** Failed reads of a status in a row, and lost predictions in one attempt, before the attempt fails. */
const maxFailedReads = 5;
const maxLost = 3;
const failedReadWaitMs = 250;
/** The machine's own timer ends the stage; the effect is cut off a little later, so that one clock decides. */
const graceMs = 1_000;

export async function animate(
  params: Params,
  context: EffectContext,
  deps: EffectDeps,
): Promise<AssetMessage> {
  const { run, stage, attempt, job: known } = params;
  const ref = { run, stage, attempt };
  const provider = known ? namedProvider(known, deps) : deps.videoFor(params.options.model);
  const video = toJob(params, context, deps, (params.clockTs || deps.now()) + params.timeoutMs);
  const job = known ?? (await submit(provider, video, context.signal));
  if (!known) await context.send({ type: 'SUBMITTED', ts: deps.now(), ...ref, job });

  // As in the machine, the time to submit is not the prediction's.
  const clockTs = params.clockTs || deps.now();
  return withLimit(context.signal, clockTs + params.timeoutMs + graceMs - deps.now(), finish);

  async function finish(signal: AbortSignal): Promise<AssetMessage> {
    try {
      const output = params.outputUrl ?? (await followAndTell(provider, job, video, signal));
      const key = workKey(context.id, run, `${stage}-${attempt}.mp4`);
      await copyClip(output, key, signal, deps);
      return { type: 'CLIP_COMPLETED', ts: deps.now(), ...ref, key };
    } catch (cause) {
      const isStopping = context.signal.aborted && !context.hasEnded();
      if (signal.aborted && !isStopping)
        await provider.cancel(job, AbortSignal.timeout(cancelMs)).catch(ignored);
      throw cause;
    }
  }

  async function followAndTell(...args: Parameters<typeof follow>): Promise<string> {
    const { outputUrl, costMicros } = await follow(...args);
    await context.send({
      type: 'OUTPUT_READY',
      ts: deps.now(),
      ...ref,
      outputUrl,
      ...(costMicros === undefined ? {} : { costMicros }),
    });
    return outputUrl;
  }
}

/** The machine asks for the cancel as well; this one is only the quicker. */
const ignored = () => 'unknown' as const;

async function submit(provider: VideoProvider, video: VideoJob, signal: AbortSignal): Promise<VideoJobRef> {
  const submitted = await withLimit(signal, submitMs, (limited) => provider.submit(video, limited));
  return { provider: provider.name, ...submitted };
}

/** Reads the prediction's status until it has an end. */
async function follow(
  provider: VideoProvider,
  job: VideoJobRef,
  video: VideoJob,
  signal: AbortSignal,
): Promise<{ outputUrl: string; costMicros?: number }> {
  for (let lost = 0; ; ) {
    const status = await readStatus(provider, job, signal);
    if (status.state === 'succeeded') return status;
    if (status.state === 'cancelled')
      throw new EffectError('i2v_failed', `${job.provider} cancelled ${job.id}`);
    if (status.state === 'failed') {
      const isLost = status.failure.reason === 'gone' && provider.capabilities.repeatable;
      if (!isLost || lost === maxLost) throw failureError(job, status.failure);
      // Its process died. Asking again with the same token costs nothing and gives the same job.
      await submit(provider, video, signal);
      lost += 1;
    }
    const waitMs = 'pollAfterMs' in status ? status.pollAfterMs : minPollMs;
    await sleep(Math.min(maxPollMs, Math.max(minPollMs, waitMs)), undefined, { signal });
  }
}

/** A read that fails says nothing about the prediction, which is paid: it is read again, a few times in a row. */
async function readStatus(
  provider: VideoProvider,
  job: VideoJobRef,
  signal: AbortSignal,
): Promise<VideoStatus> {
  for (let failed = 1; ; failed += 1) {
    try {
      return await withLimit(signal, statusMs, (limited) => provider.status(job, limited));
    } catch (cause) {
      const isPermanent = cause instanceof EffectError && cause.retry === 'permanent';
      if (signal.aborted || isPermanent || failed === maxFailedReads) throw cause;
    }
    await sleep(failedReadWaitMs * 2 ** failed, undefined, { signal });
  }
}

function failureError({ provider, id }: VideoJobRef, failure: Failure): EffectError {
  const { kind, reason, message, retryAfterMs } = failure;
  const isOurs = reason === 'auth' || reason === 'billing';
  return new EffectError('i2v_failed', `${provider} ${id}: ${reason}: ${message}`, {
    retry: kind,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(isOurs ? { hint: 'provider unavailable' } : {}),
  });
}

/** Outputs are copied at once, and checked before the stage counts as done. */
async function copyClip(
  outputUrl: string,
  key: string,
  signal: AbortSignal,
  deps: EffectDeps,
): Promise<void> {
  await withFolder(deps.tempDir, async (folder) => {
    const file = join(folder, 'clip.mp4');
    await withLimit(signal, downloadMs, (limited) => deps.copyOutput(outputUrl, file, limited));
    await deps.checkClip(file);
    await deps.storage.put(key, { file }, { contentType: 'video/mp4', signal });
  });
}

function namedProvider({ provider }: VideoJobRef, deps: EffectDeps): VideoProvider {
  const found = deps.videoNamed(provider);
  if (!found) {
    throw new EffectError('i2v_failed', `provider ${provider} is not configured any more`, {
      retry: 'transient',
    });
  }
  return found;
}

const segments: Record<string, Segment> = { stage1: 'out', stage2: 'back', single: 'whole' };

function toJob(params: Params, { id }: EffectContext, deps: EffectDeps, deadline: number): VideoJob {
  const { run, stage, attempt, source, prompt, motionPlan, options, previousClipKey } = params;
  const image: ImageRef = {
    contentType: source.contentType,
    read: (signal) => readWork(deps.storage, source.key, signal),
  };
  return {
    token: `${id}-${run}-${stage}-${attempt}`,
    source: image,
    firstFrame: previousClipKey === null ? image : lastFrameOf(previousClipKey, deps),
    // The way back ends where the way out began.
    ...(previousClipKey !== null && deps.videoFor(options.model).capabilities.lastFrame
      ? { lastFrame: image }
      : {}),
    prompt,
    plan: motionPlan,
    motion: options.motion,
    mode: options.mode,
    segment: segments[stage] ?? 'whole',
    loopMode: options.loopMode,
    seconds: options.seconds,
    aspect: options.aspect,
    model: options.model,
    seed: seedOf(options.seed, id, run),
    deadline,
  };
}

/** Made only for a provider that reads it. */
function lastFrameOf(clipKey: string, deps: EffectDeps): ImageRef {
  return {
    contentType: 'image/png',
    read: (signal) =>
      withFolder(deps.tempDir, async (folder) => {
        const clip = await workToFile(deps.storage, clipKey, join(folder, 'clip.mp4'), signal);
        const output = join(folder, 'last.png');
        await deps.lastFrame({ clip, output }, signal);
        return readFile(output);
      }),
  };
}
