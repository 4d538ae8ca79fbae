/**
 * A webhook delivery: one event on its way to one endpoint, attempt by attempt.
 *
 *   pending ──START──▶ sending ──DELIVERED──────▶ delivered
 *                       ▲   ├────ATTEMPT_FAILED─▶ retrying    attempts left
 *                       │   └────ATTEMPT_FAILED─▶ dead        none left, or sent again by hand
 *                       ├─ retryDelay, REDELIVER, FORWARD ─ retrying
 *                       └─ REDELIVER ─ delivered, dead, cancelled
 *
 *   CANCEL leads from pending, sending and retrying to cancelled.
 *
 * The state `sending` is itself the order to send: the sender (src/actors/sender.ts) works off what is in it.
 * Waiting there for a turn at the endpoint is no attempt.
 */
import { assign, setup } from 'xstate';
import type { DeliveryInput, DeliveryMessage } from '../schemas/delivery-messages.ts';
import type { AssetEvent, DeliveryFailure } from '../schemas/events.ts';
import { webhook } from '../schemas/limits.ts';
import { declare } from './declare.ts';
import { delayBefore } from './retry.ts';

/** Version of the stored snapshot's shape; migrations lead from each to the next (architecture 3). */
export const deliveryMachineVersion = 1;

/** What an operator may change (decisions 10). All processes must agree on it. */
export type DeliveryTimes = { maxAttempts: number; scheduleMs: readonly number[] };

export type DeliveryContext = DeliveryInput & {
  /** Attempts that ended. */
  made: number;
  /** 1-based: the attempt being made or last made (decisions 6). */
  attempt: number;
  /** Sent again by hand after its end: it gets this one attempt. */
  isLast: boolean;
  code: number | null;
  preview: string | null;
  failure: DeliveryFailure | null;
  delayMs: number;
  deliveredTs: number | null;
};

/** What `record` notes: a fact's fields but for ts and the ids of project and delivery. */
type RecordedFact = Pick<AssetEvent, 'attempt' | 'request_id' | 'asset_id' | 'run'> & {
  event: 'webhook_dispatched' | 'webhook_delivered' | 'webhook_failed' | 'webhook_dead_letter';
  event_id: string;
  event_type: string;
  response_code: number | null;
  failure?: DeliveryFailure;
  delayMs?: number;
};

type Args = { context: DeliveryContext; event: DeliveryMessage };

/** Makes the machine with the times of this installation. */
export function createDeliveryMachine(times: DeliveryTimes = webhook) {
  return setup({
    types: { input: {} as DeliveryInput, context: {} as DeliveryContext, events: {} as DeliveryMessage },
    actions: {
      record: declare<RecordedFact | undefined>(),
      beginAttempt: assign(({ context }) => ({ attempt: context.made + 1 })),
      noteRequest: assign(({ context, event }) =>
        event.type === 'REDELIVER'
          ? { isForced: true, isAnnounced: event.isAnnounced }
          : { isForced: context.isForced },
      ),
      makeLast: assign({ isLast: true, delayMs: 0 }),
      noteSuccess: assign(({ context, event }) =>
        event.type === 'DELIVERED'
          ? {
              made: context.attempt,
              code: event.code,
              preview: event.preview,
              failure: null,
              deliveredTs: event.ts,
            }
          : {},
      ),
      noteFailure: assign(({ context, event }) =>
        event.type === 'ATTEMPT_FAILED'
          ? {
              made: context.attempt,
              code: event.code,
              preview: event.preview,
              failure: event.failure,
              delayMs: waitAfter(context.attempt, event, times),
            }
          : {},
      ),
    },
    guards: {
      isCurrent: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
      mayRetry: ({ context, event }) =>
        event.type === 'ATTEMPT_FAILED' &&
        event.attempt === context.attempt &&
        !context.isLast &&
        context.attempt < times.maxAttempts,
      isWanted: ({ context, event }) =>
        event.type === 'REDELIVER' && (event.made === undefined || event.made === context.made),
      isToCancel: ({ context, event }) =>
        event.type === 'CANCEL' && (event.reason !== 'disabled' || !context.isForced),
    },
    delays: { retryDelay: ({ context }) => context.delayMs },
  }).createMachine({
    id: 'delivery',
    context: ({ input }) => ({
      ...input,
      made: 0,
      attempt: 1,
      isLast: false,
      code: null,
      preview: null,
      failure: null,
      delayMs: 0,
      deliveredTs: null,
    }),
    initial: 'pending',
    states: {
      pending: {
        on: {
          START: { target: 'sending', actions: note('webhook_dispatched') },
          CANCEL: cancelling,
        },
      },
      sending: {
        entry: 'beginAttempt',
        on: {
          DELIVERED: succeeding,
          ATTEMPT_FAILED: [
            {
              guard: 'mayRetry',
              target: 'retrying',
              actions: ['noteFailure', note('webhook_failed', whenNext)],
            },
            { guard: 'isCurrent', target: 'dead', actions: ['noteFailure', note('webhook_dead_letter')] },
          ],
          // It waits for its turn or is being sent: nothing is sent twice (decisions 6, Redeliver).
          REDELIVER: { guard: 'isWanted', actions: 'noteRequest' },
          CANCEL: cancelling,
        },
      },
      retrying: {
        after: { retryDelay: 'sending' },
        on: {
          // Another sender's attempt of the same number, lost and found.
          DELIVERED: succeeding,
          REDELIVER: { guard: 'isWanted', target: 'sending', actions: 'noteRequest' },
          FORWARD: 'sending',
          CANCEL: cancelling,
        },
      },
      delivered: { on: { REDELIVER: again } },
      dead: { on: { DELIVERED: succeeding, REDELIVER: again } },
      cancelled: { on: { DELIVERED: succeeding, REDELIVER: again } },
    },
  });
}

const cancelling = { guard: 'isToCancel' as const, target: 'cancelled' as const };

/** A 2xx is one whatever else has happened meanwhile: the receiver has the event. */
const succeeding = {
  guard: 'isCurrent' as const,
  target: 'delivered' as const,
  actions: ['noteSuccess' as const, note('webhook_delivered')],
};

const again = {
  guard: 'isWanted' as const,
  target: 'sending' as const,
  actions: ['noteRequest' as const, 'makeLast' as const, note('webhook_dispatched', nextAttempt)],
};

type Fields = (context: DeliveryContext) => Partial<RecordedFact>;

/** Nothing is noted of a delivery that was made while webhooks were disabled (specification 6). */
function note(event: RecordedFact['event'], fields: Fields = () => ({})) {
  return {
    type: 'record' as const,
    params: ({ context }: Args): RecordedFact | undefined =>
      context.isAnnounced ? { ...factOf(event, context), ...fields(context) } : undefined,
  };
}

function factOf(event: RecordedFact['event'], context: DeliveryContext): RecordedFact {
  const isBegin = event === 'webhook_dispatched';
  return {
    event,
    run: context.run,
    request_id: context.requestId,
    asset_id: context.assetId ?? '',
    attempt: context.attempt,
    event_id: context.eventId,
    event_type: context.eventType,
    response_code: isBegin ? null : context.code,
    ...(isBegin || context.failure === null ? {} : { failure: context.failure }),
  };
}

function whenNext({ delayMs }: DeliveryContext) {
  return { delayMs };
}

function nextAttempt({ made }: DeliveryContext) {
  return { attempt: made + 1 };
}

/** Whole ms: the schedule's wait, lengthened, or what the endpoint asked for when that is longer. */
function waitAfter(
  attempt: number,
  { spread, retryAfterMs = 0 }: { spread: number; retryAfterMs?: number | undefined },
  { scheduleMs }: DeliveryTimes,
): number {
  const planned = delayBefore(attempt, scheduleMs);
  const added = planned * spread * webhook.maxLengthening;
  const lengthened = planned + added - (added % 1);
  return retryAfterMs > lengthened ? retryAfterMs : lengthened;
}
