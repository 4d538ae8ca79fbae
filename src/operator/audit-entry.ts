/** An entry of the audit as operators see it. */
import type { AuditEntry } from '../../schemas/operator.ts';
import type { AuditEntry as AuditRecord } from '../store/audit.ts';

export function toEntry({ ts, byEmail, userId, target, requestId, ...entry }: AuditRecord): AuditEntry {
  return {
    id: entry.id,
    created_at: new Date(ts).toISOString(),
    by: entry.by,
    by_email: byEmail,
    action: entry.action,
    user_id: userId,
    target: target ?? null,
    before: entry.before,
    after: entry.after,
    request_id: requestId,
  };
}
