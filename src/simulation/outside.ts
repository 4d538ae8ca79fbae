/**
 * The world outside: model providers and webhook receivers. They take their time, fail, fall silent, answer late,
 * and forget that they were asked before.
 */
import type { AssetEffects, WorkRef } from '../../machines/asset.ts';
import { EffectError, type ErrorCode } from '../../schemas/errors.ts';
import type { MotionPlan } from '../../schemas/motion.ts';
import type { Line, Sending } from '../actors/sender.ts';
import type { Effect, EffectContext, EffectMessage } from '../actors/worker.ts';
import type { AttemptResult } from '../effects/deliver.ts';
import type { Audit } from './audit.ts';
import { pipelineTimes } from './times.ts';
import type { Host, World } from './world.ts';

/** How the outside is in one history: shares of all that is asked of it. */
export type Manners = { slow: number; fails: number; refuses: number; silent: number; forgets: number };

export type Outside = ReturnType<typeof createOutside>;

const perProject = 2;
const quickMs = 300;
const slowMs = 4_000;
/** Longer than any stage may take: the machine has given up before. */
const silentMs = 6_000;
const webhookTimeoutMs = 2_000;

export function createOutside(world: World, audit: Audit, manners: Manners) {
  /** Predictions by the work that they were bought for. */
  const jobs = new Map<string, number>();

  const takeMs = (): number => world.between(5, world.chance(manners.slow) ? slowMs : quickMs);

  /** Some time passes, and it may go wrong. @throws {EffectError} or why the work was called off. */
  const work = async (host: Host, { signal }: EffectContext, code: ErrorCode): Promise<void> => {
    await wait(host, world.chance(manners.silent) ? silentMs : takeMs(), signal);
    if (world.chance(manners.fails)) throw new EffectError(code, 'it fails', { retry: 'transient' });
    if (world.chance(manners.refuses)) throw new EffectError(code, 'it refuses', { retry: 'permanent' });
  };

  const buy = (id: string, { run, stage, attempt }: WorkRef): string => {
    const token = `${id}:${run}:${stage}:${attempt}`;
    const before = jobs.get(token) ?? 0;
    const count = before === 0 || world.chance(manners.forgets) ? before + 1 : before;
    jobs.set(token, count);
    return `${token}:${count}`;
  };

  const effectsOf = (host: Host): Readonly<Record<string, Effect>> => {
    const now = host.now;
    const animate = async (
      params: AssetEffects['animate'],
      context: EffectContext,
    ): Promise<EffectMessage> => {
      const ref = refOf(params);
      let { job } = params;
      if (!job) {
        await work(host, context, 'i2v_failed');
        job = { provider: 'model', id: buy(context.id, ref) };
      }
      if (params.clockTs === 0) await context.send({ type: 'SUBMITTED', ts: now(), ...ref, job });
      if (!params.outputUrl) {
        await work(host, context, 'i2v_failed');
        await context.send({ type: 'OUTPUT_READY', ts: now(), ...ref, outputUrl: 'https://model.example/1' });
      }
      await work(host, context, 'i2v_failed');
      return { type: 'CLIP_COMPLETED', ts: now(), ...ref, key: `work/${job.id}` };
    };
    return {
      fetchSource: effect(
        'io',
        'source_unfetchable',
        async (params: AssetEffects['fetchSource'], context) => {
          await work(host, context, 'source_unfetchable');
          return {
            type: 'SOURCE_FETCHED',
            ts: now(),
            ...refOf(params),
            key: 'source',
            contentType: 'image/png',
          };
        },
      ),
      vision: effect('cpu', 'vision_blocked', async (params: AssetEffects['vision'], context) => {
        await context.send({ type: 'WORK_STARTED', ts: now(), ...refOf(params) });
        await work(host, context, 'vision_blocked');
        return { type: 'VISION_COMPLETED', ts: now(), ...refOf(params), prompt: 'it moves', motionPlan };
      }),
      animate: effect('video', 'i2v_failed', animate),
      merge: effect('cpu', 'merge_failed', async (params: AssetEffects['merge'], context) => {
        await context.send({ type: 'WORK_STARTED', ts: now(), ...refOf(params) });
        await work(host, context, 'merge_failed');
        return { type: 'CLIP_COMPLETED', ts: now(), ...refOf(params), key: 'work/merged' };
      }),
      storeWrite: effect('io', 'store_write_failed', async (params: AssetEffects['storeWrite'], context) => {
        await work(host, context, 'store_write_failed');
        return { type: 'STORED', ts: now(), ...refOf(params), ...filesOf(params.run) };
      }),
      cancelVideo: effect('io', 'i2v_failed', async (_: AssetEffects['cancelVideo'], { signal }) => {
        await wait(host, takeMs(), signal);
        return undefined;
      }),
      cleanUp: effect('io', 'store_write_failed', async (_: AssetEffects['cleanUp'], { signal }) => {
        await wait(host, takeMs(), signal);
        return undefined;
      }),
    };
  };

  const attemptOf = async (host: Host, { attempt, eventId, payload }: Sending): Promise<AttemptResult> => {
    const failed = {
      type: 'ATTEMPT_FAILED',
      attempt,
      code: null,
      preview: null,
      spread: world.random(),
    } as const;
    if (world.chance(manners.silent)) {
      await wait(host, webhookTimeoutMs);
      return { ...failed, failure: 'timeout' };
    }
    await wait(host, takeMs() / 2);
    audit.onReceived(eventId, payload);
    await wait(host, takeMs() / 2);
    if (world.chance(manners.fails)) return { ...failed, code: 500, failure: 'status' };
    return { type: 'DELIVERED', attempt, code: 204, preview: '' };
  };

  const openLine = (host: Host): Line => {
    let isCancelled = false;
    return {
      async attempt(sending, webhook) {
        await wait(host, world.between(0, 5));
        if (isCancelled || !webhook()) throw new Error('called off');
        const result = await attemptOf(host, sending);
        if (isCancelled) throw new Error('called off');
        return result;
      },
      cancel() {
        isCancelled = true;
      },
    };
  };

  return { effectsOf, openLine };
}

function effect<Params>(
  slot: string,
  errorCode: ErrorCode,
  run: (params: Params, context: EffectContext) => Promise<EffectMessage | undefined>,
): Effect {
  return {
    slot,
    errorCode,
    perProject: () => perProject,
    run: (params, context) => run(params as Params, context),
  };
}

function wait(host: Host, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const leave = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = host.after(ms, () => {
      signal?.removeEventListener('abort', leave);
      resolve();
    });
    signal?.addEventListener('abort', leave, { once: true });
  });
}

const refOf = ({ run, stage, attempt }: WorkRef): WorkRef => ({ run, stage, attempt });

const filesOf = (run: number) => ({
  media: {
    run,
    mp4Key: `${run}.mp4`,
    posterKey: `${run}.jpg`,
    bytes: 1,
    width: 2,
    height: 2,
    loopMode: 'none' as const,
  },
  mp4Url: `https://media.example/${run}.mp4`,
  posterUrl: `https://media.example/${run}.jpg`,
});

const motionPlan: MotionPlan = {
  width: 2,
  height: 2,
  attention: { x: 0.5, y: 0.5 },
  brightness: 0.5,
  contrast: 0.5,
  saturation: 0.5,
  palette: ['#000000'],
  hasAlpha: false,
  parallax: 0,
  zoom: 0,
  light: 0,
  motes: 0,
  heading: 0,
};

/** Drawn for one history. */
export function drawManners(world: World): Manners {
  const share = (most: number) => (world.chance(0.5) ? world.random() * most : 0);
  return {
    slow: share(0.3),
    fails: share(0.25),
    refuses: share(0.05),
    silent: share(0.1),
    forgets: share(0.5),
  };
}

/** How long a history may need after its last trouble. */
export const settleMs = pipelineTimes.stallAfterMs + 90_000;
