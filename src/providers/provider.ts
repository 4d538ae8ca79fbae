/**
 * What a model provider must offer: one interface for vision, one for image-to-video.
 *
 * The pipeline owns attempts, backoff and time limits; an adapter makes one exchange per call, obeys its
 * AbortSignal and throws EffectError or answers a Failure, never retries by itself.
 */
import type { Aspect, LoopMode, Mode, Model, Motion } from '../../schemas/asset.ts';
import type { MotionPlan } from '../../schemas/motion.ts';

/** An image that a provider takes by address or by its bytes, whichever it accepts. */
export type ImageRef = {
  /** Public https address, when storage has one. */
  url?: string;
  contentType: string;
  read(signal: AbortSignal): Promise<Uint8Array>;
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

export type VideoStatus =
  | { state: 'queued' | 'running'; progress?: number; position?: number; pollAfterMs: number }
  | { state: 'succeeded'; outputUrl: string; seconds?: number; costMicros?: number; expiresAt?: number }
  | { state: 'failed'; failure: Failure }
  | { state: 'cancelled' };

export type VideoCapabilities = {
  lastFrame: boolean;
  loopFlag: boolean;
  seconds: readonly number[] | readonly [min: number, max: number];
  seed: boolean;
  maxInlineBytes: number;
  callback: 'hmac' | 'ed25519' | 'unsigned' | 'none';
  cancel: 'running' | 'queued';
  /** A submit with a known token costs nothing and gives the same job: safe to repeat after a crash. */
  repeatable: boolean;
};

export type VideoProvider = {
  readonly name: string;
  readonly capabilities: VideoCapabilities;
  submit(job: VideoJob, signal: AbortSignal): Promise<Submitted>;
  /** `failed` with reason `gone` when the provider does not know the job any more. */
  status(submitted: Submitted, signal: AbortSignal): Promise<VideoStatus>;
  cancel(submitted: Submitted, signal: AbortSignal): Promise<'cancelled' | 'too_late' | 'unknown'>;
};
