/** At most so many at once; the others wait in line, up to a bound. */

export type Limiter = ReturnType<typeof createLimiter>;

/** Thrown when the line is full as well. */
export class LimitError extends Error {
  override readonly name = 'LimitError';
}

/** @param max how many run at once. @param maxWaiting how many may wait beside them. */
export function createLimiter(max: number, maxWaiting: number) {
  const waiting: (() => void)[] = [];
  let running = 0;

  return {
    /** Whether nobody runs or waits. */
    get isIdle() {
      return running === 0 && waiting.length === 0;
    },
    /** Runs the work when its turn comes. @throws LimitError at once when too many wait, else what it throws. */
    async run<Result>(work: () => Promise<Result>): Promise<Result> {
      if (running >= max) {
        if (waiting.length >= maxWaiting) throw new LimitError('too many are waiting');
        // The place is handed over by who leaves it, so `running` stays as it is.
        await new Promise<void>((resolve) => waiting.push(resolve));
      } else {
        running += 1;
      }
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
}
