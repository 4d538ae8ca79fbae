/**
 * Cancels a prediction that nobody waits for any more. A courtesy to the bill: its failure changes nothing.
 *
 * Safe to repeat.
 */
import type { AssetEffects } from '../../machines/asset.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { withLimit } from './limit.ts';

const cancelMs = 10_000;

export async function cancelVideo(
  { job }: AssetEffects['cancelVideo'],
  { signal }: EffectContext,
  deps: EffectDeps,
): Promise<undefined> {
  await withLimit(signal, cancelMs, async (limited) => deps.videoNamed(job.provider)?.cancel(job, limited));
}
