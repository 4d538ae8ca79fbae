/** Time as the hub sees it: handed in, so that tests run it on a virtual one. */

export type Clock = {
  /** Unix ms. */
  now(): number;
  /** Ms of a clock that never jumps; only differences mean something. */
  monotonic(): number;
  /** Calls back once after some ms; the answer cancels it. */
  after(ms: number, call: () => void): () => void;
  /** Calls back as soon as what runs now has returned. */
  soon(call: () => void): void;
};

/** The process's own clock. None of its timers keeps the process alive. */
export const hubClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
  soon: (call) => void setImmediate(call),
};
