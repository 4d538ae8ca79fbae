/** Submits whose answer is lost, providers that stand in for others, and what vision turns down. */
import { readFile } from 'node:fs/promises';
import t from 'tap';
import type { PrepareResponse } from '../../schemas/asset.ts';
import { ambiguous } from '../../src/fake-providers/faults.ts';
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

t.test('submits without an answer', { timeout: 120_000 }, async (t) => {
  for (const provider of ['fal']) {
    const service = await startTestService(t, { ...settings, VIDEO_PROVIDER: provider });
    const user = await service.signUp();
    const made = await Promise.all(ambiguous.slice(0, 2).map((fault) => make(user, `fault:${fault}`)));
    for (const { asset, paid } of made) {
      t.match(asset, { status: 'ready' });
      t.equal(paid, 1, `${provider} is paid once`);
    }
  }
});

t.test('one provider stands in for another that cannot', { timeout: 200_000 }, async (t) => {
  const service = await startTestService(t, {
    ...settings,
    VIDEO_PROVIDER: 'replicate,fal',
    VISION_PROVIDER: 'openai',
  });
  const user = await service.signUp(operator);
  for (let i = 0; i < 5; i += 1) fake.order({ fault: '503', on: 'replicate' });
  for (let i = 0; i < 5; i += 1) {
    const { asset, predictions } = await make(user, '');
    t.match(asset, { status: 'ready' });
    t.match(predictions, [{ provider: 'fal' }], 'in the same attempt');
    const retries = (await user.timeline(asset.asset_id)).filter(({ event }) => event === 'retry_scheduled');
    t.strictSame(retries, []);
  }
  const { body } = await user.call<{ providers: object[] }>('GET', '/api/operator/providers');
  t.match(body.providers, [
    { name: 'openai', state: 'ok' },
    { name: 'replicate', state: 'failing', last_failure: { reason: 'unavailable' } },
    { name: 'fal', state: 'ok' },
  ]);

  t.test('what vision turns down is not animated', async (t) => {
    const before = fake.asked().created;
    for (const fault of ['nsfw', 'refusal', '400-image']) {
      fake.order({ fault, on: 'openai' });
      t.match((await make(user, '')).asset, { status: 'failed', error_code: 'vision_blocked' }, fault);
    }
    t.equal(fake.asked().created, before);
    for (const fault of ['fenced', '429']) {
      fake.order({ fault, on: 'openai' });
      t.match((await make(user, '')).asset, { status: 'ready' }, fault);
    }
  });
});
