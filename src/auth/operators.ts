/** Who is an operator (decisions 10, Operator): whose e-mail the settings name, once it is known to be theirs. */
import type { Session } from './sessions.ts';

export type OperatorCheck = (session: Session | undefined) => boolean;

/** @param emails in lower case. `allowUnverified`: development, where no mail may leave the machine. */
export function createOperatorCheck(emails: readonly string[], allowUnverified: boolean): OperatorCheck {
  const named = new Set(emails);
  return (session) =>
    session !== undefined && named.has(session.user.email) && (allowUnverified || session.isVerified);
}
