/**
 * Error codes of failed runs with their default retry, and the bodies of error answers
 * (specification 7, decisions 9).
 */
import { z } from 'zod';

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

  constructor(
    code: ErrorCode,
    message: string,
    options: { retry?: Retry; retryAfterMs?: number; hint?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retry = options.retry ?? errorCodes[code].retry;
    this.retryAfterMs = options.retryAfterMs;
    this.hint = options.hint;
  }
}

/** Body of every error answer (specification 7, decisions 9). */
export const ErrorBody = z.object({
  error: z.string(),
  code: z.string().optional(),
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
