/**
 * Buys a prediction: at most one for an attempt, whatever is lost on the way (wire formats 1, rules 4, 5 and 9).
 *
 *   known from before? ─▶ go on with it
 *   gate ─▶ note that a submit begins ─▶ submit ─▶ answered: it is ours
 *                                          ├─ refused for certain ─▶ the next provider, or fail
 *                                          └─ no whole answer ─▶ wait for a callback that tells of it, then fail
 *
 * What fails here has bought nothing, or nothing that anybody has heard of.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { VideoJobRef } from '../../schemas/asset-messages.ts';
import { EffectError } from '../../schemas/errors.ts';
import { provider as limits } from '../../schemas/limits.ts';
import { ProviderError, type VideoJob, type VideoProvider } from '../providers/provider.ts';
import type { EffectDeps } from './deps.ts';
import { withLimit } from './limit.ts';

export type Order = {
  /** Of the attempt, and of its stage. */
  token: string;
  stageKey: string;
  /** To be asked in this order. */
  providers: readonly VideoProvider[];
  /** How long a place at the gate is held at most, in ms. */
  holdMs: number;
  jobFor(provider: VideoProvider): VideoJob;
};

/** @throws {EffectError} as the last provider that was asked has refused. */
export async function buy(order: Order, signal: AbortSignal, deps: EffectDeps): Promise<VideoJobRef> {
  let refusal: unknown = new EffectError('i2v_failed', 'no provider makes clips of this kind', {
    retry: 'permanent',
  });
  for (const provider of order.providers) {
    try {
      return await buyFrom(provider, order, signal, deps);
    } catch (cause) {
      if (signal.aborted || !mayAskAnother(cause)) throw cause;
      refusal = cause;
    }
  }
  throw refusal;
}

/** A submit. A provider's own limit ends it first; this one is for those that do not keep it. */
export async function submit(
  provider: VideoProvider,
  video: VideoJob,
  signal: AbortSignal,
): Promise<VideoJobRef> {
  const submitted = await withLimit(signal, limits.submitMs + graceMs, (limited) =>
    provider.submit(video, limited),
  );
  return { provider: provider.name, ...submitted };
}

const graceMs = 1_000;
const lookMs = 1_000;

async function buyFrom(
  provider: VideoProvider,
  order: Order,
  signal: AbortSignal,
  deps: EffectDeps,
): Promise<VideoJobRef> {
  // Costs nothing and gives the same job each time.
  if (provider.capabilities.repeatable) return submit(provider, order.jobFor(provider), signal);
  const { purchases, now } = deps;
  const { token, stageKey } = order;
  const purchase = { token, stageKey, provider: provider.name };
  const known = await purchases.find(purchase);
  if (known) return known;

  await purchases.enter(provider.name, token, now() + order.holdMs, signal);
  try {
    const begun = await purchases.begin(purchase);
    if (begun.state === 'known') return begun.job;
    if (begun.state === 'fresh') return await submitOnce(provider, order, signal, deps);
    return await recognise(provider, token, begun.sinceTs + limits.submitMs, signal, deps);
  } catch (cause) {
    await purchases.leave(provider.name, token);
    throw cause;
  }
}

async function submitOnce(
  provider: VideoProvider,
  order: Order,
  signal: AbortSignal,
  deps: EffectDeps,
): Promise<VideoJobRef> {
  try {
    return await submit(provider, order.jobFor(provider), signal);
  } catch (cause) {
    const isAmbiguous = isUnsure(cause);
    if (!isAmbiguous) await deps.purchases.refused(order.token);
    if (cause instanceof ProviderError) await deps.purchases.failed(provider.name, cause.failure);
    // Interrupted: whoever goes on finds the submit begun, and waits for word of it.
    if (signal.aborted || !isAmbiguous) throw cause;
    return recognise(provider, order.token, deps.now(), signal, deps);
  }
}

/** An error of ours comes before the first byte; anything else may have come after it. */
function isUnsure(cause: unknown): boolean {
  if (cause instanceof ProviderError) return cause.isAmbiguous;
  return !(cause instanceof EffectError);
}

/** Waits for word of a submit without an answer, from a callback or from who made it. */
async function recognise(
  { name, capabilities }: VideoProvider,
  token: string,
  sinceTs: number,
  signal: AbortSignal,
  { purchases, now }: EffectDeps,
): Promise<VideoJobRef> {
  const untilTs = sinceTs + (capabilities.recogniseMs ?? 0);
  const hints = purchases.onHint(token);
  try {
    for (;;) {
      const { job, isRefused } = await purchases.look(token);
      if (job) return job;
      if (isRefused) throw new EffectError('i2v_failed', `${name} refused the submit of ${token}`);
      if (now() >= untilTs) break;
      await Promise.race([sleep(Math.min(lookMs, untilTs - now()), undefined, { signal }), hints.next()]);
    }
    const job = await purchases.giveUp(token);
    if (job) return job;
  } finally {
    hints.stop();
  }
  throw new EffectError('i2v_failed', `${name} gave no answer to the submit of ${token}`);
}

/** Another provider may do what this one certainly has not done, unless it is the work that is refused. */
function mayAskAnother(cause: unknown): boolean {
  if (!(cause instanceof ProviderError) || cause.isAmbiguous) return false;
  const { reason } = cause.failure;
  return reason !== 'rejected_content' && reason !== 'bad_input';
}
