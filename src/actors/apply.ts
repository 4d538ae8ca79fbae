/**
 * Applies one message to one document: pure, the heart of the runtime.
 *
 * A message that the document has met before gives back its own outbox instead of applying twice (I2).
 */
import type { ActorDocument, StoredFact, StoredTimer, StoredWork } from '../store/actors.ts';
import type { ActorKind } from './kind.ts';
import { statePath } from './kind.ts';
import type { StepAction, TimerChange } from './step.ts';

export type Message = { type: string } & Record<string, unknown>;

/** The message that a due timer becomes; `armed` is the version that set it. */
export const timerMessage = 'TIMER';

export type Applied =
  /** Known already: publish this again. */
  | { outcome: 'repeated'; facts: StoredFact[]; work: StoredWork[] }
  /** It changes nothing, and there is nothing to publish. */
  | { outcome: 'ignored' }
  | { outcome: 'stepped'; next: ActorDocument; facts: StoredFact[]; work: StoredWork[]; resetFacts: boolean };

export type ApplyOptions = {
  seq: number;
  partition: number;
  /** Stamp for the step; its facts take ts, ts + 1, … */
  ts: number;
  /** Sequences up to here are published for good: work asked for by them can be forgotten. */
  passed: number;
};

export function applyMessage(
  kind: ActorKind,
  document: ActorDocument,
  message: Message,
  { seq, partition, ts, passed }: ApplyOptions,
): Applied {
  if (seq <= document.seq) {
    const caused = (entry: { seq: number }) => entry.seq === seq;
    return { outcome: 'repeated', facts: document.facts.filter(caused), work: document.work.filter(caused) };
  }
  const event = toEvent(document, message);
  if (event === undefined) return { outcome: 'ignored' };

  const before = current(kind, document);
  const { snapshot, actions, timers } = kind.stepper.step(before, { ...event, ts });
  const isTimer = message.type === timerMessage;
  const isUnchanged = snapshot.context === before.context && statePath(snapshot.value) === document.state;
  if (isUnchanged && actions.length === 0 && timers.length === 0 && !isTimer) return { outcome: 'ignored' };

  const version = document.version + 1;
  const facts = toFacts(actions, seq, ts);
  const work = toWork(actions, seq);
  const fired = isTimer ? String(message.timer) : undefined;
  const nextTimers = changeTimers(document.timers, timers, { ts, version, fired });
  const isErased = kind.isErased?.(snapshot) ?? false;
  const bounds = isErased || facts.some((fact) => kind.beginsRun(fact.event));
  const resetFacts = bounds && document.facts.length > 0;
  const countKept = isErased ? 0 : kind.earlierFactsKept;
  const kept = resetFacts ? earlierFacts(document.facts, countKept, passed) : document.facts;
  const state = statePath(snapshot.value);
  const next: ActorDocument = {
    ...document,
    partition,
    version,
    seq,
    machine: { version: kind.machineVersion, ...snapshot },
    state,
    enteredTs: state === document.state ? document.enteredTs : ts,
    timers: nextTimers,
    dueTs: earliest(nextTimers),
    facts: [...kept, ...facts],
    work: [...document.work.filter((entry) => entry.seq > passed), ...work],
    updatedTs: ts,
    index: kind.index(snapshot),
  };
  return { outcome: 'stepped', next, facts, work, resetFacts };
}

/** The event for the machine; undefined for a timer that was cancelled or set anew since. */
function toEvent(document: ActorDocument, message: Message): Message | undefined {
  if (message.type !== timerMessage) return message;
  return document.timers.find((timer) => timer.id === message.timer && timer.armed === message.armed)?.event;
}

/** A document that a later version of its machine has stored: nobody but that one may go on with it. */
export class LaterVersionError extends Error {
  override readonly name = 'LaterVersionError';
}

function current(kind: ActorKind, { _id, machine: { version, value, context } }: ActorDocument) {
  const stored = { value, context };
  if (version > kind.machineVersion) {
    throw new LaterVersionError(
      `${kind.name} ${_id} was stored by version ${version} of its machine, this is ${kind.machineVersion}`,
    );
  }
  return version === kind.machineVersion ? stored : kind.migrate(stored, version);
}

/** The newest facts of earlier runs, and those that may still have to be published again. */
function earlierFacts(facts: StoredFact[], count: number, passed: number): StoredFact[] {
  const from = facts.length - count;
  return facts.filter(({ seq }, place) => place >= from || seq > passed);
}

const recordAction = 'record';

function toFacts(actions: StepAction[], seq: number, ts: number): StoredFact[] {
  return actions
    .filter(({ type, params }) => type === recordAction && params !== undefined)
    .map(({ params }, n) => {
      const { delayMs, ...fields } = params as { event: string; delayMs?: number };
      const at = ts + n;
      return { seq, n, ts: at, ...fields, ...(delayMs === undefined ? {} : { next_at_ms: at + delayMs }) };
    });
}

function toWork(actions: StepAction[], seq: number): StoredWork[] {
  return actions
    .filter(({ type }) => type !== recordAction)
    .map(({ type, params }, n) => ({ seq, n, effect: type, params }));
}

function changeTimers(
  timers: StoredTimer[],
  changes: TimerChange[],
  { ts, version, fired }: { ts: number; version: number; fired: string | undefined },
): StoredTimer[] {
  let next = timers.filter(({ id }) => id !== fired);
  for (const change of changes) {
    const name = 'set' in change ? change.set : change.cancel;
    next = next.filter(({ id }) => id !== name);
    if ('set' in change)
      next.push({ id: name, at: ts + change.delayMs, armed: version, event: change.event });
  }
  return next;
}

function earliest(timers: StoredTimer[]): number | null {
  return timers.length === 0 ? null : Math.min(...timers.map(({ at }) => at));
}
