/** Assets: prepare, regenerate, cancel, read, list, timeline (specification 4.3, decisions 3). */
import { z } from 'zod';
import {
  type Asset,
  AssetList,
  AssetResponse,
  AssetStatus,
  CancelResponse,
  PrepareRequest,
  PrepareResponse,
  RegenerateRequest,
  RegenerateResponse,
} from '../../schemas/asset.ts';
import { ErrorBody, RetryErrorBody, UpgradeErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { AssetEvent, Timeline } from '../../schemas/events.ts';
import { asset as limits, perMinute } from '../../schemas/limits.ts';
import { OkResponse } from '../../schemas/user.ts';
import type { ProjectRecord } from '../store/projects.ts';
import type { AssetView, Refusal } from './asset-requests.ts';
import { badCursor, pageOf, parseCursor } from './cursor.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';

const notFound = { error: 'not found' };

/** What a run may be refused with, the same for prepare and regenerate. */
const refusals = {
  403: UpgradeErrorBody.or(ErrorBody),
  429: UpgradeErrorBody.or(RetryErrorBody),
  503: RetryErrorBody,
};

const prepare = route({
  method: 'post',
  path: '/api/v1/prepare',
  summary: 'Prepare an asset',
  description:
    'Answers at once; the animation is made meanwhile. Safe to repeat: the same request means the same asset, and a generation is counted only when a run begins.',
  perMinute: perMinute.prepare,
  idempotent: true,
  repeatable: true,
  body: PrepareRequest,
  responses: { 200: PrepareResponse, 400: ValidationErrorBody, 404: ErrorBody, ...refusals },
  async handle({ userId, body, requestId }, services) {
    const { project_id, ...asked } = body;
    const project = await services.store.projects.findOwned(project_id, userId);
    // Someone else's project answers like none at all, so that ids cannot be probed.
    if (!project) return reply(404, notFound);
    const judgement = judgeSource(asked.src, services);
    if (!judgement.ok) return reply(400, { error: `src: ${judgement.reason}` });

    const prepared = await services.assets.prepare(project, asked, requestId);
    if (!('asset' in prepared)) return refuse(prepared, services);
    return reply(200, await toPrepareResponse(prepared.asset, project, services));
  },
});

const regenerate = route({
  method: 'post',
  path: '/api/assets/:assetId/regenerate',
  summary: 'Regenerate an asset',
  description:
    'Begins another run, from every state; it counts one generation. The id and the embed URL stay, and the proxy plays the earlier animation until the new one is ready. A run that is under way is cancelled.',
  perMinute: perMinute.regenerate,
  idempotent: true,
  body: RegenerateRequest,
  responses: { 200: RegenerateResponse, 400: ValidationErrorBody, 404: ErrorBody, ...refusals },
  async handle({ userId, assetId, body, requestId, operation }, services) {
    const owned = await findOwned(assetId, userId, services);
    if (!owned) return reply(404, notFound);
    const { project, asset } = owned;
    // Written down first: an attempt that was cut short may have counted and begun this run.
    const run = operation && Number(await operation.remember(String(asset.run + 1)));
    const outcome = await services.assets.regenerate(project, asset, body, requestId, run);
    if (outcome.outcome === 'erased') return reply(404, notFound);
    if (!('asset' in outcome)) return refuse(outcome, services);
    const { id, status } = outcome.asset;
    return reply(200, { asset_id: id, status, ...embedUrl(id, project, services) });
  },
});

const cancel = route({
  method: 'post',
  path: '/api/assets/:assetId/cancel',
  summary: 'Cancel the run of an asset',
  description: 'The generation stays counted. An earlier animation stays available.',
  responses: { 200: CancelResponse, 404: ErrorBody, 409: ErrorBody },
  async handle({ userId, assetId, requestId }, services) {
    const owned = await findOwned(assetId, userId, services);
    if (!owned) return reply(404, notFound);
    const after = await services.assets.cancel(owned.asset, requestId);
    if (!after) return reply(409, { error: 'asset is not pending' });
    return reply(200, { asset_id: after.id, status: after.status });
  },
});

const read = route({
  method: 'get',
  path: '/api/assets/:assetId',
  summary: 'Read an asset',
  responses: { 200: AssetResponse, 404: ErrorBody },
  async handle({ userId, assetId }, services) {
    const owned = await findOwned(assetId, userId, services);
    if (!owned) return reply(404, notFound);
    return reply(200, { asset: toAsset(owned.asset, owned.project, services) });
  },
});

const timeline = route({
  method: 'get',
  path: '/api/assets/:assetId/timeline',
  summary: 'Events of an asset, oldest first',
  responses: { 200: Timeline, 404: ErrorBody },
  async handle({ userId, assetId }, services) {
    const owned = await findOwned(assetId, userId, services);
    if (!owned) return reply(404, notFound);
    const { id: asset_id, projectId: project_id, facts } = owned.asset;
    const { deliveries } = services.store;
    const ofDeliveries = await deliveries.factsOf(project_id, asset_id, limits.maxTimelineDeliveries);
    const events = [...facts, ...ofDeliveries].map((fact) =>
      AssetEvent.parse({ ...fact, asset_id, project_id }),
    );
    // The schema keeps what clients may see: sequence numbers and options stay inside.
    return reply(200, { events: events.sort((a, b) => a.ts - b.ts) });
  },
});

const ListQuery = z.object({
  project_id: z.string().min(1).max(64).optional(),
  status: AssetStatus.optional(),
  limit: z.coerce.number().int().min(1).max(limits.maxListed).optional(),
  cursor: z.string().max(128).optional(),
});

const list = route({
  method: 'get',
  path: '/api/assets',
  summary: 'List assets, newest first',
  query: ListQuery,
  responses: { 200: AssetList, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ userId, query }, services) {
    const projects = await projectsOf(userId, query.project_id, services);
    if (!projects) return reply(404, notFound);
    const after = parseCursor(query.cursor);
    if (after === null) return reply(400, badCursor);

    const limit = query.limit ?? limits.defaultListed;
    const filter = { projectIds: [...projects.keys()], ...(query.status ? { status: query.status } : {}) };
    const found = await services.assets.list(filter, limit + 1, after);
    const { entries, nextCursor } = pageOf(found, limit, (asset) => asset);
    const assets = entries.flatMap((asset) => {
      const project = projects.get(asset.projectId);
      return project ? [toAsset(asset, project, services)] : [];
    });
    return reply(200, { assets, next_cursor: nextCursor });
  },
});

const erase = route({
  method: 'delete',
  path: '/api/assets/:assetId',
  summary:
    'Erase an asset and its media, for good. What is under way is cancelled and stays counted; its addresses answer 404. Copies in browsers and other caches are out of reach until they expire',
  responses: { 200: OkResponse, 404: ErrorBody },
  async handle({ userId, assetId }, { assets, store, eraseAsset }) {
    const asset = await assets.find(assetId);
    // Also of a project that was deleted: its assets are its owner's still.
    const isOwner = asset !== undefined && (await store.projects.ownerOf(asset.projectId)) === userId;
    // Of two requests at once one erases it.
    if (!isOwner || !(await eraseAsset(asset))) return reply(404, notFound);
    return reply(200, { ok: true });
  },
});

export const assetRoutes: AnyRoute[] = [prepare, regenerate, cancel, read, timeline, list, erase];

type Owned = { asset: AssetView; project: ProjectRecord };

async function findOwned(
  assetId: string,
  userId: string,
  { assets, store }: Services,
): Promise<Owned | undefined> {
  const asset = await assets.find(assetId);
  const project = asset && (await store.projects.findOwned(asset.projectId, userId));
  return project && { asset, project };
}

const maxProjects = 1_000;

async function projectsOf(userId: string, projectId: string | undefined, { store }: Services) {
  if (projectId === undefined) {
    const all = await store.projects.list(userId, maxProjects);
    return new Map(all.map((project) => [project.id, project]));
  }
  const one = await store.projects.findOwned(projectId, userId);
  return one && new Map([[one.id, one]]);
}

/** Our own uploads are read from storage; other addresses are judged by their text (decisions 3, src). */
function judgeSource(
  src: string,
  { uploadKey, judgeUrl }: Services,
): { ok: true } | { ok: false; reason: string } {
  return uploadKey(src) === undefined ? judgeUrl(src) : { ok: true };
}

/** The answer for a run that is not accepted. Nothing was counted. */
export function refuse(refusal: Refusal, { config }: Pick<Services, 'config'>) {
  const upgrade_url = `${config.baseUrl}/dashboard/billing`;
  switch (refusal.outcome) {
    case 'exhausted': {
      const error = refusal.paidPlan ? 'monthly limit reached: overage is disabled' : 'monthly limit reached';
      return reply(429, { error, upgrade_url });
    }
    case 'busy':
      return reply(
        503,
        { error: 'busy', retry_after_ms: Math.ceil(refusal.retryAfterMs) },
        retryAfter(refusal.retryAfterMs),
      );
    case 'not in plan':
      return reply(403, { error: `${refusal.what} is not in your plan`, upgrade_url });
    case 'source host not allowed':
      return reply(403, { error: 'source host not allowed' });
  }
}

const retryAfter = (ms: number) => ({ 'Retry-After': String(Math.max(1, Math.ceil(ms / 1_000))) });

async function toPrepareResponse(
  asset: AssetView,
  project: ProjectRecord,
  services: Services,
): Promise<PrepareResponse> {
  const { id, status, media } = asset;
  return {
    asset_id: id,
    status,
    ...(status === 'pending' ? { eta_seconds: Math.ceil((await services.assets.etaMs(asset)) / 1_000) } : {}),
    ...(status === 'ready' && media
      ? { mp4_url: services.mediaUrl(media.mp4Key), poster_url: services.mediaUrl(media.posterKey) }
      : {}),
    ...embedUrl(id, project, services),
  };
}

/** The proxy URL of an asset by its id, once the project has a key. */
function embedUrl(id: string, { proxyKey }: ProjectRecord, { config }: Services): { embed_url?: string } {
  return proxyKey === null ? {} : { embed_url: `${config.baseUrl}/v1/${proxyKey}/a/${id}.mp4` };
}

function toAsset(asset: AssetView, project: ProjectRecord, services: Services): Asset {
  const { options, media, error, status } = asset;
  const isFailed = status === 'failed';
  return {
    asset_id: asset.id,
    project_id: asset.projectId,
    status,
    state: asset.state,
    src: asset.src,
    motion: options.motion,
    dur_seconds: options.seconds,
    mode: options.mode,
    seed: options.seed,
    prompt_override: options.promptOverride,
    aspect: options.aspect,
    model: options.model,
    run: asset.run,
    mp4_url: media ? services.mediaUrl(media.mp4Key) : null,
    poster_url: media ? services.mediaUrl(media.posterKey) : null,
    bytes: media?.bytes ?? null,
    loop_mode: media?.loopMode ?? null,
    width: media?.width ?? null,
    height: media?.height ?? null,
    latency_ms: asset.latencyMs,
    error_code: isFailed ? (error?.code ?? null) : null,
    error_msg: isFailed ? (error?.hint ?? error?.message ?? null) : null,
    hint: isFailed ? regenerateHint(asset) : null,
    embed_url: embedUrl(asset.id, project, services).embed_url ?? null,
    created_at: asset.createdTs,
    updated_at: asset.updatedTs,
  };
}

/** What to do about a failed run; names the endpoint and the error_code (decisions 4, 502). */
export function regenerateHint({ id, error }: Pick<AssetView, 'id' | 'error'>): string {
  const why = error ? ` (${error.code})` : '';
  return `POST /api/assets/${id}/regenerate starts it again${why}`;
}
