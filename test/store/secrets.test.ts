/** Secrets in the database: what is stored, what is read, and the change of keys. */
import { MongoClient } from 'mongodb';
import t, { type Test } from 'tap';
import { createSecretBox, newKey, parseKeys } from '../../src/auth/secret-box.ts';
import { openStore, type Store } from '../../src/store/client.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const client = await new MongoClient(mongodbUrl).connect();
t.teardown(() => client.close());
const log = { info: () => undefined, warn: () => undefined };
const boxOf = (...keys: string[]) => createSecretBox(parseKeys(keys.join(',')));
const [first, second, third] = [newKey(), newKey(), newKey()];
const idOf = (key: string) => boxOf(key).keyIds[0];

/** A database of its own; `open` is a process with these keys. */
function database(t: Test) {
  const name = uniqueName('secrets');
  const db = client.db(name);
  t.teardown(() => db.dropDatabase());
  const projects = db.collection<{ _id: string; signingSecret: string }>('projects');
  const webhooks = db.collection<{ _id: string; secret: string; previous: { secret: string }[] }>('webhooks');
  return {
    projects,
    webhooks,
    stored: async (id: string) => (await projects.findOne({ _id: id }))?.signingSecret ?? '',
    async open(...keys: string[]): Promise<Store> {
      const store = await openStore(mongodbUrl, name, { log, ...(keys[0] ? { box: boxOf(...keys) } : {}) });
      t.teardown(() => store.close());
      return store;
    },
  };
}

const enable = (store: Store, id: string, signingSecret: string) =>
  store.projects.configureProxy(id, 'usr_1', {}, { proxyKey: `pk_${id}`, signingSecret }, 2);
const create = (store: Store, id: string) =>
  store.projects.create({ id, userId: 'usr_1', name: id, createdTs: 1 });
const read = async (store: Store, id: string) => (await store.projects.find(id))?.signingSecret?.open();

const hook = (store: Store, id: string, secret: string) =>
  store.webhooks.save(id, { url: 'https://example.com/', events: [], isEnabled: true }, secret, 1);
const secretsOf = async (store: Store, id: string) => {
  const found = await store.webhooks.find(id);
  return [found?.secret, ...(found?.previous ?? []).map(({ secret }) => secret)].map((one) => one?.open());
};

t.test('a signing secret is stored sealed, for its project alone', async (t) => {
  const { projects, stored, open } = database(t);
  const store = await open(first);
  for (const id of ['prj_1', 'prj_2']) await create(store, id);
  t.equal((await enable(store, 'prj_1', 'sk_one'))?.signingSecret?.open(), 'sk_one');
  t.match(await stored('prj_1'), new RegExp(`^v1\\.${idOf(first)}\\.`));
  t.equal((await store.projects.findByKey('pk_prj_1'))?.signingSecret?.open(), 'sk_one');
  t.equal(
    (await enable(store, 'prj_1', 'sk_two'))?.signingSecret?.open(),
    'sk_one',
    'the first save made it',
  );
  t.ok(await store.projects.rotateSigningSecret('prj_1', 'usr_1', 'sk_three', 3));
  t.match(await stored('prj_1'), /^v1\./);
  t.equal(await read(store, 'prj_1'), 'sk_three');

  await projects.updateOne({ _id: 'prj_2' }, { $set: { signingSecret: await stored('prj_1') } });
  await t.rejects(read(store, 'prj_2'), /cannot open the signing secret of prj_2/);
  t.equal((await store.projects.list('usr_1', 10)).length, 2, 'what needs no secret is not held up by it');
});

t.test('a store without keys refuses secrets, and does the rest', async (t) => {
  const { stored, open } = database(t);
  const store = await open();
  await create(store, 'prj_1');
  await t.rejects(enable(store, 'prj_1', 'sk_one'), /the store was opened without keys for secrets/);
  t.equal(await stored('prj_1'), '', 'nothing was stored in plain');
  await enable(await open(first), 'prj_1', 'sk_one');
  t.not((await store.projects.find('prj_1'))?.signingSecret, null);
  await t.rejects(read(store, 'prj_1'), /without keys/);
});

t.test('a start without a key that is in use is refused with one line that names it', async (t) => {
  const { open } = database(t);
  await (await open(first)).secrets.checkKeys(1);
  const message = `this database was sealed with key ${idOf(first)}, which is not configured: SECRETS_KEY must name it too`;
  await t.rejects((await open(second)).secrets.checkKeys(2), { name: 'SecretError', message });
  await (await open(first)).secrets.checkKeys(3);
  await (await open(first, second)).secrets.checkKeys(4);
  await (await open(second, first)).secrets.checkKeys(5);
  await t.rejects((await open(first)).secrets.checkKeys(6), new RegExp(idOf(second)), 'both seal now');
});

t.test('of processes with different keys that start on an empty database at once, one passes', async (t) => {
  const { open } = database(t);
  const stores = await Promise.all([first, second, third, first].map((key) => open(key)));
  const started = await Promise.allSettled(stores.map((store) => store.secrets.checkKeys(1)));
  const passed = started.flatMap(({ status }, n) => (status === 'fulfilled' ? [n % 3] : []));
  t.equal(new Set(passed).size, 1, `passed: ${passed}`);
});

t.test(
  'webhook secrets, and those they have replaced, are stored sealed, for their project alone',
  async (t) => {
    const { webhooks, open } = database(t);
    const store = await open(first);
    t.equal((await hook(store, 'prj_1', 'whsec_one'))?.secret?.open(), 'whsec_one');
    t.equal((await hook(store, 'prj_1', 'whsec_no'))?.secret?.open(), 'whsec_one', 'the first save made it');
    for (const secret of ['whsec_two', 'whsec_three']) await store.webhooks.rotateSecret('prj_1', secret, 1);
    const document = await webhooks.findOne({ _id: 'prj_1' });
    const stored = [document?.secret, ...(document?.previous ?? []).map(({ secret }) => secret)];
    t.equal(stored.length, 3);
    for (const one of stored) t.match(one, new RegExp(`^v1\\.${idOf(first)}\\.`));
    t.strictSame(await secretsOf(store, 'prj_1'), ['whsec_three', 'whsec_two', 'whsec_one']);
    t.notMatch(JSON.stringify(await store.webhooks.find('prj_1')), /whsec/, 'and shown to nobody');

    await hook(store, 'prj_2', 'whsec_other');
    await webhooks.updateOne({ _id: 'prj_2' }, { $set: { secret: String(document?.secret) } });
    await t.rejects(secretsOf(store, 'prj_2'), /cannot open the webhook secret of prj_2/);
    const both = await store.webhooks.findMany(['prj_1', 'prj_2']);
    t.equal(
      both.get('prj_1')?.secret?.open(),
      'whsec_three',
      'what is sealed for others is not held up by it',
    );
  },
);

t.test('rotation', async (t) => {
  t.test('seals webhook secrets again, those that were replaced too', async (t) => {
    const { webhooks, open } = database(t);
    const before = await open(first);
    await before.secrets.checkKeys(1);
    for (const id of ['prj_1', 'prj_2', 'prj_3']) {
      await hook(before, id, 'whsec_one');
      if (id === 'prj_3') continue;
      for (const secret of ['whsec_two', 'whsec_three']) await before.webhooks.rotateSecret(id, secret, 1);
    }
    // One of them is older than the keys.
    await webhooks.updateOne({ _id: 'prj_1' }, { $set: { 'previous.1.secret': 'whsec_one' } });
    t.same(await before.secrets.countAll(), [
      { purpose: 'webhook secret', keyId: idOf(first), values: 6 },
      { purpose: 'webhook secret', keyId: null, values: 1 },
    ]);
    const during = await open(second, first);
    await during.secrets.checkKeys(2);
    // The new one in front of old ones.
    await during.webhooks.rotateSecret('prj_2', 'whsec_four', 2);
    t.strictSame(await during.secrets.rotate(), { resealed: 7, failed: 0, failedOwners: [], left: 0 });
    t.same(await during.secrets.countAll(), [{ purpose: 'webhook secret', keyId: idOf(second), values: 8 }]);
    const after = await open(second);
    await after.secrets.checkKeys(3);
    t.strictSame(await secretsOf(after, 'prj_1'), ['whsec_three', 'whsec_two', 'whsec_one']);
    t.strictSame(await secretsOf(after, 'prj_2'), ['whsec_four', 'whsec_three', 'whsec_two', 'whsec_one']);
    t.strictSame(await secretsOf(after, 'prj_3'), ['whsec_one']);
    t.strictSame(await after.secrets.rotate(), { resealed: 0, failed: 0, failedOwners: [], left: 0 });

    const sealedElsewhere = (await webhooks.findOne({ _id: 'prj_3' }))?.secret ?? '';
    await webhooks.updateOne({ _id: 'prj_1' }, { $set: { 'previous.0.secret': sealedElsewhere } });
    const next = await open(third, second);
    t.match(await next.secrets.rotate(), { resealed: 7, failed: 1, failedOwners: ['prj_1'], left: 1 });
  });

  t.test('seals everything with the first key, plain values too, and is safe to repeat', async (t) => {
    const { projects, stored, open } = database(t);
    const before = await open(first);
    await before.secrets.checkKeys(1);
    const ids = Array.from({ length: 1_203 }, (_, n) => `prj_${String(n).padStart(4, '0')}`);
    const box = boxOf(first);
    await projects.insertMany(
      ids.map((id, n) => {
        // Every third is older than the keys.
        const secret = n % 3 === 0 ? `sk_${id}` : box.seal(`sk_${id}`, { purpose: 'signing secret', id });
        return { _id: id, userId: id, isDefault: true, signingSecret: secret };
      }),
    );
    t.equal(await read(before, 'prj_0000'), 'sk_prj_0000');
    t.same(await before.secrets.countAll(), [
      { purpose: 'signing secret', keyId: null, values: 401 },
      { purpose: 'signing secret', keyId: idOf(first), values: 802 },
    ]);
    const during = await open(second, first);
    await during.secrets.checkKeys(2);
    // Two at once: each value is sealed by one of them.
    const both = await Promise.all([during.secrets.rotate(), during.secrets.rotate()]);
    t.equal(both[0].resealed + both[1].resealed, 1_203);
    t.match(both, [{ failed: 0, left: 0 }, { failed: 0 }]);
    const after = await open(second);
    await after.secrets.checkKeys(3);
    for (const id of ids) {
      if (!(await stored(id)).startsWith(`v1.${idOf(second)}.`)) t.fail(id);
      if ((await read(after, id)) !== `sk_${id}`) t.fail(id);
    }
    t.strictSame(await during.secrets.rotate(), { resealed: 0, failed: 0, failedOwners: [], left: 0 });
    await t.rejects(before.secrets.checkKeys(4), /is not configured/);
  });

  t.test('leaves what no key opens as it is, names it, and keeps its key needed', async (t) => {
    const { projects, stored, open } = database(t);
    const before = await open(first);
    await before.secrets.checkKeys(1);
    for (const id of ['prj_1', 'prj_2']) {
      await create(before, id);
      await enable(before, id, `sk_${id}`);
    }
    const moved = await stored('prj_1');
    await projects.updateOne({ _id: 'prj_2' }, { $set: { signingSecret: moved } });
    const during = await open(second, first);
    await during.secrets.checkKeys(2);
    t.strictSame(await during.secrets.rotate(), {
      resealed: 1,
      failed: 1,
      failedOwners: ['prj_2'],
      left: 1,
    });
    t.equal(await stored('prj_2'), moved);
    await t.rejects((await open(second)).secrets.checkKeys(3), new RegExp(idOf(first)));
  });

  t.test('while secrets are read and replaced fails nobody and loses nothing', async (t) => {
    const { projects, open } = database(t);
    // The service has both keys before anything is rotated, the old one in front at first.
    const service = await open(first, second);
    const next = await open(second, first);
    await service.secrets.checkKeys(1);
    await next.secrets.checkKeys(1);
    const ids = Array.from({ length: 40 }, (_, n) => `prj_${n}`);
    for (const id of ids) {
      await create(service, id);
      await enable(service, id, `sk_${id}_0`);
    }
    let round = 1;
    let isOver = false;
    const last = new Map<string, string>();
    const using = (async () => {
      for (; !isOver || round < 3; round += 1) {
        for (const id of ids) {
          const secret = `sk_${id}_${round}`;
          await (round % 2 ? next : service).projects.rotateSigningSecret(id, 'usr_1', secret, 3);
          last.set(id, secret);
          t.equal(await read(service, id), secret);
        }
      }
    })();
    while (round < 2) await next.secrets.rotate();
    isOver = true;
    await using;
    await next.secrets.rotate();
    for (const id of ids) t.equal(await read(next, id), last.get(id));
    const left = await projects.countDocuments(
      { signingSecret: { $not: new RegExp(idOf(second)) } },
      { hint: { _id: 1 } },
    );
    t.equal(left, 0);
  });
});
