/**
 * The public proxy (specification 4.4, decisions 4): a source's URL in, its animation out.
 *
 * A request is judged in this order: its form (400), its key (403), its signature or origin (403), its options
 * (400), its source (400, 403). Then it is answered with media (200, 206, 304, 416), `pending` (202), the last
 * failure (502), or why no run starts (403, 429, 503).
 */
import type { HttpRequest } from 'uWebSockets.js';
import { proxy as limits } from '../../schemas/limits.ts';
import type { RunEnd } from '../sse/run-ends.ts';
import { isStoreOutage } from '../store/client.ts';
import type { Asked, AssetView, Prepared } from './asset-requests.ts';
import { refuse as refuseRun, regenerateHint } from './assets.ts';
import { type Answer, answerJson, type Exchange, writeHead } from './exchange.ts';
import { isStorageOutage, unavailable } from './media.ts';
import { type MediaFiles, shared } from './media-files.ts';
import {
  type Access,
  type AccessProject,
  anyOrigin,
  invalidSignature,
  isSignedRequest,
  isSourceAllowed,
  judgeOrigin,
  judgeSignature,
  preflight,
} from './proxy-access.ts';
import type { KnownAsset, Lookups } from './proxy-lookups.ts';
import type { Posters } from './proxy-poster.ts';
import {
  decodeSource,
  hasBase64Characters,
  optionNames,
  type ProxyHead,
  type ProxyPath,
  parseOptions,
  parsePath,
  parseWait,
  readProxyHead,
} from './proxy-request.ts';
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
  waitForEnd(assetId: string, timeoutMs: number, signal?: AbortSignal): Promise<RunEnd | 'timeout'>;
  /** Unix ms. */
  now(): number;
};

export type ProxyProject = AccessProject & { id: string };

const path = '/v1/*';

/** The routes of the proxy: everything below /v1 that has no route of its own. */
export function proxyRoutes<Project extends ProxyProject>(ports: ProxyPorts<Project>): RawRoute[] {
  const ownOrigin = new URL(ports.config.baseUrl).origin;
  const context: Context<Project> = { ports, ownOrigin, preparing: new Map() };
  const handle = (req: HttpRequest, exchange: Exchange, isHead: boolean) =>
    answer(readProxyHead(req, isHead), exchange, context);
  return [
    rawRoute({
      method: 'get',
      path,
      forms: proxyForms,
      handle: (_res, req, _services, exchange) => handle(req, exchange, false),
    }),
    rawRoute({
      method: 'head',
      path,
      handle: (_res, req, _services, exchange) => handle(req, exchange, true),
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

type Context<Project extends ProxyProject> = {
  ports: ProxyPorts<Project>;
  ownOrigin: string;
  /** First requests of URLs under way: those that come meanwhile share the answer. */
  preparing: Map<string, Promise<Prepared>>;
};

/** A request that may be answered. `headers` are those of CORS. */
type Admitted<Project> = {
  project: Project;
  asked: { kind: 'source'; request: Asked } | { kind: 'asset'; assetId: string };
  extension: 'mp4' | 'jpg';
  waitMs: number;
  headers: Record<string, string>;
};

/** What the request is answered with, headers of CORS included. */
type Refused = Answer & { headers: Record<string, string> };

async function answer<Project extends ProxyProject>(
  head: ProxyHead,
  exchange: Exchange,
  context: Context<Project>,
): Promise<void> {
  const { isHead } = head.media;
  let headers = anyOrigin as Record<string, string>;
  try {
    const admitted = await admit(head, context);
    if ('status' in admitted) return answerJson(exchange, admitted, { isHead });
    headers = admitted.headers;
    const respond = admitted.extension === 'mp4' ? answerAnimation : answerPoster;
    await respond(admitted, head, exchange, context);
  } catch (cause) {
    const isPassing = isStoreOutage(cause) || isStorageOutage(cause);
    if (exchange.hasBegun || !isPassing) throw cause;
    const answer = { ...unavailable, headers: { ...headers, ...unavailable.headers } };
    answerJson(exchange, answer, { isHead, fields: { err: cause } });
  }
}

// ── Admission ───────────────────────────────────────────────────────────────────────────────────

async function admit<Project extends ProxyProject>(
  head: ProxyHead,
  context: Context<Project>,
): Promise<Admitted<Project> | Refused> {
  const parsed = parsePath(head.path);
  if (!parsed) return malformed('this is neither a source nor an asset with .mp4 or .jpg');
  const source = sourceOf(parsed, head);
  if (!source.ok) return source.refused;

  const { lookups } = context.ports;
  const found = keyForm.test(parsed.key) ? lookups.project(parsed.key) : undefined;
  const project = found instanceof Promise ? await found : found;
  if (!project) return { status: 403, body: { error: 'unknown project key' }, headers: anyOrigin };

  const access = judge(project, parsed.key, source.value, head, context);
  if (!access.ok) return { status: 403, body: { error: access.error }, headers: access.headers };
  return toAdmitted(project, parsed, source.value, head, access.headers, context);
}

const keyForm = /^\w{4,64}$/;
const assetPrefix = 'asset:';

/** The source as it is signed: its URL, or `asset:<asset_id>`. */
function sourceOf(
  { target }: ProxyPath,
  head: ProxyHead,
): { ok: true; value: string } | { ok: false; refused: Refused } {
  if (target.kind === 'asset') return { ok: true, value: `${assetPrefix}${target.assetId}` };
  if (isSignedRequest(head) && hasBase64Characters(target.text)) {
    const { error, headers } = invalidSignature;
    return { ok: false, refused: { status: 403, body: { error }, headers } };
  }
  const source = decodeSource(target.text);
  return source.ok ? source : { ok: false, refused: malformed(source.reason) };
}

function judge<Project extends ProxyProject>(
  project: Project,
  key: string,
  source: string,
  head: ProxyHead,
  { ports, ownOrigin }: Context<Project>,
): Access {
  return isSignedRequest(head)
    ? judgeSignature(project, key, source, head, ports.now())
    : judgeOrigin(project, head, ownOrigin);
}

function toAdmitted<Project extends ProxyProject>(
  project: Project,
  { target, extension }: ProxyPath,
  source: string,
  head: ProxyHead,
  headers: Record<string, string>,
  { ports }: Context<Project>,
): Admitted<Project> | Refused {
  const isSignedOne = isSignedRequest(head);
  const misplaced = isSignedOne ? optionNames.find((name) => head.query.has(name)) : undefined;
  if (misplaced) {
    return malformed(`${misplaced} must be in the fragment of the signed source`, headers);
  }
  const wait = parseWait(head.query);
  if (!wait.ok) return malformed(wait.reason, headers);
  const common = { project, extension, waitMs: wait.value, headers };
  if (target.kind === 'asset') return { ...common, asked: { kind: 'asset', assetId: target.assetId } };

  const { hash } = new URL(source);
  const options = parseOptions(isSignedOne ? new URLSearchParams(hash.slice(1)) : head.query);
  if (!options.ok) return malformed(options.reason, headers);
  const judgement = ports.judgeSource(source);
  if (!judgement.ok) return malformed(`the source is refused: ${judgement.reason}`, headers);
  return { ...common, asked: { kind: 'source', request: { src: source, ...options.value } } };
}

function malformed(reason: string, headers: Record<string, string> = anyOrigin): Refused {
  return { status: 400, body: { error: `malformed proxy URL: ${reason}` }, headers };
}

// ── Animations ──────────────────────────────────────────────────────────────────────────────────

async function answerAnimation<Project extends ProxyProject>(
  admitted: Admitted<Project>,
  head: ProxyHead,
  exchange: Exchange,
  context: Context<Project>,
): Promise<void> {
  const { isHead } = head.media;
  const { headers, waitMs } = admitted;
  const found = await findOrPrepare(admitted, exchange.requestId, isHead, context);
  if (!found) return answerJson(exchange, { status: 404, body: { error: 'not found' }, headers }, { isHead });
  if ('outcome' in found) {
    const refused = refuseRun(found, context.ports);
    return answerJson(exchange, { ...refused, headers: { ...headers, ...headersOf(refused) } }, { isHead });
  }
  const asset = isHead ? found : await waitUntilSettled(found, waitMs, exchange, context);
  if (!exchange.isOpen) return;
  if (!asset) return answerJson(exchange, { status: 404, body: { error: 'not found' }, headers }, { isHead });
  if (asset.status === 'failed') {
    const body = { error: 'last generation failed', asset_id: asset.id, hint: regenerateHint(asset) };
    return answerJson(exchange, { status: 502, body, headers }, { isHead });
  }
  if (!asset.media) return answerPending(asset, headers, isHead, exchange, context);
  await serveFile(asset.media.mp4Key, kindOf(asset), headers, head, exchange, context);
}

const headersOf = (answer: Answer): Record<string, string> => answer.headers ?? {};

/** The asset, why there is no run, or undefined when there is none and none may be made. */
async function findOrPrepare<Project extends ProxyProject>(
  { project, asked }: Admitted<Project>,
  requestId: string,
  isHead: boolean,
  context: Context<Project>,
): Promise<KnownAsset | Exclude<Prepared, { asset: AssetView }> | undefined> {
  const { ports, preparing } = context;
  if (asked.kind === 'asset') return findOwn(asked.assetId, project, ports.lookups);
  const { request } = asked;
  const known = await findKnown(project, request, ports);
  if (known || isHead) return known;
  const prepared = await shared(preparing, nameOf(project, request), () =>
    ports.assets.prepare(project, request, requestId),
  );
  if (!('asset' in prepared)) return prepared;
  ports.lookups.resolve(nameOf(project, request), prepared.asset.id);
  // Read again: the run may have ended since, and only what is read here is told of changes.
  return ports.lookups.asset(prepared.asset.id);
}

async function findOwn<Project extends ProxyProject>(
  assetId: string,
  project: Project,
  lookups: Lookups<Project>,
): Promise<KnownAsset | undefined> {
  const asset = await lookups.asset(assetId);
  return asset?.projectId === project.id ? asset : undefined;
}

/** The asset that a request meant before. Makes none. */
async function findKnown<Project extends ProxyProject>(
  project: Project,
  request: Asked,
  { lookups, assets }: ProxyPorts<Project>,
): Promise<KnownAsset | undefined> {
  const name = nameOf(project, request);
  const assetId = lookups.resolved(name) ?? (await assets.lookup(project, request))?.id;
  if (assetId === undefined) return undefined;
  const asset = await lookups.asset(assetId);
  // It was erased: the URL may mean a new one.
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
    const end = await ports.waitForEnd(asset.id, leftMs, exchange.signal);
    asset = await ports.lookups.asset(first.id);
    if (end === 'timeout') return asset;
  }
  return asset;
}

async function answerPending<Project extends ProxyProject>(
  asset: KnownAsset,
  headers: Record<string, string>,
  isHead: boolean,
  exchange: Exchange,
  { ports }: Context<Project>,
): Promise<void> {
  const etaMs = Math.ceil(await ports.assets.etaMs(asset));
  const seconds = Math.ceil(etaMs / 1_000);
  const { minRetryAfterSeconds, maxRetryAfterSeconds } = limits;
  answerJson(
    exchange,
    {
      status: 202,
      body: { status: 'pending', asset_id: asset.id, eta_seconds: Math.max(seconds, 1) },
      headers: {
        ...headers,
        'Retry-After': String(Math.min(Math.max(seconds, minRetryAfterSeconds), maxRetryAfterSeconds)),
        'X-Service-Eta-Ms': String(etaMs),
      },
    },
    { isHead },
  );
}

// ── Posters ─────────────────────────────────────────────────────────────────────────────────────

async function answerPoster<Project extends ProxyProject>(
  admitted: Admitted<Project>,
  head: ProxyHead,
  exchange: Exchange,
  context: Context<Project>,
): Promise<void> {
  const { ports } = context;
  const { project, asked, headers } = admitted;
  const { isHead } = head.media;
  const asset =
    asked.kind === 'asset'
      ? await findOwn(asked.assetId, project, ports.lookups)
      : await findKnown(project, asked.request, ports);
  if (asset?.media) return serveFile(asset.media.posterKey, kindOf(asset), headers, head, exchange, context);

  const source = asked.kind === 'asset' ? asset?.src : asked.request.src;
  if (source === undefined) {
    return answerJson(exchange, { status: 404, body: { error: 'not found' }, headers }, { isHead });
  }
  if (!isSourceAllowed(project, source)) {
    return answerJson(
      exchange,
      { status: 403, body: { error: 'source host not allowed' }, headers },
      { isHead },
    );
  }
  const file = await (isHead
    ? ports.posters.findMade(project.id, source)
    : ports.posters.find(project.id, source));
  if (!file) {
    const body = { error: 'poster not available' };
    return answerJson(exchange, { status: 404, body, headers }, { isHead });
  }
  await ports.media.serve({ exchange, head: head.media, file, kind: ready, headers });
}

// ── Media ───────────────────────────────────────────────────────────────────────────────────────

async function serveFile<Project extends ProxyProject>(
  key: string,
  kind: MediaKind,
  headers: Record<string, string>,
  head: ProxyHead,
  exchange: Exchange,
  { ports }: Context<Project>,
): Promise<void> {
  const found = ports.files.find(key);
  const file = found instanceof Promise ? await found : found;
  if (!file) {
    // The asset says it is there: storage has lost it, or it is being erased.
    return answerJson(
      exchange,
      { status: 404, body: { error: 'not found' }, headers },
      { isHead: head.media.isHead, fields: { err: new Error(`storage has no ${key}`) } },
    );
  }
  await ports.media.serve({ exchange, head: head.media, file, kind, headers });
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
