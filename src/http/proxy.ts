/**
 * The public proxy (specification 4.4, decisions 4): a source's URL in, its animation out.
 *
 * A request is judged in this order: its form (400), its key (403), its signature or origin (403), its options
 * (400), its source (400, 403). Then it is answered with media (200, 206, 304, 416), `pending` (202), the last
 * failure (502), or why no run starts (403, 429, 503).
 */

import type { HttpRequest } from 'uWebSockets.js';
import { LRUCache } from 'lru-cache';
import { proxy as limits } from '../../schemas/limits.ts';
import type { LeaveSignal, RunEnd } from '../sse/run-ends.ts';
import { isStoreOutage } from '../store/client.ts';
import { after } from './after.ts';
import type { Asked, AssetView, Prepared } from './asset-requests.ts';
import { refuse as refuseRun, regenerateHint } from './assets.ts';
import {
  type Answer,
  answerJson,
  type Exchange,
  FixedAnswer,
  type HeaderSet,
  writeHead,
} from './exchange.ts';
import { isStorageOutage, unavailable } from './media.ts';
import { type MediaFile, type MediaFiles, shared } from './media-files.ts';
import {
  type Access,
  type AccessProject,
  anyOrigin,
  createOriginJudge,
  invalidSignature,
  isSourceAllowed,
  judgeSignature,
  preflight,
  unknownKey,
} from './proxy-access.ts';
import type { KnownAsset, Lookups } from './proxy-lookups.ts';
import type { Posters } from './proxy-poster.ts';
import { ProxyUrl, parseProxyUrl } from './proxy-request.ts';
import { createShortcuts, Shortcut, type Shortcuts } from './proxy-shortcuts.ts';
import { proxyForms } from './raw-specs.ts';
import { type RawRoute, rawRoute } from './route.ts';
import type { MediaKind, MediaServer } from './serve-media.ts';
import type { HttpConfig } from './services.ts';

/** What of the asset requests the proxy uses: see asset-requests.ts. */
export type ProxyAssets<Project> = {
  lookup(project: Project, asked: Asked): Promise<AssetView | undefined>;
  prepare(project: Project, asked: Asked, requestId: string): Promise<Prepared>;
  /** Ms until a pending asset is likely to be ready. */
  etaMs(asset: KnownAsset): Promise<number>;
};

export type ProxyPorts<Project extends ProxyProject> = {
  config: HttpConfig;
  lookups: Lookups<Project>;
  assets: ProxyAssets<Project>;
  files: Pick<MediaFiles, 'find'>;
  media: MediaServer;
  posters: Pick<Posters, 'find' | 'findMade'>;
  /** Judges a source's address by its text alone; our own uploads pass. */
  judgeSource(source: string): { ok: true } | { ok: false; reason: string };
  /** See src/sse/run-ends.ts. */
  waitForEnd(assetId: string, timeoutMs: number, signal?: LeaveSignal): Promise<RunEnd | 'timeout'>;
  /** Unix ms. */
  now(): number;
};

export type ProxyProject = AccessProject & { id: string };

const path = '/v1/*';

/** The routes of the proxy: everything below /v1 that has no route of its own. */
export function proxyRoutes<Project extends ProxyProject>(ports: ProxyPorts<Project>): RawRoute[] {
  const context: Context<Project> = {
    ports,
    judgeOrigin: createOriginJudge(new URL(ports.config.baseUrl).origin),
    urls: new LRUCache({
      max: maxUrls,
      maxSize: maxUrlChars,
      sizeCalculation: (_, line) => line.length + urlChars,
    }),
    shortcuts: createShortcuts(ports.lookups.isBelieved),
    preparing: new Map(),
  };
  const handle = (req: HttpRequest, exchange: Exchange) => answer(req, exchange, context);
  return [
    rawRoute({
      method: 'get',
      path,
      forms: proxyForms,
      handle: (_res, req, _services, exchange) => handle(req, exchange),
    }),
    rawRoute({
      method: 'head',
      path,
      handle: (_res, req, _services, exchange) => handle(req, exchange),
    }),
    rawRoute({
      method: 'options',
      path,
      handle(res, _req, _services, exchange) {
        writeHead(exchange, 204, preflight);
        res.endWithoutBody();
        exchange.done(204);
      },
    }),
  ];
}

/** URLs kept as they were taken apart: so many, with so many characters, each counted with some for what it holds. */
const maxUrls = 50_000;
const maxUrlChars = 20_000_000;
const urlChars = 400;

type Context<Project extends ProxyProject> = {
  ports: ProxyPorts<Project>;
  judgeOrigin(project: Project, origin: string, referer: string): Access;
  /** URLs that somebody was let in with, by path and query: what was found out about them is not found out again. */
  urls: LRUCache<string, ProxyUrl>;
  shortcuts: Shortcuts<Project>;
  /** First requests of URLs under way: those that come meanwhile share the answer. */
  preparing: Map<string, Promise<Prepared>>;
};

/** A request that may be answered. `headers` are those of CORS. */
type Admitted<Project extends ProxyProject> = {
  exchange: Exchange;
  context: Context<Project>;
  project: Project;
  url: ProxyUrl;
  /** Path and query. */
  line: string;
  headers: HeaderSet;
};

/** At once, without a promise, when everything that it takes is known. */
function answer<Project extends ProxyProject>(
  req: HttpRequest,
  exchange: Exchange,
  context: Context<Project>,
): void | Promise<void> {
  const { path } = exchange.head;
  const query = req.getQuery() ?? '';
  const line = query === '' ? path : `${path}?${query}`;
  const shortcut = context.shortcuts.find(line);
  if (shortcut) return answerKnown(shortcut, exchange, context);
  const url = context.urls.get(line) ?? parseProxyUrl(path, query);
  if (!(url instanceof ProxyUrl)) {
    if (url.kind === 'signature') invalidSignature.send(exchange);
    else respond(exchange, malformed(url.reason), anyOrigin);
    return undefined;
  }
  const { lookups } = context.ports;
  const found = keyForm.test(url.key) ? lookups.project(url.key) : undefined;
  const answered = after(found, (project) =>
    project ? admit(project, url, line, exchange, context) : unknownKey.send(exchange),
  );
  return answered?.catch((cause: unknown) => answerOutage(exchange, cause, anyOrigin));
}

const keyForm = /^\w{4,64}$/;

/** A request of which everything is known but who asks. */
function answerKnown<Project extends ProxyProject>(
  shortcut: Shortcut<Project>,
  exchange: Exchange,
  context: Context<Project>,
): void | Promise<void> {
  const { url, project, file, kind } = shortcut;
  const { origin, referer } = exchange.head;
  const page = origin === '' ? referer : origin;
  let access = url.isSigned ? undefined : shortcut.accessOf(page);
  if (!access) {
    access = judgeAccess(project.value, url, exchange, context);
    if (!url.isSigned) shortcut.noteAccess(page, access);
  }
  if (access instanceof FixedAnswer) return access.send(exchange);
  const headers = access;
  const block = shortcut.blockOf(headers);
  const answered = context.ports.media.serve({ exchange, file, kind, headers, block });
  return answered?.catch((cause: unknown) => answerOutage(exchange, cause, headers));
}

function judgeAccess<Project extends ProxyProject>(
  project: Project,
  url: ProxyUrl,
  { head: { origin, referer } }: Exchange,
  { ports, judgeOrigin }: Context<Project>,
): Access {
  return url.isSigned ? judgeSignature(project, url, ports.now()) : judgeOrigin(project, origin, referer);
}

function admit<Project extends ProxyProject>(
  project: Project,
  url: ProxyUrl,
  line: string,
  exchange: Exchange,
  context: Context<Project>,
): void | Promise<void> {
  const { ports, urls } = context;
  const access = judgeAccess(project, url, exchange, context);
  if (access instanceof FixedAnswer) return access.send(exchange);
  const fault = url.fault ?? sourceFaultOf(url, ports);
  if (fault) return respond(exchange, malformed(fault), access);
  if (!urls.has(line)) urls.set(line, url);
  const admitted: Admitted<Project> = { exchange, context, project, url, line, headers: access };
  const answered = url.extension === 'mp4' ? answerAnimation(admitted) : answerPoster(admitted);
  return answered?.catch((cause: unknown) => answerOutage(exchange, cause, access));
}

/** Why the source is refused by its text; empty when it is not. */
function sourceFaultOf<Project extends ProxyProject>(url: ProxyUrl, ports: ProxyPorts<Project>): string {
  if (url.assetId !== undefined) return '';
  if (url.sourceFault === undefined) {
    const judgement = ports.judgeSource(url.source);
    url.sourceFault = judgement.ok ? '' : `the source is refused: ${judgement.reason}`;
  }
  return url.sourceFault;
}

function malformed(reason: string): Answer {
  return { status: 400, body: { error: `malformed proxy URL: ${reason}` } };
}

/** Answers with JSON that the page may read. */
function respond(exchange: Exchange, answer: Answer, { fields }: HeaderSet, err?: unknown): void {
  const headers = { ...fields, ...answer.headers };
  const options = { isHead: exchange.head.isHead, ...(err === undefined ? {} : { fields: { err } }) };
  answerJson(exchange, { ...answer, headers }, options);
}

function answerOutage(exchange: Exchange, cause: unknown, headers: HeaderSet): void {
  const isPassing = isStoreOutage(cause) || isStorageOutage(cause);
  if (exchange.hasBegun || !isPassing) throw cause;
  respond(exchange, unavailable, headers, cause);
}

const notFound: Answer = { status: 404, body: { error: 'not found' } };

// ── Animations ──────────────────────────────────────────────────────────────────────────────────

function answerAnimation<Project extends ProxyProject>(admitted: Admitted<Project>): void | Promise<void> {
  return after(findAsset(admitted), (asset) => {
    if (!asset?.media || asset.status === 'failed') return answerUnready(admitted, asset);
    return serveFile(admitted, asset.media.mp4Key, asset);
  });
}

/** Of an asset that has nothing to show yet, or no more, or is not there yet. */
async function answerUnready<Project extends ProxyProject>(
  admitted: Admitted<Project>,
  known: KnownAsset | undefined,
): Promise<void> {
  const { exchange, context, headers, url } = admitted;
  const { isHead } = exchange.head;
  const found = known ?? (isHead ? undefined : await prepare(admitted));
  if (found && 'outcome' in found) return respond(exchange, refuseRun(found, context.ports), headers);
  const asset = found && !isHead ? await waitUntilSettled(found, url.waitMs, exchange, context) : found;
  if (!exchange.isOpen) return;
  if (!asset) return respond(exchange, notFound, headers);
  if (asset.status === 'failed') {
    const body = { error: 'last generation failed', asset_id: asset.id, hint: regenerateHint(asset) };
    return respond(exchange, { status: 502, body }, headers);
  }
  if (!asset.media) return answerPending(asset, admitted);
  await serveFile(admitted, asset.media.mp4Key, asset);
}

/** The asset that a URL means for the first time; why there is no run; undefined when it cannot be made by its id. */
async function prepare<Project extends ProxyProject>({
  exchange,
  context,
  project,
  url,
}: Admitted<Project>): Promise<KnownAsset | Exclude<Prepared, { asset: AssetView }> | undefined> {
  if (url.assetId !== undefined) return undefined;
  const { ports, preparing } = context;
  const asked = askedBy(url);
  const name = nameOf(project, asked);
  const prepared = await shared(preparing, name, () =>
    ports.assets.prepare(project, asked, exchange.requestId),
  );
  if (!('asset' in prepared)) return prepared;
  ports.lookups.resolve(name, prepared.asset.id);
  // Read again: the run may have ended since, and only what is read here is told of changes.
  return ports.lookups.asset(prepared.asset.id);
}

const askedBy = ({ source, options }: ProxyUrl): Asked => ({ src: source, ...options });

/** undefined: there is none. */
type Found = KnownAsset | undefined;

/** The asset that a URL means, or meant before. Makes none. */
function findAsset<Project extends ProxyProject>({
  context,
  project,
  url,
}: Admitted<Project>): Found | Promise<Found> {
  const { lookups } = context.ports;
  if (url.assetId !== undefined) {
    const found = lookups.asset(url.assetId);
    return after(found, (asset) => (asset?.projectId === project.id ? asset : undefined));
  }
  if (url.meant?.projectId !== project.id) return findResolved(project, url, context);
  return after(lookups.asset(url.meant.assetId), (asset) => asset ?? findResolved(project, url, context));
}

/** By what requests like it meant before, here or anywhere. */
async function findResolved<Project extends ProxyProject>(
  project: Project,
  url: ProxyUrl,
  { ports: { lookups, assets } }: Context<Project>,
): Promise<Found> {
  const asked = askedBy(url);
  const name = nameOf(project, asked);
  const assetId = lookups.resolved(name) ?? (await assets.lookup(project, asked))?.id;
  if (assetId === undefined) return undefined;
  const asset = await lookups.asset(assetId);
  // It was erased: the URL may mean a new one.
  url.meant = asset && { projectId: project.id, assetId };
  if (!asset) lookups.unresolve(name);
  else lookups.resolve(name, assetId);
  return asset;
}

function nameOf({ id }: ProxyProject, { src, motion, mode, dur_seconds, seed, aspect }: Asked): string {
  return [id, motion, mode, dur_seconds, seed, aspect, src].join('\n');
}

/** A run told of twice, or one that was begun anew, makes the wait go on. */
const maxWaits = 8;

/**
 * The asset once its run has ended, or as it is when the time is over; undefined when it was erased meanwhile.
 * Earlier media end the wait too.
 */
async function waitUntilSettled<Project extends ProxyProject>(
  first: KnownAsset,
  waitMs: number,
  exchange: Exchange,
  { ports }: Context<Project>,
): Promise<KnownAsset | undefined> {
  const until = ports.now() + waitMs;
  let asset: KnownAsset | undefined = first;
  for (let waits = 0; waits < maxWaits && waitMs > 0; waits += 1) {
    const leftMs = until - ports.now();
    if (asset?.status !== 'pending' || asset.media || leftMs <= 0 || exchange.isStopping) return asset;
    const end = await ports.waitForEnd(asset.id, leftMs, exchange.leaving);
    asset = await ports.lookups.asset(first.id);
    if (end === 'timeout') return asset;
  }
  return asset;
}

async function answerPending<Project extends ProxyProject>(
  asset: KnownAsset,
  { exchange, context, headers }: Admitted<Project>,
): Promise<void> {
  const etaMs = Math.ceil(await context.ports.assets.etaMs(asset));
  const seconds = Math.ceil(etaMs / 1_000);
  const { minRetryAfterSeconds, maxRetryAfterSeconds } = limits;
  const answer = {
    status: 202,
    body: { status: 'pending', asset_id: asset.id, eta_seconds: Math.max(seconds, 1) },
    headers: {
      'Retry-After': String(Math.min(Math.max(seconds, minRetryAfterSeconds), maxRetryAfterSeconds)),
      'X-Service-Eta-Ms': String(etaMs),
    },
  };
  respond(exchange, answer, headers);
}

// ── Posters ─────────────────────────────────────────────────────────────────────────────────────

function answerPoster<Project extends ProxyProject>(admitted: Admitted<Project>): void | Promise<void> {
  return after(findAsset(admitted), (asset) =>
    asset?.media ? serveFile(admitted, asset.media.posterKey, asset) : answerSourcePoster(admitted, asset),
  );
}

async function answerSourcePoster<Project extends ProxyProject>(
  { exchange, context, project, url, headers }: Admitted<Project>,
  asset: Found,
): Promise<void> {
  const { posters, media } = context.ports;
  const source = url.assetId === undefined ? url.source : asset?.src;
  if (source === undefined) return respond(exchange, notFound, headers);
  if (!isSourceAllowed(project, source)) {
    return respond(exchange, { status: 403, body: { error: 'source host not allowed' } }, headers);
  }
  const file = await (exchange.head.isHead
    ? posters.findMade(project.id, source)
    : posters.find(project.id, source));
  if (!file) return respond(exchange, { status: 404, body: { error: 'poster not available' } }, headers);
  await media.serve({ exchange, file, kind: ready, headers });
}

// ── Media ───────────────────────────────────────────────────────────────────────────────────────

function serveFile<Project extends ProxyProject>(
  admitted: Admitted<Project>,
  key: string,
  asset: KnownAsset,
): void | Promise<void> {
  const { exchange, context, headers } = admitted;
  const { files, media } = context.ports;
  const kind = kindOf(asset);
  return after(files.find(key), (file) => {
    if (file) {
      addShortcut(admitted, asset, file, kind);
      return media.serve({ exchange, file, kind, headers });
    }
    // The asset says it is there: storage has lost it, or it is being erased.
    return respond(exchange, notFound, headers, new Error(`storage has no ${key}`));
  });
}

/** Unless what was found is not what is known any more. */
function addShortcut<Project extends ProxyProject>(
  { context, project, url, line }: Admitted<Project>,
  asset: KnownAsset,
  file: MediaFile,
  kind: MediaKind,
): void {
  const { shortcuts, ports } = context;
  const knownProject = ports.lookups.knownProject(url.key);
  const knownAsset = ports.lookups.knownAsset(asset.id);
  if (knownProject?.value !== project || knownAsset?.value !== asset) return;
  shortcuts.add(line, new Shortcut(url, knownProject, knownAsset, file, kind));
}

const kindOf = ({ status }: KnownAsset): MediaKind => (status === 'pending' ? regenerating : ready);

const fixedHeaders = { 'X-Content-Type-Options': 'nosniff' };

/** Private: a shared cache would hand an allowed answer to a foreign page and outlive a rotation. */
const ready: MediaKind = {
  name: 'proxy',
  headers: {
    ...fixedHeaders,
    'Cache-Control': `private, max-age=${limits.cacheMaxAgeSeconds}, stale-while-revalidate=${limits.cacheStaleSeconds}`,
  },
};

/** The last run's media while the next run is under way: soon out of date. */
const regenerating: MediaKind = {
  name: 'proxy pending',
  headers: { ...fixedHeaders, 'Cache-Control': 'private, max-age=5', 'X-Service-Asset-Status': 'pending' },
};
