/**
 * What a model provider must offer: one interface for vision, one for image-to-video.
 *
 * The pipeline owns attempts, backoff and time limits; an adapter makes one exchange per call, obeys its
 * AbortSignal and throws EffectError or answers a Failure, never retries by itself.
 */
import type { Aspect, LoopMode, Mode, Model, Motion } from '../../schemas/asset.ts';
import { EffectError, type ErrorCode } from '../../schemas/errors.ts';
import type { MotionPlan } from '../../schemas/motion.ts';

/** An image that a provider takes by address or by its bytes, whichever it accepts. */
export type ImageRef = {
  contentType: string;
  read(signal: AbortSignal): Promise<Uint8Array>;
  /** Puts a jpg of it under a public address, for as long as its work lasts. Absent where only bytes are of use. */
  publish?(jpg: Uint8Array, signal: AbortSignal): Promise<string>;
};

export type VisionRequest = {
  image: ImageRef;
  motion: Motion;
  mode: Mode;
  promptOverride?: string;
  seed: number;
};

/** What vision made of the source: the words for a remote model, the numbers for the local engine. */
export type VisionResult = { prompt: string; plan: MotionPlan };

export type VisionProvider = {
  readonly name: string;
  /** It is reached over the network and paid: a gate stands in front of it. */
  readonly isRemote?: boolean;
  /** @throws {EffectError} `vision_blocked` (permanent) when the source is refused, transient otherwise. */
  describe(request: VisionRequest, signal: AbortSignal): Promise<VisionResult>;
};

/** Which part of the animation a clip holds: all of it, the way out, or the way back to the first frame. */
export type Segment = 'whole' | 'out' | 'back';

export type VideoJob = {
  /** Unique per (asset, run, stage, attempt): repeating a submit with it is harmless where `repeatable`. */
  token: string;
  /** The image as the customer gave it. */
  source: ImageRef;
  /** First frame of this clip; for `back` the last frame of the clip before it. */
  firstFrame: ImageRef;
  /** Present only when `capabilities.lastFrame`. */
  lastFrame?: ImageRef;
  prompt: string;
  negativePrompt?: string;
  plan: MotionPlan;
  motion: Motion;
  mode: Mode;
  segment: Segment;
  loopMode: LoopMode;
  /** Length of the finished animation, in seconds; a loop's two clips share it. */
  seconds: number;
  aspect: Aspect;
  model: Model;
  seed: number;
  callbackUrl?: string;
  /** Unix ms after which the result is of no use. */
  deadline: number;
};

export type Submitted = {
  id: string;
  statusUrl?: string | undefined;
  cancelUrl?: string | undefined;
  requestId?: string | undefined;
};

export type FailureReason =
  | 'rate_limited'
  | 'unavailable'
  | 'network'
  | 'timeout'
  | 'rejected_content'
  | 'bad_input'
  | 'auth'
  | 'billing'
  | 'gone'
  | 'unknown';

export type Failure = {
  kind: 'transient' | 'permanent';
  reason: FailureReason;
  retryAfterMs?: number;
  httpStatus?: number;
  providerCode?: string;
  message: string;
  requestId?: string;
};

/**
 * A failed exchange with a provider, in its terms. `isAmbiguous` is a submit that may have been accepted all the
 * same: bytes were sent, and no whole answer came. It must not be repeated blindly.
 */
export class ProviderError extends EffectError {
  readonly failure: Failure;
  readonly isAmbiguous: boolean;

  constructor(
    code: ErrorCode,
    provider: string,
    failure: Failure,
    options: { isAmbiguous?: boolean; cause?: unknown } = {},
  ) {
    const { kind, reason, message, retryAfterMs } = failure;
    super(code, `${provider}: ${reason}: ${message}`, {
      retry: kind,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(isOperators(failure) ? { hint: unavailableHint } : {}),
      ...(options.cause === undefined ? {} : { cause: options.cause }),
    });
    this.failure = failure;
    this.isAmbiguous = options.isAmbiguous ?? false;
  }
}

/** Failures that only the operator can mend: customers are told no more than this. */
export const unavailableHint = 'provider unavailable';

export function isOperators({ reason }: Failure): boolean {
  return reason === 'auth' || reason === 'billing';
}

/** A provider's report about a prediction, as it came over the network. */
export type RawCallback = { header(name: string): string; body: Uint8Array };

/** What a callback is worth: a prediction's id, to look at now; or why it is refused. */
export type CallbackVerdict = { ok: true; job: Submitted } | { ok: false; why: 'signature' | 'content' };

export type VideoStatus =
  | { state: 'queued' | 'running'; progress?: number; position?: number; pollAfterMs: number }
  | { state: 'succeeded'; outputUrl: string; seconds?: number; costMicros?: number; expiresAt?: number }
  | { state: 'failed'; failure: Failure }
  | { state: 'cancelled' };

export type VideoCapabilities = {
  lastFrame: boolean;
  /** Models that take one, where not all of them do. */
  lastFrameModels?: readonly Model[];
  loopFlag: boolean;
  seconds: readonly number[] | readonly [min: number, max: number];
  seed: boolean;
  maxInlineBytes: number;
  callback: 'hmac' | 'ed25519' | 'unsigned' | 'none';
  cancel: 'running' | 'queued';
  /** A submit with a known token costs nothing and gives the same job: safe to repeat after a crash. */
  repeatable: boolean;
  /** How long to wait for a callback that tells of a submit without an answer, in ms. */
  recogniseMs?: number;
};

/** What came of calling a prediction off; `unknown`: there is no such prediction. */
export type Cancelled = 'cancelled' | 'too_late' | 'unknown';

export type VideoProvider = {
  readonly name: string;
  readonly capabilities: VideoCapabilities;
  submit(job: VideoJob, signal: AbortSignal): Promise<Submitted>;
  /** `failed` with reason `gone` when the provider does not know the job any more. */
  status(submitted: Submitted, signal: AbortSignal): Promise<VideoStatus>;
  cancel(submitted: Submitted, signal: AbortSignal): Promise<Cancelled>;
  /** Checks a callback's signature and time, and reads which prediction it tells of. Absent without callbacks. */
  readCallback?(callback: RawCallback): Promise<CallbackVerdict>;
  /** What a clip costs, in millionths of a dollar, where the status does not tell; undefined when nobody knows. */
  priceOf?(job: VideoJob): number | undefined;
  /** Headers to read an output with: its key, for its own hosts alone. */
  outputHeaders?(url: string): Record<string, string>;
};

/** Whether clips of a model can be told how to end. */
export function takesLastFrame({ capabilities }: VideoProvider, model: Model): boolean {
  const { lastFrame, lastFrameModels } = capabilities;
  return lastFrame && (lastFrameModels?.includes(model) ?? true);
}
