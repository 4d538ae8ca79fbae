/** Migrations, the collection of garbage, and what keeps collections small. */
import { existsSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Db, Decimal128, Double, Int32, Long, MongoClient, Timestamp } from 'mongodb';
import t, { type Test } from 'tap';
import { newKey } from '../../src/auth/secret-box.ts';
import { collectGarbage, minGraceMs } from '../../src/care/garbage.ts';
import { runCare } from '../../src/care.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { contentTypeOf, type Storage } from '../../src/media/storage.ts';
import { openStore, wantedIndexes } from '../../src/store/client.ts';
import { createMigrations, type Migration } from '../../src/store/migrations.ts';
import { photo } from '../fixtures/images.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';

const { mongodbUrl, natsUrl } = await testServers();
const log = createLog('silent');
const dayMs = 86_400_000;

async function openDb(t: Test): Promise<Db> {
  const client = await new MongoClient(mongodbUrl).connect();
  const db = client.db(uniqueName('care'));
  t.teardown(async () => {
    await db.dropDatabase();
    await client.close();
  });
  return db;
}

/** Steps that note that they were made. */
function stepsOf(made: string[], more: Partial<Migration>[] = [{}, {}]): Migration[] {
  return more.map((one, at) => ({
    version: at + 1,
    name: `step ${at + 1}`,
    async up() {
      made.push(`step ${at + 1}`);
    },
    ...one,
  }));
}

/** As an earlier build left it: with data, and without a version. */
const age = (db: Db) => db.collection<{ _id: string }>('settings').insertOne({ _id: 'partitions' });

t.test('an old database is led through every step once, by one of the processes that start', async (t) => {
  const db = await openDb(t);
  await age(db);
  const made: string[] = [];
  const slow: Partial<Migration> = {
    async up() {
      made.push('slow');
      await delay(100);
    },
  };
  const list = stepsOf(made, [slow, {}]);
  t.strictSame(await createMigrations(db, { list }).state(), {
    version: 0,
    latest: 2,
    toDo: ['step 1', 'step 2'],
  });
  const said = await Promise.all([1, 2, 3].map(() => createMigrations(db, { list }).run()));
  t.strictSame(made, ['slow', 'step 2']);
  t.strictSame(said.flat(), ['step 1', 'step 2'], 'one of them says so');
  t.strictSame(await createMigrations(db, { list }).run(), [], 'a later start does nothing');
  const [kept] = await db
    .collection('settings')
    .find({ version: 2 }, { hint: { _id: 1 } })
    .toArray();
  t.match(kept, { history: [{ version: 1, name: 'step 1' }, { version: 2 }] });
  t.notOk(kept?.['lock']);
});

t.test('a new database is of the present version, and no step runs over it', async (t) => {
  const db = await openDb(t);
  const made: string[] = [];
  t.strictSame(await createMigrations(db, { list: stepsOf(made) }).run(), []);
  t.strictSame(made, []);
  t.match(await createMigrations(db, { list: stepsOf(made) }).state(), { version: 2, toDo: [] });
});

t.test('a step that fails, or whose process dies, is made again; the ones before stay made', async (t) => {
  const db = await openDb(t);
  await age(db);
  const made: string[] = [];
  const failing: Partial<Migration> = {
    up: async () => {
      throw new Error('the disk is full');
    },
  };
  await t.rejects(createMigrations(db, { list: stepsOf(made, [{}, failing]) }).run(), {
    message: 'the disk is full',
  });
  t.match(await createMigrations(db, { list: stepsOf(made) }).state(), { version: 1 });
  // The holder of the lock is gone.
  const lock = { owner: 'dead', until: new Date(Date.now() + 600) };
  await db.collection<{ _id: string }>('settings').updateOne({ _id: 'data version' }, { $set: { lock } });
  const impatient = createMigrations(db, { list: stepsOf(made), waitMs: 50 });
  await t.rejects(impatient.run(), {
    name: 'DataError',
    message: /has been migrating the data for too long/,
  });
  t.strictSame(await createMigrations(db, { list: stepsOf(made) }).run(), ['step 2']);
  t.strictSame(made, ['step 1', 'step 2']);
});

t.test('an older build works on unless a step breaks it: then it is refused with what to do', async (t) => {
  const db = await openDb(t);
  await age(db);
  const made: string[] = [];
  const old = createMigrations(db, { list: stepsOf(made, [{}]) });
  await createMigrations(db, { list: stepsOf(made, [{}, {}]) }).run();
  await t.resolves(old.check());
  t.strictSame(await old.run(), []);
  await createMigrations(db, { list: stepsOf(made, [{}, {}, { breaksOlder: true }]) }).run();
  await t.rejects(old.check(), {
    name: 'DataError',
    message: /version 3 and this build knows 1: run the later build/,
  });
});

t.test('the present steps: uploads of before know since when they are used', async (t) => {
  const db = await openDb(t);
  await age(db);
  const uploads = db.collection<{ _id: string; isUsed: boolean; createdTs: number; usedTs?: number }>(
    'uploads',
  );
  await uploads.createIndex({ isUsed: 1, createdTs: 1 });
  await uploads.insertMany([
    { _id: 'upl_1', isUsed: true, createdTs: 5 },
    { _id: 'upl_2', isUsed: true, createdTs: 5, usedTs: 7 },
    { _id: 'upl_3', isUsed: false, createdTs: 5 },
  ]);
  const care = () =>
    runCare(['migrate'], () =>
      readConfig({
        MONGODB_URL: mongodbUrl,
        NATS_URL: natsUrl,
        MONGODB_DATABASE: db.databaseName,
        STORAGE_URL: `file:${t.testdir({})}`,
      }),
    );
  t.match(await care(), { text: 'used uploads know since when they are used\nthe data is of version 1' });
  const kept = await uploads.find().hint({ _id: 1 }).sort({ _id: 1 }).toArray();
  t.strictSame(
    kept.map(({ usedTs }) => usedTs),
    [5, 7, undefined],
  );
  t.match(await care(), { text: 'nothing was to be done\nthe data is of version 1' });
});

t.test('a backup keeps every type of value, and of media only their list when it is told so', async (t) => {
  const [from, to] = [await openDb(t), await openDb(t)];
  const things = {
    int: new Int32(1),
    double: new Double(1),
    long: Long.fromString('9007199254740993'),
    decimal: Decimal128.fromString('0.10'),
    date: new Date(5),
    bytes: Buffer.from([0, 255]),
    pattern: /a+/i,
    stamp: new Timestamp({ t: 1, i: 2 }),
    list: [null, { deep: true }],
    text: 'with \u0000 and …',
  };
  await from.collection<{ _id: string }>('things').insertOne({ _id: 'one', ...things });
  await from.collection('empty').createIndex({ a: 1 });
  await from.collection<{ _id: string }>('partitions').insertOne({ _id: '0', owner: 'a worker' } as never);
  const { storage, folder } = await openStorage(t);
  for (const key of ['media/ast_1/1-a.mp4', 'media/ast_1/1-a.jpg']) await put(storage, key);
  const environment = {
    MONGODB_URL: mongodbUrl,
    NATS_URL: natsUrl,
    NATS_PREFIX: `${uniqueName('care')}.`,
    STORAGE_URL: `file:${folder}`,
    SECRETS_KEY: newKey(),
  };
  const care = (db: Db, ...args: string[]) =>
    runCare(args, () => readConfig({ ...environment, MONGODB_DATABASE: db.databaseName }));
  const backup = join(t.testdir({}), 'backup');
  t.match(
    (await care(from, 'backup', backup, '--media', 'list')).text,
    /it lists the media and does not hold them/,
  );
  t.notOk(existsSync(join(backup, 'media')));
  t.notOk(existsSync(join(backup, 'secrets.key')));
  t.equal(statSync(join(backup, 'manifest.json')).mode & 0o077, 0, 'it is for its owner alone');
  await storage.delete('media/ast_1/1-a.jpg');
  const restored = await care(to, 'restore', backup);
  t.match(restored, { exitCode: 1, text: /missing, bring them back too: media\/ast_1\/1-a\.jpg$/ });
  const rawOf = async (db: Db, name: string) =>
    db
      .collection(name)
      .find({}, { raw: true, hint: { _id: 1 } })
      .toArray();
  t.same(await rawOf(to, 'things'), await rawOf(from, 'things'), 'byte for byte');
  t.match(await to.collection('partitions').findOne({}, { hint: { _id: 1 } }), { owner: null });
  const wrong: [string[], RegExp][] = [
    [['backup'], /^usage:/],
    [['backup', backup, '--media', 'some'], /^--media is some; accepted: copy, list$/],
    [['backup', backup, '--json'], /^usage:/],
    [['restore', backup, 'more'], /^usage:/],
    [['storage'], /^usage:/],
    [['storage', 'gc', '--grace', '5m'], /^--grace is 5m; accepted: /],
    [['migrate', 'all'], /^usage:/],
    [['doctor', 'me'], /^usage:/],
  ];
  for (const [args, message] of wrong)
    await t.rejects(care(to, ...args), { name: 'CareUsageError', message });
});

async function openStorage(t: Test): Promise<{ storage: Storage; folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'garbage-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return { storage: await createFileStorage(folder), folder };
}

async function put(storage: Storage, key: string): Promise<void> {
  const signal = new AbortController().signal;
  await storage.put(key, Buffer.from(key), { contentType: contentTypeOf(key), signal });
}

async function keysIn(storage: Storage): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of storage.list('')) keys.push(key);
  return keys.sort();
}

t.test('garbage is what nothing refers to, is old enough, and has a name that is known', async (t) => {
  const store = await openStore(mongodbUrl, uniqueName('care'), { log });
  t.teardown(() => store.close());
  const { storage } = await openStorage(t);
  const assets = store.assets.actors.collection;
  const asset = (id: string, status: string, src: string) =>
    ({ _id: id, index: { status }, machine: { context: { src } } }) as never;
  await assets.insertMany([
    asset('ast_ready', 'ready', 'http://here/uploads/upl_source.jpg'),
    asset('ast_pending', 'pending', 'https://elsewhere/'),
  ]);
  await store.projects.create({ id: 'prj_1', userId: 'usr_1', name: 'p', createdTs: 1 });
  await store.projects.former.add(['prj_former'], 'usr_1');
  await store.uploads.reserve({ id: 'upl_begun', userId: 'usr_1', bytes: 1, createdTs: 1 }, 1_000);
  const needed = [
    'media/ast_ready/1-a.mp4',
    'media/ast_ready/1-a.jpg',
    'media/ast_pending/1-a-shown.jpg',
    'work/ast_pending/1/clip.mp4',
    'posters/prj_1/aa.jpg',
    'posters/prj_former/aa.jpg',
    'uploads/upl_begun.png',
    'uploads/upl_source.jpg',
    'something/else.jpg',
    'media/strange.mp4',
  ];
  const garbage = [
    'media/ast_gone/1-a.mp4',
    'media/ast_ready/1-a-shown.jpg',
    'work/ast_ready/1/clip.mp4',
    'work/ast_gone/1/clip.mp4',
    'uploads/upl_gone.webp',
    'posters/prj_gone/aa.jpg',
    'probe-00ff',
  ];
  for (const key of [...needed, ...garbage]) await put(storage, key);
  const ports = { store, storage, uploadUrl: (key: string) => `http://here/${key}` };
  const graceMs = minGraceMs;
  const young = await collectGarbage({ ...ports, now: Date.now }, { graceMs, isDeleting: true });
  t.match(
    young,
    { looked: { objects: 17 }, deleted: 0, garbage: { uploads: { objects: 0 } } },
    'nothing young',
  );

  const now = () => Date.now() + dayMs;
  const dry = await collectGarbage({ ...ports, now }, { graceMs, isDeleting: false });
  t.match(dry, {
    deleted: 0,
    garbage: {
      'media of no asset': { objects: 1 },
      'shown images': { objects: 1 },
      'work of no run': { objects: 2 },
      uploads: { objects: 1 },
      posters: { objects: 1 },
      probes: { objects: 1 },
    },
    unknown: { objects: 2 },
  });
  t.same([...dry.unknown.keys].sort(), ['media/strange.mp4', 'something/else.jpg']);
  t.equal((await keysIn(storage)).length, 17, 'a dry run deletes nothing');
  const done = await collectGarbage({ ...ports, now }, { graceMs, isDeleting: true });
  t.equal(done.deleted, garbage.length);
  t.strictSame(await keysIn(storage), needed.sort());
  await t.rejects(collectGarbage({ ...ports, now }, { graceMs: 1, isDeleting: true }), {
    name: 'RangeError',
  });
});

t.test('beside a running generation, with no grace in effect, nothing that it needs is taken', async (t) => {
  const { storage, folder } = await openStorage(t);
  const service = await startTestService(t, { STORAGE_URL: `file:${folder}` });
  const user = await service.signUp();
  const bytes = await photo({ width: 96, height: 64 });
  const base = await serveSources(t, (_, response) => void response.end(bytes));
  const form = new FormData();
  form.set('file', new Blob([bytes]), 'photo.jpg');
  const uploaded = await fetch(`${service.base}/api/v1/upload`, {
    method: 'POST',
    headers: { cookie: user.cookie },
    body: form,
  });
  const { url } = (await uploaded.json()) as { url: string };
  const collect = () =>
    collectGarbage(
      {
        store: service.store,
        storage,
        uploadUrl: (key) => `${service.base}/${key}`,
        now: () => Date.now() + 2 * dayMs,
      },
      { graceMs: minGraceMs, isDeleting: true },
    );
  const ids: string[] = [];
  for (const src of [url, `${base}/one.jpg`]) {
    const { body } = await user.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
      project_id: user.projectId,
      src,
      mode: 'animate-in',
      dur_seconds: 2,
    });
    ids.push(body.asset_id);
  }
  let isOver = false;
  let rounds = 0;
  const collecting = (async () => {
    while (!isOver) {
      await collect();
      rounds += 1;
      await delay(150);
    }
  })();
  const ends = await Promise.all(ids.map(user.untilEnd));
  isOver = true;
  await collecting;
  t.ok(rounds > 3, `${rounds} rounds`);
  await collect();
  for (const { status, mp4_url, poster_url } of ends) {
    t.equal(status, 'ready');
    for (const one of [mp4_url, poster_url]) t.equal((await fetch(one ?? '')).status, 200);
  }
  t.equal((await fetch(url)).status, 200, 'the upload is there');
});

/** How what is kept in each collection ends. A new one needs a row. */
const retention: Record<string, 'by its time' | 'with its owner' | 'by its job' | 'never'> = {
  assets: 'with its owner',
  attempts: 'by its time',
  audit: 'never',
  bulk_jobs: 'by its time',
  crawls: 'by its time',
  deliveries: 'by its time',
  erasedAccounts: 'by its job',
  formerProjects: 'with its owner',
  idempotency: 'by its time',
  identities: 'with its owner',
  mailOutbox: 'by its job',
  mailTokens: 'by its time',
  mailbox: 'by its time',
  predictions: 'by its time',
  projects: 'with its owner',
  resolutions: 'with its owner',
  sessions: 'by its time',
  tokens: 'by its time',
  uploads: 'by its job',
  usage_cycles: 'by its job',
  users: 'with its owner',
  webhooks: 'with its owner',
};

t.test(
  'every collection has an end for what is kept in it, and those that go by time have the index',
  async (t) => {
    const wanted = await wantedIndexes();
    t.strictSame([...wanted.keys()].sort(), Object.keys(retention).sort());
    const name = uniqueName('care');
    const store = await openStore(mongodbUrl, name, { log });
    t.teardown(() => store.close());
    const client = await new MongoClient(mongodbUrl).connect();
    t.teardown(() => client.close());
    for (const [collection, end] of Object.entries(retention)) {
      const indexes = await client.db(name).collection(collection).indexes();
      const isTimed = indexes.some(({ expireAfterSeconds }) => expireAfterSeconds !== undefined);
      t.equal(isTimed, end === 'by its time', collection);
      t.same(
        indexes.map(({ name }) => name).sort(),
        ['_id_', ...(wanted.get(collection) ?? [])].sort(),
        collection,
      );
    }
  },
);
