/** The fast step against xstate's own pure functions, on random walks of both machines. */
import fc from 'fast-check';
import t from 'tap';
import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  assign,
  initialTransition,
  raise,
  setup,
  transition,
} from 'xstate';
import type { AssetContext } from '../../machines/asset.ts';
import { createAssetMachine } from '../../machines/asset.ts';
import { declare } from '../../machines/declare.ts';
import { createStepper, type StepResult } from '../../src/actors/step.ts';
import { createCounterKind } from '../../src/bench/counter.ts';
import { assetInput, failed, type MessageType, messageOf, options } from '../fixtures/asset-messages.ts';

type Message = { type: string; ts: number } & Record<string, unknown>;

/** What xstate itself makes of a message, in the form of a step. */
function toResult([snapshot, actions]: readonly [
  AnyMachineSnapshot,
  { type: string; params: unknown }[],
]): StepResult {
  const timers: StepResult['timers'] = [];
  for (const { type, params } of actions) {
    const { event, id, delay, sendId } = (params ?? {}) as Record<string, unknown>;
    if (type === 'xstate.cancel') timers.push({ cancel: String(sendId) });
    if (type === 'xstate.raise' && delay !== undefined)
      timers.push({ set: String(id), delayMs: Number(delay), event: { ...(event as { type: string }) } });
  }
  return {
    snapshot: { value: snapshot.value, context: snapshot.context },
    actions: actions
      .filter(({ type }) => !type.startsWith('xstate.'))
      .map(({ type, params }) => ({ type, params })),
    timers,
  };
}

/** Steps both ways, from the stored form each time, as the runtime does. */
function compare(
  machine: AnyStateMachine,
  input: unknown,
  next: (result: StepResult, place: number) => Message | undefined,
) {
  const stepper = createStepper(machine);
  let stored = stepper.initial(input);
  let reference = initialTransition(machine, input as never) as unknown as Parameters<typeof toResult>[0];
  equal(stored, toResult(reference), 'the beginning');
  for (let place = 0; ; place += 1) {
    const message = next(stored, place);
    if (message === undefined) return;
    const { value, context } = JSON.parse(JSON.stringify(stored.snapshot));
    stored = stepper.step({ value, context }, message);
    const restored = machine.resolveState({ value, context });
    reference = transition(machine, restored, message) as unknown as typeof reference;
    equal(stored, toResult(reference), `message ${place}, ${message.type}`);
  }
}

function equal(found: unknown, wanted: unknown, what: string): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted))
    throw new Error(`${what}\nfound  ${JSON.stringify(found)}\nwanted ${JSON.stringify(wanted)}`);
}

const types = Object.keys(messageOf) as MessageType[];
const way: Record<string, MessageType> = {
  new: 'START',
  fetching: 'SOURCE_FETCHED',
  asked: 'WORK_STARTED',
  describing: 'VISION_COMPLETED',
  submitting: 'SUBMITTED',
  waiting: 'OUTPUT_READY',
  copying: 'CLIP_COMPLETED',
  merging: 'CLIP_COMPLETED',
  writing: 'STORED',
};

t.test('the asset machine steps as xstate says', async (t) => {
  const machine = createAssetMachine();
  const choices = fc.array(fc.record({ pick: fc.nat(99), type: fc.constantFrom(...types) }), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(fc.boolean(), choices, (isLoop, moves) => {
      const input = assetInput(isLoop ? {} : { options: { ...options, mode: 'animate-in' } });
      compare(machine, input, ({ snapshot, timers }, place) => {
        const move = moves[place];
        return (
          move && messageFor(move, snapshot.value, snapshot.context as AssetContext, timers, 1_000 + place)
        );
      });
    }),
    { numRuns: 300 },
  );
  t.pass('same states, contexts, actions and delays');
});

function messageFor(
  { pick, type }: { pick: number; type: MessageType },
  value: unknown,
  { run, stage, attempt }: AssetContext,
  timers: StepResult['timers'],
  ts: number,
): Message {
  const ref = { run, stage, attempt };
  const [timer] = timers.filter((one) => 'set' in one);
  if (pick < 10 && timer) return { ...timer.event, ts };
  if (pick < 20) return failed(ref, ts) as Message;
  const leaf = JSON.stringify(value).match(/(\w+)"}*$/)?.[1] ?? '';
  return messageOf[pick < 75 ? (way[leaf] ?? type) : type](ref, ts) as Message;
}

const quirks = setup({
  types: {
    context: {} as { count: number },
    events: {} as { type: 'GO' } | { type: 'AGAIN' } | { type: 'STOP' },
  },
  actions: { note: declare<{ at: number }>() },
  delays: { soon: ({ context }) => context.count * 10 },
}).createMachine({
  context: { count: 0 },
  initial: 'idle',
  states: {
    idle: { on: { GO: 'busy' } },
    busy: {
      entry: [
        assign({ count: ({ context }) => context.count + 1 }),
        raise({ type: 'AGAIN' }),
        raise({ type: 'STOP' }, { delay: 'soon' }),
      ],
      after: { soon: 'idle', 500: 'idle' },
      on: {
        AGAIN: { actions: { type: 'note', params: ({ context }) => ({ at: context.count }) } },
        GO: { target: 'busy', reenter: true },
        STOP: 'idle',
      },
    },
  },
});

t.test('raises, delays and re-entries of a machine come out as xstate says', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('GO', 'AGAIN', 'STOP', 'NOBODY'), { maxLength: 20 }), (list) => {
      const stepper = createStepper(quirks);
      let { snapshot } = stepper.initial(undefined);
      for (const [ts, type] of list.entries()) {
        const { value, context } = snapshot;
        const [state, actions] = transition(
          quirks,
          quirks.resolveState({ value: value as 'idle', context: context as { count: number } }),
          {
            type: type as 'GO',
          },
        );
        const result = stepper.step(snapshot, { type, ts });
        const wanted = toResult([state, actions] as unknown as Parameters<typeof toResult>[0]);
        equal(result.actions, wanted.actions, type);
        equal(result.snapshot, wanted.snapshot, type);
        equal(
          result.timers.map((timer) => ('set' in timer ? timer.delayMs : timer.cancel)),
          wanted.timers.map((timer) => ('set' in timer ? timer.delayMs : timer.cancel)),
          type,
        );
        snapshot = result.snapshot;
      }
    }),
    { numRuns: 200 },
  );
  const stepper = createStepper(quirks);
  const { actions, timers } = stepper.step(stepper.initial(undefined).snapshot, { type: 'GO', ts: 1 });
  t.strictSame(
    actions,
    [{ type: 'note', params: { at: 1 } }],
    'an immediate raise is applied, not handed out',
  );
  t.strictSame(timers.map((timer) => 'set' in timer && `${timer.set} in ${timer.delayMs}`).sort(), [
    'STOP in 10',
    'xstate.after.500.(machine).busy in 500',
    'xstate.after.soon.(machine).busy in 10',
  ]);
});

t.test('the counter machine steps as well, and its kind has nothing to say about runs', async (t) => {
  const store = {
    load: async () => [],
    write: async () => true,
    due: async () => [],
    unstarted: async () => [],
    async *touchedSince() {
      yield* [];
    },
  };
  const kind = createCounterKind('counter', store);
  let { snapshot } = kind.stepper.initial({});
  for (let count = 1; count <= 20; count += 1) {
    const result = kind.stepper.step(snapshot, { type: 'COUNT', ts: count });
    t.strictSame(result.actions, [{ type: 'record', params: { event: 'counted', count } }]);
    snapshot = result.snapshot;
  }
  const before = snapshot;
  t.equal(kind.stepper.step(before, { type: 'START', ts: 1 }).snapshot.context, before.context);
  t.strictSame(kind.migrate(before, 0), before);
  t.equal(kind.beginsRun('counted'), false);
});

t.test('a step that throws leaves nothing behind for the next one', async (t) => {
  const stepper = createStepper(createAssetMachine());
  const { snapshot } = stepper.initial(assetInput());
  const broken = { value: { pending: { stage1: 'submitting' } }, context: snapshot.context };
  t.throws(() => stepper.step(broken, { type: 'RECONCILE', ts: 1 }), /no source yet/);
  const { actions } = stepper.step(snapshot, { type: 'START', ts: 2 });
  t.strictSame(
    actions.map(({ type }) => type),
    ['record', 'fetchSource'],
  );
});
