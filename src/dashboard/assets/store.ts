/**
 * The assets of a project as the gallery has read them, kept up to date by the stream.
 *
 * In chunks of one page each, so that what is drawn already is not looked at again when another page comes. An asset is
 * in one chunk alone, however often it is read.
 */
import { createStore } from '@xstate/store';
import type { Asset, AssetList, AssetStatus } from '../../../schemas/asset.ts';
import type { AssetEvent } from '../../../schemas/events.ts';
import { ApiError, get } from '../api.ts';
import { listenFromNow } from '../gaps.ts';
import { stateAfter } from './history.ts';

/** When its next attempt begins, while it waits for that. */
type Progress = { retryTs: number | undefined };

type GalleryState = {
  projectId: string | undefined;
  filter: AssetStatus | undefined;
  assets: Readonly<Record<string, Asset>>;
  progress: Readonly<Record<string, Progress>>;
  chunks: readonly (readonly string[])[];
  /** Where the next page begins; null after the last, undefined before the first. */
  cursor: string | null | undefined;
  isReading: boolean;
  error: unknown;
};

const empty = {
  assets: {},
  progress: {},
  chunks: [],
  cursor: undefined,
  isReading: false,
  error: undefined,
} satisfies Partial<GalleryState>;

export const gallery = createStore({
  context: { projectId: undefined, filter: undefined, ...empty } as GalleryState,
  on: {
    opened: (_, { projectId, filter }: { projectId: string; filter: AssetStatus | undefined }) => ({
      projectId,
      filter,
      ...empty,
    }),
    reading: (context) => ({ ...context, isReading: true, error: undefined }),
    refused: (context, { error }: { error: unknown }) => ({ ...context, isReading: false, error }),
    paged: (context, { page }: { page: AssetList }) => ({
      ...append(context, page.assets),
      cursor: page.next_cursor,
      isReading: false,
      error: undefined,
    }),
    /** The newest, read anew. */
    renewed: (context, { page }: { page: AssetList }) => ({
      ...renewed(context, page),
      isReading: false,
      error: undefined,
    }),
    /** One asset as it is now; a new one comes first. */
    put: (context, { asset }: { asset: Asset }) => put(context, asset),
    erased: (context, { id }: { id: string }) => without(context, id),
    happened: (context, { events }: { events: readonly AssetEvent[] }) => apply(context, events),
  },
});

/** Reads the assets of this project with this filter, and follows them. @returns what ends it */
export function openGallery(projectId: string, filter: AssetStatus | undefined): () => void {
  const { context } = gallery.getSnapshot();
  // Coming back from an asset finds the list as it was left.
  if (context.projectId !== projectId || context.filter !== filter) {
    gallery.trigger.opened({ projectId, filter });
  }
  void renew();
  return listenFromNow({ events: take, resync: () => void renew() });
}

const pageSize = 48;
const maxPage = 100;

/**
 * The next page, unless it is being read or there is none. `isHurried`: a large one, for a search that may have to go
 * through thousands.
 */
export async function readMore(isHurried = false): Promise<void> {
  const { context } = gallery.getSnapshot();
  if (context.isReading || context.cursor === null || context.cursor === undefined) return;
  const limit = isHurried ? maxPage : pageSize;
  await read(context, { limit: String(limit), cursor: context.cursor }, (page) =>
    gallery.trigger.paged({ page }),
  );
}

/** From the newest again, in at most one request: what lies deeper is read again when it is scrolled to. */
async function renew(): Promise<void> {
  const { context } = gallery.getSnapshot();
  const limit = context.chunks.flat().length > pageSize ? maxPage : pageSize;
  await read(context, { limit: String(limit) }, (page) => gallery.trigger.renewed({ page }));
}

async function read(
  { projectId, filter }: GalleryState,
  query: Record<string, string>,
  take: (page: AssetList) => void,
): Promise<void> {
  if (projectId === undefined) return;
  gallery.trigger.reading();
  const isStill = () => {
    const { context } = gallery.getSnapshot();
    return context.projectId === projectId && context.filter === filter;
  };
  const all = new URLSearchParams({ project_id: projectId, ...(filter ? { status: filter } : {}), ...query });
  try {
    const page = await get<AssetList>(`/api/assets?${all}`);
    if (isStill()) take(page);
  } catch (error) {
    if (isStill()) gallery.trigger.refused({ error });
  }
}

function take(events: readonly AssetEvent[]): void {
  const { assets, filter } = gallery.getSnapshot().context;
  const told = events.filter((event) => event.asset_id !== '' && !event.event.startsWith('webhook_'));
  gallery.trigger.happened({ events: told });
  const unknown = new Set(told.map((event) => event.asset_id).filter((id) => assets[id] === undefined));
  for (const id of unknown) if (filter === undefined || told.some(isBegin(id))) void fetchOne(id);
  // What a finished run leaves is more than its event tells.
  for (const { event, asset_id: id } of told) if (event === 'ready' && !unknown.has(id)) void fetchOne(id);
}

const isBegin =
  (id: string) =>
  ({ event, asset_id }: AssetEvent): boolean =>
    asset_id === id && event === 'queued';

/** Many events may tell of one asset before it is here. */
const fetching = new Set<string>();

async function fetchOne(id: string): Promise<void> {
  const { projectId } = gallery.getSnapshot().context;
  if (fetching.has(id)) return;
  fetching.add(id);
  try {
    const { asset } = await get<{ asset: Asset }>(`/api/assets/${id}`);
    if (asset.project_id === projectId) gallery.trigger.put({ asset });
  } catch (cause) {
    // Erased meanwhile, or to be read with the list after the connection is back.
    if (!(cause instanceof ApiError)) throw cause;
  } finally {
    fetching.delete(id);
  }
}

function append(context: GalleryState, more: readonly Asset[]): GalleryState {
  const fresh = more.filter(({ asset_id: id }) => context.assets[id] === undefined);
  const ids = fresh.map(({ asset_id: id }) => id);
  const assets = { ...context.assets };
  for (const asset of more) assets[asset.asset_id] = newer(assets[asset.asset_id], asset);
  return { ...context, assets, chunks: ids.length > 0 ? [...context.chunks, ids] : context.chunks };
}

/** What lies deeper than the page stays as it was; what should be on it and is not is gone. */
function renewed(context: GalleryState, { assets: page, next_cursor: cursor }: AssetList): GalleryState {
  const ids = new Set(page.map(({ asset_id: id }) => id));
  if (!context.chunks.flat().some((id) => ids.has(id))) {
    return { ...append({ ...context, ...empty }, page), cursor };
  }
  const oldest = cursor === null ? 0 : (page.at(-1)?.created_at ?? 0);
  const isGone = (id: string) => !ids.has(id) && (context.assets[id]?.created_at ?? 0) >= oldest;
  const gone = context.chunks.flat().filter(isGone);
  const kept = gone.reduce(without, context);
  const { chunks, ...rest } = append({ ...kept, chunks: [] }, page);
  return { ...rest, chunks: [...chunks, ...kept.chunks] };
}

/** Answers may overtake each other. */
const newer = (one: Asset | undefined, other: Asset): Asset =>
  one && one.updated_at > other.updated_at ? one : other;

function put(context: GalleryState, asset: Asset): GalleryState {
  const id = asset.asset_id;
  const assets = { ...context.assets, [id]: newer(context.assets[id], asset) };
  if (context.assets[id]) return { ...context, assets };
  const [first, ...rest] = context.chunks;
  // The first chunk takes new ones until it is a page long, so that few are drawn again.
  if (first && first.length < pageSize) return { ...context, assets, chunks: [[id, ...first], ...rest] };
  return { ...context, assets, chunks: [[id], ...context.chunks] };
}

function without(context: GalleryState, id: string): GalleryState {
  if (!context.assets[id]) return context;
  const { [id]: _, ...assets } = context.assets;
  const chunks = context.chunks.map((ids) => (ids.includes(id) ? ids.filter((one) => one !== id) : ids));
  return { ...context, assets, chunks: chunks.filter((ids) => ids.length > 0) };
}

function apply(context: GalleryState, events: readonly AssetEvent[]): GalleryState {
  const assets = { ...context.assets };
  const progress = { ...context.progress };
  for (const event of events) {
    const asset = assets[event.asset_id];
    // An event that the reading of the asset has seen already changes nothing.
    if (!asset || event.ts <= asset.updated_at || event.run < asset.run) continue;
    assets[event.asset_id] = withEvent(asset, event);
    progress[event.asset_id] = { retryTs: event.next_at_ms };
  }
  return { ...context, assets, progress };
}

/** The asset after an event of its run. */
export function withEvent(asset: Asset, event: AssetEvent): Asset {
  const state = stateAfter(asset.state, event, asset.mode) ?? asset.state;
  const base = { ...asset, state, run: event.run, updated_at: event.ts };
  if (event.event === 'ready') {
    return {
      ...base,
      status: 'ready',
      mp4_url: event.mp4_url ?? asset.mp4_url,
      poster_url: event.poster_url ?? asset.poster_url,
      bytes: event.bytes ?? asset.bytes,
      error_code: null,
      error_msg: null,
    };
  }
  if (event.event === 'failed') {
    return {
      ...base,
      status: 'failed',
      error_code: event.error_code ?? null,
      error_msg: event.error_msg ?? null,
    };
  }
  if (event.event === 'cancelled') return { ...base, status: asset.mp4_url === null ? 'failed' : 'ready' };
  return { ...base, status: 'pending', error_code: null, error_msg: null };
}
