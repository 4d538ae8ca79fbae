/** Opening the store: what it refuses. */
import t from 'tap';
import { freePort } from '../../src/demo/free-port.ts';
import { createLog } from '../../src/log.ts';
import { checkReplicaSet, openStore } from '../../src/store/client.ts';

t.test('a standalone server is refused, members of replica sets and routers are not', async (t) => {
  t.throws(() => checkReplicaSet({}), /runs standalone: make it a replica set/);
  t.doesNotThrow(() => checkReplicaSet({ setName: 'rs0' }));
  t.doesNotThrow(() => checkReplicaSet({ msg: 'isdbgrid' }));
});

t.test('a store that is not there is tried until the signal is aborted', async (t) => {
  const url = `mongodb://127.0.0.1:${await freePort()}/?serverSelectionTimeoutMS=100`;
  const given = new AbortController();
  const opening = openStore(url, 'none', { log: createLog('silent'), signal: given.signal });
  given.abort(new Error('the start was given up'));
  await t.rejects(opening, { message: 'the start was given up' });
});
