/** Work with bounds: groups of what comes one by one, and calls that have an end. */

/** In groups of `count`, the last one perhaps smaller. */
export async function* inGroups<Item>(items: AsyncIterable<Item>, count: number): AsyncGenerator<Item[]> {
  let group: Item[] = [];
  for await (const item of items) {
    group.push(item);
    if (group.length < count) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}

/**
 * Calls with a signal that fires after some ms, and does not wait for who overlooks it.
 *
 * @throws an Error that says so when the time is over; what the call throws.
 */
export async function withTime<Result>(
  ms: number,
  call: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const control = new AbortController();
  const { signal } = control;
  const over = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  const timer = setTimeout(() => control.abort(new Error(`no answer within ${ms / 1_000} s`)), ms);
  try {
    return await Promise.race([call(signal), over]);
  } finally {
    clearTimeout(timer);
  }
}
