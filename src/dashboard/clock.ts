/**
 * The service's time, by the Date header of its answers: a computer whose clock is wrong by an hour shows right times.
 */
import { useEffect, useState } from 'preact/hooks';

/** Of the service's clock before ours, in ms. */
let aheadMs = 0;
/** The header has whole seconds, and answers travel: less is no difference. */
const noticedMs = 2_500;

/** Unix ms as the service has it. */
export const now = () => Date.now() + aheadMs;

/** Learns from an answer that was received just now. */
export function observeDate(header: string | null): void {
  const ts = header === null ? Number.NaN : Date.parse(header);
  if (Number.isNaN(ts)) return;
  const ahead = ts + 500 - Date.now();
  if (Math.abs(ahead - aheadMs) > noticedMs) aheadMs = Math.abs(ahead) > noticedMs ? ahead : 0;
}

/** The service's time, drawn again every so many ms. All that ask for the same pace share one timer. */
export function useNow(everyMs: number): number {
  const [ts, setTs] = useState(now);
  useEffect(() => {
    const listeners = pacesOf(everyMs);
    const listener = () => setTs(now());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, [everyMs]);
  return ts;
}

const paces = new Map<number, Set<() => void>>();

function pacesOf(everyMs: number): Set<() => void> {
  const known = paces.get(everyMs);
  if (known) return known;
  const listeners = new Set<() => void>();
  paces.set(everyMs, listeners);
  setInterval(() => {
    if (!document.hidden) for (const listener of listeners) listener();
  }, everyMs);
  return listeners;
}
