/** A kind of actor: its machine and what the runtime must know to drive it. The runtime knows nothing else. */
import type { ActorDocument, ActorStore } from '../store/actors.ts';
import type { Stepper, StoredSnapshot } from './step.ts';

/** What of a store the runtime uses, so that tests can hand in one that lives in memory. */
export type ActorStorePort = Pick<ActorStore, 'load' | 'write' | 'due' | 'unstarted' | 'touchedSince'>;

export type ActorKind = {
  /** Token of the command's subject: `asset`. */
  name: string;
  stepper: Stepper;
  machineVersion: number;
  /** Leads a snapshot of an older machine version to the present one. Pure. */
  migrate(snapshot: StoredSnapshot, fromVersion: number): StoredSnapshot;
  store: ActorStorePort;
  /** First message of a document at version 0, sent again by the sweeper. */
  startMessage: { type: string };
  /** Makes one that waits ask for its work again; for when the messages under way are lost. */
  lostMessage?: { type: string };
  /** A fact as published, from what `record` noted. */
  publishedFact(
    fact: Record<string, unknown>,
    actor: { id: string; project: string },
  ): Record<string, unknown>;
  /** Fields that queries need, from the new context. */
  index(snapshot: StoredSnapshot): Record<string, unknown>;
  /** Whether a fact begins a run: earlier runs' facts are then bounded. */
  beginsRun(event: string): boolean;
  /** Whether nothing may be kept of the actor: its facts then go as soon as they are published for good. */
  isErased?(snapshot: StoredSnapshot): boolean;
  /** Earlier runs' facts that stay. */
  earlierFactsKept: number;
  /** Makes the document that a command is for and that is not there yet; without it such commands are passed. */
  create?(
    message: { type: string } & Record<string, unknown>,
    actor: { id: string; project: string; ts: number },
  ): ActorDocument | undefined;
  /** Told of every document when its step is stored; its facts may not be published yet. */
  onStored?(document: ActorDocument): void;
  /** Fields that work carries beside its parameters: plan and age (unix ms) for slots, request id for logs. */
  workFields(snapshot: StoredSnapshot): { plan: string; since: number; requestId: string };
};

/** A document that waits for its first message. */
export function newDocument(
  kind: Pick<ActorKind, 'stepper' | 'machineVersion' | 'index'>,
  { id, project, input, ts }: { id: string; project: string; input: unknown; ts: number },
): ActorDocument {
  const { snapshot } = kind.stepper.initial(input);
  return {
    _id: id,
    project,
    partition: -1,
    version: 0,
    seq: 0,
    machine: { version: kind.machineVersion, ...snapshot },
    state: statePath(snapshot.value),
    enteredTs: ts,
    timers: [],
    dueTs: null,
    facts: [],
    work: [],
    createdTs: ts,
    updatedTs: ts,
    index: kind.index(snapshot),
  };
}

/** State value as a path: `{pending: {vision: 'asked'}}` is `pending.vision.asked`. */
export function statePath(value: unknown): string {
  if (typeof value === 'string') return value;
  return Object.entries(value as Record<string, unknown>)
    .map(([name, inner]) => `${name}.${statePath(inner)}`)
    .join('|');
}
