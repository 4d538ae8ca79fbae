/** The seed of a run: the one asked for, else one of its own, so that regenerating gives something new. */
import { createHash } from 'node:crypto';

export function seedOf(asked: number | null, assetId: string, run: number): number {
  return asked ?? createHash('sha256').update(`${assetId}:${run}`).digest().readUInt32BE(0);
}
