/**
 * Assets: the actor documents of kind `asset` with the queries of their resource, and what each request
 * resolved to.
 */
import type { Collection, Db, Filter } from 'mongodb';
import type { AssetContext } from '../../machines/asset.ts';
import type { AssetStatus, Mode, Model } from '../../schemas/asset.ts';
import { type ActorDocument, createActorStore } from './actors.ts';
import { createErasedAssets, type Erasure, present } from './erased-assets.ts';

/** An asset document with its machine's context in its own type. */
export type AssetDocument = Omit<ActorDocument, 'machine' | 'index'> & {
  machine: { version: number; value: unknown; context: AssetContext };
  index: { status: AssetStatus; run: number; mode: Mode; model: Model; requestId: string };
  /** Present once it was erased: nobody is shown the asset any more. See erased-assets.ts. */
  erasure?: Erasure;
};

export type AssetFilter = { projectIds: string[]; status?: AssetStatus };

/** Where a listing goes on: after this asset, newest first. */
export type AssetCursor = { createdTs: number; id: string };

/** What a request resolved to: `_id` is the hash of the request, as asked or with its defaults filled in. */
export type Resolution = { _id: string; asset: string; project: string };

export type AssetStore = ReturnType<typeof createAssetStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createAssetStore(db: Db) {
  const actors = createActorStore(db, 'assets', [
    { project: 1, erasure: 1, createdTs: -1, _id: -1 },
    { project: 1, erasure: 1, 'index.status': 1, createdTs: -1, _id: -1 },
    { 'index.requestId': 1 },
  ]);
  const documents = actors.collection as unknown as Collection<AssetDocument>;
  const resolutions: Collection<Resolution> = db.collection('resolutions');
  const erased = createErasedAssets(documents, resolutions);

  return {
    actors,
    erased,

    async ensureIndexes(): Promise<void> {
      await actors.ensureIndexes();
      await erased.ensureIndexes();
    },

    /** An asset, or what is left of one that was erased. */
    async findKept(id: string): Promise<AssetDocument | undefined> {
      return (await documents.findOne({ _id: id })) ?? undefined;
    },

    async find(id: string): Promise<AssetDocument | undefined> {
      return (await documents.findOne({ _id: id, ...present })) ?? undefined;
    },

    /** A page of assets without their facts, newest first. */
    async list(
      { projectIds, status }: AssetFilter,
      limit: number,
      after?: AssetCursor,
    ): Promise<AssetDocument[]> {
      const filter: Filter<AssetDocument> = { project: { $in: projectIds }, ...present };
      if (status) filter['index.status'] = status;
      if (after) {
        filter.$or = [
          { createdTs: { $lt: after.createdTs } },
          { createdTs: after.createdTs, _id: { $lt: after.id } },
        ];
      }
      return documents
        .find(filter, { projection: { facts: 0, work: 0 } })
        .sort({ createdTs: -1, _id: -1 })
        .limit(limit)
        .toArray();
    },

    async count(projectIds: string[]): Promise<number> {
      return documents.countDocuments({ project: { $in: projectIds }, ...present });
    },

    /** Latencies of the newest finished runs of a mode and model, in ms. */
    async recentLatencies(mode: Mode, model: Model, limit: number): Promise<number[]> {
      const found = await documents
        .find(
          { state: 'ready', 'index.mode': mode, 'index.model': model },
          { projection: { 'machine.context.latencyMs': 1 } },
        )
        .sort({ enteredTs: -1 })
        .limit(limit)
        .toArray();
      return found
        .map(({ machine }) => machine.context.latencyMs)
        .filter((ms): ms is number => typeof ms === 'number');
    },

    /** Assets of a project whose run is under way. */
    async pendingIn(project: string, limit: number): Promise<string[]> {
      const found = await documents
        .find({ project, 'index.status': 'pending', ...present }, { projection: { _id: 1 } })
        .limit(limit)
        .toArray();
      return found.map(({ _id }) => _id);
    },

    /** The asset that a request resolved to before. */
    async resolved(hash: string): Promise<string | undefined> {
      return (await resolutions.findOne({ _id: hash }))?.asset;
    },

    /** Forgets that a request resolved to an asset: it was erased. Safe to repeat. */
    async unresolve(hash: string, asset: string): Promise<void> {
      await resolutions.deleteOne({ _id: hash, asset }, durable);
    },

    /** Resolves a request to an asset, or to the one that another process has resolved it to first. */
    async resolve(hash: string, asset: string, project: string): Promise<string> {
      const before = await resolutions.findOneAndUpdate(
        { _id: hash },
        { $setOnInsert: { asset, project } },
        { upsert: true, returnDocument: 'after', ...durable },
      );
      return before?.asset ?? asset;
    },
  };
}
