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

/**
 * @param visit answers in how many ms the item wants to be visited again, undefined for never. More than the
 * wheel's span (25 s) is cut to it: the item is asked again then.
 */
export function createWheel<Item extends WheelItem>(
  clock: Pick<Clock, 'monotonic' | 'after'>,
  visit: (item: Item) => number | undefined,
) {
  const slots: Set<Item>[] = Array.from({ length: slotCount }, () => new Set());
  let hand = 0;
  /** When the hand came to where it is. */
  let handAt = 0;
  let size = 0;
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

  const advance = (): void => {
    hand = (hand + 1) % slotCount;
    handAt += tickMs;
    for (const item of [...(slots[hand] ?? [])]) {
      remove(item);
      const ms = visit(item);
      if (ms !== undefined) put(item, ms);
    }
  };

  /** A late timer is made up for, so that items never drift behind the clock. */
  const tick = (): void => {
    // Marks the wheel as turning while items are put back.
    stopTicking = () => undefined;
    const due = Math.min(Math.floor((clock.monotonic() - handAt) / tickMs), slotCount);
    for (let turn = 0; turn < due; turn += 1) advance();
    stopTicking = size > 0 ? clock.after(tickMs, tick) : undefined;
  };

  return {
    put,
    remove,
    stop(): void {
      stopTicking?.();
      stopTicking = undefined;
    },
  };
}
