/**
 * The recent frames of one project, oldest first, bounded in number and bytes.
 *
 * Every frame has an index that never changes: the ring holds those from `start` to before `end`. A reader
 * keeps an index and nothing else, and has fallen out when it is below `start`.
 */
import type { Frame } from './frame.ts';

export type Ring = ReturnType<typeof createRing>;

/** What a reader takes at once. `bytes` is undefined when nothing of it is wanted. */
export type Slice = { bytes: Buffer | undefined; next: number; lastTs: number };

/** @param maxBytes bound of all frames' bytes; the newest frame stays even when it alone is larger. */
export function createRing(maxFrames: number, maxBytes: number) {
  // Grows with the first frames: most projects never fill it.
  const slots: (Frame | undefined)[] = [];
  let start = 0;
  let end = 0;
  let bytes = 0;

  const at = (index: number): Frame => {
    const frame = slots[index % maxFrames];
    if (!frame || index < start || index >= end) throw new RangeError(`no frame ${index} in ${start}-${end}`);
    return frame;
  };

  const dropOldest = (): void => {
    bytes -= at(start).bytes.length;
    slots[start % maxFrames] = undefined;
    start += 1;
  };

  return {
    get start() {
      return start;
    },
    get end() {
      return end;
    },
    at,

    /** How many of the oldest frames must go before one of this size fits. */
    wouldDrop(sizeBytes: number): number {
      let left = bytes + sizeBytes;
      let index = start;
      while (index < end && (left > maxBytes || end - index >= maxFrames)) {
        left -= at(index).bytes.length;
        index += 1;
      }
      return index - start;
    },

    /** Adds the newest frame; the oldest ones make room. */
    add(frame: Frame): void {
      while (start < end && (bytes + frame.bytes.length > maxBytes || end - start >= maxFrames)) dropOldest();
      slots[end % maxFrames] = frame;
      end += 1;
      bytes += frame.bytes.length;
    },

    /** Index of the first frame above `ts`: `end` when there is none. */
    indexAfter(ts: number): number {
      let low = start;
      let high = end;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (at(middle).ts <= ts) low = middle + 1;
        else high = middle;
      }
      return low;
    },

    /** Index of the newest frame that fits, undefined when there is none. */
    lastIndex(fits: (frame: Frame) => boolean): number | undefined {
      for (let index = end - 1; index >= start; index -= 1) if (fits(at(index))) return index;
      return undefined;
    },

    /** What is wanted from `from` on, joined, up to about `sizeBytes` and at least one frame. */
    take(from: number, sizeBytes: number, wants: (frame: Frame) => boolean): Slice {
      const parts: Buffer[] = [];
      let size = 0;
      let next = from;
      let lastTs = 0;
      while (next < end) {
        const frame = at(next);
        if (wants(frame)) {
          if (size > 0 && size + frame.bytes.length > sizeBytes) break;
          parts.push(frame.bytes);
          size += frame.bytes.length;
        }
        lastTs = frame.ts;
        next += 1;
      }
      return { bytes: join(parts), next, lastTs };
    },
  };
}

/** Several frames as one piece, so that they go out in one write. */
export function join(parts: readonly Buffer[]): Buffer | undefined {
  return parts.length > 1 ? Buffer.concat(parts) : parts[0];
}
