/**
 * Watches everything that is stored and published, and says what breaks an invariant (architecture 2).
 *
 *   I1  what is published is stored, and what is stored stays as it was
 *   I2  no position passes what is not published; nothing is applied twice or left out
 *   I3  messages apply in stream order; within a project facts are published in the order of ts
 *   I4  no write goes back behind another
 *   I6  results and timers of a former attempt change nothing, and nothing happens before its time
 *   I7  one terminal fact for each run
 *   I8  one delivery for each event and endpoint, with the same bytes on every attempt
 *
 * I5 is what makes a history repeatable; I9 and I10 are no matter of order, but for the bounds of queues.
 */
import type { Outgoing } from '../bus/publisher.ts';
import type { ActorDocument, ActorWrite, StoredFact } from '../store/actors.ts';
import type { PartitionRecord } from '../store/partitions.ts';
import type { LoggedCommand } from './model-bus.ts';
import { checkFact, type RunNotes } from './run-rules.ts';
import { tallyKind } from './tally.ts';
import type { World } from './world.ts';

type Entry = { seq: number; partition: number; ts: number; project: string; isPublished: boolean };

/** Facts of one step carry ts, ts + 1, …: so much earlier than they a timer of the same step may be due. */
const sameStepMs = 5;

export type Audit = ReturnType<typeof createAudit>;

/** @param toleranceMs how far two clocks may be apart in this history. */
export function createAudit(world: World, { toleranceMs }: { toleranceMs: number }) {
  const entries = new Map<string, Entry>();
  const waiting = new Map<string, Entry>();
  const facts: { kind: string; project: string; id: string; fact: StoredFact }[] = [];
  const stamps = new Set<string>();
  const lastPublished = new Map<string, number>();
  const runs = new Map<string, RunNotes>();
  const tallied = new Map<string, { seq: number; tag: unknown; isOptional: boolean }[]>();
  const payloads = new Map<string, string>();
  const retryAt = new Map<string, number>();
  /** Sequences up to here belong to streams that are gone: what of them was not published yet need not be. */
  let lostUpTo = 0;
  const tolerance = toleranceMs + sameStepMs;

  /**
   * The last ts of a project is known by what is read again: when that is lost with the streams, an owner whose clock
   * is behind does not know it.
   */
  const isOrderUnknown = () => lostUpTo > 0 && toleranceMs > 0;

  const note = (key: string, entry: Entry): void => {
    if (entries.has(key)) world.fail('I2', `${key} was stored twice: its message has applied twice`);
    entries.set(key, entry);
    waiting.set(key, entry);
  };

  const noteFact = (kind: string, { _id, project, partition }: ActorDocument, fact: StoredFact): void => {
    const { seq, n, ts } = fact;
    note(`${_id}:${seq}:f${n}`, { seq, partition, ts, project, isPublished: false });
    const stamp = `${project} ${ts}`;
    if (stamps.has(stamp) && !isOrderUnknown())
      world.fail('I3', `two facts of ${project} have ts ${ts}, the second is ${fact.event} of ${_id}`);
    stamps.add(stamp);
    facts.push({ kind, project, id: _id, fact });
    if (kind === 'asset') {
      const wrong = checkFact(runs, _id, fact, tolerance);
      if (wrong) world.fail(wrong.invariant, `${_id}: ${wrong.text}`);
    }
    if (fact.event === 'webhook_failed') retryAt.set(_id, Number(fact.next_at_ms));
  };

  const noteOutbox = (kind: string, { newFacts, next }: ActorWrite, seqBefore: number): void => {
    const { _id, partition, project } = next;
    for (const fact of newFacts) noteFact(kind, next, fact);
    for (const { seq, n } of next.work) {
      if (seq > seqBefore)
        note(`${_id}:${seq}:w${n}`, { seq, partition, ts: 0, project, isPublished: false });
    }
  };

  const checkOrder = (found: ActorDocument, stored: ActorDocument): void => {
    const { _id, version, seq } = stored;
    if (version <= found.version)
      world.fail('I4', `${_id} is stored at version ${version} over ${found.version}`);
    else if (seq <= found.seq) world.fail('I4', `${_id} is stored with message ${seq} over ${found.seq}`);
  };

  /** What the owner holds is what the store holds, and nothing that was stored has changed. */
  const checkFacts = (found: ActorDocument, stored: ActorDocument, write: ActorWrite): void => {
    const { _id } = stored;
    if (!write.resetFacts && write.next.facts.length !== stored.facts.length)
      world.fail(
        'I1',
        `${_id} has ${stored.facts.length} facts, its owner believes ${write.next.facts.length}`,
      );
    const before = new Map(found.facts.map((fact) => [`${fact.seq}:${fact.n}`, fact]));
    for (const fact of stored.facts) {
      const known = before.get(`${fact.seq}:${fact.n}`);
      if (known && (known.ts !== fact.ts || known.event !== fact.event))
        world.fail('I1', `${_id}: a stored ${known.event} has become ${fact.event} with ts ${fact.ts}`);
    }
  };

  const checkRetry = (found: ActorDocument, { _id, state, updatedTs }: ActorDocument): void => {
    const at = retryAt.get(_id) ?? 0;
    if (found.state === 'retrying' && state === 'sending' && updatedTs + tolerance < at)
      world.fail('I6', `${_id} is sent again ${at - updatedTs} ms before its time`);
  };

  const checkAfter = ({ id, after }: Outgoing, { project }: Entry): void => {
    if (typeof after === 'number' && !stamps.has(`${project} ${after}`))
      world.fail('I3', `${id} says to come after a fact with ts ${after}, which there is not`);
  };

  return {
    onWrite(kind: string, found: ActorDocument | undefined, stored: ActorDocument, write: ActorWrite): void {
      const { _id, version, seq, state, timers, dueTs } = stored;
      world.note(`${kind} ${_id} v${version} #${seq} ${state}`);
      if (found) {
        checkOrder(found, stored);
        checkFacts(found, stored, write);
        if (kind === 'delivery') checkRetry(found, stored);
      }
      const earliest = timers.length === 0 ? null : Math.min(...timers.map(({ at }) => at));
      if (dueTs !== earliest) world.fail('I1', `${_id} is due at ${dueTs}, its timers at ${earliest}`);
      noteOutbox(kind, write, found?.seq ?? 0);
    },

    onMove({ _id }: PartitionRecord, position: number): void {
      world.note(`position of ${_id} ${position}`);
      for (const [key, { partition, seq }] of waiting) {
        if (partition === _id && seq <= position && seq > lostUpTo)
          world.fail('I2', `the position of ${_id} passes ${seq}, but ${key} is not published`);
      }
    },

    onFact(message: Outgoing, isAgain: boolean): void {
      const { id, body } = message;
      const entry = entries.get(id);
      const { ts } = body as { ts: number };
      if (!entry || entry.ts !== ts) {
        world.fail(
          'I1',
          `${id} is published with ts ${ts}, stored ${entry ? `with ${entry.ts}` : 'nowhere'}`,
        );
        return;
      }
      waiting.delete(id);
      checkAfter(message, entry);
      if (entry.isPublished || isAgain) return;
      entry.isPublished = true;
      const last = lastPublished.get(entry.project) ?? 0;
      if (ts <= last && entry.seq > lostUpTo && !isOrderUnknown())
        world.fail('I3', `${id} of ${entry.project} is published with ts ${ts} after ${last}`);
      lastPublished.set(entry.project, Math.max(last, ts));
    },

    onWork({ id }: Outgoing): void {
      if (!entries.has(id)) world.fail('I1', `work ${id} is published and not stored`);
      waiting.delete(id);
    },

    onCommand({ kind, id, seq, text }: LoggedCommand): void {
      if (kind !== tallyKind) return;
      const log = tallied.get(id) ?? [];
      const { type, tag } = JSON.parse(text) as { type: string; tag: number };
      if (type !== 'COUNT') return;
      tallied.set(id, [...log, { seq, tag, isOptional: false }]);
    },

    /** What had not been applied yet may be lost. */
    onStreamsLost(lastSeq: number, find: (id: string) => ActorDocument | undefined): void {
      lostUpTo = lastSeq;
      for (const [id, log] of tallied) {
        const applied = find(id)?.seq ?? 0;
        for (const one of log) if (one.seq > applied) one.isOptional = true;
      }
    },

    /** A webhook arrives at its receiver. */
    onReceived(eventId: string, payload: string): void {
      const before = payloads.get(eventId) ?? payload;
      payloads.set(eventId, payload);
      if (before !== payload) world.fail('I8', `${eventId} is sent with other bytes than before`);
    },

    /** How much is stored and not published. */
    waiting: () => [...waiting.values()].filter(({ seq }) => seq > lostUpTo).length,
    facts: () => facts,
    runs: () => runs,
    lostUpTo: () => lostUpTo,

    /** Whether every message of a tally has applied, once and in order. Answers what is wrong. */
    judgeTally({ _id, facts: counted }: ActorDocument): string | undefined {
      const got = counted.map(({ seq, tag }) => `${tag}#${seq}`);
      const wanted = (tallied.get(_id) ?? [])
        .map(({ seq, tag, isOptional }) => ({ name: `${tag}#${seq}`, isOptional }))
        .filter(({ name, isOptional }) => !isOptional || got.includes(name))
        .map(({ name }) => name);
      return got.join() === wanted.join() ? undefined : `${_id} has counted ${got}, was sent ${wanted}`;
    },
  };
}
