/** Removes the intermediate files of a run that has ended. Safe to repeat. */
import type { AssetEffects } from '../../machines/asset.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { workPrefix } from './files.ts';

export async function cleanUp(
  { run }: AssetEffects['cleanUp'],
  { id, signal }: EffectContext,
  deps: EffectDeps,
): Promise<undefined> {
  await deps.storage.deletePrefix(workPrefix(id, run), signal);
}
