/** The streams over real uWebSockets.js, nats-server and MongoDB. */
import { connect, createServer, type Socket } from 'node:net';
import { MongoNetworkError } from 'mongodb';
import t from 'tap';
import type { EventName } from '../../schemas/events.ts';
import { perMinute, sse } from '../../schemas/limits.ts';
import { type Bus, openBus } from '../../src/bus/bus.ts';
import { eventRoutes } from '../../src/http/events.ts';
import { createHubPorts } from '../../src/sse/bus-ports.ts';
import { createHub, type Hub } from '../../src/sse/hub.ts';
import { endStreamsOnMessages, projectChanged, sessionEnded } from '../../src/sse/messages.ts';
import { type Front, startFront } from '../fixtures/http.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { openStream } from '../sse/stream-client.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** A way to the bus that can be cut. */
async function createWire(to: number) {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((socket) => {
    if (isCut) {
      socket.destroy();
      return;
    }
    const other = connect(to, '127.0.0.1');
    for (const [one, two] of [
      [socket, other],
      [other, socket],
    ] as const) {
      sockets.add(one);
      one.pipe(two);
      one.on('error', () => two.destroy());
      one.on('close', () => two.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `nats://127.0.0.1:${address.port}`,
    cut() {
      isCut = true;
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    mend() {
      isCut = false;
    },
    close() {
      this.cut();
      server.close();
    },
  };
}

type World = {
  front: Front;
  bus: Bus;
  hub: Hub;
  wire: Awaited<ReturnType<typeof createWire>>;
  /** What the routes' ports find. */
  faults: { store: boolean };
  publish(event: EventName, more?: Record<string, unknown>): Promise<number>;
  /** An owner with a project that has a key, and an asset in it. */
  owner(): Promise<{ cookie: string; userId: string; projectId: string; key: string; assetId: string }>;
};

async function startWorld(): Promise<World> {
  const { natsUrl } = await testServers();
  const wire = await createWire(Number(new URL(natsUrl.replace(/^(?!nats:)/, 'nats://')).port));
  const options = { prefix: `${uniqueName('sse')}.`, replicas: 1, lastPosition: async () => 0, log: silent };
  const bus = await openBus({ url: natsUrl, ...options });
  const cut = await openBus({ url: wire.url, ...options });
  const documents = new Map<string, object[]>();
  const assets = new Map<string, { projectId: string }>();
  const faults = { store: false };
  const front: { current?: Front } = {};
  const hub = createHub(
    createHubPorts(cut, {
      assetFacts: async (id) => documents.get(id) ?? [],
      isGranted: async () => true,
      log: silent,
    }),
  );
  const messages = endStreamsOnMessages(hub, cut.listen);
  const started = await startFront({
    routes: eventRoutes({
      hub,
      async findAsset(id) {
        if (faults.store) throw new MongoNetworkError('no store');
        return assets.get(id);
      },
      findProjectByKey: async (key) => front.current?.store.projects.findByKey(key),
    }),
  });
  front.current = started;
  t.teardown(async () => {
    messages.stop();
    await hub.close();
    await started.close();
    await bus.deleteStreams();
    await Promise.all([bus.close(), cut.close()]);
    wire.close();
  });

  let lastTs = Date.now();
  let made = 0;
  return {
    front: started,
    bus,
    hub,
    wire,
    faults,
    async publish(event, more = {}) {
      const ts = Math.max(Date.now(), lastTs + 1);
      lastTs = ts;
      made += 1;
      const fact = { ts, event, attempt: 1, request_id: 'req_1', run: 1, ...more } as Record<string, unknown>;
      const assetId = String(fact['asset_id']);
      documents.set(assetId, [...(documents.get(assetId) ?? []), fact]);
      await bus.publish({
        subject: bus.subjects.fact(String(fact['project_id']), assetId, event),
        id: `${assetId}:${made}`,
        body: fact,
      });
      return ts;
    },
    async owner() {
      const { cookie, userId } = await started.signUp();
      const [project] = await started.store.projects.list(userId, 1);
      if (!project) throw new Error('no project');
      const key = uniqueName('pk');
      await started.store.projects.configureProxy(project.id, userId, {}, { proxyKey: key }, Date.now());
      const assetId = uniqueName('ast');
      assets.set(assetId, { projectId: project.id });
      return { cookie, userId, projectId: project.id, key, assetId };
    },
  };
}

t.test('streams', async (t) => {
  const world = await startWorld();
  const { front, hub, bus, publish, owner, faults, wire } = world;
  const { port } = front;
  const head = (path: string, headers = {}) => fetch(`${front.url}${path}`, { method: 'HEAD', headers });

  t.test('403, 404, 401 and 400 for who may not see a stream, or asks for none', async (t) => {
    const mine = await owner();
    const other = await owner();
    const { cookie } = mine;
    const cases: [string, number, string, Record<string, string>][] = [
      [`/v1/pk_none/events/${mine.assetId}`, 403, 'unknown project key', {}],
      [`/v1/${mine.key}/events/${other.assetId}`, 404, 'not found', {}],
      [`/v1/${mine.key}/events/none`, 404, 'not found', {}],
      [`/v1/${mine.key}/events/%zz`, 400, 'the path is malformed', {}],
      [`/v1/${mine.key}/events/${mine.assetId}?types=ready,nonsense`, 400, 'types: unknown event name', {}],
      [`/api/assets/${mine.assetId}/events`, 401, 'authentication required', {}],
      [`/api/projects/${mine.projectId}/activity`, 401, 'authentication required', {}],
      [
        `/api/projects/${mine.projectId}/activity`,
        401,
        'authentication required',
        { cookie: 'service.session_token=x' },
      ],
      [`/api/assets/${other.assetId}/events`, 404, 'not found', { cookie }],
      ['/api/assets/none/events', 404, 'not found', { cookie }],
      [`/api/projects/${other.projectId}/activity`, 404, 'not found', { cookie }],
      [`/api/projects/${mine.projectId}/activity?types=,`, 400, 'types: unknown event name', { cookie }],
    ];
    for (const [path, status, error, headers] of cases) {
      const answer = await front.call('GET', path, { headers });
      t.match({ status: answer.status, error: answer.body['error'] }, { status, error }, path);
      const allowed = path.startsWith('/v1/') ? '*' : null;
      t.equal(answer.headers.get('access-control-allow-origin'), allowed, path);
      // A resume is refused all the same: these are final.
      const resume = await front.call('GET', path, { headers: { ...headers, 'last-event-id': '5' } });
      t.equal(resume.status, status, path);
      t.equal((await head(path, headers)).status, status, path);
    }
  });

  t.test('HEAD and OPTIONS', async (t) => {
    const { key, assetId } = await owner();
    const found = await head(`/v1/${key}/events/${assetId}`);
    t.equal(found.status, 200);
    t.equal(found.headers.get('content-type'), 'text/event-stream');
    t.equal(hub.stats().streams, 0);
    const options = await front.call('OPTIONS', `/v1/${key}/events/${assetId}`);
    t.equal(options.status, 204);
    t.equal(options.headers.get('access-control-allow-origin'), '*');
    t.match(options.headers.get('access-control-allow-headers'), /last-event-id/i);
    t.equal((await front.call('POST', `/v1/${key}/events/${assetId}`)).status, 405);
  });

  t.test('200 for a hundred clients that come back at once, by fewer reads of their project', async (t) => {
    const [mine, other] = [await owner(), await owner()];
    const { projects } = front.store;
    const reads = t.capture(projects, 'findOwned', projects.findOwned);
    const statusOf = async (cookie: string) =>
      (await head(`/api/projects/${mine.projectId}/activity`, { cookie })).status;
    const asked = Array.from({ length: 100 }, (_, n) => statusOf(n === 50 ? other.cookie : mine.cookie));
    const statuses = await Promise.all(asked);
    t.equal(statuses.filter((status) => status === 200).length, 99);
    t.equal(statuses[50], 404, 'what is read for one user is for nobody else');
    t.ok(reads().length < 100);
  });

  t.test('an asset from queued to ready, on the three streams', async (t) => {
    const { key, assetId, cookie, projectId } = await owner();
    const ids = { asset_id: assetId, project_id: projectId };
    const queued = await publish('queued', { ...ids, options: { prompt: 'secret' } });
    const byKey = openStream(port, `/v1/${key}/events/${assetId}`, {
      origin: 'https://example.com',
      'x-request-id': 'abcd-1',
    });
    const byCookie = openStream(port, `/api/assets/${assetId}/events?types=queued,webhook_delivered`, {
      cookie,
    });
    const activity = openStream(port, `/api/projects/${projectId}/activity`, { cookie });
    const streams = [byKey, byCookie, activity];
    await Promise.all(streams.map((stream) => stream.until(() => stream.state.retryMs > 0)));
    await byCookie.until(() => byCookie.events.length === 1);
    for (const { state } of streams) {
      t.equal(state.status, 200);
      t.match(state.head, /content-type: text\/event-stream\r\n/i);
      t.match(state.head, /cache-control: no-store, no-transform\r\n/i);
      t.match(state.head, /x-accel-buffering: no\r\n/i);
      t.ok(state.retryMs >= sse.minRetryMs && state.retryMs <= sse.maxRetryMs);
    }
    t.match(byKey.state.head, /access-control-allow-origin: \*\r\n/i);
    t.match(byKey.state.head, /x-request-id: abcd-1\r\n/i);
    t.notMatch(activity.state.head, /access-control/i);

    const ready = await publish('ready', { ...ids, mp4_url: 'http://x/1.mp4' });
    const hook = await publish('webhook_delivered', { ...ids, delivery_id: 'd1' });
    await activity.until(() => activity.events.length === 2);
    await byKey.until(() => byKey.events.length === 2);
    await byCookie.until(() => byCookie.events.length === 2);
    t.strictSame(byKey.ids, [queued, ready]);
    t.strictSame(byCookie.ids, [queued, hook]);
    t.strictSame(activity.ids, [ready, hook]);
    t.notMatch(JSON.stringify(byKey.events), /secret/);

    const byHeader = openStream(port, `/api/projects/${projectId}/activity?last_event_id=7`, {
      cookie,
      'last-event-id': String(ready),
    });
    const byQuery = openStream(port, `/api/projects/${projectId}/activity?last_event_id=${queued}`, {
      cookie,
    });
    await byHeader.until(() => byHeader.events.length === 1);
    await byQuery.until(() => byQuery.events.length === 2);
    t.strictSame([byHeader.ids, byQuery.ids], [[hook], [ready, hook]]);
    for (const stream of [...streams, byHeader, byQuery]) stream.leave();
    await byKey.until(() => byKey.state.isClosed);
  });

  t.test('a stream ends within a second of its key, its session or its project', async (t) => {
    const { key, assetId, cookie, projectId, userId } = await owner();
    const open = async (path: string, headers = {}) => {
      const stream = openStream(port, path, headers);
      await stream.until(() => stream.state.retryMs > 0);
      return stream;
    };
    const byKey = await open(`/v1/${key}/events/${assetId}`);
    bus.send(projectChanged, { projectId, key });
    await byKey.until(() => byKey.state.isEnded, 1_000);
    const bySession = await open(`/api/assets/${assetId}/events`, { cookie });
    bus.send(sessionEnded, { userId });
    await bySession.until(() => bySession.state.isEnded, 1_000);
    const activity = await open(`/api/projects/${projectId}/activity`, { cookie });
    bus.send(projectChanged, { projectId, isDeleted: true });
    await activity.until(() => activity.state.isEnded, 1_000);
    t.equal(activity.state.fault, '');
    await activity.until(() => activity.state.isEnded);
    const lines = front.logged.filter(({ route }) => String(route).includes('activity'));
    t.match(lines.at(-1), { status: 200 }, 'its line is in the log when it has ended');
    for (const stream of [byKey, bySession, activity]) stream.leave();
  });

  t.test('a passing trouble refuses a new stream and puts an established one off', async (t) => {
    const { key, assetId, cookie, projectId } = await owner();
    faults.store = true;
    const path = `/v1/${key}/events/${assetId}`;
    const refused = await front.call('GET', path);
    t.equal(refused.status, 503);
    t.equal(refused.headers.get('retry-after'), '2');
    const resumed = openStream(port, path, { 'last-event-id': '5' });
    await resumed.until(() => resumed.state.isEnded);
    t.match(resumed.state, { status: 200, retryMs: sse.outageRetryMs });
    resumed.leave();
    faults.store = false;

    const activity = `/api/projects/${projectId}/activity`;
    for (let n = 0; n < perMinute.other + 1; n += 1) {
      if ((await head(activity, { cookie })).status === 429) break;
    }
    const limited = await front.call('GET', activity, { cookie });
    t.equal(limited.status, 429);
    t.match(limited.body, { error: 'rate limited' });
    t.ok(Number(limited.headers.get('retry-after')) > 0);
    t.match(limited.headers.get('ratelimit'), /^"other";r=0;t=\d+$/);
    const putOff = openStream(port, activity, { cookie, 'last-event-id': '5' });
    await putOff.until(() => putOff.state.isEnded);
    t.match(putOff.state, { status: 200, retryMs: sse.outageRetryMs });
    putOff.leave();
  });

  t.test('a reader that starts late sees every event intact and in order', async (t) => {
    const { cookie, projectId, assetId } = await owner();
    const ids = { asset_id: assetId, project_id: projectId };
    const path = `/api/projects/${projectId}/activity`;
    const filler = 'x'.repeat(8_000);
    const sent: number[] = [];
    const say = async (count: number) => {
      const facts: Promise<number>[] = [];
      for (let n = 0; n < count; n += 1) facts.push(publish('failed', { ...ids, error_msg: filler }));
      sent.push(...(await Promise.all(facts)));
    };
    const late = openStream(port, path, { cookie }, true);
    const live = openStream(port, path, { cookie });
    await live.until(() => live.state.retryMs > 0);
    await say(1);
    for (let n = 0; n < 30; n += 1) await say(25);
    await live.until(() => live.events.length === sent.length, 30_000);
    t.strictSame(live.ids, sent, 'a quick reader is not held up');

    late.resume();
    await late.until(
      () => late.events.length === sent.length || late.state.isEnded || late.state.isClosed,
      30_000,
    );
    const seen = [...late.ids];
    for (let turn = 0; turn < 5 && seen.length < sent.length; turn += 1) {
      const again = openStream(port, path, { cookie, 'last-event-id': String(seen.at(-1) ?? sent[0]) });
      await again.until(
        () => seen.length + again.events.length >= sent.length || again.state.isClosed,
        30_000,
      );
      seen.push(...again.ids);
      t.equal(again.state.fault, '');
      again.leave();
    }
    t.equal(late.state.fault, '');
    t.strictSame(seen, sent);
    for (const stream of [late, live]) stream.leave();
    await late.until(() => late.state.isClosed);
  });

  t.test('a reader that stops for a while goes on from where it was', async (t) => {
    const { cookie, projectId, assetId } = await owner();
    const ids = { asset_id: assetId, project_id: projectId };
    const stream = openStream(port, `/api/projects/${projectId}/activity`, { cookie });
    await stream.until(() => stream.state.retryMs > 0);
    const sent: number[] = [];
    // As much as the kernel takes, and then some of the ring.
    for (let turn = 0; turn < 3; turn += 1) {
      stream.pause();
      for (let n = 0; n < 200 && hub.stats().blocked === 0; n += 1) {
        sent.push(await publish('failed', { ...ids, error_msg: 'x'.repeat(40_000) }));
      }
      for (let n = 0; n < 10; n += 1)
        sent.push(await publish('failed', { ...ids, error_msg: 'x'.repeat(40_000) }));
      t.equal(hub.stats().blocked, 1);
      stream.resume();
      await stream.until(() => stream.events.length === sent.length || stream.state.isClosed, 20_000);
      t.strictSame(stream.ids, sent);
      t.equal(stream.state.fault, '');
    }
    stream.leave();
    await stream.until(() => stream.state.isClosed);
  });

  t.test('what is published while the bus is cut off comes when it is back', async (t) => {
    const { cookie, projectId, assetId } = await owner();
    const ids = { asset_id: assetId, project_id: projectId };
    const path = `/api/projects/${projectId}/activity`;
    const stream = openStream(port, path, { cookie });
    await stream.until(() => stream.state.retryMs > 0);
    const first = await publish('queued', ids);
    await stream.until(() => stream.events.length === 1);
    wire.cut();
    const missed = await publish('vision_started', ids);
    const refused = openStream(port, path, { cookie });
    await refused.until(() => refused.state.status !== 0);
    const putOff = openStream(port, path, { cookie, 'last-event-id': String(first) });
    await putOff.until(() => putOff.state.isEnded);
    t.equal(refused.state.status, 503);
    t.match(putOff.state, { status: 200, retryMs: sse.outageRetryMs });
    wire.mend();
    await stream.until(() => stream.events.length === 2);
    const live = await publish('ready', ids);
    await stream.until(() => stream.events.length === 3);
    t.strictSame(stream.ids, [first, missed, live]);
    for (const one of [stream, refused, putOff]) one.leave();
  });

  t.test('a thousand waiters and clients that leave cost nothing afterwards', async (t) => {
    const { key, assetId, projectId } = await owner();
    const ids = { asset_id: assetId, project_id: projectId };
    const begun = performance.now();
    const late = hub.waitForEnd('nothing', 300);
    const waits = Array.from({ length: 1_000 }, () => hub.waitForEnd(assetId, 8_000));
    await publish('ready', ids);
    t.strictSame(new Set(await Promise.all(waits)), new Set(['ready']));
    t.ok(performance.now() - begun < 300, 'they are told at once');
    t.equal(await late, 'timeout');
    const took = performance.now() - begun;
    t.ok(took >= 299 && took < 500, `a wait of 300 ms took ${took} ms`);

    const streams = Array.from({ length: 200 }, () => openStream(port, `/v1/${key}/events/${assetId}`));
    await Promise.all(streams.map((stream) => stream.until(() => stream.events.length === 1)));
    t.equal(hub.stats().streams, 200);
    for (const stream of streams) stream.leave();
    for (let n = 0; n < 100 && hub.stats().streams > 0; n += 1)
      await new Promise((resolve) => setTimeout(resolve, 20));
    t.match(hub.stats(), { streams: 0, waiting: 0, blocked: 0 });
  });
});
