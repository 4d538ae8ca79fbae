/** Erasing an account by its user (decisions 1, Account). */
import { ErrorBody, RetryErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { EraseAccountRequest, OkResponse } from '../../schemas/user.ts';
import { confirmPassword } from './account.ts';
import { type AnyRoute, reply, route } from './route.ts';

const eraseAccount = route({
  method: 'delete',
  path: '/api/user',
  summary: 'Erase the account with its projects, assets and media, for good; `current` is its password',
  auth: 'cookie',
  body: EraseAccountRequest,
  responses: {
    200: OkResponse,
    400: ValidationErrorBody,
    401: ErrorBody,
    403: ErrorBody,
    429: RetryErrorBody,
    503: RetryErrorBody.or(ErrorBody),
  },
  async handle({ userId, session, sessionToken, body }, services) {
    const { store, sessions, throttle } = services;
    const user = await store.users.find(userId);
    // Erased within the second in which its session is still known here.
    if (!user) return reply(401, { error: 'authentication required' });
    const refused = await confirmPassword(user, body.current, services);
    if (refused) return refused;

    // By its e-mail as long as it is this account's.
    await Promise.all([
      throttle.forget(user.email),
      store.outbox.removeOf(userId, user.email),
      store.mailbox.removeTo(user.email),
    ]);
    // Of two requests at once one erases it; the other one's answer is as true.
    await services.eraseAccount(userId);
    await sessions.end(sessionToken);
    await services.onSessionEnded(session.id);
    return reply(200, { ok: true }, { 'Set-Cookie': sessions.cleared });
  },
});

export const eraseAccountRoutes: AnyRoute[] = [eraseAccount];
