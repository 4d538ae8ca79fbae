/** Which streams of the bus this database belongs to: tells when they were lost, and where new ones may begin. */
import type { Collection, Db } from 'mongodb';

/** When the streams were made, as the bus says it, and until when nothing of them was missing (unix ms). */
export type SeenStreams = { made: string; lookedTs: number };

export type StreamStore = ReturnType<typeof createStreamStore>;

type Setting = { _id: 'streams'; after?: number; seen?: SeenStreams };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
/** More messages than are ever applied before a position is stored. */
const gap = 1_000_000;

export function createStreamStore(db: Db) {
  const settings: Collection<Setting> = db.collection('settings');

  return {
    /**
     * After which sequence a new command stream may begin: above every position, and far above where an earlier one
     * began, of which messages were applied whose positions were never stored. 0 for the first one.
     */
    async beginAfter(lastPosition: number): Promise<number> {
      const next = { $add: [{ $ifNull: ['$after', -gap] }, gap] };
      const setting = await settings.findOneAndUpdate(
        { _id: 'streams' },
        [{ $set: { after: { $max: [lastPosition, next] } } }],
        { upsert: true, returnDocument: 'after', ...durable },
      );
      return setting?.after ?? lastPosition;
    },

    /** The streams that were noted last. */
    async seen(): Promise<SeenStreams | undefined> {
      return (await settings.findOne({ _id: 'streams' }))?.seen;
    },

    /** Everything that their forerunners have lost is found. Safe to repeat. */
    async note(seen: SeenStreams): Promise<void> {
      await settings.updateOne({ _id: 'streams' }, { $set: { seen } }, { upsert: true, ...durable });
    },
  };
}
