/**
 * The database as a whole: read at one moment for a backup, and filled from one.
 *
 * Documents travel as the bytes that MongoDB has them in, so that no type is lost on the way.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { BSON, type Collection, type Db, type Document, type MongoClient, MongoServerError } from 'mongodb';
import { DataError } from './migrations.ts';

/** Documents of a collection, in the order of their ids. */
export type ReadCollection = (name: string) => AsyncIterable<Uint8Array>;

type Named = { _id: string } & Record<string, unknown>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const readTogether = 1_000;
const insertTogether = 1_000;
const maxInsertBytes = 8 * 1024 * 1024;
/** A collection or index was made a moment ago: a little later there is a moment that has it. */
const snapshotUnavailable = 246;
const snapshotTooOld = 239;
const maxTries = 5;
const againMs = 500;
/** Numbers keep their kind, and texts that look like something else stay texts. */
const exact = { promoteValues: false, promoteBuffers: false, promoteLongs: false, bsonRegExp: true } as const;

export function createDumpStore(db: Db, client: MongoClient) {
  const settings: Collection<Named> = db.collection('settings');

  const collections = async (): Promise<string[]> => {
    const found = await db.listCollections({ type: 'collection' }, { nameOnly: true }).toArray();
    return found
      .map(({ name }) => name)
      .filter((name) => !name.startsWith('system.'))
      .sort();
  };

  const read = async <Result>(work: (read: ReadCollection) => Promise<Result>): Promise<Result> =>
    client.withSession({ snapshot: true }, (session) =>
      work((name) =>
        db
          .collection(name)
          .find({}, { session, raw: true, hint: { _id: 1 }, sort: { _id: 1 }, batchSize: readTogether })
          // With `raw` the driver gives bytes, which its types do not say.
          .map((one) => one as unknown as Uint8Array),
      ),
    );

  return {
    /** Names of all collections. */
    collections,

    /** The database as it was at one moment, which is `work`'s first read. `work` may be begun anew. */
    async atOneMoment<Result>(work: (read: ReadCollection) => Promise<Result>): Promise<Result> {
      for (let tries = 1; ; tries += 1) {
        try {
          return await read(work);
        } catch (cause) {
          if (!isToBeReadAgain(cause) || tries === maxTries) throw cause;
          await delay(againMs);
        }
      }
    },

    /** Collections that hold anything. */
    async filled(): Promise<string[]> {
      const names = await collections();
      const found = await Promise.all(
        names.map(async (name) => {
          const one = await db.collection(name).findOne({}, { hint: { _id: 1 }, projection: { _id: 1 } });
          return one === null ? [] : [name];
        }),
      );
      return found.flat();
    },

    /** A restore that was begun and not brought to its end. */
    async unfinishedRestore(): Promise<string | undefined> {
      const found = await settings.findOne({ _id: 'restore' });
      return found ? String(found['backup']) : undefined;
    },

    /** Notes that a restore is under way, and removes what an earlier one has left: no process starts until it ends. */
    async beginRestore(backup: string): Promise<void> {
      await settings.updateOne(
        { _id: 'restore' },
        { $set: { backup, ts: new Date() } },
        { upsert: true, ...durable },
      );
      for (const name of await collections()) {
        const others = name === 'settings' ? { _id: { $ne: 'restore' } } : {};
        await db.collection<Named>(name).deleteMany(others, { hint: { _id: 1 }, ...durable });
      }
    },

    /** Adds documents as a backup has them. */
    async insert(name: string, documents: AsyncIterable<Uint8Array>): Promise<number> {
      const collection = db.collection(name);
      let waiting: Document[] = [];
      let bytes = 0;
      let count = 0;
      const flush = async () => {
        if (waiting.length > 0) await collection.insertMany(waiting, { ordered: false, ...durable });
        count += waiting.length;
        waiting = [];
        bytes = 0;
      };
      for await (const one of documents) {
        waiting.push(BSON.deserialize(one, exact));
        bytes += one.byteLength;
        if (waiting.length >= insertTogether || bytes >= maxInsertBytes) await flush();
      }
      await flush();
      return count;
    },

    /** What belonged to processes of before is nobody's now, and processes may start. */
    async finishRestore(): Promise<void> {
      await db
        .collection('partitions')
        .updateMany({}, { $set: { owner: null } }, { hint: { _id: 1 }, ...durable });
      await db
        .collection('model_providers')
        .updateMany({}, { $set: { running: [], submits: [] } }, { hint: { _id: 1 }, ...durable });
      await settings.updateOne({ _id: 'data version' }, { $unset: { lock: true } }, durable);
      await settings.deleteOne({ _id: 'restore' }, durable);
    },
  };
}

/** @throws {DataError} when there is no sense in that. */
function isToBeReadAgain(cause: unknown): boolean {
  const code = cause instanceof MongoServerError ? cause.code : undefined;
  if (code === snapshotTooOld) throw new DataError(tooOld, { cause });
  return code === snapshotUnavailable;
}

const tooOld =
  'MongoDB has forgotten the moment of the backup while it was read: let it remember longer (setParameter ' +
  'minSnapshotHistoryWindowInSeconds, 300 by default, on every member), or take snapshots of its volumes instead';
