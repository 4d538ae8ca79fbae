/** The newest assets of a project, kept true by its events. */
import { useEffect, useState } from 'preact/hooks';
import type { Asset, AssetList } from '../../../schemas/asset.ts';
import type { AssetEvent } from '../../../schemas/events.ts';
import { get } from '../api.ts';
import { listen } from '../live.ts';

export type Latest = {
  /** Newest first; undefined until they are read. */
  assets: readonly Asset[] | undefined;
  /** The last event of each asset that is being made. */
  steps: ReadonlyMap<string, AssetEvent>;
  error: unknown;
  reload(): void;
};

export function useLatest(projectId: string, limit: number): Latest {
  const [assets, setAssets] = useState<readonly Asset[]>();
  const [steps, setSteps] = useState<ReadonlyMap<string, AssetEvent>>(new Map());
  const [error, setError] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    const read = () => {
      const path = `/api/assets?project_id=${encodeURIComponent(projectId)}&limit=${limit}`;
      get<AssetList>(path, { signal: control.signal }).then(
        ({ assets }) => {
          setAssets(assets);
          setError(undefined);
        },
        (cause) => control.signal.aborted || setError(cause),
      );
    };
    // What an event says of an asset is read from the service: once for many events that come together.
    let due: ReturnType<typeof setTimeout> | undefined;
    const readSoon = () => {
      due ??= setTimeout(() => {
        due = undefined;
        read();
      }, 150);
    };
    const stop = listen({
      events(events) {
        const own = events.filter(({ event }) => !event.startsWith('webhook_'));
        if (own.length === 0) return;
        setSteps((before) => new Map([...before, ...own.map((one) => [one.asset_id, one] as const)]));
        if (own.some(({ event }) => ends.has(event))) readSoon();
      },
      resync: readSoon,
    });
    read();
    return () => {
      stop();
      clearTimeout(due);
      control.abort();
    };
  }, [projectId, limit, round]);
  return { assets, steps, error, reload: () => setRound((count) => count + 1) };
}

/** Events after which an asset has another picture. */
const ends = new Set(['queued', 'ready', 'failed', 'cancelled']);
