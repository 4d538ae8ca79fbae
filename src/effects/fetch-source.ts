/**
 * Fetches the source image of a run and keeps it for the stages to come.
 *
 * Safe to repeat: the key depends on asset and run alone, so a second fetch replaces the first.
 *
 * @throws {EffectError} `source_unfetchable`, `source_too_large`, `source_unsupported` (decisions 3, Source errors).
 */
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import { EffectError } from '../../schemas/errors.ts';
import { pipeline, source } from '../../schemas/limits.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { workKey } from './files.ts';
import { withLimit } from './limit.ts';

export async function fetchSource(
  { src, run, stage, attempt }: AssetEffects['fetchSource'],
  { id, signal }: EffectContext,
  deps: EffectDeps,
): Promise<AssetMessage> {
  return withLimit(signal, pipeline.fetchTimeoutMs, async (limited) => {
    const { bytes, contentType } = await readSource(src, limited, deps);
    const key = workKey(id, run, `source.${extensions[contentType] ?? 'bin'}`);
    await deps.storage.put(key, bytes, { contentType, signal: limited });
    return { type: 'SOURCE_FETCHED', ts: deps.now(), run, stage, attempt, key, contentType };
  });
}

const extensions: Record<string, string> = { 'image/png': 'png', 'image/jpeg': 'jpg', 'image/webp': 'webp' };

export type SourceDeps = Pick<EffectDeps, 'uploadKey' | 'fetchSource' | 'storage' | 'sniffImage'>;

/** Bytes and type of a source: uploads are read from storage, everything else is fetched. @throws {EffectError} */
export async function readSource(
  src: string,
  signal: AbortSignal,
  deps: SourceDeps,
): Promise<{ bytes: Uint8Array; contentType: string }> {
  const uploaded = deps.uploadKey(src);
  if (uploaded === undefined) return deps.fetchSource(src, signal);
  const bytes = await deps.storage.read(uploaded, signal, source.maxBytes);
  if (!bytes) {
    throw new EffectError('source_unfetchable', `no upload ${uploaded}`, {
      retry: 'permanent',
      hint: 'The upload does not exist any more.',
    });
  }
  const type = deps.sniffImage(bytes);
  if (!type) throw new EffectError('source_unsupported', `upload ${uploaded} is no image`);
  return { bytes, contentType: `image/${type}` };
}
