/**
 * The operator console over its parts: what http answers with. Nothing here is on the way of an asset; each view is
 * one query, counts are taken at most every two seconds however many look, and an action is a message to a machine.
 */
import { operator as limits } from '../../schemas/limits.ts';
import type {
  MachineFilterQuery,
  MachineKind,
  MachineList,
  MachineRow,
  Overview,
  PartitionList,
  RequestPage,
  StreamList,
  WorkerList,
} from '../../schemas/operator-console.ts';
import type { MachinePlace, MachineRecord } from '../store/operator-views.ts';
import { createActions } from './actions.ts';
import { toEntry } from './audit-entry.ts';
import { createBulk } from './bulk.ts';
import { createDetail, toPrediction } from './detail.ts';
import { isForEndpoint, readTried } from './endpoints.ts';
import { createFilters } from './filters.ts';
import { createOverview } from './overview.ts';
import type { ConsolePorts } from './ports.ts';
import { redact } from './redact.ts';
import { contextOf, type RowParts, toIso, toRow } from './rows.ts';
import { createSearch } from './search.ts';
import { createStateTable } from './states.ts';
import { createUsual } from './usual.ts';

export type OperatorConsole = ReturnType<typeof createConsole>;

const noProject: ReadonlySet<string> = new Set();

export function createConsole(ports: ConsolePorts) {
  const { store, bus, workers, times, now } = ports;
  const { operatorViews: views, predictions, partitions, audit } = store;
  const table = createStateTable(times);
  const usual = createUsual(views, now);
  const rowParts = async (): Promise<Omit<RowParts, 'tried'>> => ({
    table,
    times,
    usual: await usual(),
    now: now(),
  });
  const filters = createFilters({ store, table, usual, now });
  const actions = createActions({ ...ports, table });
  const overview = createOverview({ ...ports, table, usual });

  const rows = async (kind: MachineKind, records: readonly MachineRecord[]): Promise<MachineRow[]> => {
    const waits = records.some(({ state }) => isForEndpoint(kind, state));
    const [parts, tried] = await Promise.all([rowParts(), waits ? readTried(views, now()) : noProject]);
    return records.map((record) => toRow(kind, record, { ...parts, tried }));
  };
  const detail = createDetail({ ...ports, actions, rows });
  const bulk = createBulk({ ...ports, filters, rows });

  /** undefined when the filter names what there is not. */
  const list = async (
    query: MachineFilterQuery,
    limit: number,
    after?: MachinePlace,
  ): Promise<{ list: MachineList; isByAge: boolean; records: MachineRecord[] } | undefined> => {
    const view = await filters.read(query);
    if (!view) return undefined;
    const records = await views.list(view.kind, view.filter, limit, after);
    const machines = await rows(view.kind, records);
    return {
      list: { machines, next_cursor: null, as_of: toIso(now()) },
      isByAge: view.isByAge,
      records,
    };
  };

  return {
    overview: (): Promise<Overview> => overview(),
    list,
    detail,
    actions,
    bulk,
    search: createSearch(ports),

    /** The row of a machine as it is now. */
    async row(kind: MachineKind, id: string): Promise<MachineRow | undefined> {
      const found = await views.find(kind, id);
      return found && (await rows(kind, [found as unknown as MachineRecord]))[0];
    },

    /** Everything that a request has caused; undefined when nothing is known of it. */
    async request(requestId: string): Promise<RequestPage | undefined> {
      const [assets, deliveries, entries] = await Promise.all([
        views.ofRequest('asset', requestId, limits.maxRelated),
        views.ofRequest('delivery', requestId, limits.maxRelated),
        audit.about({ requestId }, limits.maxRelated),
      ]);
      if (assets.length + deliveries.length + entries.length === 0) return undefined;
      const bought = await Promise.all(
        assets.map(async ({ _id: asset_id, ...asset }) => {
          const { run } = contextOf(asset);
          const found = await predictions.ofAsset(asset_id, limits.maxPredictions);
          return found.map((one) => ({ asset_id, ...toPrediction(one) })).filter((one) => one.run === run);
        }),
      );
      const facts = await Promise.all([
        ...assets.map(({ _id }) => factsOf('asset', _id, requestId)),
        ...deliveries.map(({ _id }) => factsOf('delivery', _id, requestId)),
      ]);
      return {
        request_id: requestId,
        as_of: toIso(now()),
        machines: [...(await rows('asset', assets)), ...(await rows('delivery', deliveries))],
        predictions: bought.flat(),
        events: facts.flat().sort((a, b) => a.ts - b.ts),
        audit: entries.map(toEntry),
      };
    },

    /** Who owns which partition, and how far it is. */
    async partitions(): Promise<PartitionList> {
      const [records, lastCommand] = await Promise.all([partitions.all(), bus.lastCommand()]);
      const list = await Promise.all(
        records.map(async ({ _id: id, owner, epoch, position }) => {
          const last = await bus.lastCommandOf(id);
          return { id, owner, epoch, position, last, is_behind: last > position };
        }),
      );
      list.sort((a, b) => a.id - b.id);
      return { as_of: toIso(now()), last_command: lastCommand, partitions: list };
    },

    async streams(): Promise<StreamList> {
      return { as_of: toIso(now()), streams: await bus.describeStreams() };
    },

    /** What the workers do: who holds their slots, who waits. */
    async workers(): Promise<WorkerList> {
      const seen = await workers.look();
      const silent = workers.alive().filter(({ id }) => !seen.some(({ worker }) => worker === id));
      return { as_of: toIso(now()), silent: silent.map(({ id }) => id), workers: seen };
    },
  };

  async function factsOf(kind: MachineKind, id: string, requestId: string) {
    const document = await views.find(kind, id);
    return (document?.facts ?? [])
      .filter((fact) => fact['request_id'] === requestId)
      .map(({ seq: _, n: __, ...fact }) => {
        const named = kind === 'asset' ? { ...fact, asset_id: id } : { ...fact, delivery_id: id };
        return redact(named) as { event: string; ts: number };
      });
  }
}
