/** Streams of the whole front end, as a browser's own EventSource reads them, and how they end early. */
import t from 'tap';
import { openBus } from '../../src/bus/bus.ts';
import { launchChromium, skip } from '../fixtures/chromium.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';
import { openStream } from './stream-client.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

t.test('streams of the whole front end', async (t) => {
  const prefix = `${uniqueName('browser')}.`;
  const service = await startTestService(t, {
    ROLE: 'http',
    NATS_PREFIX: prefix,
    // Short lives, so that a browser comes back within the test.
    SSE_MAX: '2s',
  });
  const { natsUrl } = await testServers();
  const bus = await openBus({ url: natsUrl, prefix, replicas: 1, lastPosition: async () => 0, log: silent });
  t.teardown(() => bus.close());
  const user = await service.signUp();
  const { base } = service;
  const port = Number(new URL(base).port);
  const { body } = await user.call<{ project: { proxy_key: string } }>(
    'PUT',
    `/api/projects/${user.projectId}/proxy-config`,
    { allowed_origins: [] },
  );
  const key = body.project.proxy_key;
  const prepared = await user.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
    project_id: user.projectId,
    src: 'https://example.com/photo.jpg',
  });
  const assetId = prepared.body.asset_id;
  let lastTs = Date.now();
  const publish = async (event: string): Promise<number> => {
    lastTs = Math.max(Date.now(), lastTs + 1);
    await bus.publish({
      subject: bus.subjects.fact(user.projectId, assetId, event),
      id: `${assetId}:${lastTs}`,
      body: {
        event,
        ts: lastTs,
        attempt: 1,
        request_id: 'req_1',
        asset_id: assetId,
        project_id: user.projectId,
        run: 1,
      },
    });
    return lastTs;
  };

  t.test(
    'an EventSource of another origin sees every event once, over reconnects of its own',
    { skip },
    async (t) => {
      const browser = await launchChromium();
      t.teardown(() => browser.close());
      const page = await browser.newPage();
      const origin = await serveSources(t, (_request, response) => {
        response.setHeader('content-type', 'text/html').end('<p>Another origin</p>');
      });
      await page.goto(origin);
      await page.evaluate(`
        window.seen = [];
        window.opens = 0;
        window.source = new EventSource(${JSON.stringify(`${base}/v1/${key}/events/${assetId}`)});
        source.onopen = () => { opens += 1; };
        for (const name of ['queued', 'vision_started', 'vision_completed', 'ready'])
          source.addEventListener(name, (event) => seen.push([name, Number(event.lastEventId), JSON.parse(event.data).event]));
      `);
      await page.waitForFunction('opens > 0');
      t.equal(await page.evaluate('source.readyState'), 1, 'it is open before there is any event');
      const sent = [await publish('queued'), await publish('vision_started')];
      await page.waitForFunction('seen.length === 2');
      // Its stream ends: what is published until it is back must not be lost.
      await page.waitForFunction('source.readyState === 0', undefined, { polling: 20 });
      sent.push(await publish('vision_completed'));
      await page.waitForFunction('opens > 1 && seen.length === 3', undefined, { timeout: 15_000 });
      sent.push(await publish('ready'));
      await page.waitForFunction('seen.length === 4', undefined, { timeout: 15_000 });
      const names = ['queued', 'vision_started', 'vision_completed', 'ready'];
      t.strictSame(
        await page.evaluate('seen'),
        names.map((name, n) => [name, sent[n], name]),
      );
    },
  );

  t.test('a stream ends within a second when its key is rotated, and the old key opens none', async (t) => {
    const path = `/v1/${key}/events/${assetId}`;
    const stream = openStream(port, path);
    await stream.until(() => stream.state.retryMs > 0);
    const rotated = await user.call('POST', `/api/projects/${user.projectId}/keys/rotate?which=proxy`);
    t.equal(rotated.status, 200);
    await stream.until(() => stream.state.isEnded, 1_000);
    t.equal(stream.state.fault, '');
    const refused = openStream(port, path, { 'last-event-id': '5' });
    await refused.until(() => refused.state.status !== 0);
    t.equal(refused.state.status, 403, 'this is final, so a resume is refused as well');
    for (const one of [stream, refused]) one.leave();
  });

  t.test('a stream ends within a second when its user signs out, and opens no more', async (t) => {
    const path = `/api/projects/${user.projectId}/activity`;
    const stream = openStream(port, path, { cookie: user.cookie });
    await stream.until(() => stream.state.retryMs > 0);
    const { status } = await user.call('POST', '/api/user/signout');
    t.equal(status, 200);
    await stream.until(() => stream.state.isEnded, 1_000);
    const refused = openStream(port, path, { cookie: user.cookie, 'last-event-id': '5' });
    await refused.until(() => refused.state.status !== 0);
    t.equal(refused.state.status, 401);
    for (const one of [stream, refused]) one.leave();
  });

  t.test('the guide tells of the six connections that a browser has', async (t) => {
    const guide = await (await fetch(`${base}/docs/events`)).text();
    t.match(guide, /six connections/);
    t.match(guide, /project(’|')s stream/i);
  });
});
