/**
 * Actor documents: one per asset, per webhook delivery. The document is the truth (invariant I1): state,
 * version, facts, asked-for work, timers and the last applied message are one write.
 */
import { isDeepStrictEqual } from 'node:util';
import type { AnyBulkWriteOperation, Collection, Db, Document } from 'mongodb';
import { isNumber } from './partial.ts';

/** A fact as stored: `seq` and `n` say which message caused it and its place among that message's facts. */
export type StoredFact = { seq: number; n: number; ts: number; event: string } & Record<string, unknown>;

/** Work that a message asked for, kept until the partition's position has passed that message. */
export type StoredWork = { seq: number; n: number; effect: string; params: unknown };

/** A timer: due at `at` (unix ms). `armed` is the version that set it, so that a stale firing is known. */
export type StoredTimer = {
  id: string;
  at: number;
  armed: number;
  event: { type: string } & Record<string, unknown>;
};

export type ActorDocument = {
  _id: string;
  project: string;
  partition: number;
  /** Number of steps stored. 0: made by a request, START not applied yet. */
  version: number;
  /** Sequence of the last applied message. */
  seq: number;
  machine: { version: number; value: unknown; context: unknown };
  /** State as a path, `pending.vision.asked`, and since when (unix ms). */
  state: string;
  enteredTs: number;
  timers: StoredTimer[];
  /** Due time of the earliest timer, null without one. */
  dueTs: number | null;
  facts: StoredFact[];
  work: StoredWork[];
  createdTs: number;
  updatedTs: number;
  /** Fields of the kind's own that queries need. */
  index: Record<string, unknown>;
  /** Fields of the kind's own that never change: written once, with the document. */
  fixed?: Record<string, unknown>;
};

/** A document as the owner holds it while it works on a batch. */
export type ActorWrite = {
  /** As loaded: another version in the store means that another writer was here (fenced). */
  before: ActorDocument;
  next: ActorDocument;
  /** Facts to append; `resetFacts` replaces all of them instead, when a new run begins. */
  newFacts: StoredFact[];
  resetFacts: boolean;
  /** Not in the store yet: there is then nothing to be fenced but another writer's document of the same id. */
  isNew?: boolean;
};

/** What of a document says what it has told and whether it goes on. */
export type Touched = Pick<ActorDocument, '_id' | 'project' | 'dueTs' | 'facts'>;

export type ActorStore = ReturnType<typeof createActorStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

/** The collection of one kind. `indexes` are the kind's own. */
export function createActorStore(db: Db, name: string, indexes: Document[] = []) {
  const actors: Collection<ActorDocument> = db.collection(name);

  return {
    async ensureIndexes(): Promise<void> {
      await actors.createIndexes([
        { key: { partition: 1, dueTs: 1 }, partialFilterExpression: { dueTs: isNumber } },
        { key: { createdTs: 1 }, name: 'unstarted', partialFilterExpression: { version: 0 } },
        ...indexes.map((key) => ({ key: key as Record<string, 1 | -1> })),
      ]);
    },

    async load(ids: string[]): Promise<ActorDocument[]> {
      // `erasure` is written beside the owner, who would write back what it was when it loaded it.
      return actors.find({ _id: { $in: ids } }, { projection: { erasure: 0 } }).toArray();
    },

    async find(id: string): Promise<ActorDocument | undefined> {
      return (await actors.findOne({ _id: id })) ?? undefined;
    },

    /** Adds a document at version 0. Answers false when there is one with this id already. */
    async insert(document: ActorDocument): Promise<boolean> {
      try {
        await actors.insertOne(document, durable);
        return true;
      } catch (cause) {
        if (isDuplicate(cause)) return false;
        throw cause;
      }
    },

    /** Stores the next versions in one round trip. Answers false when one of them was fenced. */
    async write(writes: ActorWrite[]): Promise<boolean> {
      if (writes.length === 0) return true;
      try {
        const result = await actors.bulkWrite(writes.map(toOperation), { ordered: false, ...durable });
        return result.matchedCount + result.insertedCount === writes.length;
      } catch (cause) {
        if (isDuplicate(cause)) return false;
        throw cause;
      }
    },

    /** Documents with a timer due before a time, in some partitions, most overdue first. */
    async due(partitions: number[], beforeTs: number, limit: number): Promise<ActorDocument[]> {
      return actors
        .find({ partition: { $in: partitions }, dueTs: { ...isNumber, $lte: beforeTs } })
        .sort({ dueTs: 1 })
        .limit(limit)
        .project<ActorDocument>({ project: 1, partition: 1, version: 1, timers: 1, dueTs: 1 })
        .toArray();
    },

    /** Documents whose first message never arrived. */
    async unstarted(beforeTs: number, limit: number): Promise<{ _id: string; project: string }[]> {
      return actors
        .find({ version: 0, createdTs: { $lte: beforeTs } })
        .limit(limit)
        .project<{ _id: string; project: string }>({ project: 1 })
        .toArray();
    },

    /** Documents that have changed since a time (unix ms), and those that wait for a timer. Reads them all. */
    async *touchedSince(ts: number): AsyncGenerator<Touched> {
      yield* actors
        .find({ $or: [{ updatedTs: { $gte: ts } }, { dueTs: { $ne: null } }] })
        .hint({ _id: 1 })
        .project<Touched>({ project: 1, dueTs: 1, facts: 1 });
    },

    /** For queries of the kind's own module. */
    collection: actors,
  };
}

function toOperation({
  before,
  next,
  newFacts,
  resetFacts,
  isNew,
}: ActorWrite): AnyBulkWriteOperation<ActorDocument> {
  if (isNew) return { insertOne: { document: next } };
  const { _id, version } = before;
  const changes = changesOf(before, next);
  const filter = { _id, version };
  if (resetFacts) return { updateOne: { filter, update: { $set: { ...changes, facts: next.facts } } } };
  if (newFacts.length === 0) return { updateOne: { filter, update: { $set: changes } } };
  return { updateOne: { filter, update: { $set: changes, $push: { facts: { $each: newFacts } } } } };
}

/** What differs: the filter says that the store has the rest, and what is not sent is not journalled, nor indexed. */
function changesOf(before: ActorDocument, next: ActorDocument): Record<string, unknown> {
  const { _id, project, facts, createdTs, fixed, machine, ...changing } = next;
  return {
    ...differences(before as unknown as Fields, changing),
    ...machineChanges(before.machine, machine),
  };
}

/** Of a machine's context its changed fields alone, unless one has gone. */
function machineChanges(
  { context: before, ...rest }: ActorDocument['machine'],
  { context, ...changing }: ActorDocument['machine'],
): Fields {
  const changes = differences(rest, changing, 'machine.');
  if (before === context) return changes;
  if (!isFields(before) || !isFields(context) || Object.keys(before).some((name) => !(name in context))) {
    return { ...changes, 'machine.context': context };
  }
  return { ...changes, ...differences(before, context, 'machine.context.') };
}

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function differences(before: Fields, next: Fields, path = ''): Fields {
  const changes: Fields = {};
  for (const [name, value] of Object.entries(next)) {
    if (!isDeepStrictEqual(value, before[name])) changes[path + name] = value;
  }
  return changes;
}

const duplicateKey = 11000;

export function isDuplicate(cause: unknown): boolean {
  return (cause as { code?: unknown }).code === duplicateKey;
}
