/**
 * API tokens for callers that are no browser (decisions 1): `Authorization: Bearer sat_…` in the place of the
 * session's cookie. A token ends when it expires, is revoked, or its user's password changes.
 */
import { account } from '../../schemas/limits.ts';
import { newId } from '../store/ids.ts';
import type { TokenRecord, TokenStore } from '../store/tokens.ts';
import type { UserStore } from '../store/users.ts';
import { createKnown } from './known.ts';
import { hashOf, newSecret } from './secret.ts';
import type { Session } from './sessions.ts';

export type Tokens = ReturnType<typeof createTokens>;

export type TokensOptions = {
  tokens: TokenStore;
  users: Pick<UserStore, 'find'>;
  now(): number;
  maxCached?: number;
};

const prefix = 'sat_';
const bearerForm = /^Bearer +(sat_[A-Za-z0-9_-]{43}) *$/i;
const seenMs = account.seenEveryMinutes * 60_000;

export function createTokens({ tokens, users, now, maxCached = 10_000 }: TokensOptions) {
  const known = createKnown<Session>({
    now,
    max: maxCached,
    async load(token, ts) {
      const record = await tokens.find(hashOf(token));
      if (!record || (record.expiresTs !== null && record.expiresTs <= ts)) return undefined;
      const user = await users.find(record.userId);
      if (user?.epoch !== record.epoch) return undefined;
      if (ts - (record.usedTs ?? 0) >= seenMs) await tokens.see(record.hash, ts);
      const { id, email, name, epoch, emailVerified: isVerified } = user;
      const value = { id: record.id, userId: id, epoch, isVerified, user: { id, email, name } };
      return { value, expiresTs: record.expiresTs };
    },
  });

  return {
    /** Makes a token; undefined when the user has as many as may be. The secret is in the answer and nowhere else. */
    async create(
      { userId, epoch }: Pick<Session, 'userId' | 'epoch'>,
      name: string,
      expiresTs: number | null,
    ): Promise<{ token: string; record: TokenRecord } | undefined> {
      const token = `${prefix}${newSecret()}`;
      const record: TokenRecord = {
        hash: hashOf(token),
        id: newId('tok'),
        userId,
        name,
        preview: `${token.slice(0, account.tokenPreviewChars)}…`,
        epoch,
        createdTs: now(),
        expiresTs,
        usedTs: null,
      };
      const isAdded = await tokens.insert(record, account.maxTokens, record.createdTs);
      return isAdded ? { token, record } : undefined;
    },

    /** Who has a token as `bearerIn` gives it. Answers from memory where it can. */
    find: known.find,

    /** A user's tokens, oldest first. */
    async list({ userId, epoch }: Pick<Session, 'userId' | 'epoch'>): Promise<TokenRecord[]> {
      return (await tokens.list(userId, now())).filter((one) => one.epoch === epoch);
    },

    /** Revokes a user's token. Answers false when there is none of that id. */
    async revoke(userId: string, id: string): Promise<boolean> {
      const isGone = await tokens.remove(userId, id);
      known.forgetWhere((session) => session.id === id);
      return isGone;
    },

    /** Tokens of the user have changed in the store, or the user has: all of them are read anew. */
    forgetUser(userId: string): void {
      known.forgetWhere((session) => session.userId === userId);
    },
  };
}

/** The token in an Authorization header; undefined for another scheme, or what is no token by its form. */
export function bearerIn(authorization: string): string | undefined {
  return bearerForm.exec(authorization)?.[1];
}
