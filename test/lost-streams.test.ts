/** All streams of the bus are deleted while everything is under way: the documents know how it goes on. */
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type JetStreamManager } from 'nats';
import t, { type Test } from 'tap';
import type { AssetEvent } from '../schemas/events.ts';
import { isTerminal } from '../schemas/events.ts';
import type { Delivery } from '../schemas/webhook.ts';
import { type Bus, openBus } from '../src/bus/bus.ts';
import type { Command } from '../src/bus/read.ts';
import { createSubjects } from '../src/bus/subjects.ts';
import { photo } from './fixtures/images.ts';
import { startReceiver } from './fixtures/receiver.ts';
import { testServers, uniqueName } from './fixtures/servers.ts';
import { serveSources, startTestService, type TestUser } from './fixtures/service.ts';

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const partitions = 4;
const hour = 3_600_000;
const gap = 1_000_000;

/** The server itself, to take streams away behind everybody's back. */
async function openManager(t: Test): Promise<JetStreamManager> {
  const connection = await connect({ servers: (await testServers()).natsUrl });
  t.teardown(() => connection.close());
  return connection.jetstreamManager();
}

async function deleteStreams(manager: JetStreamManager, prefix: string): Promise<void> {
  for (const name of Object.values(createSubjects(prefix, partitions).streams))
    await manager.streams.delete(name);
}

/** @throws when it has not come within `maxMs`. */
async function until<Value>(
  look: () => Promise<Value> | Value,
  maxMs = 20_000,
): Promise<Exclude<Value, false>> {
  for (const from = performance.now(); performance.now() - from < maxMs; ) {
    const found = await look();
    if (found) return found as Exclude<Value, false>;
    await delay(20);
  }
  throw new Error(`not so within ${maxMs} ms: ${look}`);
}

type Site = { manager: JetStreamManager; prefix: string; open(lastPosition: number): Promise<Bus> };

async function createSite(t: Test): Promise<Site> {
  const prefix = `${uniqueName('lost')}.`;
  const url = (await testServers()).natsUrl;
  const buses: Bus[] = [];
  t.teardown(async () => {
    await buses[0]?.deleteStreams();
    for (const bus of buses) await bus.close();
  });
  return {
    manager: await openManager(t),
    prefix,
    async open(lastPosition) {
      let after = lastPosition - gap;
      const beginAfter = async () => {
        after += gap;
        return after;
      };
      const positions = { lastPosition: async () => lastPosition, beginAfter };
      const bus = await openBus({ url, prefix, partitions, replicas: 1, ...positions, log });
      buses.push(bus);
      return bus;
    },
  };
}

let ids = 0;
function command(bus: Bus) {
  ids += 1;
  return {
    subject: bus.subjects.command('p1', 'counter', 'c1'),
    id: `cmd:${ids}`,
    body: { type: 'COUNT', n: ids },
  };
}

/** Published until it is stored, as its senders do. */
async function publish(bus: Bus, message: Parameters<Bus['publish']>[0]): Promise<void> {
  await until(() =>
    bus.publish(message).then(
      () => true,
      () => false,
    ),
  );
}

t.test('who reads, works and follows goes on with streams that the running bus has made again', async (t) => {
  const { manager, prefix, open } = await createSite(t);
  const bus = await open(7);
  const commands: Command[] = [];
  const work: { body: unknown; deliveries: number }[] = [];
  const facts: unknown[] = [];
  const reader = await bus.readCommands([0, 1, 2, 3], 0, (one) => commands.push(one) > 0);
  // As after the start of a lone worker: what is then given out was given out before, by its sequence.
  await publish(bus, { subject: bus.subjects.work('render', 'p1', 'asset', 'a0'), id: 'w0', body: {} });
  await bus.reclaimWork(['render']);
  const taker = await bus.takeWork('render', 10, ({ body, deliveries, done }) => {
    work.push({ body, deliveries });
    void done().catch(() => undefined);
  });
  const follower = await bus.followFacts('webhooks', ['ready'], async (some) => {
    facts.push(...some);
  });
  await publish(bus, command(bus));
  await until(() => commands.length === 1);
  const before = await bus.streamsMade();
  t.equal(await bus.streamsMade(), before);

  await deleteStreams(manager, prefix);
  await t.rejects(bus.streamsMade(), 'nobody takes them for those of before');
  // Before anybody follows again.
  await publish(bus, { subject: bus.subjects.fact('p1', 'a1', 'ready'), id: 'f1', body: { ready: 1 } });
  await publish(bus, command(bus));
  await publish(bus, { subject: bus.subjects.work('render', 'p1', 'asset', 'a1'), id: 'w1', body: { n: 1 } });
  await until(
    () => commands.length === 2 && facts.length === 1 && work.some(({ deliveries }) => deliveries === 1),
  );
  t.not(await bus.streamsMade(), before);
  t.ok((commands[1]?.seq ?? 0) > (commands[0]?.seq ?? 0) + gap / 2, 'it begins above what was read');
  t.match(work.at(-1), { body: { n: 1 }, deliveries: 1 }, 'work of a new stream was given to nobody before');
  await Promise.all([reader.stop(), taker.stop(), follower.stop()]);
});

t.test('a command stream that ends below the stored positions goes on above them', async (t) => {
  const { open } = await createSite(t);
  const old = await open(0);
  await publish(old, command(old));
  const bus = await open(5_000);
  await publish(bus, command(bus));
  const commands: Command[] = [];
  const reader = await bus.readCommands([0, 1, 2, 3], 5_000, (one) => commands.push(one) > 0);
  await until(() => commands.length === 1);
  t.match(commands[0]?.message, { n: ids });
  t.ok((await bus.lastCommand()) > 1_000_000);
  await reader.stop();
});

const all = [
  'asset.queued',
  'asset.stage_completed',
  'asset.completed',
  'asset.failed',
  'asset.retry_scheduled',
];

async function prepare(user: TestUser, src: string): Promise<number> {
  const options = { mode: 'animate-in', dur_seconds: 2 };
  const { status } = await user.call('POST', '/api/v1/prepare', {
    project_id: user.projectId,
    src,
    ...options,
  });
  return status;
}

async function assetsOf(user: TestUser): Promise<{ asset_id: string; status: string; state: string }[]> {
  return (await user.call<{ assets: never[] }>('GET', `/api/assets?project_id=${user.projectId}`)).body
    .assets;
}

async function deliveriesOf(user: TestUser): Promise<Delivery[]> {
  const path = `/api/projects/${user.projectId}/webhooks/deliveries`;
  return (await user.call<{ deliveries: Delivery[] }>('GET', path)).body.deliveries;
}

t.test(
  'streams deleted in mid-flight: every run ends once, every webhook arrives',
  { timeout: 120_000 },
  async (t) => {
    const prefix = `${uniqueName('lost')}.`;
    const manager = await openManager(t);
    // Nothing here is found by the wait of five minutes.
    const service = await startTestService(t, {
      NATS_PREFIX: prefix,
      WEBHOOK_SCHEDULE: '1s',
      WEBHOOK_ATTEMPTS: '30',
    });
    const user = await service.signUp();
    const receiver = await startReceiver(t);
    await user.call('PUT', `/api/projects/${user.projectId}/webhooks`, {
      webhook_url: receiver.url,
      webhook_events: all,
      webhooks_enabled: true,
    });
    // Its deliveries are retrying, and one is being sent, when the streams go.
    let hanging: ServerResponse | undefined;
    receiver.answer = (_, response) => {
      if (hanging) response.writeHead(500).end();
      else hanging = response;
    };
    const bytes = await photo();
    let late: ServerResponse | undefined;
    const base = await serveSources(t, (request, response) => {
      if (request.url === '/late.jpg') late = response;
      else if (request.url === '/between.jpg') response.writeHead(404).end();
      else response.setHeader('content-type', 'image/jpeg').end(bytes);
    });
    t.equal(await prepare(user, `${base}/early.jpg`), 200);
    t.equal(await prepare(user, `${base}/late.jpg`), 200);
    await until(async () => {
      const [early] = (await assetsOf(user)).filter(({ state }) => state.startsWith('pending.single'));
      return early !== undefined && late !== undefined && receiver.received.length > 1;
    });

    await deleteStreams(manager, prefix);
    await prepare(user, `${base}/between.jpg`);
    hanging?.end();
    late?.writeHead(404).end();
    receiver.answer = (_, response) => void response.end();
    await until(async () => (await assetsOf(user)).every(({ status }) => status !== 'pending'), 90_000);
    const states = (await assetsOf(user)).map(({ state }) => state);
    t.strictSame(states.sort(), ['failed', 'failed', 'ready']);
    // Again, right after: what was under way to its webhooks is lost once more.
    await deleteStreams(manager, prefix);

    const events: AssetEvent[] = [];
    for (const { asset_id } of await assetsOf(user)) {
      const timeline = await user.timeline(asset_id);
      t.equal(timeline.filter(({ event }) => isTerminal(event)).length, 1, 'one end');
      t.ok(timeline.every(({ ts }) => ts > Date.now() - hour));
      events.push(...timeline);
    }
    const wanted = events.filter(({ event }) =>
      ['queued', 'stage_completed', 'ready', 'failed'].includes(event),
    );
    t.equal(wanted.length, 7);
    const delivered = await until(async () => {
      const found = await deliveriesOf(user);
      return found.length >= 7 && found.every(({ status }) => status === 'delivered') && found;
    });
    t.equal(delivered.length, 7, 'one delivery of each event');
    const arrived = new Set(receiver.received.map(({ id }) => id));
    t.strictSame([...arrived].sort(), delivered.map(({ event_id }) => event_id).sort());
    // Noted once it has been looked again.
    const seen = await until(() => service.store.streams.seen(), 30_000);
    t.equal(seen?.made.split(',').length, 3);
  },
);
