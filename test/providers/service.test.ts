/**
 * The whole service with the stand-in for model providers: a run with each of them, every class of faults, and how
 * often anything was paid for.
 */
import { readFile } from 'node:fs/promises';
import t from 'tap';
import type { PrepareResponse } from '../../schemas/asset.ts';
import { startFakeProviders } from '../../src/fake-providers/server.ts';
import { photo } from '../fixtures/images.ts';
import { serveSources, startTestService, type TestUser } from '../fixtures/service.ts';

const clip = await readFile('src/fake-providers/clip.mp4');
const bytes = await photo();
const fake = await startFakeProviders({ clip });
t.teardown(() => fake.close());
const sources = await serveSources(t, (_, response) => {
  response.setHeader('content-type', 'image/jpeg').end(bytes);
});

const operator = 'operator@example.com';
const settings = {
  REPLICATE_API_TOKEN: 'r8_secret_of_ours',
  REPLICATE_BASE_URL: `${fake.url}/replicate/v1`,
  FAL_KEY: 'id:secret_of_ours',
  FAL_BASE_URL: `${fake.url}/fal`,
  FAL_KEYS_URL: `${fake.url}/.well-known/jwks.json`,
  RUNWAY_API_KEY: 'key_secret_of_ours',
  RUNWAY_BASE_URL: `${fake.url}/runway`,
  LUMA_API_KEY: 'luma_secret_of_ours',
  LUMA_BASE_URL: `${fake.url}/luma/dream-machine/v1`,
  OPENAI_API_KEY: 'sk_secret_of_ours',
  OPENAI_BASE_URL: `${fake.url}/openai/v1`,
  RETRY_BACKOFF: '0s,50ms,50ms',
  OPERATOR_EMAILS: operator,
  VIDEO_LIMITS: 'replicate=40/1000,fal=40/1000,luma=40/1000',
};

let count = 0;

/** Makes an animation whose prompt orders faults; answers how it ended and what it cost. */
async function make(user: TestUser, faults: string, options: object = {}) {
  count += 1;
  const prompt = `clip ${count} ${faults}`.trim();
  const { status, body } = await user.call<PrepareResponse>('POST', '/api/v1/prepare', {
    project_id: user.projectId,
    src: `${sources}/${count}.jpg`,
    mode: 'animate-in',
    dur_seconds: 2,
    prompt_override: prompt,
    ...options,
  });
  if (status !== 200) throw new Error(`prepare answered ${status}`);
  const asset = await user.untilEnd(body.asset_id);
  const bought = fake.asked().predictions.filter((one) => one.prompt === prompt);
  const paid = bought.filter(({ isPaid }) => isPaid);
  return { asset, bought: bought.length, paid: paid.length, predictions: bought };
}

for (const provider of ['replicate', 'fal', 'luma', 'runway']) {
  t.test(
    `a loop is made by ${provider}, each of its two clips paid once`,
    { timeout: 200_000 },
    async (t) => {
      const service = await startTestService(t, { ...settings, VIDEO_PROVIDER: provider });
      const user = await service.signUp();
      const { asset, paid, predictions } = await make(user, '', { mode: 'loop' });
      t.match(asset, { status: 'ready', loop_mode: 'native', error_code: null });
      t.equal(paid, 2);
      t.ok(Math.abs((await durationOf(asset.mp4_url ?? '')) - 2) <= 1 / 24, 'it is as long as wished');
      const [out, back] = predictions.map(({ input }) => JSON.stringify(input));
      t.match(back, /last_frame_image|end_image_url|"last"|frame1/, 'the way back is told how to end');
      t.notMatch(out, /last_frame_image|end_image_url|"last"|frame1/);
      const stored = await service.store.assets.find(asset.asset_id);
      const { costMicros } = (stored?.machine.context ?? {}) as { costMicros: number };
      if (provider === 'runway') t.equal(costMicros, 1_200_000, 'what it cost is in the run');
      const images = JSON.stringify(predictions).match(/http:[^"]*\/media\/[^"]*\.jpg/g) ?? [];
      t.ok(images.length >= 3);
      for (const url of images)
        t.equal((await fetch(url)).status, 404, 'images are shown for the work alone');
    },
  );
}

async function durationOf(url: string): Promise<number> {
  const { checkClip } = await import('../../src/media/clip-check.ts');
  return (await checkClip(new Uint8Array(await (await fetch(url)).arrayBuffer()))).seconds;
}
