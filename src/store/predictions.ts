/**
 * What was bought, or perhaps bought, at model providers: one record for each attempt's submit, written before it is
 * made. That is how a prediction is recognised whose submit had no answer, and how no attempt submits twice.
 */
import type { Collection, Db } from 'mongodb';
import type { VideoJobRef } from '../../schemas/asset-messages.ts';
import { provider as limits } from '../../schemas/limits.ts';
import { isDuplicate } from './actors.ts';

type PredictionDocument = {
  /** Of the attempt: asset, run, stage, attempt. */
  _id: string;
  /** Asset, run and stage. */
  stageKey: string;
  provider: string;
  beganTs: number;
  /** Of who began it. */
  claim?: string;
  /** `refused`: certainly not bought. `givenUp`: nobody waits for word of it any more. */
  state: 'submitting' | 'bought' | 'refused' | 'givenUp';
  job?: VideoJobRef;
  /** Provider and id: no prediction belongs to two attempts. */
  jobKey?: string;
  /** It was heard of after it was given up: the next attempt goes on with it. */
  isLate?: boolean;
  /** It has failed or was cancelled: of no use to anybody. */
  isOver?: boolean;
  /** What it costs, once that is known: millionths of a dollar. */
  costMicros?: number;
  expiresAt: Date;
};

/** A submit as operators see it. `token` names its attempt: asset, run, stage, attempt. */
export type KnownPrediction = Pick<
  PredictionDocument,
  'provider' | 'beganTs' | 'state' | 'isLate' | 'isOver' | 'costMicros'
> & { token: string; jobId: string | undefined };

export type Purchase = { token: string; stageKey: string; provider: string };

/** `pending`: submitted by somebody who has not said what came of it. */
export type Begun =
  | { state: 'fresh' }
  | { state: 'known'; job: VideoJobRef }
  | { state: 'pending'; sinceTs: number };

/** What a callback's prediction was to us: `new` is one that nobody had told of. */
export type Noted = 'new' | 'known' | 'foreign' | 'unknown';

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const jobKeyOf = ({ provider, id }: VideoJobRef) => `${provider}:${id}`;

export function createPredictionStore(db: Db) {
  const predictions: Collection<PredictionDocument> = db.collection('predictions');

  const find = async ({ token, stageKey }: Purchase): Promise<VideoJobRef | undefined> => {
    const [found] = await predictions
      .find({
        stageKey,
        isOver: { $ne: true },
        job: { $exists: true },
        $or: [{ _id: token }, { isLate: true }],
      })
      .sort({ beganTs: 1 })
      .limit(1)
      .toArray();
    return found?.job;
  };

  /** The record of an attempt that is there already; one that was refused is begun anew. */
  const beginAgain = async ({ token, provider }: Purchase, claim: string, now: number): Promise<Begun> => {
    const again = await predictions.updateOne(
      { _id: token, state: 'refused' },
      { $set: { state: 'submitting', provider, claim, beganTs: now } },
      durable,
    );
    if (again.matchedCount === 1) return { state: 'fresh' };
    const found = await predictions.findOne({ _id: token });
    if (found?.job) return { state: 'known', job: found.job };
    // Asked for again, since the answer to the first time was lost.
    if (found?.claim === claim) return { state: 'fresh' };
    return { state: 'pending', sinceTs: found?.beganTs ?? now };
  };

  return {
    async ensureIndexes(): Promise<void> {
      await Promise.all([
        predictions.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 }),
        predictions.createIndex({ stageKey: 1 }),
        predictions.createIndex({ provider: 1, beganTs: 1 }),
        predictions.createIndex(
          { jobKey: 1 },
          { unique: true, partialFilterExpression: { jobKey: { $exists: true } } },
        ),
      ]);
    },

    /** The prediction to go on with: this attempt's own, or one of an earlier attempt that was heard of too late. */
    find,

    /**
     * To be called before a submit. Only who is answered `fresh` may make it; with the same `claim` it is safe to
     * repeat.
     */
    async begin(purchase: Purchase, claim: string, now: number): Promise<Begun> {
      const job = await find(purchase);
      if (job) return { state: 'known', job };
      const { token, stageKey, provider } = purchase;
      try {
        await predictions.insertOne(
          {
            _id: token,
            stageKey,
            provider,
            beganTs: now,
            claim,
            state: 'submitting',
            expiresAt: new Date(now + limits.predictionKeptMs),
          },
          durable,
        );
        return { state: 'fresh' };
      } catch (cause) {
        if (!isDuplicate(cause)) throw cause;
        return beginAgain(purchase, claim, now);
      }
    },

    /** The submit was answered. Safe to repeat. */
    async bought(token: string, job: VideoJobRef): Promise<void> {
      const change = { $set: { state: 'bought', job, jobKey: jobKeyOf(job) } } as const;
      await predictions.updateOne({ _id: token }, change, durable);
    },

    /** The submit was refused for certain. */
    async refused(token: string): Promise<void> {
      await predictions.updateOne(
        { _id: token, job: { $exists: false } },
        { $set: { state: 'refused' } },
        durable,
      );
    },

    /** What has become of an attempt's submit. */
    async look(token: string): Promise<{ job?: VideoJobRef; isRefused: boolean }> {
      const found = await predictions.findOne({ _id: token });
      return { isRefused: found?.state === 'refused', ...(found?.job ? { job: found.job } : {}) };
    },

    /** Nobody waits for word of the submit from here on, unless there is some: then it is answered. */
    async giveUp(token: string): Promise<VideoJobRef | undefined> {
      const left = await predictions.updateOne(
        { _id: token, job: { $exists: false } },
        { $set: { state: 'givenUp' } },
        durable,
      );
      return left.matchedCount === 1 ? undefined : (await predictions.findOne({ _id: token }))?.job;
    },

    /** Its prediction is of no use any more. */
    async over(job: VideoJobRef): Promise<void> {
      await predictions.updateOne({ jobKey: jobKeyOf(job) }, { $set: { isOver: true } }, durable);
    },

    /** Predictions of a stage that were heard of too late, and that nobody goes on with. */
    async late(stageKey: string, except: VideoJobRef): Promise<VideoJobRef[]> {
      const found = await predictions
        .find({ stageKey, isLate: true, isOver: { $ne: true }, jobKey: { $ne: jobKeyOf(except) } })
        .limit(maxLate)
        .toArray();
      return found.flatMap(({ job }) => (job ? [job] : []));
    },

    /** What an attempt's prediction costs. Safe to repeat. */
    async priced(token: string, costMicros: number): Promise<void> {
      await predictions.updateOne({ _id: token }, { $set: { costMicros } }, { writeConcern: { w: 1 } });
    },

    /** The submits for an asset, in the order of their tokens. */
    async ofAsset(assetId: string, limit: number): Promise<KnownPrediction[]> {
      // All that begin with the id and a dash: the dot comes right after it.
      const range = { $gte: `${assetId}-`, $lt: `${assetId}.` };
      const found = await predictions.find({ _id: range }).sort({ _id: 1 }).limit(limit).toArray();
      return found.map(toKnown);
    },

    /** The submits whose prediction has that id at one of some providers. */
    async byJobId(id: string, providers: readonly string[]): Promise<KnownPrediction[]> {
      const jobKey = { $in: providers.map((provider) => jobKeyOf({ provider, id })) };
      return (await predictions.find({ jobKey }).toArray()).map(toKnown);
    },

    /** What a provider was asked for since a time (unix ms), and what is known of its price. */
    async spentSince(
      provider: string,
      sinceTs: number,
    ): Promise<{ predictions: number; costMicros: number }> {
      const [sum] = await predictions
        .aggregate<{ predictions: number; costMicros: number }>([
          { $match: { provider, beganTs: { $gte: sinceTs }, state: 'bought' } },
          { $group: { _id: null, predictions: { $sum: 1 }, costMicros: { $sum: '$costMicros' } } },
        ])
        .toArray();
      return { predictions: sum?.predictions ?? 0, costMicros: sum?.costMicros ?? 0 };
    },

    /** A callback, with the token of an attempt in its address, tells of a prediction. */
    async note(token: string, job: VideoJobRef): Promise<Noted> {
      const set = { job, jobKey: jobKeyOf(job), isLate: { $eq: ['$state', 'givenUp'] } };
      try {
        const noted = await predictions.updateOne(
          { _id: token, provider: job.provider, job: { $exists: false } },
          [{ $set: { ...set, job: { $literal: job } } }],
          durable,
        );
        if (noted.matchedCount === 1) return 'new';
      } catch (cause) {
        // It is another attempt's.
        if (isDuplicate(cause)) return 'foreign';
        throw cause;
      }
      const found = await predictions.findOne({ _id: token });
      if (!found) return 'unknown';
      return found.jobKey === jobKeyOf(job) ? 'known' : 'foreign';
    },
  };
}

const maxLate = 10;

function toKnown({
  _id: token,
  job,
  provider,
  beganTs,
  state,
  ...more
}: PredictionDocument): KnownPrediction {
  const { isLate = false, isOver = false, costMicros } = more;
  return {
    token,
    jobId: job?.id,
    provider,
    beganTs,
    state,
    isLate,
    isOver,
    ...(costMicros === undefined ? {} : { costMicros }),
  };
}
