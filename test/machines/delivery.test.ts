/** The life of a delivery: every state meets every message, the schedule, and random walks against a model. */
import fc from 'fast-check';
import t from 'tap';
import { createDeliveryMachine, type DeliveryContext } from '../../machines/delivery.ts';
import type { DeliveryCommand, DeliveryInput } from '../../schemas/delivery-messages.ts';
import { webhook } from '../../schemas/limits.ts';
import { createStepper, type StoredSnapshot } from '../../src/actors/step.ts';

type State = 'pending' | 'sending' | 'retrying' | 'delivered' | 'dead' | 'cancelled';
type Fact = { event: string; attempt: number; delayMs?: number; response_code: number | null };

const input: DeliveryInput = {
  assetId: 'ast_1',
  run: 1,
  requestId: 'req_1',
  eventId: 'evt_1',
  eventType: 'asset.completed',
  isAnnounced: true,
  isForced: false,
};
const stepper = createStepper(createDeliveryMachine());
const start: DeliveryCommand = { type: 'START', input, payload: '{}' };
const delivered = (attempt: number): DeliveryCommand => ({
  type: 'DELIVERED',
  attempt,
  code: 200,
  preview: 'ok',
});
const failed = (attempt: number, more: { spread?: number; retryAfterMs?: number } = {}): DeliveryCommand => ({
  type: 'ATTEMPT_FAILED',
  attempt,
  code: 500,
  preview: null,
  failure: 'status',
  spread: 0,
  ...more,
});
const redeliver: DeliveryCommand = { type: 'REDELIVER', isAnnounced: true };
const retry = 'xstate.after.retryDelay.delivery.retrying';

let ts = 1_000;

/** A delivery as a runtime would hold it: its snapshot and all facts so far. */
function create(change: Partial<DeliveryInput> = {}) {
  const held = { snapshot: stepper.initial({ ...input, ...change }).snapshot, facts: [] as Fact[] };
  return {
    get state() {
      return held.snapshot.value as State;
    },
    get context() {
      return held.snapshot.context as DeliveryContext;
    },
    facts: held.facts,
    send(message: DeliveryCommand | { type: typeof retry }) {
      ts += 1;
      const { snapshot, actions, timers } = stepper.step(held.snapshot as StoredSnapshot, { ...message, ts });
      held.snapshot = snapshot;
      held.facts.push(...actions.flatMap(({ params }) => (params === undefined ? [] : [params as Fact])));
      return timers;
    },
  };
}

/** The shortest way to a state, one attempt made unless that cannot be. */
const ways: Record<State, (DeliveryCommand | { type: typeof retry })[]> = {
  pending: [],
  sending: [start],
  retrying: [start, failed(1)],
  delivered: [start, delivered(1)],
  dead: [start, ...[1, 2, 3, 4].flatMap((attempt) => [failed(attempt), { type: retry } as const]), failed(5)],
  cancelled: [start, { type: 'CANCEL', reason: 'disabled' }],
};

function at(state: State, change: Partial<DeliveryInput> = {}) {
  const delivery = create(change);
  for (const message of ways[state]) delivery.send(message);
  if (delivery.state !== state) throw new Error(`the way to ${state} ends in ${delivery.state}`);
  return delivery;
}

t.test('every state meets every message', async (t) => {
  // A new message does not compile until it is decided here.
  const table: Record<State, Record<DeliveryCommand['type'] | 'retry', State>> = {
    pending: {
      START: 'sending',
      DELIVERED: 'pending',
      ATTEMPT_FAILED: 'pending',
      REDELIVER: 'pending',
      FORWARD: 'pending',
      CANCEL: 'cancelled',
      retry: 'pending',
    },
    sending: {
      START: 'sending',
      DELIVERED: 'delivered',
      ATTEMPT_FAILED: 'retrying',
      REDELIVER: 'sending',
      FORWARD: 'sending',
      CANCEL: 'cancelled',
      retry: 'sending',
    },
    retrying: {
      START: 'retrying',
      DELIVERED: 'delivered',
      ATTEMPT_FAILED: 'retrying',
      REDELIVER: 'sending',
      FORWARD: 'sending',
      CANCEL: 'cancelled',
      retry: 'sending',
    },
    delivered: {
      START: 'delivered',
      DELIVERED: 'delivered',
      ATTEMPT_FAILED: 'delivered',
      REDELIVER: 'sending',
      FORWARD: 'delivered',
      CANCEL: 'delivered',
      retry: 'delivered',
    },
    dead: {
      START: 'dead',
      DELIVERED: 'delivered',
      ATTEMPT_FAILED: 'dead',
      REDELIVER: 'sending',
      FORWARD: 'dead',
      CANCEL: 'dead',
      retry: 'dead',
    },
    cancelled: {
      START: 'cancelled',
      DELIVERED: 'delivered',
      ATTEMPT_FAILED: 'cancelled',
      REDELIVER: 'sending',
      FORWARD: 'cancelled',
      CANCEL: 'cancelled',
      retry: 'cancelled',
    },
  };
  for (const [from, row] of Object.entries(table) as [State, (typeof table)[State]][]) {
    for (const [name, to] of Object.entries(row)) {
      const delivery = at(from);
      const { attempt } = delivery.context;
      const messages: Record<string, DeliveryCommand | { type: typeof retry }> = {
        START: start,
        DELIVERED: delivered(attempt),
        ATTEMPT_FAILED: failed(attempt),
        REDELIVER: redeliver,
        FORWARD: { type: 'FORWARD' },
        CANCEL: { type: 'CANCEL', reason: 'no_url' },
        retry: { type: retry },
      };
      const message = messages[name];
      if (message) delivery.send(message);
      t.equal(delivery.state, to, `${from} meets ${name}`);
    }
  }
});

t.test('five failures make it dead, after the waits of the schedule', async (t) => {
  const delivery = create();
  delivery.send(start);
  const waits: unknown[] = [];
  for (const attempt of [1, 2, 3, 4]) {
    const timers = delivery.send(failed(attempt));
    waits.push(...timers.flatMap((timer) => ('set' in timer ? [timer.delayMs] : [])));
    delivery.send({ type: retry });
  }
  delivery.send(failed(5));
  t.equal(delivery.state, 'dead');
  t.same(waits, [30_000, 120_000, 600_000, 1_800_000]);
  t.same(
    delivery.facts.map(({ event, attempt }) => `${event} ${attempt}`),
    [
      'webhook_dispatched 1',
      'webhook_failed 1',
      'webhook_failed 2',
      'webhook_failed 3',
      'webhook_failed 4',
      'webhook_dead_letter 5',
    ],
  );
});

t.test('a wait is lengthened by up to a tenth, in whole ms, and by what the endpoint asks for', async (t) => {
  const waitOf = (more: { spread?: number; retryAfterMs?: number }) => {
    const [timer] = at('sending').send(failed(1, more));
    return timer && 'set' in timer ? timer.delayMs : undefined;
  };
  t.equal(waitOf({ spread: 0.123_45 }), 30_370);
  t.equal(waitOf({ spread: 0.999_99 }), 32_999);
  t.equal(waitOf({ retryAfterMs: 40_000 }), 40_000, 'longer is followed');
  t.equal(waitOf({ retryAfterMs: 10 }), 30_000, 'shorter is not');
});

t.test('sent again by hand it gets one attempt, with the next number', async (t) => {
  const delivery = at('dead');
  delivery.send(redeliver);
  t.equal(delivery.context.attempt, 6);
  delivery.send(failed(6));
  t.equal(delivery.state, 'dead');
  t.equal(delivery.facts.at(-1)?.event, 'webhook_dead_letter');
  delivery.send(redeliver);
  delivery.send(delivered(7));
  t.equal(delivery.state, 'delivered');
});

t.test('an attempt brought forward is one of the schedule', async (t) => {
  const delivery = at('retrying');
  delivery.send(redeliver);
  t.equal(delivery.context.attempt, 2);
  delivery.send(failed(2));
  t.equal(delivery.state, 'retrying');
});

t.test('a result of another attempt changes nothing', async (t) => {
  const delivery = at('retrying');
  delivery.send({ type: retry });
  delivery.send(failed(1));
  delivery.send(delivered(1));
  delivery.send(failed(3));
  t.equal(delivery.state, 'sending');
  t.equal(delivery.context.made, 1);
});

t.test('a repeated bulk request sends one thing once', async (t) => {
  const delivery = at('dead');
  delivery.send({ type: 'REDELIVER', isAnnounced: true, made: 5 });
  delivery.send(failed(6));
  delivery.send({ type: 'REDELIVER', isAnnounced: true, made: 5 });
  t.equal(delivery.state, 'dead');
});

t.test('disabling ends what nobody asked for, a missing URL ends everything', async (t) => {
  const forced = at('sending', { isForced: true });
  forced.send({ type: 'CANCEL', reason: 'disabled' });
  t.equal(forced.state, 'sending');
  forced.send({ type: 'CANCEL', reason: 'no_url' });
  t.equal(forced.state, 'cancelled');
  const byOperator = at('sending', { isForced: true });
  byOperator.send({ type: 'CANCEL', reason: 'operator' });
  t.equal(byOperator.state, 'cancelled');
});

t.test('what is made while webhooks are disabled leaves no facts', async (t) => {
  const delivery = at('dead', { isAnnounced: false });
  t.same(delivery.facts, []);
});

t.test('random walks agree with a model', async () => {
  type Model = { state: State; made: number; isLast: boolean };
  const end = (model: Model, state: State): Model => ({ ...model, state, made: model.made + 1 });
  const step = (model: Model, name: string): Model => {
    const { state, made, isLast } = model;
    switch (`${state} ${name}`) {
      case 'pending start':
        return { ...model, state: 'sending' };
      case 'sending fail':
        return end(model, isLast || made + 1 >= webhook.maxAttempts ? 'dead' : 'retrying');
      case 'sending succeed':
        return end(model, 'delivered');
      case 'retrying retry':
      case 'retrying redeliver':
      case 'retrying forward':
        return { ...model, state: 'sending' };
      case 'delivered redeliver':
      case 'dead redeliver':
      case 'cancelled redeliver':
        return { ...model, state: 'sending', isLast: true };
      case 'pending cancel':
      case 'sending cancel':
      case 'retrying cancel':
        return { ...model, state: 'cancelled' };
      default:
        return model;
    }
  };
  const names = ['start', 'fail', 'succeed', 'retry', 'redeliver', 'forward', 'cancel'] as const;
  const messages: Record<
    (typeof names)[number],
    (attempt: number) => DeliveryCommand | { type: typeof retry }
  > = {
    start: () => start,
    fail: (attempt) => failed(attempt),
    succeed: (attempt) => delivered(attempt),
    retry: () => ({ type: retry }),
    redeliver: () => redeliver,
    forward: () => ({ type: 'FORWARD' }),
    cancel: () => ({ type: 'CANCEL', reason: 'no_url' }),
  };
  const walk = fc.array(fc.constantFrom(...names), { maxLength: 40 });
  fc.assert(
    fc.property(walk, (steps) => {
      const delivery = create();
      let model: Model = { state: 'pending', made: 0, isLast: false };
      for (const name of ['start' as const, ...steps]) {
        // A result belongs to the attempt being made: late ones have a test of their own.
        const isAnswer = name === 'fail' || name === 'succeed';
        if (isAnswer && delivery.state !== 'sending') continue;
        delivery.send(messages[name](delivery.context.attempt));
        model = step(model, name);
        const { made, attempt } = delivery.context;
        if (delivery.state !== model.state || made !== model.made) {
          throw new Error(`${name}: ${delivery.state} ${made}, the model says ${model.state} ${model.made}`);
        }
        if (delivery.state === 'sending' && attempt !== made + 1)
          throw new Error(`attempt ${attempt} of ${made}`);
      }
      const outcomes = delivery.facts.filter(({ event }) => event !== 'webhook_dispatched');
      return outcomes.length === delivery.context.made;
    }),
    { numRuns: 2_000 },
  );
});
