/**
 * One sign-in at another provider, from the redirect there to the redirect back (decisions 1, OAuth).
 *
 * What belongs to it stays in the browser, in a signed cookie of its own per flow, so that several tabs may sign
 * in at once and no other browser can finish what this one began.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { oauth as limits } from '../../schemas/limits.ts';
import type { OAuthProviderName } from './oauth-providers.ts';

/** `state`, `nonce` and `verifier` are 256 random bits each, base64url; `expiresTs` is unix ms. */
export type OAuthFlow = {
  provider: OAuthProviderName;
  state: string;
  nonce: string;
  verifier: string;
  expiresTs: number;
};

export type OAuthFlows = ReturnType<typeof createOAuthFlows>;

export type OAuthFlowsOptions = {
  /** Signs cookies; the same in all processes. */
  key: Uint8Array;
  now(): number;
  /** Whether the service is reached by https. */
  secure: boolean;
};

const cookiePrefix = 'service.oauth.';
const cookiePath = '/api/user/oauth';
const nameChars = 8;
const secretBytes = 32;
const secret = '([A-Za-z0-9_-]{43})';
const cookieForm = new RegExp(
  `^(google|github)\\.(\\d{1,15})\\.${secret}\\.${secret}\\.${secret}\\.${secret}$`,
);

export function createOAuthFlows({ key, now, secure }: OAuthFlowsOptions) {
  const attributes = `Path=${cookiePath}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  const cleared = (name: string) => `${name}=; ${attributes}; Max-Age=0`;
  const sign = (text: string) => createHmac('sha256', key).update(text).digest('base64url');

  const open = (value: string): OAuthFlow | undefined => {
    const [, provider, expires, state, nonce, verifier, signature] = cookieForm.exec(value) ?? [];
    if (!isProvider(provider) || !state || !nonce || !verifier || !signature) return undefined;
    const signed = sign(value.slice(0, value.lastIndexOf('.')));
    if (!timingSafeEqual(Buffer.from(signed), Buffer.from(signature))) return undefined;
    return { provider, state, nonce, verifier, expiresTs: Number(expires) };
  };

  return {
    /**
     * Begins a flow.
     *
     * @param cookieHeader what the browser sent: flows beyond a few are dropped, the oldest first, so that the
     *   header stays short.
     * @returns the flow, and the values of Set-Cookie that keep it.
     */
    begin(provider: OAuthProviderName, cookieHeader: string): { flow: OAuthFlow; cookies: string[] } {
      const flow = {
        provider,
        state: newSecret(),
        nonce: newSecret(),
        verifier: newSecret(),
        expiresTs: now() + limits.stateMs,
      };
      const text = [provider, flow.expiresTs, flow.state, flow.nonce, flow.verifier].join('.');
      const kept = `${nameOf(flow.state)}=${text}.${sign(text)}; ${attributes}; Max-Age=${limits.stateMs / 1_000}`;
      const dropped = flowCookies(cookieHeader)
        .map(([name, value]) => ({ name, expiresTs: open(value)?.expiresTs ?? 0 }))
        .sort((one, other) => other.expiresTs - one.expiresTs)
        .slice(limits.maxFlows - 1)
        .map(({ name }) => cleared(name));
      return { flow, cookies: [kept, ...dropped] };
    },

    /**
     * The flow that a callback belongs to; undefined when this browser began none with that state, or too long
     * ago. `cookie`: the value of Set-Cookie that forgets it.
     */
    end(
      provider: OAuthProviderName,
      state: string,
      cookieHeader: string,
    ): { flow: OAuthFlow | undefined; cookie: string } {
      const name = nameOf(state);
      const value = flowCookies(cookieHeader).find(([one]) => one === name)?.[1] ?? '';
      const flow = open(value);
      const fits = flow?.state === state && flow.provider === provider && flow.expiresTs > now();
      return { flow: fits ? flow : undefined, cookie: cleared(name) };
    },
  };
}

/** Cookies are named after their state, in letters that a cookie's name may have whatever a caller sends. */
function nameOf(state: string): string {
  return cookiePrefix + createHash('sha256').update(state).digest('hex').slice(0, nameChars);
}

/** Names and values of the cookies of flows. */
function flowCookies(cookieHeader: string): [name: string, value: string][] {
  return cookieHeader
    .split(';')
    .map((pair): [string, string] => {
      const at = pair.indexOf('=');
      return at === -1 ? ['', ''] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    })
    .filter(
      ([name]) => name.startsWith(cookiePrefix) && /^[0-9a-f]{8}$/.test(name.slice(cookiePrefix.length)),
    );
}

function isProvider(text: string | undefined): text is OAuthProviderName {
  return text === 'google' || text === 'github';
}

function newSecret(): string {
  return randomBytes(secretBytes).toString('base64url');
}
