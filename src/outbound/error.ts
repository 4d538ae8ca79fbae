/** Why an exchange with a user-chosen address failed. */

/** The class of a failure, as webhook deliveries show it (decisions 6). */
export type OutboundFailure =
  | 'blocked_address'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'redirect'
  | 'encoding';

/**
 * The one text for every address that is refused: a text that told private from reserved, or a name from its
 * answer, would let strangers map the network behind the service.
 */
export const blockedText = 'the address is not allowed';

/**
 * An exchange that gave no usable answer. `reset` is a connection that ended, or spoke no HTTP, before the
 * answer was whole; `redirect` too many of them or a broken one; `encoding` a content-encoding we cannot undo.
 */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly failure: OutboundFailure;

  constructor(failure: OutboundFailure, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.failure = failure;
  }
}

/** The error for every refused address. */
export function blocked(): OutboundError {
  return new OutboundError('blocked_address', blockedText);
}
