/** Submits whose answer is lost, providers that stand in for others, and what vision turns down. */
import t from 'tap';
import { ambiguous } from '../../src/fake-providers/faults.ts';
import { startStandIn } from '../fixtures/model-providers.ts';
import { startTestService } from '../fixtures/service.ts';

const { fake, make, settings, operator } = await startStandIn(t);

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
