/** Erasing an asset: gone at once for everybody, gone for good in the end, whatever is under way or dies. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import { erasure as limits } from '../../schemas/limits.ts';
import { systemClock } from '../../src/actors/clock.ts';
import type { AssetView } from '../../src/http/asset-requests.ts';
import { posterKey } from '../../src/media/poster-key.ts';
import { messageOf } from '../fixtures/asset-messages.ts';
import { type Account, dyingAfter, putDelivery, putFiles, startErasureWorld } from '../fixtures/erasure.ts';

const world = await startErasureWorld(t);
const { front, store, storage, requests } = world;
const { signal } = new AbortController();

const erase = async (id: string, { cookie }: Account) =>
  (await front.call('DELETE', `/api/assets/${id}`, { cookie })).status;
const usedBy = async ({ userId }: Account) => (await store.quota.find(userId))?.used;
const sweepHolds = (ms: number) => world.requestsWith({ now: () => Date.now() + ms }).settleHolds();

/** Time goes on until nothing is left to be done. */
async function toTheEnd(id: string): Promise<void> {
  await world.until(id, 'erased');
  for (const ms of [limits.retryMs, limits.settleMs, limits.keptMs]) await world.roundAt(ms + 1_000);
}

async function assetIn(state: string, account: Account): Promise<AssetView> {
  const asset = await world.prepare(account.project);
  await world.until(asset.id, 'pending');
  if (state === 'ready') await world.finish(asset);
  if (state === 'cancelled') await requests.cancel(asset, 'req_cancel');
  if (state === 'failed') {
    const failure = messageOf.WORK_FAILED({ run: 1, stage: 'source', attempt: 1 }, 0);
    await world.send(asset, { ...failure, retry: 'permanent' } as AssetMessage);
  }
  await world.until(asset.id, state);
  await putFiles(storage, asset.id);
  return asset;
}

for (const state of ['pending', 'ready', 'failed', 'cancelled']) {
  t.test(`200 for an asset that is ${state}: nobody finds it, and in the end nothing does`, async (t) => {
    const account = await world.newAccount();
    const { cookie, project } = account;
    const other = await world.prepare(project);
    const asset = await assetIn(state, account);
    const poster = posterKey(project.id, asset.src);
    for (const one of [asset, other]) await putDelivery(store, one);
    await storage.put(poster, Buffer.from('x'), { contentType: 'image/jpeg', signal });

    t.equal(await erase(asset.id, account), 200);
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/timeline'],
      ['POST', '/regenerate'],
      ['POST', '/cancel'],
      ['DELETE', ''],
    ] as const) {
      const { status } = await front.call(method, `/api/assets/${asset.id}${path}`, { cookie });
      t.equal(status, 404, `${method} ${path}`);
    }
    const list = await front.call('GET', '/api/assets', { cookie });
    t.match(list.body, { assets: [{ asset_id: other.id }] });
    const read = await front.call('GET', `/api/projects/${project.id}`, { cookie });
    t.equal(read.body['compositionCount'], 1);
    t.strictSame(await world.keys(`media/${asset.id}/`), []);
    t.strictSame(await world.keys(`posters/`), []);
    t.match(world.sent.at(-1), { name: 'asset.erased', body: { assetId: asset.id, poster } });

    await world.until(asset.id, 'erased');
    // Its owner notes a few times a second what it has published.
    await wait(500);
    await world.roundAt(limits.retryMs + 1_000);
    const kept = JSON.stringify(await store.assets.findKept(asset.id));
    t.match(kept, asset.id);
    t.notMatch(kept, /example|queued/, 'what is left for a while says nothing of what it was');
    await toTheEnd(asset.id);
    await sweepHolds(2 * limits.keptMs);
    t.equal(await usedBy(account), 2, 'the quota is not given back');
    const left = await world.dump();
    t.notMatch(left, asset.id);
    t.match(left, `dlv_${other.id}`, 'deliveries of others stay');
    const facts: { event: string }[] = [];
    for await (const fact of world.bus.replayFacts(project.id, asset.id, 0)) facts.push(fact as never);
    t.strictSame(facts, [], 'its events are gone, too');
  });
}

t.test('404 for somebody else’s, for none, and for the second of two at once', async (t) => {
  const [account, other] = [await world.newAccount(), await world.newAccount()];
  const asset = await world.prepare(account.project);
  t.equal(await erase(asset.id, other), 404);
  t.equal(await erase('ast_none', account), 404);
  const statuses = await Promise.all(Array.from({ length: 10 }, () => erase(asset.id, account)));
  t.strictSame(statuses.toSorted(), [200, ...Array.from({ length: 9 }, () => 404)]);
});

t.test('200 for an asset of a project that was deleted, for its owner alone', async (t) => {
  const [account, other] = [await world.newAccount(), await world.newAccount()];
  const asset = await world.prepare(account.project);
  await front.call('DELETE', `/api/projects/${account.project.id}`, { cookie: account.cookie });
  t.equal(await erase(asset.id, other), 404);
  t.equal(await erase(asset.id, account), 200);
});

t.test('the same request makes a new asset, which counts, at once and in the end', async (t) => {
  const account = await world.newAccount();
  const first = await world.prepare(account.project);
  await erase(first.id, account);
  const second = await world.prepare(account.project, { src: first.src });
  t.not(second.id, first.id);
  t.equal((await world.prepare(account.project, { src: first.src })).id, second.id);
  await toTheEnd(first.id);
  t.equal((await world.prepare(account.project, { src: first.src })).id, second.id);
  t.equal(await usedBy(account), 2);
});

t.test('a prepare that is under way does not bring it back, and leaves nobody stuck', async (t) => {
  const account = await world.newAccount();
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const slow = world.requestsWith({
    assets: {
      ...store.assets,
      async resolve(...args) {
        const id = await store.assets.resolve(...args);
        await opened;
        // What it has found out before the erasure is remembered once more after it.
        return store.assets.resolve(args[0], id, args[2]);
      },
    },
  });
  const asked = { src: 'https://example.com/late.png', mode: 'animate-in' as const };
  const late = slow.prepare(account.project, asked, 'req_late');
  let asset = await world.prepare(account.project, asked);
  await world.until(asset.id, 'pending');
  t.equal(await erase(asset.id, account), 200);
  open();
  t.match(await late, { outcome: 'busy' }, 'to be asked again');
  t.equal(await requests.find(asset.id), undefined);
  const again = await world.prepare(account.project, asked);
  t.not(again.id, asset.id);
  asset = again;
  await sweepHolds(120_000);
  t.equal(await usedBy(account), 2, 'the late one is not counted');
});

t.test('late work, a START that comes again and a regenerate change nothing any more', async (t) => {
  const account = await world.newAccount();
  const asset = await assetIn('pending', account);
  t.equal(await erase(asset.id, account), 200);
  await world.until(asset.id, 'erased');
  const before = await store.assets.findKept(asset.id);
  await putFiles(storage, asset.id);
  const ref = { run: 1, stage: 'source', attempt: 1 } as const;
  for (const type of ['START', 'SOURCE_FETCHED', 'STORED', 'REGENERATE', 'CANCEL'] as const) {
    await world.send(asset, messageOf[type](ref, 0));
  }
  const marker = await world.prepare(account.project);
  await world.until(marker.id, 'pending');
  t.strictSame((await store.assets.findKept(asset.id))?.version, before?.version);
  await world.roundAt(limits.retryMs + 1_000);
  await world.roundAt(limits.settleMs + 1_000);
  t.strictSame(await world.keys(`media/${asset.id}/`), [], 'files that came late are found');
  await putFiles(storage, asset.id);
  await world.roundAt(limits.keptMs + 1_000);
  await world.send(asset, messageOf.START(ref, 0));
  await world.until((await world.prepare(account.project)).id, 'pending');
  t.notMatch(await world.dump(), asset.id, 'also those that came later still');
});

t.test('a regenerate that meets an erasure is answered 404 and, when it has lost, not counted', async (t) => {
  const account = await world.newAccount();
  const asset = await assetIn('ready', account);
  const regenerating = world.requestsWith({
    bus: {
      ...world.bus,
      async publish(message) {
        await erase(asset.id, account);
        await world.until(asset.id, 'erased');
        return world.bus.publish(message);
      },
    },
  });
  const outcome = await regenerating.regenerate(account.project, asset, {}, 'req_2');
  t.strictSame(outcome, { outcome: 'erased' });
  t.equal(await usedBy(account), 2);
  await toTheEnd(asset.id);
  await sweepHolds(limits.keptMs);
  t.equal(await usedBy(account), 1);
});

t.test('with every worker away it is gone at once, and its machine is told when one comes', async (t) => {
  const account = await world.newAccount();
  const asset = await assetIn('pending', account);
  await world.stopOwner();
  t.equal(await erase(asset.id, account), 200);
  t.equal(await requests.find(asset.id), undefined);
  await world.roundAt(limits.keptMs + 1_000);
  t.ok(await store.assets.findKept(asset.id), 'not removed before the machine knows');
  world.startOwner();
  await world.until(asset.id, 'erased');
  const replayed = async () => {
    const events: string[] = [];
    for await (const fact of world.bus.replayFacts(account.project.id, asset.id, 0)) {
      events.push((fact as { event: string }).event);
    }
    return events;
  };
  // Its step is stored before it is told.
  while ((await replayed()).length < 2);
  t.strictSame(await replayed(), ['queued', 'cancelled'], 'its run has one end');
});

t.test('an upload goes with the last asset that uses it, and nobody else’s', async (t) => {
  const [account, thief] = [await world.newAccount(), await world.newAccount()];
  const upload = async (userId: string, n: number) => {
    const [id, key] = [`upl_${userId}${n}`, `uploads/upl_${userId}${n}.png`];
    await store.uploads.reserve({ id, userId, bytes: 1, createdTs: Date.now() }, 100);
    await storage.put(key, Buffer.from('x'), { contentType: 'image/png', signal });
    await store.uploads.complete(id, key, 1);
    return { key, src: `http://localhost:8080/${key}` };
  };
  const isThere = async (key: string) => (await storage.head(key)) !== undefined;
  const { key, src } = await upload(account.userId, 1);
  const [one, two] = [
    await world.prepare(account.project, { src }),
    await world.prepare(account.project, { src, seed: 2 }),
  ];
  const long = { now: () => Date.now() + limits.uploadUsedMs + 1_000 };
  const later = world.erasureAt(0, long);
  await later.eraseAsset(one);
  t.ok(await isThere(key), 'another asset uses it');
  await later.eraseAsset(two);
  t.notOk(await isThere(key));

  const young = await upload(account.userId, 2);
  const third = await world.prepare(account.project, { src: young.src });
  await erase(third.id, account);
  t.ok(await isThere(young.key), 'an asset that uses it may be on the way');
  await world.until(third.id, 'erased');
  await world.roundAt(limits.retryMs + 1_000);
  await world.roundAt(limits.settleMs + 1_000);
  t.notOk(await isThere(young.key));
  t.strictSame(await store.uploads.ofUser(account.userId, 0, 10), []);

  const foreign = await upload(account.userId, 3);
  const stolen = await world.prepare(thief.project, { src: foreign.src });
  await later.eraseAsset(stolen);
  t.ok(await isThere(foreign.key), 'who only used it does not delete it');
});

t.test('a process that dies at any step leaves nothing that another does not finish', async (t) => {
  const account = await world.newAccount();
  const asset = await assetIn('ready', account);
  let deaths = 0;
  let offsetMs = 0;
  const now = () => Date.now() + offsetMs;
  const isOver = async () => (await store.assets.findKept(asset.id)) === undefined;
  for (let calls = 1, tries = 0; tries < 300 && !(await isOver()); calls += 1, tries += 1) {
    const dying = dyingAfter(world.ports, calls);
    const process = world.erasureAt(0, { ...dying.ports, now });
    const isBegun = (await requests.find(asset.id)) === undefined;
    await (isBegun ? process.round(systemClock) : process.eraseAsset(asset)).catch(() => undefined);
    if (dying.isDead()) deaths += 1;
    else calls = 0;
    // Leases of the dead are over.
    offsetMs += 31_000;
  }
  t.ok(deaths > 20, `${deaths} deaths`);
  t.notMatch(await world.dump(), asset.id);
  await sweepHolds(offsetMs);
  t.equal(await usedBy(account), 1);
});
