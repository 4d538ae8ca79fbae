/** A system in full use is backed up, lost, and restored into an empty one: what was under way ends, nothing is told twice. */
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Asset } from '../../schemas/asset.ts';
import { type AssetEvent, isTerminal } from '../../schemas/events.ts';
import type { Delivery } from '../../schemas/webhook.ts';
import { newKey } from '../../src/auth/secret-box.ts';
import { signUrl } from '../../src/auth/signed-url.ts';
import { openBus } from '../../src/bus/bus.ts';
import { runCare } from '../../src/care.ts';
import { readConfig } from '../../src/config.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { createLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { openStore } from '../../src/store/client.ts';
import { photo } from '../fixtures/images.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

const servers = await testServers();
const log = createLog('silent');
const short = { mode: 'animate-in', dur_seconds: 2 };

async function temporary(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'care-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Settings of a system of its own on the shared servers. */
async function newSystem(t: Test) {
  const name = uniqueName('care');
  const port = await freePort();
  const environment = {
    PORT: String(port),
    BASE_URL: `http://127.0.0.1:${port}`,
    DATA_DIR: await temporary(t),
    MONGODB_URL: servers.mongodbUrl,
    MONGODB_DATABASE: name,
    NATS_URL: servers.natsUrl,
    NATS_PREFIX: `${name}.`,
    LOG_LEVEL: 'silent',
    RATE_LIMIT_FACTOR: '1000',
    WEBHOOK_SCHEDULE: '1s',
    WEBHOOK_ATTEMPTS: '30',
  };
  const care = (args: string[], more: Record<string, string> = {}) =>
    runCare(args, () => readConfig({ ...environment, ...more }));
  return { environment, name, care };
}

t.test(
  'what was backed up in full use goes on in an empty system, and no webhook comes twice',
  { timeout: 180_000 },
  async (t) => {
    const first = await newSystem(t);
    const folder = join(await temporary(t), 'backup');
    const bytes = await photo({ width: 96, height: 64 });
    const late: ServerResponse[] = [];
    let isLateServed = false;
    const sources = await serveSources(t, (request, response) => {
      if (request.url === '/late.jpg' && !isLateServed) late.push(response);
      else response.setHeader('content-type', 'image/jpeg').end(bytes);
    });
    const receiver = await startReceiver(t);
    // One event is not taken until the system is back.
    let refused = '';
    let isBack = false;
    receiver.answer = ({ id, body }, response) => {
      if (!isBack && JSON.parse(body).type === 'asset.completed') refused = id;
      response.writeHead(id === refused && !isBack ? 500 : 200).end();
    };
    const kept = {
      cookie: '',
      email: '',
      projectId: '',
      ready: '',
      pending: '',
      mp4: '',
      key: '',
      secret: '',
    };
    const accepted = () => receiver.received.filter(({ id }) => id !== refused).map(({ id }) => id);
    let before: string[] = [];

    await t.test('the first system, until its backup', async (t) => {
      const { PORT: _, BASE_URL: __, ...settings } = first.environment;
      const service = await startTestService(t, settings);
      const user = await service.signUp();
      const { projectId } = user;
      await user.call('PUT', `/api/projects/${projectId}/webhooks`, {
        webhook_url: receiver.url,
        webhook_events: ['asset.queued', 'asset.completed'],
        webhooks_enabled: true,
      });
      const configured = await user.call<{ project: { proxy_key: string; signing_secret: string } }>(
        'PUT',
        `/api/projects/${projectId}/proxy-config`,
        { allowed_origins: ['https://page.example'], enable_signing: true },
      );
      const prepare = async (src: string) =>
        (
          await user.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
            project_id: projectId,
            src,
            ...short,
          })
        ).body.asset_id;
      const ready = await prepare(`${sources}/early.jpg`);
      const { mp4_url } = await user.untilEnd(ready);
      const pending = await prepare(`${sources}/late.jpg`);
      Object.assign(kept, {
        cookie: user.cookie,
        email: user.email,
        projectId,
        ready,
        pending,
        mp4: mp4_url,
      });
      Object.assign(kept, {
        key: configured.body.project.proxy_key,
        secret: configured.body.project.signing_secret,
      });
      const wanted = async () => {
        const path = `/api/projects/${projectId}/webhooks/deliveries`;
        const { deliveries } = (await user.call<{ deliveries: Delivery[] }>('GET', path)).body;
        const states = deliveries.map(({ status }) => status).sort();
        return late.length > 0 && states.join() === 'delivered,delivered,retrying';
      };
      await until(wanted);

      const { text, exitCode } = await first.care(['backup', folder, '--with-keys']);
      t.equal(exitCode, 0);
      t.match(text, /^backup bak_\w+ is in .*\nit holds the keys of secrets \([0-9a-f]{8}\)/);
      await t.rejects(first.care(['backup', folder]), { message: /is not empty \(/ });
      await t.rejects(first.care(['restore', folder]), { message: /^the database is not empty \(/ });
      before = accepted();
    });
    t.equal(before.length, 2, 'two events were taken');
    for (const response of late) response.destroy();
    isLateServed = true;
    isBack = true;

    const second = await newSystem(t);
    const { MONGODB_DATABASE, DATA_DIR } = second.environment;
    await t.test(
      'what would not be whole, or would mix, is refused before anything is written',
      async (t) => {
        const broken = join(await temporary(t), 'broken');
        await cp(folder, broken, { recursive: true });
        await writeFile(join(broken, 'mongodb', 'users.bson.gz'), 'x');
        const [users] = [join(broken, 'mongodb', 'users.bson.gz')];
        const withKey = { SECRETS_KEY_FILE: join(folder, 'secrets.key') };
        await t.rejects(second.care(['restore', broken], withKey), {
          message: `${users} is damaged: its SHA-256 is not what the manifest says`,
        });
        await rm(join(broken, 'manifest.json'));
        await t.rejects(second.care(['restore', broken], withKey), { message: /was not brought to its end/ });
        await t.rejects(second.care(['restore', folder]), {
          message: /which SECRETS_KEY does not name: secrets\.key in the backup holds it$/,
        });
        await t.rejects(second.care(['restore', folder], { SECRETS_KEY: newKey() }), {
          message: /does not name/,
        });
        const used = await temporary(t);
        await cp(join(folder, 'media'), join(used, 'objects'), { recursive: true });
        const full = { ...withKey, STORAGE_URL: `file:${used}` };
        await t.rejects(second.care(['restore', folder], full), { message: /storage of media is not empty/ });
        const bus = await openBus({
          url: servers.natsUrl,
          prefix: second.environment.NATS_PREFIX,
          replicas: 1,
          lastPosition: async () => 0,
          log,
        });
        await bus.close();
        await t.rejects(second.care(['restore', folder], withKey), {
          message: /bus has streams .* --discard-streams$/,
        });
        const store = await openStore(servers.mongodbUrl, MONGODB_DATABASE, { log });
        t.strictSame(await store.dump.filled(), [], 'nothing was written');
        // As one that was cut off leaves it.
        await store.dump.beginRestore('bak_cut');
        await store.users.insert({
          id: 'usr_left',
          email: 'left@example.com',
          name: 'Left',
          passwordHash: null,
          createdTs: 1,
        });
        await store.close();
        await t.rejects(
          startService(readConfig({ ...second.environment, ...withKey }), log, () => undefined),
          { name: 'DataError', message: /^the restore of backup bak_cut was not brought to its end/ },
        );
      },
    );

    await cp(join(folder, 'secrets.key'), join(DATA_DIR, 'secrets.key'));
    const { text, exitCode } = await second.care(['restore', folder, '--discard-streams']);
    t.match({ text, exitCode }, { text: /^backup bak_\w+ is restored: start the service$/, exitCode: 0 });
    const config = readConfig(second.environment);
    const service = await startService(config, log, (cause) => t.fail(cause.message));
    t.teardown(() => service.stop());

    const base = config.baseUrl;
    const ask = async <Body>(path: string): Promise<Body> =>
      (await (await fetch(`${base}${path}`, { headers: { cookie: kept.cookie } })).json()) as Body;
    t.match(await ask('/api/user/me'), { email: kept.email, compositionCount: 2, aiGenerationsUsed: 2 });
    const signedIn = await fetch(`${base}/api/user/signin`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: kept.email, password: 'correct horse battery' }),
    });
    t.equal(signedIn.status, 200, 'its user signs in');

    const mp4 = await fetch(`${base}${new URL(kept.mp4).pathname}`);
    t.match(mp4, { status: 200 }, 'media are served');
    const { key, secret } = kept;
    const path = signUrl({ key, secret, source: `asset:${kept.ready}` }, Date.now() + 600_000);
    const proxied = await fetch(`${base}${path}`);
    t.equal(proxied.status, 200, 'signed addresses hold: their secret opens');
    t.same(Buffer.from(await proxied.arrayBuffer()), Buffer.from(await mp4.arrayBuffer()));

    const ended = await until(async () => {
      const { asset } = await ask<{ asset: Asset }>(`/api/assets/${kept.pending}`);
      return asset.status !== 'pending' && asset;
    });
    t.match(ended, { status: 'ready', run: 1 }, 'what was under way ends');
    const { events } = await ask<{ events: AssetEvent[] }>(`/api/assets/${kept.pending}/timeline`);
    t.equal(events.filter(({ event }) => isTerminal(event)).length, 1, 'once');
    t.ok(
      events.every(({ ts }, n) => n === 0 || ts > (events[n - 1]?.ts ?? 0)),
      'its facts are in order',
    );

    const delivered = await until(async () => {
      const { deliveries } = await ask<{ deliveries: Delivery[] }>(
        `/api/projects/${kept.projectId}/webhooks/deliveries`,
      );
      return (
        deliveries.length === 4 && deliveries.every(({ status }) => status === 'delivered') && deliveries
      );
    });
    const times = (id: string) => receiver.received.filter((one) => one.id === id).length;
    for (const id of before) t.equal(times(id), 1, 'what was taken before the backup is not sent again');
    t.equal(new Set(receiver.received.map(({ id }) => id)).size, 4, 'one id for each event');
    t.ok(times(refused) > 1, 'what was retrying arrives, under its id');
    const [lastOne] = delivered.filter(({ event_id }) => !before.includes(event_id) && event_id !== refused);
    t.equal(times(lastOne?.event_id ?? ''), 1);
    const manifest = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'));
    t.match(manifest, { format: 1, keys: { isIncluded: true }, media: { kind: 'copy' } });
  },
);
