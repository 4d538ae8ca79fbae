/**
 * Counting crawls against their monthly quota: one atomic update of the user for each, with a hold until the crawl
 * has ended. A hold that nobody ends is of a process that died, and counts no more after a while: what it asked
 * for reached nobody.
 */
import type { Collection, Db } from 'mongodb';
import { newId } from './ids.ts';
import type { QuotaUser } from './quota.ts';

export type TakeCrawl = {
  userId: string;
  now: number;
  /** Crawls of a month. */
  limit: number;
  /** End of the present month. */
  resetAt: number;
  /** Holds from before are of processes that died. */
  staleBeforeTs: number;
};

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createCrawlQuotaStore(db: Db) {
  const users: Collection<QuotaUser> = db.collection('users');

  return {
    /** Counts a crawl. Answers the id of its hold. */
    async take({ userId, now, limit, resetAt, staleBeforeTs }: TakeCrawl): Promise<string | 'exhausted'> {
      const id = newId('crh');
      const holds = { $ifNull: ['$crawls.holds', []] };
      const live = { $filter: { input: holds, cond: { $gt: ['$$this.ts', staleBeforeTs] } } };
      // One that is missing is smaller than every number.
      const isOver = { $lte: ['$crawls.resetAt', now] };
      const state = {
        used: {
          $cond: [isOver, 0, { $subtract: ['$crawls.used', { $subtract: [sizeOf(holds), sizeOf(live)] }] }],
        },
        holds: { $cond: [isOver, [], live] },
        resetAt: { $cond: [isOver, resetAt, '$crawls.resetAt'] },
      };
      const counted = {
        used: { $add: ['$$state.used', 1] },
        resetAt: '$$state.resetAt',
        holds: { $concatArrays: ['$$state.holds', [{ id, ts: now }]] },
      };
      const next = { $cond: [{ $lt: ['$$state.used', limit] }, counted, '$crawls'] };
      const user = await users.findOneAndUpdate(
        { _id: userId },
        [{ $set: { crawls: { $let: { vars: { state }, in: next } } } }],
        { projection: { crawls: 1 }, returnDocument: 'after', ...durable },
      );
      return user?.crawls?.holds.some((hold) => hold.id === id) ? id : 'exhausted';
    },

    /** The crawl has ended well and stays counted. Safe to repeat. */
    async settle(userId: string, id: string): Promise<void> {
      await users.updateOne({ _id: userId }, { $pull: { 'crawls.holds': { id } } }, durable);
    },

    /** The crawl has failed and is not counted. Safe to repeat; a hold of a month before changes nothing. */
    async giveBack(userId: string, id: string): Promise<void> {
      await users.updateOne(
        { _id: userId, 'crawls.holds.id': id },
        { $inc: { 'crawls.used': -1 }, $pull: { 'crawls.holds': { id } } },
        durable,
      );
    },
  };
}

const sizeOf = (list: object) => ({ $size: list });
