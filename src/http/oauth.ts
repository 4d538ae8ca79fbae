/**
 * Signing in with Google or GitHub (specification 4.1, decisions 1, OAuth): a redirect there, and one back.
 *
 * Both are visits of a browser, so what goes wrong is told by a redirect to the sign-in page.
 */
import { type OAuthAccounts, UnverifiedEmailError } from '../auth/oauth-accounts.ts';
import type { OAuthFlow, OAuthFlows } from '../auth/oauth-flow.ts';
import {
  type OAuthProfile,
  type OAuthProvider,
  OAuthProviderName,
  type OAuthProviders,
} from '../auth/oauth-providers.ts';
import { addressOf } from './address.ts';
import { answerJson, type Exchange, endEmpty, writeHead } from './exchange.ts';
import type { Head } from './head.ts';
import { rateLimited } from './rate-policy.ts';
import { oauthSpec } from './raw-specs.ts';
import { type RawRoute, rawRoute } from './route.ts';
import type { Services } from './services.ts';

export type OAuthParts = { providers: OAuthProviders; flows: OAuthFlows; accounts: OAuthAccounts };

/** What `error` of the sign-in page may be (decisions 1, OAuth failures). */
type Failure =
  | 'oauth_denied'
  | 'oauth_state'
  | 'oauth_email_unverified'
  | 'oauth_provider'
  | 'oauth_not_configured';

/** What a visit ends in: a redirect with its cookies, or too many of them. */
type Outcome = { to: string; cookies: string[]; err?: unknown; userId?: string } | { retryAfterMs: number };

type Visit = {
  provider: OAuthProvider | undefined;
  name: OAuthProviderName;
  head: Head;
  query: string;
  address: string;
};

export function oauthRoutes(parts: OAuthParts): RawRoute[] {
  const visits = [
    { path: '/api/user/oauth/:provider', summary: 'Go to a provider to sign in', visit: leave },
    {
      path: '/api/user/oauth/callback/:provider',
      summary: 'Come back from a provider, signed in',
      visit: comeBack,
    },
  ];
  return visits.map(({ path, summary, visit }) =>
    rawRoute({
      method: 'get',
      path,
      summary,
      ...oauthSpec,
      handle(_res, req, services, exchange) {
        const { data: name } = OAuthProviderName.safeParse(req.getParameter(0));
        if (!name) {
          answerJson(exchange, { status: 404, body: { error: 'not found' } });
          return undefined;
        }
        const { head } = exchange;
        const address = addressOf(exchange, head, services);
        const query = req.getQuery() ?? '';
        return answerVisit(exchange, services, () =>
          visit({ provider: parts.providers[name], name, head, query, address }, parts, services),
        );
      },
    }),
  );
}

async function answerVisit(
  exchange: Exchange,
  { config }: Services,
  visit: () => Promise<Outcome>,
): Promise<void> {
  const outcome = await visit();
  if (!exchange.isOpen) return;
  if ('retryAfterMs' in outcome) {
    answerJson(exchange, rateLimited({ waitMs: outcome.retryAfterMs }));
    return;
  }
  const { to, cookies, ...fields } = outcome;
  exchange.res.cork(() => {
    writeHead(exchange, 302, {
      Location: to.startsWith('/') ? `${config.baseUrl}${to}` : to,
      'Cache-Control': 'no-store',
      'Referrer-Policy': 'no-referrer',
    });
    for (const cookie of cookies) exchange.res.writeHeader('Set-Cookie', cookie);
    endEmpty(exchange, 302, exchange.isStopping);
  });
  exchange.done(302, fields);
}

async function leave(
  { provider, name, head, address }: Visit,
  { flows }: OAuthParts,
  { throttle }: Services,
): Promise<Outcome> {
  if (!provider) return failed('oauth_not_configured');
  const { retryAfterMs } = await throttle.oauth(address);
  if (retryAfterMs > 0) return { retryAfterMs };
  const { flow, cookies } = flows.begin(name, head.cookie);
  try {
    return { to: (await provider.authorizationUrl(flow)).href, cookies };
  } catch (err) {
    return failed('oauth_provider', [], err);
  }
}

async function comeBack(
  { provider, name, head, query, address }: Visit,
  { flows, accounts }: OAuthParts,
  { throttle, sessions, config }: Services,
): Promise<Outcome> {
  if (!provider) return failed('oauth_not_configured');
  const { retryAfterMs } = await throttle.oauth(address);
  if (retryAfterMs > 0) return { retryAfterMs };
  const asked = new URLSearchParams(query);
  const { flow, cookie } = flows.end(name, asked.get('state') ?? '', head.cookie);
  if (!flow || !(await throttle.oauthOnce(flow.state))) return failed('oauth_state', [cookie]);
  const refused = asked.get('error');
  if (refused !== null)
    return failed(refused === 'access_denied' ? 'oauth_denied' : 'oauth_provider', [cookie]);

  const callback = new URL(`${config.baseUrl}/api/user/oauth/callback/${name}?${query}`);
  const profile = await profileOf(provider, callback, flow);
  if ('err' in profile) return failed('oauth_provider', [cookie], profile.err);
  try {
    const userId = await accounts.userIdOf(profile);
    const session = await sessions.start(userId, { userAgent: head.userAgent, address });
    return { to: '/dashboard', cookies: [session.cookie, cookie], userId };
  } catch (err) {
    if (err instanceof UnverifiedEmailError) return failed('oauth_email_unverified', [cookie]);
    throw err;
  }
}

function failed(error: Failure, cookies: string[] = [], err?: unknown): Outcome {
  return { to: `/dashboard/signin?error=${error}`, cookies, ...(err === undefined ? {} : { err }) };
}

/** Whatever is wrong with the provider's answers, its user learns the same. */
async function profileOf(
  provider: OAuthProvider,
  callback: URL,
  flow: OAuthFlow,
): Promise<OAuthProfile | { err: unknown }> {
  try {
    return await provider.profile(callback, flow);
  } catch (err) {
    return { err };
  }
}
