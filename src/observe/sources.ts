/** What is looked up when somebody reads: parts that count for themselves, the store, the bus. */
import type { ApiErrorCode } from '../../schemas/errors.ts';
import type { ProviderStatus } from '../../schemas/operator.ts';
import type { Owner } from '../actors/owner.ts';
import type { SenderStats } from '../actors/sender.ts';
import type { Slots } from '../actors/slots.ts';
import type { Worker } from '../actors/worker.ts';
import type { Bus } from '../bus/bus.ts';
import type { HttpMeter } from '../metrics/http-meter.ts';
import { createLagWatch } from '../metrics/lag.ts';
import type { Registry, Sample } from '../metrics/registry.ts';
import type { Hub } from '../sse/hub.ts';
import type { Store } from '../store/client.ts';
import type { StateCount } from '../store/state-counts.ts';
import type { ExporterStats } from '../tracing/exporter.ts';

/** How long what was looked up in store and bus is told again, in ms: several readers cost as much as one. */
const keptMs = 5_000;
const pingMs = 2_000;

export function watchStore(registry: Registry, store: Pick<Store, 'pool' | 'ping'>): void {
  registry.gauge(
    {
      name: 'assets_store_connections',
      help: 'Connections to the store, and operations that wait for one.',
      labels: ['state'],
    },
    () => {
      const { size, inUse, waiting } = store.pool();
      return [
        [['idle'], Math.max(0, size - inUse)],
        [['in_use'], inUse],
        [['waiting'], waiting],
      ];
    },
  );
  registry.total(
    {
      name: 'assets_store_connections_lost_total',
      help: 'Connections to the store that ended with an error.',
    },
    () => store.pool().lost,
  );
  registry.total(
    { name: 'assets_store_waits_failed_total', help: 'Operations that got no connection in time.' },
    () => store.pool().failedWaits,
  );
  let isUp = 0;
  registry.prepare('store', async () => {
    isUp = 0;
    await store.ping(AbortSignal.timeout(pingMs));
    isUp = 1;
  });
  registry.gauge({ name: 'assets_store_up', help: 'Whether the store answers: 1 or 0.' }, () => isUp);
}

export function watchBus(registry: Registry, bus: Pick<Bus, 'connected' | 'stats'>): void {
  registry.gauge(
    { name: 'assets_bus_connected', help: 'Whether the message bus is connected: 1 or 0.' },
    () => (bus.connected() ? 1 : 0),
  );
  registry.total(
    { name: 'assets_bus_losses_total', help: 'How often the connection to the message bus was lost.' },
    () => bus.stats().losses,
  );
  registry.gauge(
    { name: 'assets_publisher_backlog', help: 'Messages that are sent or to be sent and not confirmed yet.' },
    () => bus.stats().pending,
  );
  registry.total(
    {
      name: 'assets_published_total',
      help: 'Messages by what came of them: stored, repeated after silence, failed.',
      labels: ['outcome'],
    },
    () => {
      const { stored, repeated, failed } = bus.stats();
      return [
        [['stored'], stored],
        [['repeated'], repeated],
        [['failed'], failed],
      ];
    },
  );
}

/** Codes of answers that refuse for what a user or plan has used up. */
const refusals = {
  rate_limited: 'rate limit',
  monthly_limit_reached: 'monthly limit',
  overage_disabled: 'overage disabled',
  not_in_plan: 'plan feature',
  too_many_uploads: 'uploads',
  too_many_projects: 'projects',
  busy: 'busy',
} as const satisfies Partial<Record<ApiErrorCode, string>>;

/** The proxy's route: see src/http/proxy.ts. */
const proxyPath = '/v1/*';

export function watchHttp(
  registry: Registry,
  meter: HttpMeter,
  media: { fromMemory: number; fromStorage: number },
): void {
  meter.describe(registry);
  registry.total(
    {
      name: 'assets_quota_refusals_total',
      help: 'Requests that were refused for a limit, by class of limit.',
      labels: ['class'],
    },
    () => Object.entries(refusals).map(([code, name]): Sample => [[name], meter.errorsOf(code)]),
  );
  const proxy = meter.route('get', proxyPath);
  registry.total(
    {
      name: 'assets_proxy_requests_total',
      help: 'Requests for animations and posters by key: hit with media, pending, failed run, refused, error.',
      labels: ['outcome'],
    },
    () => [
      [['hit'], proxy.count(200, 206, 304)],
      [['pending'], proxy.count(202)],
      [['failed'], proxy.count(502)],
      [['refused'], proxy.count(400, 401, 403, 404, 416, 429)],
      [['error'], proxy.count(500, 503)],
    ],
  );
  registry.total(
    {
      name: 'assets_media_reads_total',
      help: 'Answers with media, by where their first bytes came from.',
      labels: ['from'],
    },
    () => [
      [['memory'], media.fromMemory],
      [['storage'], media.fromStorage],
    ],
  );
  const uploads = meter.route('post', '/api/v1/upload');
  registry.total({ name: 'assets_uploads_total', help: 'Images that were uploaded.' }, () =>
    uploads.count(200),
  );
}

export function watchHub(registry: Registry, hub: Pick<Hub, 'stats'>): void {
  const gauge = (name: string, help: string, key: 'streams' | 'topics' | 'waiting' | 'blocked') =>
    registry.gauge({ name, help }, () => hub.stats()[key]);
  gauge('assets_sse_streams', 'Open streams of events.', 'streams');
  gauge('assets_sse_topics', 'Projects with open streams.', 'topics');
  gauge('assets_sse_waiting', 'Requests that wait for the end of a run.', 'waiting');
  gauge('assets_sse_blocked', 'Streams whose reader takes nothing just now.', 'blocked');
  const total = (
    name: string,
    help: string,
    key: 'deliveries' | 'replayed' | 'endedSlow' | 'joined' | 'opened',
  ) => registry.total({ name, help }, () => hub.stats()[key]);
  total('assets_sse_opened_total', 'Streams that were opened.', 'opened');
  total('assets_sse_writes_total', 'Writes of new events to streams.', 'deliveries');
  total(
    'assets_sse_coalesced_total',
    'Events that were joined to one before them in a single write.',
    'joined',
  );
  total('assets_sse_replayed_total', 'Streams that were told what they had missed.', 'replayed');
  total(
    'assets_sse_dropped_total',
    'Streams that were ended because their reader was too slow.',
    'endedSlow',
  );
}

export function watchOwner(registry: Registry, owner: Pick<Owner, 'stats'>): void {
  registry.gauge(
    { name: 'assets_partitions_owned', help: 'Partitions that this worker owns.' },
    () => owner.stats().owned,
  );
  registry.gauge(
    { name: 'assets_commands_queued', help: 'Commands that have arrived here and are not applied yet.' },
    () => owner.stats().queued,
  );
  registry.total(
    { name: 'assets_batch_failures_total', help: 'Groups that could not be committed and were read again.' },
    () => owner.stats().failures,
  );
}

export function watchWorker(
  registry: Registry,
  slots: Pick<Slots, 'stats'>,
  worker: () => Worker | undefined,
): void {
  registry.gauge(
    {
      name: 'assets_effect_slots',
      help: 'Effects that run, and that wait for a slot, by class of slots.',
      labels: ['slot', 'state'],
    },
    () =>
      Object.entries(slots.stats()).flatMap(([slot, { running, waiting }]): Sample[] => [
        [[slot, 'running'], running],
        [[slot, 'waiting'], waiting],
      ]),
  );
  registry.gauge(
    { name: 'assets_effects_held', help: 'Pieces of work that this worker has taken.' },
    () => worker()?.stats().held ?? 0,
  );
  registry.total(
    { name: 'assets_effects_resumed_total', help: 'Pieces of work that another worker had begun and lost.' },
    () => worker()?.stats().resumed ?? 0,
  );
}

export function watchSender(registry: Registry, stats: () => SenderStats): void {
  registry.gauge(
    {
      name: 'assets_webhook_sender',
      help: 'Deliveries on their way and queued in this worker, and endpoints that have any.',
      labels: ['what'],
    },
    () => {
      const { inFlight, queued, endpoints } = stats();
      return [
        [['in_flight'], inFlight],
        [['queued'], queued],
        [['endpoints'], endpoints],
      ];
    },
  );
}

export type Surveyed = {
  store: Pick<Store, 'measures' | 'partitions'>;
  bus: Pick<Bus, 'connected' | 'lastCommand' | 'countWork'>;
  providerStatus(): Promise<ProviderStatus[]>;
  now(): number;
};

type Survey = {
  assets: StateCount[];
  deliveries: StateCount[];
  outbox: { waiting: number; overdueMs: number };
  positions: { partition: number; behind: number; seconds: number }[];
  unowned: number;
  /** undefined while the bus is away. */
  work: number | undefined;
  providers: ProviderStatus[];
};

/** What only store and bus know, of all processes together: told by schedulers, each of which says the same. */
export function watchSurvey(registry: Registry, parts: Surveyed): void {
  const lag = createLagWatch();
  let survey: Survey | undefined;
  let surveyedAt = Number.NEGATIVE_INFINITY;
  registry.prepare('survey', async () => {
    if (performance.now() - surveyedAt < keptMs) return;
    // What was true some time ago is no answer.
    survey = undefined;
    survey = await look(parts, lag);
    surveyedAt = performance.now();
  });
  const gauge = (
    name: string,
    help: string,
    labels: string[],
    read: (survey: Survey) => number | Sample[] | undefined,
  ) => registry.gauge({ name, help, labels }, () => survey && read(survey));

  const states = ({ assets, deliveries }: Survey, read: (count: StateCount) => number): Sample[] => [
    ...assets.map((one): Sample => [['asset', one.state], read(one)]),
    ...deliveries.map((one): Sample => [['delivery', one.state], read(one)]),
  ];
  gauge('assets_machines', 'Machines under way, by kind and state.', ['kind', 'state'], (one) =>
    states(one, ({ count }) => count),
  );
  gauge(
    'assets_machines_oldest_seconds',
    'How long the machine has been in a state that has been there longest.',
    ['kind', 'state'],
    (one) => states(one, ({ oldestTs }) => Math.max(0, parts.now() - oldestTs) / 1_000),
  );
  gauge(
    'assets_partition_lag_seconds',
    'How long commands of a partition have been stored and not applied.',
    ['partition'],
    ({ positions }) => positions.map(({ partition, seconds }): Sample => [[String(partition)], seconds]),
  );
  gauge(
    'assets_partition_lag_messages',
    'Messages, of all partitions, that were stored after the last one a partition has applied.',
    ['partition'],
    ({ positions }) => positions.map(({ partition, behind }): Sample => [[String(partition)], behind]),
  );
  gauge('assets_partitions_unowned', 'Partitions that no worker owns.', [], ({ unowned }) => unowned);
  gauge(
    'assets_work_stored',
    'Pieces of work that wait in the stream or are being done.',
    [],
    ({ work }) => work,
  );
  gauge('assets_mail_outbox', 'Mails that are not sent yet.', [], ({ outbox }) => outbox.waiting);
  gauge(
    'assets_mail_overdue_seconds',
    'How long the mail that is due longest has been due.',
    [],
    ({ outbox }) => outbox.overdueMs / 1_000,
  );
  gauge(
    'assets_provider_state',
    'How model providers are doing: 1 in the state they are in.',
    ['provider', 'state'],
    ({ providers }) =>
      providers.flatMap(({ name, state }) =>
        (['ok', 'paused', 'failing'] as const).map((one): Sample => [[name, one], one === state ? 1 : 0]),
      ),
  );
  gauge(
    'assets_provider_predictions',
    'Predictions under way at model providers, of all processes.',
    ['provider'],
    ({ providers }) => providers.map(({ name, running }): Sample => [[name], running]),
  );
}

async function look(
  { store, bus, providerStatus, now }: Surveyed,
  lag: ReturnType<typeof createLagWatch>,
): Promise<Survey> {
  const { measures, partitions } = store;
  // Away from the bus nothing is waited for: what the store tells is of more use than ever.
  const isConnected = bus.connected();
  const end = isConnected ? await bus.lastCommand() : undefined;
  if (end !== undefined) lag.note(end, now());
  const [assets, deliveries, outbox, records, work, providers] = await Promise.all([
    measures.assetStates(),
    measures.deliveryStates(),
    measures.outbox(now()),
    partitions.all(),
    isConnected ? bus.countWork() : undefined,
    providerStatus(),
  ]);
  return {
    assets,
    deliveries,
    outbox,
    positions: records.map(({ _id, position }) => ({
      partition: _id,
      behind: Math.max(0, (end ?? position) - position),
      seconds: lag.secondsBehind(position, now()),
    })),
    unowned: records.filter(({ owner }) => owner === null).length,
    work,
    providers,
  };
}

export function watchTracing(registry: Registry, stats: () => ExporterStats): void {
  registry.total(
    {
      name: 'assets_spans_total',
      help: 'Spans of traces: handed to the collector, or dropped because it takes none.',
      labels: ['outcome'],
    },
    () => {
      const { exported, dropped } = stats();
      return [
        [['exported'], exported],
        [['dropped'], dropped],
      ];
    },
  );
}
