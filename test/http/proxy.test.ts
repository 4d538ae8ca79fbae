/** The public proxy: who is let in, what is asked, what is answered. Assets and sources are doubles of its ports. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoNetworkError } from 'mongodb';
import t, { type Test } from 'tap';
import type { EventName } from '../../schemas/events.ts';
import { signUrl } from '../../src/auth/signed-url.ts';
import type { Asked as AskedAsset, AssetView, Refusal } from '../../src/http/asset-requests.ts';
import { createMediaFiles } from '../../src/http/media-files.ts';
import { createPace } from '../../src/http/pace.ts';
import { proxyRoutes } from '../../src/http/proxy.ts';
import { createLookups, followChanges } from '../../src/http/proxy-lookups.ts';
import { createPosters } from '../../src/http/proxy-poster.ts';
import { createMediaServer } from '../../src/http/serve-media.ts';
import { startServer } from '../../src/http/server.ts';
import type { Services } from '../../src/http/services.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { type Storage, StorageError } from '../../src/media/storage.ts';
import { hubClock } from '../../src/sse/clock.ts';
import { createLiveness } from '../../src/sse/liveness.ts';
import { assetErased, projectChanged } from '../../src/sse/messages.ts';
import { createRunEnds } from '../../src/sse/run-ends.ts';
import { ask, openReader, until } from './ask.ts';

const key = 'pk_abcdefghijklmnopqrstuvwx';
const page = 'https://www.example.com';
const fromPage = { headers: { origin: page } };
const source = 'https://images.example.com/cat.png';
const encode = (url: string) => Buffer.from(url).toString('base64url');
const urlOf = (url: string, extension = 'mp4') => `/v1/${key}/${encode(url)}.${extension}`;
const baseUrl = 'https://animate.example.net';

type Project = {
  id: string;
  proxyKey: string | null;
  signingSecret: { open(): string } | null;
  allowedOrigins: string[] | null;
  sourceHosts: string[] | null;
};

/** The parts of the proxy over doubles that behave like the assets, the bus and the worker. */
async function start(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'proxy-'));
  const storage = await createFileStorage(folder);
  const project: Project = {
    id: 'prj_1',
    proxyKey: key,
    signingSecret: null,
    allowedOrigins: ['https://example.com'],
    sourceHosts: null,
  };
  const world = {
    project: project as Project | undefined,
    projectReads: 0,
    assets: new Map<string, AssetView>(),
    prepared: [] as AskedAsset[],
    refusal: undefined as Refusal | undefined,
    fault: undefined as Error | undefined,
    storageFault: undefined as Error | undefined,
    posters: [] as string[],
    makePoster: async (_source: string): Promise<Uint8Array> => randomBytes(100),
    isLive: true,
    now: Date.now(),
    waits: [] as number[],
    /** Called when an asset is read, before it is answered. */
    onRead: () => undefined as unknown,
  };
  const byRequest = new Map<string, string>();
  const nameOf = ({ src, ...asked }: AskedAsset) => JSON.stringify([src.split('#')[0], asked]);

  const listeners = new Map<string, Set<(body: unknown) => void>>();
  const listen = (name: string, call: (body: unknown) => void) => {
    const among = listeners.get(name) ?? new Set();
    listeners.set(name, among.add(call));
    return { stop: () => void among.delete(call) };
  };
  const send = (name: string, body: unknown) => {
    for (const call of listeners.get(name) ?? []) call(body);
  };
  const runEnds = createRunEnds({ onFactsNamed: (event, call) => listen(`fact ${event}`, call) }, hubClock);
  const tell = (event: EventName, assetId: string) =>
    send(`fact ${event}`, {
      event,
      ts: Date.now(),
      attempt: 1,
      request_id: 'req_1',
      asset_id: assetId,
      project_id: project.id,
      run: 1,
    });

  const faulty: Storage = {
    ...storage,
    head: async (name, signal) => {
      if (world.storageFault) throw world.storageFault;
      return storage.head(name, signal);
    },
    put: async (name, body, options) => {
      if (world.storageFault) throw world.storageFault;
      return storage.put(name, body, options);
    },
  };
  const files = createMediaFiles(faulty);
  const lookups = createLookups<Project>({
    async findProjectByKey(asked) {
      world.projectReads += 1;
      if (world.fault) throw world.fault;
      return world.project?.proxyKey === asked ? { ...world.project } : undefined;
    },
    async findAsset(id) {
      const asset = world.assets.get(id);
      await world.onRead();
      return asset;
    },
    isLive: () => world.isLive,
    now: () => world.now,
  });
  const follow = followChanges(lookups, files, {
    hub: { onRunChange: runEnds.onChange },
    listen,
    onReconnect: (call) => listen('reconnect', call),
  });

  const makeAsset = (asked: AskedAsset, more: Partial<AssetView> = {}): AssetView => {
    const id = `ast_${world.assets.size + 1}`;
    const asset = {
      id,
      projectId: project.id,
      status: 'pending',
      state: 'pending.vision.asked',
      src: asked.src,
      run: 1,
      media: null,
      error: null,
      facts: [],
      ...more,
    } as unknown as AssetView;
    world.assets.set(id, asset);
    byRequest.set(nameOf(asked), id);
    return asset;
  };

  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    routes: proxyRoutes<Project>({
      config: { baseUrl, mode: 'production', trustedProxies: [] },
      lookups,
      assets: {
        async lookup(_, asked) {
          const id = byRequest.get(nameOf(asked));
          return id === undefined ? undefined : world.assets.get(id);
        },
        async prepare(_, asked) {
          const id = byRequest.get(nameOf(asked));
          const existing = id && world.assets.get(id);
          if (existing) return { outcome: 'existing', asset: existing };
          if (world.refusal) return world.refusal;
          world.prepared.push(asked);
          // As long as a write to the store takes.
          await new Promise((resolve) => setTimeout(resolve, 5));
          return { outcome: 'created', asset: makeAsset(asked) };
        },
        etaMs: async () => 12_345.6,
      },
      files,
      media: createMediaServer(files, createPace()),
      posters: createPosters({
        storage: faulty,
        files,
        makePoster(_, from) {
          world.posters.push(from);
          return world.makePoster(from);
        },
      }),
      judgeSource: (url) =>
        url.includes('127.0.0.1') ? { ok: false, reason: 'not a public address' } : { ok: true },
      waitForEnd(assetId, timeoutMs, signal) {
        world.waits.push(timeoutMs);
        return runEnds.waitForEnd(assetId, timeoutMs, signal);
      },
      now: () => world.now,
    }),
    services: {
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      config: { baseUrl, trustedProxies: [] },
    } as unknown as Services,
  });
  t.teardown(async () => {
    follow.stop();
    runEnds.stop();
    await server.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Ends the run of an asset: with its media, or without. */
  const finish = async (asset: AssetView, event: 'ready' | 'failed' = 'ready') => {
    const name = `media/${asset.id}/${asset.run}-0123456789abcdef`;
    const signal = AbortSignal.timeout(5_000);
    if (event === 'ready') {
      await storage.put(`${name}.mp4`, Buffer.from(`mp4 of run ${asset.run}`), {
        contentType: 'video/mp4',
        signal,
      });
      await storage.put(`${name}.jpg`, Buffer.from(`jpg of run ${asset.run}`), {
        contentType: 'image/jpeg',
        signal,
      });
    }
    const media = { run: asset.run, mp4Key: `${name}.mp4`, posterKey: `${name}.jpg` };
    const error = { code: 'i2v_failed', message: 'Making the animation failed.', hint: null };
    const after =
      event === 'ready'
        ? { ...asset, status: 'ready', media, error: null }
        : { ...asset, status: 'failed', error };
    world.assets.set(asset.id, after as AssetView);
    tell(event, asset.id);
    return after as AssetView;
  };
  return { port: server.port, world, project, lookups, storage, send, tell, makeAsset, finish, runEnds };
}

t.test('400 for a URL that is malformed, before anything is looked up', async (t) => {
  const { port, world, makeAsset } = await start(t);
  const asset = makeAsset({ src: source });
  const cases: [string, string][] = [
    [`/v1/${key}`, 'this is neither'],
    [`/v1/${key}/`, 'this is neither'],
    [`/v1/${key}/${encode(source)}`, 'this is neither'],
    [`/v1/${key}/${encode(source)}.gif`, 'this is neither'],
    [`/v1/${key}/${encode(source)}.mp4.png`, 'this is neither'],
    [`/v1/${key}/${encode(source)}=.mp4`, 'not base64url'],
    [`/v1/${key}/${encode(source)}!.mp4`, 'not base64url'],
    [`/v1/${key}/a/b/c.mp4`, 'not base64url'],
    [`/v1/${key}/${encode('cat.png')}.mp4`, 'not an http or https URL'],
    [`/v1/${key}/${encode('ftp://example.com/cat.png')}.mp4`, 'not an http or https URL'],
    [`/v1/${key}/${encode('javascript:alert(1)')}.mp4`, 'not an http or https URL'],
    [`/v1/${key}/${Buffer.from([0xff, 0xfe, 0xfd]).toString('base64url')}.mp4`, 'not an http or https URL'],
    [`/v1/${key}/${encode(`https://example.com/${'a'.repeat(1_500)}`)}.mp4`, 'longer than 1500 bytes'],
    [`${urlOf(source)}?motion=wild`, 'motion has no such value'],
    [`${urlOf(source)}?mode=`, 'mode has no such value'],
    [`${urlOf(source)}?dur=9`, 'dur has no such value'],
    [`${urlOf(source)}?dur=1`, 'dur has no such value'],
    [`${urlOf(source)}?dur=4.5`, 'dur has no such value'],
    [`${urlOf(source)}?dur_seconds=4e0`, 'dur has no such value'],
    [`${urlOf(source)}?seed=-1`, 'seed has no such value'],
    [`${urlOf(source)}?seed=4294967296`, 'seed has no such value'],
    [`${urlOf(source)}?aspect=2:1`, 'aspect has no such value'],
    [`${urlOf(source)}?wait_ms=soon`, 'wait_ms is not a whole number'],
    [`${urlOf(source)}?wait_ms=-1`, 'wait_ms is not a whole number'],
    [`${urlOf(source)}?wait_ms=1.5`, 'wait_ms is not a whole number'],
    [`${urlOf(source)}?wait_ms=`, 'wait_ms is not a whole number'],
    [`/v1/${key}/a/${asset.id}.jpg?wait_ms=x`, 'wait_ms is not a whole number'],
    [urlOf('http://127.0.0.1/cat.png'), 'the source is refused: not a public address'],
  ];
  for (const [path, reason] of cases) {
    const answer = await ask(port, path, fromPage);
    t.equal(answer.status, 400, path);
    t.match(answer.json['error'], /^malformed proxy URL: /);
    t.match(String(answer.json['error']), reason);
    t.ok(answer.headers['access-control-allow-origin'], 'a page can read why');
    t.equal((await ask(port, path, { ...fromPage, method: 'HEAD' })).status, 400);
  }
  t.equal(world.prepared.length, 0);
  t.equal((await ask(port, '/v1')).status, 404);
  t.equal((await ask(port, urlOf(source), { ...fromPage, method: 'POST' })).status, 405);
});

t.test('403 for an unknown key, and for every origin that is not allowed', async (t) => {
  const { port, project, world, makeAsset, finish, send } = await start(t);
  await finish(makeAsset({ src: source }));
  const unknown = await ask(port, urlOf(source).replace(key, 'pk_other'), fromPage);
  t.match(unknown, { status: 403, json: { error: 'unknown project key' } });
  t.equal(unknown.headers['access-control-allow-origin'], '*');
  t.equal((await ask(port, urlOf(source).replace(key, '%00'), fromPage)).status, 403);

  const cure = /crossorigin="anonymous"/;
  const cases: [Record<string, string>, number, string | RegExp][] = [
    [{ origin: page }, 200, page],
    [{ origin: 'https://example.com' }, 200, 'https://example.com'],
    [{ origin: 'HTTPS://WWW.EXAMPLE.COM' }, 200, page],
    [{ referer: `${page}/a/b?c=d` }, 200, page],
    [{ origin: baseUrl }, 200, baseUrl],
    [{ origin: 'https://badexample.com' }, 403, 'origin not allowed'],
    [{ origin: 'http://example.com' }, 403, 'origin not allowed'],
    [{ origin: 'https://example.com:8443' }, 403, 'origin not allowed'],
    [{ origin: 'https://example.com.evil.org' }, 403, 'origin not allowed'],
    [{ origin: 'https://evil.org', referer: page }, 403, 'origin not allowed'],
    [{ referer: 'https://evil.org/?https://example.com' }, 403, 'origin not allowed'],
    [{ origin: 'null', referer: page }, 403, cure],
    [{ referer: 'about:blank' }, 403, cure],
    [{ referer: 'nonsense' }, 403, cure],
    [{}, 403, cure],
  ];
  for (const [headers, status, expected] of cases) {
    for (const extension of ['mp4', 'jpg']) {
      const answer = await ask(port, urlOf(source, extension), { headers });
      const name = `${JSON.stringify(headers)} ${extension}`;
      t.equal(answer.status, status, name);
      t.equal(answer.headers['vary'], 'Origin', name);
      t.equal(answer.headers['access-control-allow-credentials'], undefined);
      if (status === 200) t.equal(answer.headers['access-control-allow-origin'], expected, name);
      else t.equal(answer.headers['access-control-allow-origin'], '*', name);
      if (status === 403) t.match(answer.json['error'], expected, name);
    }
  }
  for (const allowedOrigins of [[], null]) {
    world.project = { ...project, allowedOrigins };
    send(projectChanged, { projectId: project.id });
    t.match(await ask(port, urlOf(source), fromPage), { status: 403, json: { error: 'origin not allowed' } });
    t.equal((await ask(port, urlOf(source), { headers: { origin: baseUrl } })).status, 200);
  }
});

t.test('signed URLs are judged by their signature alone', async (t) => {
  const { port, world, project, makeAsset, finish, send } = await start(t);
  const secret = 'sk_first';
  world.project = { ...project, signingSecret: { open: () => secret }, allowedOrigins: [] };
  const signed = (url: string, ms = 60_000, more = {}) =>
    signUrl({ key, secret, source: url, ...more }, world.now + ms);
  const asset = await finish(
    makeAsset({ src: `${source}#motion=kinetic&dur=3`, motion: 'kinetic', dur_seconds: 3 }),
  );
  const url = signed(`${source}#motion=kinetic&dur=3`);

  const good = await ask(port, url);
  t.equal(good.status, 200);
  t.equal(good.body.toString(), 'mp4 of run 1');
  t.equal(good.headers['access-control-allow-origin'], '*');
  t.equal((await ask(port, url, { headers: { origin: 'https://evil.org' } })).status, 200);
  t.equal(
    (await ask(port, url.replace('.mp4', '.jpg'))).body.toString(),
    'jpg of run 1',
    'serves the poster too',
  );
  t.equal((await ask(port, `${url}&wait_ms=10&other=1`)).status, 200);
  t.equal((await ask(port, signed(`asset:${asset.id}`))).status, 200);

  const invalid = [
    url.replace(/sig=./, (text) => (text.endsWith('A') ? 'sig=B' : 'sig=A')),
    url.replace(/&sig=.*/, ''),
    url.replace(/exp=\d+&/, ''),
    url.replace(/exp=\d+/, 'exp=99999999999'),
    url.replace(/exp=\d+/, 'exp=4000000000'),
    url.replace(/exp=(\d+)/, 'exp=0$1'),
    url.replace(/exp=\d+/, 'exp=soon'),
    url.replace(/exp=\d+/, 'exp='),
    `${url}=`,
    `${url.slice(0, -1)}%2B`,
    url.replace('.mp4', '%3D.mp4'),
    url.replace('.mp4', '=.mp4'),
    url.replace(`/v1/${key}/`, `/v1/${key}/a+b/c`),
    url.replace(encode(`${source}#motion=kinetic&dur=3`), encode(source)),
    signed(source, -1_000),
    signed(source, 60_000, { secret: 'sk_other' }),
    signed('asset:ast_2').replace('ast_2', asset.id),
  ];
  for (const bad of invalid) {
    const answer = await ask(port, bad, fromPage);
    t.match(answer, { status: 403, json: { error: 'invalid signature' } }, bad);
    t.equal(answer.headers['access-control-allow-origin'], '*');
  }
  for (const name of ['motion=subtle', 'dur=4', 'dur_seconds=4', 'mode=loop', 'seed=1', 'aspect=1:1']) {
    t.match(await ask(port, `${url}&${name}`), {
      status: 400,
      json: { error: /fragment of the signed source/ },
    });
  }
  const badOption = await ask(port, signed(`${source}#motion=wild`));
  t.match(badOption, { status: 400, json: { error: /motion has no such value/ } });
  t.equal(
    (await ask(port, signed(`${source}#top`))).status,
    202,
    'an unknown fragment is none of our options',
  );

  world.now += 61_000;
  t.equal((await ask(port, url)).status, 403, 'over');
  const later = signed(`${source}#motion=kinetic&dur=3`);
  world.project = { ...world.project, signingSecret: { open: () => 'sk_second' } };
  send(projectChanged, { projectId: project.id });
  t.equal((await ask(port, later)).status, 403, 'the secret was rotated');
  world.project = { ...world.project, signingSecret: null };
  send(projectChanged, { projectId: project.id });
  t.equal((await ask(port, later)).status, 403, 'signing is off');
});

t.test('202 while generating: one run however many ask at once, and none for HEAD', async (t) => {
  const { port, world, makeAsset } = await start(t);
  const path = `${urlOf(source)}?motion=kinetic&dur=6&mode=animate-in&seed=7&aspect=16:9&utm=x`;
  const head = await ask(port, path, { ...fromPage, method: 'HEAD' });
  t.equal(head.status, 404);
  t.equal(world.prepared.length, 0);

  const answers = await Promise.all(Array.from({ length: 1_000 }, () => ask(port, path, fromPage)));
  t.strictSame(world.prepared, [
    { src: source, motion: 'kinetic', dur_seconds: 6, mode: 'animate-in', seed: 7, aspect: '16:9' },
  ]);
  t.ok(answers.every(({ status, json }) => status === 202 && json['asset_id'] === 'ast_1'));
  for (const answer of answers.slice(0, 5)) {
    t.match(answer, { status: 202, json: { status: 'pending', asset_id: 'ast_1', eta_seconds: 13 } });
    t.match(answer.headers, {
      'retry-after': '13',
      'x-service-eta-ms': '12346',
      'cache-control': 'no-store',
      'access-control-allow-origin': page,
      'access-control-expose-headers': /Retry-After, X-Service-Eta-Ms/,
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff',
      'timing-allow-origin': '*',
      'x-request-id': /^req_/,
    });
  }
  const pendingHead = await ask(port, path, { ...fromPage, method: 'HEAD' });
  t.match(
    { status: pendingHead.status, retry: pendingHead.headers['retry-after'] },
    { status: 202, retry: '13' },
  );
  t.equal(
    (await ask(port, urlOf(source), fromPage)).json['asset_id'],
    'ast_2',
    'other options, another asset',
  );

  const foreign = makeAsset({ src: source }, { projectId: 'prj_2' });
  t.equal((await ask(port, `/v1/${key}/a/${foreign.id}.mp4`, fromPage)).status, 404);
  t.equal((await ask(port, `/v1/${key}/a/none.mp4`, fromPage)).status, 404);
  t.equal((await ask(port, `/v1/${key}/a/ast_1.mp4?motion=subtle`, fromPage)).status, 202);
});

t.test('200 with the media of a finished asset, in part and unchanged too', async (t) => {
  const { port, makeAsset, finish, world, tell } = await start(t);
  const asset = await finish(makeAsset({ src: source }));
  for (const path of [urlOf(source), `/v1/${key}/a/${asset.id}.mp4`]) {
    const answer = await ask(port, path, fromPage);
    t.equal(answer.status, 200);
    t.equal(answer.body.toString(), 'mp4 of run 1');
    t.match(answer.headers, {
      'content-type': 'video/mp4',
      'content-length': '12',
      'cache-control': 'private, max-age=60, stale-while-revalidate=600',
      'accept-ranges': 'bytes',
      'access-control-allow-origin': page,
      vary: 'Origin',
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'cross-origin',
      'timing-allow-origin': '*',
      etag: /^"/,
      'last-modified': /GMT$/,
    });
    t.equal(answer.headers['x-service-asset-status'], undefined);
    const headers = { origin: page, 'if-none-match': answer.headers['etag'] ?? '' };
    const unchanged = await ask(port, path, { headers });
    t.match(
      { status: unchanged.status, acao: unchanged.headers['access-control-allow-origin'] },
      { status: 304, acao: page },
    );
    const part = await ask(port, path, { headers: { origin: page, range: 'bytes=0-2' } });
    t.match({ status: part.status, body: part.body.toString() }, { status: 206, body: 'mp4' });
    const beyond = await ask(port, path, { headers: { origin: page, range: 'bytes=99-' } });
    t.match(beyond, {
      status: 416,
      headers: { 'content-range': 'bytes */12', 'access-control-allow-origin': page },
    });
    const head = await ask(port, path, { ...fromPage, method: 'HEAD' });
    t.match(head, { status: 200, headers: { 'content-length': '12' } });
  }

  t.test('the earlier media while a regenerate is pending, then 502 or the new ones', async (t) => {
    const again = { ...asset, status: 'pending', run: 2 } as AssetView;
    world.assets.set(asset.id, again);
    tell('queued', asset.id);
    const during = await ask(port, `${urlOf(source)}?wait_ms=8000`, fromPage);
    t.equal(during.body.toString(), 'mp4 of run 1');
    t.match(during.headers, { 'x-service-asset-status': 'pending', 'cache-control': 'private, max-age=5' });
    t.equal(world.waits.length, 0, 'there is nothing to wait for');
    await finish(again, 'failed');
    const failed = await ask(port, urlOf(source), fromPage);
    t.match(failed, { status: 502, json: { error: 'last generation failed', asset_id: asset.id } });
    t.match(failed.json['hint'], /POST \/api\/assets\/ast_1\/regenerate.*i2v_failed/);
    t.match(failed.headers, { 'cache-control': 'no-store', 'access-control-allow-origin': page });
    t.equal((await ask(port, urlOf(source, 'jpg'), fromPage)).body.toString(), 'jpg of run 1');
    await finish({ ...again, run: 3 });
    t.equal((await ask(port, urlOf(source), fromPage)).body.toString(), 'mp4 of run 3');
  });

  t.test('a cancelled first run is 502 with the usual hint', async (t) => {
    const other = makeAsset({ src: `${source}?2` }, { status: 'failed', state: 'cancelled' });
    t.match(await ask(port, urlOf(`${source}?2`), fromPage), {
      status: 502,
      json: { asset_id: other.id, hint: /regenerate/ },
    });
  });

  t.test('404 when storage has lost the file, 503 when it cannot be reached', async (t) => {
    const media = {
      run: 1,
      mp4Key: 'media/ast_9/1-ffffffffffff.mp4',
      posterKey: 'media/ast_9/1-ffffffffffff.jpg',
    };
    makeAsset({ src: `${source}?3` }, { status: 'ready', media: media as AssetView['media'] });
    t.equal((await ask(port, urlOf(`${source}?3`), fromPage)).status, 404);
    world.storageFault = new StorageError('no storage');
    const answer = await ask(port, urlOf(`${source}?3`), fromPage);
    t.match(answer, { status: 503, json: { error: 'unavailable' }, headers: { 'retry-after': '2' } });
    world.storageFault = undefined;
  });
});

t.test('wait_ms holds the answer until the run ends', async (t) => {
  const { port, makeAsset, finish, world, tell, runEnds } = await start(t);
  const path = urlOf(source);
  const asset = makeAsset({ src: source });

  t.test('no longer than asked, and never longer than eight seconds', async (t) => {
    const begun = performance.now();
    t.equal((await ask(port, `${path}?wait_ms=200`, fromPage)).status, 202);
    const took = performance.now() - begun;
    t.ok(took >= 195 && took < 400, `200 ms took ${took}`);
    t.equal((await ask(port, `${path}?wait_ms=0`, fromPage)).status, 202);
    t.strictSame(world.waits, [200]);
    const reader = openReader(port, `${path}?wait_ms=999999`, { origin: page });
    await until(() => world.waits.length === 2);
    t.ok((world.waits[1] ?? 0) <= 8_000);
    reader.leave();
    await until(() => runEnds.waiting === 0);
    t.pass('who leaves waits no more');
  });

  t.test('a thousand at once are answered when it is ready', async (t) => {
    const waiting = Array.from({ length: 1_000 }, () => ask(port, `${path}?wait_ms=8000`, fromPage));
    await until(() => runEnds.waiting === 1_000, 20_000);
    tell('ready', 'ast_other');
    tell('vision_started', asset.id);
    await finish(asset);
    const answers = await Promise.all(waiting);
    t.ok(answers.every(({ status, body }) => status === 200 && body.toString() === 'mp4 of run 1'));
  });

  t.test('a failure is answered at once, a repeated end of an earlier run is not', async (t) => {
    const failing = makeAsset({ src: `${source}?2` });
    const waiting = ask(port, `${urlOf(`${source}?2`)}?wait_ms=8000`, fromPage);
    await until(() => runEnds.waiting === 1);
    tell('ready', failing.id);
    await until(() => world.waits.length >= 2 && runEnds.waiting === 1);
    await finish(failing, 'failed');
    t.equal((await waiting).status, 502);
  });

  t.test('an end between reading the asset and waiting for it is not missed', async (t) => {
    const quick = makeAsset({ src: `${source}?3` });
    let reads = 0;
    world.onRead = () => {
      reads += 1;
      if (reads > 1) return undefined;
      // It ends while it is being read: what was read is out of date.
      return finish(quick);
    };
    const begun = performance.now();
    t.equal((await ask(port, `${urlOf(`${source}?3`)}?wait_ms=8000`, fromPage)).status, 200);
    t.ok(performance.now() - begun < 2_000);
    world.onRead = () => undefined;
  });
});

t.test('a first request that may start no run says why', async (t) => {
  const { port, world } = await start(t);
  const cases: [Refusal, number, object][] = [
    [
      { outcome: 'exhausted', paidPlan: false },
      429,
      { error: 'monthly limit reached', upgrade_url: `${baseUrl}/dashboard/billing` },
    ],
    [{ outcome: 'exhausted', paidPlan: true }, 429, { error: 'monthly limit reached: overage is disabled' }],
    [{ outcome: 'busy', retryAfterMs: 4_200 }, 503, { error: 'busy', retry_after_ms: 4_200 }],
    [{ outcome: 'not in plan', what: 'aspect' }, 403, { error: /aspect/, upgrade_url: /billing/ }],
    [{ outcome: 'source host not allowed' }, 403, { error: 'source host not allowed' }],
  ];
  for (const [refusal, status, body] of cases) {
    world.refusal = refusal;
    const answer = await ask(port, urlOf(source), fromPage);
    t.match(answer, { status, json: body });
    t.equal(answer.headers['access-control-allow-origin'], page);
    if (refusal.outcome === 'busy') t.equal(answer.headers['retry-after'], '5');
  }
  world.fault = new MongoNetworkError('no store');
  world.isLive = false;
  world.now += 10_000;
  t.match(await ask(port, urlOf(source), fromPage), { status: 503, json: { error: 'unavailable' } });
  world.fault = new Error('a mistake of ours');
  t.match(await ask(port, urlOf(source), fromPage), { status: 500, json: { error: 'internal error' } });
});

t.test('a poster: of the asset when there is one, else made of the source, once', async (t) => {
  const { port, world, makeAsset, finish, project, send } = await start(t);
  const path = urlOf(source, 'jpg');
  t.equal((await ask(port, path, { ...fromPage, method: 'HEAD' })).status, 404, 'HEAD makes none');
  t.equal(world.posters.length, 0);
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(port, path, fromPage)));
  t.strictSame(world.posters, [source]);
  t.ok(answers.every(({ status, headers }) => status === 200 && headers['content-type'] === 'image/jpeg'));
  t.match(answers[0]?.headers, { 'access-control-allow-origin': page, 'cache-control': /^private/ });
  t.equal((await ask(port, `${path}?motion=subtle`, fromPage)).status, 200);
  t.equal((await ask(port, path, { ...fromPage, method: 'HEAD' })).status, 200);
  t.equal(world.posters.length, 1);
  t.equal(world.prepared.length, 0, 'no asset is made');

  const asset = makeAsset({ src: source });
  t.equal((await ask(port, `/v1/${key}/a/${asset.id}.jpg`, fromPage)).status, 200);
  t.equal(world.posters.length, 1, 'by id it is the same source');
  await finish(asset);
  t.equal((await ask(port, path, fromPage)).body.toString(), 'jpg of run 1');
  t.equal((await ask(port, `/v1/${key}/a/none.jpg`, fromPage)).status, 404);

  t.test('404 when the source gives none, without asking it again at once', async (t) => {
    world.makePoster = async () => {
      throw new Error('not to be had');
    };
    const failing = urlOf(`${source}?2`, 'jpg');
    for (let n = 0; n < 3; n += 1) {
      t.match(await ask(port, failing, fromPage), { status: 404, json: { error: 'poster not available' } });
    }
    t.equal(world.posters.filter((url) => url.endsWith('?2')).length, 1);
  });

  t.test('at most ten at once for a project, a hundred wait, the rest is told to come back', async (t) => {
    const gates: (() => void)[] = [];
    world.posters = [];
    world.makePoster = () => new Promise((resolve) => gates.push(() => resolve(randomBytes(10))));
    const asked = Array.from({ length: 115 }, (_, n) =>
      ask(port, urlOf(`${source}?many=${n}`, 'jpg'), fromPage),
    );
    const refused = await Promise.race([
      Promise.any(asked),
      new Promise((resolve) => setTimeout(resolve, 3_000)),
    ]);
    t.match(refused, { status: 503, json: { error: 'unavailable' } });
    t.equal(world.posters.length, 10);
    while (world.posters.length < 110 || gates.length > 0) {
      for (const gate of gates.splice(0)) gate();
      await new Promise((resolve) => setImmediate(resolve));
    }
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    t.equal(statuses.filter((status) => status === 200).length, 110);
    t.equal(statuses.filter((status) => status === 503).length, 5);
  });

  t.test('503 when storage cannot take it, 403 for a host that is not allowed', async (t) => {
    world.makePoster = async () => {
      world.storageFault = new StorageError('no storage');
      return randomBytes(10);
    };
    t.equal((await ask(port, urlOf(`${source}?4`, 'jpg'), fromPage)).status, 503);
    world.storageFault = undefined;
    world.makePoster = async () => randomBytes(10);
    world.project = { ...project, sourceHosts: ['example.com'] };
    send(projectChanged, { projectId: project.id });
    t.equal((await ask(port, urlOf(`${source}?5`, 'jpg'), fromPage)).status, 200);
    const foreign = await ask(port, urlOf('https://notexample.com/a.png', 'jpg'), fromPage);
    t.match(foreign, { status: 403, json: { error: 'source host not allowed' } });
  });
});

t.test('a URL of which everything is known is judged anew by its page or its signature', async (t) => {
  const { port, world, project, makeAsset, finish, tell, send } = await start(t);
  world.project = { ...project, signingSecret: { open: () => 'sk_first' } };
  const asset = await finish(makeAsset({ src: source }));
  const url = urlOf(source);
  const signed = signUrl({ key, secret: 'sk_first', source: `asset:${asset.id}` }, world.now + 1_000);
  for (let n = 0; n < 3; n += 1) {
    t.equal((await ask(port, url, fromPage)).status, 200);
    t.equal((await ask(port, signed)).status, 200);
  }

  t.equal((await ask(port, url, { headers: { origin: 'https://evil.org' } })).status, 403);
  t.equal((await ask(port, url)).status, 403, 'no page is not the page before');
  const byReferer = await ask(port, url, { headers: { referer: 'https://example.com/cats' } });
  t.equal(byReferer.headers['access-control-allow-origin'], 'https://example.com');
  t.equal((await ask(port, url, fromPage)).headers['access-control-allow-origin'], page);
  world.now += 2_000;
  t.equal((await ask(port, signed)).status, 403, 'its time is over');

  t.test('and only while all of it is true', async (t) => {
    const again = { ...asset, run: 2, status: 'pending' } as AssetView;
    world.assets.set(asset.id, again);
    tell('queued', asset.id);
    t.equal((await ask(port, url, fromPage)).headers['x-service-asset-status'], 'pending');
    await finish(again);
    t.equal((await ask(port, url, fromPage)).body.toString(), 'mp4 of run 2');
    world.project = undefined;
    send(projectChanged, { projectId: project.id, key });
    t.equal((await ask(port, url, fromPage)).status, 403, 'its key is gone');
  });
});

t.test('what is known is dropped when it changes, and soon without the bus', async (t) => {
  const { port, world, project, send, makeAsset, finish, lookups } = await start(t);
  const asset = await finish(makeAsset({ src: source }));
  const status = async () => (await ask(port, urlOf(source), fromPage)).status;
  t.equal(await status(), 200);
  const { projectReads } = world;
  for (let n = 0; n < 5; n += 1) await status();
  t.equal(world.projectReads, projectReads, 'nothing is read again');

  world.project = { ...project, proxyKey: 'pk_new' };
  t.equal(await status(), 200);
  send(projectChanged, { projectId: 'prj_other' });
  send(projectChanged, 'nonsense');
  t.equal(await status(), 200);
  send(projectChanged, { projectId: project.id, key });
  t.equal(await status(), 403, 'at once when told');

  world.project = project;
  t.equal(await status(), 200);
  world.project = undefined;
  world.isLive = false;
  world.now += 500;
  t.equal(await status(), 200);
  world.now += 500;
  t.equal(await status(), 403, 'within a second when nobody can tell');

  world.project = project;
  world.isLive = true;
  t.equal(await status(), 200);
  world.project = undefined;
  send('reconnect', undefined);
  t.equal(await status(), 403, 'what was told meanwhile may be lost');

  world.project = project;
  t.equal(await status(), 200);
  world.assets.delete(asset.id);
  send(assetErased, { nonsense: 1 });
  t.equal(await status(), 200);
  send(assetErased, { assetId: asset.id });
  t.equal(await status(), 202, 'an erased asset is made anew');
  t.equal(world.prepared.length, 1);

  t.test('a change while it is read is read again, a few times at most', async (t) => {
    let changes = 0;
    lookups.forgetAsset('ast_1');
    world.onRead = () => {
      changes += 1;
      lookups.forgetAsset('ast_1');
    };
    t.ok((await lookups.asset('ast_1')) !== null);
    t.equal(changes, 3);
    world.onRead = () => {
      throw new Error('no store');
    };
    await t.rejects(async () => lookups.asset('ast_7'), /no store/);
    world.onRead = () => undefined;
  });
});

t.test('OPTIONS needs no key and starts nothing', async (t) => {
  const { port, world } = await start(t);
  const answer = await ask(port, urlOf(source), {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.org' },
  });
  t.equal(answer.status, 204);
  t.match(answer.headers, {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET, HEAD, OPTIONS',
    'access-control-max-age': '7200',
  });
  t.equal(world.projectReads, 0);
});

t.test('liveness is lost within a second of a hanging bus, and comes back', async (t) => {
  const time = { ms: 0 };
  let timer: (() => void) | undefined;
  const held: unknown[] = [];
  let isHanging = false;
  let deliver: (body: unknown) => void = () => undefined;
  const clock = {
    ...hubClock,
    monotonic: () => time.ms,
    after: (_: number, call: () => void) => {
      timer = call;
      return () => {
        timer = undefined;
      };
    },
  };
  const liveness = createLiveness(
    {
      send: (_, body) => (isHanging ? held.push(body) : deliver(body)),
      listen: (_, call) => {
        deliver = call;
        return { stop: () => undefined };
      },
    },
    'me',
    clock,
  );
  const pass = (ms: number) => {
    for (const end = time.ms + ms; time.ms < end; ) {
      time.ms += 250;
      timer?.();
    }
  };
  pass(1_000);
  t.ok(liveness.isLive());
  isHanging = true;
  pass(1_500);
  t.notOk(liveness.isLive());
  isHanging = false;
  for (const body of held.slice(0, 1)) deliver(body);
  t.notOk(liveness.isLive(), 'what is delivered late proves nothing');
  pass(250);
  t.ok(liveness.isLive());
  liveness.stop();
  t.equal(timer, undefined);
});
