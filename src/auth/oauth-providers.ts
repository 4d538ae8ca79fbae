/**
 * Google and GitHub as providers of identities: where to send a browser, and who came back.
 *
 * Google speaks OpenID Connect, found by discovery; GitHub plain OAuth 2 with an API of its own. Both get state,
 * PKCE and, where there is one, a nonce. Their addresses come from the configuration, never from a user.
 */
import * as client from 'openid-client';
import { z } from 'zod';
import { oauth as limits } from '../../schemas/limits.ts';
import type { OAuthFlow } from './oauth-flow.ts';

export const OAuthProviderName = z.enum(['google', 'github']);
export type OAuthProviderName = z.infer<typeof OAuthProviderName>;

/** Who signed in. `subject` names the person at the provider for ever; an e-mail may change hands. */
export type OAuthProfile = {
  provider: OAuthProviderName;
  subject: string;
  /** As the provider spells it, and whether it says that it has verified it. */
  email: string;
  isVerified: boolean;
  name: string | undefined;
};

/** `baseUrl`: where the provider is, instead of the real one. */
export type OAuthClient = { clientId: string; clientSecret: string; baseUrl: string | undefined };

export type OAuthProvider = {
  /** Where to send the browser. @throws when the provider is not to be had. */
  authorizationUrl(flow: OAuthFlow): Promise<URL>;
  /** Who came back with this callback address. @throws when the provider refuses, lies or is not to be had. */
  profile(callback: URL, flow: OAuthFlow): Promise<OAuthProfile>;
};

export type OAuthProviders = Partial<Record<OAuthProviderName, OAuthProvider>>;

export type OAuthProvidersOptions = {
  /** Public address of this service, where providers send browsers back to. */
  baseUrl: string;
  now(): number;
  /** Longest wait for one answer. */
  providerMs?: number;
};

export function createOAuthProviders(
  clients: Readonly<Record<OAuthProviderName, OAuthClient | undefined>>,
  { baseUrl, now, providerMs = limits.providerMs }: OAuthProvidersOptions,
): OAuthProviders {
  const fetchFrom = boundedFetch(providerMs);
  const redirectUri = (name: OAuthProviderName) => `${baseUrl}/api/user/oauth/callback/${name}`;
  const { google, github } = clients;
  return {
    ...(google ? { google: createGoogle(google, redirectUri('google'), fetchFrom, now) } : {}),
    ...(github ? { github: createGithub(github, redirectUri('github'), fetchFrom) } : {}),
  };
}

const GoogleClaims = z.object({
  sub: z.string().min(1).max(limits.maxSubjectChars),
  email: z.string(),
  email_verified: z.union([z.boolean(), z.literal('true').transform(() => true)]).catch(false),
  name: z.string().optional().catch(undefined),
});

function createGoogle(
  { clientId, clientSecret, baseUrl = 'https://accounts.google.com' }: OAuthClient,
  redirectUri: string,
  fetchFrom: client.CustomFetch,
  now: () => number,
): OAuthProvider {
  const configuration = remembered(async () => {
    const found = await client.discovery(
      new URL(baseUrl),
      clientId,
      undefined,
      client.ClientSecretPost(clientSecret),
      { [client.customFetch]: fetchFrom, execute: insecureWhere(baseUrl) },
    );
    // The token comes straight from the provider; its signature is checked all the same.
    client.enableNonRepudiationChecks(found);
    return found;
  }, now);

  return {
    async authorizationUrl(flow) {
      return client.buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        nonce: flow.nonce,
        ...(await proof(flow)),
      });
    },

    async profile(callback, flow) {
      const tokens = await client.authorizationCodeGrant(await configuration(), callback, {
        expectedState: flow.state,
        expectedNonce: flow.nonce,
        pkceCodeVerifier: flow.verifier,
        idTokenExpected: true,
      });
      const { sub, email, email_verified, name } = GoogleClaims.parse(tokens.claims());
      return { provider: 'google', subject: sub, email, isVerified: email_verified, name };
    },
  };
}

const GithubUser = z.object({ id: z.int(), login: z.string(), name: z.string().nullish() });
const GithubEmails = z.array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }));

/** With a base URL of its own the API is expected at the same place. */
function createGithub(
  { clientId, clientSecret, baseUrl }: OAuthClient,
  redirectUri: string,
  fetchFrom: client.CustomFetch,
): OAuthProvider {
  const web = baseUrl ?? 'https://github.com';
  const api = baseUrl ?? 'https://api.github.com';
  const configuration = new client.Configuration(
    {
      issuer: `${web}/login/oauth`,
      authorization_endpoint: `${web}/login/oauth/authorize`,
      token_endpoint: `${web}/login/oauth/access_token`,
    },
    clientId,
    undefined,
    client.ClientSecretPost(clientSecret),
  );
  configuration[client.customFetch] = fetchFrom;
  for (const allow of insecureWhere(web)) allow(configuration);

  const read = async <T>(path: string, token: string, schema: z.ZodType<T>): Promise<T> => {
    const answer = await client.fetchProtectedResource(
      configuration,
      token,
      new URL(`${api}${path}`),
      'GET',
      null,
      new Headers({ Accept: 'application/vnd.github+json', 'X-GitHub-Api-Version': '2022-11-28' }),
    );
    if (!answer.ok) throw new Error(`github answers ${answer.status} for ${path}`);
    return schema.parse(await answer.json());
  };

  return {
    async authorizationUrl(flow) {
      return client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: 'read:user user:email',
        ...(await proof(flow)),
      });
    },

    async profile(callback, flow) {
      // A refusal comes with status 200 here: what has no access_token is none.
      const { access_token } = await client.authorizationCodeGrant(configuration, callback, {
        expectedState: flow.state,
        pkceCodeVerifier: flow.verifier,
      });
      const [user, emails] = await Promise.all([
        read('/user', access_token, GithubUser),
        read('/user/emails', access_token, GithubEmails),
      ]);
      const primary = emails.find((one) => one.primary);
      return {
        provider: 'github',
        subject: String(user.id),
        email: primary?.email ?? '',
        isVerified: primary?.verified ?? false,
        name: user.name ?? user.login,
      };
    },
  };
}

async function proof({ state, verifier }: OAuthFlow): Promise<Record<string, string>> {
  return {
    state,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  };
}

/** Plain http is for a provider on this machine: config.ts lets no other through. */
function insecureWhere(baseUrl: string) {
  return baseUrl.startsWith('http:') ? [client.allowInsecureRequests] : [];
}

/** Remembers what was found for a while; a failure is not remembered, and calls at once share one search. */
function remembered<T>(find: () => Promise<T>, now: () => number): () => Promise<T> {
  let found: { value: Promise<T>; untilTs: number } | undefined;
  return () => {
    if (found && found.untilTs > now()) return found.value;
    const value = find();
    const mine = { value, untilTs: now() + limits.discoveryMs };
    found = mine;
    value.catch(() => {
      if (found === mine) found = undefined;
    });
    return value;
  };
}

/**
 * fetch with an end: a provider has so long for its whole answer, and a megabyte.
 *
 * @throws beyond either.
 */
function boundedFetch(ms: number): client.CustomFetch {
  return async (url, { body, headers, method, redirect }) => {
    const control = new AbortController();
    const timer = setTimeout(() => control.abort(new Error('the provider is too slow')), ms);
    try {
      const answer = await fetch(url, {
        method,
        headers: { 'User-Agent': 'animated-asset-service', ...headers },
        redirect,
        signal: control.signal,
        ...(body === undefined ? {} : { body: body as NonNullable<RequestInit['body']> }),
      });
      return await whole(answer);
    } finally {
      clearTimeout(timer);
      // What was not read of a refused answer is not read any more.
      control.abort();
    }
  };
}

/** An answer with its body read. */
async function whole(answer: Response): Promise<Response> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of answer.body ?? []) {
    bytes += piece.byteLength;
    if (bytes > limits.maxAnswerBytes) throw new Error('the provider says too much');
    pieces.push(piece);
  }
  const { status, statusText, headers } = answer;
  return new Response(bytes === 0 ? null : Buffer.concat(pieces), { status, statusText, headers });
}
