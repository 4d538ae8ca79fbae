/** A kind of actor that is its stepper and nothing else: for what tries the runtime by itself. */
import type { ActorKind, ActorStorePort } from '../actors/kind.ts';

export function createBareKind(
  name: string,
  stepper: ActorKind['stepper'],
  store: ActorStorePort,
): ActorKind {
  return {
    name,
    stepper,
    machineVersion: 1,
    migrate: (snapshot) => snapshot,
    store,
    startMessage: { type: 'START' },
    publishedFact: (fact, { id, project }) => ({ ...fact, asset_id: id, project_id: project }),
    index: () => ({}),
    beginsRun: () => false,
    earlierFactsKept: 0,
    workFields: () => ({ plan: 'free', since: 0, requestId: '' }),
  };
}
