/** How many machines are in which state, since when, and what that means. Taken at most every two seconds. */
import { assetMachineVersion } from '../../machines/asset.ts';
import { deliveryMachineVersion } from '../../machines/delivery.ts';
import { operator as limits } from '../../schemas/limits.ts';
import type { MachineCounts, MachineKind, Overview } from '../../schemas/operator-console.ts';
import type { StateCount } from '../store/state-counts.ts';
import { countWaiting, isForEndpoint, type WaitingForEndpoints } from './endpoints.ts';
import { createFilters } from './filters.ts';
import type { ConsolePorts } from './ports.ts';
import { toIso } from './rows.ts';
import { activeStates, isRetrying, type StateTable } from './states.ts';
import { expectationOf, type Usual } from './usual.ts';
import { judge } from './verdict.ts';

type Ports = Pick<ConsolePorts, 'store' | 'bus' | 'workers' | 'now'> & {
  table: StateTable;
  usual(): Promise<Usual>;
};

type Counted = {
  ts: number;
  machines: MachineCounts[];
  raw: Record<MachineKind, StateCount[]>;
  outcome: Outcome;
};
type Outcome = {
  ready: number;
  failed: number;
  delivered: number;
  dead: number;
  /** Endpoints at which these were given up. */
  deadEndpoints: number;
  commonError: string | undefined;
  failingProviders: string[];
};

const machineVersions: Record<MachineKind, number> = {
  asset: assetMachineVersion,
  delivery: deliveryMachineVersion,
};
/** So many stuck ones are counted in each state. */
const maxStuck = 10_000;
const kinds: readonly MachineKind[] = ['asset', 'delivery'];

export function createOverview(ports: Ports): () => Promise<Overview> {
  const { bus, workers, now } = ports;
  let last: Counted | undefined;
  let running: Promise<Counted> | undefined;

  /** One at a time, whoever asks; a failure is told to those who have waited for it. */
  const refresh = (): Promise<Counted> => {
    running ??= count(ports)
      .then((counted) => {
        last = counted;
        return counted;
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };

  return async () => {
    // A store that does not answer leaves what was known, with its age: the verdict is then unknown.
    const isFresh = last !== undefined && now() - last.ts < limits.countsMs;
    const counted =
      isFresh && last ? last : await refresh().catch((cause: unknown) => last ?? rethrow(cause));
    const alive = workers.alive();
    const waiting = counted.raw.asset.filter(({ state }) => isWaiting(ports.table, state));
    return {
      as_of: toIso(counted.ts),
      health: judge({
        now: now(),
        isBusConnected: bus.connected(),
        countedTs: counted.ts,
        workers: alive.length,
        listenedMs: workers.listenedMs(),
        active: sum(counted.machines.map(({ active }) => active)),
        stuck: sum(counted.machines.map(({ stuck }) => stuck)),
        waitingForRetry: sum(counted.machines.map(({ waiting_for_retry: waits }) => waits)),
        endpoints: sum(counted.machines.map((one) => one.waiting_for_endpoints.endpoints)),
        waitingForEndpoints: sum(counted.machines.map((one) => one.waiting_for_endpoints.deliveries)),
        movedTs: Math.max(0, ...kinds.flatMap((kind) => counted.raw[kind].map(({ newestTs }) => newestTs))),
        oldestWaitMs: Math.max(0, ...waiting.map(({ oldestTs }) => now() - oldestTs)),
        ...counted.outcome,
      }),
      machines: counted.machines,
      workers: alive.map(({ id, heardTs, threads, waiting: waits }) => ({
        id,
        heard_at: toIso(heardTs),
        threads,
        waiting: waits,
      })),
    };
  };
}

function rethrow(cause: unknown): never {
  throw cause;
}

function isWaiting(table: StateTable, state: string): boolean {
  return table.asset.get(state)?.what === 'slot';
}

async function count(ports: Ports): Promise<Counted> {
  const ts = ports.now();
  const [asset, delivery, outcome] = await Promise.all([
    countKind(ports, 'asset'),
    countKind(ports, 'delivery'),
    countOutcome(ports, ts - limits.verdictMs),
  ]);
  return {
    ts,
    machines: [asset.counts, delivery.counts],
    raw: { asset: asset.raw, delivery: delivery.raw },
    outcome,
  };
}

async function countKind(
  { store, table, usual, now }: Ports,
  kind: MachineKind,
): Promise<{ counts: MachineCounts; raw: StateCount[] }> {
  const views = store.operatorViews;
  const active = activeStates(table, kind);
  const [raw, later, versions, before, measured] = await Promise.all([
    views.countStates(kind, [...table[kind].keys()]),
    views.countLaterAttempts(kind, active),
    views.versions(kind),
    createFilters({ store, table, usual, now }).stuckBefore(kind),
    usual(),
  ]);
  const found = new Map(raw.map((one) => [one.state, one]));
  let waitingForEndpoints: WaitingForEndpoints = { endpoints: 0, deliveries: 0 };
  const states = await Promise.all(
    [...table[kind]].map(async ([state, info]) => {
      const { count: total = 0, oldestTs } = found.get(state) ?? {};
      const { expectedMs } = expectationOf(info, measured);
      const late = await countLate(state, oldestTs);
      if (late > 0 && isForEndpoint(kind, state)) {
        const waiting = await countWaiting(views, before[state] ?? 0, now());
        waitingForEndpoints = { ...waiting, deliveries: Math.min(late, waiting.deliveries) };
      }
      const isStuck = isForEndpoint(kind, state) ? late - waitingForEndpoints.deliveries : late;
      return {
        state,
        count: total,
        oldest_entered_at: oldestTs === undefined ? null : toIso(oldestTs),
        later_attempts: later[state] ?? 0,
        is_stuck: isStuck,
        expected_ms: expectedMs === undefined ? null : Math.round(expectedMs),
      };
    }),
  );
  const under = states.filter(({ state }) => active.includes(state));
  return {
    raw,
    counts: {
      kind,
      states,
      active: sum(under.map((one) => one.count)),
      waiting_for_retry: sum(under.filter(({ state }) => isRetrying(state)).map((one) => one.count)),
      later_attempts: sum(under.map((one) => one.later_attempts)),
      stuck: sum(states.map((one) => one.is_stuck)),
      waiting_for_endpoints: waitingForEndpoints,
      machine_version: machineVersions[kind],
      versions,
    },
  };

  /** Only where the oldest is: mostly nobody has to be counted. */
  async function countLate(state: string, oldestTs: number | undefined): Promise<number> {
    const stuckTs = before[state];
    if (stuckTs === undefined || oldestTs === undefined || oldestTs > stuckTs) return 0;
    return views.count(kind, { states: [state], stuckBefore: before }, maxStuck);
  }
}

async function countOutcome({ store, now }: Ports, sinceTs: number): Promise<Outcome> {
  const { operatorViews: views, modelProviders } = store;
  const max = limits.verdictMax;
  const [ready, failed, delivered, dead, errors, providers] = await Promise.all([
    views.countEntered('asset', 'ready', sinceTs, max),
    views.countEntered('asset', 'failed', sinceTs, max),
    views.countEntered('delivery', 'delivered', sinceTs, max),
    views.countEntered('delivery', 'dead', sinceTs, max),
    views.errorsSince('asset', 'failed', sinceTs, errorsRead),
    modelProviders.list(now()),
  ]);
  // A project has one endpoint.
  const given = dead === 0 ? [] : await views.enteredSince('delivery', 'dead', sinceTs, max);
  const [common] = Object.entries(errors).sort(([, a], [, b]) => b - a);
  return {
    ready,
    failed,
    delivered,
    dead,
    deadEndpoints: new Set(given.map(({ project }) => project)).size,
    commonError: common?.[0],
    failingProviders: providers.filter(({ openUntilTs }) => openUntilTs > now()).map(({ name }) => name),
  };
}

const errorsRead = 100;
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
