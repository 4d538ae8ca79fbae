/** A machine that counts: the smallest actor that stores a step and publishes a fact for every message. */
import { assign, setup } from 'xstate';
import { declare } from '../../machines/declare.ts';
import type { ActorKind, ActorStorePort } from '../actors/kind.ts';
import { createStepper } from '../actors/step.ts';

type CounterMessage = { type: 'START'; ts: number } | { type: 'COUNT'; ts: number };

const counterMachine = setup({
  types: { context: {} as { count: number }, events: {} as CounterMessage },
  actions: { record: declare<{ event: string; count: number }>() },
}).createMachine({
  id: 'counter',
  context: { count: 0 },
  initial: 'counting',
  states: {
    counting: {
      on: {
        COUNT: {
          actions: [
            assign({ count: ({ context }) => context.count + 1 }),
            { type: 'record', params: ({ context }) => ({ event: 'counted', count: context.count }) },
          ],
        },
      },
    },
  },
});

export function createCounterKind(name: string, store: ActorStorePort): ActorKind {
  return {
    name,
    stepper: createStepper(counterMachine),
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
