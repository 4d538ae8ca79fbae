/**
 * The typed client, for servers and browsers: `createClient({ baseUrl, token })` has a method for every endpoint, and
 * what programs do with several of them: waiting for an asset, following events. Beside it stand functions that need
 * no client: addresses of the proxy, signed ones too, and the check of webhooks.
 *
 * It stands on fetch and Web Crypto alone. Types come from the schemas, and nothing else does: test/client measures
 * what a browser has to load.
 */
import type {
  Asset,
  AssetList,
  AssetStatus,
  CancelResponse,
  PrepareRequest,
  PrepareResponse,
  RegenerateRequest,
  RegenerateResponse,
  UploadResponse,
} from '../../schemas/asset.ts';
import type { DeepCrawlResult } from '../../schemas/crawl.ts';
import type { AssetEvent, DeliveryEvent } from '../../schemas/events.ts';
import type {
  BrandConfig,
  CreateProjectRequest,
  Project,
  ProxyConfigRequest,
  ProxyConfigResponse,
  UpdateProjectRequest,
} from '../../schemas/project.ts';
import type { UsageResponse } from '../../schemas/usage.ts';
import type { ApiToken, SessionUser, SignupRequest, UserProfile } from '../../schemas/user.ts';
import type {
  Delivery,
  DeliveryDetail,
  DeliveryStatus,
  WebhookConfig,
  WebhookConfigRequest,
} from '../../schemas/webhook.ts';
import { trimSlash } from './proxy-url.ts';
import { type Asked, ask, type CallOptions, type Transport } from './request.ts';
import { eventsOf, type StreamOptions } from './stream.ts';
import { type WaitOptions, waitFor } from './wait-for.ts';

export type { Asset, AssetOptions, PrepareRequest, PrepareResponse } from '../../schemas/asset.ts';
export type { AssetEvent, EventName, WebhookEnvelope } from '../../schemas/events.ts';
export type { Project, ProxyConfigRequest } from '../../schemas/project.ts';
export type { Delivery, DeliveryDetail, WebhookConfig } from '../../schemas/webhook.ts';
export { type ClientErrorCode, ServiceError } from './error.ts';
export { type ProxyAddress, type ProxyOptions, proxyUrl, type SignedAddress, signUrl } from './proxy-url.ts';
export type { CallOptions } from './request.ts';
export type { StreamOptions } from './stream.ts';
export { verifyWebhook, type WebhookRequest, WebhookVerificationError } from './verify-webhook.ts';
export type { ReadyAsset, WaitOptions } from './wait-for.ts';

export type ClientOptions = {
  /** Address of the service. In pages of the service itself '' will do. */
  baseUrl: string;
  /** `sat_…`: of servers alone. Pages of the service are let in by their cookie. */
  token?: string | undefined;
  /** Instead of the global one. */
  fetch?: typeof fetch | undefined;
  /** Sent with every request. */
  headers?: Record<string, string> | undefined;
  /** Of one try; crawls and uploads have longer. */
  timeoutMs?: number | undefined;
  /** How often a request is sent again. */
  maxRetries?: number | undefined;
};

export type Client = ReturnType<typeof createClient>;

type Ok = { ok: boolean };
type Session = {
  id: string;
  created_at: number;
  last_seen_at: number;
  user_agent: string | null;
  address: string | null;
  current: boolean;
};
type AssetQuery = { project_id?: string; status?: AssetStatus; limit?: number; cursor?: string };
type DeliveryQuery = {
  limit?: number;
  status?: DeliveryStatus;
  event_type?: DeliveryEvent;
  asset_id?: string;
  cursor?: string;
};

const usualMs = 30_000;
/** A deep crawl reads a whole site; an upload may have a slow line. */
const patientMs = 120_000;

/** Nothing is asked before the first call. Every method throws ServiceError, or the reason of its signal. */
export function createClient({
  baseUrl,
  token,
  headers,
  fetch: ownFetch = (...args) => fetch(...args),
  timeoutMs = usualMs,
  maxRetries = 3,
}: ClientOptions) {
  const transport: Transport = {
    baseUrl: trimSlash(baseUrl),
    headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
    fetch: ownFetch,
    timeoutMs,
    maxRetries,
  };
  const get = <Answer>(path: string, options?: CallOptions, query?: Asked['query']) =>
    ask<Answer>(transport, 'GET', path, { ...options, query });
  const post = <Answer>(path: string, body?: object, options?: CallOptions) =>
    ask<Answer>(transport, 'POST', path, { ...options, body });
  const put = <Answer>(path: string, body: object, options?: CallOptions) =>
    ask<Answer>(transport, 'PUT', path, { ...options, body });
  const remove = (path: string, options?: CallOptions, body?: object) =>
    ask<Ok>(transport, 'DELETE', path, { ...options, body });
  /** A POST that begins something: sent twice it is still one. */
  const begin = <Answer>(path: string, body?: object, options?: CallOptions) =>
    post<Answer>(path, body, { ...options, idempotencyKey: options?.idempotencyKey ?? newKey() });
  const listAssets = (query: AssetQuery = {}, options?: CallOptions) =>
    get<AssetList>('/api/assets', options, query);

  return {
    account: {
      /** In pages the cookie is set. Servers use tokens. */
      signUp: (body: SignupRequest, options?: CallOptions) =>
        post<{ user: SessionUser }>('/api/user/signup', body, options),
      signIn: (body: { email: string; password: string }, options?: CallOptions) =>
        post<{ user: SessionUser }>('/api/user/signin', body, options),
      signOut: (options?: CallOptions) => post<Ok>('/api/user/signout', undefined, options),
      /** `user` is null when nobody is signed in. */
      session: (options?: CallOptions) => get<{ user: SessionUser | null }>('/api/user/session', options),
      me: (options?: CallOptions) => get<UserProfile>('/api/user/me', options),
      update: (body: { name?: string }, options?: CallOptions) =>
        put<{ user: SessionUser }>('/api/user', body, options),
      /** Erases the account with everything in it. */
      erase: (body: { current?: string }, options?: CallOptions) => remove('/api/user', options, body),
      verifyEmail: (body: { token: string }, options?: CallOptions) =>
        post<Ok>('/api/user/email/verify', body, options),
      changeEmail: (body: { email: string; current?: string }, options?: CallOptions) =>
        post<Ok>('/api/user/email', body, options),
      forgotPassword: (body: { email: string }, options?: CallOptions) =>
        post<Ok>('/api/user/password/forgot', body, options),
      resetPassword: (body: { token: string; password: string }, options?: CallOptions) =>
        post<Ok>('/api/user/password/reset', body, options),
      changePassword: (body: { current?: string; password: string }, options?: CallOptions) =>
        post<Ok>('/api/user/password', body, options),
      sessions: (options?: CallOptions) => get<{ sessions: Session[] }>('/api/user/sessions', options),
      endSession: (id: string, options?: CallOptions) => remove(at`/api/user/sessions/${id}`, options),
      /** Where a browser goes to sign in with another account. */
      oauthUrl: (provider: 'google' | 'github') => `${transport.baseUrl}/api/user/oauth/${provider}`,
    },
    tokens: {
      /** The only answer that shows the token. */
      create: (body: { name: string; expires_at?: number | string | null }, options?: CallOptions) =>
        post<ApiToken & { token: string }>('/api/user/tokens', body, options),
      list: (options?: CallOptions) => get<{ tokens: ApiToken[] }>('/api/user/tokens', options),
      revoke: (id: string, options?: CallOptions) => remove(at`/api/user/tokens/${id}`, options),
    },
    usage: (options?: CallOptions) => get<UsageResponse>('/api/user/usage', options),
    projects: {
      create: (body: CreateProjectRequest, options?: CallOptions) =>
        begin<{ project: Project }>('/api/projects', body, options),
      list: (options?: CallOptions) => get<{ projects: Project[] }>('/api/projects', options),
      get: (id: string, options?: CallOptions) =>
        get<{ project: Project; compositionCount: number }>(at`/api/projects/${id}`, options),
      update: (id: string, body: UpdateProjectRequest, options?: CallOptions) =>
        put<Ok>(at`/api/projects/${id}`, body, options),
      delete: (id: string, options?: CallOptions) => remove(at`/api/projects/${id}`, options),
      /** The first save makes the project key; enabling signing shows the signing secret, once. */
      configureProxy: (id: string, body: ProxyConfigRequest, options?: CallOptions) =>
        put<ProxyConfigResponse>(at`/api/projects/${id}/proxy-config`, body, options),
      rotateProxyKey: (id: string, options?: CallOptions) =>
        post<{ proxy_key: string }>(at`/api/projects/${id}/keys/rotate?which=proxy`, undefined, options),
      rotateSigningSecret: (id: string, options?: CallOptions) =>
        post<{ signing_secret: string }>(
          at`/api/projects/${id}/keys/rotate?which=signing`,
          undefined,
          options,
        ),
    },
    brand: {
      /** Colours and fonts of a domain, in some seconds; kept with the project when one is named. */
      detect: (domain: string, projectId?: string, options?: CallOptions) =>
        post<{ brandConfig: BrandConfig }>(
          crawlPath('detect-brand', projectId),
          { domain },
          patient(options),
        ),
      /** Everything a domain says of itself, in up to a minute. */
      crawl: (domain: string, projectId?: string, options?: CallOptions) =>
        post<{ result: DeepCrawlResult }>(crawlPath('deep-crawl', projectId), { domain }, patient(options)),
    },
    assets: {
      /** Starts an animation, or answers with the one that there is. */
      prepare: (body: PrepareRequest, options?: CallOptions) =>
        begin<PrepareResponse>('/api/v1/prepare', body, options),
      /** `url` of the answer is a `src` of prepare. */
      upload: (file: Blob | ArrayBuffer | Uint8Array<ArrayBuffer>, options?: CallOptions) => {
        const form = new FormData();
        form.append('file', file instanceof Blob ? file : new Blob([file]), 'image');
        return begin<UploadResponse>('/api/v1/upload', form, patient(options));
      },
      regenerate: (id: string, body: RegenerateRequest = {}, options?: CallOptions) =>
        begin<RegenerateResponse>(at`/api/assets/${id}/regenerate`, body, options),
      cancel: (id: string, options?: CallOptions) =>
        post<CancelResponse>(at`/api/assets/${id}/cancel`, undefined, options),
      get: (id: string, options?: CallOptions) => get<{ asset: Asset }>(at`/api/assets/${id}`, options),
      /** Erases the asset with its media. */
      delete: (id: string, options?: CallOptions) => remove(at`/api/assets/${id}`, options),
      list: listAssets,
      /** All of them, page after page. */
      async *all(query: AssetQuery = {}, options?: CallOptions): AsyncGenerator<Asset, void, undefined> {
        for (let cursor: string | undefined = query.cursor; ; ) {
          const page: AssetList = await listAssets({ ...query, ...(cursor ? { cursor } : {}) }, options);
          yield* page.assets;
          if (!page.next_cursor) return;
          cursor = page.next_cursor;
        }
      },
      timeline: (id: string, options?: CallOptions) =>
        get<{ events: AssetEvent[] }>(at`/api/assets/${id}/timeline`, options),
      /** Answers when the asset can be played; throws when its run has failed. */
      waitFor: (asset: string | { asset_id: string }, options?: WaitOptions) =>
        waitFor(transport, typeof asset === 'string' ? asset : asset.asset_id, options),
    },
    events: {
      /** Everything that happens in a project, from now on or after `lastEventId`. */
      project: (id: string, options?: StreamOptions) =>
        eventsOf(transport, at`/api/projects/${id}/activity`, options),
      /** An asset's present run from its beginning, and all that follows. */
      asset: (id: string, options?: StreamOptions) =>
        eventsOf(transport, at`/api/assets/${id}/events`, options),
      /** The same by project key, for pages. */
      byKey: (key: string, assetId: string, options?: StreamOptions) =>
        eventsOf(transport, at`/v1/${key}/events/${assetId}`, options),
    },
    webhooks: {
      get: (projectId: string, options?: CallOptions) =>
        get<WebhookConfig>(at`/api/projects/${projectId}/webhooks`, options),
      /** The first save with a URL shows the secret, once. */
      set: (projectId: string, body: WebhookConfigRequest, options?: CallOptions) =>
        put<WebhookConfig & { webhook_secret?: string }>(
          at`/api/projects/${projectId}/webhooks`,
          body,
          options,
        ),
      rotateSecret: (projectId: string, options?: CallOptions) =>
        post<{ webhook_secret: string }>(
          at`/api/projects/${projectId}/webhooks/rotate-secret`,
          undefined,
          options,
        ),
      test: (projectId: string, options?: CallOptions) =>
        post<Ok>(at`/api/projects/${projectId}/webhooks/test`, undefined, options),
      deliveries: (projectId: string, query: DeliveryQuery = {}, options?: CallOptions) =>
        get<{ deliveries: Delivery[]; next_cursor?: string | null }>(
          at`/api/projects/${projectId}/webhooks/deliveries`,
          options,
          query,
        ),
      delivery: (projectId: string, id: string, options?: CallOptions) =>
        get<DeliveryDetail>(at`/api/projects/${projectId}/webhooks/deliveries/${id}`, options),
      redeliver: (projectId: string, id: string, options?: CallOptions) =>
        post<Ok>(at`/api/projects/${projectId}/webhooks/deliveries/${id}/redeliver`, undefined, options),
      /** Everything dead that was made since a time, unix ms. */
      redeliverDead: (projectId: string, body: { since: number }, options?: CallOptions) =>
        post<Ok & { redelivered: number; has_more: boolean }>(
          at`/api/projects/${projectId}/webhooks/deliveries/redeliver`,
          body,
          options,
        ),
    },
    service: {
      health: (options?: CallOptions) => get<Ok>('/healthz', options),
      ready: (options?: CallOptions) => get<Ok>('/readyz', options),
      openApi: (options?: CallOptions) => get<object>('/openapi.json', options),
    },
  };
}

/** Tag of paths: what is put in is one segment, whatever it is. */
function at(strings: TemplateStringsArray, ...ids: string[]): string {
  return String.raw({ raw: strings }, ...ids.map(encodeURIComponent));
}

const crawlPath = (what: string, projectId?: string) =>
  projectId === undefined ? `/api/projects/${what}` : `${at`/api/projects/${projectId}`}/${what}`;

const patient = (options?: CallOptions): CallOptions => ({ timeoutMs: patientMs, ...options });

/** Works where `crypto.randomUUID` does not: on pages without https. */
function newKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
