/** Erasing an account: gone at once, e-mail and keys included, and in the end from every collection and folder. */
import t from 'tap';
import { erasure as limits } from '../../schemas/limits.ts';
import { systemClock } from '../../src/actors/clock.ts';
import type { AssetView } from '../../src/http/asset-requests.ts';
import { posterKey } from '../../src/media/poster-key.ts';
import type { ProjectRecord } from '../../src/store/projects.ts';
import { type Account, dyingAfter, putDelivery, putFiles, startErasureWorld } from '../fixtures/erasure.ts';
import { password } from '../fixtures/http.ts';

const world = await startErasureWorld(t);
const { front, store, storage, requests } = world;
const { signal } = new AbortController();

type Full = Account & { projects: ProjectRecord[]; assets: AssetView[]; words: string[] };

const erase = ({ cookie }: Account, current: string | undefined = password) =>
  front.call('DELETE', '/api/user', { cookie, body: { current } });

async function putUpload(userId: string, id: string, isComplete: boolean): Promise<string> {
  const key = `uploads/${id}.webp`;
  await store.uploads.reserve({ id, userId, bytes: 1, createdTs: Date.now() - 3_600_000 }, 1_000);
  await storage.put(key, Buffer.from('x'), { contentType: 'image/webp', signal });
  if (isComplete) await store.uploads.complete(id, key, 1);
  return `http://localhost:8080/${key}`;
}

/** An account with something of everything: two projects, one of them deleted, and assets in every state. */
async function fullAccount(name: string): Promise<Full> {
  const account = await world.newAccount();
  const { cookie, userId, email, project } = account;
  const made = await front.call('POST', '/api/projects', { cookie, body: { name: 'Second' } });
  const { id } = made.body['project'] as { id: string };
  const second = await store.projects.find(id);
  if (!second) throw new Error('no second project');
  await front.call('PUT', `/api/projects/${project.id}/proxy-config`, {
    cookie,
    body: { enable_signing: true },
  });
  await front.call('POST', '/api/user/signin', { body: { email, password } });
  await front.call('POST', '/api/user/tokens', { cookie, body: { name: 'ci' } });
  await front.call('POST', '/api/user/password/forgot', { body: { email } });
  await store.identities.link({ provider: 'google', subject: `g-${name}`, userId, email, createdTs: 1 });
  await store.mailbox.add({
    id: `mail_${name}`,
    to: email,
    subject: 's',
    text: 't',
    html: 'h',
    ts: Date.now(),
  });
  await store.usage.record(userId, {
    startTs: 1,
    endTs: 2,
    plan: 'free',
    runs: 1,
    overageRuns: 0,
    overageCents: 0,
  });
  const src = await putUpload(userId, `upl_${name}used`, true);
  await putUpload(userId, `upl_${name}unused`, true);
  await putUpload(userId, `upl_${name}half`, false);
  const assets = [
    await world.prepare(project, { src }),
    await world.prepare(project),
    await world.prepare(second),
    await world.prepare(second),
  ];
  for (const asset of assets) await world.until(asset.id, 'pending');
  const [ready, , , inDeleted] = assets;
  if (ready) await world.finish(ready);
  if (inDeleted) await putFiles(storage, inDeleted.id);
  for (const asset of assets) await putDelivery(store, asset);
  for (const one of [project, second]) {
    const poster = posterKey(one.id, 'https://example.com/never-made.png');
    await storage.put(poster, Buffer.from('x'), { contentType: 'image/jpeg', signal });
    const webhook = { url: `https://example.com/${name}`, events: [], isEnabled: true };
    await store.webhooks.save(one.id, webhook, 'whsec_c2VjcmV0', Date.now());
  }
  await front.call('DELETE', `/api/projects/${second.id}`, { cookie });
  const words = [
    userId,
    email,
    project.id,
    second.id,
    `upl_${name}`,
    `https://example.com/${name}`,
    ...assets.map((asset) => asset.id),
  ];
  return { ...account, projects: [project, second], assets, words };
}

async function remains({ words, projects }: Full): Promise<string[]> {
  const dump = await world.dump();
  const found = words.filter((word) => dump.includes(word));
  for (const { id } of projects) {
    for await (const fact of world.bus.replayFacts(id, '*', 0)) found.push(JSON.stringify(fact));
  }
  return found;
}

async function untilErased({ assets }: Full): Promise<void> {
  for (const { id } of assets) await world.until(id, 'erased');
}

t.test('DELETE /api/user', async (t) => {
  t.test('400 without the password and 403 for a wrong one, throttled, and nothing is erased', async (t) => {
    const account = await world.newAccount();
    const { cookie } = account;
    t.match(await front.call('DELETE', '/api/user', { cookie }), { status: 400 });
    for (let n = 0; n < 10; n += 1) {
      t.match(await erase(account, 'wrong horse'), { status: 403, body: { error: 'wrong password' } });
    }
    const refused = await erase(account);
    t.match(refused, { status: 429, body: { error: 'rate limited' } });
    t.ok(Number(refused.headers.get('retry-after')) > 0);
    t.match(await front.call('GET', '/api/user/me', { cookie }), { status: 200 });
  });

  t.test('401 without a session, and for a second time', async (t) => {
    t.equal((await front.call('DELETE', '/api/user', { body: { current: password } })).status, 401);
    const account = await world.newAccount();
    t.equal((await erase(account)).status, 200);
    t.equal((await erase(account)).status, 401);
  });

  t.test('200 without a password for an account that has none', async (t) => {
    const { userId, cookie } = await world.newAccount();
    await world.db
      .collection<{ _id: string }>('users')
      .updateOne({ _id: userId }, { $set: { passwordHash: null } });
    t.equal((await front.call('DELETE', '/api/user', { cookie })).status, 200);
  });

  t.test('200, and at once it is as if there had never been such an account', async (t) => {
    const account = await fullAccount('first');
    const { cookie, email, project, assets } = account;
    const key = (await store.projects.find(project.id))?.proxyKey ?? '';
    const other = await front.call('POST', '/api/user/signin', { body: { email, password } });
    const answer = await erase(account);
    t.match(answer, { status: 200, body: { ok: true } });
    t.match(answer.headers.getSetCookie()[0], /^service\.session_token=;.*Max-Age=0/);
    t.equal((await front.call('GET', '/api/user/me', { cookie })).status, 401);
    front.clock.now += 1_001;
    const otherCookie = other.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    t.equal((await front.call('GET', '/api/user/me', { cookie: otherCookie })).status, 401);
    t.equal((await front.call('POST', '/api/user/signin', { body: { email, password } })).status, 401);
    t.equal(await store.projects.findByKey(key), undefined);
    const told = world.sent.map(({ name, body }) => JSON.stringify({ name, ...(body as object) }));
    t.ok(told.some((text) => text.includes('project.changed') && text.includes(key)));
    t.ok(told.some((text) => text.includes('session.ended') && text.includes(account.userId)));

    const heir = await world.newAccount(email);
    t.not(heir.userId, account.userId, 'the e-mail is free');
    const kept = await world.prepare(heir.project);

    await world.roundAt(0);
    t.strictSame(
      await Promise.all(assets.map(({ id }) => requests.find(id))),
      assets.map(() => undefined),
    );
    const files = await world.keys();
    t.strictSame(
      files.filter((one) => /first|media|posters/.test(one)),
      [],
    );
    await untilErased(account);
    for (const ms of [limits.settleMs, limits.keptMs, limits.keptMs + limits.passMs])
      await world.roundAt(ms + 1_000);
    await world.roundAt(limits.keptMs + 3 * limits.passMs);
    t.strictSame(
      (await remains(account)).filter((word) => word !== email),
      [],
    );
    t.match(await requests.find(kept.id), { id: kept.id }, 'and the new account keeps what it has');
    t.match(await front.call('GET', '/api/user/me', { cookie: heir.cookie }), { status: 200 });
  });
});

t.test('what requests under way leave behind is found, too', async (t) => {
  const account = await fullAccount('slowly');
  const { userId, project } = account;
  await erase(account);
  await world.roundAt(0);
  const late = { id: 'prj_late0000000000000000', userId, name: 'Late', createdTs: Date.now() };
  await store.projects.create(late);
  await store.sessions.insert({
    hash: 'latehash',
    id: 'ses_late',
    userId,
    epoch: 0,
    userAgent: null,
    address: null,
    createdTs: 0,
    seenTs: 0,
    touchedTs: 0,
    expiresTs: Date.now() + 1e9,
  });
  await putUpload(userId, 'upl_slowlyagain', true);
  await store.assets.resolve('latewish', 'ast_latewish', project.id);
  await store.webhooks.rotateSecret(project.id, 'whsec_bGF0ZQ==', Date.now());
  await putDelivery(store, { id: 'ast_latewish', projectId: project.id });
  await untilErased(account);
  for (const ms of [limits.passMs, limits.settleMs, limits.keptMs]) await world.roundAt(ms + 1_000);
  await world.roundAt(limits.keptMs + 2 * limits.passMs);
  t.strictSame(await remains({ ...account, words: [...account.words, late.id] }), []);
});

t.test('processes that die at any step, and two at once, leave nothing', async (t) => {
  const account = await fullAccount('crash');
  await erase(account);
  let deaths = 0;
  let offsetMs = 0;
  const now = () => Date.now() + offsetMs;
  const processAfter = (calls: number) => {
    const dying = dyingAfter(world.ports, calls);
    const process = world.erasureAt(0, { ...dying.ports, now });
    return { ...dying, round: () => process.round(systemClock).catch(() => undefined) };
  };
  const isOver = async () =>
    (await world.db.collection<{ _id: string }>('erasedAccounts').findOne({ _id: account.userId })) === null;
  for (let calls = 1, tries = 0; tries < 300 && !(await isOver()); calls += 4, tries += 1) {
    const one = processAfter(calls);
    await Promise.all([one.round(), tries % 5 === 0 ? processAfter(calls + 3).round() : undefined]);
    if (one.isDead()) deaths += 1;
    else calls = tries % 4;
    // Leases of the dead are over; between passes most of the time goes by.
    offsetMs += one.isDead() ? 61_000 : limits.keptMs / 2;
  }
  t.ok(deaths > 15, `${deaths} deaths`);
  t.strictSame(await remains(account), []);
});

t.test('many assets are hidden in one pass, and are then erased many at a time', async (t) => {
  const account = await world.newAccount();
  const { project } = account;
  const { id } = await world.prepare(project);
  const { collection } = store.assets.actors;
  const template = await collection.findOne({ _id: id });
  if (!template) throw new Error('no document');
  const ids = Array.from({ length: 100 }, (_, n) => `ast_many${n}`);
  await collection.insertMany(ids.map((_id) => ({ ...template, _id, state: 'erased' })));
  await erase(account);
  await world.roundAt(0);
  t.equal(await store.assets.count([project.id]), 0);
  await world.roundAt(limits.keptMs + 1_000);
  t.equal(await collection.countDocuments({ _id: { $in: ids } }), 0);
});
