/** What operators see and change of accounts (decisions 7, Changing plans; decisions 10, Operator). */
import { z } from 'zod';
import { account, operator as limits } from './limits.ts';
import { PlanName } from './plans.ts';

/** An account in a list. Times are ISO 8601. */
export const OperatorUserSummary = z.object({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  email_verified: z.boolean(),
  plan: PlanName,
  /** Day of the month on which a paid plan's months begin. */
  billing_day: z.int().nullable(),
  /** Runs of the present month. */
  used: z.int(),
  reset_at: z.string().nullable(),
  created_at: z.string(),
});
export type OperatorUserSummary = z.infer<typeof OperatorUserSummary>;

export const OperatorUser = OperatorUserSummary.extend({
  /** false: it signs in elsewhere only. */
  has_password: z.boolean(),
  /** Runs that the plan includes. */
  limit: z.int(),
  overage_runs: z.int(),
  overage_cents: z.int(),
  /** Counted runs that have not begun yet. */
  holds: z.int(),
  sessions: z.int(),
  projects: z.int(),
});
export type OperatorUser = z.infer<typeof OperatorUser>;

export const OperatorUserResponse = z.object({ user: OperatorUser });
export const OperatorUserList = z.object({
  users: z.array(OperatorUserSummary),
  next_cursor: z.string().nullable(),
});

const Limit = z.coerce.number().int().min(1).max(limits.maxListed).optional();
const Cursor = z.string().max(128).optional();

/** `email`: the whole one. `q`: part of the e-mail or the name, in any case. */
export const OperatorUsersQuery = z.object({
  email: z.string().trim().toLowerCase().min(1).max(account.emailMaxChars).optional(),
  // The store keeps no NUL, and cannot look for one.
  q: z
    .string()
    .trim()
    .min(1)
    .max(limits.searchMaxChars)
    .regex(/^[^\0]*$/)
    .optional(),
  limit: Limit,
  cursor: Cursor,
});

export const BillingDay = z.int().min(1).max(limits.lastBillingDay);

/** `billing_day`: today's, in UTC, when a paid plan comes without one; free has none. */
export const PlanChangeRequest = z.object({ plan: PlanName, billing_day: BillingDay.optional() });
export type PlanChangeRequest = z.infer<typeof PlanChangeRequest>;

/** Runs of the present month, as they shall be counted: 0 gives all of them again. */
export const QuotaChangeRequest = z.object({ used: z.int().min(0).max(limits.maxUsed) });

/** A mail that the development mailbox keeps. */
export const MailboxEntry = z.object({
  id: z.string(),
  created_at: z.string(),
  to: z.string(),
  subject: z.string(),
  text: z.string(),
  html: z.string(),
});
export type MailboxEntry = z.infer<typeof MailboxEntry>;
export const Mailbox = z.object({ mails: z.array(MailboxEntry) });
export const MailboxQuery = z.object({ limit: Limit });

/** `by`: the id of the operator's account, or `cli`. `before` and `after`: the fields that were changed. */
export const AuditEntry = z.object({
  id: z.string(),
  created_at: z.string(),
  by: z.string(),
  by_email: z.string().nullable(),
  action: z.enum([
    ...(['user.plan', 'user.quota', 'user.sessions', 'secrets.rotate'] as const),
    ...(['machine.retry', 'machine.retry_from', 'machine.cancel', 'machine.fail'] as const),
    ...(['machine.redeliver', 'bulk.start', 'bulk.cancel'] as const),
  ]),
  user_id: z.string().nullable(),
  /** The machine or bulk job that it is about. */
  target: z.string().nullable(),
  before: z.record(z.string(), z.unknown()),
  after: z.record(z.string(), z.unknown()),
  request_id: z.string().nullable(),
});
export type AuditEntry = z.infer<typeof AuditEntry>;

export const AuditQuery = z.object({
  user_id: z.string().min(1).max(64).optional(),
  limit: Limit,
  cursor: Cursor,
});
export const AuditList = z.object({ entries: z.array(AuditEntry), next_cursor: z.string().nullable() });

/** How a model provider is doing. `failing`: it is asked last until then; `paused`: it has asked for a pause. */
export const ProviderStatus = z.object({
  name: z.string(),
  state: z.enum(['ok', 'paused', 'failing']),
  /** Predictions under way, and how many there may be. */
  running: z.int(),
  concurrent: z.int(),
  submits_last_minute: z.int(),
  submits_per_minute: z.int(),
  paused_until: z.string().nullable(),
  asked_last_until: z.string().nullable(),
  failures_in_a_row: z.int(),
  last_failure: z.object({ at: z.string(), reason: z.string() }).nullable(),
  last_success_at: z.string().nullable(),
  /** Predictions bought in the last hour, and what is known of their price in millionths of a dollar. */
  predictions_last_hour: z.int(),
  cost_last_hour_micros: z.int(),
});
export type ProviderStatus = z.infer<typeof ProviderStatus>;

/** In the order in which they are asked for clips. */
export const ProviderStatusList = z.object({ providers: z.array(ProviderStatus) });
