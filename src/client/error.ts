/** What a call of the client fails with: one class, told apart by `code`. */
import type { ApiErrorCode, ErrorCode } from '../../schemas/errors.ts';

/**
 * `unreachable`: no answer came. `timeout`: none came in time. `invalid_answer`: something else than the service has
 * answered. All others are codes of the service: of an answer, or of a run that `waitFor` has seen fail (`cancelled`
 * when somebody ended it).
 */
export type ClientErrorCode =
  | ApiErrorCode
  | ErrorCode
  | 'unreachable'
  | 'timeout'
  | 'invalid_answer'
  | 'cancelled';

/** What is known of a failure beside its code. */
type Details = {
  /** Status of the answer; 0 when there was none. */
  status: number;
  /** Names the request in logs of the service. */
  requestId: string | undefined;
  /** When the same request may be accepted, in ms from now. */
  retryAfterMs: number | undefined;
  /** The fields that were refused, each with what is wrong with it; empty for other errors. */
  issues: readonly { path: string; message: string }[];
  /** The page on the code. */
  docsUrl: string | undefined;
  /** Where a larger plan is had, when that would help. */
  upgradeUrl: string | undefined;
  assetId: string | undefined;
};

/** A call that failed. Branch on `code`: `message` is for people. */
export class ServiceError extends Error implements Details {
  declare readonly code: ClientErrorCode;
  declare readonly status: Details['status'];
  declare readonly requestId: Details['requestId'];
  declare readonly retryAfterMs: Details['retryAfterMs'];
  declare readonly issues: Details['issues'];
  declare readonly docsUrl: Details['docsUrl'];
  declare readonly upgradeUrl: Details['upgradeUrl'];
  declare readonly assetId: Details['assetId'];

  constructor(code: ClientErrorCode, message: string, details: Partial<Details> & { cause?: unknown } = {}) {
    super(message);
    Object.assign(this, { name: 'ServiceError', code, status: 0, issues: [] }, details);
  }
}

type Body = {
  error?: string;
  code?: ApiErrorCode;
  docs_url?: string;
  upgrade_url?: string;
  asset_id?: string;
  retry_after_ms?: number;
  issues?: { path: string; message: string }[];
};

/** The error that an answer is. One that the service has not made (a proxy's) is `invalid_answer`, with its status. */
export function errorOf({ status, headers }: Response, text: string): ServiceError {
  const body = parse(text);
  return new ServiceError(body.code ?? 'invalid_answer', body.error ?? `the service answers ${status}`, {
    status,
    requestId: headers.get('x-request-id') ?? undefined,
    retryAfterMs: body.retry_after_ms ?? toMs(headers.get('retry-after')),
    issues: body.issues ?? [],
    docsUrl: body.docs_url,
    upgradeUrl: body.upgrade_url,
    assetId: body.asset_id,
  });
}

function parse(text: string): Body {
  try {
    return Object(JSON.parse(text));
  } catch {
    // A proxy's page, for instance.
    return {};
  }
}

/** Retry-After: seconds, or the time itself. */
function toMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
