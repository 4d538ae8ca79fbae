/** The receiver's side: the typed helper, the README's receiver, and events forwarded to a developer's machine. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { signWebhook, verifyWebhook, WebhookVerificationError } from '../../src/client/webhooks.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';

const secret = `whsec_${Buffer.from('a secret of thirty-two bytes ok!').toString('base64')}`;
const event = {
  id: 'evt_1',
  type: 'asset.completed',
  ts: 1_700_000_000_000,
  asset_id: 'ast_1',
  project_id: 'prj_1',
  request_id: 'req_1',
  data: { mp4_url: 'https://example.com/1.mp4' },
};
const payload = JSON.stringify(event);
const now = 1_700_000_000_000;

t.test('a request of the service is answered as its event, in every form of headers', async (t) => {
  const headers = signWebhook(secret, 'evt_1', payload, now);
  t.strictSame(verifyWebhook({ payload, headers, secret, now }), event);
  t.strictSame(
    verifyWebhook({ payload: Buffer.from(payload), headers: new Headers(headers), secret, now }),
    event,
  );
  t.strictSame(
    verifyWebhook({ payload, headers, secret: ['whsec_b3RoZXI=', secret], now }),
    event,
    'two secrets',
  );
  const both = { ...headers, 'webhook-signature': `v1,AAAA v2,x ${headers['webhook-signature']}` };
  t.strictSame(verifyWebhook({ payload, headers: both, secret, now }), event, 'two signatures');
  const theirs = new Webhook(secret).sign('evt_1', new Date(now), payload);
  t.equal(headers['webhook-signature'], theirs, 'as the official package signs');
});

t.test('anything else is refused', async (t) => {
  const headers = signWebhook(secret, 'evt_1', payload, now);
  const refused = (change: object, why: RegExp) =>
    t.throws(() => verifyWebhook({ payload, headers, secret, now, ...change }), {
      name: 'WebhookVerificationError',
      message: why,
    });
  refused({ payload: `${payload} ` }, /no signature/);
  refused({ secret: 'whsec_b3RoZXI=' }, /no signature/);
  refused({ secret: 'whsec_' }, /empty/);
  refused({ now: now + 301_000 }, /timestamp/);
  refused({ now: now - 301_000 }, /timestamp/);
  refused({ headers: { ...headers, 'webhook-timestamp': 'now' } }, /timestamp/);
  refused({ headers: { ...headers, 'webhook-timestamp': '1700000001' } }, /no signature/);
  refused({ headers: { ...headers, 'webhook-id': 'evt_2' } }, /no signature/);
  refused({ headers: { ...headers, 'webhook-signature': 'v1,' } }, /no signature/);
  refused({ headers: {} }, /missing/);
  const other = signWebhook(secret, 'evt_2', payload, now);
  refused({ headers: other }, /another event/);
  refused({ payload: '[]', headers: signWebhook(secret, 'evt_1', '[]', now) }, /no event/);
  t.doesNotThrow(() => verifyWebhook({ payload, headers, secret, now: now + 299_000 }));
  t.ok(new WebhookVerificationError('x') instanceof Error);
});

/** Runs a file; answers what it prints. */
function run(t: Test, file: string, args: string[], env: Record<string, string> = {}) {
  const child: ChildProcess = spawn(process.execPath, [file, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill());
  let printed = '';
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      printed += chunk.toString();
      for (const look of waiting) look();
    });
  }
  return {
    child,
    until: (text: RegExp) =>
      new Promise<RegExpExecArray>((done) => {
        const look = () => {
          const found = text.exec(printed);
          if (found) done(found);
        };
        waiting.add(look);
        look();
      }),
  };
}

t.test('the receiver in the README takes what is signed, once, and refuses the rest', async (t) => {
  const readme = readFileSync('README.md', 'utf8');
  const [, script = ''] =
    /<!-- executed by test\/webhooks\/receiver.test.ts -->\n```js\n([\s\S]*?)```/.exec(readme) ?? [];
  t.ok(script.split('\n').filter((line) => line.trim() !== '').length <= 16, 'it is short');
  const port = await freePort();
  const folder = mkdtempSync(join(resolve('.cache'), 'receiver-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'receiver.mjs');
  writeFileSync(
    file,
    script
      .replace('./dist/src/client/webhooks.js', resolve('dist/src/client/webhooks.js'))
      .replace('listen(3000)', `listen(${port}, '127.0.0.1', () => console.log('listening'))`),
  );
  const receiver = run(t, file, [], { WEBHOOK_SECRET: secret });
  await receiver.until(/listening/);
  const send = (body: string, headers: Record<string, string>) =>
    fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, headers });
  const signed = signWebhook(secret, 'evt_1', payload);
  t.equal((await send(payload, signed)).status, 204);
  t.equal((await send(payload, signed)).status, 204);
  t.equal((await send(`${payload} `, signed)).status, 400);
  const [printed] = await receiver.until(/asset.completed ast_1.*/s);
  t.equal(printed.match(/asset.completed/g)?.length, 1, 'handled once');
});

t.test('the command line forwards a project’s events, signed, with the ids of their webhooks', async (t) => {
  const service = await startTestService(t);
  const user = await service.signUp();
  const [hook, local] = [await startReceiver(t), await startReceiver(t)];
  await user.call('PUT', `/api/projects/${user.projectId}/webhooks`, {
    webhook_url: hook.url,
    webhook_events: ['asset.queued', 'asset.failed'],
    webhooks_enabled: true,
  });
  const args = ['listen', '--forward-to', local.url, '--base', service.base, '--cookie', user.cookie];
  const cli = run(t, resolve('dist/src/client/cli.js'), [...args, '--secret', secret]);
  await cli.until(/listening/);
  const source = await serveSources(t, (_, response) => response.writeHead(404).end());
  await user.call('POST', '/api/v1/prepare', { project_id: user.projectId, src: `${source}/none.png` });
  await Promise.all([hook.until(2), local.until(2)]);
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
  const bodies = (all: { id: string; body: string }[]) =>
    [...all].sort(byId).map(({ body }) => JSON.parse(body) as unknown);
  t.strictSame(bodies(local.received), bodies(hook.received), 'the same events as webhooks bring');
  for (const { body, headers } of local.received) {
    t.ok(verifyWebhook({ payload: body, headers: headers as Record<string, string>, secret }));
  }
  t.match((await cli.until(/asset\.failed ast_\w+ evt_\w+ -> (\d+)/))[1], '200');

  const refused = run(t, resolve('dist/src/client/cli.js'), [
    ...args.slice(0, 5),
    '--project',
    user.projectId,
    '--cookie',
    'service.session_token=none',
  ]);
  await refused.until(/answers 401/);
  const help = run(t, resolve('dist/src/client/cli.js'), ['listen', '--help']);
  await help.until(/usage: npm run cli -- listen --forward-to <url>/);
});
