/**
 * Stores the finished animation and its poster under addresses that never change.
 *
 * Safe to repeat: keys come from the content, and what is there already is left alone.
 *
 * @throws {EffectError} `store_write_failed`, transient.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import { pipeline } from '../../schemas/limits.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { readWork, withFolder } from './files.ts';
import { withLimit } from './limit.ts';

/** Hex digits of the content's SHA-256 in the address: 120 bits can't be guessed. */
const hashDigits = 30;

export async function storeWrite(
  { run, stage, attempt, clipKey, options }: AssetEffects['storeWrite'],
  { id, signal }: EffectContext,
  deps: EffectDeps,
): Promise<AssetMessage> {
  const write = async (folder: string, limited: AbortSignal): Promise<AssetMessage> => {
    const clip = join(folder, 'clip.mp4');
    const bytes = await readWork(deps.storage, clipKey, limited);
    await writeFile(clip, bytes);
    const { width, height } = await deps.checkClip(clip);
    const output = join(folder, 'poster.jpg');
    await deps.poster({ clip, mode: options.mode, output }, limited);
    const poster = await readFile(output);

    const name = `media/${id}/${run}-${createHash('sha256').update(bytes).digest('hex').slice(0, hashDigits)}`;
    const mp4Key = `${name}.mp4`;
    const posterKey = `${name}.jpg`;
    await deps.storage.put(posterKey, poster, { contentType: 'image/jpeg', ifAbsent: true, signal: limited });
    await deps.storage.put(mp4Key, bytes, { contentType: 'video/mp4', ifAbsent: true, signal: limited });
    return {
      type: 'STORED',
      ts: deps.now(),
      run,
      stage,
      attempt,
      media: { run, mp4Key, posterKey, bytes: bytes.byteLength, width, height, loopMode: options.loopMode },
      mp4Url: deps.mediaUrl(mp4Key),
      posterUrl: deps.mediaUrl(posterKey),
    };
  };
  return withLimit(signal, pipeline.storeWriteTimeoutMs, (limited) =>
    withFolder(deps.tempDir, (folder) => write(folder, limited)),
  );
}
