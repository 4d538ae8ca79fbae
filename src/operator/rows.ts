/** A machine as operators see it in a list: what it waits for, for how long, and what went wrong last. */
import type { MachineKind, MachineRow, MachineWait } from '../../schemas/operator-console.ts';
import type { StoredTimer } from '../store/actors.ts';
import type { MachineRecord } from '../store/operator-views.ts';
import { isForEndpoint } from './endpoints.ts';
import type { MachineTimes, StateTable } from './states.ts';
import { expectationOf, type Usual } from './usual.ts';

/** What of a context rows need; the fields of the other kind are missing. */
export type RowContext = {
  run?: number;
  requestId: string;
  attempt: number;
  stage?: string;
  job?: { provider: string; id: string } | null;
  error?: { code: string; message: string; hint: string | null; reason?: string } | null;
  costMicros?: number;
  assetId?: string | null;
  eventId?: string;
  eventType?: string;
  made?: number;
  code?: number | null;
  failure?: string | null;
};

export type RowParts = {
  table: StateTable;
  times: MachineTimes;
  usual: Usual;
  now: number;
  /** Whose endpoints the sender is at work on. */
  tried: { has(project: string): boolean };
};

export const contextOf = ({ machine }: Pick<MachineRecord, 'machine'>) =>
  machine.context as unknown as RowContext;

export const toIso = (ts: number) => new Date(ts).toISOString();

export function toRow(kind: MachineKind, record: MachineRecord, parts: RowParts): MachineRow {
  const { table, times, usual, now } = parts;
  const context = contextOf(record);
  const info = table[kind].get(record.state);
  const { expectedMs, usualMs } = info
    ? expectationOf(info, usual)
    : { expectedMs: undefined, usualMs: undefined };
  const inStateMs = Math.max(0, now - record.enteredTs);
  const deadline = deadlineOf(record.timers);
  return {
    kind,
    id: record._id,
    project_id: record.project,
    state: record.state,
    entered_at: toIso(record.enteredTs),
    in_state_ms: inStateMs,
    usual_ms: usualMs ?? null,
    expected_ms: expectedMs === undefined ? null : Math.round(expectedMs),
    is_stuck: expectedMs !== undefined && inStateMs >= expectedMs && !waitsForEndpoint(kind, record, parts),
    deadline_at: deadline === undefined ? null : toIso(deadline),
    waits_for: waitOf(record, info),
    attempt: context.attempt,
    max_attempts: kind === 'asset' ? times.pipeline.maxAttempts : times.webhook.maxAttempts,
    run: kind === 'asset' ? (context.run ?? null) : null,
    last_error: kind === 'asset' ? assetError(context) : deliveryError(context),
    next_wake_at: record.dueTs === null ? null : toIso(record.dueTs),
    request_id: context.requestId,
    prediction: context.job ? { provider: context.job.provider, id: context.job.id } : null,
    cost_micros: context.costMicros ?? null,
    event_type: context.eventType ?? null,
    event_id: context.eventId ?? null,
    asset_id: context.assetId ?? null,
    machine_version: record.machine.version,
    created_at: toIso(record.createdTs),
    updated_at: toIso(record.updatedTs),
  };
}

/** Behind others, at an endpoint that fails or is slow. */
const waitsForEndpoint = (kind: MachineKind, { state, project }: MachineRecord, { tried }: RowParts) =>
  isForEndpoint(kind, state) && tried.has(project);

function waitOf({ timers }: MachineRecord, info: { what: MachineWait['what']; text: string } | undefined) {
  if (!info) return { what: 'message' as const, text: 'a message', until: null };
  const { what, text } = info;
  const timer = what === 'timer' ? timers.find(({ id }) => id.includes('retryDelay')) : undefined;
  return { what, text, until: timer ? toIso(timer.at) : null };
}

/** When the machine itself ends the wait: a time limit, or that it has stalled. */
function deadlineOf(timers: readonly StoredTimer[]): number | undefined {
  const ends = timers
    .filter(({ id }) => !id.includes('retryDelay') && id !== 'reconcile')
    .map(({ at }) => at);
  return ends.length === 0 ? undefined : Math.min(...ends);
}

function assetError({ error }: RowContext): MachineRow['last_error'] {
  if (!error) return null;
  return { code: error.code, text: error.hint ?? error.message, reason: error.reason ?? null };
}

function deliveryError({ failure, code }: RowContext): MachineRow['last_error'] {
  if (!failure) return null;
  const text = typeof code === 'number' ? `the endpoint answered ${code}` : 'the endpoint did not answer';
  return { code: failure, text, reason: null };
}
