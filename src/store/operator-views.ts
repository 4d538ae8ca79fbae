/**
 * What operators look at: machines of both kinds by state, attempt, error, project, provider, version, and those that
 * have stood still for too long. Each view is one query over one index, in the order of that index.
 *
 * Two orders: what goes by state is shown longest in its state first; what belongs to a project or a version of the
 * machine, newest first. Indexes of what is rare (later attempts, errors, predictions) are partial, so that an
 * ordinary step does not touch them. With the state in front, an index serves one state as well as all of them: the
 * server merges the few that there are.
 */
import type { Collection, Db, Document, Filter } from 'mongodb';
import type { ActorDocument, StoredFact } from './actors.ts';
import { text } from './partial.ts';
import { countByState, lookMs, type StateCount, statesIndex } from './state-counts.ts';

export type MachineKind = 'asset' | 'delivery';

/** A machine as a row shows it: the context's fields that are there for its kind. Times are unix ms. */
export type MachineRecord = Omit<ActorDocument, 'machine' | 'facts' | 'work' | 'fixed' | 'index'> & {
  machine: { version: number; context: Record<string, unknown> };
};

/** `states` are leaf states of the kind: all that may be found. */
export type MachineFilter = {
  states: readonly string[];
  /** `states` are all that there are. */
  isAnyState?: boolean;
  /** At least 2. */
  minAttempt?: number;
  /** Error code of an asset, failure of a delivery's last attempt. */
  error?: string;
  provider?: string;
  projects?: readonly string[];
  version?: number;
  /** By state: entered before this (unix ms). States without a row are left out. */
  stuckBefore?: Readonly<Record<string, number>>;
  /** Entered at this time (unix ms) or before. */
  untilTs?: number;
};

/** Where a list goes on: after this machine. `ts` is when it entered its state, or was made, as the order says. */
export type MachinePlace = { ts: number; id: string };

export type OperatorViews = ReturnType<typeof createOperatorViews>;

const collections: Record<MachineKind, string> = { asset: 'assets', delivery: 'deliveries' };
const errorFields: Record<MachineKind, string> = {
  asset: 'machine.context.error.code',
  delivery: 'machine.context.failure',
};
const attemptField = 'machine.context.attempt';
const providerField = 'machine.context.job.provider';
const byState = { state: 1, enteredTs: 1, _id: 1 } as const;
const isText = { $type: 'string' as const };
const hints = {
  states: statesIndex,
  attempts: 'operator attempts',
  errors: 'operator errors',
  providers: 'operator providers',
  versions: 'operator versions',
} as const;
/** A view that takes longer is refused: nothing that an operator looks at may hold up the machines. */
const viewMs = lookMs;

export function createOperatorViews(db: Db) {
  const of = (kind: MachineKind): Collection<ActorDocument> => db.collection(collections[kind]);

  return {
    async ensureIndexes(): Promise<void> {
      await Promise.all(
        (['asset', 'delivery'] as const).map((kind) => of(kind).createIndexes(indexes(kind))),
      );
    },

    /** A page, in the order of `orderOf`. @throws an outage when it takes too long. */
    async list(
      kind: MachineKind,
      filter: MachineFilter,
      limit: number,
      after?: MachinePlace,
    ): Promise<MachineRecord[]> {
      const { query, sort, hint } = viewOf(kind, filter, after);
      return of(kind)
        .find<MachineRecord>(query, { projection: rowFields, maxTimeMS: viewMs })
        .hint(hint)
        .sort(sort)
        .limit(limit)
        .toArray();
    },

    /** How many a filter finds, counted up to a number. */
    async count(kind: MachineKind, filter: MachineFilter, limit: number): Promise<number> {
      const { query, hint } = viewOf(kind, filter);
      const { n } = await db.command({
        count: collections[kind],
        query,
        hint,
        limit,
        maxTimeMS: viewMs,
        readConcern: { level: 'local' },
      });
      return Number(n);
    },

    /** The plan of a view's query, for tests and benchmarks. */
    async explain(
      kind: MachineKind,
      filter: MachineFilter,
      limit: number,
      after?: MachinePlace,
    ): Promise<Document> {
      const { query, sort, hint } = viewOf(kind, filter, after);
      return of(kind)
        .find(query)
        .project(rowFields)
        .hint(hint)
        .sort(sort)
        .limit(limit)
        .explain('executionStats');
    },

    /**
     * How many are in each of some states, and since when: from the index alone. Where most of them come to rest is
     * not gone through: what is in no other state is there.
     */
    async countStates(kind: MachineKind, states: readonly string[]): Promise<StateCount[]> {
      const most = restingPlace[kind];
      const edge = (direction: 1 | -1) =>
        of(kind)
          .find({ state: most }, { projection: { enteredTs: 1 }, maxTimeMS: viewMs })
          .hint(hints.states)
          .sort({ enteredTs: direction, _id: direction })
          .limit(1)
          .toArray();
      const [total, [oldest], [newest], counts] = await Promise.all([
        of(kind).estimatedDocumentCount({ maxTimeMS: viewMs }),
        edge(1),
        edge(-1),
        countByState(of(kind), { state: { $in: states.filter((state) => state !== most) } }),
      ]);
      const others = counts.reduce((sum, { count }) => sum + count, 0);
      if (!oldest || !newest) return counts;
      const count = Math.max(1, total - others);
      return [...counts, { state: most, count, oldestTs: oldest.enteredTs, newestTs: newest.enteredTs }];
    },

    /** How many of some states are at a later attempt than their first, by state. */
    async countLaterAttempts(kind: MachineKind, states: readonly string[]): Promise<Record<string, number>> {
      const found = await of(kind)
        .aggregate<{ _id: string; count: number }>(
          [
            { $match: { state: { $in: [...states] }, [attemptField]: { $gte: 2 } } },
            { $group: { _id: '$state', count: { $sum: 1 } } },
          ],
          { hint: hints.attempts, maxTimeMS: viewMs, readConcern: { level: 'local' } },
        )
        .toArray();
      return Object.fromEntries(found.map(({ _id, count }) => [_id, count]));
    },

    /** How many have entered a state since a time (unix ms), counted up to a number. */
    async countEntered(kind: MachineKind, state: string, sinceTs: number, limit: number): Promise<number> {
      const { n } = await db.command({
        count: collections[kind],
        query: { state, enteredTs: { $gte: sinceTs } },
        hint: hints.states,
        limit,
        maxTimeMS: viewMs,
        readConcern: { level: 'local' },
      });
      return Number(n);
    },

    /** Where the newest belong that have entered a state since a time (unix ms), newest first. */
    async enteredSince(
      kind: MachineKind,
      state: string,
      sinceTs: number,
      limit: number,
    ): Promise<Pick<ActorDocument, 'project' | 'partition'>[]> {
      return of(kind)
        .find<Pick<ActorDocument, 'project' | 'partition'>>(
          { state, enteredTs: { $gte: sinceTs } },
          { projection: { _id: 0, project: 1, partition: 1 }, maxTimeMS: viewMs },
        )
        .hint(hints.states)
        .sort({ state: -1, enteredTs: -1, _id: -1 })
        .limit(limit)
        .toArray();
    },

    /** What failed last, by error, among so many that have entered a state since a time (unix ms). */
    async errorsSince(
      kind: MachineKind,
      state: string,
      sinceTs: number,
      limit: number,
    ): Promise<Record<string, number>> {
      const found = await of(kind)
        .find(
          { state, enteredTs: { $gte: sinceTs } },
          { projection: { [errorFields[kind]]: 1 }, maxTimeMS: viewMs },
        )
        .hint(hints.states)
        .sort({ state: -1, enteredTs: -1, _id: -1 })
        .limit(limit)
        .toArray();
      const counts: Record<string, number> = {};
      for (const { machine } of found) {
        const { error, failure } = machine.context as {
          error?: { code: string } | null;
          failure?: string | null;
        };
        const code = error?.code ?? failure ?? 'none';
        counts[code] = (counts[code] ?? 0) + 1;
      }
      return counts;
    },

    /** Versions of the machine that documents were stored by, and the newest document of each. */
    async versions(kind: MachineKind): Promise<number[]> {
      const found: number[] = [];
      for (let above = -1; found.length < maxVersions; ) {
        const [next] = await of(kind)
          .find({ 'machine.version': { $gt: above } }, { projection: { 'machine.version': 1 } })
          .hint(hints.versions)
          .sort({ 'machine.version': 1 })
          .limit(1)
          .toArray();
        if (!next) break;
        above = next.machine.version;
        found.push(above);
      }
      return found;
    },

    /** The whole document, and nothing hidden: what is secret in it is for others to take out. */
    async find(kind: MachineKind, id: string): Promise<ActorDocument | undefined> {
      return (await of(kind).findOne({ _id: id })) ?? undefined;
    },

    /** Deliveries of a project that came to be sent before one of them. */
    async countAhead({
      partition,
      project,
      enteredTs,
    }: Pick<ActorDocument, 'partition' | 'project' | 'enteredTs'>): Promise<number> {
      const { n } = await db.command({
        count: collections.delivery,
        query: { state: 'sending', partition, project, enteredTs: { $lt: enteredTs } },
        hint: 'to send',
        limit: maxAhead,
        maxTimeMS: viewMs,
        readConcern: { level: 'local' },
      });
      return Number(n);
    },

    /** Rows of the machines that work for a request. */
    async ofRequest(kind: MachineKind, requestId: string, limit: number): Promise<MachineRecord[]> {
      const field = kind === 'asset' ? 'index.requestId' : 'machine.context.requestId';
      return of(kind)
        .find<MachineRecord>({ [field]: requestId }, { projection: rowFields, maxTimeMS: viewMs })
        .limit(limit)
        .toArray();
    },

    /** Rows of the deliveries of an event. */
    async ofEvent(eventId: string, limit: number): Promise<MachineRecord[]> {
      return of('delivery')
        .find<MachineRecord>(
          { 'machine.context.eventId': eventId },
          { projection: rowFields, maxTimeMS: viewMs },
        )
        .limit(limit)
        .toArray();
    },

    /** Rows of the newest deliveries of an asset's events. */
    async ofAsset(project: string, assetId: string, limit: number): Promise<MachineRecord[]> {
      return of('delivery')
        .find<MachineRecord>(
          { project, 'index.assetId': assetId },
          { projection: rowFields, maxTimeMS: viewMs },
        )
        .sort({ createdTs: -1 })
        .limit(limit)
        .toArray();
    },

    /** Facts of the newest machines in a state: how long things take. */
    async newestFacts(kind: MachineKind, state: string, limit: number): Promise<StoredFact[][]> {
      const found = await of(kind)
        .find({ state }, { projection: { facts: 1 }, maxTimeMS: viewMs })
        .hint(hints.states)
        .sort({ enteredTs: -1 })
        .limit(limit)
        .toArray();
      return found.map(({ facts }) => facts);
    },
  };
}

/** The state in which most machines of a kind end. */
const restingPlace: Record<MachineKind, string> = { asset: 'ready', delivery: 'delivered' };
const maxVersions = 20;
const maxAhead = 10_000;

/** What a row is made of. */
const rowFields = {
  project: 1,
  partition: 1,
  version: 1,
  seq: 1,
  state: 1,
  enteredTs: 1,
  timers: 1,
  dueTs: 1,
  createdTs: 1,
  updatedTs: 1,
  'machine.version': 1,
  ...Object.fromEntries(
    [
      ...[
        'run',
        'requestId',
        'attempt',
        'stage',
        'job',
        'error',
        'clockTs',
        'costMicros',
        'runStartedTs',
        'plan',
      ],
      ...['assetId', 'eventId', 'eventType', 'made', 'code', 'failure'],
    ].map((name) => [`machine.context.${name}`, 1]),
  ),
};

function indexes(kind: MachineKind) {
  const error = errorFields[kind];
  const shared = [
    { key: byState, name: hints.states },
    {
      key: { ...byState, [attemptField]: 1 },
      name: hints.attempts,
      partialFilterExpression: { [attemptField]: { $gte: 2 } },
    },
    { key: { [error]: 1, ...byState }, name: hints.errors, partialFilterExpression: { [error]: isText } },
    { key: { 'machine.version': 1, createdTs: -1, _id: -1 } as const, name: hints.versions },
  ];
  if (kind === 'delivery') {
    return [
      ...shared,
      { key: { 'machine.context.eventId': 1 } },
      { key: { 'machine.context.requestId': 1 } },
    ];
  }
  const partialFilterExpression = { [providerField]: isText };
  return [
    ...shared,
    { key: { [providerField]: 1, ...byState }, name: hints.providers, partialFilterExpression },
  ];
}

/** Whether a filter's list goes by when each was made, newest first; else by how long it is in its state. */
export function isByAge({ projects, version, stuckBefore }: MachineFilter): boolean {
  return stuckBefore === undefined && (projects !== undefined || version !== undefined);
}

type View = {
  query: Filter<ActorDocument>;
  sort: Record<string, 1 | -1>;
  hint: string | Record<string, 1 | -1>;
};

function viewOf(kind: MachineKind, filter: MachineFilter, after?: MachinePlace): View {
  const conditions = [...conditionsOf(kind, filter), ...placeOf(filter, after)];
  return {
    query: { $and: conditions },
    sort: isByAge(filter) ? { createdTs: -1, _id: -1 } : { enteredTs: 1, _id: 1 },
    hint: hintOf(kind, filter),
  };
}

function hintOf(kind: MachineKind, filter: MachineFilter): View['hint'] {
  const { error, minAttempt, provider } = filter;
  if (isByAge(filter)) return byAgeHint(kind, filter);
  if (error !== undefined) return hints.errors;
  if (minAttempt !== undefined) return hints.attempts;
  return provider === undefined ? hints.states : hints.providers;
}

function byAgeHint(kind: MachineKind, filter: MachineFilter): View['hint'] {
  if (filter.projects === undefined) return hints.versions;
  const newest = { createdTs: -1, _id: -1 } as const;
  if (kind === 'delivery') return { project: 1, ...(filter.isAnyState ? {} : { state: 1 }), ...newest };
  return { project: 1, erasure: 1, ...(filter.isAnyState ? {} : { 'index.status': 1 }), ...newest };
}

function conditionsOf(kind: MachineKind, filter: MachineFilter): Filter<ActorDocument>[] {
  const { projects, version, error, minAttempt, provider, untilTs } = filter;
  const conditions: (Filter<ActorDocument> | undefined)[] = [
    stateCondition(filter),
    projects && { project: { $in: [...projects] } },
    kind === 'asset' && projects && isByAge(filter) ? statusCondition(filter) : undefined,
    version === undefined ? undefined : { 'machine.version': version },
    error === undefined ? undefined : { [errorFields[kind]]: text(error) },
    minAttempt === undefined ? undefined : { [attemptField]: { $gte: Math.max(2, minAttempt) } },
    provider === undefined ? undefined : { [providerField]: text(provider) },
    untilTs === undefined ? undefined : { enteredTs: { $lte: untilTs } },
  ];
  return conditions.filter((one) => one !== undefined);
}

function stateCondition(filter: MachineFilter): Filter<ActorDocument> | undefined {
  const { states, stuckBefore } = filter;
  if (stuckBefore) {
    const stuck = states.flatMap((state) => {
      const before = stuckBefore[state];
      return before === undefined ? [] : [{ state, enteredTs: { $lte: before } }];
    });
    return stuck.length === 0 ? { state: '' } : { $or: stuck };
  }
  // All of them: not worth looking at each document for.
  if (isByAge(filter) && filter.isAnyState) return undefined;
  return { state: { $in: [...states] } };
}

/** The index of a project's assets has their status, of which a state has one or two. Erased ones are not shown. */
function statusCondition(filter: MachineFilter): Filter<ActorDocument> {
  const statuses = { 'index.status': { $in: [...new Set(filter.states.flatMap(statusesOf))] } };
  return { erasure: null, ...(filter.isAnyState ? {} : statuses) } as Filter<ActorDocument>;
}

function statusesOf(state: string): string[] {
  if (state === 'ready') return ['ready'];
  if (state === 'failed' || state === 'erased') return ['failed'];
  return state === 'cancelled' ? ['ready', 'failed'] : ['pending'];
}

function placeOf(filter: MachineFilter, after: MachinePlace | undefined): Filter<ActorDocument>[] {
  if (!after) return [];
  const { ts, id } = after;
  return isByAge(filter)
    ? [{ createdTs: { $lte: ts } }, { $or: [{ createdTs: { $lt: ts } }, { _id: { $lt: id } }] }]
    : [{ enteredTs: { $gte: ts } }, { $or: [{ enteredTs: { $gt: ts } }, { _id: { $gt: id } }] }];
}
