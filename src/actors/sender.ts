/**
 * Works off what deliveries are in the state `sending`: ten at once for each endpoint, endpoints in turn.
 *
 *   owner ──stored step──▶ queue of the endpoint ──turn──▶ attempt ──result, as a command──▶ owner
 *   store ──what did not fit, or was left behind──▲
 *
 * The owner of a project's partition sends its deliveries, so that one process knows all that is under way at an
 * endpoint. Queues in memory are short; the store holds what waits. A crash loses nothing: the next owner finds
 * the state, and an attempt whose result was not stored is made again.
 *
 * An endpoint's configuration is used for five seconds at most and asked for again; a message outdates it at once.
 * Whoever changes it waits for the answer to that message, or for these seconds (src/webhooks/changes.ts): nothing
 * goes to an old address after that.
 */

import { type DeliveryCommand, deliveryKind } from '../../schemas/delivery-messages.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import type { Log } from '../bus/bus.ts';
import type { Outgoing } from '../bus/publisher.ts';
import type { AttemptResult } from '../effects/deliver.ts';
import type { ActorDocument } from '../store/actors.ts';
import type { DeliveryStore } from '../store/deliveries.ts';
import type { WebhookRecord } from '../store/webhooks.ts';
import { Circuit } from './circuit.ts';
import { type Clock, every, sleep } from './clock.ts';
import { contextOf } from './delivery.ts';

/** A delivery as it is sent. */
export type Sending = {
  id: string;
  project: string;
  requestId: string;
  eventId: string;
  attempt: number;
  payload: string;
};

/** A way to one address, open for as long as it is used. */
export type Line = {
  /**
   * Makes one attempt. `webhook` is asked for the configuration in the moment of sending: nothing is sent when
   * it answers none.
   *
   * @throws when it was called off: the attempt does not count then.
   */
  attempt(sending: Sending, webhook: () => WebhookRecord | undefined): Promise<AttemptResult>;
  /** Calls everything off. */
  cancel(): void;
};

export type SenderPorts = {
  deliveries: Pick<DeliveryStore, 'toSend' | 'projectsToSend'>;
  findWebhooks(projects: string[]): Promise<Map<string, WebhookRecord>>;
  openLine(url: string): Line;
  /** A test has reached an address. Safe to repeat. */
  onTestDelivered(project: string, url: string): Promise<void>;
  command(project: string, kind: string, id: string): string;
  publish(message: Outgoing): Promise<unknown>;
  clock: Clock;
  log: Log;
};

export type SenderStats = { inFlight: number; queued: number; endpoints: number; sent: number };

export type Sender = ReturnType<typeof startSender>;

/** How long a configuration is used without being asked for again. */
export const leaseMs = 5_000;

const tickMs = 300;
const renewAfterMs = 2_000;
const sweepMs = 10_000;
/** Of these looks at what is left behind, every so many passes over no endpoint. */
const wholeEvery = 6;
const maxInFlight = 1_024;
/** Of these for endpoints that have failed some times in a row: a hundred that hang leave room for the others. */
const maxSuspectInFlight = 512;
const maxQueuedPerEndpoint = 256;
const maxQueued = 4_096;
/** What an endpoint may hold all the same when others fill the memory. */
const minQueued = 16;
/** Results of one endpoint that may wait for their step. */
const maxSettling = 1_024;
const idleMs = 60_000;
/** A result that has had no step for so long is taken for lost. */
const lostMs = 60_000;
/** Most results have their step within this. */
const appliedMs = 1_000;
const stopMs = 5_000;

/** `sending`: on its way. `settling`: its result is, to the owner. `released`: no concern of ours any more. */
type Phase = 'queued' | 'sending' | 'settling' | 'released';

type Item = Sending & {
  endpoint: EndpointState;
  isForced: boolean;
  isTest: boolean;
  phase: Phase;
  since: number;
};

type EndpointState = {
  project: string;
  partition: number;
  queue: Item[];
  inFlight: number;
  settling: number;
  /** More is waiting in the store than in the queue. */
  hasMore: boolean;
  /** What is due before this (unix ms) was loaded; 0 when all is to be looked at again. */
  loadedTs: number;
  /** How many were loaded that are due just then. */
  loadedThen: number;
  isLoading: boolean;
  webhook: WebhookRecord | undefined;
  readAt: number;
  /** Raised when what was read before is outdated. */
  epoch: number;
  line: Line | undefined;
  lineUrl: string;
  circuit: Circuit;
  usedAt: number;
};

export function startSender(ports: SenderPorts) {
  const { deliveries, clock, log } = ports;
  const endpoints = new Map<string, EndpointState>();
  const held = new Map<string, Item>();
  /** Endpoints that may have something to start, in the order of their turns. */
  const ready = new Set<EndpointState>();
  /** Endpoints whose configuration is to be read. */
  const unread = new Set<EndpointState>();
  let owned = new Set<number>();
  let inFlight = 0;
  let suspectInFlight = 0;
  let queued = 0;
  let sent = 0;
  let nonce = 0;
  let isClosing = false;
  let stopped = false;
  let isPumpDue = false;
  let isReading = false;
  let sweptAt = Number.NEGATIVE_INFINITY;
  let sweeps = 0;

  const onError = (err: unknown) => log.error({ err }, 'webhooks: background task failed');

  // ── Queues ────────────────────────────────────────────────────────────────────────────────────

  const endpointOf = (project: string, partition: number): EndpointState => {
    const known = endpoints.get(project);
    if (known) return known;
    const endpoint: EndpointState = {
      project,
      partition,
      queue: [],
      inFlight: 0,
      settling: 0,
      hasMore: false,
      loadedTs: 0,
      loadedThen: 0,
      isLoading: false,
      webhook: undefined,
      readAt: 0,
      epoch: 0,
      line: undefined,
      lineUrl: '',
      circuit: new Circuit(),
      usedAt: clock.monotonic(),
    };
    endpoints.set(project, endpoint);
    return endpoint;
  };

  const room = () => (queued < maxQueued ? maxQueuedPerEndpoint : minQueued);

  const hold = (endpoint: EndpointState, document: ActorDocument): void => {
    const item = toItem(endpoint, document);
    held.set(item.id, item);
    queued += 1;
    if (item.isForced) {
      endpoint.queue.unshift(item);
      endpoint.circuit.hurry();
    } else endpoint.queue.push(item);
  };

  /** Moves on to the last of what is held of an endpoint, in the order of becoming due. */
  const noteLoaded = (endpoint: EndpointState, loaded: ActorDocument[]): void => {
    for (const { enteredTs } of loaded) {
      if (enteredTs < endpoint.loadedTs) continue;
      endpoint.loadedThen = enteredTs === endpoint.loadedTs ? endpoint.loadedThen + 1 : 1;
      endpoint.loadedTs = enteredTs;
    }
  };

  const enqueue = (document: ActorDocument): void => {
    const endpoint = endpointOf(document.project, document.partition);
    const isFull = endpoint.hasMore || endpoint.queue.length >= room();
    if (isFull && !contextOf(document.machine).isForced) endpoint.hasMore = true;
    else {
      hold(endpoint, document);
      // Nothing older waits in the store alone.
      if (!endpoint.hasMore && !endpoint.isLoading) noteLoaded(endpoint, [document]);
    }
    offer(endpoint);
  };

  const release = (item: Item): void => {
    const { endpoint } = item;
    held.delete(item.id);
    if (item.phase === 'queued') {
      endpoint.queue.splice(endpoint.queue.indexOf(item), 1);
      queued -= 1;
    }
    if (item.phase === 'settling') endpoint.settling -= 1;
    item.phase = 'released';
    offer(endpoint);
  };

  /** Fills a queue from the store, oldest first, from where the last time ended. */
  const load = async (endpoint: EndpointState): Promise<void> => {
    const { project, partition, loadedTs, loadedThen } = endpoint;
    endpoint.isLoading = true;
    endpoint.hasMore = false;
    try {
      const limit = room() + loadedThen;
      const found = await deliveries.toSend(partition, project, limit, loadedTs);
      if (!isServed(endpoint)) return;
      for (const document of found) if (!held.has(document._id)) hold(endpoint, document);
      if (found.length === limit) endpoint.hasMore = true;
      // Unless everything is to be looked at again since.
      if (endpoint.loadedTs !== loadedTs) return;
      endpoint.loadedThen = 0;
      noteLoaded(endpoint, found);
    } catch (cause) {
      endpoint.hasMore = true;
      throw cause;
    } finally {
      endpoint.isLoading = false;
      offer(endpoint);
    }
  };

  const isServed = (endpoint: EndpointState) => endpoints.get(endpoint.project) === endpoint && !stopped;

  // ── Configurations ────────────────────────────────────────────────────────────────────────────

  const current = (endpoint: EndpointState): WebhookRecord | undefined =>
    clock.monotonic() - endpoint.readAt < leaseMs && isServed(endpoint) ? endpoint.webhook : undefined;

  const readConfigurations = async (): Promise<void> => {
    if (isReading || unread.size === 0) return;
    isReading = true;
    const asked = [...unread].map((endpoint) => ({ endpoint, epoch: endpoint.epoch }));
    unread.clear();
    const readAt = clock.monotonic();
    try {
      const found = await ports.findWebhooks(asked.map(({ endpoint }) => endpoint.project));
      for (const { endpoint, epoch } of asked) {
        if (endpoint.epoch === epoch) take(endpoint, found.get(endpoint.project), readAt);
        else unread.add(endpoint);
      }
    } catch (err) {
      log.warn({ err }, 'webhooks: configurations cannot be read, trying again');
    } finally {
      isReading = false;
      if (unread.size > 0) soon();
    }
  };

  const take = (endpoint: EndpointState, found: WebhookRecord | undefined, readAt: number): void => {
    endpoint.webhook = found ?? { ...nowhere, project: endpoint.project };
    endpoint.readAt = readAt;
    if (endpoint.line && endpoint.webhook.url !== endpoint.lineUrl) hangUp(endpoint);
    offer(endpoint);
  };

  const hangUp = (endpoint: EndpointState): void => {
    const { line } = endpoint;
    endpoint.line = undefined;
    endpoint.circuit = new Circuit();
    line?.cancel();
  };

  // ── Turns ─────────────────────────────────────────────────────────────────────────────────────

  const offer = (endpoint: EndpointState): void => {
    if (!isServed(endpoint)) return;
    ready.add(endpoint);
    soon();
  };

  const soon = (): void => {
    if (isPumpDue || stopped) return;
    isPumpDue = true;
    clock.nextTurn(pump);
  };

  const pump = (): void => {
    isPumpDue = false;
    for (const endpoint of ready) {
      if (isClosing || inFlight >= maxInFlight) return;
      ready.delete(endpoint);
      // Its next turn comes after everybody else's.
      if (startNext(endpoint)) ready.add(endpoint);
    }
    void readConfigurations();
  };

  /** Starts one attempt. Answers whether the endpoint may start another. */
  const startNext = (endpoint: EndpointState): boolean => {
    if (endpoint.hasMore && !endpoint.isLoading && endpoint.queue.length < room() / 4) {
      load(endpoint).catch(onError);
    }
    const [item] = endpoint.queue;
    if (!item || !mayStart(endpoint)) return false;
    const webhook = current(endpoint);
    if (!webhook) {
      unread.add(endpoint);
      return false;
    }
    endpoint.queue.shift();
    queued -= 1;
    const { url } = webhook;
    if (url === null) settle(item, { type: 'CANCEL', reason: 'no_url' });
    else if (!webhook.isEnabled && !item.isForced) settle(item, { type: 'CANCEL', reason: 'disabled' });
    else send(item, url).catch(onError);
    return true;
  };

  const mayStart = ({ circuit, inFlight: running, settling }: EndpointState): boolean =>
    running < circuit.allowed(clock.monotonic(), limits.maxInFlightPerEndpoint) &&
    settling < maxSettling &&
    (!circuit.isSuspect || suspectInFlight < maxSuspectInFlight);

  const send = async (item: Item, url: string): Promise<void> => {
    const { endpoint } = item;
    const { circuit, epoch } = endpoint;
    const startedAt = clock.monotonic();
    const isSuspect = circuit.isSuspect;
    item.phase = 'sending';
    endpoint.inFlight += 1;
    inFlight += 1;
    if (isSuspect) suspectInFlight += 1;
    endpoint.lineUrl = url;
    endpoint.line ??= ports.openLine(url);
    try {
      const result = await endpoint.line.attempt(item, () =>
        endpoint.epoch === epoch ? current(endpoint) : undefined,
      );
      endpoint.usedAt = clock.monotonic();
      if (result.type === 'DELIVERED') circuit.succeeded();
      else circuit.failed(startedAt, endpoint.usedAt);
      sent += 1;
      logAttempt(item, result, endpoint.usedAt - startedAt);
      if (item.isTest && result.type === 'DELIVERED')
        await untilDone(() => ports.onTestDelivered(item.project, url));
      settle(item, result);
    } catch (cause) {
      putBack(item, cause);
    } finally {
      endpoint.inFlight -= 1;
      inFlight -= 1;
      if (isSuspect) suspectInFlight -= 1;
      offer(endpoint);
    }
  };

  const logAttempt = ({ id, project, eventId, requestId }: Item, result: AttemptResult, ms: number) => {
    const { type, attempt, code } = result;
    const failure = type === 'ATTEMPT_FAILED' ? result.failure : undefined;
    const fields = { delivery: id, project, eventId, requestId, attempt, code, failure, ms: Math.round(ms) };
    log.info(fields, 'webhook attempt');
  };

  /** The attempt was called off, or nothing could be noted of it: it is made again, the first of its endpoint. */
  const putBack = (item: Item, cause: unknown): void => {
    if (item.phase !== 'sending') return;
    log.info({ delivery: item.id, reason: (cause as Error).message }, 'webhook attempt called off');
    if (!isServed(item.endpoint)) {
      release(item);
      return;
    }
    item.phase = 'queued';
    item.endpoint.queue.unshift(item);
    queued += 1;
    unread.add(item.endpoint);
  };

  /** Tells the machine. The item is held until its step is stored: the store still says that it is to be sent. */
  const settle = (item: Item, message: DeliveryCommand): void => {
    if (item.phase !== 'released') {
      item.phase = 'settling';
      item.since = clock.monotonic();
      item.endpoint.settling += 1;
    }
    nonce += 1;
    const outgoing = {
      subject: ports.command(item.project, deliveryKind, item.id),
      id: `${item.id}:${item.attempt}:${message.type}:${clock.now()}:${nonce}`,
      body: message,
    };
    untilDone(() => ports.publish(outgoing)).catch(onError);
  };

  const untilDone = async (note: () => Promise<unknown>): Promise<void> => {
    for (let waitMs = 100; ; waitMs = Math.min(5_000, waitMs * 2)) {
      try {
        await note();
        return;
      } catch (err) {
        // The next owner makes the attempt again.
        if (stopped) throw err;
        log.warn({ err }, 'webhooks: a result is not stored yet, trying again');
        await sleep(clock, waitMs);
      }
    }
  };

  // ── What was left behind ──────────────────────────────────────────────────────────────────────

  const drop = (endpoint: EndpointState): void => {
    endpoints.delete(endpoint.project);
    ready.delete(endpoint);
    unread.delete(endpoint);
    for (const item of [...endpoint.queue]) release(item);
    if (endpoint.inFlight === 0) endpoint.line?.cancel();
  };

  const sweep = async (isWhole: boolean): Promise<void> => {
    sweptAt = clock.monotonic();
    if (owned.size === 0) return;
    for (const { project, partition, count } of await deliveries.projectsToSend([...owned])) {
      if (!owned.has(partition)) continue;
      const endpoint = endpointOf(project, partition);
      // As many are held: nothing is left behind, unless what is held has just been dealt with.
      if (!isWhole && count <= heldOf(endpoint)) continue;
      endpoint.hasMore = true;
      endpoint.loadedTs = 0;
      endpoint.loadedThen = 0;
      offer(endpoint);
    }
  };

  const look = (endpoint: EndpointState, now: number): void => {
    if (heldOf(endpoint) === 0 && !endpoint.hasMore) {
      if (now - endpoint.usedAt > idleMs) drop(endpoint);
      return;
    }
    // What is being connected may be sent only while its configuration is known to be of now.
    if (endpoint.inFlight > 0 && now - endpoint.readAt > renewAfterMs) unread.add(endpoint);
    offer(endpoint);
  };

  const tick = async (): Promise<void> => {
    const now = clock.monotonic();
    for (const endpoint of endpoints.values()) look(endpoint, now);
    if (now - sweptAt < sweepMs) return;
    for (const item of held.values()) {
      if (item.phase === 'settling' && now - item.since > lostMs) release(item);
    }
    sweeps += 1;
    await sweep(sweeps % wholeEvery === 0);
  };
  const ticking = every(clock, tickMs, tick, onError);

  return {
    /** A step of a delivery is stored. */
    onStored(document: ActorDocument): void {
      if (stopped) return;
      const known = held.get(document._id);
      if (document.state !== 'sending') {
        if (known) release(known);
        return;
      }
      const { attempt, isForced } = contextOf(document.machine);
      if (known?.attempt === attempt) {
        known.isForced = isForced;
        return;
      }
      if (known) release(known);
      enqueue(document);
    },

    /** These partitions are ours, and what was left in them is to be sent. */
    onOwned(partitions: number[]): void {
      owned = new Set(partitions);
      for (const endpoint of [...endpoints.values()]) if (!owned.has(endpoint.partition)) drop(endpoint);
      sweep(false).catch(onError);
    },

    /** The configuration of a project is outdated; with a new address, what is under way is called off. */
    onChanged(project: string, isNewUrl: boolean): void {
      const endpoint = endpoints.get(project);
      if (!endpoint) return;
      endpoint.epoch += 1;
      endpoint.webhook = undefined;
      if (isNewUrl) hangUp(endpoint);
      endpoint.circuit.hurry();
      offer(endpoint);
    },

    /** Messages on their way were lost: results that have had no step yet are given up, and sent for again. */
    onLost(): void {
      const now = clock.monotonic();
      for (const item of [...held.values()]) {
        if (item.phase === 'settling' && now - item.since > appliedMs) release(item);
      }
      sweep(true).catch(onError);
    },

    stats: (): SenderStats => ({ inFlight, queued, endpoints: endpoints.size, sent }),

    /** Starts nothing more, waits some seconds for what is under way, and leaves the rest to the next owner. */
    async stop(): Promise<void> {
      await ticking.stop();
      const givenUpAt = clock.monotonic() + stopMs;
      isClosing = true;
      while (inFlight > 0 && clock.monotonic() < givenUpAt) await sleep(clock, 20);
      stopped = true;
      for (const { line } of endpoints.values()) line?.cancel();
    },
  };
}

/** A project without a configuration. */
const nowhere: Omit<WebhookRecord, 'project'> = {
  url: null,
  events: [],
  isEnabled: false,
  enabledTs: 0,
  secret: null,
  previous: [],
  revision: 0,
};

function heldOf({ queue, inFlight, settling }: EndpointState): number {
  return queue.length + inFlight + settling;
}

function toItem(endpoint: EndpointState, document: ActorDocument): Item {
  const { attempt, eventId, eventType, requestId, isForced } = contextOf(document.machine);
  return {
    id: document._id,
    project: document.project,
    requestId,
    eventId,
    attempt,
    payload: String(document.fixed?.['payload']),
    endpoint,
    isForced,
    isTest: eventType === 'asset.test',
    phase: 'queued',
    since: 0,
  };
}
