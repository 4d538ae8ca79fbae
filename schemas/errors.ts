/**
 * Error codes of failed runs with their default retry, and the bodies of error answers
 * (specification 7, decisions 9).
 */
import { z } from 'zod';
import { project } from './limits.ts';

/** What may be done after a failure: `transient` is tried again, `permanent` ends the run. */
export type Retry = 'transient' | 'permanent';

/** error_code values (specification 7) with the retry they have unless the thrower knows better. */
export const errorCodes = {
  vision_blocked: { retry: 'permanent', text: 'The source image was rejected.' },
  vision_timeout: { retry: 'transient', text: 'Analysing the source took longer than 30 seconds.' },
  source_unfetchable: { retry: 'transient', text: 'The source URL could not be fetched.' },
  source_too_large: { retry: 'permanent', text: 'The source is larger than 10 MB.' },
  source_unsupported: { retry: 'permanent', text: 'The source is not a readable png, jpeg or webp image.' },
  i2v_failed: { retry: 'transient', text: 'Making the animation failed.' },
  i2v_timeout: { retry: 'transient', text: 'Making the animation took longer than 5 minutes.' },
  merge_failed: { retry: 'transient', text: 'Closing the loop failed.' },
  store_write_failed: { retry: 'transient', text: 'The finished files could not be stored.' },
  quota_exceeded: { retry: 'permanent', text: 'The plan no longer allows this run.' },
  pipeline_stalled: { retry: 'permanent', text: 'The run made no progress for 10 minutes.' },
} as const satisfies Record<string, { retry: Retry; text: string }>;

export const ErrorCode = z.enum(
  Object.keys(errorCodes) as [keyof typeof errorCodes, ...(keyof typeof errorCodes)[]],
);
export type ErrorCode = z.infer<typeof ErrorCode>;

/**
 * A failure of an effect, thrown by effects and by the adapters they use.
 *
 * `message` is for the log, lower case, and names the thing; clients see the code and the code's text
 * (or `hint`, our own sentence when it can say more).
 */
export class EffectError extends Error {
  override readonly name = 'EffectError';
  readonly code: ErrorCode;
  readonly retry: Retry;
  /** Earliest next attempt from now, in ms, when the other side named one. */
  readonly retryAfterMs: number | undefined;
  /** A sentence for the customer that says more than the code's own text. */
  readonly hint: string | undefined;
  /** What was bought is still good: the next attempt goes on with it. */
  readonly isResumable: boolean;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      retry?: Retry;
      retryAfterMs?: number;
      hint?: string;
      isResumable?: boolean;
      cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retry = options.retry ?? errorCodes[code].retry;
    this.retryAfterMs = options.retryAfterMs;
    this.hint = options.hint;
    this.isResumable = options.isResumable ?? false;
  }
}

/**
 * Codes of error answers (decisions 9): the status, and the texts that mean it. A text that ends with a colon stands
 * for all that begin with it; without texts the code is what remains of its status. Each has its page in src/docs.
 */
export const apiErrors = {
  invalid_request: { status: 400 },
  malformed_proxy_url: { status: 400, texts: ['malformed proxy URL:'] },
  source_refused: { status: 400, texts: ['src:'] },
  signing_not_enabled: { status: 400, texts: ['signing is not enabled'] },
  no_webhook_url: { status: 400, texts: ['no webhook_url is configured'] },
  overage_needs_paid_plan: { status: 400, texts: ['overage needs a paid plan'] },
  authentication_required: { status: 401 },
  invalid_credentials: { status: 401, texts: ['invalid credentials'] },
  forbidden: { status: 403 },
  wrong_password: { status: 403, texts: ['wrong password'] },
  not_with_api_token: { status: 403, texts: ['not allowed with an API token'] },
  cross_site_request_refused: { status: 403, texts: ['cross-site request refused'] },
  unknown_project_key: { status: 403, texts: ['unknown project key'] },
  origin_not_allowed: { status: 403, texts: ['origin not allowed', 'origin not allowed:'] },
  invalid_signature: { status: 403, texts: ['invalid signature'] },
  source_host_not_allowed: { status: 403, texts: ['source host not allowed'] },
  not_in_plan: { status: 403, texts: ['model is not in your plan', 'aspect is not in your plan'] },
  too_many_projects: { status: 403, texts: [`at most ${project.maxPerUser} projects`] },
  not_found: { status: 404 },
  poster_not_available: { status: 404, texts: ['poster not available'] },
  method_not_allowed: { status: 405 },
  request_timeout: { status: 408 },
  conflict: { status: 409 },
  email_taken: { status: 409, texts: ['email already registered'] },
  asset_not_pending: { status: 409, texts: ['asset is not pending'] },
  body_too_large: { status: 413 },
  image_too_large: { status: 413, texts: ['the file is larger than 10 MB'] },
  too_many_uploads: { status: 413, texts: ['too many unused uploads:'] },
  unsupported_type: { status: 415 },
  range_not_satisfiable: { status: 416 },
  unprocessable: { status: 422 },
  rate_limited: { status: 429 },
  head_too_large: { status: 431 },
  monthly_limit_reached: { status: 429, texts: ['monthly limit reached'] },
  overage_disabled: { status: 429, texts: ['monthly limit reached:'] },
  internal_error: { status: 500 },
  generation_failed: { status: 502 },
  unavailable: { status: 503 },
  busy: { status: 503, texts: ['busy'] },
} as const satisfies Record<string, { status: number; texts?: readonly string[] }>;

export const ApiErrorCode = z.enum(
  Object.keys(apiErrors) as [keyof typeof apiErrors, ...(keyof typeof apiErrors)[]],
);
export type ApiErrorCode = z.infer<typeof ApiErrorCode>;

/** The code that an error answer has by its text, else by its status; undefined for a status that is no error. */
export function apiErrorCode(status: number, text: string): ApiErrorCode | undefined {
  const byText = codesByText.get(text) ?? codesByText.get(text.slice(0, text.indexOf(':') + 1));
  return byText ?? codesByStatus.get(status);
}

const codesByText = new Map<string, ApiErrorCode>();
const codesByStatus = new Map<number, ApiErrorCode>();
for (const code of ApiErrorCode.options) {
  const { status, texts = [] }: { status: number; texts?: readonly string[] } = apiErrors[code];
  for (const text of texts) codesByText.set(text, code);
  if (texts.length === 0) codesByStatus.set(status, code);
}

/** Body of every error answer (specification 7, decisions 9). Answers get `code` and `docs_url` when they are sent. */
export const ErrorBody = z.object({
  error: z.string(),
  code: ApiErrorCode.optional(),
  docs_url: z.string().optional(),
});
export type ErrorBody = z.infer<typeof ErrorBody>;

/** 400 for a body, query or path that does not fit its schema. */
export const ValidationErrorBody = ErrorBody.extend({
  issues: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
});
export type ValidationErrorBody = z.infer<typeof ValidationErrorBody>;

/** 429 of the quota, 403 of a plan feature (specification 7). */
export const UpgradeErrorBody = ErrorBody.extend({ upgrade_url: z.string() });
export type UpgradeErrorBody = z.infer<typeof UpgradeErrorBody>;

/** 429 of the rate limit, 503 when busy (specification 7, decisions 3). */
export const RetryErrorBody = ErrorBody.extend({ retry_after_ms: z.int() });
export type RetryErrorBody = z.infer<typeof RetryErrorBody>;

/** 502 of a proxy URL whose last generation failed (specification 7). */
export const GenerationFailedBody = ErrorBody.extend({ asset_id: z.string(), hint: z.string() });
export type GenerationFailedBody = z.infer<typeof GenerationFailedBody>;
