/**
 * How often one may try to sign in, sign up, and have mail sent (decisions 1, Throttling). Counted in the store, so that all
 * front ends count together.
 *
 * An attempt is counted before the password is looked at and taken back when it was right: attempts that run
 * at once cannot slip through together. Failures of one address never lock another one out, but for the
 * e-mail's own, wider limit.
 */
import { createHash } from 'node:crypto';
import { throttle as limits, oauth as oauthLimits } from '../../schemas/limits.ts';
import type { AttemptLimit, AttemptStore } from '../store/attempts.ts';
import { newId } from '../store/ids.ts';
import { addressKey, isLoopback } from './client-address.ts';

export type Throttle = ReturnType<typeof createThrottle>;

/** `retryAfterMs` above 0: refused. `takeBack`: it was no failure after all. Safe to repeat. */
export type Attempt = { retryAfterMs: number; takeBack(): Promise<void> };

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

    /** Forgets what names an e-mail alone: its account is erased. */
    forget: (email: string): Promise<void> => attempts.forget(keyOf('signin:email', email)),

    async signUp(address: string): Promise<Attempt> {
      if (isExempt(address)) return { retryAfterMs: 0, takeBack: async () => undefined };
      const { windowMs, perAddress } = limits.signUp;
      return take([{ key: keyOf('signup:address', addressKey(address)), limit: perAddress, windowMs }]);
    },

    /** A mail to reset a password. @param email in lower case. */
    async forgot(email: string, address: string): Promise<Attempt> {
      const { windowMs, perEmail, perAddress } = limits.forgot;
      const keys: AttemptLimit[] = [{ key: keyOf('forgot:email', email), limit: perEmail, windowMs }];
      if (!isExempt(address))
        keys.push({ key: keyOf('forgot:address', addressKey(address)), limit: perAddress, windowMs });
      return take(keys);
    },

    /** A signed-in user's password, asked for once more: whoever has found a browser open may not try on. */
    async confirm(userId: string): Promise<Attempt> {
      const { windowMs, perUser } = limits.confirm;
      return take([{ key: keyOf('confirm:user', userId), limit: perUser, windowMs }]);
    },

    /** A mail to an address that a user names. */
    async changeEmail(userId: string): Promise<Attempt> {
      const { windowMs, perUser } = limits.changeEmail;
      return take([{ key: keyOf('change-email:user', userId), limit: perUser, windowMs }]);
    },

    /** Redirects to and from other providers. */
    async oauth(address: string): Promise<{ retryAfterMs: number }> {
      if (isExempt(address)) return { retryAfterMs: 0 };
      const { perAddress: limit, addressWindowMs: windowMs } = oauthLimits;
      return take([{ key: keyOf('oauth:address', addressKey(address)), limit, windowMs }]);
    },

    /** Whether a flow's state is used for the first time. */
    async oauthOnce(state: string): Promise<boolean> {
      const key = { key: keyOf('oauth:state', state), limit: 1, windowMs: oauthLimits.stateMs };
      return (await attempts.take(key, newId('try'), now())) === 0;
    },
  };
}

/** E-mails that were only tried are nobody's: they are not kept in readable form. */
function keyOf(kind: string, ...parts: string[]): string {
  return `${kind}:${createHash('sha256').update(parts.join('\n')).digest('base64url')}`;
}
