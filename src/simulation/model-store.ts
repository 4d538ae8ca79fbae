/**
 * A model of MongoDB as the runtime uses it: documents with a version filter, records with an owner filter, answers
 * that are late or never come, bulk writes that are cut in two.
 */
import type { ActorStorePort } from '../actors/kind.ts';
import type { ActorDocument, ActorWrite } from '../store/actors.ts';
import type { DeliveryStore } from '../store/deliveries.ts';
import type { PartitionRecord, PartitionStore } from '../store/partitions.ts';
import type { SeenStreams, StreamStore } from '../store/streams.ts';
import type { Audit } from './audit.ts';
import type { Faults } from './faults.ts';
import type { Bug } from './history.ts';
import type { Host, World } from './world.ts';

const lostAnswerMs = 3_000;
const maxSlowMs = 2_000;
const maxTearMs = 300;

export type ModelStore = ReturnType<typeof createModelStore>;

export function createModelStore(
  world: World,
  faults: Faults,
  audit: Audit,
  { partitions, bug }: { partitions: number; bug: Bug | undefined },
) {
  const collections = new Map<string, Map<string, ActorDocument>>();
  const records: PartitionRecord[] = Array.from({ length: partitions }, (_, _id) => ({
    _id,
    owner: null,
    epoch: 0,
    position: 0,
    ts: 0,
  }));
  let streams: SeenStreams | undefined;

  const collection = (kind: string): Map<string, ActorDocument> => {
    const known = collections.get(kind) ?? new Map<string, ActorDocument>();
    collections.set(kind, known);
    return known;
  };
  const all = (kind: string): ActorDocument[] => [...collection(kind).values()];

  const latency = (): number =>
    faults.strikes('storeSlow') ? world.between(50, maxSlowMs) : world.between(1, 4);

  /** Way to the server, effect, way back. A host that has died hears nothing any more. */
  const ask = <Answer>(
    host: Host,
    effect: () => Answer | Promise<Answer>,
    isWrite = false,
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const isRefused = faults.strikes('storeRefused');
      const isUnanswered = isWrite && faults.strikes('storeUnanswered');
      const fail = (ms: number) => world.after(ms, host, () => reject(new Error('the store has failed')));
      const answer = (value: Answer) =>
        isUnanswered ? fail(lostAnswerMs) : world.after(latency(), host, () => resolve(value));
      world.after(latency(), undefined, () => {
        if (!host.isHeard()) return;
        if (isRefused) {
          fail(latency());
          return;
        }
        const value = effect();
        if (value instanceof Promise) void value.then(answer);
        else answer(value);
      });
    });

  const writeOne = (kind: string, write: ActorWrite): boolean => {
    const documents = collection(kind);
    const { before, next, newFacts, resetFacts, isNew } = write;
    const found = documents.get(next._id);
    if (isNew && found) return false;
    if (!isNew && (!found || (found.version !== before.version && bug !== 'fence'))) return false;
    const facts = isNew || resetFacts ? next.facts : [...(found?.facts ?? []), ...newFacts];
    const work = bug === 'outbox' ? [] : next.work;
    const stored: ActorDocument = { ...next, facts, work };
    audit.onWrite(kind, found, stored, write);
    documents.set(next._id, stored);
    return true;
  };

  const writeAll = (kind: string, writes: readonly ActorWrite[]): number =>
    writes.reduce((count, write) => count + (writeOne(kind, write) ? 1 : 0), 0);

  /** A bulk write is not ordered, and others come in between its documents. */
  const bulk = (kind: string, writes: ActorWrite[]): boolean | Promise<boolean> => {
    const shuffled = writes.map((write) => ({ write, at: world.random() })).sort((a, b) => a.at - b.at);
    const ordered = shuffled.map(({ write }) => write);
    if (ordered.length < 2 || !faults.strikes('storeTorn')) return writeAll(kind, ordered) === writes.length;
    const cutAt = world.between(1, ordered.length - 1);
    const first = writeAll(kind, ordered.slice(0, cutAt));
    return new Promise((resolve) => {
      world.after(world.between(1, maxTearMs), undefined, () =>
        resolve(first + writeAll(kind, ordered.slice(cutAt)) === writes.length),
      );
    });
  };

  const actorStore = (host: Host, kind: string): ActorStorePort => ({
    load: (ids) => ask(host, () => ids.flatMap((id) => copyOf(collection(kind).get(id)))),
    write(writes) {
      if (!faults.strikes('storeHalf')) return ask(host, () => bulk(kind, writes), true);
      return ask(
        host,
        () => {
          writeAll(kind, writes.slice(0, Math.ceil(writes.length / 2)));
          return true;
        },
        true,
      ).then(() => {
        throw new Error('the store has failed half-way');
      });
    },
    due: (of, beforeTs, limit) =>
      ask(host, () =>
        all(kind)
          .filter(({ partition, dueTs }) => of.includes(partition) && dueTs !== null && dueTs <= beforeTs)
          .sort((a, b) => (a.dueTs ?? 0) - (b.dueTs ?? 0))
          .slice(0, limit),
      ),
    touchedSince: (ts) => readTouched(host, kind, ts),
    unstarted: (beforeTs, limit) =>
      ask(host, () =>
        all(kind)
          .filter(({ version, createdTs }) => version === 0 && createdTs <= beforeTs)
          .slice(0, limit),
      ),
  });

  const readTouched = async function* (host: Host, kind: string, ts: number) {
    yield* await ask(host, () =>
      all(kind).filter(({ updatedTs, dueTs }) => updatedTs >= ts || dueTs !== null),
    );
  };

  const some = (ids: readonly number[]) => records.filter(({ _id }) => ids.includes(_id));
  const copied = (found: PartitionRecord[]): PartitionRecord[] => found.map((record) => ({ ...record }));

  return {
    actorStore,
    all,

    /** For users and audits, who see the store as it is. */
    find: (kind: string, id: string): ActorDocument | undefined => collection(kind).get(id),

    insert: (host: Host, kind: string, document: ActorDocument): Promise<boolean> =>
      ask(
        host,
        () => {
          if (collection(kind).has(document._id)) return false;
          collection(kind).set(document._id, document);
          return true;
        },
        true,
      ),

    /** What the sender of webhooks reads. */
    deliveries: (host: Host): Pick<DeliveryStore, 'toSend' | 'projectsToSend'> => ({
      toSend: (partition, project, limit, sinceTs) =>
        ask(host, () =>
          all('delivery')
            .filter(
              (one) => one.state === 'sending' && one.partition === partition && one.project === project,
            )
            .filter(({ enteredTs }) => enteredTs >= sinceTs)
            .sort((a, b) => a.enteredTs - b.enteredTs)
            .slice(0, limit),
        ),
      projectsToSend: (of) =>
        ask(host, () => {
          const found = all('delivery').filter(
            ({ state, partition }) => state === 'sending' && of.includes(partition),
          );
          const byProject = new Map<string, { project: string; partition: number; count: number }>();
          for (const { project, partition } of found) {
            const count = (byProject.get(project)?.count ?? 0) + 1;
            byProject.set(project, { project, partition, count });
          }
          return [...byProject.values()];
        }),
    }),

    records: (host: Host): Pick<PartitionStore, 'claim' | 'force' | 'release' | 'move' | 'all'> => ({
      claim: (wanted, owner, living) =>
        ask(
          host,
          () => {
            for (const record of some(wanted)) {
              if (record.owner !== null && [...living, owner].includes(record.owner)) continue;
              Object.assign(record, { owner, epoch: record.epoch + 1 });
            }
            return copied(some(wanted).filter((record) => record.owner === owner));
          },
          true,
        ),
      force: (wanted, owner) =>
        ask(
          host,
          () => {
            for (const record of some(wanted))
              if (record.owner !== owner) Object.assign(record, { owner, epoch: record.epoch + 1 });
          },
          true,
        ),
      release: (dropped, owner) =>
        ask(
          host,
          () => {
            for (const record of some(dropped)) if (record.owner === owner) record.owner = null;
          },
          true,
        ),
      move: (moves, owner) =>
        ask(
          host,
          () => {
            const mine = moves.filter(({ partition }) => records[partition]?.owner === owner);
            for (const { partition, position, ts } of mine) {
              const [record] = some([partition]);
              if (!record) continue;
              audit.onMove(record, position);
              record.position = Math.max(record.position, position);
              record.ts = Math.max(record.ts, ts);
            }
            return mine.length === moves.length;
          },
          true,
        ),
      all: () => ask(host, () => copied(records)),
    }),

    partitionRecords: records,

    /** The streams that nothing is missing of. */
    streamsSeen: () => streams?.made,

    /** Which streams this store was last in step with. */
    streams: (host: Host): Pick<StreamStore, 'seen' | 'note'> => ({
      seen: () => ask(host, () => streams),
      note: (seen) =>
        ask(
          host,
          () => {
            streams = seen;
          },
          true,
        ),
    }),
  };
}

/** As the database gives it back, where undefined becomes null. */
function copyOf(found: ActorDocument | undefined): ActorDocument[] {
  return found
    ? [JSON.parse(JSON.stringify(found, (_, value: unknown) => (value === undefined ? null : value)))]
    : [];
}
