/**
 * Runs effects: takes work from the queue, waits for a slot, runs it, delivers its answer as a command.
 *
 * Work that was given out before (its worker died, or was silent for too long) is not run: the actor is asked
 * to RESUME, so that the machine, in order and with all it knows, decides what is still wanted. That is what
 * keeps a paid prediction from being submitted twice.
 */
import { EffectError, type ErrorCode } from '../../schemas/errors.ts';
import type { Bus, Log } from '../bus/bus.ts';
import type { WorkItem } from '../bus/work.ts';
import { type Clock, every, sleep } from './clock.ts';
import type { Slots } from './slots.ts';

export type EffectMessage = { type: string } & Record<string, unknown>;

/** What every effect gets beside its parameters. */
export type EffectContext = {
  id: string;
  project: string;
  plan: string;
  requestId: string;
  /** Aborted when the run is cancelled or the process stops. */
  signal: AbortSignal;
  /** Whether it was aborted because the run has ended: what was begun outside is then to be cancelled there. */
  hasEnded(): boolean;
  /** Delivers a message to the actor and waits until it is stored for good. */
  send(message: EffectMessage): Promise<void>;
};

export type Effect = {
  /** Class of slots it needs: see slots.ts. */
  slot: string;
  /** How many of a project may run at once. */
  perProject(plan: string): number;
  /** Error code of a failure that is no EffectError. */
  errorCode: ErrorCode;
  /** Answers the last message for the actor, or nothing. */
  run(params: never, context: EffectContext): Promise<EffectMessage | undefined>;
};

export type WorkerPorts = {
  effects: Readonly<Record<string, Effect>>;
  bus: Pick<Bus, 'publish' | 'takeWork' | 'onFacts' | 'subjects'>;
  slots: Slots;
  clock: Clock;
  log: Log;
};

export type WorkerStats = { held: number; done: number; failed: number; resumed: number };

export type Worker = { stats(): WorkerStats; stop(): Promise<void> };

/** Items of one effect that a worker holds, running or waiting for a slot: fairness sees that far. */
const heldPerEffect = 2_048;
const keepMs = 1_000;
const stopMs = 5_000;
/** Facts that end a run: what still runs for it is of no use. */
const endings = ['cancelled', 'failed'];

type WorkRef = { run?: number; stage?: string; attempt?: number };
type Body = {
  kind: string;
  id: string;
  project: string;
  plan: string;
  since: number;
  requestId: string;
  effect: string;
  params: WorkRef & Record<string, unknown>;
};
type Running = {
  item: WorkItem;
  body: Body;
  abort: AbortController;
  /** Prediction that this work follows, once it is known. */
  jobId: string | undefined;
};

export async function startWorker({ effects, bus, slots, clock, log }: WorkerPorts): Promise<Worker> {
  const held = new Map<string, Running>();
  const stats = { done: 0, failed: 0, resumed: 0 };
  let stopped = false;

  const deliver = async ({ kind, project, id, params }: Body, message: EffectMessage): Promise<void> => {
    const outgoing = {
      subject: bus.subjects.command(project, kind, id),
      id: `${id}:${params.run}:${params.stage}:${params.attempt}:${message.type}:${identity(message)}`,
      body: message,
    };
    // The answer of finished, perhaps paid, work is not given up while this process lives.
    for (let waitMs = 100; ; waitMs = Math.min(5_000, waitMs * 2)) {
      try {
        await bus.publish(outgoing);
        return;
      } catch (err) {
        log.warn({ err, asset: id, message: message.type }, 'effect: answer not stored yet, trying again');
        if (stopped) throw err;
        await sleep(clock, waitMs);
      }
    }
  };

  const resume = async (body: Body, item: WorkItem): Promise<void> => {
    const { run, stage, attempt } = body.params;
    stats.resumed += 1;
    await bus.publish({
      subject: bus.subjects.command(body.project, body.kind, body.id),
      id: `${body.id}:${run}:${stage}:${attempt}:RESUME:${body.effect}:${clock.now()}`,
      body: { type: 'RESUME', run, stage, attempt },
    });
    await item.done();
  };

  const onWork = (item: WorkItem): void => {
    const body = item.body as Body;
    handle(item, body).catch((err: unknown) => {
      log.error({ err, asset: body.id, effect: body.effect }, 'effect: could not be finished');
      item.back();
    });
  };

  const handle = async (item: WorkItem, body: Body): Promise<void> => {
    if (stopped) return item.back();
    const effect = effects[body.effect];
    const key = workKey(body, item);
    const earlier = held.get(key);
    if (earlier) return join(earlier, item);
    // Work of an unknown name belongs to another version of this program.
    if (!effect) return item.back();
    const isAnswered = body.params.stage !== undefined;
    if (item.deliveries > 1 && isAnswered) return resume(body, item);

    const running = { item, body, abort: new AbortController(), jobId: jobIdOf(body.params) };
    held.set(key, running);
    try {
      await runOne(effect, running);
    } finally {
      held.delete(key);
    }
  };

  const runOne = async (effect: Effect, running: Running): Promise<void> => {
    const { body } = running;
    const { signal } = running.abort;
    const startedAt = clock.monotonic();
    let release: (() => void) | undefined;
    let outcome = 'done';
    try {
      release = await slots.acquire(
        {
          slot: effect.slot,
          project: body.project,
          perProject: effect.perProject(body.plan),
          since: body.since,
          id: body.id,
          effect: body.effect,
        },
        signal,
      );
      const { id, project, plan, requestId } = body;
      const context = {
        id,
        project,
        plan,
        requestId,
        signal,
        hasEnded: () => signal.aborted && signal.reason === endReason,
        send(message: EffectMessage) {
          running.jobId = jobIdOf(message) ?? running.jobId;
          return deliver(body, message);
        },
      };
      const answer = await effect.run(body.params as never, context);
      if (answer) await deliver(body, answer);
      stats.done += 1;
    } catch (cause) {
      outcome = await settleFailure(cause, effect, running);
    } finally {
      release?.();
    }
    if (outcome === 'interrupted') running.item.back();
    else await running.item.done();
    log.info(
      {
        asset: body.id,
        requestId: body.requestId,
        effect: body.effect,
        run: body.params.run,
        stage: body.params.stage,
        attempt: body.params.attempt,
        outcome,
        ms: Math.round(clock.monotonic() - startedAt),
      },
      'effect',
    );
  };

  const settleFailure = async (
    cause: unknown,
    effect: Effect,
    { body, abort: { signal }, jobId }: Running,
  ): Promise<string> => {
    // Interrupted by the stop of this process: somebody else goes on. By the end of the run: nobody needs it.
    if (signal.aborted) return signal.reason === stopReason ? 'interrupted' : 'cancelled';
    stats.failed += 1;
    const failure =
      cause instanceof EffectError
        ? cause
        : new EffectError(effect.errorCode, `${body.effect} failed unexpectedly`, {
            retry: 'transient',
            cause,
          });
    log.warn({ err: failure, asset: body.id, effect: body.effect, code: failure.code }, 'effect failed');
    if (body.params.stage !== undefined) await deliver(body, failureMessage(failure, body.params, jobId));
    return 'failed';
  };

  const onEnding = (fact: unknown) => {
    const { asset_id, run } = fact as { asset_id: string; run: number };
    for (const { body, abort } of held.values()) {
      if (body.id === asset_id && body.params.stage !== undefined && (body.params.run ?? 0) <= run)
        abort.abort(endReason);
    }
  };
  const subscriptions = endings.map((event) => bus.onFacts('*', '*', event, onEnding));
  const takers = await Promise.all(
    Object.keys(effects).map((effect) => bus.takeWork(effect, heldPerEffect, onWork)),
  );
  const keeping = every(
    clock,
    keepMs,
    async () => {
      for (const { item } of held.values()) item.keep();
    },
    (err) => log.error({ err }, 'effect: keeping work failed'),
  );

  return {
    stats: () => ({ ...stats, held: held.size }),
    async stop() {
      stopped = true;
      for (const subscription of subscriptions) subscription.stop();
      // Before anything is waited for: an answer that cannot be delivered any more is no failure of its work.
      for (const { abort } of held.values()) abort.abort(stopReason);
      await Promise.all(takers.map((taker) => taker.stop()));
      const givenUpAt = clock.monotonic() + stopMs;
      while (held.size > 0 && clock.monotonic() < givenUpAt) await sleep(clock, 20);
      await keeping.stop();
    },
  };
}

/** The same work has come here again while it runs. */
async function join(earlier: Running, item: WorkItem): Promise<void> {
  if (earlier.item.seq !== item.seq) return item.done();
  earlier.item.forget();
  earlier.item = item;
}

const stopReason = new Error('the worker stops');
const endReason = new Error('the run has ended');

/** One key for work that is asked for again; what has no answer may be there twice with other parameters. */
function workKey({ id, effect, params: { run, stage, attempt } }: Body, { seq }: WorkItem): string {
  return stage === undefined ? `${id}:${effect}:#${seq}` : `${id}:${effect}:${run}:${stage}:${attempt}`;
}

function jobIdOf({ job }: Record<string, unknown>): string | undefined {
  return (job as { id?: string } | null | undefined)?.id;
}

/** Tells messages of one attempt and type apart where they may differ: two predictions of one submit. */
function identity(message: EffectMessage): string {
  return jobIdOf(message) ?? String(message.jobId ?? '');
}

/** @param jobId prediction that has failed: the machine passes over one that it does not follow. */
function failureMessage(
  failure: EffectError,
  { run, stage, attempt }: WorkRef,
  jobId: string | undefined,
): EffectMessage {
  return {
    type: 'WORK_FAILED',
    run,
    stage,
    attempt,
    code: failure.code,
    retry: failure.retry,
    reason: failure.message,
    ...(jobId === undefined ? {} : { jobId }),
    ...(failure.isResumable ? { isResumable: true } : {}),
    ...(failure.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
    ...(failure.hint === undefined ? {} : { hint: failure.hint }),
  };
}
