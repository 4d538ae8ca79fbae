/**
 * Erases assets: the mark in the document hides one at once (store/erased-assets.ts), the rest is repeated until
 * nothing is left. Every step may be done again, by whoever comes first.
 *
 *   mark ─▶ ERASE to the machine, files, posters, upload, what resolved to it ─▶ caches forget
 *              │ again until the machine knows, and again after settleMs
 *              └ after keptMs: holds settled, facts purged, webhook deliveries and document removed
 *
 * What was under way when it was erased, a late answer or a second prepare, finds the document for as long as it
 * can come, and changes nothing: it is not inserted again, and files that came late are found by the last round.
 */
import { erasure as limits } from '../../schemas/limits.ts';
import type { Bus } from '../bus/bus.ts';
import { posterKey } from '../media/poster-key.ts';
import type { Storage } from '../media/storage.ts';
import { type AssetErased, assetErased } from '../sse/messages.ts';
import type { Store } from '../store/client.ts';
import type { ErasedAsset, ErasureKeys } from '../store/erased-assets.ts';

export type AssetErasurePorts = {
  store: Pick<Store, 'projects' | 'quota' | 'uploads' | 'partitions' | 'deliveries'> & {
    assets: Pick<Store['assets'], 'erased'>;
  };
  storage: Pick<Storage, 'delete' | 'deletePrefix'>;
  bus: Pick<Bus, 'publish' | 'subjects' | 'send' | 'purgeFacts'>;
  /** Token of an asset's commands. */
  kindName: string;
  /** Storage key of a source that was uploaded here, and its address again. */
  uploadKey(url: string): string | undefined;
  uploadUrl(key: string): string;
  now(): number;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
};

type Begun = Pick<ErasedAsset, 'id' | 'projectId' | 'src' | 'isApplied' | 'erasure'>;

const leaseMs = 30_000;
/** Longest wait for storage in one step. */
const storageMs = 10_000;

export function createAssetErasure(ports: AssetErasurePorts) {
  const { store, storage, bus, kindName, uploadKey, uploadUrl, now, log } = ports;
  const { erased } = store.assets;

  const keysOf = ({ projectId, src }: Pick<Begun, 'projectId' | 'src'>): ErasureKeys => ({
    poster: posterKey(projectId, src),
    upload: uploadKey(src) ?? null,
  });

  const tell = async ({ id, projectId }: Begun): Promise<void> => {
    await bus.publish({
      subject: bus.subjects.command(projectId, kindName, id),
      // Not one id for ever: a stream may know it and have lost the message since.
      id: `${id}:erase:${Math.floor(now() / limits.retryMs)}`,
      body: { type: 'ERASE' },
    });
  };

  const deleteUpload = async (projectId: string, key: string, signal: AbortSignal): Promise<void> => {
    if (await erased.isSourceUsed(uploadUrl(key))) return;
    const owner = await store.projects.ownerOf(projectId);
    if (owner === undefined) return;
    const mayGo = await store.uploads.removeUsed(key, owner, now() - limits.uploadUsedMs);
    if (mayGo) await storage.delete(key, signal);
  };

  /** All that can be done at once. @throws the first failure, when everything has been tried. */
  const step = async (asset: Begun): Promise<void> => {
    const { id, projectId, erasure } = asset;
    const keys = erasure.keys ?? keysOf(asset);
    // The machine forgets its source: what is needed of it is noted first.
    if (!erasure.keys) await erased.setKeys(id, keys);
    const signal = AbortSignal.timeout(storageMs);
    const outcomes = await Promise.allSettled([
      asset.isApplied ? undefined : tell(asset),
      storage.deletePrefix(`media/${id}/`, signal),
      storage.deletePrefix(`work/${id}/`, signal),
      storage.delete(keys.poster, signal),
      keys.upload === null ? undefined : deleteUpload(projectId, keys.upload, signal),
      erased.unresolve(id),
    ]);
    // Once the files are gone: who forgets them earlier would find them again.
    bus.send(assetErased, { assetId: id, poster: keys.poster } satisfies AssetErased);
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  };

  /** The last that is known of it goes. */
  const finish = async ({ id, projectId, run, erasure }: ErasedAsset): Promise<void> => {
    const owner = await store.projects.ownerOf(projectId);
    if (owner !== undefined) await store.quota.settleRuns(owner, id, run);
    await bus.purgeFacts(projectId, id);
    // Not sooner: its owner may still be waiting for what happened before.
    await store.deliveries.removeOf(projectId, id);
    await erased.remove(id);
    log.info({ asset: id, ms: now() - erasure.ts }, 'asset erased');
  };

  /** What its owner would publish again after a crash says more than may be kept: it goes once that cannot be. */
  const forgetOutbox = async ({ id, isApplied, partition, seq }: ErasedAsset): Promise<void> => {
    if (!isApplied || (await store.partitions.positionOf(partition)) < seq) return;
    await erased.forgetOutbox(id, seq);
  };

  const goOn = async (asset: ErasedAsset): Promise<void> => {
    await step(asset);
    await forgetOutbox(asset);
    const ageMs = now() - asset.erasure.ts;
    if (asset.isApplied && ageMs >= limits.keptMs) return finish(asset);
    await erased.postpone(asset.id, now() + waitAfter(asset.isApplied, ageMs));
  };

  return {
    /**
     * Erases an asset: when this answers true it is hidden, and its files are gone unless storage fails. Answers
     * false when it was erased before.
     */
    async erase({ id, projectId, src }: { id: string; projectId: string; src: string }): Promise<boolean> {
      const ts = now();
      const keys = keysOf({ projectId, src });
      if (!(await erased.mark(id, { ts, dueTs: ts + limits.retryMs, keys }))) return false;
      const asset = { id, projectId, src, isApplied: false, erasure: { ts, dueTs: ts, keys } };
      // It is erased whatever happens now: what fails here is done again soon.
      await step(asset).catch((err: unknown) => log.warn({ err, asset: id }, 'erasing goes on later'));
      return true;
    },

    /** Goes on with one asset that is due. Answers false when there is none. */
    async next(): Promise<boolean> {
      const asset = await erased.claim(now(), leaseMs);
      if (!asset) return false;
      await goOn(asset).catch((err: unknown) =>
        log.warn({ err, asset: asset.id }, 'erasing goes on when its lease is over'),
      );
      return true;
    },
  };
}

function waitAfter(isApplied: boolean, ageMs: number): number {
  // Longer and longer: with every worker away the commands of thousands of assets would pile up.
  if (!isApplied) return Math.min(limits.keptMs, Math.max(limits.retryMs, ageMs));
  return (ageMs < limits.settleMs ? limits.settleMs : limits.keptMs) - ageMs;
}
