/** Bodies that end when their reader's signal aborts, also while they are silent. */

/**
 * The pieces of `body`; throws the signal's reason as soon as it aborts. The body is returned (its stream
 * destroyed) when the reader stops early, but not waited for.
 */
export async function* untilAborted<Piece>(
  body: AsyncIterable<Piece>,
  signal: AbortSignal,
): AsyncGenerator<Piece, void, void> {
  signal.throwIfAborted();
  const pieces = body[Symbol.asyncIterator]();
  const { aborted, stop } = watch(signal);
  let isDone = false;
  try {
    for (;;) {
      const next = await Promise.race([pieces.next(), aborted]);
      isDone = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    stop();
    // A silent body ends when it next speaks; its failure then concerns nobody.
    if (!isDone) Promise.resolve(pieces.return?.()).catch(ignore);
  }
}

function watch(signal: AbortSignal): { aborted: Promise<never>; stop(): void } {
  let stop = ignore;
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    stop = () => signal.removeEventListener('abort', onAbort);
  });
  // An abort between two pieces is met by the next race.
  aborted.catch(ignore);
  return { aborted, stop };
}

function ignore(): void {
  // Nobody is left to hear of it.
}
