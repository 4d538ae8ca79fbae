/**
 * Cancels a prediction that nobody waits for any more. A courtesy to the bill: its failure changes nothing.
 *
 * Safe to repeat.
 */
import type { AssetEffects } from '../../machines/asset.ts';
import { provider as limits } from '../../schemas/limits.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { withLimit } from './limit.ts';

export async function cancelVideo(
  { job }: AssetEffects['cancelVideo'],
  { signal }: EffectContext,
  deps: EffectDeps,
): Promise<undefined> {
  const provider = deps.videoNamed(job.provider);
  // No later attempt may go on with it.
  if (provider?.capabilities.repeatable === false) await deps.purchases.over(job);
  await withLimit(signal, limits.cancelMs, async (limited) => provider?.cancel(job, limited));
}
