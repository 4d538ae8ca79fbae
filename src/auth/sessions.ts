/**
 * Sessions and their cookie (specification 5.1, decisions 1): a 256-bit token that the browser holds, 30 days
 * sliding and extended at most once a day, 90 days in all.
 *
 * A session ends by itself when its user's password changes: it belongs to the epoch in which it began.
 */
import { account } from '../../schemas/limits.ts';
import type { SessionUser } from '../../schemas/user.ts';
import { newId } from '../store/ids.ts';
import type { SessionRecord, SessionStore } from '../store/sessions.ts';
import type { UserStore } from '../store/users.ts';
import { createKnown } from './known.ts';
import { hashOf, newSecret } from './secret.ts';

export const sessionCookie = 'service.session_token';

/**
 * Who is signed in, by a session or by an API token. `renewed`: the cookie to send, when the session was
 * extended just now.
 */
export type Session = {
  id: string;
  userId: string;
  epoch: number;
  /** Whether the account's e-mail was shown to be its owner's. */
  isVerified: boolean;
  user: SessionUser;
  renewed?: string;
};

/**
 * How a session comes to be. `epoch`: the user's when the password was looked at; without it the present one,
 * for sign-ins that have nothing to do with the password.
 */
export type SessionStart = { epoch?: number; userAgent?: string; address?: string };

export type Sessions = ReturnType<typeof createSessions>;

export type SessionsOptions = {
  sessions: SessionStore;
  users: Pick<UserStore, 'find'>;
  now(): number;
  /** Whether the service is reached by https: the cookie is then sent over nothing else. */
  secure: boolean;
  maxCached?: number;
};

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const slidingMs = account.sessionSlidingDays * 24 * hourMs;
const absoluteMs = account.sessionAbsoluteDays * 24 * hourMs;
const touchMs = account.sessionTouchHours * hourMs;
const seenMs = account.seenEveryMinutes * minuteMs;
const tokenForm = /^[A-Za-z0-9_-]{43}$/;

export function createSessions({ sessions, users, now, secure, maxCached = 10_000 }: SessionsOptions) {
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;

  const cookie = (token: string, maxAgeMs: number) =>
    `${sessionCookie}=${token}; ${attributes}; Max-Age=${Math.floor(maxAgeMs / 1_000)}`;

  /** At most once a day, never past the session's last day. undefined: it has ended meanwhile. */
  const extend = async (record: SessionRecord, ts: number): Promise<number | undefined> => {
    if (ts - record.touchedTs < touchMs) {
      if (ts - record.seenTs >= seenMs) await sessions.see(record.hash, ts);
      return record.expiresTs;
    }
    const expiresTs = Math.min(ts + slidingMs, record.createdTs + absoluteMs);
    return (await sessions.touch(record.hash, ts, expiresTs)) ? expiresTs : undefined;
  };

  const known = createKnown<Session>({
    now,
    max: maxCached,
    async load(token, ts) {
      const record = await sessions.find(hashOf(token));
      if (!record || record.expiresTs <= ts) return undefined;
      const user = await users.find(record.userId);
      if (user?.epoch !== record.epoch) return undefined;
      const expiresTs = await extend(record, ts);
      if (expiresTs === undefined) return undefined;

      const { id, email, name, epoch, emailVerified: isVerified } = user;
      const session: Session = { id: record.id, userId: id, epoch, isVerified, user: { id, email, name } };
      const renewed = expiresTs === record.expiresTs ? {} : { renewed: cookie(token, expiresTs - ts) };
      return { value: session, expiresTs, once: { ...session, ...renewed } };
    },
  });

  return {
    /** Starts a session. The token is in the cookie and nowhere else. */
    async start(
      userId: string,
      { epoch, userAgent, address }: SessionStart = {},
    ): Promise<{ cookie: string }> {
      const token = newSecret();
      const ts = now();
      await sessions.insert({
        hash: hashOf(token),
        id: newId('ses'),
        userId,
        epoch: epoch ?? (await users.find(userId))?.epoch ?? 0,
        userAgent: userAgent?.slice(0, account.userAgentMaxChars) || null,
        address: address || null,
        createdTs: ts,
        seenTs: ts,
        touchedTs: ts,
        expiresTs: ts + slidingMs,
      });
      return { cookie: cookie(token, slidingMs) };
    },

    /** The session of a token as `tokenIn` gives it. Answers from memory where it can. */
    find: known.find,

    /** Ends a session. Safe to repeat. */
    async end(token: string): Promise<void> {
      await sessions.remove(hashOf(token));
      known.forget(token);
    },

    /** A user's sessions, newest first. */
    async list({ userId, epoch }: Pick<Session, 'userId' | 'epoch'>): Promise<SessionRecord[]> {
      const all = await sessions.list(userId, now(), account.maxSessionsListed);
      return all.filter((one) => one.epoch === epoch);
    },

    /** Ends a user's session by its id. Answers false when there is none. */
    async endNamed(userId: string, id: string): Promise<boolean> {
      const isGone = await sessions.removeNamed(userId, id);
      known.forgetWhere((session) => session.id === id);
      return isGone;
    },

    /** Sessions of the user have changed in the store, or the user has: all of them are read anew. */
    forgetUser(userId: string): void {
      known.forgetWhere((session) => session.userId === userId);
    },

    /** The cookie that takes the session's cookie away. */
    cleared: cookie('', 0),
  };
}

/** The session token in a Cookie header; undefined without one of its form. */
export function tokenIn(cookieHeader: string): string | undefined {
  // Only the pair that it stands in is taken apart: every request of a user comes by here.
  for (let at = cookieHeader.indexOf(sessionCookie); at !== -1; ) {
    const semicolon = cookieHeader.indexOf(';', at);
    const end = semicolon === -1 ? cookieHeader.length : semicolon;
    const start = at === 0 ? 0 : cookieHeader.lastIndexOf(';', at) + 1;
    const equals = cookieHeader.indexOf('=', start);
    if (equals >= start && equals < end && cookieHeader.slice(start, equals).trim() === sessionCookie) {
      const value = cookieHeader.slice(equals + 1, end).trim();
      return tokenForm.test(value) ? value : undefined;
    }
    at = cookieHeader.indexOf(sessionCookie, end);
  }
  return undefined;
}
