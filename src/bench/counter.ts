/** A machine that counts: the smallest actor that stores a step and publishes a fact for every message. */
import { assign, setup } from 'xstate';
import { declare } from '../../machines/declare.ts';
import type { ActorKind, ActorStorePort } from '../actors/kind.ts';
import { createStepper } from '../actors/step.ts';
import { createBareKind } from '../simulation/bare-kind.ts';

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
  return createBareKind(name, createStepper(counterMachine), store);
}
