/**
 * Closes a loop: joins the way out and the way back into one clip without a seam.
 *
 * Safe to repeat: the key depends on run and attempt alone.
 *
 * @throws {EffectError} `merge_failed`, transient.
 */
import { join } from 'node:path';
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { withFolder, workKey, workToFile } from './files.ts';
import { withLimit } from './limit.ts';

const graceMs = 1_000;

export async function merge(
  { run, stage, attempt, clipKeys, options, timeoutMs }: AssetEffects['merge'],
  { id, signal, send }: EffectContext,
  deps: EffectDeps,
): Promise<AssetMessage> {
  const ref = { run, stage, attempt };
  await send({ type: 'WORK_STARTED', ts: deps.now(), ...ref });
  const key = workKey(id, run, `merge-${attempt}.mp4`);
  const close = async (folder: string, limited: AbortSignal) => {
    const output = join(folder, 'merged.mp4');
    const [outKey, backKey] = clipKeys;
    const out = await workToFile(deps.storage, outKey, join(folder, 'out.mp4'), limited);
    const back = await workToFile(deps.storage, backKey, join(folder, 'back.mp4'), limited);
    const { loopMode, seconds, model } = options;
    await deps.merge({ clips: [out, back], loopMode, seconds, model, output }, limited);
    await deps.checkClip(output);
    await deps.storage.put(key, { file: output }, { contentType: 'video/mp4', signal: limited });
  };
  await withLimit(signal, timeoutMs + graceMs, (limited) =>
    withFolder(deps.tempDir, (folder) => close(folder, limited)),
  );
  return { type: 'CLIP_COMPLETED', ts: deps.now(), ...ref, key };
}
