/**
 * One history: some processes, some users, trouble from a seed, then peace; and the audit of all of it.
 *
 * The same seed gives the same history, event by event: its hash says so.
 */

import type { PublishedFact } from '../../schemas/envelope.ts';
import { type EventName, isTerminal } from '../../schemas/events.ts';
import { timerMessage } from '../actors/apply.ts';
import type { ActorDocument } from '../store/actors.ts';
import type { WebhookRecord } from '../store/webhooks.ts';
import { deliveryOf } from '../webhooks/start.ts';
import { type Audit, createAudit } from './audit.ts';
import { type FaultKind, Faults } from './faults.ts';
import { createModelBus, type LoggedCommand, type ModelBus } from './model-bus.ts';
import { createModelStore, type ModelStore } from './model-store.ts';
import { createOutside, drawManners, settleMs } from './outside.ts';
import { assetKind, type ServiceParts, type SimulatedService, startSimulated } from './service.ts';
import { startUsers, type Users } from './users.ts';
import { World } from './world.ts';

/** Mistakes that can be planted in the models, to see that they are found. */
export const bugs = ['outbox', 'fence', 'timer'] as const;
export type Bug = (typeof bugs)[number];

export type HistoryOptions = { seed: number; bug?: Bug | undefined; only?: readonly FaultKind[] };

export type History = {
  seed: number;
  hash: string;
  steps: number;
  /** How long it took in its own time, in ms. */
  virtualMs: number;
  faults: Partial<Record<FaultKind, number>>;
  violation: string | undefined;
  lines: readonly string[];
};

const partitions = 4;
const projects = ['prj_a', 'prj_b', 'prj_c'];
const maxServices = 3;
const maxSkewMs = 2_000;
const tickMs = 250;
const ticksPerSecond = 4;
/** Late messages and timers have come after this. */
const afterwardsMs = 3_000;

export async function runHistory({ seed, bug, only }: HistoryOptions): Promise<History> {
  const world = new World(seed);
  const faults = new Faults(world, only);
  const audit = createAudit(world, { toleranceMs: faults.has('clockJump') ? 2 * maxSkewMs : 0 });
  const store = createModelStore(world, faults, audit, { partitions, bug });
  const bus = createModelBus(world, faults, audit, {
    partitions,
    lastPosition: () => Math.max(...store.partitionRecords.map(({ position }) => position)),
    onRead: bug === 'timer' ? withoutAttempt(store) : (_, message) => message,
    onLost: (lastSeq) => audit.onStreamsLost(lastSeq, (id) => store.find('tally', id)),
  });
  const outside = createOutside(world, audit, drawManners(world));
  const webhooks = new Map(projects.filter(() => world.chance(0.6)).map((one) => [one, webhookOf(one)]));
  const parts: ServiceParts = { world, store, bus, outside, partitions, webhooks };
  const services = new Services(
    parts,
    faults,
    Math.min(world.between(1, maxServices), world.between(1, maxServices)),
  );
  const busyMs = world.between(1_500, 5_000);
  const users = startUsers({ world, store, bus, projects, busyMs });

  const troubleEnds = busyMs + world.between(500, 4_000);
  while (world.now < troubleEnds && world.violation === undefined) {
    await world.advance(tickMs);
    services.trouble();
    if (world.chance(1 / ticksPerSecond) && faults.strikes('streamsLost')) bus.loseStreams();
  }
  faults.isCalm = true;
  services.calm();
  const open = () => whatIsOpen({ store, users, audit, bus });
  const givenUpAt = world.now + settleMs;
  while (open() !== undefined && world.now < givenUpAt && world.violation === undefined)
    await world.advance(tickMs);
  const leftOpen = open();
  if (leftOpen !== undefined) world.fail('I7', `nothing ends any more: ${leftOpen}`);
  await world.advance(afterwardsMs);
  judge(world, { store, users, audit, webhooks });
  services.kill();
  const { hash, lines } = world.trace();
  const { steps, now: virtualMs, violation } = world;
  return { seed, hash, steps, virtualMs, faults: faults.counts, violation, lines };
}

/** The processes: which come and go, fall asleep, lose their connection or their time. */
class Services {
  private readonly parts: ServiceParts;
  private readonly faults: Faults;
  private running: SimulatedService[] = [];
  private count = 0;
  private isCalm = false;

  constructor(parts: ServiceParts, faults: Faults, count: number) {
    this.parts = parts;
    this.faults = faults;
    for (let n = 0; n < count; n += 1) this.start();
  }

  /** What befalls them in one tick. */
  trouble(): void {
    for (const service of [...this.running]) {
      if (this.befalls('crash')) this.end(service, () => service.kill());
      else if (this.befalls('stop')) this.end(service, () => void service.stop());
      else this.disturb(service);
    }
  }

  calm(): void {
    this.isCalm = true;
    for (const { host, connection } of this.running) {
      host.skewMs = 0;
      connection.setDeaf(false);
      connection.heal();
      host.resume();
    }
    if (this.running.length === 0) this.start();
  }

  kill(): void {
    for (const service of this.running) service.kill();
  }

  private start(): void {
    this.count += 1;
    this.running.push(startSimulated(`w${this.count}`, this.parts));
  }

  /** Another one takes its place. */
  private end(service: SimulatedService, how: () => void): void {
    const { world } = this.parts;
    world.note(`${service.host.name} ends`);
    how();
    this.running = this.running.filter((one) => one !== service);
    world.after(world.between(50, 3_000), undefined, () => this.start());
  }

  private disturb({ host, connection }: SimulatedService): void {
    const { world } = this.parts;
    const forAWhile = (begin: () => void, end: () => void) => {
      world.note(`${host.name} disturbed`);
      begin();
      world.after(world.between(100, 3_000), undefined, end);
    };
    if (this.befalls('pause'))
      forAWhile(
        () => host.pause(),
        () => host.resume(),
      );
    if (this.befalls('cut'))
      forAWhile(
        () => connection.cut(),
        () => connection.heal(),
      );
    if (this.befalls('deaf'))
      forAWhile(
        () => connection.setDeaf(true),
        () => connection.setDeaf(false),
      );
    if (this.befalls('clockJump')) host.skewMs = world.between(-maxSkewMs, maxSkewMs);
  }

  /** Rates of what befalls processes are by the second. */
  private befalls(kind: FaultKind): boolean {
    return !this.isCalm && this.parts.world.chance(1 / ticksPerSecond) && this.faults.strikes(kind);
  }
}

// ── The end of a history ────────────────────────────────────────────────────────────────────────

type Judged = { store: ModelStore; users: Users; audit: Audit };

/** What has not come to its end yet. */
function whatIsOpen({ store, users, audit, bus }: Judged & { bus: ModelBus }): string | undefined {
  if (!users.isDone()) return 'users are still sending';
  const assets = store.all('asset').find(({ state }) => !ended.includes(state));
  if (assets) return `${assets._id} is ${assets.state}`;
  const delivery = store.all('delivery').find(({ state }) => !delivered.includes(state));
  if (delivery) return `${delivery._id} is ${delivery.state}`;
  const tally = store
    .all('tally')
    .map(audit.judgeTally)
    .find((wrong) => wrong !== undefined);
  if (tally !== undefined) return tally;
  if (audit.waiting() > 0) return `${audit.waiting()} facts or pieces of work are not published`;
  if (store.streamsSeen() !== bus.streamsMade()) return 'a loss of the streams is not made up for yet';
  return bus.isIdle() ? undefined : 'work or facts are still waiting';
}

const ended = ['ready', 'failed', 'cancelled', 'erased'];
const delivered = ['delivered', 'dead', 'cancelled'];

function judge(
  world: World,
  { store, users, audit, webhooks }: Judged & { webhooks: ReadonlyMap<string, WebhookRecord> },
): void {
  for (const id of users.assets) {
    const document = store.find('asset', id);
    if (document) judgeRuns(world, audit, document);
  }
  for (const document of store.all('tally')) {
    const wrong = audit.judgeTally(document);
    if (wrong) world.fail('I2', wrong);
  }
  for (const { kind, project, id, fact } of audit.facts()) {
    if (kind !== 'asset' || isForgotten(store.find('asset', id), fact.seq, audit)) continue;
    const { seq: _, n: __, ...told } = fact;
    const published = assetKind.publishedFact(told, { id, project }) as PublishedFact;
    const wanted = deliveryOf(published, webhooks.get(project));
    if (wanted && !store.find('delivery', wanted.id))
      world.fail('I8', `${fact.event} of ${id} has no delivery`);
  }
}

/** Of what was lost with the streams, only what the document still tells can be made up for. */
function isForgotten(document: ActorDocument | undefined, seq: number, audit: Audit): boolean {
  if (seq > audit.lostUpTo()) return false;
  return !document?.facts.some((fact) => fact.seq === seq);
}

function judgeRuns(world: World, audit: Audit, { _id, machine }: ActorDocument): void {
  const { run: last } = machine.context as { run: number };
  for (let run = 1; run <= last; run += 1) {
    const end = audit.runs().get(`${_id}:${run}`)?.end;
    if (end === undefined || !isTerminal(end as EventName))
      world.fail('I7', `run ${run} of ${_id} has no terminal fact`);
  }
}

// ── Planted ─────────────────────────────────────────────────────────────────────────────────────

/** A timer is taken for the present one of its name, whichever attempt has set it. */
function withoutAttempt(store: ModelStore) {
  return ({ kind, id }: Omit<LoggedCommand, 'text' | 'messageId'>, message: LoggedMessage): LoggedMessage => {
    if (message.type !== timerMessage) return message;
    const present = store.find(kind, id)?.timers.find((timer) => timer.id === message.timer);
    return present ? { ...message, armed: present.armed } : message;
  };
}

type LoggedMessage = { type: string } & Record<string, unknown>;

function webhookOf(project: string): WebhookRecord {
  return {
    project,
    url: `https://${project}.example/hook`,
    events: [
      'asset.queued',
      'asset.stage_completed',
      'asset.completed',
      'asset.failed',
      'asset.retry_scheduled',
    ],
    isEnabled: true,
    enabledTs: 0,
    secret: null,
    previous: [],
    revision: 1,
  };
}
