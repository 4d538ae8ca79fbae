/**
 * Migrations: how data that an earlier build wrote becomes what this one reads, step after step, each by one process.
 *
 * The database knows the number of its last step. A step may run beside processes of the build before, and may be cut
 * off and begun again: it must be safe to repeat, and must keep what the older build reads unless it says that it
 * breaks it. Documents of actors are not changed here: their machines lead an old snapshot on when it is loaded.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Collection, Db } from 'mongodb';
import { isDuplicate } from './actors.ts';

export type Migration = {
  /** 1, 2, 3, …: never changed once it has been on main. */
  version: number;
  name: string;
  /** Builds of before cannot work with the data after it: they refuse to start. */
  breaksOlder?: true;
  up(db: Db, signal: AbortSignal): Promise<void>;
};

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'used uploads know since when they are used',
    async up(db) {
      await db
        .collection('uploads')
        .updateMany(
          { isUsed: true, usedTs: { $exists: false } },
          [{ $set: { usedTs: '$createdTs' } }],
          durable,
        );
    },
  },
];

/** `version`: of the data; `latest`: of this build; `toDo`: steps between them, by name. */
export type DataVersion = { version: number; latest: number; toDo: string[] };

/** Data that this build cannot work with, and what to do about it. */
export class DataError extends Error {
  override readonly name = 'DataError';
}

type Step = { version: number; name: string; ts: Date; ms: number };
type VersionSetting = {
  _id: 'data version';
  version: number;
  /** The lowest version that a build must know to work with the data. */
  oldestBuild: number;
  history: Step[];
  lock?: { owner: string; until: Date };
};
type RestoreSetting = { _id: 'restore'; backup: string; ts: Date };

export type MigrationOptions = {
  list?: readonly Migration[];
  /** A process that is silent for so long is dead: another goes on with its step. */
  leaseMs?: number;
  /** Longest wait for other processes. */
  waitMs?: number;
};

export function createMigrations(
  db: Db,
  { list = migrations, leaseMs = 60_000, waitMs = 30 * 60_000 }: MigrationOptions = {},
) {
  const settings: Collection<VersionSetting> = db.collection('settings');
  const restores: Collection<RestoreSetting> = db.collection('settings');
  const latest = list.at(-1)?.version ?? 0;
  const owner = randomBytes(12).toString('hex');

  /** A database that nothing was written to is of this build's version; one without the note is of before it. */
  const find = async (): Promise<VersionSetting | undefined> =>
    (await settings.findOne({ _id: 'data version' })) ?? undefined;

  const isFresh = async (): Promise<boolean> =>
    (await db.collection<{ _id: string }>('settings').findOne({ _id: 'partitions' })) === null &&
    (await db.collection('users').findOne({}, { hint: { _id: 1 } })) === null;

  const state = async (): Promise<DataVersion> => {
    const version = (await find())?.version ?? ((await isFresh()) ? latest : 0);
    return { version, latest, toDo: list.filter((one) => one.version > version).map(({ name }) => name) };
  };

  const begin = async (): Promise<VersionSetting> => {
    const version = (await isFresh()) ? latest : 0;
    const first: VersionSetting = { _id: 'data version', version, oldestBuild: 0, history: [] };
    try {
      await settings.insertOne(first, durable);
      return first;
    } catch (cause) {
      if (!isDuplicate(cause)) throw cause;
      return (await find()) ?? first;
    }
  };

  /** By the server's clock, which all processes share. */
  const take = async (): Promise<VersionSetting | undefined> => {
    const free = {
      $or: [
        { $eq: [{ $type: '$lock' }, 'missing'] },
        { $lte: ['$lock.until', '$$NOW'] },
        { $eq: ['$lock.owner', owner] },
      ],
    };
    const until = { $add: ['$$NOW', leaseMs] };
    const taken = await settings.findOneAndUpdate(
      { _id: 'data version', $expr: free },
      [{ $set: { lock: { owner, until } } }],
      { returnDocument: 'after', ...durable },
    );
    return taken ?? undefined;
  };

  const release = async (): Promise<void> => {
    await settings.updateOne(
      { _id: 'data version', 'lock.owner': owner },
      { $unset: { lock: true } },
      durable,
    );
  };

  /** One step, while the lock is held. */
  const step = async ({ version, name, breaksOlder, up }: Migration): Promise<void> => {
    const lost = new AbortController();
    const renewing = setInterval(() => {
      const renew = async () => {
        if ((await take()) === undefined)
          lost.abort(new DataError('another process has taken the migration'));
      };
      renew().catch(() => undefined);
    }, leaseMs / 3);
    const beganAt = performance.now();
    try {
      await up(db, lost.signal);
      lost.signal.throwIfAborted();
    } finally {
      clearInterval(renewing);
    }
    const done: Step = { version, name, ts: new Date(), ms: Math.round(performance.now() - beganAt) };
    const noted = await settings.updateOne(
      { _id: 'data version', 'lock.owner': owner, version: { $lt: version } },
      { $set: { version, ...(breaksOlder ? { oldestBuild: version } : {}) }, $push: { history: done } },
      durable,
    );
    if (noted.matchedCount === 0) throw new DataError('another process has taken the migration');
  };

  /** What is to be done while the lock is held; then it is let go. */
  const stepsAfter = async (version: number): Promise<string[]> => {
    const wanted = list.filter((one) => one.version > version);
    try {
      for (const migration of wanted) await step(migration);
      return wanted.map(({ name }) => name);
    } finally {
      await release();
    }
  };

  return {
    state,

    /** @throws {DataError} when a later build has changed the data, or a restore was not brought to its end. */
    async check(): Promise<void> {
      const found = await find();
      if (found && found.oldestBuild > latest) {
        throw new DataError(
          `the data is of version ${found.version} and this build knows ${latest}: run the later build, or restore a backup from before the upgrade`,
        );
      }
      const restore = await restores.findOne({ _id: 'restore' });
      if (restore) {
        throw new DataError(
          `the restore of backup ${restore.backup} was not brought to its end: run it again, it begins anew`,
        );
      }
    },

    /**
     * Brings the data to this build's version. Of processes that start at once one works and the others wait for it.
     * Safe to repeat.
     *
     * @returns the names of the steps that this call has made.
     * @throws {DataError} when others are at it for longer than may be waited; what a step throws.
     */
    async run(): Promise<string[]> {
      if ((await find()) === undefined) await begin();
      const giveUpAt = performance.now() + waitMs;
      while (((await find())?.version ?? 0) < latest) {
        const held = await take();
        if (held) return stepsAfter(held.version);
        if (performance.now() > giveUpAt)
          throw new DataError('another process has been migrating the data for too long: look at its log');
        await delay(pollMs);
      }
      return [];
    },
  };
}

const pollMs = 200;
