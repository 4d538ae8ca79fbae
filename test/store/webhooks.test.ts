/** Webhooks in the store: first saves at once, saves that come after the end, and the end of very many deliveries. */
import { MongoClient } from 'mongodb';
import t from 'tap';
import { createSecretBox, newKey, parseKeys } from '../../src/auth/secret-box.ts';
import { openStore } from '../../src/store/client.ts';
import { endWebhooks } from '../../src/store/webhooks.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const client = await new MongoClient(mongodbUrl).connect();
const name = uniqueName('webhooks');
const db = client.db(name);
const log = { info: () => undefined, warn: () => undefined };
const store = await openStore(mongodbUrl, name, {
  log,
  box: createSecretBox(parseKeys(newKey())),
});
const { webhooks, close } = store;
t.teardown(async () => {
  await db.dropDatabase();
  await close();
  await client.close();
});

const change = { url: 'https://example.com/hook', events: [], isEnabled: true };

t.test('first saves at once are one configuration with one secret', async (t) => {
  const secrets = Array.from({ length: 10 }, (_, n) => `whsec_${n}`);
  const saved = await Promise.all(secrets.map((secret) => webhooks.save('prj_new', change, secret, 1)));
  t.equal(new Set(saved.map((one) => one?.secret?.open())).size, 1);
  t.strictSame(
    saved.map((one) => one?.revision ?? 0).sort((a, b) => a - b),
    secrets.map((_, n) => n + 1),
    'each was stored',
  );
});

t.test('what has ended with its project is not changed by whoever comes late', async (t) => {
  await webhooks.save('prj_old', change, 'whsec_a', 1);
  await client.withSession((session) => endWebhooks(db, 'prj_old', session));
  t.equal(await webhooks.save('prj_old', change, 'whsec_b', 2), undefined);
  t.equal(await webhooks.rotateSecret('prj_old', 'whsec_c', 3), undefined);
  t.match(await webhooks.find('prj_old'), { url: null, isEnabled: false, secret: null });
});

t.test('thousands of deliveries go with their project, and those of another stay', async (t) => {
  const deliveries = db.collection<{ _id: string; project: string }>('deliveries');
  const of = (project: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({ _id: `dlv_${project}_${n}`, project }));
  await deliveries.insertMany([...of('prj_large', 4_500), ...of('prj_other', 3)]);
  await store.deliveries.removeAllOf(['prj_large']);
  t.equal(await deliveries.countDocuments({ project: 'prj_large' }), 0);
  t.equal(await deliveries.countDocuments({ project: 'prj_other' }), 3);
});
