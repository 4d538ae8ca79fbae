/**
 * How often one may try to sign in and sign up (decisions 1, Throttling). Counted in the store, so that all
 * front ends count together.
 *
 * An attempt is counted before the password is looked at and taken back when it was right: attempts that run
 * at once cannot slip through together. Failures of one address never lock another one out, but for the
 * e-mail's own, wider limit.
 */
import { createHash } from 'node:crypto';
import type { AttemptLimit, AttemptStore } from '../store/attempts.ts';
import { newId } from '../store/ids.ts';
import { addressKey, isLoopback } from './client-address.ts';

export type Throttle = ReturnType<typeof createThrottle>;

/** `retryAfterMs` above 0: refused. `takeBack`: it was no failure after all. Safe to repeat. */
export type Attempt = { retryAfterMs: number; takeBack(): Promise<void> };

/** What is accepted within a sliding time (decisions 1, Throttling). */
const limits = {
  signIn: { windowMs: 15 * 60_000, perPair: 10, perEmail: 100, perAddress: 50 },
  signUp: { windowMs: 60 * 60_000, perAddress: 20 },
} as const;

export type ThrottleOptions = {
  attempts: AttemptStore;
  now(): number;
  /** Development: loopback addresses are not limited by address alone. */
  exemptLoopback: boolean;
};

export function createThrottle({ attempts, now, exemptLoopback }: ThrottleOptions) {
  const isExempt = (address: string) => exemptLoopback && isLoopback(address);

  /** Counts an attempt under every key, or under none when one of them is full. */
  const take = async (keys: AttemptLimit[]): Promise<Attempt> => {
    const id = newId('try');
    const ts = now();
    const waits = await Promise.all(keys.map((key) => attempts.take(key, id, ts)));
    const takeBack = () =>
      attempts.giveBack(
        keys.map(({ key }) => key),
        id,
      );
    const retryAfterMs = Math.max(0, ...waits);
    if (retryAfterMs > 0) await takeBack();
    return { retryAfterMs, takeBack };
  };

  return {
    /** @param email in lower case. */
    async signIn(email: string, address: string): Promise<Attempt> {
      const { windowMs, perPair, perEmail, perAddress } = limits.signIn;
      const client = addressKey(address);
      const keys: AttemptLimit[] = [
        { key: keyOf('signin:pair', email, client), limit: perPair, windowMs },
        { key: keyOf('signin:email', email), limit: perEmail, windowMs },
      ];
      if (!isExempt(address))
        keys.push({ key: keyOf('signin:address', client), limit: perAddress, windowMs });
      return take(keys);
    },

    async signUp(address: string): Promise<Attempt> {
      if (isExempt(address)) return { retryAfterMs: 0, takeBack: async () => undefined };
      const { windowMs, perAddress } = limits.signUp;
      return take([{ key: keyOf('signup:address', addressKey(address)), limit: perAddress, windowMs }]);
    },
  };
}

/** E-mails that were only tried are nobody's: they are not kept in readable form. */
function keyOf(kind: string, ...parts: string[]): string {
  return `${kind}:${createHash('sha256').update(parts.join('\n')).digest('base64url')}`;
}
