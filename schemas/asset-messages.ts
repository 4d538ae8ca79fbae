/**
 * What can happen to an asset, and what its machine keeps.
 *
 * Every message carries `ts`, unix ms: the owner of the asset's partition stamps it, strictly increasing
 * within a project. Answers of effects name the run, stage and attempt they belong to, so that late ones
 * are recognised (invariant I6).
 */
import { z } from 'zod';
import { Aspect, LoopMode, Mode, Model, Motion, PromptOverride, Seconds, Seed } from './asset.ts';
import { ErrorCode } from './errors.ts';
import { Stage } from './events.ts';
import { MotionPlan } from './motion.ts';
import { PlanName } from './plans.ts';

/** The options of one run, all decided. */
export const RunOptions = z.object({
  motion: Motion,
  mode: Mode,
  seconds: Seconds,
  seed: Seed.nullable(),
  promptOverride: PromptOverride.nullable(),
  aspect: Aspect,
  model: Model,
  loopMode: LoopMode,
});
export type RunOptions = z.infer<typeof RunOptions>;

/** What begins a run: the request that asked for it, its options, the plan it was accepted under. */
export const RunRequest = z.object({
  run: z.int().min(1),
  requestId: z.string(),
  options: RunOptions,
  plan: PlanName,
  /** The hold that counted this run against the quota: see src/store/quota.ts. */
  holdId: z.string(),
});
export type RunRequest = z.infer<typeof RunRequest>;

/** A prediction as its provider named it. Stored before anything else happens to it. */
export const VideoJobRef = z.object({
  provider: z.string(),
  id: z.string(),
  statusUrl: z.string().optional(),
  cancelUrl: z.string().optional(),
  requestId: z.string().optional(),
});
export type VideoJobRef = z.infer<typeof VideoJobRef>;

/** The source's own wait before `vision_started`; shown as the stage `vision` in events. */
export const WorkStage = z.enum(['source', ...Stage.options]);
export type WorkStage = z.infer<typeof WorkStage>;

const ts = z.int();
/** Which work an answer belongs to. */
const answer = { ts, run: z.int(), stage: WorkStage, attempt: z.int() };

/** The finished files of a run, as storage keys. */
export const StoredMedia = z.object({
  run: z.int(),
  mp4Key: z.string(),
  posterKey: z.string(),
  bytes: z.int(),
  width: z.int(),
  height: z.int(),
  loopMode: LoopMode,
});
export type StoredMedia = z.infer<typeof StoredMedia>;

export const AssetMessage = z.discriminatedUnion('type', [
  /** The first run. Also sent again by the sweeper when it was lost: only the first counts. */
  z.object({ type: z.literal('START'), ts }),
  z.object({
    type: z.literal('REGENERATE'),
    ts,
    ...RunRequest.shape,
    /** An operator's: what vision said of the run before is used again, where there is something. */
    keepsVision: z.boolean().optional(),
  }),
  /** `run` absent: whichever it is. With it, a run that has begun meanwhile is left alone. */
  z.object({ type: z.literal('CANCEL'), ts, run: z.int().optional() }),
  /** An operator ends the run. `reason` is shown to its owner instead of the code's own text. */
  z.object({ type: z.literal('FAIL'), ts, run: z.int(), code: ErrorCode, reason: z.string() }),
  /** An operator wants the attempt that waits for its time at once; it names the attempt to come. */
  z.object({ type: z.literal('HURRY'), ...answer }),
  /** Its owner has erased it: nothing begins any more, and nothing is kept of it. */
  z.object({ type: z.literal('ERASE'), ts }),
  /** A worker has begun: the stage's clock runs from here. Stages with a prediction use SUBMITTED. */
  z.object({ type: z.literal('WORK_STARTED'), ...answer }),
  z.object({ type: z.literal('SOURCE_FETCHED'), ...answer, key: z.string(), contentType: z.string() }),
  z.object({ type: z.literal('VISION_COMPLETED'), ...answer, prompt: z.string(), motionPlan: MotionPlan }),
  z.object({ type: z.literal('SUBMITTED'), ...answer, job: VideoJobRef }),
  z.object({
    type: z.literal('OUTPUT_READY'),
    ...answer,
    outputUrl: z.string(),
    costMicros: z.int().optional(),
  }),
  z.object({ type: z.literal('CLIP_COMPLETED'), ...answer, key: z.string() }),
  z.object({
    type: z.literal('STORED'),
    ...answer,
    media: StoredMedia,
    mp4Url: z.string(),
    posterUrl: z.string(),
  }),
  z.object({
    type: z.literal('WORK_FAILED'),
    ...answer,
    code: ErrorCode,
    retry: z.enum(['transient', 'permanent']),
    retryAfterMs: z.int().optional(),
    /** For the operator: log text, never shown to customers. */
    reason: z.string(),
    /** The prediction that has failed: one that the machine does not follow ends nothing. */
    jobId: z.string().optional(),
    /** The prediction is still good: the next attempt goes on with it. */
    isResumable: z.boolean().optional(),
    hint: z.string().optional(),
  }),
  /** The work asked for was interrupted (its worker died): ask again if it is still wanted. */
  z.object({ type: z.literal('RESUME'), ...answer }),
  /** A pending run has grown old: its provider is asked directly (specification 3, cron reconciler). */
  z.object({ type: z.literal('RECONCILE'), ts }),
]);
export type AssetMessage = z.infer<typeof AssetMessage>;
