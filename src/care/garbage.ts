/**
 * Finds stored files that nothing refers to any more, and deletes them when asked to.
 *
 *   media/<asset>/…     when no document of the asset is there; of one that is, only images shown to a model provider
 *   work/<asset>/…      when no run of the asset is under way
 *   uploads/<id>.<ext>  when there is neither a record of the upload nor an asset with it as its source
 *   posters/<project>/… when the project is gone and was nobody's before
 *   probe-…             what a check of the storage has left
 *
 * It cannot take what is needed: a document or record is always there before its files are, ids are never used twice, a
 * new run writes under names of its own, nothing younger than the grace period is touched, and each name is looked up
 * again, by a majority, right before its file goes. Names of another form are counted and left alone.
 */
import { shownEnding } from '../../schemas/limits.ts';
import type { ListedObject, Storage } from '../media/storage.ts';
import type { Store } from '../store/client.ts';
import { inGroups, withTime } from './work.ts';

export type GarbagePorts = {
  store: Pick<Store, 'references'> & { assets: { erased: Pick<Store['assets']['erased'], 'isSourceUsed'> } };
  storage: Pick<Storage, 'list' | 'delete'>;
  /** Address of an upload, as assets have it for their source. */
  uploadUrl(key: string): string;
  now(): number;
};

export type GarbageOptions = {
  /** Files younger than this are left alone. At least an hour. */
  graceMs: number;
  /** Otherwise they are only counted. */
  isDeleting: boolean;
};

type Count = { objects: number; bytes: number };
export type GarbageReport = {
  looked: Count;
  garbage: Record<Reason, Count>;
  deleted: number;
  /** Without a reason to be there that is known, and left alone; the first of them by name. */
  unknown: Count & { keys: string[] };
};

/** A clock of the storage may differ, and a run may take ten minutes. */
export const minGraceMs = 60 * 60_000;

const lookTogether = 500;
const deleteAtOnce = 8;
const deleteMs = 30_000;
const maxNamed = 20;
const reasons = [
  'media of no asset',
  'shown images',
  'work of no run',
  'uploads',
  'posters',
  'probes',
] as const;
type Reason = (typeof reasons)[number];

/** @throws {RangeError} for a grace period that is too short; what store and storage throw. */
export async function collectGarbage(
  ports: GarbagePorts,
  { graceMs, isDeleting }: GarbageOptions,
): Promise<GarbageReport> {
  if (graceMs < minGraceMs) throw new RangeError('the grace period is at least an hour');
  const report: GarbageReport = {
    looked: { objects: 0, bytes: 0 },
    garbage: Object.fromEntries(
      reasons.map((one) => [one, { objects: 0, bytes: 0 }]),
    ) as GarbageReport['garbage'],
    deleted: 0,
    unknown: { objects: 0, bytes: 0, keys: [] },
  };
  for await (const some of inGroups(ports.storage.list(''), lookTogether)) {
    for (const one of some) add(report.looked, one);
    for (const one of some.filter(({ key }) => placeOf(key) === undefined)) {
      add(report.unknown, one);
      if (report.unknown.keys.length < maxNamed) report.unknown.keys.push(one.key);
    }
    const old = some.filter(({ lastModified }) => lastModified.getTime() < ports.now() - graceMs);
    const found = await judge(ports, old);
    for (const [one, reason] of found) add(report.garbage[reason], one);
    if (isDeleting) report.deleted += await deleteAll(ports, [...found.keys()]);
  }
  return report;
}

/** Looks once more, and deletes what is garbage still. */
async function deleteAll(ports: GarbagePorts, candidates: ListedObject[]): Promise<number> {
  let deleted = 0;
  for (let from = 0; from < candidates.length; from += deleteAtOnce) {
    const sure = [...(await judge(ports, candidates.slice(from, from + deleteAtOnce))).keys()];
    await Promise.all(
      sure.map(({ key }) => withTime(deleteMs, (signal) => ports.storage.delete(key, signal))),
    );
    deleted += sure.length;
  }
  return deleted;
}

type Place = { kind: 'media' | 'work' | 'uploads' | 'posters' | 'probe'; id: string };

/** What a key belongs to; undefined for one of another form. */
function placeOf(key: string): Place | undefined {
  const [, kind, id] =
    /^(media|work)\/(\w{1,64})\/.+$/.exec(key) ??
    /^(posters)\/(\w{1,64})\/[\w-]+\.jpg$/.exec(key) ??
    /^(uploads)\/(\w{1,64})\.(?:png|jpg|webp)$/.exec(key) ??
    /^(probe)-([0-9a-f]+)$/.exec(key) ??
    [];
  return kind === undefined || id === undefined ? undefined : { kind: kind as Place['kind'], id };
}

async function judge(
  { store, uploadUrl }: GarbagePorts,
  objects: readonly ListedObject[],
): Promise<Map<ListedObject, Reason>> {
  const placed = objects.flatMap((object) => {
    const place = placeOf(object.key);
    return place ? [{ object, place }] : [];
  });
  const idsOf = (...kinds: Place['kind'][]) => [
    ...new Set(placed.filter(({ place }) => kinds.includes(place.kind)).map(({ place }) => place.id)),
  ];
  const assets = await store.references.assets(idsOf('media', 'work'));
  const projects = await store.references.projects(idsOf('posters'));
  const uploads = await store.references.uploads(idsOf('uploads'));

  const found = new Map<ListedObject, Reason>();
  for (const { object, place } of placed) {
    const reason = reasonFor(object.key, place, { assets, projects, uploads });
    if (reason === undefined) continue;
    const isSource =
      place.kind === 'uploads' && (await store.assets.erased.isSourceUsed(uploadUrl(object.key)));
    if (!isSource) found.set(object, reason);
  }
  return found;
}

type Known = {
  assets: ReadonlyMap<string, { isPending: boolean }>;
  projects: ReadonlySet<string>;
  uploads: ReadonlySet<string>;
};

/** Why nobody needs an object; undefined when somebody does. */
function reasonFor(
  key: string,
  { kind, id }: Place,
  { assets, projects, uploads }: Known,
): Reason | undefined {
  const asset = assets.get(id);
  switch (kind) {
    case 'media':
      if (asset === undefined) return 'media of no asset';
      return key.endsWith(shownEnding) && !asset.isPending ? 'shown images' : undefined;
    case 'work':
      return asset?.isPending ? undefined : 'work of no run';
    case 'uploads':
      return uploads.has(id) ? undefined : 'uploads';
    case 'posters':
      return projects.has(id) ? undefined : 'posters';
    default:
      return 'probes';
  }
}

function add(count: Count, { bytes }: { bytes: number }): void {
  count.objects += 1;
  count.bytes += bytes;
}
