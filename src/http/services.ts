/** What handlers of requests are given. Built once at start; tests hand in their own parts. */

import type { ProviderStatus } from '../../schemas/operator.ts';
import { createTrustedProxies, type TrustedProxies } from '../auth/client-address.ts';
import { type CrossSiteCheck, createCrossSiteCheck } from '../auth/cross-site.ts';
import { createOperatorCheck, type OperatorCheck } from '../auth/operators.ts';
import { createPasswords, type Passwords } from '../auth/passwords.ts';
import { createSessions, type Sessions } from '../auth/sessions.ts';
import { createThrottle, type Throttle } from '../auth/throttle.ts';
import { createTokens, type Tokens } from '../auth/tokens.ts';
import type { CrawlWatch } from '../brand/crawl-progress.ts';
import type { Crawls } from '../brand/crawls.ts';
import type { Storage } from '../media/storage.ts';
import type { OperatorStore } from '../operator/accounts.ts';
import type { OperatorConsole } from '../operator/console.ts';
import { createRateLimit, type RateLimit } from '../quota/rate-limit.ts';
import type { Store } from '../store/client.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import type { AssetRequests } from './asset-requests.ts';

/** The logger handed in; pino fits. One line per finished request. */
export type Log = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** The line of a request that went well, where there is a cheaper way than `info`. */
  request?(line: {
    requestId: string;
    method: string;
    route: string;
    status: number;
    ms: number;
    userId: string | undefined;
  }): void;
};

export type HttpConfig = {
  /** Public address without a slash at its end. */
  baseUrl: string;
  mode: 'development' | 'production';
  /** Addresses and CIDR ranges whose X-Forwarded-For is believed. */
  trustedProxies: readonly string[];
  /** Origins beside base_url's that may send requests with the cookie. */
  trustedOrigins?: readonly string[];
  /** Accounts that may call /api/operator, in lower case. */
  operatorEmails?: readonly string[];
  /** Multiplies every rate limit; for load tests. */
  rateLimitFactor?: number;
};

/** What rules of sign-in and limits need. */
export type Access = {
  passwords: Passwords;
  sessions: Sessions;
  tokens: Tokens;
  throttle: Throttle;
  rateLimit: RateLimit;
  trustedProxies: TrustedProxies;
  isCrossSite: CrossSiteCheck;
  isOperator: OperatorCheck;
};

export type Services = Access & {
  config: HttpConfig;
  log: Log;
  /** Unix ms. */
  now(): number;
  newId(prefix: string): string;
  store: Pick<
    Store,
    | 'users'
    | 'projects'
    | 'uploads'
    | 'accounts'
    | 'sessions'
    | 'tokens'
    | 'mailTokens'
    | 'outbox'
    | 'idempotency'
    | 'usage'
    | 'deepCrawls'
    | 'deliveries'
    | 'operatorViews'
  > &
    OperatorStore;
  storage: Storage;
  /** Assets: see asset-requests.ts. */
  assets: AssetRequests;
  /** Brand detection and deep crawls: see src/brand/crawls.ts. */
  crawls: Crawls;
  /** Tells a project's streams how far the crawl is that it waits for. */
  crawlWatch: Pick<CrawlWatch, 'watch'>;
  /** Webhooks: see src/webhooks/webhooks.ts. */
  webhooks: Webhooks;
  /** Judges a source's address by its text alone: see src/outbound. */
  judgeUrl(text: string): { ok: true } | { ok: false; reason: string };
  /** Storage key of a source that was uploaded here; undefined for an address outside. */
  uploadKey(url: string): string | undefined;
  /** Public address of stored media. */
  mediaUrl(key: string): string;
  /** Number of assets of a user or of a project. */
  countAssets(of: { userId: string } | { projectId: string }): Promise<number>;
  /** What operators look at and do: see src/operator. */
  operator: OperatorConsole;
  /** How the model providers are doing. */
  providerStatus(): Promise<ProviderStatus[]>;
  /** Whether everything this process needs can be reached, and what cannot. */
  ready(signal: AbortSignal): Promise<{ ok: boolean; failing: string[] }>;
  /** Keys, origins or settings have changed: caches forget the project; `oldKey` no longer is one. */
  onProjectChanged(projectId: string, change: { oldKey?: string }): Promise<void>;
  /** The project is gone: its runs are cancelled, its streams and deliveries end. */
  onProjectDeleted(projectId: string, change: { oldKey?: string }, requestId: string): Promise<void>;
  /** Erases an asset: see src/erasure. Answers false when it was erased before. */
  eraseAsset(asset: { id: string; projectId: string; src: string }): Promise<boolean>;
  /** Erases an account: gone at once for everybody, and bit by bit. Answers false when there is none. */
  eraseAccount(userId: string): Promise<boolean>;
  /** The session is over, or the API token of that id: its streams end. */
  onSessionEnded(sessionId: string): Promise<void>;
  /** All sessions and API tokens of the user are over but one: their streams end. */
  onSessionsEnded(userId: string, exceptSessionId?: string): Promise<void>;
};

/** Builds the rules of sign-in and limits over a store. @throws {TypeError} for a bad range of addresses. */
export function createAccess(
  store: Pick<Store, 'sessions' | 'tokens' | 'users' | 'attempts'>,
  config: HttpConfig,
  now: () => number,
): Access {
  const isDevelopment = config.mode === 'development';
  return {
    passwords: createPasswords(),
    sessions: createSessions({
      sessions: store.sessions,
      users: store.users,
      now,
      secure: config.baseUrl.startsWith('https:'),
    }),
    tokens: createTokens({ tokens: store.tokens, users: store.users, now }),
    throttle: createThrottle({ attempts: store.attempts, now, exemptLoopback: isDevelopment }),
    rateLimit: createRateLimit({ now }),
    trustedProxies: createTrustedProxies(config.trustedProxies),
    isCrossSite: createCrossSiteCheck({
      baseUrl: config.baseUrl,
      trustedOrigins: config.trustedOrigins ?? [],
      joinLoopback: isDevelopment,
    }),
    isOperator: createOperatorCheck(config.operatorEmails ?? [], isDevelopment),
  };
}
