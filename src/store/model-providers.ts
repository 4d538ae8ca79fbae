/**
 * The gate in front of each model provider, shared by all processes, and how the provider is doing: one record each.
 *
 * A place is held under the token of an attempt, so that whoever goes on with its work holds the same one, and ends by
 * itself when its process has died.
 */
import type { Collection, Db } from 'mongodb';
import { provider as limits } from '../../schemas/limits.ts';
import { isDuplicate } from './actors.ts';

/** Times are unix ms. */
type ProviderDocument = {
  _id: string;
  running: { token: string; untilTs: number }[];
  /** Submits of the last minute. */
  submits: number[];
  /** Nobody submits before: the provider has asked for a pause. */
  closedUntilTs: number;
  /** Failures since the last success. */
  failures: number;
  /** While open it is asked last. */
  openUntilTs: number;
  lastFailure?: { ts: number; reason: string };
  lastSuccessTs?: number;
};

export type ProviderRecord = Omit<ProviderDocument, '_id' | 'running'> & { name: string; running: number };

export type GateLimits = { concurrent: number; submitsPerMinute: number };

const minuteMs = 60_000;
const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const quick = { writeConcern: { w: 1 } } as const;

export function createModelProviderStore(db: Db) {
  const providers: Collection<ProviderDocument> = db.collection('model_providers');

  const others = (token: string, now: number) => ({
    $filter: {
      input: { $ifNull: ['$running', []] },
      as: 'one',
      cond: { $and: [{ $gt: ['$$one.untilTs', now] }, { $ne: ['$$one.token', token] }] },
    },
  });
  const recent = (now: number) => ({
    $filter: {
      input: { $ifNull: ['$submits', []] },
      as: 'ts',
      cond: { $gt: ['$$ts', now - minuteMs] },
    },
  });

  return {
    /**
     * Takes a place and counts a submit, in one conditional write.
     *
     * @returns 0, or the ms until it may be worth asking again.
     */
    async enter(
      name: string,
      { token, untilTs }: { token: string; untilTs: number },
      { concurrent, submitsPerMinute }: GateLimits,
      now: number,
    ): Promise<number> {
      const hasRoom = {
        $and: [
          { $lt: [{ $size: '$running' }, concurrent] },
          { $lt: [{ $size: '$submits' }, submitsPerMinute] },
          { $lte: [{ $ifNull: ['$closedUntilTs', 0] }, now] },
        ],
      };
      const added = (list: string, one: unknown) => ({
        $cond: ['$hasRoom', { $concatArrays: [list, [one]] }, list],
      });
      const change = [
        { $set: { running: others(token, now), submits: recent(now) } },
        { $set: { hasRoom } },
        { $set: { running: added('$running', { token, untilTs }), submits: added('$submits', now) } },
        { $unset: 'hasRoom' },
      ];
      const options = { upsert: true, returnDocument: 'after', ...quick } as const;
      const after = await providers.findOneAndUpdate({ _id: name }, change, options).catch(ignoreDuplicate);
      // Two processes made its record at once: the next time it is there.
      if (!after) return 1;
      if (after.running.some((one) => one.token === token)) return 0;
      const { submits, closedUntilTs = 0 } = after;
      const isBusy = submits.length >= submitsPerMinute;
      const minuteEnds = isBusy ? (submits[0] ?? now) + minuteMs - now : 1;
      return Math.max(1, closedUntilTs - now, minuteEnds);
    },

    /** Holds a place for a prediction that was bought before, whatever room there is. */
    async hold(name: string, token: string, untilTs: number, now: number): Promise<void> {
      const running = { $concatArrays: [others(token, now), [{ token, untilTs }]] };
      await providers.updateOne({ _id: name }, [{ $set: { running } }], { upsert: true, ...quick });
    },

    /** Gives a place back. Safe to repeat. */
    async leave(name: string, token: string): Promise<void> {
      await providers.updateOne({ _id: name }, { $pull: { running: { token } } }, quick);
    },

    /** Nobody submits before `untilTs`. */
    async pause(name: string, untilTs: number): Promise<void> {
      await providers.updateOne(
        { _id: name },
        { $max: { closedUntilTs: untilTs } },
        { upsert: true, ...durable },
      );
    },

    async succeeded(name: string, now: number): Promise<void> {
      const set = { failures: 0, openUntilTs: 0, lastSuccessTs: now };
      await providers.updateOne({ _id: name }, { $set: set }, { upsert: true, ...quick });
    },

    /** One more failure: from the fifth in a row on it is asked last for a while, each time for twice as long. */
    async failed(name: string, reason: string, now: number): Promise<void> {
      const failures = { $add: [{ $ifNull: ['$failures', 0] }, 1] };
      const rounds = { $subtract: ['$failures', limits.failuresToOpen] };
      const openMs = { $min: [limits.maxOpenMs, { $multiply: [limits.openMs, { $pow: [2, rounds] }] }] };
      await providers.updateOne(
        { _id: name },
        [
          { $set: { failures, lastFailure: { ts: now, reason } } },
          {
            $set: {
              openUntilTs: {
                $cond: [
                  { $gte: ['$failures', limits.failuresToOpen] },
                  { $add: [now, openMs] },
                  { $ifNull: ['$openUntilTs', 0] },
                ],
              },
            },
          },
        ],
        { upsert: true, ...durable },
      );
    },

    /** How each of them is doing; one that nobody has asked for anything has no record. */
    async list(now: number): Promise<ProviderRecord[]> {
      const found = await providers.find({}, { limit: maxListed }).toArray();
      return found.map(({ _id: name, running = [], submits = [], ...rest }) => ({
        ...rest,
        name,
        failures: rest.failures ?? 0,
        openUntilTs: rest.openUntilTs ?? 0,
        closedUntilTs: rest.closedUntilTs ?? 0,
        running: running.filter(({ untilTs }) => untilTs > now).length,
        submits: submits.filter((ts) => ts > now - minuteMs),
      }));
    },
  };
}

const maxListed = 100;

function ignoreDuplicate(cause: unknown): null {
  if (isDuplicate(cause)) return null;
  throw cause;
}
