/** The sender of deliveries on a virtual clock: who gets a turn, what an endpoint that is down costs, what is lost. */
import t from 'tap';
import type { DeliveryCommand } from '../../schemas/delivery-messages.ts';
import type { PublishedFact } from '../../schemas/envelope.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import { applyMessage, type Message, timerMessage } from '../../src/actors/apply.ts';
import { sleep } from '../../src/actors/clock.ts';
import { contextOf, createDeliveryKind } from '../../src/actors/delivery.ts';
import { leaseMs, type Sending, startSender } from '../../src/actors/sender.ts';
import { createSecretBox } from '../../src/auth/secret-box.ts';
import type { AttemptResult } from '../../src/effects/deliver.ts';
import type { ActorDocument } from '../../src/store/actors.ts';
import { Secret } from '../../src/store/sealed.ts';
import type { WebhookRecord } from '../../src/store/webhooks.ts';
import { createAnnounce, followWebhookChanges } from '../../src/webhooks/changes.ts';
import { createStarter } from '../../src/webhooks/dispatcher.ts';
import { secretsAt } from '../../src/webhooks/sign.ts';
import { deliveryOf } from '../../src/webhooks/start.ts';
import { createMemoryActorStore } from '../fixtures/memory-runtime.ts';
import { createVirtualClock } from '../fixtures/virtual-clock.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const partition = 0;

const succeed = ({ attempt }: Sending): AttemptResult => ({
  type: 'DELIVERED',
  attempt,
  code: 200,
  preview: null,
});
const fail = ({ attempt }: Sending): AttemptResult => ({
  type: 'ATTEMPT_FAILED',
  attempt,
  code: null,
  preview: null,
  failure: 'connect',
  spread: 0,
});

function configurationOf(project: string, change: Partial<WebhookRecord> = {}): WebhookRecord {
  return {
    project,
    url: `https://${project}.example.com/`,
    events: ['asset.completed'],
    isEnabled: true,
    enabledTs: 0,
    secret: null,
    previous: [],
    revision: 1,
    ...change,
  };
}

/** A sender with an owner and a store that live in memory: results are applied as they come, timers when due. */
function createWorld() {
  const clock = createVirtualClock();
  const kind = createDeliveryKind(createMemoryActorStore(), limits);
  const documents = new Map<string, ActorDocument>();
  const running = new Map<string, number>();
  let seq = 0;

  const apply = (project: string, id: string, message: Message): void => {
    seq += 1;
    const ts = clock.now();
    const document = documents.get(id) ?? kind.create?.(message, { id, project, ts });
    if (!document) return;
    const applied = applyMessage(kind, document, message, { seq, partition, ts, passed: 0 });
    if (applied.outcome !== 'stepped') return;
    documents.set(id, applied.next);
    for (const { id: timer, at, armed } of applied.next.timers) {
      clock.after(at - ts, () => apply(project, id, { type: timerMessage, timer, armed }));
    }
    sender.onStored(applied.next);
  };
  const toSend = () => [...documents.values()].filter(({ state }) => state === 'sending');

  const world = {
    clock,
    documents,
    configurations: new Map<string, WebhookRecord>(),
    /** What an endpoint answers. */
    answer: async (sending: Sending, _url: string): Promise<AttemptResult> => succeed(sending),
    sent: [] as { id: string; project: string; url: string; at: number }[],
    /** Most attempts that were under way at once, by project. */
    most: new Map<string, number>(),
    isStoreDown: false,
    losesResults: false,
    start(project: string, count: number): void {
      if (!world.configurations.has(project)) world.configurations.set(project, configurationOf(project));
      for (let n = 0; n < count; n += 1) {
        const id = `dlv_${project}_${documents.size}`;
        const input = { assetId: null, run: 1, requestId: 'req', eventId: `evt_${id}` };
        const flags = { eventType: 'asset.completed', isAnnounced: true, isForced: false } as const;
        const message: DeliveryCommand = { type: 'START', input: { ...input, ...flags }, payload: '{}' };
        apply(project, id, message);
      }
    },
    stateOf: (state: string) => [...documents.values()].filter((one) => one.state === state).length,
  };

  const sender = startSender({
    deliveries: {
      async toSend(_, project, limit, sinceTs) {
        return toSend()
          .filter((one) => one.project === project && one.enteredTs >= sinceTs)
          .sort((a, b) => a.enteredTs - b.enteredTs)
          .slice(0, limit);
      },
      async projectsToSend() {
        const counts = new Map<string, number>();
        for (const { project } of toSend()) counts.set(project, (counts.get(project) ?? 0) + 1);
        return [...counts].map(([project, count]) => ({ project, partition, count }));
      },
    },
    async findWebhooks(projects) {
      if (world.isStoreDown) throw new Error('the store is down');
      return new Map(projects.flatMap((project) => asEntry(project, world.configurations.get(project))));
    },
    openLine(url) {
      const cancelled = new AbortController();
      const calledOff = new Promise<never>((_, reject) => {
        cancelled.signal.addEventListener('abort', () => reject(new Error('called off')));
      });
      calledOff.catch(() => undefined);
      return {
        async attempt(sending, webhook) {
          if (!webhook()) throw new Error('no configuration');
          const { id, project } = sending;
          const count = (running.get(project) ?? 0) + 1;
          running.set(project, count);
          world.most.set(project, Math.max(count, world.most.get(project) ?? 0));
          world.sent.push({ id, project, url, at: clock.monotonic() });
          try {
            return await Promise.race([world.answer(sending, url), calledOff]);
          } finally {
            running.set(project, (running.get(project) ?? 0) - 1);
          }
        },
        cancel: () => cancelled.abort(),
      };
    },
    onTestDelivered: () => Promise.resolve(),
    command: (project, _, id) => `${project}.${id}`,
    async publish({ subject, body }) {
      const [project = '', id = ''] = subject.split('.');
      if (!world.losesResults) apply(project, id, body as Message);
    },
    clock,
    log: silent,
  });
  sender.onOwned([partition]);
  /** It waits some seconds for what is under way. */
  const stop = async () => {
    const stopped = sender.stop();
    await clock.advance(10_000);
    await stopped;
  };
  return { world, clock, sender, stop };
}

const asEntry = (project: string, found: WebhookRecord | undefined): [string, WebhookRecord][] =>
  found ? [[project, found]] : [];

t.test('ten at once to an endpoint, endpoints in turns, whoever came first', async (t) => {
  const { world, clock, stop } = createWorld();
  world.answer = async (sending) => {
    await sleep(clock, 100);
    return succeed(sending);
  };
  world.start('busy', 500);
  world.start('late', 1);
  await clock.until(() => world.stateOf('delivered') === 501, 60_000);
  t.equal(world.most.get('busy'), limits.maxInFlightPerEndpoint);
  t.ok(world.sent.findIndex(({ project }) => project === 'late') <= limits.maxInFlightPerEndpoint);
  t.equal(new Set(world.sent.map(({ id }) => id)).size, world.sent.length, 'each once');
  await stop();
});

t.test('endpoints that hang do not keep the others waiting', async (t) => {
  const { world, clock, sender, stop } = createWorld();
  world.answer = async (sending, url) => {
    if (url.startsWith('https://good')) return succeed(sending);
    await sleep(clock, limits.timeoutMs);
    return fail(sending);
  };
  for (let n = 0; n < 90; n += 1) world.start(`hanging${n}`, 30);
  await clock.advance(2 * limits.timeoutMs);
  world.start('good', 100);
  const { sent } = world;
  const begunAt = clock.monotonic();
  await clock.until(() => sent.filter(({ project }) => project === 'good').length === 100, 60_000);
  t.ok(clock.monotonic() - begunAt <= 1_000, 'all of them within a second');
  t.ok(sender.stats().inFlight <= 512, `${sender.stats().inFlight} of those that hang are under way`);
  await stop();
});

t.test(
  'an endpoint that is down is probed one at a time, holds little memory and loses nothing',
  async (t) => {
    const { world, clock, sender, stop } = createWorld();
    const count = 3_000;
    let isDown = true;
    world.answer = async (sending) => (isDown ? fail(sending) : succeed(sending));
    world.start('down', count);
    await clock.advance(10 * 60_000);
    // Twenty until it counts as down, those under way with them, then one each 1, 2, 4 … 30 s.
    t.ok(world.sent.length <= 20 + limits.maxInFlightPerEndpoint + 26, `${world.sent.length} in vain`);
    t.ok(sender.stats().queued <= 300, `${sender.stats().queued} in memory`);
    isDown = false;
    const inVain = world.sent.length;
    await clock.until(() => world.stateOf('delivered') === count, 3_600_000);
    t.equal(world.sent.length - inVain, count, 'each once');
    const made = [...world.documents.values()].map(({ machine }) => contextOf(machine).made);
    t.ok(Math.max(...made) <= limits.maxAttempts);
    await stop();
  },
);

t.test('nothing is sent by a configuration that nobody can confirm for five seconds', async (t) => {
  const { world, clock, stop } = createWorld();
  world.start('p', 1);
  await clock.until(() => world.stateOf('delivered') === 1, 1_000);
  world.isStoreDown = true;
  await clock.advance(leaseMs);
  world.configurations.set('p', configurationOf('p', { url: 'https://fresh.example.com/' }));
  world.start('p', 5);
  await clock.advance(20_000);
  t.equal(world.sent.length, 1, 'a cut off sender knows nothing of a new address');
  world.isStoreDown = false;
  await clock.until(() => world.stateOf('delivered') === 6, 5_000);
  t.equal(world.sent.filter(({ url }) => url === 'https://fresh.example.com/').length, 5);
  await stop();
});

t.test('a new address calls off what is under way, and no attempt is counted for it', async (t) => {
  const { world, clock, sender, stop } = createWorld();
  world.answer = (sending, url) =>
    url === 'https://fresh.example.com/' ? Promise.resolve(succeed(sending)) : new Promise(() => undefined);
  world.start('p', 30);
  await clock.advance(1_000);
  t.equal(world.sent.length, limits.maxInFlightPerEndpoint);
  world.configurations.set('p', configurationOf('p', { url: 'https://fresh.example.com/' }));
  sender.onChanged('p', true);
  await clock.until(() => world.stateOf('delivered') === 30, 10_000);
  t.equal(world.sent.filter(({ url }) => url !== 'https://fresh.example.com/').length, 10);
  t.ok([...world.documents.values()].every(({ machine }) => contextOf(machine).made === 1));
  await stop();
});

t.test('a result that was lost on its way is sent for again', async (t) => {
  const { world, clock, sender, stop } = createWorld();
  world.losesResults = true;
  world.start('p', 3);
  await clock.advance(30_000);
  t.equal(world.sent.length, 3);
  world.losesResults = false;
  await clock.until(() => world.stateOf('delivered') === 3, 120_000);
  t.equal(world.sent.length, 6);
  t.ok(
    [...world.documents.values()].every(({ machine }) => contextOf(machine).made === 1),
    'counted once',
  );

  world.losesResults = true;
  world.start('p', 1);
  await clock.advance(2_000);
  world.losesResults = false;
  // The streams were lost: nobody waits for a minute.
  sender.onLost();
  await clock.until(() => world.stateOf('delivered') === 4, 1_000);
  await stop();
});

t.test('a change is in force when every sender has answered, or when it may be used no longer', async (t) => {
  type Listener = (body: unknown) => void;
  const listeners = new Map<string, Set<Listener>>();
  const bus = {
    send(name: string, body: unknown) {
      setImmediate(() => {
        for (const listener of listeners.get(name) ?? []) listener(body);
      });
    },
    listen(name: string, listener: Listener) {
      const all = listeners.get(name) ?? new Set();
      listeners.set(name, all.add(listener));
      return { stop: () => all.delete(listener) };
    },
  };
  const told: string[] = [];
  const follow = (worker: string) =>
    followWebhookChanges(bus, worker, (project) => told.push(`${worker} ${project}`));
  const following = [follow('a'), follow('b')];
  bus.send('webhooks.changed', 'no change');
  const announce = createAnnounce({ bus, owners: async () => ['a', 'b'], leaseMs: 60_000 });
  await announce('p', { isNewUrl: true });
  t.strictSame(told, ['a p', 'b p']);

  following[1]?.stop();
  const lease = 150;
  const withDead = createAnnounce({ bus, owners: async () => ['a', 'b'], leaseMs: lease });
  const since = performance.now();
  await withDead('p', { isNewUrl: true });
  t.ok(performance.now() - since >= lease, 'one that is silent may be paused: its lease is waited for');
});

const fact: PublishedFact = {
  event: 'ready',
  ts: 1_700_000_000_000,
  attempt: 1,
  request_id: 'req_1',
  asset_id: 'ast_1',
  project_id: 'p',
  run: 1,
};

t.test('an event that is read again is the same delivery, and a group of facts asks once', async (t) => {
  const configuration = configurationOf('p');
  const [first, again] = [deliveryOf(fact, configuration), deliveryOf({ ...fact }, configuration)];
  t.ok(first);
  t.strictSame(again, first, 'id, event id and body bytes');
  // Within a project no two facts have the same ts.
  const others = [
    { ...fact, ts: fact.ts + 1 },
    { ...fact, project_id: 'other' },
  ];
  const ids = others.map((one) => deliveryOf(one, configuration)?.id);
  t.equal(new Set([first?.id, ...ids]).size, 3, 'another fact or project is another delivery');
  t.equal(deliveryOf({ ...fact, event: 'failed' }, configuration), undefined, 'not subscribed');
  t.equal(deliveryOf(fact, configurationOf('p', { isEnabled: false })), undefined);
  t.equal(deliveryOf(fact, configurationOf('p', { url: null })), undefined);
  t.equal(
    deliveryOf(fact, configurationOf('p', { enabledTs: fact.ts + 120_000 })),
    undefined,
    'it happened long before anybody wanted it',
  );

  const asked: string[][] = [];
  const published: string[] = [];
  const start = createStarter({
    bus: {
      async publishAll(messages) {
        published.push(...messages.map(({ id }) => id));
      },
      subjects: { command: (_: string, __: string, id: string) => id } as never,
    },
    webhooks: {
      async findMany(projects) {
        asked.push(projects);
        return new Map([['p', configuration]]);
      },
    },
  });
  await start([fact, fact, { ...fact, project_id: 'without' }]);
  t.strictSame(asked, [['p', 'without']]);
  t.strictSame(published, [`${first?.id}:start`, `${first?.id}:start`], 'the stream knows the second');
});

t.test('a replaced secret signs for a day more, and not longer', async (t) => {
  const box = createSecretBox([Buffer.from(Array.from({ length: 32 }, (_, n) => n))]);
  const sealed = (text: string) => {
    const owner = { purpose: 'webhook secret', id: 'p' } as const;
    return new Secret(box, box.seal(text, owner), owner);
  };
  const secret = sealed('whsec_new');
  const previous = [{ secret: sealed('whsec_old'), untilTs: limits.rotationMs }];
  t.strictSame(secretsAt({ secret, previous }, limits.rotationMs - 1), ['whsec_new', 'whsec_old']);
  t.strictSame(secretsAt({ secret, previous }, limits.rotationMs), ['whsec_new']);
  t.strictSame(secretsAt({ secret: null, previous: [] }, 0), [], 'none made yet');
});
