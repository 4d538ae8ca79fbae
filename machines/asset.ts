/**
 * An asset: one generated animation, run by run. Its identity outlives every run.
 *
 *   new ──START──▶ pending ──────────────────────────────────────────────▶ ready
 *                     │  source ▶ vision ▶ stage1 ▶ stage2 ▶ merge ▶ storing
 *                     │                 └▶ single ───────────────┘
 *                     ├── WORK_FAILED permanent, or no attempt left ─────▶ failed
 *                     ├── stallAfter ────────────────────────────────────▶ failed (pipeline_stalled)
 *                     ├── FAIL ──────────────────────────────────────────▶ failed (from new, too; an operator's)
 *                     └── CANCEL ────────────────────────────────────────▶ cancelled (from new, too)
 *
 *   inside a stage    waiting for a worker ──begun──▶ at work ──done──▶ next stage
 *                               ▲                        ├─ WORK_FAILED, or the stage's time is over
 *                               └── retryDelay, HURRY ── retrying
 *
 *   REGENERATE leads from every state to pending, as the next run; ERASE from every state to erased, for good. A run
 *   that keeps what vision said of the one before goes from source to its first clip.
 *
 * Waiting for a worker starts no clock (fetching, asked, submitting, writing). A prediction is stored in the
 * step that leaves `submitting`, before anything else happens to it.
 */
import { and, assign, cancel, raise, setup } from 'xstate';
import type {
  AssetMessage,
  RunOptions,
  RunRequest,
  StoredMedia,
  VideoJobRef,
  WorkStage,
} from '../schemas/asset-messages.ts';
import { type ErrorCode, errorCodes } from '../schemas/errors.ts';
import type { AssetEvent, EventName, Stage } from '../schemas/events.ts';
import { pipeline } from '../schemas/limits.ts';
import type { MotionPlan } from '../schemas/motion.ts';
import type { PlanName } from '../schemas/plans.ts';
import { declare } from './declare.ts';
import { delayBefore } from './retry.ts';

/** Version of the stored snapshot's shape; migrations lead from each to the next (architecture 3). */
export const assetMachineVersion = 1;

/** Times an operator may change (decisions 10), in ms. All processes must agree on them. */
export type PipelineTimes = {
  maxAttempts: number;
  backoffMs: readonly number[];
  visionTimeoutMs: number;
  videoTimeoutMs: number;
  mergeTimeoutMs: number;
  reconcileAfterMs: number;
  reconcileEveryMs: number;
  stallAfterMs: number;
};

export type AssetInput = RunRequest & { projectId: string; src: string };

export type AssetContext = AssetInput & {
  runStartedTs: number;
  /** Work in progress: its stage and 1-based attempt, when the stage began, since when its clock runs (0: not yet). */
  stage: WorkStage;
  attempt: number;
  stageTs: number;
  clockTs: number;
  retryAfterMs: number;
  source: SourceRef | null;
  vision: { prompt: string; motionPlan: MotionPlan } | null;
  job: VideoJobRef | null;
  outputUrl: string | null;
  /** Storage keys of this run's finished clips. */
  clips: { stage1?: string; stage2?: string; single?: string; merge?: string };
  costMicros: number;
  /** The newest finished files, of this run or an earlier one. */
  media: StoredMedia | null;
  latencyMs: number | null;
  /** `reason`: log text of the last failure, for operators alone. */
  error: { code: ErrorCode; message: string; hint: string | null; reason?: string } | null;
};

type SourceRef = { key: string; contentType: string };
type VideoStage = 'stage1' | 'stage2' | 'single';

/** Which work an effect does; its answer names it again. */
export type WorkRef = { run: number; stage: WorkStage; attempt: number };

/** Work this machine asks for, performed after its new state is stored: see src/effects. */
export type AssetEffects = {
  fetchSource: WorkRef & { src: string };
  vision: WorkRef & { source: SourceRef; options: RunOptions; plan: PlanName };
  animate: WorkRef & {
    source: SourceRef;
    prompt: string;
    motionPlan: MotionPlan;
    options: RunOptions;
    /** The way out, for the stage that leads back. */
    previousClipKey: string | null;
    /** Present when the prediction was submitted before: it is followed, not submitted again. */
    job: VideoJobRef | null;
    outputUrl: string | null;
    /** Unix ms of the submit (0: to come), and what the stage may take from there, in ms. */
    clockTs: number;
    timeoutMs: number;
  };
  merge: WorkRef & { clipKeys: [out: string, back: string]; options: RunOptions; timeoutMs: number };
  storeWrite: WorkRef & { clipKey: string; options: RunOptions };
  cancelVideo: { run: number; job: VideoJobRef };
  /** The run has ended: its intermediate files are of no use any more. */
  cleanUp: { run: number };
};

/** What `record` notes: a fact's fields but for ids and ts. The runtime turns `delayMs` into next_at_ms. */
export type RecordedFact = Omit<AssetEvent, 'ts' | 'asset_id' | 'project_id' | 'next_at_ms'> & {
  delayMs?: number;
  /** On `queued`, for its webhook. */
  options?: RunOptions;
};

type Args = { context: AssetContext; event: AssetMessage };

/** Makes the machine with the times of this installation. */
export function createAssetMachine(times: PipelineTimes = pipeline) {
  return setup({
    types: { input: {} as AssetInput, context: {} as AssetContext, events: {} as AssetMessage },
    actions: {
      fetchSource: declare<AssetEffects['fetchSource']>(),
      vision: declare<AssetEffects['vision']>(),
      animate: declare<AssetEffects['animate']>(),
      merge: declare<AssetEffects['merge']>(),
      storeWrite: declare<AssetEffects['storeWrite']>(),
      cancelVideo: declare<AssetEffects['cancelVideo']>(),
      cleanUp: declare<AssetEffects['cleanUp']>(),
      record: declare<RecordedFact>(),
      watch: raise({ type: 'RECONCILE', ts: 0 }, { delay: 'reconcileAfter', id: 'reconcile' }),
      watchOn: raise({ type: 'RECONCILE', ts: 0 }, { delay: 'reconcileEvery', id: 'reconcile' }),
      watchNoMore: cancel('reconcile'),
      beginRun: assign(({ context, event }) => ({
        ...emptyRun,
        ...requestOf(event),
        vision: keepsVision(event) ? context.vision : null,
        runStartedTs: tsOf(event, context),
      })),
      beginStage: assign(({ context, event }, { stage }: { stage: WorkStage }) => ({
        ...freshAttempt,
        stage,
        attempt: 1,
        retryAfterMs: 0,
        stageTs: tsOf(event, context),
      })),
      beginAttempt: assign(({ context, event }) => ({
        ...freshAttempt,
        attempt: context.attempt + 1,
        job: isResumable(event) ? context.job : null,
      })),
      startClock: assign(({ context, event }) => ({ clockTs: tsOf(event, context) })),
      noteFailure: assign(({ event }) => failureOf(event)),
      noteVerdict: assign(({ event }) => (event.type === 'FAIL' ? verdictOf(event) : {})),
      forgetError: assign({ error: null }),
      // What is left says which runs were counted, and nothing of what its owner had made.
      forgetAll: assign(({ context }) => ({
        ...emptyRun,
        ...freshAttempt,
        src: '',
        options: { ...context.options, promptOverride: null },
        media: null,
      })),
      noteError: assign((_, { code }: { code: ErrorCode }) => ({ retryAfterMs: 0, error: errorOf(code) })),
      keepSource: assign(({ event }) =>
        event.type === 'SOURCE_FETCHED' ? { source: { key: event.key, contentType: event.contentType } } : {},
      ),
      keepVision: assign(({ event }) =>
        event.type === 'VISION_COMPLETED'
          ? { vision: { prompt: event.prompt, motionPlan: event.motionPlan } }
          : {},
      ),
      keepJob: assign(({ event }) => (event.type === 'SUBMITTED' ? { job: event.job } : {})),
      keepOutput: assign(({ context, event }) =>
        event.type === 'OUTPUT_READY'
          ? { outputUrl: event.outputUrl, costMicros: context.costMicros + (event.costMicros ?? 0) }
          : {},
      ),
      keepClip: assign(({ context, event }) =>
        event.type === 'CLIP_COMPLETED' ? { clips: { ...context.clips, [context.stage]: event.key } } : {},
      ),
      keepMedia: assign(({ context, event }) =>
        event.type === 'STORED'
          ? { media: event.media, latencyMs: event.ts - context.runStartedTs, error: null }
          : {},
      ),
    },
    guards: {
      isCurrent: ({ context, event }) => isCurrent(context, event),
      isNextRun: ({ context, event }) => event.type === 'REGENERATE' && event.run === context.run + 1,
      isNextRunWithJob: ({ context, event }) =>
        event.type === 'REGENERATE' && event.run === context.run + 1 && context.job !== null,
      isLoop: ({ context }) => context.options.mode === 'loop',
      isToCancel: ({ context, event }) =>
        event.type === 'CANCEL' && (event.run === undefined || event.run === context.run),
      isToFail: ({ context, event }) => event.type === 'FAIL' && event.run === context.run,
      hasVision: ({ context }) => context.vision !== null,
      hasJob: ({ context }) => context.job !== null,
      isStrayJob: ({ context, event }) => event.type === 'SUBMITTED' && event.job.id !== context.job?.id,
      // Whether it is gone on with is known where it was noted: see src/store/predictions.ts.
      isOfFormerAttempt: ({ context, event }) =>
        event.type === 'SUBMITTED' &&
        event.run === context.run &&
        event.stage === context.stage &&
        event.attempt < context.attempt,
      isResumable: ({ event }) => isResumable(event),
      mayRetry: ({ context, event }) =>
        event.type === 'WORK_FAILED' &&
        event.retry === 'transient' &&
        isCurrent(context, event) &&
        context.attempt < times.maxAttempts,
      // Another full time limit must fit before the run would be given up as stalled.
      mayRepeat: ({ context }, { timeoutMs }: { timeoutMs: number }) =>
        context.attempt < times.maxAttempts &&
        context.clockTs + 2 * timeoutMs <= context.runStartedTs + times.stallAfterMs,
    },
    delays: {
      retryDelay: ({ context }) => delayBefore(context.attempt, times.backoffMs, context.retryAfterMs),
      visionTimeout: times.visionTimeoutMs,
      mergeTimeout: times.mergeTimeoutMs,
      // One clock for the prediction and the copy of its output.
      videoTimeout: ({ context, event }) => context.clockTs + times.videoTimeoutMs - tsOf(event, context),
      reconcileAfter: times.reconcileAfterMs,
      reconcileEvery: times.reconcileEveryMs,
      stallAfter: times.stallAfterMs,
    },
  }).createMachine({
    id: 'asset',
    context: ({ input }) => ({
      ...emptyRun,
      ...freshAttempt,
      ...input,
      stage: 'source',
      attempt: 1,
      runStartedTs: 0,
      media: null,
    }),
    initial: 'new',
    on: {
      REGENERATE: { guard: 'isNextRun', target: '.pending', actions: 'beginRun' },
      ERASE: { target: '.erased' },
      // A prediction that nobody waits for: its run has ended, or another submit was first.
      SUBMITTED: { guard: 'isStrayJob', actions: cancelStrayJob },
    },
    states: {
      new: {
        on: {
          START: { target: 'pending', actions: 'beginRun' },
          // START may be lost, and is sent again after this.
          CANCEL: { guard: 'isToCancel', target: 'cancelled', actions: [queued, cancelled] },
          FAIL: { guard: 'isToFail', target: 'failed', actions: [queued, 'noteVerdict'] },
          // The first run never began; it still gets its one terminal fact.
          REGENERATE: { guard: 'isNextRun', target: 'pending', actions: [queued, cancelled, 'beginRun'] },
          ERASE: { target: 'erased', actions: [queued, cancelled] },
        },
      },
      pending: {
        initial: 'source',
        entry: [queued, 'watch'],
        exit: ['watchNoMore', cleanUp],
        after: {
          stallAfter: [
            { guard: 'hasJob', target: 'failed', actions: [stalled, cancelJob] },
            { target: 'failed', actions: stalled },
          ],
        },
        on: {
          RECONCILE: { actions: 'watchOn' },
          CANCEL: [
            { guard: and(['isToCancel', 'hasJob']), target: 'cancelled', actions: [cancelled, cancelJob] },
            { guard: 'isToCancel', target: 'cancelled', actions: cancelled },
          ],
          FAIL: [
            { guard: and(['isToFail', 'hasJob']), target: 'failed', actions: ['noteVerdict', cancelJob] },
            { guard: 'isToFail', target: 'failed', actions: 'noteVerdict' },
          ],
          ERASE: [
            { guard: 'hasJob', target: 'erased', actions: [cancelled, cancelJob] },
            { target: 'erased', actions: cancelled },
          ],
          REGENERATE: [
            {
              guard: 'isNextRunWithJob',
              target: 'pending',
              reenter: true,
              actions: [cancelled, cancelJob, 'beginRun'],
            },
            { guard: 'isNextRun', target: 'pending', reenter: true, actions: [cancelled, 'beginRun'] },
          ],
        },
        states: {
          source: {
            initial: 'fetching',
            entry: begin('source'),
            states: {
              fetching: {
                entry: fetchSource,
                on: {
                  ...askAgain(fetchSource),
                  SOURCE_FETCHED: [
                    {
                      guard: and(['isCurrent', 'hasVision', 'isLoop']),
                      target: '#asset.pending.stage1',
                      actions: 'keepSource',
                    },
                    {
                      guard: and(['isCurrent', 'hasVision']),
                      target: '#asset.pending.single',
                      actions: 'keepSource',
                    },
                    { guard: 'isCurrent', target: '#asset.pending.vision', actions: 'keepSource' },
                  ],
                  WORK_FAILED: failing(),
                },
              },
              retrying: retrying('fetching', times),
            },
          },
          vision: {
            initial: 'asked',
            entry: begin('vision'),
            states: {
              asked: {
                entry: vision,
                on: {
                  ...askAgain(vision),
                  WORK_STARTED: {
                    guard: 'isCurrent',
                    target: 'describing',
                    actions: ['startClock', note('vision_started', ofStage)],
                  },
                  WORK_FAILED: failing('vision_failed'),
                },
              },
              describing: {
                after: { visionTimeout: timingOut('vision_failed', 'vision_timeout', times.visionTimeoutMs) },
                on: {
                  ...askAgain(vision),
                  VISION_COMPLETED: [
                    {
                      guard: and(['isCurrent', 'isLoop']),
                      target: '#asset.pending.stage1',
                      actions: visionDone,
                    },
                    { guard: 'isCurrent', target: '#asset.pending.single', actions: visionDone },
                  ],
                  WORK_FAILED: failing('vision_failed'),
                },
              },
              retrying: retrying('asked', times),
            },
          },
          stage1: videoStage('stage1', '#asset.pending.stage2', times),
          stage2: videoStage('stage2', '#asset.pending.merge', times),
          single: videoStage('single', '#asset.pending.storing', times),
          merge: {
            initial: 'asked',
            entry: begin('merge'),
            states: {
              asked: {
                entry: merge(times),
                on: {
                  ...askAgain(merge(times)),
                  WORK_STARTED: {
                    guard: 'isCurrent',
                    target: 'merging',
                    actions: ['startClock', note('stage_started', ofStage)],
                  },
                  WORK_FAILED: failing('stage_failed'),
                },
              },
              merging: {
                after: { mergeTimeout: timingOut('stage_failed', 'merge_failed', times.mergeTimeoutMs) },
                on: {
                  ...askAgain(merge(times)),
                  CLIP_COMPLETED: { guard: 'isCurrent', target: '#asset.pending.storing', actions: clipDone },
                  WORK_FAILED: failing('stage_failed'),
                },
              },
              retrying: retrying('asked', times),
            },
          },
          storing: {
            initial: 'writing',
            entry: begin('store_write'),
            states: {
              writing: {
                entry: storeWrite,
                on: {
                  ...askAgain(storeWrite),
                  STORED: {
                    guard: 'isCurrent',
                    target: '#asset.ready',
                    actions: [
                      'keepMedia',
                      note('store_write_completed', sinceBegun),
                      note('ready', finished),
                    ],
                  },
                  WORK_FAILED: failing(),
                },
              },
              retrying: retrying('writing', times),
            },
          },
        },
      },
      ready: {},
      failed: { entry: note('failed', whyFailed) },
      cancelled: { entry: 'forgetError' },
      // A prediction that is heard of only now is still cancelled: see the machine's own SUBMITTED.
      erased: { entry: 'forgetAll', on: { REGENERATE: {}, ERASE: {} } },
    },
  });
}

// ── What several stages share ───────────────────────────────────────────────────────────────────

/** A stage whose work is a prediction: submitted, followed, its output copied at once. */
function videoStage(stage: VideoStage, next: string, times: PipelineTimes) {
  const animate = { type: 'animate' as const, params: ({ context }: Args) => animateParams(context, times) };
  const after = {
    videoTimeout: timingOut('stage_failed', 'i2v_timeout', times.videoTimeoutMs, [cancelJob]),
  };
  const atWork = {
    ...askAgain(animate),
    CLIP_COMPLETED: { guard: 'isCurrent' as const, target: next, actions: clipDone },
  };
  return {
    initial: 'submitting' as const,
    entry: begin(stage),
    states: {
      submitting: {
        entry: animate,
        on: {
          ...askAgain(animate),
          SUBMITTED: [
            {
              guard: 'isCurrent' as const,
              target: 'waiting',
              actions: ['keepJob' as const, 'startClock' as const, note('stage_started', ofStage)],
            },
            { guard: 'isOfFormerAttempt' as const },
          ],
          WORK_FAILED: failing('stage_failed'),
        },
      },
      waiting: {
        after,
        on: {
          ...atWork,
          OUTPUT_READY: { guard: 'isCurrent' as const, target: 'copying', actions: 'keepOutput' as const },
          // It may be running all the same, when only the way to its provider was broken.
          WORK_FAILED: [
            {
              guard: and(['mayRetry', 'isResumable']),
              target: 'retrying',
              actions: ['noteFailure' as const, note('stage_failed', failureOfStage)],
            },
            ...failing('stage_failed', [cancelJob]),
          ],
        },
      },
      copying: { after, on: { ...atWork, WORK_FAILED: failing('stage_failed') } },
      retrying: retrying('submitting', times, { SUBMITTED: { guard: 'isOfFormerAttempt' as const } }),
    },
  };
}

const begin = (stage: WorkStage) => ({ type: 'beginStage' as const, params: { stage } });

/** Asks for the work again when its worker died or a reconcile is due. The stage's clock runs on. */
function askAgain<Ask>(ask: Ask) {
  return {
    RESUME: { guard: 'isCurrent' as const, actions: ask },
    RECONCILE: { actions: [ask, 'watchOn' as const] },
  };
}

/** What failed work leads to. `told` is the event that tells of it, for the stages that have one. */
function failing<More = never>(told?: 'vision_failed' | 'stage_failed', more: readonly More[] = []) {
  const facts = told ? [note(told, failureOfStage)] : [];
  const actions = ['noteFailure' as const, ...facts, ...more];
  return [
    { guard: 'mayRetry' as const, target: 'retrying', actions },
    { guard: 'isCurrent' as const, target: '#asset.failed', actions },
  ];
}

function timingOut<More = never>(
  told: 'vision_failed' | 'stage_failed',
  code: ErrorCode,
  timeoutMs: number,
  more: readonly More[] = [],
) {
  const actions = [
    { type: 'noteError' as const, params: { code } },
    note(told, (context) => ({ ...failureOfStage(context), latency_ms: timeoutMs })),
    ...more,
  ];
  return [
    { guard: { type: 'mayRepeat' as const, params: { timeoutMs } }, target: 'retrying', actions },
    { target: '#asset.failed', actions },
  ];
}

/** The wait before the next attempt, counted first so that retry_scheduled names the attempt to come. */
function retrying<More extends object>(target: string, times: PipelineTimes, more?: More) {
  return {
    entry: [
      'beginAttempt' as const,
      note('retry_scheduled', (context) => ({
        ...ofStage(context),
        ...errorOfRun(context),
        delayMs: delayBefore(context.attempt, times.backoffMs, context.retryAfterMs),
      })),
    ],
    after: { retryDelay: target },
    on: { HURRY: { guard: 'isCurrent' as const, target }, ...more },
  };
}

// ── Work ────────────────────────────────────────────────────────────────────────────────────────

const workRef = ({ run, stage, attempt }: AssetContext): WorkRef => ({ run, stage, attempt });

const fetchSource = {
  type: 'fetchSource' as const,
  params: ({ context }: Args): AssetEffects['fetchSource'] => ({ ...workRef(context), src: context.src }),
};

const vision = {
  type: 'vision' as const,
  params: ({ context }: Args): AssetEffects['vision'] => ({
    ...workRef(context),
    source: known(context.source, 'source'),
    options: context.options,
    plan: context.plan,
  }),
};

function animateParams(context: AssetContext, times: PipelineTimes): AssetEffects['animate'] {
  return {
    ...workRef(context),
    source: known(context.source, 'source'),
    ...known(context.vision, 'vision'),
    options: context.options,
    previousClipKey: context.stage === 'stage2' ? known(context.clips.stage1, 'stage1') : null,
    job: context.job,
    outputUrl: context.outputUrl,
    clockTs: context.clockTs,
    timeoutMs: times.videoTimeoutMs,
  };
}

const merge = (times: PipelineTimes) => ({
  type: 'merge' as const,
  params: ({ context }: Args): AssetEffects['merge'] => ({
    ...workRef(context),
    clipKeys: [known(context.clips.stage1, 'stage1'), known(context.clips.stage2, 'stage2')],
    options: context.options,
    timeoutMs: times.mergeTimeoutMs,
  }),
});

const storeWrite = {
  type: 'storeWrite' as const,
  params: ({ context }: Args): AssetEffects['storeWrite'] => ({
    ...workRef(context),
    clipKey: known(context.clips.merge ?? context.clips.single, 'clip'),
    options: context.options,
  }),
};

const cancelJob = {
  type: 'cancelVideo' as const,
  params: ({ context }: Args): AssetEffects['cancelVideo'] => ({
    run: context.run,
    job: known(context.job, 'job'),
  }),
};

const cancelStrayJob = {
  type: 'cancelVideo' as const,
  params: ({ event }: Args): AssetEffects['cancelVideo'] => {
    if (event.type !== 'SUBMITTED') throw new TypeError(`no job in ${event.type}`);
    return { run: event.run, job: event.job };
  },
};

const cleanUp = { type: 'cleanUp' as const, params: ({ context }: Args) => ({ run: context.run }) };

// ── Facts ───────────────────────────────────────────────────────────────────────────────────────

type Fields = Partial<Omit<RecordedFact, 'event' | 'run' | 'request_id'>>;

function note(event: EventName, fields: (context: AssetContext, message: AssetMessage) => Fields) {
  return {
    type: 'record' as const,
    params: ({ context, event: message }: Args): RecordedFact => ({
      event,
      run: context.run,
      request_id: context.requestId,
      attempt: context.attempt,
      ...fields(context, message),
    }),
  };
}

/** The stage as events name it: fetching the source belongs to vision. */
const ofStage = ({ stage }: AssetContext): { stage: Stage } => ({
  stage: stage === 'source' ? 'vision' : stage,
});

const sinceClock = (context: AssetContext, message: AssetMessage) => ({
  ...ofStage(context),
  latency_ms: context.clockTs === 0 ? 0 : message.ts - context.clockTs,
});

const sinceBegun = (context: AssetContext, message: AssetMessage) => ({
  ...ofStage(context),
  latency_ms: message.ts - context.stageTs,
});

const errorOfRun = ({ error }: AssetContext) =>
  error === null ? {} : { error_code: error.code, error_msg: error.hint ?? error.message };

const failureOfStage = (context: AssetContext, message?: AssetMessage) => ({
  ...(message ? sinceClock(context, message) : ofStage(context)),
  ...errorOfRun(context),
});

const whyFailed = (context: AssetContext) => ({ ...ofStage(context), ...errorOfRun(context) });

const finished = (context: AssetContext, message: AssetMessage) =>
  message.type === 'STORED'
    ? {
        latency_ms: message.ts - context.runStartedTs,
        mp4_url: message.mp4Url,
        poster_url: message.posterUrl,
        bytes: message.media.bytes,
        loop_mode: message.media.loopMode,
      }
    : {};

const stalled = { type: 'noteError' as const, params: { code: 'pipeline_stalled' as const } };
const queued = note('queued', ({ options }) => ({ attempt: 1, options }));
const cancelled = note('cancelled', () => ({}));
const visionDone = ['keepVision' as const, note('vision_completed', sinceClock)];
const clipDone = ['keepClip' as const, note('stage_completed', sinceClock)];

// ── Context ─────────────────────────────────────────────────────────────────────────────────────

const freshAttempt = { clockTs: 0, job: null, outputUrl: null };

const emptyRun = {
  attempt: 1,
  stageTs: 0,
  retryAfterMs: 0,
  source: null,
  vision: null,
  clips: {},
  costMicros: 0,
  latencyMs: null,
  error: null,
};

/** What a regenerate brings along; the first run's request is in the input already. */
function requestOf(message: AssetMessage): Partial<RunRequest> {
  if (message.type !== 'REGENERATE') return {};
  const { run, requestId, options, plan, holdId } = message;
  return { run, requestId, options, plan, holdId };
}

function keepsVision(message: AssetMessage): boolean {
  return message.type === 'REGENERATE' && message.keepsVision === true;
}

/** A message's ts. The machine's own `after` events have none: they read the newest time that is known. */
function tsOf(message: AssetMessage, context: AssetContext): number {
  return message.ts ?? context.clockTs;
}

function isCurrent(context: AssetContext, message: AssetMessage): boolean {
  return (
    'attempt' in message &&
    message.run === context.run &&
    message.stage === context.stage &&
    message.attempt === context.attempt &&
    isOfItsJob(context, message)
  );
}

/** Its prediction is good all the same: the next attempt follows it, and buys none. */
function isResumable(message: AssetMessage): boolean {
  return message.type === 'WORK_FAILED' && message.isResumable === true;
}

/** The failure of a stray prediction, cancelled by ourselves perhaps, says nothing about the one that is followed. */
function isOfItsJob({ job }: AssetContext, message: AssetMessage): boolean {
  return !('jobId' in message) || job === null || message.jobId === job.id;
}

function failureOf(
  message: AssetMessage,
): Pick<AssetContext, 'retryAfterMs' | 'error'> | Record<string, never> {
  if (message.type !== 'WORK_FAILED') return {};
  return {
    retryAfterMs: message.retryAfterMs ?? 0,
    error: {
      ...errorOf(message.code),
      hint: message.hint ?? null,
      reason: message.reason.slice(0, maxReasonChars),
    },
  };
}

const maxReasonChars = 300;

/** An operator's words take the place of the code's own text. */
function verdictOf({ code, reason }: Extract<AssetMessage, { type: 'FAIL' }>) {
  return { retryAfterMs: 0, error: { ...errorOf(code), hint: reason } };
}

const errorOf = (code: ErrorCode) => ({ code, message: errorCodes[code].text, hint: null });

/** A value that an earlier stage has left: without it the machine's own order is broken. */
function known<Value>(value: Value | null | undefined, name: string): Value {
  if (value === null || value === undefined) throw new Error(`the run has no ${name} yet`);
  return value;
}
