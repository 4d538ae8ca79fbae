/** The whole pipeline: sources of every kind end in a ready asset or in the right error_code. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Asset, PrepareResponse } from '../schemas/asset.ts';
import { badImages, photo, unusualImages } from './fixtures/images.ts';
import { serveSources, startTestService, type TestUser } from './fixtures/service.ts';

const short = { mode: 'animate-in', dur_seconds: 2 };
const minuteMs = 60_000;

async function prepare(user: TestUser, src: string, options: object = short): Promise<PrepareResponse> {
  const { status, body } = await user.call<PrepareResponse>('POST', '/api/v1/prepare', {
    project_id: user.projectId,
    src,
    ...options,
  });
  if (status !== 200) throw new Error(`prepare answered ${status} ${JSON.stringify(body)}`);
  return body;
}

t.test('one photo, from request to playing animation', { timeout: 2 * minuteMs }, async (t) => {
  const service = await startTestService(t);
  const user = await service.signUp();
  const bytes = await photo();
  let fetches = 0;
  const base = await serveSources(t, (_, response) => {
    fetches += 1;
    response.setHeader('content-type', 'image/jpeg').end(bytes);
  });

  const requests = await Promise.all(
    Array.from({ length: 20 }, () =>
      prepare(user, `${base}/photo.jpg#part`, { mode: 'loop', dur_seconds: 2 }),
    ),
  );
  const ids = new Set(requests.map(({ asset_id }) => asset_id));
  t.equal(ids.size, 1, 'twenty requests at once are one asset');
  const [id = ''] = ids;
  const asset = await user.untilEnd(id);
  t.match(asset, {
    status: 'ready',
    state: 'ready',
    run: 1,
    mode: 'loop',
    dur_seconds: 2,
    loop_mode: 'native',
    error_code: null,
  });
  t.equal(fetches, 1, 'its source was fetched once');

  const events = await user.timeline(id);
  t.strictSame(
    events.map(({ event, stage }) => (stage ? `${event} ${stage}` : event)),
    [
      'queued',
      'vision_started vision',
      'vision_completed vision',
      'stage_started stage1',
      'stage_completed stage1',
      'stage_started stage2',
      'stage_completed stage2',
      'stage_started merge',
      'stage_completed merge',
      'store_write_completed store_write',
      'ready',
    ],
  );
  t.ok(
    events.every(({ ts }, n) => n === 0 || ts > (events[n - 1]?.ts ?? 0)),
    'ts strictly increases',
  );
  const completed = events.filter(({ event }) => event.endsWith('_completed'));
  t.ok(
    completed.every(({ latency_ms }) => latency_ms !== undefined && latency_ms >= 0),
    'each has its latency',
  );

  const mp4 = await fetch(asset.mp4_url ?? '');
  t.equal(mp4.headers.get('content-type'), 'video/mp4');
  t.equal((await mp4.arrayBuffer()).byteLength, asset.bytes);
  const { body: me } = await user.call('GET', '/api/user/me');
  t.match(me, { aiGenerationsUsed: 1, compositionCount: 1 });

  t.test('regenerate makes another run of the same asset, and its address stays', async (t) => {
    const again = await user.call<PrepareResponse>('POST', `/api/assets/${id}/regenerate`, {
      mode: 'animate-in',
    });
    t.match(again, { status: 200, body: { asset_id: id, status: 'pending' } });
    const during = await user.call<{ asset: Asset }>('GET', `/api/assets/${id}`);
    t.match(
      during.body.asset,
      { status: 'pending', run: 2, mp4_url: asset.mp4_url },
      'the earlier animation is still there',
    );
    const after = await user.untilEnd(id);
    t.match(after, { status: 'ready', run: 2, mode: 'animate-in', dur_seconds: 2 });
    t.not(after.mp4_url, asset.mp4_url);
    t.equal((await fetch(asset.mp4_url ?? '')).status, 200, 'media once handed out stay');
  });

  t.test('cancel ends the run; what an earlier one made stays', async (t) => {
    await user.call('POST', `/api/assets/${id}/regenerate`, { motion: 'kinetic' });
    const cancelled = await user.call('POST', `/api/assets/${id}/cancel`);
    t.match(cancelled, { status: 200, body: { asset_id: id, status: 'ready' } });
    t.match(await user.call('POST', `/api/assets/${id}/cancel`), {
      status: 409,
      body: { error: 'asset is not pending' },
    });
    const terminal = (await user.timeline(id)).filter(({ run }) => run === 3).map(({ event }) => event);
    t.equal(terminal.at(-1), 'cancelled');
  });
});

t.test(
  '1,000 first hits of one address at once are one run, and all of them get its animation',
  {
    timeout: 2 * minuteMs,
  },
  async (t) => {
    const service = await startTestService(t);
    const user = await service.signUp();
    const bytes = await photo();
    let fetches = 0;
    const base = await serveSources(t, (_, response) => {
      fetches += 1;
      response.setHeader('content-type', 'image/jpeg').end(bytes);
    });
    const configured = await user.call<{ project: { proxy_key: string } }>(
      'PUT',
      `/api/projects/${user.projectId}/proxy-config`,
      { allowed_origins: ['https://page.example'] },
    );
    const source = Buffer.from(`${base}/crowd.jpg`).toString('base64url');
    const url = `${service.base}/v1/${configured.body.project.proxy_key}/${source}.mp4?mode=animate-in&dur=2`;

    /** A client that asks again for as long as it is told to come back. */
    const play = async (): Promise<{ status: number; etag: string | null }> => {
      for (;;) {
        const answer = await fetch(`${url}&wait_ms=8000`, { headers: { referer: 'https://page.example/' } });
        await answer.arrayBuffer();
        if (answer.status === 503) await sleep(Number(answer.headers.get('retry-after')) * 1_000);
        else if (answer.status !== 202) return { status: answer.status, etag: answer.headers.get('etag') };
      }
    };
    const played = await Promise.all(Array.from({ length: 1_000 }, play));
    t.strictSame([...new Set(played.map(({ status }) => status))], [200]);
    t.equal(new Set(played.map(({ etag }) => etag)).size, 1, 'one animation');
    t.equal(fetches, 1, 'its source was fetched once');
    const { body: me } = await user.call('GET', '/api/user/me');
    t.match(me, { aiGenerationsUsed: 1, compositionCount: 1 }, 'counted once');
  },
);

t.test('sources of every kind', { timeout: 4 * minuteMs }, async (t) => {
  const service = await startTestService(t, { RETRY_BACKOFF: '0s,50ms,50ms' });
  const user = await service.signUp();
  const unusual = await unusualImages();
  const bad = await badImages();
  const good = await photo();
  let flakyAsked = 0;
  const special: Record<string, (response: ServerResponse) => void> = {
    ok: (response) => response.end(good),
    500: (response) => response.writeHead(500).end(),
    flaky(response) {
      flakyAsked += 1;
      if (flakyAsked < 3) response.writeHead(503).end();
      else response.end(good);
    },
    endless(response) {
      response.write(good.subarray(0, 4_096));
      const more = setInterval(() => response.write(Buffer.alloc(1024 * 1024)), 1);
      response.on('close', () => clearInterval(more));
    },
    redirect: (response) => response.writeHead(302, { location: '/ok' }).end(),
    loop: (response) => response.writeHead(302, { location: '/loop' }).end(),
    inside: (response) => response.writeHead(302, { location: 'http://10.0.0.1/x.png' }).end(),
    cut(response) {
      response.writeHead(200, { 'content-length': good.length + 1_000 });
      response.write(good, () => response.destroy());
    },
  };
  const base = await serveSources(t, (request, response) => {
    const name = decodeURIComponent(request.url ?? '').slice(1);
    const image = unusual[name] ?? bad[name]?.bytes;
    if (image) response.end(image);
    else if (special[name]) special[name](response);
    else response.writeHead(404).end();
  });
  // All of them are decoded in test/media/image.test.ts; rendering each would take a minute.
  const fine = ['redirect', 'flaky', 'cmyk jpeg', 'png with alpha', 'rotated jpeg'];

  const failing: Record<string, string> = {
    missing: 'source_unfetchable',
    500: 'source_unfetchable',
    loop: 'source_unfetchable',
    inside: 'source_unfetchable',
    cut: 'source_unfetchable',
    endless: 'source_too_large',
    ...Object.fromEntries(Object.entries(bad).map(([name, { code }]) => [name, code])),
  };
  // All at once, as customers do.
  const started = new Map<string, Promise<Asset>>();
  for (const name of [...Object.keys(failing), ...fine]) {
    const { asset_id } = await prepare(user, `${base}/${encodeURIComponent(name)}`);
    started.set(name, user.untilEnd(asset_id));
  }

  for (const name of fine) {
    t.test(`ready: ${name}`, async (t) => {
      t.match(await started.get(name), { status: 'ready', error_code: null });
    });
  }
  for (const [name, code] of Object.entries(failing)) {
    t.test(`failed with ${code}: ${name}`, async (t) => {
      const asset = await started.get(name);
      t.match(asset, { status: 'failed', error_code: code, mp4_url: null });
      const events = await user.timeline(asset?.asset_id ?? '');
      t.equal(events.filter(({ event }) => event === 'failed').length, 1);
    });
  }

  t.test('400 for an address that is refused by its text alone, and nothing starts', async (t) => {
    for (const src of [
      'http://10.0.0.1/x.png',
      'http://user:pw@example.com/x.png',
      'ftp://example.com/x.png',
      'http://intranet/x.png',
    ]) {
      const { status, body } = await user.call('POST', '/api/v1/prepare', {
        project_id: user.projectId,
        src,
      });
      t.equal(status, 400, src);
      t.type(body.error, 'string');
    }
  });
});
