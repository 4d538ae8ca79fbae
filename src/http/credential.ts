/**
 * What a request brings along to say who sends it: a session's cookie or an API token. Shared by JSON routes and
 * streams.
 */
import { type Session, tokenIn } from '../auth/sessions.ts';
import { bearerIn } from '../auth/tokens.ts';
import type { Answer } from './exchange.ts';
import type { Services } from './services.ts';

/** `bearer` without a token: one was sent that can be nobody's. */
export type Credential = { kind: 'bearer'; token: string | undefined } | { kind: 'cookie'; token: string };

/**
 * A token wins over a cookie. Another scheme than Bearer is not for us (a server in front may ask for Basic): then
 * the cookie counts, as without the header.
 *
 * @param headers empty when absent
 */
export function readCredential(headers: { authorization: string; cookie: string }): Credential | undefined {
  const { authorization, cookie } = headers;
  if (authorization !== '' && isBearer.test(authorization)) {
    return { kind: 'bearer', token: bearerIn(authorization) };
  }
  const token = cookie === '' ? undefined : tokenIn(cookie);
  return token === undefined ? undefined : { kind: 'cookie', token };
}

/** Who that is; at once when it is known already. */
export function findSession(
  credential: Credential | undefined,
  { sessions, tokens }: Pick<Services, 'sessions' | 'tokens'>,
): Session | undefined | Promise<Session | undefined> {
  if (credential?.token === undefined) return undefined;
  return credential.kind === 'bearer' ? tokens.find(credential.token) : sessions.find(credential.token);
}

/** 401, and what would be accepted (RFC 6750). */
export const unauthorized: Answer = {
  status: 401,
  body: { error: 'authentication required' },
  headers: { 'WWW-Authenticate': 'Bearer' },
};

const isBearer = /^Bearer(\s|$)/i;
