/** A value of a provider's that is kept and asked for anew: the keys that its callbacks are signed with. */

/** Who floods a provider that does not answer gains nothing by it. */
const failedMs = 1_000;

/**
 * @param keptMs how long what was answered is good.
 * @param againMs at least between two questions when the caller has reason to doubt what is known.
 */
export function renewed<Value>(
  ask: () => Promise<Value>,
  { keptMs, againMs, now }: { keptMs: number; againMs: number; now(): number },
): { now(): Promise<Value>; fresh(): Promise<Value> } {
  let known: Promise<Value> | undefined;
  let askedAt = 0;
  let hasFailed = false;

  const get = (afterMs: number): Promise<Value> => {
    if (known && now() - askedAt < (hasFailed ? failedMs : afterMs)) return known;
    askedAt = now();
    hasFailed = false;
    known = ask();
    known.catch(() => {
      hasFailed = true;
    });
    return known;
  };

  return { now: async () => get(keptMs), fresh: async () => get(againMs) };
}
