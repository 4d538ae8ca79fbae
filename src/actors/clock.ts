/** Time as the runtime sees it: handed in, so that tests run it on a virtual one. */

export type Clock = {
  /** Unix ms. */
  now(): number;
  /** Ms of a clock that never jumps; only differences mean something. */
  monotonic(): number;
  /** Calls back once after some ms; the answer cancels it. */
  after(ms: number, call: () => void): () => void;
  /** Calls back once what is under way in this turn of the event loop has been done. */
  nextTurn(call: () => void): void;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
  nextTurn(call) {
    setImmediate(call);
  },
};

/** Waits, or until the signal is aborted. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/**
 * Calls `run` again and again with a pause between, until stopped; a failed call is reported, never fatal.
 *
 * @param pauseMs asked for before each pause, where it is not always the same.
 */
export function every(
  clock: Clock,
  pauseMs: number | (() => number),
  run: () => Promise<void>,
  onError: (cause: unknown) => void,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const loop = async () => {
    // Not before the caller has what this answers.
    await Promise.resolve();
    while (!stopping.signal.aborted) {
      await run().catch(onError);
      await sleep(clock, typeof pauseMs === 'number' ? pauseMs : pauseMs(), stopping.signal);
    }
  };
  const looping = loop();
  return {
    async stop() {
      stopping.abort();
      await looping;
    },
  };
}
