/** The hub's ports over the message bus. */
import { watchBeats } from '../bus/beats.ts';
import type { Bus } from '../bus/bus.ts';
import type { HubPorts } from './hub.ts';

/** What of the bus the hub uses. */
export type HubBus = Pick<Bus, 'onFacts' | 'listen' | 'replayFacts' | 'flush' | 'connected' | 'onReconnect'>;

/** @param rest what does not come from the bus. */
export function createHubPorts(
  bus: HubBus,
  rest: Pick<HubPorts, 'assetFacts' | 'isGranted' | 'log'>,
): HubPorts {
  return {
    onFacts: (projectId, onFact) =>
      bus.onFacts(projectId, '*', '*', (fact, _subject, told) => onFact(fact, told)),
    onFactsNamed: (event, onFact) => bus.onFacts('*', '*', event, onFact),
    flush: () => bus.flush(),
    isConnected: () => bus.connected(),
    onReconnect: (call) => bus.onReconnect(call),
    onMissing: (call) => watchBeats(bus, call),
    replayFacts: (projectId, assetId, sinceTs, signal) =>
      bus.replayFacts(projectId, assetId, sinceTs, signal),
    ...rest,
  };
}
