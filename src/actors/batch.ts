/**
 * The group commit: load, step each, store in one write, publish, then move on (architecture 3).
 *
 * Any failure on the way is thrown: the owner then drops its memory and reads again from the stored position
 * (crash-only, I4). What was stored before is recognised by its sequence and published again.
 */
import { runtime } from '../../schemas/limits.ts';
import type { After, Outgoing } from '../bus/publisher.ts';
import type { Command } from '../bus/read.ts';
import type { ActorDocument, ActorWrite, StoredFact, StoredWork } from '../store/actors.ts';
import { type Applied, applyMessage, LaterVersionError } from './apply.ts';
import type { ActorKind } from './kind.ts';

/** Another writer has moved a document or a partition on. */
export class FencedError extends Error {
  override readonly name = 'FencedError';
}

export type BatchPorts = {
  kinds: ReadonlyMap<string, ActorKind>;
  publishAll(messages: Outgoing[]): Promise<void>;
  subjects: {
    fact(project: string, id: string, event: string): string;
    work(effect: string, project: string, kind: string, id: string): string;
  };
  now(): number;
  /** Called for each stored document with its timers, so that near ones are set at once. */
  onTimers(kind: string, document: ActorDocument): void;
  /** Told of each step of the batch, once all of them are stored and published. */
  onStepped?(kind: string, before: ActorDocument, next: ActorDocument): void;
  /** Called for a command that its machine threw at: it is passed over, or it would block its partition. */
  onRefused(command: Command, cause: unknown): void;
};

/** What the owner remembers between batches; lost and rebuilt at each change of ownership. */
export type BatchMemory = {
  documents: Map<string, ActorDocument>;
  /** Highest ts given out, by project; the partition's bound for projects not seen yet. */
  lastTs: Map<string, number>;
  /** Highest ts of any fact, by partition. */
  boundTs: Map<number, number>;
  /** Sequences published for good, by partition. */
  passed: Map<number, number>;
};

export type BatchResult = { steps: number; published: number };

const maxDocuments = 8192;
const maxProjects = 65_536;

export async function processBatch(
  commands: Command[],
  memory: BatchMemory,
  ports: BatchPorts,
): Promise<BatchResult> {
  await loadDocuments(commands, memory, ports.kinds);
  const batch: Batch = { writes: new Map(), outbox: [], steps: [], doubtful: new Set() };
  for (const command of commands) take(command, memory, ports, batch);
  const { writes, outbox, steps, doubtful } = batch;

  await storeWrites(writes, ports.kinds);
  tellStored(writes, ports);
  const messages = toMessages(outbox, ports.subjects);
  if (messages.length > 0) await ports.publishAll(messages);
  armTimers(writes, ports);
  for (const { kind, before, next } of steps) ports.onStepped?.(kind, before, next);
  forgetDoubtful(doubtful, memory);
  boundMap(memory.documents, maxDocuments);
  boundMap(memory.lastTs, maxProjects);
  return { steps: outbox.length, published: messages.length };
}

/** What a batch comes to. */
type Batch = {
  writes: Writes;
  outbox: Entry[];
  steps: { kind: string; before: ActorDocument; next: ActorDocument }[];
  /** Documents that took a message for one that says nothing, and that no write compares with what is stored. */
  doubtful: Set<string>;
};

type Writes = Map<string, ActorWrite & { kind: string }>;

function take(
  command: Command,
  memory: BatchMemory,
  ports: BatchPorts,
  { writes, outbox, steps, doubtful }: Batch,
): void {
  const key = documentKey(command);
  const kind = ports.kinds.get(command.kind);
  const known = memory.documents.get(key);
  const document = known ?? (kind && created(command, kind, ports));
  if (!kind || !document) return;
  const applied = apply(command, kind, document, memory, ports);
  if (applied.outcome === 'ignored') {
    if (!writes.has(key)) doubtful.add(key);
    return;
  }
  outbox.push({
    command,
    kind,
    ...applied,
    document: applied.outcome === 'stepped' ? applied.next : document,
    after: memory.lastTs.get(command.project) ?? 'unknown',
  });
  noteTs(command, memory, applied.facts);
  if (applied.outcome !== 'stepped') return;
  steps.push({ kind: kind.name, before: document, next: applied.next });
  memory.documents.delete(key);
  memory.documents.set(key, applied.next);
  doubtful.delete(key);
  addWrite(writes, key, { kind: kind.name, document, isNew: known === undefined, ...applied });
}

/** Before anything is published: what a state asks for by itself need not wait for another round trip. */
function tellStored(writes: Writes, { kinds }: BatchPorts): void {
  for (const { kind, next } of writes.values()) kinds.get(kind)?.onStored?.(next);
}

function armTimers(writes: Writes, { onTimers }: BatchPorts): void {
  for (const { kind, next } of writes.values()) if (next.timers.length > 0) onTimers(kind, next);
}

type Entry = {
  command: Command;
  kind: ActorKind;
  document: ActorDocument;
  facts: StoredFact[];
  work: StoredWork[];
  /** The project's fact before these. */
  after: After;
};

function created(command: Command, kind: ActorKind, { now, onRefused }: BatchPorts) {
  try {
    return kind.create?.(command.message, {
      id: command.id,
      project: command.project,
      ts: placedAt(command, now()),
    });
  } catch (cause) {
    onRefused(command, cause);
    return undefined;
  }
}

function apply(
  command: Command,
  kind: ActorKind,
  document: ActorDocument,
  memory: BatchMemory,
  { now, onRefused }: BatchPorts,
): Applied {
  try {
    return applyMessage(kind, document, command.message, {
      seq: command.seq,
      partition: command.partition,
      ts: nextTs(command, document, memory, placedAt(command, now())),
      passed: memory.passed.get(command.partition) ?? 0,
    });
  } catch (cause) {
    // Not passed over: it waits for a worker of that version.
    if (cause instanceof LaterVersionError) throw cause;
    onRefused(command, cause);
    return { outcome: 'ignored' };
  }
}

const documentKey = ({ kind, id }: Command) => `${kind}.${id}`;

/** Documents that the owner has not in memory already, one query a kind. */
async function loadDocuments(
  commands: Command[],
  { documents }: BatchMemory,
  kinds: ReadonlyMap<string, ActorKind>,
): Promise<void> {
  const missing = new Map<string, Set<string>>();
  for (const command of commands) {
    if (documents.has(documentKey(command))) continue;
    const ids = missing.get(command.kind) ?? new Set();
    missing.set(command.kind, ids.add(command.id));
  }
  for (const [name, ids] of missing) {
    const loaded = (await kinds.get(name)?.store.load([...ids])) ?? [];
    for (const document of loaded) documents.set(`${name}.${document._id}`, document);
  }
}

/**
 * When the stream took it: whoever applies a command stamps it alike. An owner that was robbed and does not know it
 * yet, or one whose clock is behind, puts nothing below what the other has published.
 *
 * One that has waited for long takes place when it is applied: what its step sets off is not late already.
 */
function placedAt({ ts }: Command, now: number): number {
  return now - ts > runtime.maxLagMs ? now : ts;
}

/** Strictly increasing within a project (I3). */
function nextTs(
  { project, partition }: Command,
  { facts }: ActorDocument,
  { lastTs, boundTs }: BatchMemory,
  placedTs: number,
): number {
  const last = lastTs.get(project) ?? boundTs.get(partition) ?? 0;
  return Math.max(placedTs, last + 1, (facts.at(-1)?.ts ?? 0) + 1);
}

/** What comes behind a fact in the stream is above it: behind one that another owner has left behind, too. */
function noteTs(
  { project, partition }: Command,
  { lastTs, boundTs }: BatchMemory,
  facts: StoredFact[],
): void {
  const last = facts.at(-1)?.ts;
  if (last === undefined) return;
  const bound = boundTs.get(partition) ?? 0;
  lastTs.set(project, Math.max(last, lastTs.get(project) ?? bound));
  if (last > bound) boundTs.set(partition, last);
}

/** Steps of one document within a batch are one write. */
function addWrite(
  writes: Writes,
  key: string,
  step: {
    kind: string;
    document: ActorDocument;
    next: ActorDocument;
    facts: StoredFact[];
    resetFacts: boolean;
    isNew: boolean;
  },
): void {
  const earlier = writes.get(key);
  writes.set(key, {
    kind: step.kind,
    before: earlier?.before ?? step.document,
    next: step.next,
    newFacts: [...(earlier?.newFacts ?? []), ...step.facts],
    resetFacts: step.resetFacts || (earlier?.resetFacts ?? false),
    isNew: earlier?.isNew ?? step.isNew,
  });
}

async function storeWrites(writes: Writes, kinds: ReadonlyMap<string, ActorKind>): Promise<void> {
  for (const kind of kinds.values()) {
    const ofKind = [...writes.values()].filter((write) => write.kind === kind.name);
    if (ofKind.length === 0) continue;
    if (!(await kind.store.write(ofKind)))
      throw new FencedError(`another writer has moved a ${kind.name} on`);
  }
}

/** Facts in the order of their ts, then the work. Ids make a repeat harmless. */
function toMessages(outbox: Entry[], subjects: BatchPorts['subjects']): Outgoing[] {
  const facts = outbox.flatMap(({ command: { project, id }, kind, facts: list, after }) =>
    list.map((fact, n) => {
      const message = toFactMessage(fact, kind, { project, id }, subjects);
      return { ts: fact.ts, message: { ...message, after: list[n - 1]?.ts ?? after } };
    }),
  );
  facts.sort((a, b) => a.ts - b.ts);
  const work = outbox.flatMap(({ command, kind, document, work: list }) =>
    list.map(({ seq, n, effect, params }) => ({
      subject: subjects.work(effect, command.project, command.kind, command.id),
      id: `${command.id}:${seq}:w${n}`,
      body: {
        kind: command.kind,
        id: command.id,
        project: command.project,
        effect,
        params,
        ...kind.workFields(document.machine),
      },
    })),
  );
  return [...facts.map(({ message }) => message), ...work];
}

function toFactMessage(
  { seq, n, ...fact }: StoredFact,
  kind: ActorKind,
  actor: { id: string; project: string },
  subjects: BatchPorts['subjects'],
): Outgoing {
  const body = kind.publishedFact(fact, actor);
  return {
    // Facts of a delivery are found with those of its asset; what belongs to no asset has its own id.
    subject: subjects.fact(actor.project, String(body['asset_id'] || actor.id), fact.event),
    id: `${actor.id}:${seq}:f${n}`,
    body,
  };
}

/**
 * They are loaded again for their next message. A former owner's write may arrive after this one has loaded its
 * document; when its message was lost with its stream, nothing else would tell.
 */
function forgetDoubtful(doubtful: ReadonlySet<string>, { documents }: BatchMemory): void {
  for (const key of doubtful) documents.delete(key);
}

/** Forgets what was set longest ago. */
function boundMap(map: Map<string, unknown>, maxSize: number): void {
  for (const key of map.keys()) {
    if (map.size <= maxSize) return;
    map.delete(key);
  }
}
