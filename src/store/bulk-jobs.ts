/**
 * Bulk jobs of operators: what was previewed, what runs, how far it is. A preview is started by its id, which nobody
 * can guess, so that what runs is what was shown. A running job is worked off page by page by whoever holds its lease;
 * the place that it has reached is stored after each page, and a page that is done twice changes nothing twice.
 */
import type { Collection, Db } from 'mongodb';
import type { Author } from './audit.ts';
import type { MachineFilter, MachineKind, MachinePlace } from './operator-views.ts';

/** What is done to each machine. */
export type BulkAction = {
  action: 'retry' | 'retry_from' | 'cancel' | 'fail' | 'redeliver';
  from?: 'source' | 'clip';
  reason?: string;
  errorCode?: string;
};

export type BulkLine = { ts: number; id: string; outcome: string };

/** Times are unix ms. */
export type BulkJob = {
  id: string;
  kind: MachineKind;
  /** As the operator has asked. */
  query: Record<string, string>;
  /** As it is looked for: what has entered its state by `filter.untilTs`. */
  filter: MachineFilter;
  action: BulkAction;
  author: Author;
  state: 'preview' | 'running' | 'done' | 'cancelled';
  createdTs: number;
  startedTs: number | null;
  endedTs: number | null;
  /** How many there were at the preview, counted up to a limit. */
  count: number;
  /** Machines that were told, and those that had moved on before. */
  told: number;
  passed: number;
  place: MachinePlace | null;
  /** The newest lines of its log. */
  log: BulkLine[];
};

type BulkDocument = Omit<BulkJob, 'id' | 'filter'> & {
  _id: string;
  /** As JSON: names of states have dots. */
  filter: string;
  leaseBy: string | null;
  leaseUntilTs: number;
  expiresAt: Date;
};

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const jobKeptMs = 30 * 24 * 60 * 60_000;
const maxLines = 500;

export function createBulkJobs(db: Db) {
  const jobs: Collection<BulkDocument> = db.collection('bulk_jobs');

  const read = (document: BulkDocument | null) => (document ? toJob(document) : undefined);

  return {
    async ensureIndexes(): Promise<void> {
      await jobs.createIndexes([
        { key: { expiresAt: 1 }, expireAfterSeconds: 0 },
        { key: { createdTs: -1, _id: -1 } },
        { key: { state: 1, leaseUntilTs: 1 } },
      ]);
    },

    /** Keeps a preview until a time (unix ms). */
    async insert({ id, filter, ...job }: BulkJob, untilTs: number): Promise<void> {
      const expiresAt = new Date(untilTs);
      const own = { filter: JSON.stringify(filter), leaseBy: null, leaseUntilTs: 0, expiresAt };
      await jobs.insertOne({ _id: id, ...job, ...own }, durable);
    },

    async find(id: string): Promise<BulkJob | undefined> {
      return read(await jobs.findOne({ _id: id }));
    },

    /** The newest jobs that were started. */
    async list(limit: number): Promise<BulkJob[]> {
      const found = await jobs
        .find({ state: { $in: ['running', 'done', 'cancelled'] } }, { projection: { log: 0 } })
        .hint({ createdTs: -1, _id: -1 })
        .sort({ createdTs: -1, _id: -1 })
        .limit(limit)
        .toArray();
      return found.map((document) => toJob({ ...document, log: [] }));
    },

    /** Starts what was previewed. Answers false when it is gone, or was started before. */
    async start(id: string, now: number): Promise<boolean> {
      const result = await jobs.updateOne(
        { _id: id, state: 'preview', expiresAt: { $gt: new Date(now) } },
        { $set: { state: 'running', startedTs: now, expiresAt: new Date(now + jobKeptMs) } },
        durable,
      );
      return result.modifiedCount === 1;
    },

    /** Nothing more is told. Answers false when it does not run. */
    async cancel(id: string, now: number): Promise<boolean> {
      const result = await jobs.updateOne(
        { _id: id, state: 'running' },
        { $set: { state: 'cancelled', endedTs: now } },
        durable,
      );
      return result.modifiedCount === 1;
    },

    /** A running job that nobody else works at until `untilTs`. */
    async take(by: string, now: number, untilTs: number): Promise<BulkJob | undefined> {
      return read(
        await jobs.findOneAndUpdate(
          { state: 'running', $or: [{ leaseUntilTs: { $lte: now } }, { leaseBy: by }] },
          { $set: { leaseBy: by, leaseUntilTs: untilTs } },
          { sort: { leaseUntilTs: 1 }, returnDocument: 'after', ...durable },
        ),
      );
    },

    /** A page is done. Answers false when the job was cancelled, or is somebody else's by now. */
    async advance(
      id: string,
      by: string,
      { told, passed, place, lines, endedTs }: BulkStep,
    ): Promise<boolean> {
      const ended = endedTs === null ? {} : { state: 'done' as const, endedTs };
      const result = await jobs.updateOne(
        { _id: id, leaseBy: by, state: 'running' },
        {
          $set: { ...(place ? { place } : {}), ...ended },
          $inc: { told, passed },
          $push: { log: { $each: lines, $slice: -maxLines } },
        },
        durable,
      );
      return result.matchedCount === 1;
    },
  };
}

function toJob({
  _id: id,
  filter,
  leaseBy: _,
  leaseUntilTs: __,
  expiresAt: ___,
  ...job
}: BulkDocument): BulkJob {
  return { id, filter: JSON.parse(filter), ...job };
}

/** What a page has come to. `endedTs`: it was the last one. */
export type BulkStep = {
  told: number;
  passed: number;
  place: MachinePlace | null;
  lines: BulkLine[];
  endedTs: number | null;
};
