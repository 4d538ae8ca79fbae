/**
 * Counting runs against the monthly quota: one atomic update of the user, with a hold keyed by asset and run, so
 * that racing and repeated requests for one run count it once (invariant I7).
 *
 * The hold stays until the sweeper has seen the run in its document; a hold whose run never came to be is
 * given back. No transactions: on one hot user document they take seconds where this takes milliseconds.
 *
 * A cycle that ends leaves its totals in `endedCycles` by the very update that begins the next one; from there
 * they go to the collection of past cycles (usage.ts), once, whoever dies in between.
 */
import type { ClientSession, Collection, Db, Document } from 'mongodb';
import { usage as limits } from '../../schemas/limits.ts';
import type { PlanName } from '../../schemas/plans.ts';
import { newId } from './ids.ts';

export type Hold = {
  /** `<asset id>:<run>` */
  key: string;
  id: string;
  ts: number;
  /** Project that the run belongs to. */
  project: string;
  overageCents: number;
  /** Counted in a cycle that is over: giving it back changes nothing in the present one. */
  isPast?: boolean;
};

/** Runs of a cycle; `runs` are all of them, overage included. */
export type RunTotals = { runs: number; overageRuns: number; overageCents: number };

/** A cycle that is over. Times are unix ms. */
export type EndedCycle = RunTotals & { startTs: number; endTs: number; plan: PlanName };

/** What of a user counts. Times are unix ms. */
export type QuotaUser = {
  _id: string;
  plan: PlanName;
  billingDay: number | null;
  /** Runs of the present cycle, overage included. */
  used: number;
  /** End of the present cycle; null as long as it has no run. */
  resetAt: number | null;
  holds: Hold[];
  overageRuns?: number;
  overageCents?: number;
  /** Runs of the present cycle by project; `others` once there are too many to tell apart. */
  byProject?: Record<string, RunTotals>;
  /** First run of the present cycle. */
  firstRunTs?: number | null;
  /** Latest run of all. */
  lastRunTs?: number;
  /** End of the cycle before the present one; absent in the first one. */
  cycleTs?: number;
  /** Cycles that are over and not in the collection of past cycles yet. */
  endedCycles?: EndedCycle[];
  /** Counted by crawl-quota.ts. */
  crawls?: { used: number; resetAt: number; holds: { id: string; ts: number }[] };
};

export type TakeRun = {
  userId: string;
  projectId: string;
  key: string;
  now: number;
  /** Runs of a cycle beside those that are paid as overage. */
  limit: number;
  /** Price of a run beyond the limit, and what such runs of the project may cost in all; null: none are accepted. */
  overage: { cents: number; capCents: number | null } | null;
  /** Unix ms of the next reset once this run is counted. */
  resetAt: number;
  /** Counts only while the user is on this plan, which `limit`, `overage` and `resetAt` come from. */
  only?: Pick<QuotaUser, 'plan' | 'billingDay'>;
};

/** `stale`: `now` is not in the present cycle, or the plan is another one; to be asked again with what holds now. */
export type Taken = Hold | 'exhausted' | 'stale';

export type PlanChange = Pick<QuotaUser, 'plan' | 'billingDay' | 'resetAt'> & { crawlsResetAt: number };

export type QuotaStore = ReturnType<typeof createQuotaStore>;

/** Key in `byProject` of the projects that are too many to tell apart. */
export const otherProjects = 'others';

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createQuotaStore(db: Db) {
  const users: Collection<QuotaUser> = db.collection('users');

  const take = async (wish: TakeRun): Promise<Taken> => {
    const { userId, key, now, only } = wish;
    const user = await users.findOneAndUpdate({ _id: userId, ...only }, [{ $replaceWith: taking(wish) }], {
      projection: { holds: { $elemMatch: { key } }, resetAt: 1, cycleTs: 1 },
      returnDocument: 'after',
      ...durable,
    });
    if (!user) return only ? 'stale' : 'exhausted';
    const isElsewhen = (user.resetAt !== null && user.resetAt <= now) || (user.cycleTs ?? 0) > now;
    return user.holds?.[0] ?? (isElsewhen ? 'stale' : 'exhausted');
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

    /** Ends the cycle that ends at `endTs`, if nobody else has: the next one begins with its first run. */
    async endCycle(userId: string, { startTs, endTs }: { startTs: number; endTs: number }): Promise<void> {
      await users.updateOne({ _id: userId, resetAt: endTs }, [{ $set: ending(startTs, endTs) }], durable);
    },

    /**
     * Sets the runs of the present cycle that take a place of the quota, in a transaction: what was paid as overage
     * stays paid. Runs that are given back afterwards were counted before, and change nothing any more. @param to `resetAt`: the cycle's end where none is under way at `now`
     */
    async setUsed(
      userId: string,
      to: { used: number; resetAt: number | null; now: number },
      session: ClientSession,
    ): Promise<void> {
      const isUnderWay = { $gt: ['$resetAt', to.now] };
      const past = { $mergeObjects: ['$$this', { isPast: true }] };
      const set = {
        used: { $add: [to.used, orZero('$overageRuns')] },
        resetAt: { $cond: [isUnderWay, '$resetAt', to.resetAt] },
        holds: { $map: { input: '$holds', in: past } },
      };
      await users.updateOne({ _id: userId }, [{ $set: set }], { session });
    },

    /** Gives a run back that never came to be, unless its hold was taken up again since. Safe to repeat. */
    async giveBack(userId: string, hold: Hold): Promise<void> {
      const given = await users.updateOne(
        { _id: userId, holds: { $elemMatch: { id: hold.id, ts: hold.ts, isPast: { $ne: true } } } },
        [{ $set: givingBack(hold) }],
        durable,
      );
      if (given.modifiedCount === 0) await remove(userId, { id: hold.id, ts: hold.ts });
    },

    /** The run is in its document: the hold has done its work. */
    settle: (userId: string, { id }: Hold): Promise<void> => remove(userId, { id }),

    /** Sets the plan if the user is still as read. Answers false otherwise. `session`: the transaction this is part of. */
    async setPlan(
      user: QuotaUser,
      { crawlsResetAt, ...change }: PlanChange,
      session?: ClientSession,
    ): Promise<boolean> {
      const { _id, plan, billingDay, resetAt, crawls } = user;
      const changed = await users.updateOne(
        { _id, plan, billingDay, resetAt, 'crawls.resetAt': crawls?.resetAt ?? { $exists: false } },
        { $set: { ...change, ...(crawls ? { 'crawls.resetAt': crawlsResetAt } : {}) } },
        session ? { session } : durable,
      );
      return changed.matchedCount === 1;
    },

    /** Every user with holds older than a time, and those holds; oldest first, read as it is asked for. */
    async *withOldHolds(beforeTs: number): AsyncGenerator<{ userId: string; holds: Hold[] }> {
      const found = users.find(
        { 'holds.ts': { $lte: beforeTs } },
        { projection: { holds: 1 }, hint: { 'holds.ts': 1 }, batchSize },
      );
      for await (const { _id, holds } of found) {
        yield { userId: _id, holds: holds.filter(({ ts }) => ts <= beforeTs) };
      }
    },

    /** Every user whose cycle is over or who has ended cycles that are not recorded yet. */
    withEndedCycles(now: number): AsyncIterable<QuotaUser> {
      return users.find(
        { $or: [{ resetAt: { $lte: now } }, { 'endedCycles.endTs': { $gt: 0 } }] },
        { projection: { passwordHash: 0, holds: 0 }, batchSize },
      );
    },

    /** An ended cycle is recorded. Safe to repeat. */
    async forgetEnded(userId: string, endTs: number): Promise<void> {
      await users.updateOne({ _id: userId }, { $pull: { endedCycles: { endTs } } }, durable);
    },

    /** All runs of an asset up to one stay counted: the asset is about to be gone, and could not say so. */
    async settleRuns(userId: string, asset: string, run: number): Promise<void> {
      const keys = Array.from({ length: run }, (_, n) => `${asset}:${n + 1}`);
      await users.updateOne({ _id: userId }, { $pull: { holds: { key: { $in: keys } } } }, durable);
    },

    async ensureIndexes(): Promise<void> {
      await users.createIndexes([
        { key: { 'holds.ts': 1 }, sparse: true },
        { key: { resetAt: 1 } },
        { key: { 'endedCycles.endTs': 1 }, sparse: true },
      ]);
    },
  };
}

const batchSize = 100;

/** The user once a run is taken, as an expression: all is decided on one state of the document. */
function taking({ projectId, key, now, limit, overage, resetAt }: TakeRun): Document {
  const hold: Hold = { key, id: newId('hld'), ts: now, project: projectId, overageCents: 0 };
  const isOver = { $and: [{ $gt: ['$resetAt', null] }, { $lte: ['$resetAt', now] }] };
  // Somebody whose clock is ahead has begun the next cycle: this time would end it at once.
  const isBehind = { $gt: [orZero('$cycleTs'), now] };
  const included = { $subtract: [orZero('$used'), orZero('$overageRuns')] };
  const count = (one: Hold) => ({ $mergeObjects: ['$$ROOT', counting(one, resetAt)] });
  const paid = { ...hold, overageCents: overage?.cents ?? 0 };
  const priced = overage ? { $cond: [isUnderCap(projectId, overage), count(paid), '$$ROOT'] } : '$$ROOT';
  const open = { $cond: [{ $lt: [included, limit] }, count(hold), priced] };
  // Made young again: whoever asks goes on with it, and the sweeper must not end it under their hands.
  const held = { $mergeObjects: ['$$ROOT', { holds: renewed(key, now) }] };
  const isHeld = { $in: [{ $literal: key }, '$holds.key'] };
  return { $cond: [isHeld, held, { $cond: [{ $or: [isOver, isBehind] }, '$$ROOT', open] }] };
}

/** What one more run changes. */
function counting(hold: Hold, resetAt: number): Document {
  const { project, ts, overageCents } = hold;
  const isOverage = overageCents > 0;
  const totals = (field: string): Document => ({
    runs: plus(`${field}.runs`, 1),
    overageRuns: plus(`${field}.overageRuns`, isOverage ? 1 : 0),
    overageCents: plus(`${field}.overageCents`, overageCents),
  });
  return {
    used: plus('$used', 1),
    overageRuns: plus('$overageRuns', isOverage ? 1 : 0),
    overageCents: plus('$overageCents', overageCents),
    // Of two runs at once the later one moves it, whichever is written last.
    resetAt: { $max: ['$resetAt', resetAt] },
    firstRunTs: { $ifNull: ['$firstRunTs', ts] },
    lastRunTs: { $max: ['$lastRunTs', ts] },
    byProject: inBucket(project, totals),
    holds: { $concatArrays: ['$holds', [{ $literal: hold }]] },
  };
}

function givingBack({ id, project, overageCents }: Hold): Document {
  const isOverage = overageCents > 0;
  const isLast = { $lte: ['$used', 1] };
  const totals = (field: string): Document => ({
    runs: plus(`${field}.runs`, -1),
    overageRuns: plus(`${field}.overageRuns`, isOverage ? -1 : 0),
    overageCents: plus(`${field}.overageCents`, -overageCents),
  });
  return {
    used: plus('$used', -1),
    overageRuns: plus('$overageRuns', isOverage ? -1 : 0),
    overageCents: plus('$overageCents', -overageCents),
    // A cycle without a run has not begun.
    resetAt: { $cond: [isLast, null, '$resetAt'] },
    firstRunTs: { $cond: [isLast, null, '$firstRunTs'] },
    byProject: inBucket(project, totals),
    holds: { $filter: { input: '$holds', cond: { $ne: ['$$this.id', id] } } },
  };
}

function ending(startTs: number, endTs: number): Document {
  const ended = {
    startTs,
    endTs,
    plan: '$plan',
    runs: '$used',
    overageRuns: orZero('$overageRuns'),
    overageCents: orZero('$overageCents'),
  };
  return {
    endedCycles: { $concatArrays: [{ $ifNull: ['$endedCycles', []] }, [ended]] },
    used: 0,
    overageRuns: 0,
    overageCents: 0,
    byProject: { $literal: {} },
    resetAt: null,
    firstRunTs: null,
    cycleTs: endTs,
    holds: { $map: { input: '$holds', in: { $mergeObjects: ['$$this', { isPast: true }] } } },
  };
}

function renewed(key: string, now: number): Document {
  const young = { $mergeObjects: ['$$this', { ts: { $max: ['$$this.ts', now] } }] };
  const isIt = { $eq: ['$$this.key', { $literal: key }] };
  return { $map: { input: '$holds', in: { $cond: [isIt, young, '$$this'] } } };
}

/** `byProject` with new totals for a project: its own, or those of all others when there are too many. */
function inBucket(projectId: string, totals: (field: string) => Document): Document {
  const own = { [projectId]: totals(`$byProject.${projectId}`) };
  const others = { [otherProjects]: totals(`$byProject.${otherProjects}`) };
  return { $mergeObjects: ['$byProject', { $cond: [hasOwnBucket(projectId), own, others] }] };
}

/** A project keeps its totals once it has them: none is ever removed within a cycle. */
function hasOwnBucket(projectId: string): Document {
  const count = { $size: { $objectToArray: { $ifNull: ['$byProject', {}] } } };
  const isKnown = { $gt: [`$byProject.${projectId}`, null] };
  return { $or: [isKnown, { $lt: [count, limits.projectsCounted] }] };
}

function isUnderCap(
  projectId: string,
  { cents, capCents }: { cents: number; capCents: number | null },
): Document | boolean {
  if (capCents === null) return true;
  const own = orZero(`$byProject.${projectId}.overageCents`);
  // Of many projects in one sum none may spend more than its cap: the sum is what is known.
  const others = orZero(`$byProject.${otherProjects}.overageCents`);
  const spent = { $cond: [hasOwnBucket(projectId), own, others] };
  return { $lte: [{ $add: [spent, cents] }, capCents] };
}

const orZero = (field: string): Document => ({ $ifNull: [field, 0] });
const plus = (field: string, count: number): Document => ({ $add: [orZero(field), count] });
