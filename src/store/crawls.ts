/**
 * Results of crawls, shared by all users for 24 hours (decisions 7), and who is crawling: a claim with a lease, so
 * that of many who ask for one domain at once, in any process, one crawls.
 *
 * A claim that ends leaves a result or why there is none; those who waited for that very claim share either.
 */
import type { Collection, Db, Document } from 'mongodb';
import { crawl as limits } from '../../schemas/limits.ts';
import { isDuplicate } from './actors.ts';

/** Times are unix ms. */
type CrawlDocument = {
  /** What was asked for, and the domain. */
  _id: string;
  claim?: { id: string; untilTs: number };
  result?: unknown;
  doneTs?: number;
  /** How the claim ended that came to nothing. */
  failure?: { claimId: string; detail: string };
  /** When nobody needs it any more, for MongoDB's own sweeper. */
  expiresAt: Date;
};

/** What there is to know of a crawl in this moment; nothing, when it is to be made. */
export type CrawlState = {
  result?: unknown;
  /** The claim under way. */
  claimId?: string;
  failure?: { claimId: string; detail: string };
};

export type CrawlStore = ReturnType<typeof createCrawlStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const keptMs = limits.cacheHours * 60 * 60_000;

export function createCrawlStore(db: Db) {
  const crawls: Collection<CrawlDocument> = db.collection('crawls');

  /** Ends a claim, unless another one has taken its place. */
  const end = async (key: string, claimId: string, fields: Document): Promise<void> => {
    await crawls.updateOne(
      { _id: key, 'claim.id': claimId },
      { $set: fields, $unset: { claim: '' } },
      durable,
    );
  };

  return {
    async ensureIndexes(): Promise<void> {
      await crawls.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
    },

    async look(key: string, now: number): Promise<CrawlState> {
      const found = await crawls.findOne({ _id: key });
      if (!found) return {};
      const { claim, result, doneTs, failure } = found;
      return {
        ...(doneTs !== undefined && doneTs > now - keptMs ? { result } : {}),
        ...(claim && claim.untilTs > now ? { claimId: claim.id } : {}),
        ...(failure ? { failure } : {}),
      };
    },

    /** Claims a crawl that nobody has made in time and nobody is making. Answers whether it is ours. */
    async claim(key: string, claim: { id: string; untilTs: number }, now: number): Promise<boolean> {
      const isFree = { $nor: [{ 'claim.untilTs': { $gt: now } }, { doneTs: { $gt: now - keptMs } }] };
      const change = {
        $set: { claim, expiresAt: new Date(now + keptMs) },
        $unset: { result: '', doneTs: '' },
      } as const;
      try {
        await crawls.updateOne({ _id: key, ...isFree }, change, { upsert: true, ...durable });
        return true;
      } catch (cause) {
        // It is there and not free, or another one was first.
        if (isDuplicate(cause)) return false;
        throw cause;
      }
    },

    /** Keeps a claim. Answers false when it is ours no more. */
    async renew(key: string, { id, untilTs }: { id: string; untilTs: number }): Promise<boolean> {
      const renewed = await crawls.updateOne(
        { _id: key, 'claim.id': id },
        { $set: { 'claim.untilTs': untilTs } },
        durable,
      );
      return renewed.matchedCount === 1;
    },

    /** Ends a claim with its result, for everybody who asks within 24 hours. */
    finish: (key: string, claimId: string, result: unknown, now: number): Promise<void> =>
      end(key, claimId, { result, doneTs: now, expiresAt: new Date(now + keptMs) }),

    /** Ends a claim that came to nothing; `detail` is for those who waited for it. */
    fail: (key: string, claimId: string, detail: string): Promise<void> =>
      end(key, claimId, { failure: { claimId, detail } }),

    /** Ends a claim before anything was asked for: who waits for it takes its place. */
    release: (key: string, claimId: string): Promise<void> => end(key, claimId, {}),
  };
}
