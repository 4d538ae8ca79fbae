/**
 * Which projects hold a deep-crawl result: a plan bounds their number (decisions 7). A place is kept for a crawl that
 * is under way, in a transaction that touches the user, so that two crawls at once never pass the bound together.
 */
import type { Collection, Db, MongoClient } from 'mongodb';
import { inTransaction, type ProjectRecord } from './projects.ts';

type ProjectDocument = Pick<
  ProjectRecord,
  'userId' | 'contentInventory' | 'messagingContext' | 'crawledTs'
> & {
  _id: string;
  updatedTs: number;
  /** Crawls under way, each with a place until a time, unix ms. */
  crawlPlaces?: Place[];
};
type UserDocument = { _id: string; crawlPlaces?: number };
type Place = { id: string; untilTs: number };

export type DeepCrawl = Pick<ProjectRecord, 'contentInventory' | 'messagingContext'>;

/** More than the limit a minute lets one project have at once; those that nobody left are dropped by it. */
const maxPlaces = 50;
const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createDeepCrawlStore(db: Db, client: MongoClient) {
  const projects: Collection<ProjectDocument> = db.collection('projects');
  const users: Collection<UserDocument> = db.collection('users');

  return {
    /** Number of a user's projects that hold a result. */
    count: (userId: string): Promise<number> => projects.countDocuments({ userId, crawledTs: { $ne: null } }),

    /**
     * Keeps a place for a project until a time. One that holds a result has its place, also after a downgrade.
     * Answers false when the user's projects have none left.
     */
    async reserve(
      { projectId, userId, limit }: { projectId: string; userId: string; limit: number },
      place: Place,
      now: number,
    ): Promise<boolean> {
      return inTransaction(client, async (session) => {
        // The count of two at once would miss each other's place: writing one document makes one of them wait.
        await users.updateOne({ _id: userId }, { $inc: { crawlPlaces: 1 } }, { session });
        const holds = [{ crawledTs: { $ne: null } }, { 'crawlPlaces.untilTs': { $gt: now } }];
        const others = { userId, _id: { $ne: projectId }, $or: holds };
        const isFree = (await projects.countDocuments(others, { session })) < limit;
        const own = { _id: projectId, userId, ...(isFree ? {} : { crawledTs: { $ne: null } }) };
        const change = { $push: { crawlPlaces: { $each: [place], $slice: -maxPlaces } } };
        return (await projects.updateOne(own, change, { session })).matchedCount === 1;
      });
    },

    /** The crawl came to nothing. Safe to repeat. */
    async leave(projectId: string, id: string): Promise<void> {
      await projects.updateOne({ _id: projectId }, { $pull: { crawlPlaces: { id } } }, durable);
    },

    /** Stores a result with the project. Answers false when the user has no such project any more. */
    async save(projectId: string, userId: string, crawl: DeepCrawl, now: number): Promise<boolean> {
      const saved = await projects.updateOne(
        { _id: projectId, userId },
        { $set: { ...crawl, crawledTs: now, updatedTs: now } },
        durable,
      );
      return saved.matchedCount === 1;
    },
  };
}
