/**
 * Passwords: argon2id, a few at a time. A hash takes tens of milliseconds of a core and 19 MB, so their number
 * is bounded, running and waiting; who comes beyond that is told to come again. They have threads of their own, of
 * lower priority: in Node's they would keep files from being read, and the event loop from its core.
 */
import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Piscina } from 'piscina';
import type { HashTask, VerifyTask } from './password-thread.ts';

/** Too many passwords are being checked. `retryAfterMs`: when it is worth another try. */
export class BusyError extends Error {
  override readonly name = 'BusyError';
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs: number) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Of argon2id: memory in KiB, passes, lanes. */
export type Cost = { memoryCost: number; timeCost: number; parallelism: number };

export type Passwords = ReturnType<typeof createPasswords>;

/** OWASP's second choice for argon2id: 19 MiB, two passes, one lane. */
const ownCost: Cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/** What is checked where there is no hash: one that nothing fits, at the cost of those that are made. */
const dummyOf = ({ memoryCost, timeCost, parallelism }: Cost): string =>
  `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${randomBase64(16)}$${randomBase64(32)}`;
const randomBase64 = (bytes: number): string => randomBytes(bytes).toString('base64').replaceAll('=', '');
const maxQueued = 64;
/** The file that threads run. */
const threadUrl = new URL(`./password-thread${extname(import.meta.url)}`, import.meta.url);
const niceIncrement = 10;
/** Each thread is some megabytes. */
const idleMs = 60_000;
/** Hashes live outside the heap. */
const youngGenerationMb = 2;
const busyRetryMs = 2_000;

/**
 * @param concurrent hashes at once, one core fewer than there are, which is for everything else; the rest waits in
 * a bounded queue. @param cost of new hashes.
 */
export function createPasswords({
  concurrent = Math.max(1, availableParallelism() - 1),
  cost = ownCost,
}: {
  concurrent?: number;
  cost?: Cost;
} = {}) {
  const turns = createTurns(concurrent);
  const threads = new Piscina({
    filename: threadUrl.href,
    minThreads: 0,
    maxThreads: concurrent,
    idleTimeout: idleMs,
    niceIncrement,
    resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
  });
  const hash = (task: HashTask): Promise<string> => threads.run(task, { name: 'hash' });
  const verify = (task: VerifyTask): Promise<boolean> => threads.run(task, { name: 'verify' });
  const dummy = dummyOf(cost);
  let admitted = 0;

  return {
    /** @returns argon2id in PHC form, its parameters included. @throws {BusyError} */
    async hash(password: string): Promise<string> {
      return turns.run(() => hash({ password, cost }));
    },

    /**
     * Whether a password fits a stored hash. Without one (no such user, or no password) it takes as long and
     * answers false, so that the time does not tell who has an account.
     *
     * @throws {BusyError}
     */
    async verify(stored: string | null, password: string): Promise<boolean> {
      return turns.run(async () => {
        const fits = await verify({ stored: stored ?? dummy, password });
        return stored !== null && fits;
      });
    },

    /**
     * Runs what ends in a password being checked, if there is a place in the queue: the many that would be
     * turned away there cost the store nothing.
     *
     * @throws {BusyError}
     */
    async admit<T>(task: () => Promise<T>): Promise<T> {
      if (admitted >= concurrent + maxQueued) throw busy();
      admitted += 1;
      try {
        return await task();
      } finally {
        admitted -= 1;
      }
    },

    /** Hashes that are being made at this moment. */
    running: turns.running,

    /** Whether a hash was made with less than is asked of new ones. To be asked of hashes that have fitted. */
    isWeak(stored: string): boolean {
      const [, memory = 0, passes = 0] = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),/.exec(stored) ?? [];
      return Number(memory) < cost.memoryCost || Number(passes) < cost.timeCost;
    },
  };
}

function busy(): BusyError {
  return new BusyError('too many passwords are being checked', busyRetryMs);
}

/** Lets `concurrent` tasks run and `maxQueued` wait. */
function createTurns(concurrent: number) {
  const waiting: (() => void)[] = [];
  let running = 0;

  return {
    running: () => running,

    async run<T>(task: () => Promise<T>): Promise<T> {
      if (running < concurrent) running += 1;
      else await queue();
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        // The turn is handed on, so that nobody gets in between.
        if (next) next();
        else running -= 1;
      }
    },
  };

  function queue(): Promise<void> {
    if (waiting.length >= maxQueued) throw busy();
    return new Promise((resolve) => {
      waiting.push(resolve);
    });
  }
}
