/**
 * What an operator may do to a machine: always a message to it, which it takes or passes over by its own rules. Each
 * names the run, attempt or round that it is meant for, so that one that comes twice, or late, does nothing.
 *
 * A retry of a run that has ended is the next run of the asset (a run has one end). It is not counted against the
 * quota: its hold stays the one of the run before.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { AssetContext } from '../../machines/asset.ts';
import type { DeliveryContext } from '../../machines/delivery.ts';
import type { ErrorCode } from '../../schemas/errors.ts';
import type {
  MachineAction,
  MachineKind,
  PossibleAction,
  RetryStage,
} from '../../schemas/operator-console.ts';
import type { Bus } from '../bus/bus.ts';
import type { ActorDocument } from '../store/actors.ts';
import type { Author } from '../store/audit.ts';
import type { Store } from '../store/client.ts';
import { isRetrying, type StateTable } from './states.ts';

export type AskedAction = {
  action: MachineAction;
  from?: RetryStage | undefined;
  reason?: string | undefined;
  errorCode?: ErrorCode | undefined;
};

type Message = { type: string } & Record<string, unknown>;
/** `unique` names what the message is meant for: the same action for the same has the same id. */
type Planned = { message: Message; unique: string };

export type Actions = ReturnType<typeof createActions>;

export type Acted = { outcome: 'told' } | { outcome: 'refused'; why: string };

/** How long an answer waits for its message to be applied: it is then seen by the next read. */
const appliedWithinMs = 1_000;
const lookMs = 20;

export function createActions({
  store,
  bus,
  now,
  table,
}: {
  store: Pick<Store, 'operatorViews' | 'audit' | 'webhooks'>;
  bus: Pick<Bus, 'publish' | 'subjects'>;
  now(): number;
  table: StateTable;
}) {
  const { operatorViews: views, audit, webhooks } = store;
  const isActive = (kind: MachineKind, state: string) => table[kind].get(state)?.ms !== undefined;

  /** The message for a machine as it is, or why there is none. */
  const plan = async (
    kind: MachineKind,
    document: ActorDocument,
    asked: AskedAction,
    requestId: string,
  ): Promise<Planned | string> => {
    if (kind === 'asset') return planAsset(document, asked, isActive(kind, document.state), requestId);
    const webhook = asked.action === 'redeliver' ? await webhooks.find(document.project) : undefined;
    return planDelivery(document, asked, isActive(kind, document.state), webhook);
  };

  const outgoing = (kind: MachineKind, { _id: id, project }: ActorDocument, planned: Planned, job = '') => ({
    subject: bus.subjects.command(project, kind, id),
    id: `${id}:operator:${planned.message.type}:${planned.unique}${job}`,
    body: planned.message,
  });

  const untilApplied = async (kind: MachineKind, { _id, version }: ActorDocument): Promise<void> => {
    const givenUpAt = performance.now() + appliedWithinMs;
    while (performance.now() < givenUpAt) {
      if ((await views.find(kind, _id))?.version !== version) return;
      await delay(lookMs);
    }
  };

  return {
    plan,
    outgoing,

    /** Tells one machine, and the audit first: what was asked for is recorded whatever comes of it. */
    async act(
      kind: MachineKind,
      document: ActorDocument,
      asked: AskedAction,
      author: Author,
    ): Promise<Acted> {
      const planned = await plan(kind, document, asked, author.requestId ?? '');
      if (typeof planned === 'string') return { outcome: 'refused', why: planned };
      const { state, version } = document;
      const { type } = planned.message;
      const { from, reason, errorCode } = asked;
      await audit.insert({
        ...author,
        ts: now(),
        action: `machine.${asked.action}`,
        userId: null,
        target: document._id,
        before: { kind, state, version },
        after: { message: type, ...withoutNothing({ from, reason, errorCode }) },
      });
      await bus.publish(outgoing(kind, document, planned, `:${author.requestId}`));
      await untilApplied(kind, document);
      return { outcome: 'told' };
    },

    /** What may be done to it now, with what that will do. */
    async possible(kind: MachineKind, document: ActorDocument): Promise<PossibleAction[]> {
      const all = kind === 'asset' ? assetActions : deliveryActions;
      return Promise.all(
        all.map(async (asked) => {
          const planned = await plan(kind, document, { ...asked, reason: '…' }, '');
          const isPossible = typeof planned !== 'string';
          const will = isPossible ? effectOf(kind, asked, document.state) : planned;
          return { action: asked.action, from: asked.from ?? null, is_possible: isPossible, will };
        }),
      );
    },
  };
}

const assetActions: AskedAction[] = [
  { action: 'retry' },
  { action: 'retry_from', from: 'source' },
  { action: 'retry_from', from: 'clip' },
  { action: 'cancel' },
  { action: 'fail' },
];
const deliveryActions: AskedAction[] = [{ action: 'retry' }, { action: 'redeliver' }, { action: 'cancel' }];

function withoutNothing(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

// ── Assets ──────────────────────────────────────────────────────────────────────────────────────

function planAsset(
  document: ActorDocument,
  asked: AskedAction,
  isActive: boolean,
  requestId: string,
): Planned | string {
  const { state } = document;
  if ('erasure' in document || state === 'erased') return 'its owner has erased it';
  switch (asked.action) {
    case 'retry':
      if (isActive) return hurry(document);
      return state === 'ready'
        ? 'it is ready: there is nothing to retry'
        : nextRun(document, false, requestId);
    case 'retry_from':
      return retryFrom(document, asked, requestId);
    case 'cancel':
    case 'fail':
      return isActive ? endRun(document, asked) : `it is ${state}: nothing is under way`;
    case 'redeliver':
      return 'only deliveries are sent again';
  }
}

function retryFrom(document: ActorDocument, { from }: AskedAction, requestId: string): Planned | string {
  const { vision } = document.machine.context as AssetContext;
  if (document.state === 'ready') return 'it is ready: its owner may regenerate it';
  if (from === 'clip' && vision === null) return 'nothing has described its source yet';
  return nextRun(document, from === 'clip', requestId);
}

function endRun({ machine }: ActorDocument, { action, reason, errorCode }: AskedAction): Planned {
  const { run } = machine.context as AssetContext;
  const unique = `${run}`;
  if (action === 'cancel') return { message: { type: 'CANCEL', run }, unique };
  const code = errorCode ?? 'pipeline_stalled';
  return { message: { type: 'FAIL', run, code, reason: reason ?? '' }, unique };
}

/** The attempt that waits begins; one that is under way is asked for again, which doubles nothing. */
function hurry({ state, version, machine }: ActorDocument): Planned {
  if (state === 'new') return { message: { type: 'START' }, unique: `${version}` };
  const { run, stage, attempt } = machine.context as AssetContext;
  if (!isRetrying(state)) return { message: { type: 'RECONCILE' }, unique: `${version}` };
  return { message: { type: 'HURRY', run, stage, attempt }, unique: `${run}:${stage}:${attempt}` };
}

function nextRun({ machine }: ActorDocument, keepsVision: boolean, requestId: string): Planned {
  const { run, options, plan, holdId, requestId: before } = machine.context as AssetContext;
  return {
    message: {
      type: 'REGENERATE',
      run: run + 1,
      requestId: requestId || before,
      options,
      plan,
      holdId,
      ...(keepsVision ? { keepsVision } : {}),
    },
    unique: `${run + 1}`,
  };
}

// ── Deliveries ──────────────────────────────────────────────────────────────────────────────────

function planDelivery(
  { state, machine }: ActorDocument,
  { action }: AskedAction,
  isActive: boolean,
  webhook: { url: string | null; isEnabled: boolean } | undefined,
): Planned | string {
  const { made } = machine.context as DeliveryContext;
  switch (action) {
    case 'retry':
      if (state === 'retrying') return { message: { type: 'FORWARD' }, unique: `${made}` };
      return isActive ? 'it is being sent' : `it is ${state}: it may be sent again`;
    case 'cancel':
      if (!isActive) return `it is ${state}: nothing is under way`;
      return { message: { type: 'CANCEL', reason: 'operator' }, unique: `${made}` };
    case 'redeliver':
      if (isActive) return `it is ${state}: it is going to be sent anyway`;
      if (!webhook?.url) return 'its project has no endpoint';
      return { message: { type: 'REDELIVER', isAnnounced: webhook.isEnabled, made }, unique: `${made}` };
    case 'retry_from':
    case 'fail':
      return 'only assets have that';
  }
}

// ── In words ────────────────────────────────────────────────────────────────────────────────────

/** What an action does, for who is about to take it. */
export function effectOf(
  kind: MachineKind,
  { action, from }: Pick<AskedAction, 'action' | 'from'>,
  state?: string,
): string {
  switch (action) {
    case 'retry':
      return kind === 'asset' ? retryWords(state) : 'The next attempt is made now instead of at its time.';
    case 'retry_from':
      return from === 'clip'
        ? 'A new run begins that keeps the description of the source and makes everything else anew. A run that is under way is cancelled. Nothing is counted against the quota.'
        : 'A new run begins and makes everything anew. A run that is under way is cancelled. Nothing is counted against the quota.';
    case 'cancel':
      return kind === 'asset'
        ? 'The run ends as cancelled, and its prediction is cancelled at the provider. Its owner is not told by webhook.'
        : 'Nothing is sent any more, unless it is sent again by hand.';
    case 'fail':
      return 'The run ends as failed with your words, which its owner reads. Its prediction is cancelled at the provider, and webhooks are sent.';
    case 'redeliver':
      return 'One more attempt is made at once, with the same webhook-id. Failing makes it dead again.';
  }
}

function retryWords(state: string | undefined): string {
  if (state === undefined)
    return 'What waits for its next attempt goes on at once, what is under way is asked for again, and what has ended begins a new run that is not counted.';
  if (state === 'new') return 'Its first message is sent again.';
  if (isRetrying(state)) return 'The attempt that waits begins now instead of at its time.';
  if (state.startsWith('pending.'))
    return 'Its work is asked for again. Nothing that is under way is doubled, and no prediction is paid twice.';
  return 'A new run begins and makes everything anew. Nothing is counted against the quota.';
}
