/**
 * Counts and traces the work of a worker from outside: each function takes a part of it and answers one that does the
 * same and is watched.
 */
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import { EffectError } from '../../schemas/errors.ts';
import type { BatchReport } from '../actors/owner.ts';
import type { Sending } from '../actors/sender.ts';
import type { Slots } from '../actors/slots.ts';
import type { AttemptResult } from '../effects/deliver.ts';
import type { EffectContext } from '../effects/deps.ts';
import type { ActorDocument } from '../store/actors.ts';
import { spanIdOf } from '../tracing/ids.ts';
import type { Tracer } from '../tracing/tracer.ts';
import type { Instruments } from './instruments.ts';

export type Watching = { instruments: Instruments; tracer: Tracer | undefined };

const msPerSecond = 1_000;
const secondsSince = (startedAt: number): number => (performance.now() - startedAt) / msPerSecond;

/** For the owner of partitions. */
export function watchSteps({ instruments, tracer }: Watching) {
  const { steps, stepLatency, batchSize, batchDuration, transitions, stateDuration } = instruments;
  return {
    onBatch({ commands, steps: count, ms, arrivedAt, committedAt }: BatchReport): void {
      steps.add(count);
      batchSize.observe(commands);
      batchDuration.observe(ms / msPerSecond);
      for (const at of arrivedAt) stepLatency.observe((committedAt - at) / msPerSecond);
    },

    onStepped(kind: string, before: ActorDocument, next: ActorDocument): void {
      if (before.state === next.state && next.enteredTs === before.enteredTs) return;
      transitions.of(kind, next.state).add();
      stateDuration.of(kind, before.state).observe((next.enteredTs - before.enteredTs) / msPerSecond);
      if (kind === 'asset') countEnd(next, instruments);
      if (tracer) traceState(kind, before, next, tracer);
    },
  };
}

const ends = new Set(['ready', 'failed', 'cancelled']);

function countEnd({ state, machine }: ActorDocument, { runsEnded }: Instruments): void {
  if (!ends.has(state)) return;
  const { error } = machine.context as { error?: { code: string } | null };
  runsEnded.of(state, state === 'failed' ? (error?.code ?? '') : '').add();
}

/** A state is told of when it is left: from then on it has a length. */
function traceState(kind: string, before: ActorDocument, next: ActorDocument, tracer: Tracer): void {
  const { requestId } = before.machine.context as { requestId?: string };
  if (requestId === undefined) return;
  tracer.work({
    requestId,
    spanId: spanIdOf(before._id, next.version),
    name: `${kind} ${before.state}`,
    kind: 'internal',
    startTs: before.enteredTs,
    endTs: next.enteredTs,
    attributes: { 'actor.id': before._id, 'actor.project': before.project, 'actor.next_state': next.state },
  });
}

type AnyEffect = {
  run(params: never, context: EffectContext): Promise<AssetMessage | undefined>;
};

/** Effects by their names. */
export function watchEffects<Effects extends Record<string, AnyEffect>>(
  effects: Effects,
  watching: Watching,
): Effects {
  const watched = Object.entries(effects).map(([name, effect]) => [
    name,
    {
      ...effect,
      run: (params: never, context: EffectContext) => runWatched(name, effect, params, context, watching),
    },
  ]);
  return Object.fromEntries(watched) as Effects;
}

type Job = { provider: string } | null | undefined;

async function runWatched(
  name: string,
  effect: AnyEffect,
  params: never,
  context: EffectContext,
  { instruments, tracer }: Watching,
): Promise<AssetMessage | undefined> {
  const { id, project, requestId, signal } = context;
  const { run, stage, attempt, job } = params as {
    run?: number;
    stage?: string;
    attempt?: number;
    job?: Job;
  };
  const startedAt = performance.now();
  const spanId = spanIdOf(id, name, run ?? 0, stage ?? '', attempt ?? 0, startedAt);
  const watchedContext = watchCost(context, job, instruments);
  let outcome = 'done';
  let error: string | undefined;
  const span = {
    requestId,
    spanId,
    name: `effect ${name}`,
    kind: 'internal' as const,
    startTs: Date.now(),
    endTs: 0,
    attributes: { 'actor.id': id, 'actor.project': project, run, stage, attempt },
  };
  const work = () => effect.run(params, watchedContext);
  try {
    return await (tracer ? tracer.within(span, work) : work());
  } catch (cause) {
    outcome = signal.aborted ? 'cancelled' : cause instanceof EffectError ? cause.code : 'unexpected';
    error = cause instanceof Error ? cause.message : String(cause);
    throw cause;
  } finally {
    instruments.effects.of(name, outcome).add();
    instruments.effectDuration.of(name).observe(secondsSince(startedAt));
    tracer?.work({ ...span, endTs: Date.now(), error, attributes: { ...span.attributes, outcome } });
  }
}

const microsPerCent = 10_000;

/** What a clip has cost is told by a message to its asset, after one that names the provider. */
function watchCost(context: EffectContext, job: Job, { providerCost }: Instruments): EffectContext {
  let provider = job?.provider ?? '';
  return {
    ...context,
    async send(message) {
      if (message.type === 'SUBMITTED') provider = message.job.provider;
      await context.send(message);
      if (message.type === 'OUTPUT_READY' && message.costMicros !== undefined)
        providerCost.of(provider).add(message.costMicros / microsPerCent);
    },
  };
}

export function watchSlots(slots: Slots, { instruments }: Watching): Slots {
  return {
    ...slots,
    async acquire(request, signal) {
      const startedAt = performance.now();
      const release = await slots.acquire(request, signal);
      instruments.slotWait.of(request.slot).observe(secondsSince(startedAt));
      return release;
    },
  };
}

/** For the sender of webhooks: told of every attempt that counts. */
export function watchAttempts({ instruments, tracer }: Watching) {
  return (sending: Sending, result: AttemptResult, ms: number): void => {
    const outcome = result.type === 'DELIVERED' ? 'delivered' : result.failure;
    instruments.webhookAttempts.of(outcome).add();
    instruments.webhookDuration.observe(ms / msPerSecond);
    const endTs = Date.now();
    tracer?.work({
      requestId: sending.requestId,
      name: 'webhook attempt',
      kind: 'client',
      startTs: endTs - ms,
      endTs,
      attributes: {
        'webhook.delivery': sending.id,
        'webhook.event': sending.eventId,
        'actor.project': sending.project,
        attempt: sending.attempt,
        'http.response.status_code': result.code ?? undefined,
        outcome,
      },
      error: outcome === 'delivered' ? undefined : outcome,
    });
  };
}
