/** The role http: the routes over their services, on one port. */
import { randomBytes } from 'node:crypto';

import { http as limits } from '../schemas/limits.ts';
import { createOAuthAccounts } from './auth/oauth-accounts.ts';
import { createOAuthFlows } from './auth/oauth-flow.ts';
import { createOAuthProviders } from './auth/oauth-providers.ts';
import { createCrawlWatch } from './brand/crawl-progress.ts';
import { askForCrawl } from './brand/crawl-request.ts';
import { createCrawls } from './brand/crawls.ts';
import { RequestFailure } from './bus/bus.ts';
import { accountRoutes } from './http/account.ts';
import { assetRoutes } from './http/assets.ts';
import { brandRoutes } from './http/brand.ts';
import { dashboardRoutes } from './http/dashboard.ts';
import { documentRoutes } from './http/docs.ts';
import { embedRoutes } from './http/embed.ts';
import { eraseAccountRoutes } from './http/erase-account.ts';
import { eventRoutes } from './http/events.ts';
import { healthRoutes } from './http/health.ts';
import { mediaRoutes } from './http/media.ts';
import { createMediaFiles } from './http/media-files.ts';
import { metricsRoutes } from './http/metrics.ts';
import { type OAuthParts, oauthRoutes } from './http/oauth.ts';
import { operatorRoutes } from './http/operator.ts';
import { operatorConsoleRoutes } from './http/operator-console.ts';
import { createPace } from './http/pace.ts';
import { projectRoutes } from './http/projects.ts';
import { providerCallbackRoutes } from './http/provider-callbacks.ts';
import { proxyRoutes } from './http/proxy.ts';
import { createLookups, followChanges } from './http/proxy-lookups.ts';
import { createPosters } from './http/proxy-poster.ts';
import type { AnyRoute } from './http/route.ts';
import { createMediaServer } from './http/serve-media.ts';
import { startServer } from './http/server.ts';
import { createAccess, type HttpConfig, type Services } from './http/services.ts';
import { tokenRoutes } from './http/tokens.ts';
import { uploadRoutes } from './http/upload.ts';
import { usageRoutes } from './http/usage.ts';
import { userRoutes } from './http/user.ts';
import { webhookRoutes } from './http/webhooks.ts';
import { watchCrawls } from './observe/asked-outside.ts';
import { watchHttp, watchHub } from './observe/sources.ts';
import { createOperatorConsole } from './operator-console.ts';
import type { Parts } from './parts.ts';
import { type PosterRequest, posterMs, posterRequest } from './poster-request.ts';
import { createCrawlQuota } from './quota/crawls.ts';
import { linkRateLimit } from './quota/limit-link.ts';
import { readinessOf } from './readiness.ts';
import { createHubPorts } from './sse/bus-ports.ts';
import { hubClock } from './sse/clock.ts';
import { createHub, type Hub } from './sse/hub.ts';
import { LimitError } from './sse/limiter.ts';
import type { Grant } from './sse/listener.ts';
import { createLiveness } from './sse/liveness.ts';
import { endStreamsOnMessages, projectChanged, sessionEnded } from './sse/messages.ts';
import { crawlShown, showCrawls } from './sse/progress.ts';
import { newId } from './store/ids.ts';
import type { ProjectRecord } from './store/projects.ts';

const maxProjects = 1_000;
const allRoles = 3;

/** Answers the port. */
export async function startFrontEnd(parts: Parts): Promise<number> {
  const { config, opened, observer } = parts;
  const { registry, meter, onFinished } = observer;
  const state = { isStopping: false };
  const services = createServices(parts, state);
  const hub = createEventHub(parts);
  const routes = createRoutes(parts, services, hub);
  watchHub(registry, hub);
  const server = opened(
    await startServer({
      host: config.host,
      port: config.port,
      routes,
      services,
      // Who does everything alone has nobody to hand its connections to.
      drainMs: config.roles.length < allRoles ? limits.drainMs : 0,
      meter,
      ...(onFinished ? { onFinished } : {}),
    }),
    async (one) => {
      state.isStopping = true;
      // Nobody may connect any more when the streams end: who comes back must reach another process.
      await Promise.all([one.close(), hub.close()]);
    },
  );
  return server.port;
}

/** Every route of the product. */
export function createRoutes(parts: Parts, services: Services, hub: Hub): AnyRoute[] {
  const { config } = parts;
  const known = createKnown(parts, services, hub);
  const { asset: findAsset, project: findProjectByKey } = known.lookups;
  const routes: AnyRoute[] = [
    ...userRoutes,
    ...accountRoutes,
    ...tokenRoutes,
    ...usageRoutes,
    ...brandRoutes,
    ...eraseAccountRoutes,
    ...projectRoutes,
    ...assetRoutes,
    ...uploadRoutes,
    ...webhookRoutes,
    ...operatorRoutes,
    ...operatorConsoleRoutes,
    ...oauthRoutes(createOAuth(parts, services)),
    ...eventRoutes({ hub, findAsset, findProjectByKey }),
    ...publicRoutes(parts, services, hub, known),
    ...embedRoutes(),
    ...dashboardRoutes({
      baseUrl: config.baseUrl,
      mediaBaseUrl: config.mediaBaseUrl,
      oauth: (['google', 'github'] as const).filter((name) => config.oauth[name] !== undefined),
    }),
    ...providerCallbackRoutes(parts.models.onCallback),
    ...healthRoutes,
    ...metricsRoutes({ render: parts.observer.registry.render, token: config.metricsToken }),
  ];
  routes.push(...documentRoutes(routes, config.baseUrl));
  return routes;
}

/** What this process remembers of projects, assets and files, kept true by messages. */
function createKnown({ opened, store, bus, storage, requests }: Parts, { now }: Services, hub: Hub) {
  const liveness = opened(createLiveness(bus, randomBytes(9).toString('hex'), hubClock), async (one) =>
    one.stop(),
  );
  const lookups = createLookups({
    findProjectByKey: store.projects.findByKey,
    findAsset: requests.find,
    isLive: liveness.isLive,
    now,
  });
  const files = createMediaFiles(storage);
  const { listen, onReconnect } = bus;
  opened(followChanges(lookups, files, { hub, listen, onReconnect }), async (one) => one.stop());
  return { lookups, files };
}

/** Media addresses and the proxy. */
function publicRoutes(
  { bus, storage, requests, outbound, uploadKey, observer }: Parts,
  { config, now }: Services,
  hub: Hub,
  { lookups, files }: ReturnType<typeof createKnown>,
): AnyRoute[] {
  const media = createMediaServer(files, createPace());
  watchHttp(observer.registry, observer.meter, media.stats);
  const posters = createPosters({
    storage,
    files,
    async makePoster(project, source) {
      try {
        return await bus.request(posterRequest, { project, source } satisfies PosterRequest, posterMs);
      } catch (cause) {
        if (cause instanceof RequestFailure) throw cause;
        throw new LimitError('no worker answers', { cause });
      }
    },
  });
  const judgeSource = (source: string) =>
    uploadKey(source) === undefined ? outbound.judgeUrl(source) : { ok: true as const };
  return [
    ...mediaRoutes({ files, media }),
    ...proxyRoutes<ProjectRecord>({
      config,
      lookups,
      assets: requests,
      files,
      media,
      posters,
      judgeSource,
      waitForEnd: hub.waitForEnd,
      now,
    }),
  ];
}

/** Signing in at other providers. */
function createOAuth({ config, store, oauthKey: key }: Parts, services: Services): OAuthParts {
  const { now, sessions, tokens } = services;
  return {
    flows: createOAuthFlows({ key, now, secure: config.baseUrl.startsWith('https:') }),
    providers: createOAuthProviders(config.oauth, { baseUrl: config.baseUrl, now }),
    accounts: createOAuthAccounts({
      store,
      newId,
      now,
      async onSessionsEnded(userId) {
        sessions.forgetUser(userId);
        tokens.forgetUser(userId);
        await services.onSessionsEnded(userId);
      },
    }),
  };
}

/** Streams of events, fed by the bus; they end when what let them in has ended. */
function createEventHub({ config, log, opened, store, bus, requests }: Parts) {
  const hub = createHub(
    createHubPorts(bus, {
      log,
      async assetFacts(assetId) {
        const asset = await requests.find(assetId);
        return asset
          ? asset.facts.map((fact) => ({ ...fact, asset_id: assetId, project_id: asset.projectId }))
          : [];
      },
      isGranted: async (projectId, grant) => isGranted(projectId, grant),
    }),
    config.sse,
  );
  opened(endStreamsOnMessages(hub, bus.listen), async (one) => one.stop());
  opened(showCrawls(hub, bus.listen), async (one) => one.stop());
  return hub;

  async function isGranted(projectId: string, grant: Grant): Promise<boolean> {
    if (grant.kind === 'key') return (await store.projects.findByKey(grant.key))?.id === projectId;
    const isOwner = (await store.projects.findOwned(projectId, grant.userId)) !== undefined;
    if (!isOwner || grant.sessionId === undefined) return isOwner;
    const known = grant.sessionId.startsWith('tok_') ? store.tokens : store.sessions;
    return known.isAlive(grant.sessionId, Date.now());
  }
}

function createServices(
  {
    config,
    log,
    opened,
    store,
    bus,
    storage,
    outbound,
    requests,
    webhooks,
    erasure,
    uploadKey,
    models,
    observer,
  }: Parts,
  state: { readonly isStopping: boolean },
): Services {
  const http: HttpConfig = {
    baseUrl: config.baseUrl,
    mode: config.isDevelopment ? 'development' : 'production',
    trustedProxies: config.trustedProxies,
    rateLimitFactor: config.rateLimitFactor,
    operatorEmails: config.operatorEmails,
  };
  const now = Date.now;
  return {
    ...createAccess(store, http, now),
    rateLimit: opened(linkRateLimit(bus), async (one) => one.stop()),
    config: http,
    log,
    now,
    newId,
    store,
    storage,
    assets: requests,
    crawls: watchCrawls(
      createCrawls({
        store: store.crawls,
        quota: createCrawlQuota(store, now),
        askWorker: askForCrawl(bus),
        now,
        newId,
      }),
      observer,
    ),
    crawlWatch: opened(
      createCrawlWatch(bus, (progress) => bus.send(crawlShown, progress)),
      async (one) => one.stop(),
    ),
    webhooks,
    uploadKey,
    judgeUrl: outbound.judgeUrl,
    mediaUrl: (key) => `${config.mediaBaseUrl}/${key}`,
    async countAssets(of) {
      if ('projectId' in of) return store.assets.count([of.projectId]);
      return store.assets.count((await store.projects.list(of.userId, maxProjects)).map(({ id }) => id));
    },
    operator: createOperatorConsole({ config, opened, store, bus, models }),
    providerStatus: models.status,
    async ready(signal) {
      const { failing: missing } = await readinessOf({ store, bus }, signal);
      const failing = [...(state.isStopping ? ['stopping'] : []), ...missing];
      return { ok: failing.length === 0, failing };
    },
    async onProjectChanged(projectId, { oldKey }) {
      bus.send(projectChanged, { projectId, ...(oldKey ? { key: oldKey } : {}) });
    },
    async onProjectDeleted(projectId, { oldKey }, requestId) {
      bus.send(projectChanged, { projectId, isDeleted: true, ...(oldKey ? { key: oldKey } : {}) });
      await Promise.all([requests.cancelAll(projectId, requestId), webhooks.onProjectDeleted(projectId)]);
    },
    eraseAsset: erasure.eraseAsset,
    eraseAccount: erasure.eraseAccount,
    async onSessionEnded(sessionId) {
      bus.send(sessionEnded, { sessionId });
    },
    async onSessionsEnded(userId, exceptSessionId) {
      bus.send(sessionEnded, { userId, ...(exceptSessionId === undefined ? {} : { exceptSessionId }) });
    },
  };
}
