/** What stored files are referred to by: for the collection of those that nothing refers to (src/care/garbage.ts). */
import type { Collection, Db } from 'mongodb';

type Named = { _id: string };
type AssetLike = Named & { index: { status: string } };

/** What a majority has: a read that is behind could miss a document. */
const majority = { readConcern: { level: 'majority' } } as const;

export function createReferenceStore(db: Db) {
  const idsIn = async (name: string, ids: string[]): Promise<string[]> => {
    const documents: Collection<Named> = db.collection(name);
    const found = await documents
      .find({ _id: { $in: ids } }, { projection: { _id: 1 }, ...majority })
      .toArray();
    return found.map(({ _id }) => _id);
  };

  return {
    /** Assets of which anything is kept, those that are being erased too, and whether a run of theirs is under way. */
    async assets(ids: string[]): Promise<Map<string, { isPending: boolean }>> {
      const assets: Collection<AssetLike> = db.collection('assets');
      const found = await assets
        .find({ _id: { $in: ids } }, { projection: { 'index.status': 1 }, ...majority })
        .toArray();
      return new Map(found.map(({ _id, index }) => [_id, { isPending: index.status === 'pending' }]));
    },

    /** Projects that are there, or were and still have an owner. */
    async projects(ids: string[]): Promise<Set<string>> {
      return new Set([...(await idsIn('projects', ids)), ...(await idsIn('formerProjects', ids))]);
    },

    /** Uploads that have a record, received whole or not. */
    async uploads(ids: string[]): Promise<Set<string>> {
      return new Set(await idsIn('uploads', ids));
    },
  };
}
