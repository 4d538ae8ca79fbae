/**
 * What streams are given while they catch up, joined once for all that missed the same: after a restart, or a loss of
 * the network, that is everybody. To pick and join a thousand frames costs more than to send them.
 */
import type { Clock } from './clock.ts';
import type { Frame } from './frame.ts';
import { type Group, type Listener, wants } from './listener.ts';
import { join, type Slice } from './ring.ts';

export const maxSliceBytes = 64 * 1024;
/** Clients come back within seconds of each other. */
const keptMs = 2_000;
const maxKeptBytes = 4 * 1024 * 1024;

export function createSlices(clock: Pick<Clock, 'after'>) {
  /** Slices of rings, by the index that they begin at. */
  const ofRings = new Map<Group, Map<number, Slice>>();
  let keptBytes = 0;
  /** Parts of pieces that were read, for the group that asked last. They go with their piece. */
  const ofPieces = new WeakMap<readonly Frame[], { group: Group; parts: Buffer[] }>();

  const forget = (): void => {
    ofRings.clear();
    keptBytes = 0;
  };

  const keep = (group: Group, from: number, slice: Slice, sizeBytes: number): void => {
    if (keptBytes + sizeBytes > maxKeptBytes) forget();
    if (keptBytes === 0) clock.after(keptMs, forget);
    keptBytes += sizeBytes;
    const ofGroup = ofRings.get(group);
    if (ofGroup) ofGroup.set(from, slice);
    else ofRings.set(group, new Map([[from, slice]]));
  };

  return {
    /** What a listener is to be given next from the ring. */
    next({ group, next, afterTs }: Listener): Slice {
      const { ring } = group.topic;
      // Within a ring ts rise: past the first, all are new.
      const isAllNew = next < ring.end && ring.at(next).ts > afterTs;
      const known = isAllNew ? ofRings.get(group)?.get(next) : undefined;
      if (known) return known;
      const slice = ring.take(
        next,
        maxSliceBytes,
        (frame) => frame.ts > afterTs && wants(group.filter, frame),
      );
      if (isAllNew && slice.bytes) keep(group, next, slice, slice.bytes.length);
      return slice;
    },

    /** What a group is shown of a piece of what is stored, in parts that are written one by one. */
    partsOf(group: Group, piece: readonly Frame[]): readonly Buffer[] {
      const known = ofPieces.get(piece);
      if (known?.group === group) return known.parts;
      const parts = joinInParts(piece.filter((frame) => wants(group.filter, frame)));
      ofPieces.set(piece, { group, parts });
      return parts;
    },
  };
}

function joinInParts(frames: readonly Frame[]): Buffer[] {
  const parts: Buffer[] = [];
  let part: Buffer[] = [];
  let size = 0;
  for (const [n, { bytes }] of frames.entries()) {
    part.push(bytes);
    size += bytes.length;
    if (size < maxSliceBytes && n < frames.length - 1) continue;
    parts.push(join(part) ?? bytes);
    part = [];
    size = 0;
  }
  return parts;
}
