/**
 * Who may run an effect now: round robin by project, bounded by class of work and by project.
 *
 * A project with a thousand pieces of work and one with a single piece take turns. Waiting here is no attempt
 * and starts no clock.
 */

export type SlotRequest = {
  /** Class of work that shares a capacity: `cpu`, `io`, a provider's name. */
  slot: string;
  project: string;
  /** How many the project may have running in this class. */
  perProject: number;
  /** When the wait began for its run (unix ms): within a project the oldest run goes first. */
  since: number;
};

export type SlotStats = Record<string, { running: number; waiting: number }>;

export type Slots = {
  /** Waits for a slot; the answer gives it back. @throws the signal's reason when it is aborted first. */
  acquire(request: SlotRequest, signal: AbortSignal): Promise<() => void>;
  stats(): SlotStats;
  /** Who waits in a class, by project: at most the first thousand. */
  waitingByProject(slot: string): Record<string, number>;
};

/** @param capacity how many may run at once in each class */
export function createSlots(capacity: Readonly<Record<string, number>>): Slots {
  const classes = new Map(Object.entries(capacity).map(([slot, limit]) => [slot, createClass(limit)]));

  return {
    acquire({ slot, project, perProject, since }, signal) {
      const found = classes.get(slot);
      if (!found) throw new TypeError(`no slots of class ${slot}`);
      return found.acquire({ project, perProject, since }, signal);
    },
    stats: () => Object.fromEntries([...classes].map(([slot, one]) => [slot, one.stats()])),
    waitingByProject: (slot) => classes.get(slot)?.waitingByProject() ?? {},
  };
}

const maxListed = 1_000;

type Waiter = { perProject: number; since: number; grant(): void };

function createClass(limit: number) {
  let running = 0;
  let waiting = 0;
  const runningBy = new Map<string, number>();
  /** Projects with waiters, in the order of their next turn. */
  const queues = new Map<string, Waiter[]>();

  const isFree = (project: string, perProject: number) =>
    running < limit && (runningBy.get(project) ?? 0) < perProject;

  const begin = (project: string): (() => void) => {
    running += 1;
    runningBy.set(project, (runningBy.get(project) ?? 0) + 1);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      running -= 1;
      const left = (runningBy.get(project) ?? 1) - 1;
      if (left === 0) runningBy.delete(project);
      else runningBy.set(project, left);
      grantNext();
    };
  };

  const grantNext = (): void => {
    for (const [project, queue] of queues) {
      const [first] = queue;
      if (!first || !isFree(project, first.perProject)) continue;
      queue.shift();
      waiting -= 1;
      // Its next turn comes after everybody else's.
      queues.delete(project);
      if (queue.length > 0) queues.set(project, queue);
      first.grant();
      return;
    }
  };

  const acquire = (
    { project, perProject, since }: Omit<SlotRequest, 'slot'>,
    signal: AbortSignal,
  ): Promise<() => void> => {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (isFree(project, perProject) && !queues.has(project)) return Promise.resolve(begin(project));
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        perProject,
        since,
        grant() {
          signal.removeEventListener('abort', leave);
          resolve(begin(project));
        },
      };
      const leave = () => {
        const queue = queues.get(project);
        const place = queue?.indexOf(waiter) ?? -1;
        if (!queue || place < 0) return;
        queue.splice(place, 1);
        waiting -= 1;
        if (queue.length === 0) queues.delete(project);
        reject(signal.reason);
      };
      const queue = queues.get(project) ?? [];
      // Work that was interrupted comes again late; it does not go to the end for that.
      const place = queue.findLastIndex((other) => other.since <= since) + 1;
      queue.splice(place, 0, waiter);
      queues.set(project, queue);
      waiting += 1;
      signal.addEventListener('abort', leave, { once: true });
    });
  };

  return {
    acquire,
    stats: () => ({ running, waiting }),
    waitingByProject: () =>
      Object.fromEntries([...queues].slice(0, maxListed).map(([project, queue]) => [project, queue.length])),
  };
}
