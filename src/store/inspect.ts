/** What `doctor` wants to know of MongoDB. Nothing is changed. */
import { type Db, MongoClient } from 'mongodb';
import { wantedIndexes } from './client.ts';
import { createMigrations, type DataVersion } from './migrations.ts';

export type MongodbFacts = {
  version: string;
  /** undefined: a standalone server. */
  setName: string | undefined;
  isSharded: boolean;
  /** Data-bearing members that the set is configured with. */
  members: number;
  /** Members that are neither primary nor follow it; undefined when this user may not ask. */
  ailing: string[] | undefined;
  /** How far the members that follow are behind, at most; undefined when this user may not ask. */
  lagMs: number | undefined;
  /** The server's clock minus ours, give or take half of the round trip. */
  skewMs: number;
  roundTripMs: number;
  /** `collection: index`. Empty collections of a database that no process has started on count as missing. */
  missingIndexes: string[];
  data: DataVersion;
  /** Why no process may start on the data. */
  dataFlaw: string | undefined;
};

const waitMs = 4_000;
const answerMs = 8_000;

/** @throws when the server is not to be had. */
export async function inspectMongodb(url: string, databaseName: string): Promise<MongodbFacts> {
  const client = new MongoClient(url, {
    serverSelectionTimeoutMS: waitMs,
    connectTimeoutMS: waitMs,
    socketTimeoutMS: answerMs,
    readConcernLevel: 'majority',
  });
  try {
    await client.connect();
    const db = client.db(databaseName);
    const askedTs = Date.now();
    const askedAt = performance.now();
    const hello = await db.command({ hello: 1 });
    const roundTripMs = performance.now() - askedAt;
    const { version } = await db.admin().command({ buildInfo: 1 });
    const migrations = createMigrations(db);
    return {
      version,
      setName: hello['setName'],
      isSharded: hello['msg'] === 'isdbgrid',
      members: (hello['hosts']?.length ?? 0) + (hello['passives']?.length ?? 0),
      ...(await statusOf(client)),
      skewMs: Number(hello['localTime']) - (askedTs + roundTripMs / 2),
      roundTripMs,
      missingIndexes: await findMissing(db),
      data: await migrations.state(),
      dataFlaw: await migrations.check().then(
        () => undefined,
        (cause: Error) => cause.message,
      ),
    };
  } finally {
    await client.close();
  }
}

type Member = { name: string; stateStr: string; optimeDate?: Date };

async function statusOf(client: MongoClient): Promise<Pick<MongodbFacts, 'ailing' | 'lagMs'>> {
  try {
    const { members } = (await client.db('admin').command({ replSetGetStatus: 1 })) as unknown as {
      members: Member[];
    };
    const times = members
      .filter(({ stateStr }) => /^(PRIMARY|SECONDARY)$/.test(stateStr))
      .map(({ optimeDate }) => Number(optimeDate));
    return {
      ailing: members
        .filter(({ stateStr }) => !/^(PRIMARY|SECONDARY|ARBITER)$/.test(stateStr))
        .map(({ name, stateStr }) => `${name} ${stateStr}`),
      lagMs: Math.max(...times) - Math.min(...times),
    };
  } catch {
    // Not a replica set, or not this user's to see.
    return { ailing: undefined, lagMs: undefined };
  }
}

async function findMissing(db: Db): Promise<string[]> {
  const wanted = await wantedIndexes();
  const missing = await Promise.all(
    [...wanted].map(async ([collection, names]) => {
      const found = await db
        .collection(collection)
        .indexes()
        .catch(() => []);
      const present = new Set(found.map(({ name }) => name));
      return names.filter((name) => !present.has(name)).map((name) => `${collection}: ${name}`);
    }),
  );
  return missing.flat();
}
