/** A machine of some steps, each one piece of work that a worker does: what a run of durable work costs by itself. */
import { assign, setup } from 'xstate';
import { declare } from '../../machines/declare.ts';
import type { ActorKind, ActorStorePort } from '../actors/kind.ts';
import { createStepper } from '../actors/step.ts';
import { createBareKind } from '../simulation/bare-kind.ts';

/** `dueTs`: when a sleeper is to wake, for who measures it. */
export type StepsInput = { steps: number; sleepMs: number; dueTs?: number };
type Context = StepsInput & { step: number };
type Message = { ts: number } & (
  | { type: 'START' }
  | { type: 'DONE'; stage: string }
  | { type: 'RESUME'; stage: string }
);

const work = {
  type: 'work' as const,
  params: ({ context }: { context: Context }) => ({ run: 1, stage: stageOf(context), attempt: 1 }),
};
const record = (event: 'stepped' | 'finished' | 'woken') => ({
  type: 'record' as const,
  params: ({ context }: { context: Context }) => ({ event, step: context.step }),
});
const stageOf = ({ step }: Context) => `s${step}`;

/** asleep ──sleepMs──▶ working ──DONE, as often as there are steps──▶ finished */
const stepsMachine = setup({
  types: { input: {} as StepsInput, context: {} as Context, events: {} as Message },
  actions: {
    work: declare<{ run: number; stage: string; attempt: number }>(),
    record: declare<{ event: string; step: number }>(),
    advance: assign({ step: ({ context }) => context.step + 1 }),
  },
  guards: {
    isCurrent: ({ context, event }) => 'stage' in event && event.stage === stageOf(context),
    isLast: ({ context, event }) =>
      event.type === 'DONE' && event.stage === stageOf(context) && context.step === context.steps,
    isSleeper: ({ context }) => context.sleepMs > 0,
  },
  delays: { wake: ({ context }) => context.sleepMs },
}).createMachine({
  id: 'steps',
  context: ({ input }) => ({ ...input, step: 1 }),
  initial: 'new',
  states: {
    new: {
      on: {
        START: [
          { guard: 'isSleeper', target: 'asleep' },
          { target: 'working', actions: work },
        ],
      },
    },
    asleep: { after: { wake: { target: 'finished', actions: record('woken') } } },
    working: {
      on: {
        DONE: [
          { guard: 'isLast', target: 'finished', actions: record('finished') },
          { guard: 'isCurrent', actions: [record('stepped'), 'advance', work] },
        ],
        RESUME: { guard: 'isCurrent', actions: work },
      },
    },
    finished: {},
  },
});

export const stepsKind = 'steps';

export function createStepsKind(store: ActorStorePort): ActorKind {
  return createBareKind(stepsKind, createStepper(stepsMachine), store);
}
