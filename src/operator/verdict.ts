/**
 * How the service is doing, by rules: is what is known fresh, does work move, does what starts succeed. What is not
 * known is said to be unknown, and no advice is given then.
 */
import { operator as limits } from '../../schemas/limits.ts';
import type { HealthVerdict, Verdict } from '../../schemas/operator-console.ts';

/** What the verdict is made of. Times are unix ms. */
export type Signs = {
  now: number;
  isBusConnected: boolean;
  /** When the counts were taken. */
  countedTs: number;
  /** Workers that were heard just now, and how long this process has listened for them. */
  workers: number;
  listenedMs: number;
  active: number;
  stuck: number;
  /** Of what is under way: what waits for the time of its next attempt. */
  waitingForRetry: number;
  /** Deliveries that wait longer than expected because endpoints of customers fail or are slow, and how many do. */
  waitingForEndpoints: number;
  endpoints: number;
  /** When anything last entered a state; 0 when nothing ever did. */
  movedTs: number;
  /** How old the oldest of those is that wait for a worker, in ms. */
  oldestWaitMs: number;
  /** What has ended in the last quarter of an hour. */
  ready: number;
  failed: number;
  /** The commonest error among the failed. */
  commonError: string | undefined;
  delivered: number;
  dead: number;
  /** Endpoints at which these were given up. */
  deadEndpoints: number;
  failingProviders: readonly string[];
};

type Answer = { verdict: Verdict; text: string };

/** Counts are taken every two seconds while somebody looks; older ones are no telemetry. */
const staleMs = 10_000;
/** Nothing has entered any state for so long while something is under way. */
const stillMs = 60_000;

export function judge(signs: Signs): HealthVerdict {
  const fresh = judgeFreshness(signs);
  const unknown: Answer = { verdict: 'unknown', text: 'Not known: the telemetry is not fresh.' };
  const isFresh = fresh.verdict === 'ok';
  const moving = isFresh ? judgeMovement(signs) : unknown;
  const succeeding = isFresh ? judgeSuccess(signs) : unknown;
  return { ...sumUp(fresh, moving, succeeding), moving, succeeding, fresh };
}

function sumUp(fresh: Answer, moving: Answer, succeeding: Answer): Answer {
  if (fresh.verdict !== 'ok') return { verdict: 'unknown', text: fresh.text };
  const troubles = [moving, succeeding].filter(({ verdict }) => verdict === 'trouble');
  if (troubles.length > 0) return { verdict: 'trouble', text: troubles.map(({ text }) => text).join(' ') };
  return { verdict: 'ok', text: `${moving.text} ${succeeding.text}` };
}

function judgeFreshness({ now, countedTs, isBusConnected, workers, listenedMs }: Signs): Answer {
  const ageMs = now - countedTs;
  if (ageMs > staleMs) return { verdict: 'unknown', text: `The store was last heard ${inWords(ageMs)} ago.` };
  if (!isBusConnected)
    return { verdict: 'unknown', text: 'The message bus cannot be reached: workers cannot be heard.' };
  if (workers === 0 && listenedMs < limits.workerMs)
    return { verdict: 'unknown', text: 'This process has just begun to listen for workers.' };
  return { verdict: 'ok', text: `Counted ${inWords(ageMs)} ago, ${many(workers, 'worker')} heard.` };
}

function judgeMovement(signs: Signs): Answer {
  const { workers, active, stuck, now, movedTs, oldestWaitMs, waitingForEndpoints } = signs;
  if (workers === 0)
    return { verdict: 'trouble', text: `No worker is heard; ${many(active, 'machine')} under way.` };
  if (active === 0) return { verdict: 'ok', text: 'Nothing is under way.' };
  if (stuck > 0)
    return {
      verdict: 'trouble',
      text: `${stuck} of ${many(active, 'machine')} under way ${stuck === 1 ? 'has' : 'have'} not moved for longer than expected.`,
    };
  if (signs.endpoints >= limits.failedEndpoints && signs.delivered === 0)
    return { verdict: 'trouble', text: `No webhook arrives anywhere:${slowEndpoints(signs)}` };
  // What waits for a time, or for somebody else, need not move.
  const due = active - signs.waitingForRetry - waitingForEndpoints;
  if (due > 0 && now - movedTs > stillMs)
    return {
      verdict: 'trouble',
      text: `Nothing has moved for ${inWords(now - movedTs)}, with ${many(active, 'machine')} under way.`,
    };
  if (due <= 0)
    return {
      verdict: 'ok',
      text: `${many(active, 'machine')} under way, none of them due.${slowEndpoints(signs)}`,
    };
  const wait = oldestWaitMs > 1_000 ? `, the oldest for ${inWords(oldestWaitMs)}` : '';
  return {
    verdict: 'ok',
    text: `${many(active, 'machine')} under way and moving${wait}.${slowEndpoints(signs)}`,
  };
}

/** For their owners to mend: they see it in their dashboards. */
function slowEndpoints({ endpoints, waitingForEndpoints: waiting }: Signs): string {
  if (endpoints === 0) return '';
  const who = endpoints === 1 ? '1 endpoint of customers does' : `${endpoints} endpoints of customers do`;
  const what = waiting === 1 ? '1 delivery waits' : `${waiting} deliveries wait`;
  return ` ${who} not answer, or not in time: ${what} there.`;
}

function judgeSuccess(signs: Signs): Answer {
  const { ready, failed, commonError, delivered, dead, deadEndpoints, failingProviders } = signs;
  const ended = ready + failed;
  const minutes = `the last ${limits.verdictMs / 60_000} minutes`;
  const why = commonError === undefined ? '' : `, most with ${commonError}`;
  if (ended >= limits.verdictMin && failed / ended > limits.failedShare)
    return {
      verdict: 'trouble',
      text: `${failed} of ${many(ended, 'run')} have failed in ${minutes}${why}.`,
    };
  const sent = delivered + dead;
  const isGeneral = deadEndpoints >= limits.failedEndpoints;
  if (isGeneral && sent >= limits.verdictMin && dead / sent > limits.failedShare)
    return {
      verdict: 'trouble',
      text: `${dead} of ${many(sent, 'webhook')} were given up in ${minutes}, at ${many(deadEndpoints, 'endpoint')}.`,
    };
  if (failingProviders.length > 0)
    return { verdict: 'trouble', text: `Failing again and again: ${failingProviders.join(', ')}.` };
  if (ended === 0) return { verdict: 'ok', text: `No run has ended in ${minutes}.` };
  return { verdict: 'ok', text: `${ready} of ${many(ended, 'run')} went well in ${minutes}.` };
}

const many = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** A duration for people. */
export function inWords(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
