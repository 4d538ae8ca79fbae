/** One bucket of a shared rate limit, as one process knows it: see shared-rate-limit.ts. */
import type { Members } from './limit-members.ts';
import { Window, windowMs } from './window.ts';

/** Over-admission that decisions 7 allow, as a share of the limit. */
export const tolerance = 0.05;
/** A grant that is not asked for again ends after this time, in ms. */
export const grantMs = 60_000;
/** Processes between which the tolerance is divided; from one more on there is no credit. */
const maxCreditors = 7;

/** What another process may accept and has accepted in a minute, as it was last heard. */
export type Holder = {
  granted: number;
  used: number;
  /** When it was heard, and the number of that message: older ones say nothing. */
  at: number;
  number: number;
  /** When its oldest accepted request no longer counts. */
  freeAt: number;
};

/** A process asks for more, or (with `waiting` and `extra` 0) says what it has. */
export type Want = {
  key: string;
  limit: number;
  number: number;
  /** What it keeps of what it was granted, and what it has accepted in the last minute. */
  granted: number;
  used: number;
  /** Ms until its oldest accepted request no longer counts. */
  freeMs: number;
  /** Requests that wait for this, and how many more it would like to have in hand. */
  waiting: number;
  extra: number;
};

export type Waiter = { until: number; decide(waitMs: number): void };

export class Bucket {
  readonly key: string;
  readonly limit: number;
  readonly window = new Window();
  /** Accepts a minute that the keeper of the ledger has granted this process, when it was last asked. */
  granted = 0;
  grantedAt = Number.NEGATIVE_INFINITY;
  /** The question that is under way. */
  ask: { number: number; at: number } | undefined = undefined;
  /** Until then there is nothing more to be had. */
  deniedUntil = Number.NEGATIVE_INFINITY;
  readonly waiters: Waiter[] = [];
  /** The ledger: every process keeps it, so that each can become its keeper. */
  holders: Map<string, Holder> | undefined = undefined;
  /** Of the keeper: who waits for an answer, and who has still to give back what it does not use. */
  readonly queue = new Map<string, Want>();
  recall: { at: number; unheard: Set<string> } | undefined = undefined;

  constructor(key: string, limit: number) {
    this.key = key;
    this.limit = limit;
  }

  /** Accepts a minute that belong to the other processes. */
  reserved(ts: number, members: Members): number {
    if (!this.holders) return 0;
    let sum = 0;
    for (const [id, holder] of this.holders) {
      const part = reservedBy(holder, ts, members.goneAt(id));
      if (part === 0 && ts >= holder.at + grantMs + windowMs) this.holders.delete(id);
      sum += part;
    }
    return sum;
  }

  /** Processes that may hold more than they use. */
  givers(ts: number): string[] {
    const mayGive = ({ granted, used, freeAt }: Holder) => granted > used || (granted > 0 && ts >= freeAt);
    return [...(this.holders ?? [])].filter(([, holder]) => mayGive(holder)).map(([id]) => id);
  }

  /** What is granted and not over. */
  grantedNow(ts: number): number {
    return ts - this.grantedAt < grantMs ? this.granted : 0;
  }

  /** Ms until a process may have something to give. */
  freeMs(ts: number, members: Members): number {
    let first = this.window.count(ts) > 0 ? ts + this.window.waitMs(ts) : ts + windowMs;
    for (const [id, holder] of this.holders ?? []) {
      const goneAt = members.goneAt(id);
      if (reservedBy(holder, ts, goneAt) === 0) continue;
      // What it held on to although it was asked comes back with its grant's end.
      first = Math.min(first, holder.freeAt > ts ? holder.freeAt : endOf(holder, goneAt));
    }
    return Math.min(windowMs, Math.max(1, Math.ceil(first - ts)));
  }

  /** @returns false for a message that is older than what is known. */
  note(from: string, { number, granted, used, freeMs }: Want, ts: number): boolean {
    this.holders ??= new Map();
    if ((this.holders.get(from)?.number ?? 0) >= number) return false;
    const freeAt = ts + (used > 0 ? freeMs : windowMs);
    this.holders.set(from, { granted, used, at: ts, number, freeAt });
    return true;
  }
}

/** What each process may accept beyond its grant, before the keeper knows. */
export function creditOf(limit: number, processes: number): number {
  return Math.floor((limit * tolerance) / Math.max(maxCreditors, processes - 1));
}

function reservedBy(holder: Holder, ts: number, goneAt: number): number {
  const isGranted = ts < endOf(holder, goneAt);
  const isUsed = ts < holder.at + windowMs;
  return Math.max(isGranted ? holder.granted : 0, isUsed ? holder.used : 0);
}

/** A grant is used for `grantMs` at most, or until its process is gone, and what it let in counts for a minute. */
function endOf({ at }: Holder, goneAt: number): number {
  return Math.min(at + grantMs, goneAt) + windowMs;
}
