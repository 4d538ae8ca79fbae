/**
 * One timer for any number of streams: a wheel of slots that are visited in turn.
 *
 * A timer per stream would cost more memory than the rest of the stream, and equal ones fire together. An item
 * stands in one slot; being visited it says when it wants to be visited next. Nothing ticks while it is empty.
 */
import type { Clock } from './clock.ts';

/** An item of the wheel: `slot` belongs to the wheel, -1 while the item is not in it. */
export type WheelItem = { slot: number };

const tickMs = 100;
const slotCount = 256;
/** What is due together, by a common event say, must not hold up everybody else. */
const visitsAtOnce = 64;

/**
 * @param visit answers in how many ms the item wants to be visited again, undefined for never. More than the
 * wheel's span (25 s) is cut to it: the item is asked again then.
 */
export function createWheel<Item extends WheelItem>(
  clock: Pick<Clock, 'monotonic' | 'after' | 'soon'>,
  visit: (item: Item) => number | undefined,
) {
  const slots: Set<Item>[] = Array.from({ length: slotCount }, () => new Set());
  let hand = 0;
  /** When the hand came to where it is. */
  let handAt = 0;
  let size = 0;
  /** Items at the hand that are still to be visited. */
  let due: Item[] = [];
  let isStopped = false;
  let stopTicking: (() => void) | undefined;

  const put = (item: Item, ms: number): void => {
    if (stopTicking === undefined) {
      handAt = clock.monotonic();
      stopTicking = clock.after(tickMs, tick);
    }
    const ticks = Math.min(Math.max(Math.ceil(ms / tickMs), 1), slotCount - 1);
    item.slot = (hand + ticks) % slotCount;
    slots[item.slot]?.add(item);
    size += 1;
  };

  const remove = (item: Item): void => {
    if (item.slot < 0 || !slots[item.slot]?.delete(item)) return;
    item.slot = -1;
    size -= 1;
  };

  const isDue = () => clock.monotonic() - handAt >= tickMs;

  /** Visits what is due, some at a time. A late timer is made up for, so that items never drift behind the clock. */
  const tick = (): void => {
    // Marks the wheel as turning while items are put back.
    stopTicking = () => undefined;
    // After a sleep of the machine one turn visits everything.
    handAt = Math.max(handAt, clock.monotonic() - slotCount * tickMs);
    visitSome();
    if (isStopped) return;
    if (due.length > 0 || isDue()) clock.soon(tick);
    else stopTicking = size > 0 ? clock.after(tickMs, tick) : undefined;
  };

  const visitSome = (): void => {
    for (let left = visitsAtOnce; left > 0 && !isStopped; ) {
      const item = due.pop();
      if (item) left -= visitDue(item);
      else if (isDue()) advance();
      else return;
    }
  };

  const advance = (): void => {
    hand = (hand + 1) % slotCount;
    handAt += tickMs;
    due = [...(slots[hand] ?? [])];
  };

  /** Answers 1, or 0 for an item that was taken out meanwhile. */
  const visitDue = (item: Item): number => {
    if (item.slot !== hand) return 0;
    remove(item);
    const ms = visit(item);
    if (ms !== undefined) put(item, ms);
    return 1;
  };

  return {
    put,
    remove,
    stop(): void {
      isStopped = true;
      stopTicking?.();
      stopTicking = undefined;
    },
  };
}
