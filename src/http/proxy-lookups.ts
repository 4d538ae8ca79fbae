/**
 * What the proxy knows of projects and assets, in memory: a request for finished media asks nobody else.
 *
 * What is known is dropped the moment the bus tells of a change. Without the bus it is believed for less than a
 * second, so that a rotated key is refused everywhere within one (decisions 2, At once).
 */
import { LRUCache } from 'lru-cache';
import type { Hub } from '../sse/hub.ts';
import { AssetErased, assetErased, type Listen, ProjectChanged, projectChanged } from '../sse/messages.ts';
import type { AssetView } from './asset-requests.ts';
import { type MediaFiles, shared } from './media-files.ts';

export type LookupsPorts<Project> = {
  findProjectByKey(key: string): Promise<Project | undefined>;
  findAsset(id: string): Promise<AssetView | undefined>;
  /** Whether messages of other processes arrive. */
  isLive(): boolean;
  /** Unix ms. */
  now(): number;
};

/** An asset as the proxy needs it: everything but its facts. */
export type KnownAsset = Omit<AssetView, 'facts'>;

/** What was read and when, in unix ms. It is current until it changes, is read again, or makes room for others. */
export class Known<Value> {
  readonly value: Value;
  readonly readTs: number;
  isCurrent = true;

  constructor(value: Value, readTs: number) {
    this.value = value;
    this.readTs = readTs;
  }
}

const maxProjects = 10_000;
const maxAssets = 50_000;
const maxResolved = 100_000;
/** Longest time that anything is believed, with the bus and without. */
const keptMs = 60_000;
const keptAloneMs = 900;

export type Lookups<Project extends { id: string }> = ReturnType<typeof createLookups<Project>>;

export function createLookups<Project extends { id: string }>(ports: LookupsPorts<Project>) {
  const projects = createKnown(maxProjects, ports, ports.findProjectByKey);
  const assets = createKnown(maxAssets, ports, async (id): Promise<KnownAsset | undefined> => {
    const asset = await ports.findAsset(id);
    if (!asset) return undefined;
    const { facts: _, ...known } = asset;
    return known;
  });
  /** A request as asked always means the same asset, so this needs no time limit. */
  const resolved = new LRUCache<string, string>({ max: maxResolved });

  return {
    project: projects.find,
    asset: assets.find,
    /** What is known of either, believed or not. */
    knownProject: projects.known,
    knownAsset: assets.known,
    /** Whether what is current and was read at that time may be believed. */
    isBelieved: (readTs: number): boolean => isBelieved(readTs, ports),

    /** The asset that a request meant before; undefined when this process does not know. */
    resolved: (asked: string): string | undefined => resolved.get(asked),
    resolve: (asked: string, assetId: string): void => void resolved.set(asked, assetId),
    unresolve: (asked: string): void => void resolved.delete(asked),

    /** A project's keys or settings have changed, or it is gone. */
    forgetProject: (projectId: string): void => projects.forgetWhere(({ id }) => id === projectId),
    /** A run of the asset has begun or ended, or the asset is gone. */
    forgetAsset: (assetId: string): void => assets.forget(assetId),
    /** Messages may have been lost. */
    forgetAll(): void {
      projects.forgetWhere(() => true);
      assets.forgetWhere(() => true);
    },
  };
}

export type ChangePorts = {
  hub: Pick<Hub, 'onRunChange'>;
  listen: Listen;
  /** Calls back when the bus is there again after a loss. */
  onReconnect(call: () => void): { stop(): void };
};

/** Keeps lookups and files true: they forget what messages say has changed. */
export function followChanges(
  lookups: Pick<Lookups<{ id: string }>, 'forgetProject' | 'forgetAsset' | 'forgetAll'>,
  files: Pick<MediaFiles, 'forget'>,
  { hub, listen, onReconnect }: ChangePorts,
): { stop(): void } {
  const forgetting = createForgetting(files);
  const subscriptions = [
    hub.onRunChange(({ assetId }) => lookups.forgetAsset(assetId)),
    onReconnect(() => lookups.forgetAll()),
    listen(projectChanged, (body) => {
      const { data } = ProjectChanged.safeParse(body);
      if (data) lookups.forgetProject(data.projectId);
    }),
    listen(assetErased, (body) => {
      const { data } = AssetErased.safeParse(body);
      if (!data) return;
      lookups.forgetAsset(data.assetId);
      forgetting.add(`media/${data.assetId}/`);
      if (data.poster !== undefined) forgetting.add(data.poster);
    }),
  ];
  return {
    stop() {
      forgetting.stop();
      for (const subscription of subscriptions) subscription.stop();
    },
  };
}

const forgetMs = 100;

/** Forgets files at once, and many in a row together: each time all that are known are gone through. */
function createForgetting(files: Pick<MediaFiles, 'forget'>): { add(name: string): void; stop(): void } {
  let names: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    timer = names.length === 0 ? undefined : setTimeout(flush, forgetMs);
    files.forget(...names);
    names = [];
  };
  return {
    add(name) {
      names.push(name);
      if (timer === undefined) flush();
    },
    stop: () => clearTimeout(timer),
  };
}

type BeliefPorts = Pick<LookupsPorts<unknown>, 'isLive' | 'now'>;

function isBelieved(readTs: number, { isLive, now }: BeliefPorts): boolean {
  return now() - readTs < (isLive() ? keptMs : keptAloneMs);
}

type Reading<Value> = Promise<{ value: Value | undefined; isOutdated: boolean }>;

const maxTries = 3;

/** Values by key, read once at a time. What changes while it is read is read again. */
function createKnown<Value extends object>(
  max: number,
  ports: BeliefPorts,
  read: (key: string) => Promise<Value | undefined>,
) {
  const cache = new LRUCache<string, Known<Value>>({
    max,
    dispose: (known) => {
      known.isCurrent = false;
    },
  });
  const reading = new Map<string, Reading<Value>>();
  /** Keys being read, and those of them that have changed since. */
  const loading = new Set<string>();
  const outdated = new Set<string>();

  const load = async (key: string): Promise<{ value: Value | undefined; isOutdated: boolean }> => {
    const readTs = ports.now();
    loading.add(key);
    try {
      const value = await read(key);
      const isOutdated = outdated.has(key);
      if (value && !isOutdated) cache.set(key, new Known(value, readTs));
      return { value, isOutdated };
    } finally {
      loading.delete(key);
      outdated.delete(key);
    }
  };

  const loadFresh = async (key: string): Promise<Value | undefined> => {
    for (let tries = 1; ; tries += 1) {
      const { value, isOutdated } = await shared(reading, key, () => load(key));
      if (!isOutdated || tries === maxTries) return value;
    }
  };

  return {
    /** At once where it can. */
    find(key: string): Value | undefined | Promise<Value | undefined> {
      const known = cache.get(key);
      return known && isBelieved(known.readTs, ports) ? known.value : loadFresh(key);
    },
    known: (key: string): Known<Value> | undefined => cache.peek(key),
    forget(key: string): void {
      cache.delete(key);
      if (loading.has(key)) outdated.add(key);
    },
    forgetWhere(fits: (value: Value) => boolean): void {
      for (const [key, { value }] of cache.entries()) if (fits(value)) cache.delete(key);
      // What is being read may be one of them.
      for (const key of loading) outdated.add(key);
    },
  };
}
