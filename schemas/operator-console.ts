/**
 * The operator console: machines as operators see them, what may be done to them one by one and in bulk, and how the
 * service is doing (decisions 10, Operator). Times are ISO 8601, durations ms.
 */
import { z } from 'zod';
import { ErrorCode } from './errors.ts';
import { operator as limits } from './limits.ts';
import { AuditEntry } from './operator.ts';

export const MachineKind = z.enum(['asset', 'delivery']);
export type MachineKind = z.infer<typeof MachineKind>;

const Time = z.string();
const Id = z.string().min(1).max(128);
const Limit = z.coerce.number().int().min(1).max(limits.maxListed).optional();
const Cursor = z.string().max(256).optional();

// ── Machines ────────────────────────────────────────────────────────────────────────────────────

/** What a machine waits for. `slot`: a place at a worker. `until` is there for a timer. */
export const MachineWait = z.object({
  what: z.enum(['message', 'slot', 'worker', 'provider', 'endpoint', 'timer', 'nothing']),
  text: z.string(),
  until: Time.nullable(),
});
export type MachineWait = z.infer<typeof MachineWait>;

export const MachineRow = z.object({
  kind: MachineKind,
  id: z.string(),
  project_id: z.string(),
  state: z.string(),
  entered_at: Time,
  in_state_ms: z.int(),
  /** What 95 of 100 take for it; null where too few were seen. */
  usual_ms: z.int().nullable(),
  /** Longer than this is stuck; null in states that are an end. */
  expected_ms: z.int().nullable(),
  is_stuck: z.boolean(),
  /** When the machine itself ends the wait. */
  deadline_at: Time.nullable(),
  waits_for: MachineWait,
  attempt: z.int(),
  max_attempts: z.int(),
  run: z.int().nullable(),
  last_error: z
    .object({
      code: z.string(),
      text: z.string(),
      /** Log text: what the other side has said. */
      reason: z.string().nullable(),
    })
    .nullable(),
  next_wake_at: Time.nullable(),
  request_id: z.string(),
  prediction: z.object({ provider: z.string(), id: z.string() }).nullable(),
  cost_micros: z.int().nullable(),
  /** Of a delivery. */
  event_type: z.string().nullable(),
  event_id: z.string().nullable(),
  asset_id: z.string().nullable(),
  machine_version: z.int(),
  created_at: Time,
  updated_at: Time,
});
export type MachineRow = z.infer<typeof MachineRow>;

/** A filter as it stands in an address: everything that is named must be so. */
export const MachineFilterQuery = z.object({
  kind: MachineKind.optional(),
  /** A leaf state such as `pending.stage1.waiting`, all states below one (`pending`, `pending.stage1`), or `active`. */
  state: z.string().min(1).max(100).optional(),
  /** At this attempt or a later one. */
  attempt: z.coerce.number().int().min(2).max(20).optional(),
  /** Code of the last error; of a delivery, its last failure. */
  error: z.string().min(1).max(64).optional(),
  project: Id.optional(),
  user: Id.optional(),
  provider: z.string().min(1).max(64).optional(),
  version: z.coerce.number().int().min(0).max(1_000_000).optional(),
  /** Longer in its state than is expected of it. */
  stuck: z.enum(['true']).optional(),
});
export type MachineFilterQuery = z.infer<typeof MachineFilterQuery>;

export const MachinesQuery = MachineFilterQuery.extend({ limit: Limit, cursor: Cursor });

export const MachineList = z.object({
  machines: z.array(MachineRow),
  next_cursor: z.string().nullable(),
  as_of: Time,
});
export type MachineList = z.infer<typeof MachineList>;

// ── Actions ─────────────────────────────────────────────────────────────────────────────────────

export const MachineAction = z.enum(['retry', 'retry_from', 'cancel', 'fail', 'redeliver']);
export type MachineAction = z.infer<typeof MachineAction>;

/** `source`: everything anew. `clip`: what vision said is kept. */
export const RetryStage = z.enum(['source', 'clip']);
export type RetryStage = z.infer<typeof RetryStage>;

const actionFields = {
  action: MachineAction,
  /** For `retry_from`. */
  from: RetryStage.optional(),
  /** For `fail`: the owner reads it. */
  reason: z.string().trim().min(1).max(limits.reasonMaxChars).optional(),
  error_code: ErrorCode.optional(),
};
type Asked = { action: MachineAction; from?: RetryStage | undefined; reason?: string | undefined };
const isWhole = ({ action, from, reason }: Asked) =>
  (action !== 'retry_from' || from !== undefined) && (action !== 'fail' || reason !== undefined);
const notWhole = { message: 'retry_from needs from, fail needs reason', path: ['action'] };

export const MachineActionRequest = z.object(actionFields).refine(isWhole, notWhole);
export type MachineActionRequest = z.infer<typeof MachineActionRequest>;

/** An action that may be taken now, or why it may not; and what it will do. */
export const PossibleAction = z.object({
  action: MachineAction,
  from: RetryStage.nullable(),
  is_possible: z.boolean(),
  will: z.string(),
});
export type PossibleAction = z.infer<typeof PossibleAction>;

export const MachineResponse = z.object({ machine: MachineRow });

// ── The whole machine ───────────────────────────────────────────────────────────────────────────

export const MachineTimer = z.object({ id: z.string(), at: Time, text: z.string() });
export const MachinePrediction = z.object({
  run: z.int(),
  stage: z.string(),
  attempt: z.int(),
  provider: z.string(),
  prediction_id: z.string().nullable(),
  state: z.enum(['submitting', 'bought', 'refused', 'givenUp']),
  began_at: Time,
  /** It was heard of after it was given up. */
  is_late: z.boolean(),
  is_over: z.boolean(),
  cost_micros: z.int().nullable(),
});
export type MachinePrediction = z.infer<typeof MachinePrediction>;

/** Somebody at a worker: at work, or waiting for a slot. */
export const SlotHolder = z.object({ id: z.string(), project_id: z.string(), effect: z.string() });

/** Why a machine that waits for a slot has not started. `place` counts from 1. */
export const NotStarted = z.object({
  text: z.string(),
  slot: z.string().nullable(),
  place: z.int().nullable(),
  waiting: z.int(),
  /** Which limit holds it. */
  limit: z
    .enum(['no_worker', 'all_slots', 'project', 'provider_gate', 'endpoint', 'not_queued', 'at_work'])
    .nullable(),
  capacity: z.int().nullable(),
  holders: z.array(SlotHolder),
});
export type NotStarted = z.infer<typeof NotStarted>;

/** One thing that happened, with the fields that its event has. `ts` is unix ms, as in timelines. */
export const HistoryEvent = z.looseObject({ event: z.string(), ts: z.int() });
export type HistoryEvent = z.infer<typeof HistoryEvent>;

export const MachineDetail = z.object({
  machine: MachineRow,
  as_of: Time,
  /** The stored snapshot and everything beside it; secrets and the signatures of URLs are taken out. */
  snapshot: z.unknown(),
  timers: z.array(MachineTimer),
  /** Work asked for by messages that its partition has not passed yet. */
  outbox: z.array(z.object({ effect: z.string(), seq: z.int() })),
  history: z.array(HistoryEvent),
  predictions: z.array(MachinePrediction),
  /** Of an asset: the newest deliveries of its events. */
  deliveries: z.array(MachineRow),
  partition: z.object({
    id: z.int(),
    owner: z.string().nullable(),
    position: z.int(),
    applied: z.int(),
  }),
  project: z.object({ id: z.string(), name: z.string() }).nullable(),
  user: z.object({ id: z.string(), email: z.string() }).nullable(),
  not_started: NotStarted.nullable(),
  actions: z.array(PossibleAction),
  audit: z.array(AuditEntry),
});
export type MachineDetail = z.infer<typeof MachineDetail>;

// ── Overview ────────────────────────────────────────────────────────────────────────────────────

export const Verdict = z.enum(['ok', 'trouble', 'unknown']);
export type Verdict = z.infer<typeof Verdict>;

/** The three questions: does work move, does what starts succeed, is what is known of it fresh. */
export const HealthVerdict = z.object({
  verdict: Verdict,
  /** Why, in a sentence. */
  text: z.string(),
  moving: z.object({ verdict: Verdict, text: z.string() }),
  succeeding: z.object({ verdict: Verdict, text: z.string() }),
  fresh: z.object({ verdict: Verdict, text: z.string() }),
});
export type HealthVerdict = z.infer<typeof HealthVerdict>;

export const StateCount = z.object({
  state: z.string(),
  count: z.int(),
  oldest_entered_at: Time.nullable(),
  /** At their second attempt or a later one. */
  later_attempts: z.int(),
  is_stuck: z.int(),
  expected_ms: z.int().nullable(),
});
export type StateCount = z.infer<typeof StateCount>;

export const MachineCounts = z.object({
  kind: MachineKind,
  states: z.array(StateCount),
  active: z.int(),
  waiting_for_retry: z.int(),
  later_attempts: z.int(),
  stuck: z.int(),
  /** Longer in their state than expected, because endpoints of customers fail or are slow; not among the stuck. */
  waiting_for_endpoints: z.object({ endpoints: z.int(), deliveries: z.int() }),
  machine_version: z.int(),
  /** Versions that documents were stored by: older ones are migrated when they are next loaded. */
  versions: z.array(z.int()),
});
export type MachineCounts = z.infer<typeof MachineCounts>;

export const Overview = z.object({
  as_of: Time,
  health: HealthVerdict,
  machines: z.array(MachineCounts),
  workers: z.array(z.object({ id: z.string(), heard_at: Time, threads: z.int(), waiting: z.int() })),
});
export type Overview = z.infer<typeof Overview>;

// ── Search, requests ────────────────────────────────────────────────────────────────────────────

export const SearchQuery = z.object({
  q: z
    .string()
    .trim()
    .min(1)
    .max(limits.searchMaxChars)
    .regex(/^[^\0]*$/),
});

export const Found = z.object({
  type: z.enum(['asset', 'delivery', 'event', 'project', 'user', 'request', 'prediction', 'bulk']),
  id: z.string(),
  text: z.string(),
  /** Its page. */
  page: z.string(),
});
export type Found = z.infer<typeof Found>;
export const FoundList = z.object({ found: z.array(Found) });
export type FoundList = z.infer<typeof FoundList>;

/** Everything that one request has caused. */
export const RequestPage = z.object({
  request_id: z.string(),
  as_of: Time,
  machines: z.array(MachineRow),
  predictions: z.array(MachinePrediction.extend({ asset_id: z.string() })),
  /** In order of time. */
  events: z.array(HistoryEvent),
  audit: z.array(AuditEntry),
});
export type RequestPage = z.infer<typeof RequestPage>;

// ── Partitions, streams, workers ────────────────────────────────────────────────────────────────

export const PartitionList = z.object({
  as_of: Time,
  last_command: z.int(),
  partitions: z.array(
    z.object({
      id: z.int(),
      owner: z.string().nullable(),
      epoch: z.int(),
      position: z.int(),
      /** Sequence of its last command; above the position, something waits. */
      last: z.int(),
      is_behind: z.boolean(),
    }),
  ),
});
export type PartitionList = z.infer<typeof PartitionList>;

export const StreamList = z.object({
  as_of: Time,
  streams: z.array(
    z.object({
      name: z.string(),
      messages: z.int(),
      bytes: z.int(),
      first: z.int(),
      last: z.int(),
      replicas: z.int(),
      consumers: z.array(
        z.object({
          name: z.string(),
          /** Not delivered yet, delivered and not acknowledged, delivered more than once. */
          pending: z.int(),
          unacknowledged: z.int(),
          redelivered: z.int(),
        }),
      ),
    }),
  ),
});
export type StreamList = z.infer<typeof StreamList>;

/** What a worker says of its slots when it is asked. */
export const WorkerLook = z.object({
  worker: z.string(),
  slots: z.array(
    z.object({
      slot: z.string(),
      capacity: z.int(),
      running: z.array(SlotHolder),
      /** In the order of their turns, the first ones; `waits` is how many there are. */
      waiting: z.array(SlotHolder.extend({ per_project: z.int() })),
      waits: z.int(),
    }),
  ),
});
export type WorkerLook = z.infer<typeof WorkerLook>;

export const WorkerList = z.object({
  as_of: Time,
  /** Workers that were heard of and have not answered. */
  silent: z.array(z.string()),
  workers: z.array(WorkerLook),
});
export type WorkerList = z.infer<typeof WorkerList>;

// ── In bulk ─────────────────────────────────────────────────────────────────────────────────────

export const BulkPreviewRequest = z
  .object({ filter: MachineFilterQuery, ...actionFields })
  .refine(isWhole, notWhole);
export type BulkPreviewRequest = z.infer<typeof BulkPreviewRequest>;

/** What would be done, to how many, and some of them. The token starts exactly this. */
export const BulkPreview = z.object({
  token: z.string(),
  expires_at: Time,
  kind: MachineKind,
  action: MachineAction,
  will: z.string(),
  count: z.int(),
  /** There are more than were counted. */
  is_more: z.boolean(),
  sample: z.array(MachineRow),
});
export type BulkPreview = z.infer<typeof BulkPreview>;

export const BulkStartRequest = z.object({ token: Id });

export const BulkJob = z.object({
  id: z.string(),
  kind: MachineKind,
  filter: z.record(z.string(), z.string()),
  action: MachineAction,
  from: RetryStage.nullable(),
  reason: z.string().nullable(),
  by_email: z.string().nullable(),
  state: z.enum(['running', 'done', 'cancelled']),
  created_at: Time,
  started_at: Time.nullable(),
  ended_at: Time.nullable(),
  /** As counted at the preview. */
  count: z.int(),
  told: z.int(),
  /** They had moved on, and were left alone. */
  passed: z.int(),
});
export type BulkJob = z.infer<typeof BulkJob>;
export const BulkJobResponse = z.object({
  job: BulkJob,
  /** Newest first. */
  log: z.array(z.object({ at: Time, id: z.string(), outcome: z.string() })),
});
export type BulkJobResponse = z.infer<typeof BulkJobResponse>;
export const BulkJobList = z.object({ jobs: z.array(BulkJob) });
export type BulkJobList = z.infer<typeof BulkJobList>;
