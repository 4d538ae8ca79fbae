/** Gathers a body of a stranger's making in memory that does not depend on how it is cut into pieces. */

const firstCapacity = 16 * 1024;

/**
 * Copies pieces into one buffer of at most `maxBytes`: the pieces themselves are views that would keep whole
 * network buffers alive, so that a body of crumbs would cost a hundred times its length.
 */
export function createCollector(maxBytes: number) {
  let buffer = Buffer.allocUnsafe(Math.min(firstCapacity, maxBytes));
  let length = 0;

  return {
    /** Keeps what fits; false when something did not. */
    add(piece: Uint8Array): boolean {
      const fits = piece.subarray(0, maxBytes - length);
      if (length + fits.byteLength > buffer.byteLength) {
        const capacity = Math.max(length + fits.byteLength, buffer.byteLength * 2);
        const larger = Buffer.allocUnsafe(Math.min(capacity, maxBytes));
        buffer.copy(larger, 0, 0, length);
        buffer = larger;
      }
      buffer.set(fits, length);
      length += fits.byteLength;
      return fits.byteLength === piece.byteLength;
    },
    /** What was kept so far, without a copy. */
    bytes: (): Buffer => buffer.subarray(0, length),
  };
}
