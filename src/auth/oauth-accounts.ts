/**
 * Whose account a profile of another provider is (specification 4.1, decisions 1, OAuth): the one it was linked
 * to, the one with its e-mail, or a new one.
 */

import { account as limits } from '../../schemas/limits.ts';
import { Email } from '../../schemas/user.ts';
import { isTaken, type Store } from '../store/client.ts';
import type { OAuthProfile } from './oauth-providers.ts';

/** Only what a provider has verified says who somebody is. */
export class UnverifiedEmailError extends Error {
  override readonly name = 'UnverifiedEmailError';
}

export type OAuthAccounts = ReturnType<typeof createOAuthAccounts>;

export type OAuthAccountsOptions = {
  store: Pick<Store, 'users' | 'identities' | 'accounts'>;
  newId(prefix: string): string;
  now(): number;
  /** All sessions and API tokens of a user have ended. */
  onSessionsEnded(userId: string): Promise<void>;
};

export function createOAuthAccounts({ store, newId, now, onSessionsEnded }: OAuthAccountsOptions) {
  const { users, identities, accounts } = store;

  /**
   * Somebody may have signed up with another's e-mail and wait for them to join the account: whoever made it
   * without proving the e-mail loses every way in before its owner gets theirs (account pre-hijacking).
   */
  const takeOver = async (userId: string): Promise<void> => {
    if (await accounts.takeOver(userId)) await onSessionsEnded(userId);
  };

  const create = async (email: string, profile: OAuthProfile): Promise<string | undefined> => {
    const id = newId('usr');
    const createdTs = now();
    const user = {
      id,
      email,
      name: nameOf(profile, email),
      passwordHash: null,
      emailVerified: true,
      createdTs,
    };
    const project = { id: newId('prj'), userId: id, name: 'Default', createdTs, isDefault: true };
    try {
      await accounts.create(user, project);
      return id;
    } catch (cause) {
      // Two callbacks or a sign-up at once: the unique index lets one win.
      if (isTaken(cause)) return undefined;
      throw cause;
    }
  };

  /** The account that has the e-mail. */
  const claim = async (email: string): Promise<string> => {
    const user = await users.findByEmail(email);
    if (!user) throw new Error('the account went away while it was linked');
    if (!user.emailVerified) await takeOver(user.id);
    return user.id;
  };

  return {
    /**
     * Id of the account of a profile, made or linked when there was none.
     *
     * @throws {UnverifiedEmailError} when the provider does not vouch for its e-mail.
     */
    async userIdOf(profile: OAuthProfile): Promise<string> {
      const { provider, subject } = profile;
      const known = await identities.findUserId(provider, subject);
      // By its subject, whatever its e-mail is today.
      if (known !== undefined && (await users.find(known))) return known;

      const { data: email } = Email.safeParse(profile.email);
      if (email === undefined || !profile.isVerified) {
        throw new UnverifiedEmailError('the provider does not vouch for the e-mail');
      }
      const userId = (await create(email, profile)) ?? (await claim(email));
      await identities.link({ provider, subject, userId, email, createdTs: now() });
      return userId;
    },
  };
}

/** What the provider calls them, else the e-mail's local part. */
function nameOf({ name = '' }: OAuthProfile, email: string): string {
  // Half a surrogate pair has no UTF-8 form: the way through bytes replaces it.
  const clean = Buffer.from(name.replace(/[\p{Cc}\s]+/gu, ' '))
    .toString()
    .trim();
  const [local = email] = email.split('@');
  // By whole characters: half of one would be none.
  let cut = '';
  for (const character of clean === '' ? local : clean) {
    if (cut.length + character.length > limits.nameMaxChars) break;
    cut += character;
  }
  return cut;
}
