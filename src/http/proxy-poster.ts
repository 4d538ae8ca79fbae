/**
 * Posters of sources that have no finished asset (decisions 4, Poster): made once per project and source, kept in
 * storage, at most ten fetches at once for a project. They count nothing and make no asset.
 */
import { LRUCache } from 'lru-cache';
import { proxy } from '../../schemas/limits.ts';
import { posterKey } from '../media/poster-key.ts';
import type { Storage } from '../media/storage.ts';
import { createLimiter, LimitError, type Limiter } from '../sse/limiter.ts';
import { type MediaFile, type MediaFiles, shared } from './media-files.ts';

export type PosterPorts = {
  storage: Pick<Storage, 'put'>;
  files: Pick<MediaFiles, 'find'>;
  /** Has a worker fetch a source and make a jpg of it. @throws {LimitError} when no worker can be had, else for every source that gives none. */
  makePoster(projectId: string, source: string): Promise<Uint8Array>;
};

export type Posters = ReturnType<typeof createPosters>;

const maxWaiting = 100;
const makeMs = 45_000;
/** A source that gave no poster is not asked again for this long. */
const failedMs = 30_000;
const maxFailed = 10_000;

export function createPosters({ storage, files, makePoster }: PosterPorts) {
  const running = new Map<string, Promise<MediaFile | undefined>>();
  const limiters = new Map<string, Limiter>();
  const failed = new LRUCache<string, true>({ max: maxFailed, ttl: failedMs });

  const limiterOf = (projectId: string): Limiter => {
    const known = limiters.get(projectId);
    if (known) return known;
    const limiter = createLimiter(proxy.maxPosterFetchesPerProject, maxWaiting);
    limiters.set(projectId, limiter);
    return limiter;
  };

  const make = async (projectId: string, key: string, source: string): Promise<boolean> => {
    const signal = AbortSignal.timeout(makeMs);
    const bytes = await makePoster(projectId, source).catch((cause: unknown) => {
      // Nobody is there to make it: that says nothing of the source.
      if (cause instanceof LimitError) throw cause;
      return undefined;
    });
    if (!bytes) {
      failed.set(key, true);
      return false;
    }
    await storage.put(key, bytes, { contentType: 'image/jpeg', ifAbsent: true, signal });
    return true;
  };

  const findOrMake = async (
    projectId: string,
    key: string,
    source: string,
  ): Promise<MediaFile | undefined> => {
    const known = await files.find(key);
    if (known || failed.has(key)) return known;
    const limiter = limiterOf(projectId);
    const isMade = await limiter
      .run(() => make(projectId, key, source))
      .finally(() => {
        if (limiter.isIdle) limiters.delete(projectId);
      });
    return isMade ? files.find(key) : undefined;
  };

  return {
    /** The poster of a source when it was made before. @throws {StorageError} */
    findMade: async (projectId: string, source: string): Promise<MediaFile | undefined> =>
      files.find(posterKey(projectId, source)),

    /**
     * The poster of a source; undefined when the source gives none. Requests for the same one share the work.
     *
     * @throws {StorageError} when storage fails; {LimitError} when too many posters of the project are waited for.
     */
    find(projectId: string, source: string): Promise<MediaFile | undefined> {
      const key = posterKey(projectId, source);
      return shared(running, key, () => findOrMake(projectId, key, source));
    },
  };
}
