/**
 * How far each owned partition is: applied, stored and published up to a sequence.
 *
 * Kept in memory and flushed a few times a second: what is read again after a crash is recognised and costs
 * only a repeated publish. Idle partitions are lifted along, or a take-over would read the whole stream.
 */
import type { PartitionRecord } from '../store/partitions.ts';

export type Move = { partition: number; position: number; ts: number };

export function createPositions() {
  const current = new Map<number, { position: number; ts: number; stored: number }>();

  return {
    reset(records: PartitionRecord[]): void {
      current.clear();
      for (const { _id, position, ts } of records) current.set(_id, { position, ts, stored: position });
    },

    /** Whether a message is still to be applied: ours, and beyond the position. */
    isNew(partition: number, seq: number): boolean {
      const record = current.get(partition);
      return record !== undefined && seq > record.position;
    },

    /** Sequence to read from, exclusive. */
    lowest(): number {
      return Math.min(...[...current.values()].map(({ position }) => position));
    },

    advance(partition: number, seq: number, ts: number): void {
      const record = current.get(partition);
      if (record && seq > record.position)
        Object.assign(record, { position: seq, ts: Math.max(ts, record.ts) });
    },

    /** Everything up to `seq` is done in every partition: nothing is queued. */
    liftAll(seq: number): void {
      for (const record of current.values()) record.position = Math.max(record.position, seq);
    },

    /** Partitions that have not passed a sequence. */
    behind(seq: number): number[] {
      return [...current].filter(([, { position }]) => position < seq).map(([partition]) => partition);
    },

    /**
     * Lifts a partition whose last message has been passed. `last` must have been read after `head`, the last
     * sequence of the stream: then nothing of the partition lies between them.
     */
    liftIdle(partition: number, last: number, head: number): void {
      const record = current.get(partition);
      if (record && last <= record.position) record.position = Math.max(record.position, head);
    },

    /** What the store does not know yet. */
    unflushed(): Move[] {
      return [...current]
        .filter(([, { position, stored }]) => position > stored)
        .map(([partition, { position, ts }]) => ({ partition, position, ts }));
    },

    flushed(moves: Move[]): void {
      for (const { partition, position } of moves) {
        const record = current.get(partition);
        if (record) record.stored = Math.max(record.stored, position);
      }
    },

    /** Sequences that the store knows as passed, by partition. */
    passed(): Map<number, number> {
      return new Map([...current].map(([partition, { stored }]) => [partition, stored]));
    },
  };
}
