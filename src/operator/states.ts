/**
 * The states of both machines, read from the machines themselves, with what an operator wants to know of each: what is
 * waited for in it, and how long that may take.
 */
import { createAssetMachine, type PipelineTimes } from '../../machines/asset.ts';
import { createDeliveryMachine, type DeliveryTimes } from '../../machines/delivery.ts';
import { operator as limits, pipeline, provider, webhook } from '../../schemas/limits.ts';
import type { MachineKind, MachineWait } from '../../schemas/operator-console.ts';

type Waits = { what: MachineWait['what']; text: string };
/** `ms` undefined: the state is an end, and nothing is expected of it. `stage`: what its duration is measured by. */
export type StateInfo = Waits & { ms: number | undefined; stage?: string };

export type StateTable = Record<MachineKind, ReadonlyMap<string, StateInfo>>;

/** Times of this installation (decisions 10). */
export type MachineTimes = { pipeline: PipelineTimes; webhook: DeliveryTimes & { timeoutMs: number } };

export function createStateTable(times: MachineTimes): StateTable {
  const of = (machine: { root: StateNode }, info: (state: string) => StateInfo) =>
    new Map([...leavesOf(machine.root)].map((state) => [state, info(state)]));
  return {
    asset: of(createAssetMachine(times.pipeline), (state) => assetState(state, times.pipeline)),
    delivery: of(createDeliveryMachine(times.webhook), (state) => deliveryState(state, times.webhook)),
  };
}

/** Leaf states of a kind that a filter's word means; none for a word that is no state. */
export function statesOf(table: StateTable, kind: MachineKind, word: string | undefined): string[] {
  const all = [...table[kind].keys()];
  if (word === undefined) return all;
  if (word === 'active') return activeStates(table, kind);
  return all.filter((state) => state === word || state.startsWith(`${word}.`));
}

/** States that are no end. */
export function activeStates(table: StateTable, kind: MachineKind): string[] {
  return [...table[kind]].filter(([, { ms }]) => ms !== undefined).map(([state]) => state);
}

export const isRetrying = (state: string) => state === 'retrying' || state.endsWith('.retrying');

type StateNode = { states: Record<string, StateNode> };

function* leavesOf({ states }: StateNode, path: string[] = []): Generator<string> {
  const inner = Object.entries(states);
  if (inner.length === 0) yield path.join('.');
  for (const [name, node] of inner) yield* leavesOf(node, [...path, name]);
}

// ── Assets ──────────────────────────────────────────────────────────────────────────────────────

/** START is sent again by the sweeper until it has arrived. */
const startMs = 10_000;
/** A timer fires, and its command is applied, within this. */
const firedMs = 10_000;

function assetState(state: string, times: PipelineTimes): StateInfo {
  if (state === 'new') return { what: 'message', text: 'its first message', ms: startMs };
  const [, stage = '', step = ''] = state.split('.');
  if (step === '') return { what: 'nothing', text: 'nothing: it has ended', ms: undefined };
  if (step === 'retrying') {
    // A provider may ask for a longer pause than the schedule has.
    const longestMs = Math.max(...times.backoffMs, provider.maxRetryAfterMs);
    return { what: 'timer', text: 'the time of its next attempt', ms: longestMs + firedMs };
  }
  return { ...stepInfo(stage, step, times), stage: `${stage}.${step}` };
}

function stepInfo(stage: string, step: string, times: PipelineTimes): Waits & { ms: number } {
  const steps: Record<string, Waits & { ms: number }> = {
    fetching: {
      what: 'slot',
      text: 'a worker to fetch the source',
      ms: limits.slotMs + pipeline.fetchTimeoutMs,
    },
    asked: { what: 'slot', text: `a worker for ${stage}`, ms: limits.slotMs },
    describing: { what: 'provider', text: 'the description of the source', ms: times.visionTimeoutMs },
    submitting: {
      what: 'slot',
      text: 'a worker, and room at the provider',
      ms: limits.slotMs + provider.submitMs,
    },
    waiting: { what: 'provider', text: 'the provider’s prediction', ms: times.videoTimeoutMs },
    copying: { what: 'worker', text: 'the copy of the provider’s output', ms: times.videoTimeoutMs },
    merging: { what: 'worker', text: 'the closed loop', ms: times.mergeTimeoutMs },
    writing: {
      what: 'slot',
      text: 'a worker to store the files',
      ms: limits.slotMs + pipeline.storeWriteTimeoutMs,
    },
  };
  return steps[step] ?? { what: 'message', text: 'a message', ms: limits.slotMs };
}

// ── Deliveries ──────────────────────────────────────────────────────────────────────────────────

function deliveryState(state: string, times: MachineTimes['webhook']): StateInfo {
  const longestMs = Math.max(...times.scheduleMs.slice(0, times.maxAttempts)) * (1 + webhook.maxLengthening);
  const table: Record<string, StateInfo> = {
    pending: { what: 'message', text: 'its first message', ms: startMs },
    sending: {
      what: 'endpoint',
      text: 'its turn at the endpoint, or the answer',
      ms: limits.slotMs + times.timeoutMs,
    },
    retrying: { what: 'timer', text: 'the time of its next attempt', ms: longestMs + firedMs },
  };
  return table[state] ?? { what: 'nothing', text: 'nothing: it has ended', ms: undefined };
}
