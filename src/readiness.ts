/** Whether a process can do its work (decisions 10, Health): what it needs, and which of it cannot be reached. */
import type { Bus } from './bus/bus.ts';
import type { Store } from './store/client.ts';

export async function readinessOf(
  { store, bus }: { store: Pick<Store, 'ping'>; bus: Pick<Bus, 'connected'> },
  signal: AbortSignal,
): Promise<{ ok: boolean; failing: string[] }> {
  const isStoreUp = await store.ping(signal).then(
    () => true,
    () => false,
  );
  const failing = [...(isStoreUp ? [] : ['store']), ...(bus.connected() ? [] : ['bus'])];
  return { ok: failing.length === 0, failing };
}
