/**
 * Looks at the source: refuses it, or plans its motion.
 *
 * Safe to repeat; a remote model is then paid twice, which is why lost work is resumed by the machine.
 *
 * @throws {EffectError} `vision_blocked`, `source_unsupported`, `quota_exceeded` (permanent), else transient.
 */
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import { EffectError } from '../../schemas/errors.ts';
import { ProviderError } from '../providers/provider.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { readWork } from './files.ts';
import { withLimit } from './limit.ts';
import { seedOf } from './seed.ts';

/** The machine's own timer ends the stage; the effect is cut off a little later, so that one clock decides. */
const graceMs = 1_000;
/** A place at the gate is given back by itself so long after the stage's time. */
const holdMoreMs = 30_000;

export async function vision(
  { run, stage, attempt, source, options, plan }: AssetEffects['vision'],
  { id, project, signal, send }: EffectContext,
  deps: EffectDeps,
): Promise<AssetMessage> {
  const ref = { run, stage, attempt };
  // The first paid call of the run: the plan may have changed since it was accepted.
  const { model, aspect } = options;
  if (!(await deps.mayRun(project, { plan, model, aspect }))) {
    throw new EffectError('quota_exceeded', `the plan of ${project} no longer allows a run of ${plan}`);
  }
  const token = `${id}-${run}-${stage}-${attempt}`;
  const { name, isRemote = false } = deps.vision;
  // Waiting is no attempt, and starts no clock.
  if (isRemote) {
    await deps.purchases.enter(name, token, deps.now() + deps.visionTimeoutMs + holdMoreMs, signal);
  }
  await send({ type: 'WORK_STARTED', ts: deps.now(), ...ref });
  const request = {
    image: {
      contentType: source.contentType,
      read: (until: AbortSignal) => readWork(deps.storage, source.key, until),
    },
    motion: options.motion,
    mode: options.mode,
    seed: seedOf(options.seed, id, run),
    ...(options.promptOverride === null ? {} : { promptOverride: options.promptOverride }),
  };
  try {
    const { prompt, plan: motionPlan } = await withLimit(signal, deps.visionTimeoutMs + graceMs, (limited) =>
      deps.vision.describe(request, limited),
    );
    if (isRemote) await deps.purchases.succeeded(name);
    return { type: 'VISION_COMPLETED', ts: deps.now(), ...ref, prompt, motionPlan };
  } catch (cause) {
    if (cause instanceof ProviderError) await deps.purchases.failed(name, cause.failure);
    throw cause;
  } finally {
    if (isRemote) await deps.purchases.leave(name, token);
  }
}
