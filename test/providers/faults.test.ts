/** What becomes of an asset when its provider goes wrong, in every way that the stand-in knows, and what is paid. */
import t from 'tap';
import { startStandIn } from '../fixtures/model-providers.ts';
import { startTestService } from '../fixtures/service.ts';

const { fake, make, settings, operator } = await startStandIn(t);

t.test('faults of Replicate', { timeout: 230_000 }, async (t) => {
  const logged: string[] = [];
  const service = await startTestService(
    t,
    { ...settings, VIDEO_PROVIDER: 'replicate', LOG_LEVEL: 'info' },
    { write: (line: string) => void logged.push(line) },
  );
  const user = await service.signUp(operator);

  const once = async (fault: string) => {
    const { asset, paid, bought } = await make(user, `fault:${fault}`);
    t.match(asset, { status: 'ready' }, `${fault}: ready`);
    t.strictSame([bought, paid], [1, 1], `${fault}: bought and paid once`);
  };
  const harmless = ['429-text', 'output-reset'];
  const hints = ['callback-forged'];
  const unanswered = ['reset-created', 'bad-json'];
  await Promise.all([...harmless, ...hints, ...unanswered].map(once));

  const fails = async (fault: string, most: number) => {
    const { asset, paid } = await make(user, `fault:${fault}*9`);
    t.match(asset, { status: 'failed', error_code: 'i2v_failed' }, `${fault}: failed`);
    t.ok(paid <= most, `${fault}: paid ${paid} times`);
  };
  await Promise.all([
    ...['401', 'moderated'].map((fault) => fails(fault, 1)),
    fails('internal', 0),
    // Nothing that was bought is of use: each attempt must buy anew.
    fails('output-404', 3),
  ]);

  t.test('an output that is lost for a while is copied again, and no other is bought', async (t) => {
    const { asset, bought } = await make(user, 'fault:output-503*9');
    t.match(asset, { status: 'ready' });
    t.equal(bought, 1);
  });

  t.test('how the provider is doing is shown to operators', async (t) => {
    const { status, body } = await user.call<{ providers: object[] }>('GET', '/api/operator/providers');
    t.equal(status, 200);
    t.match(body.providers, [{ name: 'replicate', running: 0, concurrent: 40, submits_per_minute: 1_000 }]);
    const stranger = await service.signUp();
    t.equal((await stranger.call('GET', '/api/operator/providers')).status, 404);
  });

  t.test('callbacks that are not true are refused, and change nothing', async (t) => {
    const [one] = fake.asked().predictions.slice(-1);
    const url = new URL(one?.callbackUrl ?? '');
    const post = async (address: URL, body: string | Buffer = '{}') =>
      (await fetch(address, { method: 'POST', body })).status;
    const changed = (change: (query: URLSearchParams) => void) => {
      const other = new URL(url);
      change(other.searchParams);
      return other;
    };
    t.equal(await post(url), 401, 'without a signature');
    t.equal(await post(changed((query) => query.set('attempt', '9'))), 401, 'for another attempt');
    t.equal(await post(changed((query) => query.delete('t'))), 401, 'without a token');
    t.equal(await post(new URL(url.href.replace('/replicate?', '/nobody?'))), 404);
    t.equal(await post(url, Buffer.alloc(1024 * 1024 + 1)), 413);
  });

  const secrets = Object.values(settings).filter((value) => value.endsWith('secret_of_ours'));
  const told = logged.join('') + JSON.stringify(await service.store.predictions.look('none'));
  t.ok(logged.some((line) => line.includes('"provider":"replicate"')));
  for (const secret of secrets) t.notOk(told.includes(secret), 'no key is in the log');
});
