/** Erasing with everything real: two front ends on one bus forget within a second, streams end, runs are cancelled. */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { PrepareResponse } from '../../schemas/asset.ts';
import { newKey } from '../../src/auth/secret-box.ts';
import { openBus } from '../../src/bus/bus.ts';
import { createLog } from '../../src/log.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { finishAsset, startTestOwner } from '../fixtures/erasure.ts';
import { photo } from '../fixtures/images.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { serveSources, startTestService, type TestService } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

const storage = await mkdtemp(join(tmpdir(), 'erasure-'));
t.teardown(() => rm(storage, { recursive: true, force: true }));
const name = uniqueName('erasure');
const shared = {
  MONGODB_DATABASE: name,
  NATS_PREFIX: `${name}.`,
  STORAGE_URL: `file:${storage}`,
  SECRETS_KEY: newKey(),
};
const origin = 'https://page.example';
const withinMs = 1_000;

const statusOf = async (url: string, cookie = '') => {
  const answer = await fetch(url, { headers: { origin, cookie } });
  await answer.arrayBuffer();
  return answer.status;
};

/** Waits until all addresses answer with a status. Answers the ms it took. */
async function msUntil(urls: string[], status: number, cookie?: string): Promise<number> {
  const startedAt = performance.now();
  for (;;) {
    const statuses = await Promise.all(urls.map((url) => statusOf(url, cookie)));
    const ms = performance.now() - startedAt;
    if (statuses.every((one) => one === status)) return ms;
    if (ms > 20 * withinMs) throw new Error(`${urls} answer ${statuses}`);
  }
}

/** Reads a stream to its end. */
async function openStream(url: string, headers: Record<string, string>) {
  const answer = await fetch(url, { headers });
  return { status: answer.status, text: answer.text() };
}

async function begin(t: Test, one: TestService) {
  const user = await one.signUp();
  const saved = await user.call<{ project: { proxy_key: string } }>(
    'PUT',
    `/api/projects/${user.projectId}/proxy-config`,
    { allowed_origins: [origin] },
  );
  const bytes = await photo();
  const sources = await serveSources(t, (_, response) => {
    response.setHeader('content-type', 'image/jpeg').end(bytes);
  });
  return {
    user,
    sources,
    key: saved.body.project.proxy_key,
    async prepare(src: string) {
      const body = { project_id: user.projectId, src, mode: 'animate-in', dur_seconds: 2 };
      return (await user.call<PrepareResponse>('POST', '/api/v1/prepare', body)).body.asset_id;
    },
  };
}

t.test('two front ends forget an asset and its media within a second, and its streams end', async (t) => {
  const one = await startTestService(t, { ...shared, ROLE: 'http,scheduler' });
  const two = await startTestService(t, { ...shared, ROLE: 'http', BASE_URL: one.base });
  const { natsUrl } = await testServers();
  const log = createLog('silent');
  const bus = await openBus({
    url: natsUrl,
    prefix: shared.NATS_PREFIX,
    replicas: 1,
    lastPosition: async () => 0,
    log,
  });
  const owner = startTestOwner(one.store, bus);
  t.teardown(async () => {
    await owner.stop();
    await bus.close();
  });
  const { user, key, sources, prepare } = await begin(t, one);
  const src = `${sources}/one.jpg`;
  const id = await prepare(src);
  await finishAsset({ id, projectId: user.projectId }, bus, await createFileStorage(storage));
  const asset = await user.untilEnd(id);
  t.equal(asset.status, 'ready');
  const path = (url: string | null) => new URL(url ?? '').pathname;
  const gone = [one, two].flatMap(({ base }) => [
    `${base}${path(asset.mp4_url)}`,
    `${base}${path(asset.poster_url)}`,
    `${base}/v1/${key}/a/${id}.mp4`,
    `${base}/v1/${key}/a/${id}.jpg`,
  ]);
  // Asked for more than once, so that both have it in memory.
  for (let times = 0; times < 3; times += 1) await msUntil(gone, 200);
  const stream = await openStream(`${two.base}/api/assets/${id}/events`, { cookie: user.cookie });
  const keyStream = await openStream(`${two.base}/v1/${key}/events/${id}`, {});
  t.strictSame([stream.status, keyStream.status], [200, 200]);

  t.match(await user.call('DELETE', `/api/assets/${id}`), { status: 200, body: { ok: true } });
  t.ok((await msUntil(gone, 404)) < withinMs, 'both have forgotten it');
  t.match(await stream.text, 'event: ready');
  await keyStream.text;
  t.equal((await openStream(`${two.base}/api/assets/${id}/events`, { cookie: user.cookie })).status, 404);
  t.equal((await user.call('DELETE', `/api/assets/${id}`)).status, 404);
  const encoded = Buffer.from(src).toString('base64url');
  const again = await fetch(`${two.base}/v1/${key}/${encoded}.mp4?mode=animate-in&dur=2`, {
    headers: { origin },
  });
  const { asset_id } = (await again.json()) as { asset_id: string };
  t.equal(again.status, 202);
  t.not(asset_id, id, 'its source means a new asset');
});

t.test(
  'runs under way end with their asset, and with their account, and nothing comes of them',
  async (t) => {
    const { STORAGE_URL, SECRETS_KEY } = shared;
    const one = await startTestService(t, { STORAGE_URL, SECRETS_KEY });
    const two = await startTestService(t, {
      MONGODB_DATABASE: one.store.assets.actors.collection.dbName,
      NATS_PREFIX: `${one.store.assets.actors.collection.dbName}.`,
      STORAGE_URL,
      SECRETS_KEY,
      ROLE: 'http',
      BASE_URL: one.base,
    });
    const { user, key, sources, prepare } = await begin(t, one);
    const id = await prepare(`${sources}/two.jpg`);
    const waiting = fetch(`${two.base}/v1/${key}/a/${id}.mp4?wait_ms=8000`, { headers: { origin } });
    while (!(await user.timeline(id)).some(({ event }) => event === 'vision_started'));
    t.equal((await user.call('DELETE', `/api/assets/${id}`)).status, 200);
    t.equal((await waiting).status, 404, 'who waits for it is told');
    const pending = await prepare(`${sources}/three.jpg`);
    while ((await user.timeline(pending)).length === 0);

    const activity = await openStream(`${two.base}/api/projects/${user.projectId}/activity`, {
      cookie: user.cookie,
    });
    const erased = await user.call('DELETE', '/api/user', { current: 'correct horse battery' });
    t.equal(erased.status, 200);
    const keyed = [one, two].map(({ base }) => `${base}/v1/${key}/a/${pending}.mp4`);
    t.ok((await msUntil(keyed, 403)) < withinMs, 'the key is refused everywhere');
    await activity.text;
    t.ok(
      (await msUntil([`${two.base}/api/user/me`], 401, user.cookie)) < 2 * withinMs,
      'and so is the session',
    );
    const { collection } = one.store.assets.actors;
    // A folder may go while it is being read.
    const files = () => readdir(join(storage, 'objects'), { recursive: true }).catch(() => ['going']);
    const left = async () => [
      ...(await collection.distinct('state', { state: { $ne: 'erased' } })),
      ...(await files()),
    ];
    t.strictSame(
      await until(left, ({ length }) => length === 0, 20_000),
      [],
      'no run goes on, and no file is left',
    );
  },
);
