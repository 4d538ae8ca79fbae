/**
 * Assets that were erased and are not gone yet: a mark in the document hides it from everybody at once, and is at
 * the same time the note of what is still to be done (src/erasure).
 *
 * The mark is written beside the owner of the asset's partition: the owner neither reads nor writes that field.
 */
import type { Collection } from 'mongodb';
import type { AssetDocument, Resolution } from './assets.ts';
import { inPieces } from './in-pieces.ts';

/** Times are unix ms. */
export type Erasure = {
  ts: number;
  /** When it is looked at next. */
  dueTs: number;
  /** Storage keys of what was made of its source, and of the source when it was uploaded. Known before ERASE is sent. */
  keys?: ErasureKeys;
};

export type ErasureKeys = { poster: string; upload: string | null };

export type ErasedAsset = {
  id: string;
  projectId: string;
  /** Empty once the machine has forgotten it. */
  src: string;
  run: number;
  /** Whether the machine knows, so that nothing of the asset begins any more; by which message of its partition. */
  isApplied: boolean;
  partition: number;
  seq: number;
  erasure: Erasure;
};

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const majority = { readConcern: { level: 'majority' } } as const;

/** Not erased: the field is missing. */
export const present = { erasure: null } as unknown as { erasure?: never };

export function createErasedAssets(
  documents: Collection<AssetDocument>,
  resolutions: Collection<Resolution>,
) {
  return {
    async ensureIndexes(): Promise<void> {
      await documents.createIndexes([
        { key: { 'erasure.dueTs': 1 }, sparse: true },
        // Sources may be two thousand characters long.
        { key: { 'machine.context.src': 'hashed' } },
      ]);
      await resolutions.createIndexes([{ key: { asset: 1 } }, { key: { project: 1 } }]);
    },

    /** Marks an asset. Answers false when there is none, or when it was erased before. */
    async mark(id: string, erasure: Erasure): Promise<boolean> {
      const result = await documents.updateOne({ _id: id, ...present }, { $set: { erasure } }, durable);
      return result.modifiedCount === 1;
    },

    /** Marks all assets of some projects. Safe to repeat. */
    async markAll(projectIds: string[], ts: number): Promise<void> {
      const erasure: Erasure = { ts, dueTs: ts };
      await inPieces(documents, { project: { $in: projectIds }, ...present }, (ids) =>
        documents.updateMany({ _id: { $in: ids }, ...present }, { $set: { erasure } }, durable),
      );
    },

    /** The next one that is due, which nobody else then gets before `leaseMs` are over. */
    async claim(now: number, leaseMs: number): Promise<ErasedAsset | undefined> {
      const found = await documents.findOneAndUpdate(
        { 'erasure.dueTs': { $lte: now } },
        { $set: { 'erasure.dueTs': now + leaseMs } },
        { sort: { 'erasure.dueTs': 1 }, projection: { facts: 0, work: 0 }, returnDocument: 'after' },
      );
      return found ? toErased(found) : undefined;
    },

    async setKeys(id: string, keys: ErasureKeys): Promise<void> {
      await documents.updateOne({ _id: id }, { $set: { 'erasure.keys': keys } }, durable);
    },

    /** Takes away what was kept to be published again: its partition's position has passed it. */
    async forgetOutbox(id: string, seq: number): Promise<void> {
      await documents.updateOne({ _id: id, seq }, { $set: { facts: [], work: [] } }, durable);
    },

    async postpone(id: string, dueTs: number): Promise<void> {
      await documents.updateOne({ _id: id }, { $set: { 'erasure.dueTs': dueTs } });
    },

    /** Whether an asset that was not erased has this source. */
    async isSourceUsed(src: string): Promise<boolean> {
      const filter = { 'machine.context.src': src, ...present };
      return (await documents.findOne(filter, { ...majority, projection: { _id: 1 } })) !== null;
    },

    /** Takes the last of an asset away. Safe to repeat. */
    async remove(id: string): Promise<void> {
      await documents.deleteOne({ _id: id, erasure: { $type: 'object' } }, durable);
    },

    /** Documents of some projects, erased or not. */
    async countKept(projectIds: string[]): Promise<number> {
      return documents.countDocuments({ project: { $in: projectIds } }, majority);
    },

    /** What resolved to an asset means it no more. Safe to repeat. */
    async unresolve(id: string): Promise<void> {
      await resolutions.deleteMany({ asset: id }, durable);
    },

    async unresolveAll(projectIds: string[]): Promise<void> {
      await inPieces(resolutions, { project: { $in: projectIds } }, (ids) =>
        resolutions.deleteMany({ _id: { $in: ids } }, durable),
      );
    },
  };
}

function toErased(document: AssetDocument): ErasedAsset {
  const { _id: id, project: projectId, machine, state, partition, seq, erasure } = document;
  const { src, run } = machine.context;
  const isApplied = state === 'erased';
  return { id, projectId, src, run, isApplied, partition, seq, erasure: erasure ?? { ts: 0, dueTs: 0 } };
}
