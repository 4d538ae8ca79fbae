/** An actor that counts and remembers what it was sent: shows a message that is lost, doubled or out of order. */
import type { ActorKind, ActorStorePort } from '../actors/kind.ts';
import { createBareKind } from './bare-kind.ts';

export const tallyKind = 'tally';

export function createTallyKind(store: ActorStorePort): ActorKind {
  return createBareKind(
    tallyKind,
    {
      initial: () => ({ snapshot: { value: 'counting', context: { count: 0 } }, actions: [], timers: [] }),
      step({ context }, { type, tag }) {
        const { count } = context as { count: number };
        if (type !== 'COUNT') return { snapshot: { value: 'counting', context }, actions: [], timers: [] };
        return {
          snapshot: { value: 'counting', context: { count: count + 1 } },
          actions: [{ type: 'record', params: { event: 'counted', tag } }],
          timers: [],
        };
      },
    },
    store,
  );
}
