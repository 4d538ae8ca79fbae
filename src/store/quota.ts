/**
 * Counting runs against the monthly quota: one conditional update of the user, with a hold keyed by asset and
 * run, so that racing and repeated requests for one run count it once (invariant I7).
 *
 * The hold stays until the sweeper has seen the run in its document; a hold whose run never came to be is
 * given back. No transactions: on one hot user document they take seconds where this takes milliseconds.
 */
import type { ClientSession, Collection, Db, Document } from 'mongodb';
import { newId } from './ids.ts';

export type Hold = {
  /** `<asset id>:<run>` */
  key: string;
  id: string;
  ts: number;
  overageCents: number;
  /** Counted in a cycle that is over: giving it back changes nothing in the present one. */
  isPast?: boolean;
};

export type QuotaUser = {
  _id: string;
  plan: string;
  used: number;
  resetAt: number | null;
  billingDay: number | null;
  holds: Hold[];
  /** When the present cycle began, unix ms; absent in the first one. */
  cycleTs?: number;
  overageRuns?: number;
  overageCents?: number;
};

export type TakeRun = {
  userId: string;
  key: string;
  now: number;
  /** Runs of a cycle. */
  limit: number;
  /** Price of a run beyond the limit, and what such runs may cost in all; null: none are accepted. */
  overage: { cents: number; capCents: number | null } | null;
  /** Unix ms of the next reset once this run is counted. */
  resetAt: number;
};

export type QuotaStore = ReturnType<typeof createQuotaStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createQuotaStore(db: Db) {
  const users: Collection<QuotaUser> = db.collection('users');

  const take = async ({
    userId,
    key,
    now,
    limit,
    overage,
    resetAt,
  }: TakeRun): Promise<Hold | 'exhausted'> => {
    const hold: Hold = { key, id: newId('hld'), ts: now, overageCents: 0 };
    const open = { _id: userId, 'holds.key': { $ne: key } };
    const counted = await users.updateOne(
      { ...open, used: { $lt: limit } },
      [{ $set: counting(hold, now, resetAt) }],
      durable,
    );
    if (counted.modifiedCount === 1) return hold;
    if (overage) {
      const priced = { ...hold, overageCents: overage.cents };
      const paid = await users.updateOne(
        { ...open, used: { $gte: limit }, ...capFilter(overage) },
        [
          {
            $set: {
              ...counting(priced, now, resetAt),
              overageRuns: plus('$overageRuns', 1),
              overageCents: plus('$overageCents', overage.cents),
            },
          },
        ],
        durable,
      );
      if (paid.modifiedCount === 1) return priced;
    }
    // Made young again: whoever asks goes on with it, and the sweeper must not end it under their hands.
    const user = await users.findOneAndUpdate(
      { _id: userId, 'holds.key': key },
      { $max: { 'holds.$.ts': now } },
      { projection: { holds: 1 }, returnDocument: 'after', ...durable },
    );
    return user?.holds.find((one) => one.key === key) ?? 'exhausted';
  };

  const remove = async (userId: string, which: Partial<Hold>): Promise<void> => {
    await users.updateOne({ _id: userId }, { $pull: { holds: which } }, durable);
  };

  return {
    /** Counts a run once per key. The answer is the hold that counts it, whoever made it. */
    take,

    async find(userId: string): Promise<QuotaUser | undefined> {
      return (await users.findOne({ _id: userId }, { projection: { passwordHash: 0 } })) ?? undefined;
    },

    /** Begins the next cycle, if nobody else has. */
    async reset(userId: string, passedResetAt: number, nextResetAt: number | null): Promise<void> {
      await users.updateOne(
        { _id: userId, resetAt: passedResetAt },
        {
          $set: {
            used: 0,
            overageRuns: 0,
            overageCents: 0,
            resetAt: nextResetAt,
            cycleTs: passedResetAt,
            'holds.$[].isPast': true,
          },
        },
        durable,
      );
    },

    /**
     * Sets the runs counted in the present cycle, in a transaction. Runs that are given back afterwards were counted
     * before, and change nothing any more. @param to `resetAt`: the cycle's end where none is under way at `now`
     */
    async setUsed(
      userId: string,
      to: { used: number; resetAt: number | null; now: number },
      session: ClientSession,
    ): Promise<void> {
      const isUnderWay = { $gt: ['$resetAt', to.now] };
      const past = { $mergeObjects: ['$$this', { isPast: true }] };
      const set = {
        used: to.used,
        resetAt: { $cond: [isUnderWay, '$resetAt', to.resetAt] },
        holds: { $map: { input: '$holds', in: past } },
      };
      await users.updateOne({ _id: userId }, [{ $set: set }], { session });
    },

    /** Gives a run back that never came to be, unless its hold was taken up again since. Safe to repeat. */
    async giveBack(userId: string, hold: Hold): Promise<void> {
      const isOverage = hold.overageCents > 0;
      const given = await users.updateOne(
        { _id: userId, holds: { $elemMatch: { id: hold.id, ts: hold.ts, isPast: { $ne: true } } } },
        {
          $inc: {
            used: -1,
            ...(isOverage ? { overageRuns: -1, overageCents: -hold.overageCents } : {}),
          },
          $pull: { holds: { id: hold.id } },
        },
        durable,
      );
      if (given.modifiedCount === 0) await remove(userId, { id: hold.id, ts: hold.ts });
    },

    /** The run is in its document: the hold has done its work. */
    settle: (userId: string, { id }: Hold): Promise<void> => remove(userId, { id }),

    /** Users with holds older than a time. */
    async withOldHolds(beforeTs: number, limit: number): Promise<{ userId: string; holds: Hold[] }[]> {
      const found = await users
        .find({ 'holds.ts': { $lte: beforeTs } })
        .limit(limit)
        .project<{ _id: string; holds: Hold[] }>({ holds: 1 })
        .toArray();
      return found.map(({ _id, holds }) => ({
        userId: _id,
        holds: holds.filter(({ ts }) => ts <= beforeTs),
      }));
    },

    async ensureIndexes(): Promise<void> {
      await users.createIndex({ 'holds.ts': 1 }, { sparse: true });
    },
  };
}

/** What one more run changes, as fields of an update pipeline. */
function counting(hold: Hold, now: number, resetAt: number): Document {
  // Somebody whose clock is ahead has begun the next cycle: a reset time from before it would end it at once.
  const isBehind = { $gt: [{ $ifNull: ['$cycleTs', 0] }, now] };
  return {
    used: plus('$used', 1),
    resetAt: { $cond: [isBehind, '$resetAt', resetAt] },
    holds: { $concatArrays: ['$holds', [{ $literal: hold }]] },
  };
}

const plus = (field: string, count: number): Document => ({ $add: [{ $ifNull: [field, 0] }, count] });

function capFilter({ cents, capCents }: { cents: number; capCents: number | null }): Document {
  if (capCents === null) return {};
  return { $expr: { $lte: [{ $add: [{ $ifNull: ['$overageCents', 0] }, cents] }, capCents] } };
}
