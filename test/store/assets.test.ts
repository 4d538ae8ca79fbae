/** Assets in a real MongoDB: their lists, and what requests resolve to. */
import t from 'tap';
import type { AssetInput } from '../../machines/asset.ts';
import type { AssetStatus, Mode } from '../../schemas/asset.ts';
import { pipeline } from '../../schemas/limits.ts';
import { createAssetKind } from '../../src/actors/asset.ts';
import { newDocument } from '../../src/actors/kind.ts';
import type { ActorDocument } from '../../src/store/actors.ts';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import { assetInput, options } from '../fixtures/asset-messages.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl } = await testServers();
const log = { info: () => undefined, warn: () => undefined };
const store = await openStore(mongodbUrl, uniqueName('assets'), { log });
t.teardown(() => store.close());
const { assets } = store;
const kind = createAssetKind(assets.actors, pipeline);

type Wish = {
  project: string;
  id?: string;
  ts?: number;
  status?: AssetStatus;
  mode?: Mode;
  latencyMs?: number;
};

/** An asset as its owner would have stored it. */
async function add({
  project,
  id = newId('ast'),
  ts = 1,
  status = 'pending',
  mode = 'loop',
  latencyMs,
}: Wish) {
  const input: AssetInput = assetInput({ projectId: project, options: { ...options, mode } });
  const document: ActorDocument = newDocument(kind, { id, project, input, ts });
  const { machine } = document;
  const context = { ...(machine.context as object), latencyMs: latencyMs ?? null };
  const state = status === 'pending' ? document.state : status;
  await assets.actors.insert({
    ...document,
    state,
    machine: { ...machine, value: state, context },
    index: { ...document.index, status },
  });
  return id;
}

t.test('a list is newest first, by id within a millisecond, and goes on behind its cursor', async (t) => {
  const project = newId('prj');
  const at = (ts: number, id: string) => add({ project, ts, id: `ast_${project}_${id}` });
  const oldest = await at(10, 'x');
  const [a, b, c] = [await at(20, 'a'), await at(20, 'b'), await at(20, 'c')];
  const newest = await at(30, 'm');
  const order = [newest, c, b, a, oldest];
  const list = (limit: number, after?: { createdTs: number; id: string }) =>
    assets.list({ projectIds: [project] }, limit, after);
  t.strictSame(
    (await list(10)).map(({ _id }) => _id),
    order,
  );
  for (let size = 1; size <= 5; size += 1) {
    const seen: string[] = [];
    let after: { createdTs: number; id: string } | undefined;
    for (;;) {
      const page = await list(size, after);
      const last = page.at(-1);
      if (!last) break;
      seen.push(...page.map(({ _id }) => _id));
      after = { createdTs: last.createdTs, id: last._id };
    }
    t.strictSame(seen, order, `pages of ${size}`);
  }
  const [first] = await list(1);
  t.notOk(first && ('facts' in first || 'work' in first), 'facts and work stay in the store');
});

t.test('a list holds the projects and the status that are asked for, and nothing else', async (t) => {
  const [mine, other] = [newId('prj'), newId('prj')];
  const ready = await add({ project: mine, status: 'ready' });
  const failed = await add({ project: mine, status: 'failed' });
  const foreign = await add({ project: other, status: 'failed' });
  const ids = async (filter: Parameters<typeof assets.list>[0]) =>
    (await assets.list(filter, 10)).map(({ _id }) => _id).sort();
  t.strictSame(await ids({ projectIds: [mine] }), [ready, failed].sort());
  t.strictSame(await ids({ projectIds: [mine], status: 'failed' }), [failed]);
  t.strictSame(await ids({ projectIds: [mine, other], status: 'failed' }), [failed, foreign].sort());
  t.strictSame(await ids({ projectIds: [] }), []);
  t.equal(await assets.count([mine, other]), 3);
  t.equal(await assets.count([]), 0);
  t.match(await assets.find(ready), { _id: ready, project: mine, index: { status: 'ready' } });
  t.equal(await assets.find('ast_none'), undefined);
});

t.test('what is pending in a project is found, up to a limit', async (t) => {
  const project = newId('prj');
  const pending = [await add({ project }), await add({ project })];
  await add({ project, status: 'ready' });
  await add({ project: newId('prj') });
  t.strictSame((await assets.pendingIn(project, 10)).sort(), pending.sort());
  t.equal((await assets.pendingIn(project, 1)).length, 1);
});

t.test('latencies are those of the newest finished runs of a mode and model', async (t) => {
  const project = newId('prj');
  const mode = 'animate-on-hover';
  for (const [ts, latencyMs] of [
    [1, 9_000],
    [3, 5_000],
    [2, 7_000],
  ])
    await add({ project, mode, status: 'ready', ts: ts ?? 0, latencyMs: latencyMs ?? 0 });
  await add({ project, mode, status: 'ready', ts: 9 });
  await add({ project, mode, status: 'failed', ts: 9, latencyMs: 1 });
  await add({ project, mode: 'animate-in', status: 'ready', ts: 9, latencyMs: 2 });
  t.strictSame(await assets.recentLatencies(mode, 'fast', 3), [5_000, 7_000], 'one of the three has none');
  t.strictSame(await assets.recentLatencies(mode, 'cinema', 3), []);
});

t.test('a request resolves to one asset for ever, whoever asks first', async (t) => {
  const hash = newId('hash');
  t.equal(await assets.resolved(hash), undefined);
  const wished = Array.from({ length: 40 }, () => newId('ast'));
  const resolved = await Promise.all(wished.map((id) => assets.resolve(hash, id, 'prj_1')));
  t.equal(new Set(resolved).size, 1);
  t.ok(wished.includes(resolved[0] ?? ''));
  t.equal(await assets.resolved(hash), resolved[0]);
  t.equal(await assets.resolve(hash, 'ast_late', 'prj_1'), resolved[0]);
});

t.test('a document is inserted once', async (t) => {
  const document = newDocument(kind, { id: newId('ast'), project: 'prj_1', input: assetInput(), ts: 1 });
  const inserted = await Promise.all([1, 2, 3].map(() => assets.actors.insert(document)));
  t.strictSame(inserted.filter(Boolean).length, 1);
});
