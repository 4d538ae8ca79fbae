/** What users change of their accounts: name, e-mail, password, sessions (decisions 1). */
import { ErrorBody, RetryErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import {
  ChangeEmailRequest,
  ChangePasswordRequest,
  ForgotPasswordRequest,
  OkResponse,
  ResetPasswordRequest,
  SessionList,
  SessionResponse,
  UpdateUserRequest,
  VerifyEmailRequest,
} from '../../schemas/user.ts';
import { hashOf } from '../auth/secret.ts';
import { isTaken } from '../store/client.ts';
import type { UserRecord } from '../store/users.ts';
import { rateLimited } from './rate-policy.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';
import { emailTaken } from './user.ts';

const updateUser = route({
  method: 'put',
  path: '/api/user',
  summary: 'Change the name',
  body: UpdateUserRequest,
  responses: { 200: SessionResponse },
  async handle({ session, body }, services) {
    const { user, userId } = session;
    const { name = user.name } = body;
    if (name !== user.name) {
      await services.store.users.rename(userId, name);
      forgetUser(userId, services);
    }
    return reply(200, { user: { ...user, name } });
  },
});

const verifyEmail = route({
  method: 'post',
  path: '/api/user/email/verify',
  summary: 'Confirm an e-mail address by the token of a mail',
  auth: 'none',
  body: VerifyEmailRequest,
  responses: { 200: OkResponse, 400: ValidationErrorBody, 409: ErrorBody },
  async handle({ body }, services) {
    const { store, now } = services;
    const found = await store.mailTokens.find(hashOf(body.token), now());
    if (!found || found.kind === 'reset') return reply(400, badToken);
    const { userId: id, hash, email } = found;
    if (found.kind === 'verify') {
      const isTheirs = await store.users.verifyEmail(id, email);
      return isTheirs ? reply(200, { ok: true }) : reply(400, badToken);
    }
    try {
      const { fromEmail, epoch } = found;
      const change = { id, email, fromEmail, epoch, tokenHash: hash };
      if (await store.accounts.changeEmail(change, now())) forgetUser(id, services);
      // A second click on the same link is no mistake.
      else if ((await store.users.find(id))?.email !== email) return reply(400, badToken);
    } catch (cause) {
      if (isTaken(cause)) return reply(409, emailTaken);
      throw cause;
    }
    return reply(200, { ok: true });
  },
});

const forgotPassword = route({
  method: 'post',
  path: '/api/user/password/forgot',
  summary: 'Ask for a mail to reset the password',
  auth: 'none',
  body: ForgotPasswordRequest,
  responses: { 200: OkResponse },
  async handle({ body, address }, { store, throttle, now }) {
    const { retryAfterMs } = await throttle.forgot(body.email, address);
    // Whether there is such an account is looked up when the mail is sent, so that nothing here depends on it.
    if (retryAfterMs === 0) await store.outbox.add({ kind: 'reset', to: body.email }, now());
    return reply(200, { ok: true });
  },
});

const resetPassword = route({
  method: 'post',
  path: '/api/user/password/reset',
  summary: 'Set a new password by the token of a mail',
  auth: 'none',
  body: ResetPasswordRequest,
  responses: { 200: OkResponse, 400: ValidationErrorBody },
  async handle({ body }, services) {
    const { store, passwords, now } = services;
    const found = await store.mailTokens.find(hashOf(body.token), now());
    if (found?.kind !== 'reset') return reply(400, badToken);
    const { userId: id, epoch, email } = found;
    const passwordHash = await passwords.hash(body.password);
    // The epoch makes it single use: whoever is second finds another one.
    const change = { id, epoch, passwordHash, email, provenEmail: email };
    if (!(await store.accounts.setPassword(change, now()))) return reply(400, badToken);
    forgetUser(id, services);
    await services.onSessionsEnded(id, undefined);
    return reply(200, { ok: true });
  },
});

const changePassword = route({
  method: 'post',
  path: '/api/user/password',
  summary: 'Change the password, or set the first one; every other session and all API tokens end',
  auth: 'cookie',
  body: ChangePasswordRequest,
  responses: {
    200: OkResponse,
    400: ValidationErrorBody,
    401: ErrorBody,
    403: ErrorBody,
    409: ErrorBody,
    429: RetryErrorBody,
  },
  async handle({ userId, session, body }, services) {
    const { store, passwords, now } = services;
    const user = await store.users.find(userId);
    if (user?.epoch !== session.epoch) return reply(401, signedOut);
    const refusal = await confirmPassword(user, body.current, services);
    if (refusal) return refusal;
    const { id, epoch, email } = user;
    const passwordHash = await passwords.hash(body.password);
    const change = { id, epoch, passwordHash, email, keptSessionId: session.id };
    if (!(await store.accounts.setPassword(change, now()))) {
      return reply(409, { error: 'the password was changed at the same moment' });
    }
    forgetUser(id, services);
    await services.onSessionsEnded(id, session.id);
    return reply(200, { ok: true });
  },
});

const changeEmail = route({
  method: 'post',
  path: '/api/user/email',
  summary:
    'Ask for another e-mail address, which a mail to it confirms; for the present one, that mail again',
  auth: 'cookie',
  body: ChangeEmailRequest,
  responses: {
    200: OkResponse,
    400: ValidationErrorBody,
    401: ErrorBody,
    403: ErrorBody,
    409: ErrorBody,
    429: RetryErrorBody,
  },
  async handle({ userId, session, body }, services) {
    const { store, throttle, now } = services;
    const user = await store.users.find(userId);
    if (user?.epoch !== session.epoch) return reply(401, signedOut);
    const refusal = await confirmPassword(user, body.current, services);
    if (refusal) return refusal;
    const { retryAfterMs } = await throttle.changeEmail(userId);
    if (retryAfterMs > 0) return rateLimited({ waitMs: retryAfterMs });
    const { email: fromEmail, epoch } = user;
    const { email } = body;
    if (email === fromEmail) {
      if (!user.emailVerified) await store.outbox.add({ kind: 'verify', userId, to: email }, now());
      return reply(200, { ok: true });
    }
    if (await store.users.findByEmail(email)) return reply(409, emailTaken);
    // The last one that was asked for is the one that is meant.
    await store.mailTokens.removeOf(userId, ['email']);
    await store.outbox.add({ kind: 'email-asked', userId, newEmail: email, to: fromEmail }, now());
    await store.outbox.add({ kind: 'confirm-email', userId, fromEmail, epoch, to: email }, now());
    return reply(200, { ok: true });
  },
});

const listSessions = route({
  method: 'get',
  path: '/api/user/sessions',
  summary: 'Sessions of the signed-in user, newest first',
  responses: { 200: SessionList },
  async handle({ session }, { sessions }) {
    const all = await sessions.list(session);
    return reply(200, {
      sessions: all.map(({ id, createdTs, seenTs, userAgent, address }) => ({
        id,
        created_at: createdTs,
        last_seen_at: seenTs,
        user_agent: userAgent,
        address,
        current: id === session.id,
      })),
    });
  },
});

const endSession = route({
  method: 'delete',
  path: '/api/user/sessions/:id',
  summary: 'End a session',
  auth: 'cookie',
  responses: { 200: OkResponse, 404: ErrorBody },
  async handle({ userId, session, id }, { sessions, onSessionEnded }) {
    if (!(await sessions.endNamed(userId, id))) return reply(404, { error: 'not found' });
    await onSessionEnded(id);
    return reply(200, { ok: true }, id === session.id ? { 'Set-Cookie': sessions.cleared } : {});
  },
});

export const accountRoutes: AnyRoute[] = [
  updateUser,
  verifyEmail,
  forgotPassword,
  resetPassword,
  changePassword,
  changeEmail,
  listSessions,
  endSession,
];

const badToken = { error: 'the link is not valid, or no longer' };
const signedOut = { error: 'authentication required' };

/** This process has known the user as they were. */
function forgetUser(userId: string, { sessions, tokens }: Services): void {
  sessions.forgetUser(userId);
  tokens.forgetUser(userId);
}

/** The answer to who does not know the user's password; undefined to who does, and where there is none. */
export async function confirmPassword(
  { id, passwordHash }: UserRecord,
  current: string | undefined,
  { throttle, passwords }: Services,
) {
  if (passwordHash === null) return undefined;
  if (current === undefined) {
    const issues = [{ path: 'current', message: 'the present password is needed' }];
    return reply(400, { error: 'invalid request: current: the present password is needed', issues });
  }
  const attempt = await throttle.confirm(id);
  if (attempt.retryAfterMs > 0) return rateLimited({ waitMs: attempt.retryAfterMs });
  const fits = await passwords.verify(passwordHash, current).catch(async (cause) => {
    // Too busy to look: that says nothing about the password.
    await attempt.takeBack();
    throw cause;
  });
  // Not 401: who asks is signed in.
  if (!fits) return reply(403, { error: 'wrong password' });
  await attempt.takeBack();
  return undefined;
}
