/** Opening the store: what it refuses. */
import { MongoClient } from 'mongodb';
import t from 'tap';
import { freePort } from '../../src/demo/free-port.ts';
import { createLog } from '../../src/log.ts';
import { checkReplicaSet, isStoreOutage, openStore } from '../../src/store/client.ts';
import { testServers } from '../fixtures/servers.ts';

t.test('a standalone server is refused, members of replica sets and routers are not', async (t) => {
  t.throws(() => checkReplicaSet({}, 1), /runs standalone: make it a replica set/);
  t.doesNotThrow(() => checkReplicaSet({ setName: 'rs0', hosts: ['a'] }, 1));
  t.doesNotThrow(() => checkReplicaSet({ msg: 'isdbgrid' }, 3));
  t.throws(() => checkReplicaSet({ setName: 'rs0', hosts: ['a', 'b'] }, 3), /rs0 has 2 of the 3 members/);
  t.doesNotThrow(() => checkReplicaSet({ setName: 'rs0', hosts: ['a', 'b'], passives: ['c'] }, 3));
});

t.test('a store that is not there is tried until the signal is aborted', async (t) => {
  const url = `mongodb://127.0.0.1:${await freePort()}/?serverSelectionTimeoutMS=100`;
  const given = new AbortController();
  const opening = openStore(url, 'none', { log: createLog('silent'), signal: given.signal });
  given.abort(new Error('the start was given up'));
  await t.rejects(opening, { message: 'the start was given up' });
});

t.test('a wait for a connection that is too long is an outage, not a fault of ours', async (t) => {
  const { mongodbUrl } = await testServers();
  // Long enough to make a connection on a busy machine.
  const client = new MongoClient(mongodbUrl, { maxPoolSize: 1, waitQueueTimeoutMS: 1_000 });
  t.teardown(() => client.close());
  const db = client.db('admin');
  const { topologyVersion } = await db.command({ hello: 1 }, { promoteLongs: false });
  // Answered only when something changes, or the time is up: the one connection is taken until then.
  const long = db.command({ hello: 1, topologyVersion, maxAwaitTimeMS: 3_000 });
  const cause = await db.command({ ping: 1 }).catch((error: unknown) => error);
  t.equal(isStoreOutage(cause), true, String(cause));
  t.equal(isStoreOutage(new Error('something else')), false);
  t.equal(isStoreOutage(Object.assign(new Error('ended'), { code: 'EPIPE' })), true, 'a socket was closed');
  await long;
});
