/** What every remote video provider is made of, and what their adapters share. */
import { provider as limits } from '../../schemas/limits.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { ChosenModel, ChosenModels, RemoteName } from './models.ts';
import { secondsFor, seedFor, withLastFrame, writtenSeconds } from './models.ts';
import type { Failure, VideoCapabilities, VideoJob } from './provider.ts';
import { sendImage } from './send-image.ts';
import { createWire, type ProviderLog, type Wire } from './wire.ts';

export type RemoteOptions = {
  key: string;
  /** Without a slash at its end. */
  baseUrl: string;
  models: ChosenModels;
  /** Whether it can read public addresses of this installation. */
  canFetch: boolean;
  outbound: Pick<Outbound, 'request'>;
  log: ProviderLog;
  /** Unix ms. */
  now(): number;
};

/** The wire to a provider, with its credentials. */
export function openWire(
  name: RemoteName,
  { key, outbound, log, now }: RemoteOptions,
  headers: Record<string, string>,
): Wire {
  return createWire({ name, code: 'i2v_failed', outbound, headers, secrets: [key], log, now });
}

export function capabilitiesOf(
  models: ChosenModels,
  more: Pick<VideoCapabilities, 'callback' | 'cancel'> & { recogniseMs?: number },
): VideoCapabilities {
  const lastFrameModels = withLastFrame(models);
  return {
    lastFrame: lastFrameModels.length > 0,
    lastFrameModels,
    loopFlag: false,
    seconds: models.fast.seconds,
    seed: models.fast.takesSeed === true,
    maxInlineBytes: limits.maxInlineBytes,
    repeatable: false,
    ...more,
  };
}

/** The frames of a clip as the provider can read them. */
export async function framesOf(job: VideoJob, canFetch: boolean, signal: AbortSignal) {
  const way = { canFetch, backdrop: job.plan.palette[0] ?? '#ffffff' };
  const first = await sendImage(job.firstFrame, way, signal);
  return { first, ...(job.lastFrame ? { last: await sendImage(job.lastFrame, way, signal) } : {}) };
}

/** Inputs of a clip by the names that its model has for them. */
export async function inputsOf(
  model: ChosenModel,
  job: VideoJob,
  canFetch: boolean,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  const { first, last } = await framesOf(job, canFetch, signal);
  return {
    ...model.extra,
    ...(job.model === 'cinema' ? model.best : {}),
    prompt: promptOf(job),
    [model.first]: first,
    ...(model.last !== undefined && last !== undefined ? { [model.last]: last } : {}),
    ...(model.negative !== undefined && job.negativePrompt ? { [model.negative]: job.negativePrompt } : {}),
    ...(model.takesSeed ? { seed: seedFor(job.seed) } : {}),
    duration: writtenSeconds(model, secondsFor(model, job)),
  };
}

/** The words of a clip; every provider takes so many. */
export const promptOf = ({ prompt }: VideoJob): string => prompt.slice(0, limits.promptMaxChars);

/** The prediction is there no more, or its output is not. */
export function goneFailure(message: string): Failure {
  return { kind: 'transient', reason: 'gone', message };
}

/** Words that say that the account is empty, where a provider has no status for it. */
export function isBilling(text: string): boolean {
  return /\benough credits\b|\bexhausted balance\b|\btop.up\b/i.test(text);
}

/** Words that say that the content was the reason, where a provider has no code for it. */
export function isModeration(text: string): boolean {
  return /\b(nsfw|moderat\w*|safety|content polic\w*|flagged|sensitive|inappropriate|prohibited|blacklisted|e005)\b/i.test(
    text,
  );
}

/** An address of a prediction as a provider gave it, if it is on the provider's own base. */
export function ownUrl(baseUrl: string, given: unknown): string | undefined {
  if (typeof given !== 'string' || !URL.canParse(given)) return undefined;
  const { origin, pathname } = new URL(baseUrl);
  const url = new URL(given);
  const isOurs = url.origin === origin && url.pathname.startsWith(pathname === '/' ? '/' : `${pathname}/`);
  return isOurs && url.username === '' ? url.href : undefined;
}
