/** The hub's ports over the message bus. */
import type { Bus } from '../bus/bus.ts';
import type { HubPorts } from './hub.ts';

/** What of the bus the hub uses. */
export type HubBus = Pick<Bus, 'onFacts' | 'replayFacts' | 'flush' | 'connected' | 'onReconnect'>;

/** @param rest what does not come from the bus. */
export function createHubPorts(
  bus: HubBus,
  rest: Pick<HubPorts, 'assetFacts' | 'isGranted' | 'log'>,
): HubPorts {
  return {
    onFacts: (projectId, onFact) =>
      bus.onFacts(projectId, '*', '*', (fact, _subject, text) => onFact(fact, text)),
    onFactsNamed: (event, onFact) => bus.onFacts('*', '*', event, onFact),
    flush: () => bus.flush(),
    isConnected: () => bus.connected(),
    onReconnect: (call) => bus.onReconnect(call),
    replayFacts: (projectId, assetId, sinceTs, signal) =>
      bus.replayFacts(projectId, assetId, sinceTs, signal),
    ...rest,
  };
}
