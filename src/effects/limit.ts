/** The time limit of an outside call. */

/**
 * Runs with a signal that aborts with `signal`, or with a TimeoutError after `ms`.
 *
 * Not AbortSignal.any over AbortSignal.timeout: Node 20 collects such a timeout as garbage, and then it never fires.
 */
export async function withLimit<Result>(
  signal: AbortSignal,
  ms: number,
  run: (limited: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const leave = () => controller.abort(signal.reason);
  const cut = () => controller.abort(new DOMException(`took longer than ${ms} ms`, 'TimeoutError'));
  const timer = setTimeout(cut, Math.max(0, ms));
  signal.addEventListener('abort', leave, { once: true });
  if (signal.aborted) leave();
  try {
    return await run(controller.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
  }
}
