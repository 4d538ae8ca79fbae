/** The whole service over an object store, with the media at an address of their own: what a CDN would ask it for. */
import { tmpdir } from 'node:os';
import t from 'tap';
import type { PrepareResponse } from '../../schemas/asset.ts';
import { parseS3Url } from '../../src/media/s3-place.ts';
import { openS3Storage } from '../../src/media/s3-storage.ts';
import { photo } from '../fixtures/images.ts';
import { s3Credentials, s3Secrets, startS3Like } from '../fixtures/s3-like.ts';
import { startTestService } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';
import { findVersitygw, noVersitygw, startVersitygw } from '../fixtures/versitygw.ts';

const cdn = 'https://cdn.example/animations';

t.test(
  'an upload becomes an animation in a bucket, and is served from there',
  { timeout: 120_000 },
  async (t) => {
    const program = findVersitygw();
    if (!program) t.comment(`over the object store in memory: ${noVersitygw}`);
    const storageUrl = program ? await startVersitygw(t, program) : (await startS3Like(t)).storageUrl;
    const service = await startTestService(t, {
      STORAGE_URL: storageUrl,
      S3_ACCESS_KEY_ID: s3Secrets.id,
      S3_SECRET_ACCESS_KEY: s3Secrets.secret,
      MEDIA_BASE_URL: `${cdn}/`,
    });
    const user = await service.signUp();
    const bucket = await openS3Storage({
      place: parseS3Url(storageUrl),
      credentials: s3Credentials,
      tempDir: tmpdir(),
    });
    t.teardown(() => bucket.close());
    const keysOf = async (prefix: string) => {
      const keys: string[] = [];
      for await (const { key } of bucket.list(prefix)) keys.push(key);
      return keys.sort();
    };

    const form = new FormData();
    form.append(
      'file',
      new Blob([Uint8Array.from(await photo({ width: 240, height: 160 }))], { type: 'image/jpeg' }),
      'photo.jpg',
    );
    const upload = await fetch(`${service.base}/api/v1/upload`, {
      method: 'POST',
      headers: { cookie: user.cookie },
      body: form,
    });
    t.equal(upload.status, 200);
    const { url } = (await upload.json()) as { url: string };
    t.ok(url.startsWith(`${service.base}/uploads/`), 'uploads stay where the service is');
    t.equal((await fetch(url)).status, 200);
    t.equal((await keysOf('uploads/')).length, 1);

    const prepared = await user.call<PrepareResponse>('POST', '/api/v1/prepare', {
      project_id: user.projectId,
      src: url,
      mode: 'animate-in',
      dur_seconds: 2,
    });
    const id = prepared.body.asset_id;
    const asset = await user.untilEnd(id);
    t.match(asset, { status: 'ready', error_code: null });
    const [poster = '', clip = ''] = await keysOf(`media/${id}/`);
    t.strictSame([asset.mp4_url, asset.poster_url], [`${cdn}/${clip}`, `${cdn}/${poster}`]);
    t.match(
      (await user.timeline(id)).find(({ event }) => event === 'ready'),
      { mp4_url: asset.mp4_url },
    );

    const stored = await bucket.read(clip, new AbortController().signal, 50_000_000);
    if (!stored) throw new Error('no clip is stored');
    const bytes = Buffer.from(stored);
    const whole = await fetch(`${service.base}/${clip}`);
    t.strictSame(Buffer.from(await whole.arrayBuffer()), bytes, 'what a CDN gets is what is stored');
    t.match(whole.headers.get('cache-control'), 'immutable');

    const { body } = await user.call<{ project: { proxy_key: string } }>(
      'PUT',
      `/api/projects/${user.projectId}/proxy-config`,
      { allowed_origins: ['https://example.com'] },
    );
    const proxied = `${service.base}/v1/${body.project.proxy_key}/a/${id}.mp4`;
    const origin = { origin: 'https://example.com' };
    const last = bytes.byteLength - 1;
    for (const [start, end] of [
      [0, 99],
      [100, last - 1],
      [last, last],
    ] as const) {
      const part = await fetch(proxied, { headers: { ...origin, range: `bytes=${start}-${end}` } });
      const expected = bytes.subarray(start, end + 1);
      t.equal(part.status, 206);
      t.equal(part.headers.get('content-range'), `bytes ${start}-${end}/${bytes.byteLength}`);
      t.strictSame(Buffer.from(await part.arrayBuffer()), expected);
    }
    const past = await fetch(proxied, { headers: { ...origin, range: `bytes=${last + 1}-` } });
    t.equal(past.status, 416);
    t.equal(
      (await fetch(proxied, { method: 'HEAD', headers: origin })).headers.get('content-length'),
      String(last + 1),
    );

    t.equal((await user.call('DELETE', `/api/assets/${id}`)).status, 200);
    await until(
      async () => [...(await keysOf(`media/${id}/`)), ...(await keysOf(`work/${id}/`))],
      (left) => left.length === 0,
    );
    t.equal((await fetch(`${service.base}/${clip}`)).status, 404, 'what is deleted is gone');
  },
);
