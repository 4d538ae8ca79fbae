/** What the facts of one run of an asset may say, in which order and how soon (I6, I7). */
import { type EventName, isTerminal } from '../../schemas/events.ts';
import type { StoredFact } from '../store/actors.ts';
import { pipelineTimes } from './times.ts';

export type RunNotes = {
  queuedTs: number | undefined;
  end: string | undefined;
  /** By stage: the attempt, since when it is at work, before when it may not be. */
  attempts: Map<string, number>;
  startedTs: Map<string, number>;
  notBefore: Map<string, number>;
  completed: Set<string>;
};

type Wrong = { invariant: string; text: string };

/** Notes a fact that has been stored. Answers what is wrong with it. */
export function checkFact(
  runs: Map<string, RunNotes>,
  id: string,
  fact: StoredFact,
  toleranceMs: number,
): Wrong | undefined {
  const key = `${id}:${fact.run}`;
  const run = runs.get(key) ?? newRun();
  runs.set(key, run);
  const { event } = fact;
  if (run.end !== undefined)
    return {
      invariant: isTerminal(event as EventName) ? 'I7' : 'I6',
      text: `${event} after ${run.end} of run ${fact.run}`,
    };
  if (event !== 'queued' && run.queuedTs === undefined)
    return { invariant: 'I7', text: `${event} before run ${fact.run} was queued` };
  return rules[event]?.(run, fact, toleranceMs);
}

const newRun = (): RunNotes => ({
  queuedTs: undefined,
  end: undefined,
  attempts: new Map(),
  startedTs: new Map(),
  notBefore: new Map(),
  completed: new Set(),
});

type Rule = (run: RunNotes, fact: StoredFact, toleranceMs: number) => Wrong | undefined;

const queued: Rule = (run, { ts }) => {
  const isAgain = run.queuedTs !== undefined;
  run.queuedTs = ts;
  return isAgain ? { invariant: 'I7', text: 'the run is queued twice' } : undefined;
};

const started: Rule = (run, { stage, attempt, ts, event }, toleranceMs) => {
  const name = String(stage);
  run.startedTs.set(name, ts);
  const early = (run.notBefore.get(name) ?? 0) - ts;
  if (early > toleranceMs)
    return { invariant: 'I6', text: `${event} of ${name} comes ${early} ms before its time` };
  return isOfAttempt(run, name, attempt, event);
};

const completed: Rule = (run, { stage, attempt, event }) => {
  const name = String(stage);
  if (run.completed.has(name)) return { invariant: 'I6', text: `${event} of ${name} comes twice` };
  run.completed.add(name);
  return isOfAttempt(run, name, attempt, event);
};

const failed: Rule = (run, { stage, attempt, ts, event, error_code }, toleranceMs) => {
  const name = String(stage);
  const limit = timeLimits[String(error_code)];
  const tooSoon = limit === undefined ? 0 : (run.startedTs.get(name) ?? 0) + limit - ts;
  if (tooSoon > toleranceMs)
    return {
      invariant: 'I6',
      text: `attempt ${attempt} of ${name} is timed out ${tooSoon} ms before its time`,
    };
  return isOfAttempt(run, name, attempt, event);
};

const retried: Rule = (run, { stage, attempt, next_at_ms }) => {
  const name = String(stage);
  const before = run.attempts.get(name) ?? 1;
  run.attempts.set(name, Number(attempt));
  run.notBefore.set(name, Number(next_at_ms));
  // The source is shown as vision, too: vision then begins with its first attempt.
  const isOfVision = name === 'vision' && attempt === 2;
  if (isOfVision || (attempt === before + 1 && before < pipelineTimes.maxAttempts)) return undefined;
  return { invariant: 'I6', text: `attempt ${attempt} of ${name} follows ${before}` };
};

const ended: Rule = (run, { event, ts, error_code }, toleranceMs) => {
  run.end = event;
  const early = (run.queuedTs ?? 0) + pipelineTimes.stallAfterMs - ts;
  if (error_code !== 'pipeline_stalled' || early <= toleranceMs) return undefined;
  return { invariant: 'I6', text: `the run is given up ${early} ms before its time` };
};

const rules: Record<string, Rule> = {
  queued,
  vision_started: started,
  stage_started: started,
  vision_completed: completed,
  stage_completed: completed,
  vision_failed: failed,
  stage_failed: failed,
  retry_scheduled: retried,
  ready: ended,
  failed: ended,
  cancelled: ended,
};

/** Codes that the machine's own timers give: effects of the simulation do not. */
const timeLimits: Record<string, number> = {
  vision_timeout: pipelineTimes.visionTimeoutMs,
  i2v_timeout: pipelineTimes.videoTimeoutMs,
};

/** The source's retries are shown as those of vision. */
function isOfAttempt(run: RunNotes, stage: string, attempt: unknown, event: string): Wrong | undefined {
  const present = run.attempts.get(stage) ?? 1;
  if (stage === 'vision' || attempt === present) return undefined;
  return { invariant: 'I6', text: `${event} of attempt ${attempt} of ${stage} comes in attempt ${present}` };
}
