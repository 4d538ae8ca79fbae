/** API tokens of users (decisions 1). A token cannot make another one. */
import { ErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { account as limits } from '../../schemas/limits.ts';
import { ApiTokenList, CreateTokenRequest, NewApiToken, OkResponse } from '../../schemas/user.ts';
import type { TokenRecord } from '../store/tokens.ts';
import { type AnyRoute, reply, route } from './route.ts';

const createToken = route({
  method: 'post',
  path: '/api/user/tokens',
  summary: 'Make an API token; the answer is the only one that shows it',
  auth: 'cookie',
  body: CreateTokenRequest,
  responses: { 201: NewApiToken, 400: ValidationErrorBody, 409: ErrorBody },
  async handle({ session, body }, { tokens, now }) {
    const { name, expires_at: expiresTs = null } = body;
    if (expiresTs !== null && expiresTs <= now()) {
      const issues = [{ path: 'expires_at', message: 'a time that has passed' }];
      return reply(400, { error: 'invalid request: expires_at: a time that has passed', issues });
    }
    const made = await tokens.create(session, name, expiresTs);
    if (!made) return reply(409, { error: `at most ${limits.maxTokens} API tokens` });
    return reply(201, { ...toBody(made.record), token: made.token });
  },
});

const listTokens = route({
  method: 'get',
  path: '/api/user/tokens',
  summary: 'API tokens of the signed-in user, oldest first',
  responses: { 200: ApiTokenList },
  async handle({ session }, { tokens }) {
    return reply(200, { tokens: (await tokens.list(session)).map(toBody) });
  },
});

const revokeToken = route({
  method: 'delete',
  path: '/api/user/tokens/:id',
  summary: 'Revoke an API token',
  responses: { 200: OkResponse, 404: ErrorBody },
  async handle({ userId, id }, { tokens, onSessionEnded }) {
    if (!(await tokens.revoke(userId, id))) return reply(404, { error: 'not found' });
    // Streams that it has opened know it as their session.
    await onSessionEnded(id);
    return reply(200, { ok: true });
  },
});

export const tokenRoutes: AnyRoute[] = [createToken, listTokens, revokeToken];

function toBody({ id, name, preview, createdTs, expiresTs, usedTs }: TokenRecord) {
  return {
    id,
    name,
    preview,
    created_at: createdTs,
    expires_at: expiresTs,
    last_used_at: usedTs,
  };
}
