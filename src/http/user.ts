/** Accounts and sessions (specification 4.1, decisions 1). */
import { ErrorBody, RetryErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import {
  MaybeSessionResponse,
  OkResponse,
  SessionResponse,
  SigninRequest,
  SignupRequest,
  UserProfile,
} from '../../schemas/user.ts';
import { BusyError } from '../auth/passwords.ts';
import { runsOf } from '../quota/runs.ts';
import { isTaken } from '../store/client.ts';
import type { UserRecord } from '../store/users.ts';
import { rateLimited } from './rate-policy.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';

const signUp = route({
  method: 'post',
  path: '/api/user/signup',
  summary: 'Make an account and sign in',
  description: 'A project named “Default” comes with the account. The answer sets the session cookie.',
  auth: 'none',
  body: SignupRequest,
  responses: { 201: SessionResponse, 400: ValidationErrorBody, 409: ErrorBody, 429: RetryErrorBody },
  answerHeaders: { 201: { 'Set-Cookie': 'always' } },
  async handle({ body, address, userAgent }, { store, passwords, sessions, throttle, newId, now }) {
    const { email, password, name } = body;
    const { retryAfterMs } = await throttle.signUp(address);
    if (retryAfterMs > 0) return rateLimited({ waitMs: retryAfterMs });
    // Before the hash, which costs a thousand times more than looking.
    if (await store.users.findByEmail(email)) return reply(409, emailTaken);

    const id = newId('usr');
    const createdTs = now();
    const user = { id, email, name, passwordHash: await passwords.hash(password), createdTs };
    const project = { id: newId('prj'), userId: id, name: defaultProjectName, createdTs, isDefault: true };
    try {
      await store.accounts.create(user, project, { kind: 'verify', userId: id, to: email });
    } catch (cause) {
      // Two sign-ups of one e-mail at once: the unique index lets one win.
      if (isTaken(cause)) return reply(409, emailTaken);
      throw cause;
    }
    const { cookie } = await sessions.start(id, { epoch: 0, userAgent, address });
    return reply(201, { user: { id, email, name } }, { 'Set-Cookie': cookie });
  },
});

const signIn = route({
  method: 'post',
  path: '/api/user/signin',
  summary: 'Sign in',
  auth: 'none',
  body: SigninRequest,
  responses: { 200: SessionResponse, 400: ValidationErrorBody, 401: ErrorBody, 429: RetryErrorBody },
  answerHeaders: { 200: { 'Set-Cookie': 'always' } },
  handle({ body, address, userAgent }, services) {
    return services.passwords.admit(() => checkPassword(body, { address, userAgent }, services));
  },
});

const signOut = route({
  method: 'post',
  path: '/api/user/signout',
  summary: 'End the session',
  auth: 'cookie',
  responses: { 200: OkResponse },
  answerHeaders: { 200: { 'Set-Cookie': 'always' } },
  async handle({ session, sessionToken }, { sessions, onSessionEnded }) {
    await sessions.end(sessionToken);
    await onSessionEnded(session.id);
    return reply(200, { ok: true }, { 'Set-Cookie': sessions.cleared });
  },
});

const readSession = route({
  method: 'get',
  path: '/api/user/session',
  summary: 'Who is signed in',
  auth: 'optional',
  responses: { 200: MaybeSessionResponse },
  handle: ({ session }) => reply(200, { user: session?.user ?? null }),
});

const readProfile = route({
  method: 'get',
  path: '/api/user/me',
  summary: 'Profile and usage of the signed-in user',
  responses: { 200: UserProfile, 401: ErrorBody },
  async handle({ userId, session }, { store, countAssets, now, isOperator }) {
    const [user, compositionCount, themeCount] = await Promise.all([
      store.users.find(userId),
      countAssets({ userId }),
      store.projects.countBranded(userId),
    ]);
    // Erased within the second in which its session is still known here.
    if (!user) return reply(401, { error: 'authentication required' });
    const { runs, resetAt } = runsOf(user, now());
    return reply(200, {
      id: user.id,
      email: user.email,
      name: user.name,
      plan: user.plan,
      aiGenerationsUsed: runs,
      aiGenerationsResetAt: resetAt === null ? null : new Date(resetAt).toISOString(),
      compositionCount,
      themeCount,
      createdAt: new Date(user.createdTs).toISOString(),
      emailVerified: user.emailVerified,
      hasPassword: user.passwordHash !== null,
      isOperator: isOperator(session),
    });
  },
});

export const userRoutes: AnyRoute[] = [signUp, signIn, signOut, readSession, readProfile];

const defaultProjectName = 'Default';
export const emailTaken = { error: 'email already registered' };

async function checkPassword(
  { email, password }: SigninRequest,
  client: { address: string; userAgent: string },
  services: Services,
) {
  const { store, passwords, sessions, throttle } = services;
  const attempt = await throttle.signIn(email, client.address);
  if (attempt.retryAfterMs > 0) return rateLimited({ waitMs: attempt.retryAfterMs });
  const user = await store.users.findByEmail(email);
  const fits = await passwords.verify(user?.passwordHash ?? null, password).catch(async (cause) => {
    // Too busy to look: that says nothing about the password.
    await attempt.takeBack();
    throw cause;
  });
  if (!user || !fits) return reply(401, { error: 'invalid credentials' });

  await attempt.takeBack();
  await strengthen(user, password, services);
  const { id, name, epoch } = user;
  // The epoch in which the password fitted: one that was changed meanwhile opens nothing.
  const { cookie } = await sessions.start(id, { epoch, ...client });
  return reply(200, { user: { id, email: user.email, name } }, { 'Set-Cookie': cookie });
}

/** Hashes a password again that was hashed with less than is asked of new ones. */
async function strengthen(
  { id, passwordHash }: UserRecord,
  password: string,
  { store, passwords }: Services,
): Promise<void> {
  if (passwordHash === null || !passwords.isWeak(passwordHash)) return;
  try {
    await store.users.rehash(id, passwordHash, await passwords.hash(password));
  } catch (cause) {
    // Too busy: the next sign-in is as good.
    if (!(cause instanceof BusyError)) throw cause;
  }
}
