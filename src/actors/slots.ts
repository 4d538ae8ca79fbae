/**
 * Who may run an effect now: round robin by project, bounded by class of work and by project.
 *
 * A project with a thousand pieces of work and one with a single piece take turns. Waiting here is no attempt
 * and starts no clock.
 */
import { operator } from '../../schemas/limits.ts';

export type SlotRequest = {
  /** Class of work that shares a capacity: `cpu`, `io`, a provider's name. */
  slot: string;
  project: string;
  /** How many the project may have running in this class. */
  perProject: number;
  /** When the wait began for its run (unix ms): within a project the oldest run goes first. */
  since: number;
  /** For operators: whose work it is, and which. */
  id?: string;
  effect?: string;
};

/** Who holds a slot or waits for one. */
type SlotUser = { id: string; project_id: string; effect: string };

/** A class of slots as operators see it: who waits is in the order of their turns. */
export type SlotLook = {
  slot: string;
  capacity: number;
  running: SlotUser[];
  waiting: (SlotUser & { per_project: number })[];
  waits: number;
};

export type SlotStats = Record<string, { running: number; waiting: number }>;

export type Slots = {
  /** Waits for a slot; the answer gives it back. @throws the signal's reason when it is aborted first. */
  acquire(request: SlotRequest, signal: AbortSignal): Promise<() => void>;
  stats(): SlotStats;
  /** Who waits in a class, by project: at most the first thousand. */
  waitingByProject(slot: string): Record<string, number>;
  look(): SlotLook[];
};

/** @param capacity how many may run at once in each class */
export function createSlots(capacity: Readonly<Record<string, number>>): Slots {
  const classes = new Map(Object.entries(capacity).map(([slot, limit]) => [slot, createClass(limit)]));

  return {
    acquire({ slot, ...request }, signal) {
      const found = classes.get(slot);
      if (!found) throw new TypeError(`no slots of class ${slot}`);
      return found.acquire(request, signal);
    },
    stats: () => Object.fromEntries([...classes].map(([slot, one]) => [slot, one.stats()])),
    waitingByProject: (slot) => classes.get(slot)?.waitingByProject() ?? {},
    look: () => [...classes].map(([slot, one]) => ({ slot, ...one.look() })),
  };
}

const maxListed = 1_000;

type Request = Omit<SlotRequest, 'slot'>;
type Waiter = Request & { grant(): void };

const toUser = ({ id = '', project, effect = '' }: Request): SlotUser => ({
  id,
  project_id: project,
  effect,
});

function createClass(limit: number) {
  let running = 0;
  let waiting = 0;
  const runningBy = new Map<string, number>();
  const holders = new Set<Request>();
  /** Projects with waiters, in the order of their next turn. */
  const queues = new Map<string, Waiter[]>();

  const isFree = (project: string, perProject: number) =>
    running < limit && (runningBy.get(project) ?? 0) < perProject;

  const begin = (request: Request): (() => void) => {
    const { project } = request;
    running += 1;
    holders.add(request);
    runningBy.set(project, (runningBy.get(project) ?? 0) + 1);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      running -= 1;
      holders.delete(request);
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

  const acquire = (request: Request, signal: AbortSignal): Promise<() => void> => {
    const { project, perProject, since } = request;
    if (signal.aborted) return Promise.reject(signal.reason);
    if (isFree(project, perProject) && !queues.has(project)) return Promise.resolve(begin(request));
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        ...request,
        grant() {
          signal.removeEventListener('abort', leave);
          resolve(begin(request));
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

  /** Those that wait, as they get their turns when one after the other becomes free: round by round. */
  const inTurn = (most: number): Waiter[] => {
    const order: Waiter[] = [];
    for (let round = 0; order.length < Math.min(waiting, most); round += 1) {
      for (const queue of queues.values()) {
        const waiter = queue[round];
        if (waiter && order.length < most) order.push(waiter);
      }
    }
    return order;
  };

  return {
    acquire,
    stats: () => ({ running, waiting }),
    look: () => ({
      capacity: limit,
      running: [...holders].slice(0, maxListed).map(toUser),
      waiting: inTurn(operator.maxWaitingTold).map((waiter) => ({
        ...toUser(waiter),
        per_project: waiter.perProject,
      })),
      waits: waiting,
    }),
    waitingByProject: () =>
      Object.fromEntries([...queues].slice(0, maxListed).map(([project, queue]) => [project, queue.length])),
  };
}
