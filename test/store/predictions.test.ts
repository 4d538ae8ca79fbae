/** The ledger of predictions: who may submit, also where answers of the store are lost; and patience with a store. */
import { MongoNetworkError } from 'mongodb';
import t from 'tap';
import { openStore } from '../../src/store/client.ts';
import { patient } from '../../src/store/patient.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const log = { info: () => undefined, warn: () => undefined };

const store = await openStore(mongodbUrl, uniqueName('predictions'), { log });
t.teardown(() => store.close());
const { predictions } = store;
const now = 1_800_000_000_000;

t.test('of all who begin one submit one may make it, and may ask again', async (t) => {
  const purchase = { token: 'ast_1-1-single-1', stageKey: 'ast_1-1-single', provider: 'fal' };
  const claims = Array.from({ length: 8 }, (_, n) => `claim-${n}`);
  const begun = await Promise.all(claims.map((claim) => predictions.begin(purchase, claim, now)));
  const [mine, ...others] = claims.filter((_, n) => begun[n]?.state === 'fresh');
  t.strictSame(others, []);
  t.equal(begun.filter(({ state }) => state === 'pending').length, 7);
  t.match(await predictions.begin(purchase, mine ?? '', now), { state: 'fresh' }, 'whose answer was lost');
  t.match(await predictions.begin(purchase, 'another', now), { state: 'pending', sinceTs: now });

  await predictions.refused(purchase.token);
  t.match(await predictions.begin(purchase, 'second', now + 1), { state: 'fresh' });
  t.match(await predictions.begin(purchase, 'second', now + 2), { state: 'fresh' });
  t.match(await predictions.begin(purchase, mine ?? '', now + 2), { state: 'pending', sinceTs: now + 1 });

  const job = { provider: 'fal', id: 'p1' };
  await predictions.bought(purchase.token, job);
  t.match(await predictions.begin(purchase, 'second', now + 3), { state: 'known', job });
});

t.test('what is patient waits for a store that is away, and for nothing else', async (t) => {
  const outages = [new MongoNetworkError('closed'), Object.assign(new Error('cut'), { code: 'ECONNRESET' })];
  const asked: number[] = [];
  const twice = patient(async (n: number) => {
    asked.push(n);
    const outage = outages.shift();
    if (outage) throw outage;
    return n * 2;
  });
  t.equal(await twice(21), 42);
  t.strictSame(asked, [21, 21, 21]);

  let tries = 0;
  const wrong = patient(async () => {
    tries += 1;
    throw new Error('a fault of ours');
  });
  await t.rejects(wrong(), { message: 'a fault of ours' });
  t.equal(tries, 1);
});
