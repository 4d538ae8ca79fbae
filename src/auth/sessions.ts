/**
 * Sessions and their cookie (specification 5.1, decisions 1): a 256-bit token that the browser holds, 30 days
 * sliding and extended at most once a day, 90 days in all.
 *
 * A small cache in front of the store answers again for a second; a session ended in this process is refused
 * at once, one ended elsewhere within that second.
 */
import { createHash, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { account } from '../../schemas/limits.ts';
import type { SessionUser } from '../../schemas/user.ts';
import { newId } from '../store/ids.ts';
import type { SessionRecord, SessionStore } from '../store/sessions.ts';
import type { UserStore } from '../store/users.ts';

export const sessionCookie = 'service.session_token';

/** Who is signed in. `renewed`: the cookie to send, when the session was extended just now. */
export type Session = {
  id: string;
  userId: string;
  /** Whether the account's e-mail was shown to be its owner's. */
  isVerified: boolean;
  user: SessionUser;
  renewed?: string;
};

export type Sessions = ReturnType<typeof createSessions>;

export type SessionsOptions = {
  sessions: SessionStore;
  users: Pick<UserStore, 'find'>;
  now(): number;
  /** Whether the service is reached by https: the cookie is then sent over nothing else. */
  secure: boolean;
  maxCached?: number;
};

type Read = { result: Promise<Session | undefined> | undefined };

const hourMs = 3_600_000;
const slidingMs = account.sessionSlidingDays * 24 * hourMs;
const absoluteMs = account.sessionAbsoluteDays * 24 * hourMs;
const touchMs = account.sessionTouchHours * hourMs;
const cachedMs = 1_000;
const tokenBytes = 32;
const tokenForm = /^[A-Za-z0-9_-]{43}$/;

export function createSessions({ sessions, users, now, secure, maxCached = 10_000 }: SessionsOptions) {
  const cache = new LRUCache<string, { session: Session; readTs: number; expiresTs: number }>({
    max: maxCached,
  });
  /** Reads under way, one per token. Ending a session takes its read away: what it finds is not kept. */
  const loading = new Map<string, Read>();
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;

  const cookie = (token: string, maxAgeMs: number) =>
    `${sessionCookie}=${token}; ${attributes}; Max-Age=${Math.floor(maxAgeMs / 1_000)}`;

  const load = async (token: string, read: Read): Promise<Session | undefined> => {
    const readTs = now();
    const record = await sessions.find(hashOf(token));
    if (!record || record.expiresTs <= readTs) return undefined;
    const user = await users.find(record.userId);
    if (!user) return undefined;
    const expiresTs = await extend(record, readTs);
    if (expiresTs === undefined) return undefined;

    const { id, email, name, emailVerified: isVerified } = user;
    const session: Session = { id: record.id, userId: id, isVerified, user: { id, email, name } };
    if (loading.get(token) === read) cache.set(token, { session, readTs, expiresTs });
    return expiresTs === record.expiresTs
      ? session
      : { ...session, renewed: cookie(token, expiresTs - readTs) };
  };

  /** At most once a day, never past the session's last day. undefined: it has ended meanwhile. */
  const extend = async (record: SessionRecord, ts: number): Promise<number | undefined> => {
    if (ts - record.touchedTs < touchMs) return record.expiresTs;
    const expiresTs = Math.min(ts + slidingMs, record.createdTs + absoluteMs);
    return (await sessions.touch(record.hash, ts, expiresTs)) ? expiresTs : undefined;
  };

  return {
    /** Starts a session. The token is in the cookie and nowhere else. */
    async start(userId: string): Promise<{ cookie: string }> {
      const token = randomBytes(tokenBytes).toString('base64url');
      const ts = now();
      const expiresTs = ts + slidingMs;
      const record = {
        hash: hashOf(token),
        id: newId('ses'),
        userId,
        createdTs: ts,
        touchedTs: ts,
        expiresTs,
      };
      await sessions.insert(record);
      return { cookie: cookie(token, slidingMs) };
    },

    /** The session of a token as `tokenIn` gives it. Answers from memory where it can. */
    find(token: string): Session | undefined | Promise<Session | undefined> {
      const ts = now();
      const cached = cache.get(token);
      if (cached && ts < cached.readTs + cachedMs && ts < cached.expiresTs) return cached.session;
      const running = loading.get(token)?.result;
      if (running) return running;
      const read: Read = { result: undefined };
      loading.set(token, read);
      read.result = load(token, read).finally(() => {
        if (loading.get(token) === read) loading.delete(token);
      });
      return read.result;
    },

    /** Ends a session. Safe to repeat. */
    async end(token: string): Promise<void> {
      await sessions.remove(hashOf(token));
      loading.delete(token);
      cache.delete(token);
    },

    /** The sessions of a user have ended in the store: they are refused here at once. */
    forgetUser(userId: string): void {
      for (const [token, { session }] of cache.entries()) if (session.userId === userId) cache.delete(token);
      // What is being read may be one of them.
      loading.clear();
    },

    /** The cookie that takes the session's cookie away. */
    cleared: cookie('', 0),
  };
}

/** The session token in a Cookie header; undefined without one of its form. */
export function tokenIn(cookieHeader: string): string | undefined {
  for (const pair of cookieHeader.split(';')) {
    const at = pair.indexOf('=');
    if (at === -1 || pair.slice(0, at).trim() !== sessionCookie) continue;
    const value = pair.slice(at + 1).trim();
    return tokenForm.test(value) ? value : undefined;
  }
  return undefined;
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
