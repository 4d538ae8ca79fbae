/**
 * Makes one clip: buys a prediction, follows it, copies and checks its output.
 *
 * A prediction that was submitted before is followed, not submitted again. Its id is stored for good before
 * anything else happens (I6 and the rules for adapters): `send` waits for that. What can be read again is read again
 * before anything is bought anew: a status that cannot be read, an output that cannot be copied.
 *
 * @throws {EffectError} `i2v_failed` as the provider's failure says, transient when the output is gone.
 */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage, VideoJobRef } from '../../schemas/asset-messages.ts';
import { EffectError } from '../../schemas/errors.ts';
import { provider as limits, shownEnding } from '../../schemas/limits.ts';
import {
  type Failure,
  type ImageRef,
  isOperators,
  type Segment,
  takesLastFrame,
  unavailableHint,
  type VideoJob,
  type VideoProvider,
  type VideoStatus,
} from '../providers/provider.ts';
import { buy, submit } from './buy.ts';
import type { EffectContext, EffectDeps, Hints } from './deps.ts';
import { readWork, withFolder, workKey, workToFile } from './files.ts';
import { withLimit } from './limit.ts';
import { seedOf } from './seed.ts';

type Params = AssetEffects['animate'];

const minPollMs = 50;
const maxPollMs = 15_000;
/** Failed reads of a status in a row, and lost predictions in one attempt, before the attempt fails. */
const maxFailedReads = 5;
const maxLost = 3;
const failedReadWaitMs = 250;
/** Copies of one output before the attempt fails. */
const maxCopies = 3;
const copyWaitMs = 500;
/** The machine's own timer ends the stage; the effect is cut off a little later, so that one clock decides. */
const graceMs = 1_000;
/** A place at a provider's gate is given back by itself so long after the stage's time. */
const holdMoreMs = 60_000;
/** Hex digits of an image's SHA-256 in its address: it cannot be guessed. */
const hashDigits = 30;

export async function animate(
  params: Params,
  context: EffectContext,
  deps: EffectDeps,
): Promise<AssetMessage> {
  const published = new Set<string>();
  const work: Work = { params, context, deps, published, token: tokenOf(params, context) };
  try {
    return await make(work);
  } finally {
    // They were of use to the provider alone.
    for (const key of published) {
      await deps.storage.delete(key, new AbortController().signal).catch(ignored);
    }
  }
}

type Work = {
  params: Params;
  context: EffectContext;
  deps: EffectDeps;
  token: string;
  /** Storage keys of images that providers were shown. */
  published: Set<string>;
};

/** A prediction that is followed. */
type Following = { provider: VideoProvider; job: VideoJobRef; video: VideoJob; hints: Hints };

async function make(work: Work): Promise<AssetMessage> {
  const { params, context, deps, token } = work;
  const { run, stage, attempt, timeoutMs } = params;
  const { purchases } = deps;
  const ref = { run, stage, attempt };
  const job = params.job ?? (await buyOne(work));
  const provider = namedProvider(job, deps);
  // An attempt that goes on with the prediction of an earlier one tells of it as its own.
  if (params.clockTs === 0) await context.send({ type: 'SUBMITTED', ts: deps.now(), ...ref, job });
  const isPaid = !provider.capabilities.repeatable;
  if (isPaid && !params.job) await settlePurchase(work, provider, job);
  if (isPaid && params.job) await purchases.hold(provider.name, token, deps.now() + timeoutMs + holdMoreMs);

  // As in the machine, the time to submit is not the prediction's.
  const clockTs = params.clockTs || deps.now();
  const video = toJob(work, provider, clockTs + timeoutMs);
  const hints = purchases.onHint(token);
  const isStopping = () => context.signal.aborted && !context.hasEnded();
  try {
    const following = { provider, job, video, hints };
    return await withLimit(context.signal, clockTs + timeoutMs + graceMs - deps.now(), (signal) =>
      finish(work, following, signal),
    );
  } finally {
    hints.stop();
    // Who goes on after this process holds the same place.
    if (isPaid && !isStopping()) await purchases.leave(provider.name, token);
  }
}

async function buyOne(work: Work): Promise<VideoJobRef> {
  const { params, context, deps, token } = work;
  const { options, stage, run, timeoutMs } = params;
  const needsLastFrame = options.mode === 'loop' && options.loopMode === 'native';
  const providers = await deps.videosFor({ model: options.model, needsLastFrame });
  return buy(
    {
      token,
      stageKey: `${context.id}-${run}-${stage}`,
      providers,
      holdMs: limits.submitMs + timeoutMs + holdMoreMs,
      jobFor: (provider) => toJob(work, provider, deps.now() + timeoutMs),
    },
    context.signal,
    deps,
  );
}

/** What an earlier attempt has bought and was heard of meanwhile is not waited for by anybody. */
async function settlePurchase(
  { params, context, deps, token }: Work,
  provider: VideoProvider,
  job: VideoJobRef,
): Promise<void> {
  await deps.purchases.bought(token, job);
  for (const late of await deps.purchases.late(`${context.id}-${params.run}-${params.stage}`, job)) {
    await deps.purchases.over(late);
    await cancel(deps.videoNamed(late.provider) ?? provider, late);
  }
}

async function finish(work: Work, following: Following, signal: AbortSignal): Promise<AssetMessage> {
  const { params, context, deps } = work;
  const { provider, job } = following;
  const { run, stage, attempt } = params;
  const ref = { run, stage, attempt };
  const key = workKey(context.id, run, `${stage}-${attempt}.mp4`);
  try {
    const output = params.outputUrl ?? (await followAndTell(work, following, signal));
    await copyAgain(work, following, output, key, signal);
    return { type: 'CLIP_COMPLETED', ts: deps.now(), ...ref, key };
  } catch (cause) {
    const isStopping = context.signal.aborted && !context.hasEnded();
    if (signal.aborted && !isStopping) await cancel(provider, job);
    const failure = toFailure(cause, signal);
    const isOfUse = isStopping || (failure instanceof EffectError && failure.isResumable);
    if (!isOfUse && !provider.capabilities.repeatable) await deps.purchases.over(job);
    throw failure;
  }
}

/** The machine asks for the cancel as well; this one is only the quicker. */
async function cancel(provider: VideoProvider, job: VideoJobRef): Promise<void> {
  await withLimit(new AbortController().signal, limits.cancelMs, (limited) =>
    provider.cancel(job, limited),
  ).catch(ignored);
}

const ignored = () => undefined;

async function followAndTell(work: Work, following: Following, signal: AbortSignal): Promise<string> {
  const { params, context, deps } = work;
  const { run, stage, attempt } = params;
  const { outputUrl, costMicros } = await follow(following, signal, deps);
  const cost = costMicros ?? following.provider.priceOf?.(following.video);
  const isPaid = !following.provider.capabilities.repeatable;
  if (isPaid && cost !== undefined) await deps.purchases.priced(work.token, cost);
  await context.send({
    type: 'OUTPUT_READY',
    ts: deps.now(),
    run,
    stage,
    attempt,
    outputUrl,
    ...(cost === undefined ? {} : { costMicros: cost }),
  });
  return outputUrl;
}

/** Reads the prediction's status until it has an end. */
async function follow(
  following: Following,
  signal: AbortSignal,
  deps: EffectDeps,
): Promise<{ outputUrl: string; costMicros?: number }> {
  const { provider, job, video, hints } = following;
  const isPaid = !provider.capabilities.repeatable;
  for (let lost = 0; ; ) {
    const status = await readStatus(provider, job, signal);
    if (isPaid) await noteHealth(provider, status, deps);
    if (status.state === 'succeeded') return status;
    if (status.state === 'cancelled')
      throw new EffectError('i2v_failed', `${job.provider} cancelled ${job.id}`);
    if (status.state === 'failed') {
      if (isPaid || status.failure.reason !== 'gone' || lost === maxLost) {
        throw failureError(job, status.failure);
      }
      // Its process died. Asking again with the same token costs nothing and gives the same job.
      await submit(provider, video, signal);
      lost += 1;
    }
    await untilNextRead(status, hints, signal);
  }
}

async function noteHealth({ name }: VideoProvider, status: VideoStatus, { purchases }: EffectDeps) {
  if (status.state === 'succeeded') await purchases.succeeded(name);
  if (status.state === 'failed') await purchases.failed(name, status.failure);
}

/** Waits as long as the provider likes, or until a callback has something to tell. */
async function untilNextRead(status: VideoStatus, hints: Hints, signal: AbortSignal): Promise<void> {
  const waitMs = 'pollAfterMs' in status ? status.pollAfterMs : minPollMs;
  await Promise.race([
    sleep(Math.min(maxPollMs, Math.max(minPollMs, waitMs)), undefined, { signal }),
    hints.next(),
  ]);
}

/** A read that fails says nothing about the prediction, which is paid: it is read again, a few times in a row. */
async function readStatus(
  provider: VideoProvider,
  job: VideoJobRef,
  signal: AbortSignal,
): Promise<VideoStatus> {
  for (let failed = 1; ; failed += 1) {
    try {
      return await withLimit(signal, limits.statusMs, (limited) => provider.status(job, limited));
    } catch (cause) {
      const isPermanent = cause instanceof EffectError && cause.retry === 'permanent';
      if (signal.aborted || isPermanent) throw cause;
      if (failed === maxFailedReads) throw resumable(`cannot read the status of ${job.id}`, cause);
    }
    await sleep(failedReadWaitMs * 2 ** failed, undefined, { signal });
  }
}

function failureError({ provider, id }: VideoJobRef, failure: Failure): EffectError {
  const { kind, reason, message, retryAfterMs } = failure;
  return new EffectError('i2v_failed', `${provider} ${id}: ${reason}: ${message}`, {
    retry: kind,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(isOperators(failure) ? { hint: unavailableHint } : {}),
  });
}

/** What is no failure of the provider's, such as a store that is away, is no reason to buy anew. */
function toFailure(cause: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || cause instanceof EffectError) return cause;
  const { message } = cause as Error;
  return resumable(`the service could not go on with its prediction: ${message}`, cause);
}

function resumable(message: string, cause: unknown): EffectError {
  const code = cause instanceof EffectError ? cause.code : 'i2v_failed';
  const { retryAfterMs } = cause instanceof EffectError ? cause : {};
  return new EffectError(code, message, {
    retry: 'transient',
    isResumable: true,
    cause,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/**
 * Copies the output at once, a few times if need be, each time from the address that the provider names then. What
 * cannot be fetched may be fetched by the next attempt; what was fetched and is no clip is of no use.
 */
async function copyAgain(
  work: Work,
  following: Following,
  outputUrl: string,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const { provider, job } = following;
  const { repeatable } = provider.capabilities;
  let from = outputUrl;
  for (let copies = 1; ; copies += 1) {
    try {
      await copyClip(work, provider, from, key, signal);
      return;
    } catch (cause) {
      const isPermanent = cause instanceof EffectError && cause.retry === 'permanent';
      if (signal.aborted || isPermanent || repeatable) throw cause;
      if (copies === maxCopies) throw asCopyFailure(job, cause);
    }
    await sleep(copyWaitMs * 2 ** copies, undefined, { signal });
    from = await freshOutput(following, from, signal);
  }
}

/** An output that is there but no clip will not become one: only such a failure buys another prediction. */
function asCopyFailure({ provider, id }: VideoJobRef, cause: unknown): unknown {
  const isUnfit = cause instanceof EffectError && !cause.isResumable && cause.code === 'i2v_failed';
  return isUnfit ? cause : resumable(`cannot copy the output of ${provider} ${id}`, cause);
}

/** Where the output is now: some providers name another address each time. */
async function freshOutput(
  { provider, job }: Following,
  known: string,
  signal: AbortSignal,
): Promise<string> {
  const status = await readStatus(provider, job, signal);
  if (status.state === 'failed') throw failureError(job, status.failure);
  return status.state === 'succeeded' ? status.outputUrl : known;
}

/** Outputs are checked before the stage counts as done. */
async function copyClip(
  { params, deps }: Work,
  provider: VideoProvider,
  outputUrl: string,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  await withFolder(deps.tempDir, async (folder) => {
    const copied = join(folder, 'clip.mp4');
    const headers = provider.outputHeaders?.(outputUrl) ?? {};
    await withLimit(signal, limits.downloadMs, (limited) =>
      deps.copyOutput(outputUrl, copied, { headers, signal: limited }),
    );
    const file = await fit(copied, join(folder, 'conformed.mp4'));
    await deps.storage.put(key, { file }, { contentType: 'video/mp4', signal });
  });

  /** A clip of the local engine is fit as it is; a loop's halves are encoded when they are joined. */
  async function fit(copied: string, conformed: string): Promise<string> {
    if (provider.capabilities.repeatable) await deps.checkClip(copied);
    else await deps.checkForeignClip(copied);
    if (provider.capabilities.repeatable || params.stage !== 'single') return copied;
    const { seconds, model } = params.options;
    await deps.conform({ clip: copied, seconds, model, output: conformed }, signal);
    await deps.checkClip(conformed);
    return conformed;
  }
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

const tokenOf = ({ run, stage, attempt }: Params, { id }: EffectContext) =>
  `${id}-${run}-${stage}-${attempt}`;

const segments: Record<string, Segment> = { stage1: 'out', stage2: 'back', single: 'whole' };

function toJob(work: Work, provider: VideoProvider, deadline: number): VideoJob {
  const { params, context, deps, token } = work;
  const { run, stage, attempt, source, prompt, motionPlan, options, previousClipKey } = params;
  const image: ImageRef = {
    contentType: source.contentType,
    read: (signal) => readWork(deps.storage, source.key, signal),
    publish: publisher(work),
  };
  const place = { asset: context.id, project: context.project, run, stage, attempt };
  const callbackUrl = deps.callbackUrl(provider.name, place);
  return {
    token,
    source: image,
    firstFrame: previousClipKey === null ? image : lastFrameOf(previousClipKey, work),
    // The way back ends where the way out began.
    ...(previousClipKey !== null && takesLastFrame(provider, options.model) ? { lastFrame: image } : {}),
    prompt,
    plan: motionPlan,
    motion: options.motion,
    mode: options.mode,
    segment: segments[stage] ?? 'whole',
    loopMode: options.loopMode,
    seconds: options.seconds,
    aspect: options.aspect,
    model: options.model,
    seed: seedOf(options.seed, context.id, run),
    ...(callbackUrl === undefined ? {} : { callbackUrl }),
    deadline,
  };
}

/** Puts images under addresses as the asset's own media have, for as long as the work lasts. */
function publisher({ params, context, deps, published }: Work) {
  return async (jpg: Uint8Array, signal: AbortSignal): Promise<string> => {
    const hash = createHash('sha256').update(jpg).digest('hex').slice(0, hashDigits);
    const key = `media/${context.id}/${params.run}-${hash}${shownEnding}`;
    await deps.storage.put(key, jpg, { contentType: 'image/jpeg', signal });
    published.add(key);
    return deps.mediaUrl(key);
  };
}

/** Made only for a provider that reads it. */
function lastFrameOf(clipKey: string, work: Work): ImageRef {
  const { deps } = work;
  return {
    contentType: 'image/png',
    publish: publisher(work),
    read: (signal) =>
      withFolder(deps.tempDir, async (folder) => {
        const clip = await workToFile(deps.storage, clipKey, join(folder, 'clip.mp4'), signal);
        const output = join(folder, 'last.png');
        await deps.lastFrame({ clip, output }, signal);
        return readFile(output);
      }),
  };
}
