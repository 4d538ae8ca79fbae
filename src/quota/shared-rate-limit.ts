/**
 * Rate limits that several processes share (decisions 7): together they accept at most the limit and 5 % of it
 * in any minute; a request waits for another process only where it would be refused otherwise.
 *
 * One process keeps the ledger: how many requests a minute each of the others may accept, by bucket. Whatever
 * nobody else holds is its own, so a process that is alone, or the keeper of a bucket that is used nowhere
 * else, works as if nothing were shared. The others ask for more before they have used up what they were
 * granted (twice what they use), and accept up to their grant at once.
 *
 *   asks     key, what it keeps of its grant, what it has used, how much more     to the keeper
 *   grants   key, whom, the answered question, the new total                      by the keeper
 *   recalls  key: give back what you do not use                                   by the keeper, when it is short
 *
 * Why the sum holds: the keeper grants only out of `limit - its own - what is reserved`, and a process lowers
 * its grant before it says so, so what the ledger says of a process is never less than what it may accept.
 * Every message has the whole state rather than a change, and a number: a repeated or late one says nothing, a
 * lost one is asked for again (the older question's grant is then no longer taken). A grant ends after a minute
 * in which nobody has asked, and stays in the ledger until what it let in has left the minute; so does that of
 * a process that has died. limit-members.ts has why two never keep the ledger at once.
 *
 * Beyond its grant each process may accept `credit` requests: the 5 % divided by the others, rounded down (2 of
 * 300, 0 of 60 or less). The first requests of a minute then wait for nobody. Credits that were used count as
 * used in the next question, so they do not add up.
 *
 * Nothing is lost by being divided: who is short waits (at most `holdMs`), while the keeper calls back what is
 * not used, until it is granted or it is certain that the minute is full.
 *
 * What remains: of a keeper that is killed, what it accepted since its last tick is unknown to the next (before
 * that it tells what exceeds the tolerance). Without the bus every process has the whole limit for itself.
 */
import { LRUCache } from 'lru-cache';
import { Bucket, creditOf, grantMs, tolerance, type Want } from './limit-bucket.ts';
import { type Beat, type MemberPorts, Members, tickMs } from './limit-members.ts';
import { maxBucketsKept, type RateLimit, type Turn } from './rate-limit.ts';

type Grant = {
  key: string;
  to: string;
  /** The number of the question. */
  number: number;
  total: number;
  /** Ms until there may be more, when it was not enough. */
  waitMs: number;
};

type Items = { wants: Want[]; grants: Grant[]; recalls: string[] };

/** What processes tell each other; everyone hears everything. */
export type LimitMessage = {
  from: string;
  beat?: Beat;
  items?: Items;
  /** The new keeper asks what everyone holds; the others have told it all. */
  isAskingAll?: boolean;
  isAll?: boolean;
  isLeaving?: boolean;
};

export type SharedRateLimitPorts = Omit<MemberPorts, 'onGap'> & {
  send(message: LimitMessage): void;
  /** Calls back soon, once: what happens until then is sent together. */
  defer(call: () => void): void;
  maxBuckets?: number;
};

export type SharedRateLimit = RateLimit & {
  receive(message: LimitMessage): void;
  /** To be called every `tickMs`. */
  tick(): void;
  /** Says good-bye, with what was accepted here. */
  leave(): void;
};

/** Longest wait of a request for other processes. */
const holdMs = 3_000;
/** A question without an answer is asked again, a recall no longer waited for. */
const answerMs = 3 * tickMs;
/** When to come again where nobody knows better. */
const retryMs = 1_000;
/** Requests that wait for other processes at once. */
const maxWaiting = 5_000;
/** Items of a message, far below what the bus carries. */
const maxItems = 500;

export function createSharedRateLimit(ports: SharedRateLimitPorts): SharedRateLimit {
  const { id, now } = ports;
  const buckets = new LRUCache<string, Bucket>({ max: ports.maxBuckets ?? maxBucketsKept });
  const members = new Members({ ...ports, onGap });
  /** Buckets with something that may come to its time. */
  const busy = new Set<Bucket>();
  /** Buckets of which the others have not heard. */
  const untold = new Set<Bucket>();
  let waiting = 0;
  let numbers = 0;
  /** What goes out together; of two questions about a bucket the later one. */
  const wants = new Map<Bucket, { number: number; isAsking: boolean }>();
  let grants: Grant[] = [];
  const recalls = new Set<string>();
  let isFlushDue = false;

  function find(key: string, limit: number): Bucket {
    const found = buckets.get(key);
    if (found?.limit === limit) return found;
    const made = new Bucket(key, limit);
    buckets.set(key, made);
    return made;
  }

  /** Requests a minute that this process may accept now. */
  function allowance(bucket: Bucket, ts: number): number {
    const { limit } = bucket;
    if (members.isCutOff()) return limit;
    if (members.isKeeper()) return limit - bucket.reserved(ts, members);
    if (!members.isFresh()) return 0;
    return Math.min(limit, bucket.grantedNow(ts) + creditOf(limit, members.countRecent));
  }

  // ── Requests ──────────────────────────────────────────────────────────────────────────────────

  function take(key: string, limit: number): Turn | Promise<Turn> {
    const bucket = find(key, limit);
    const ts = now();
    const count = bucket.window.count(ts);
    if (bucket.waiters.length === 0 && count < allowance(bucket, ts)) {
      accept(bucket, count, ts);
      return turn(bucket, 0, ts);
    }
    const waitMs = refusal(bucket, count, ts);
    if (waitMs > 0) return turn(bucket, waitMs, ts);
    const held = hold(bucket, ts);
    ask(bucket, ts);
    return held;
  }

  function accept(bucket: Bucket, count: number, ts: number): void {
    bucket.window.add(ts);
    if (members.isKeptBy(id)) {
      if (members.count > 1 && count + 1 > bucket.limit * tolerance) untold.add(bucket);
    } else if (!bucket.ask && isLow(bucket, count + 1, ts)) ask(bucket, ts);
  }

  /** Whether it is time to ask for more, before a request has to wait for it. */
  function isLow(bucket: Bucket, count: number, ts: number): boolean {
    if (ts < bucket.deniedUntil) return false;
    if (ts - bucket.grantedAt > grantMs / 2) return true;
    return bucket.granted < bucket.limit && bucket.granted - count < count / 4;
  }

  /** Ms to wait where it is certain that there is nothing to be had; 0 where others have to be asked. */
  function refusal(bucket: Bucket, count: number, ts: number): number {
    const { limit, window } = bucket;
    if (count >= limit) return window.waitMs(ts);
    if (ts < bucket.deniedUntil) {
      const deniedMs = Math.max(1, Math.ceil(bucket.deniedUntil - ts));
      return count > 0 && members.isFresh() ? Math.min(deniedMs, window.waitMs(ts)) : deniedMs;
    }
    return waiting >= maxWaiting ? retryMs : 0;
  }

  function hold(bucket: Bucket, ts: number): Promise<Turn> {
    waiting += 1;
    busy.add(bucket);
    return new Promise((resolve) => {
      bucket.waiters.push({
        until: ts + holdMs,
        decide(waitMs) {
          waiting -= 1;
          resolve(turn(bucket, waitMs, now()));
        },
      });
    });
  }

  function turn(bucket: Bucket, waitMs: number, ts: number): Turn {
    const { limit, window } = bucket;
    const count = window.count(ts);
    if (waitMs > 0) return { waitMs, remaining: 0, resetMs: waitMs };
    const remaining = Math.max(0, limit - count - bucket.reserved(ts, members));
    return { waitMs, remaining, resetMs: window.waitMs(ts) };
  }

  /** Lets in who waits, as far as there is room. */
  function serve(bucket: Bucket, ts: number): void {
    const { window, waiters } = bucket;
    let room = waiters.length === 0 ? 0 : allowance(bucket, ts) - window.count(ts);
    for (; room > 0 && waiters.length > 0; room -= 1) {
      accept(bucket, window.count(ts), ts);
      waiters.shift()?.decide(0);
    }
  }

  function deny(bucket: Bucket, waitMs: number, ts: number): void {
    bucket.deniedUntil = ts + waitMs;
    for (const waiter of bucket.waiters.splice(0)) waiter.decide(waitMs);
  }

  // ── Asking for more ───────────────────────────────────────────────────────────────────────────

  /** The keeper asks the others to give back; the others ask the keeper. */
  function ask(bucket: Bucket, ts: number): void {
    if (members.isKeeper()) {
      settle(bucket, ts);
      return;
    }
    if (members.isKeptBy(id)) busy.add(bucket);
    if (members.isKeptBy(id) || (bucket.ask && ts - bucket.ask.at < answerMs)) return;
    const count = bucket.window.count(ts);
    // More than enough is given back by the way.
    bucket.granted = Math.min(bucket.grantedNow(ts), 2 * count + 1);
    bucket.ask = { number: tell(bucket, true), at: ts };
    busy.add(bucket);
  }

  /** @returns the number of the message. */
  function tell(bucket: Bucket, isAsking: boolean): number {
    numbers += 1;
    wants.set(bucket, { number: numbers, isAsking });
    flushSoon();
    return numbers;
  }

  /** Says what this process has, and gives back what it does not use. */
  function giveBack(bucket: Bucket, ts: number): void {
    const count = bucket.window.count(ts);
    // The keeper has no grant: the rest is its own.
    bucket.granted = members.isKeptBy(id) ? 0 : Math.min(bucket.grantedNow(ts), count);
    const isAsking = bucket.ask !== undefined && !members.isKeptBy(id);
    const number = tell(bucket, isAsking);
    // A grant that is on its way counts on what is given back here: only the answer to this is taken.
    bucket.ask = isAsking ? { number, at: ts } : undefined;
  }

  /** Made when it is sent: more may wait by then. */
  function describe(bucket: Bucket, { number, isAsking }: { number: number; isAsking: boolean }): Want {
    const ts = now();
    const used = bucket.window.count(ts);
    return {
      key: bucket.key,
      limit: bucket.limit,
      number,
      granted: bucket.grantedNow(ts),
      used,
      freeMs: bucket.window.waitMs(ts),
      waiting: isAsking ? bucket.waiters.length : 0,
      extra: isAsking ? Math.max(1, 2 * used - bucket.granted) : 0,
    };
  }

  function receiveGrant({ key, to, number, total, waitMs }: Grant, ts: number): void {
    const bucket = buckets.get(key);
    if (!bucket) return;
    if (to !== id) {
      const holder = bucket.holders?.get(to);
      if (holder && number >= holder.number) holder.granted = total;
      return;
    }
    if (bucket.ask?.number !== number) return;
    bucket.granted = total;
    bucket.grantedAt = bucket.ask.at;
    bucket.ask = undefined;
    serve(bucket, ts);
    if (waitMs > 0) deny(bucket, waitMs, ts);
    else if (bucket.waiters.length > 0) ask(bucket, ts);
  }

  // ── Keeping the ledger ────────────────────────────────────────────────────────────────────────

  function receiveWant(from: string, want: Want, ts: number): void {
    const bucket = find(want.key, want.limit);
    if (!bucket.note(from, want, ts)) return;
    bucket.recall?.unheard.delete(from);
    bucket.queue.delete(from);
    if (want.waiting + want.extra > 0) bucket.queue.set(from, want);
    if (members.isKeeper()) settle(bucket, ts);
    else if (members.isKeptBy(id)) busy.add(bucket);
    else bucket.queue.clear();
  }

  /** Answers who asks, calling back what is not used when there is not enough. */
  function settle(bucket: Bucket, ts: number): void {
    serve(bucket, ts);
    for (const [from, want] of bucket.queue) {
      if (want.waiting <= freeOf(bucket, ts) || isOver(bucket, ts)) answer(bucket, from, want, ts);
    }
    if (bucket.waiters.length > 0 && isOver(bucket, ts)) deny(bucket, bucket.freeMs(ts, members), ts);
    if (bucket.queue.size === 0 && bucket.waiters.length === 0) bucket.recall = undefined;
    else busy.add(bucket);
  }

  /** Whether all that could be called back has been; begins to call back when nobody has. */
  function isOver(bucket: Bucket, ts: number): boolean {
    if (!bucket.recall) {
      const others = bucket.givers(ts).filter((other) => !bucket.queue.has(other) && members.isThere(other));
      bucket.recall = { at: ts, unheard: new Set(others) };
      if (others.length > 0) recalls.add(bucket.key);
      flushSoon();
    }
    return bucket.recall.unheard.size === 0 || ts - bucket.recall.at >= answerMs;
  }

  function answer(bucket: Bucket, to: string, want: Want, ts: number): void {
    const free = freeOf(bucket, ts);
    bucket.queue.delete(to);
    const holder = bucket.holders?.get(to);
    if (!holder) return;
    const served = Math.max(0, Math.min(want.waiting, free));
    // Who does not wait takes a part of what is left: others may come.
    const extra = Math.min(want.extra, Math.floor(Math.max(0, free - served) / 4));
    // A credit that was used is paid by the grant.
    if (free >= 0) holder.granted = Math.max(holder.granted, want.used) + served + extra;
    const waitMs = served < want.waiting ? bucket.freeMs(ts, members) : 0;
    grants.push({ key: bucket.key, to, number: want.number, total: holder.granted, waitMs });
    flushSoon();
  }

  function freeOf(bucket: Bucket, ts: number): number {
    return bucket.limit - bucket.window.count(ts) - bucket.reserved(ts, members) - bucket.waiters.length;
  }

  // ── Messages and time ─────────────────────────────────────────────────────────────────────────

  function receive(message: LimitMessage): void {
    const { from, beat, items } = message;
    if (beat) members.heard(from, beat);
    if (from === id) return;
    if (items) receiveItems(from, items, now());
    if (message.isAskingAll) tellAll();
    if (message.isAll) members.reported(from);
    if (message.isLeaving) members.left(from);
  }

  function receiveItems(from: string, { wants, grants, recalls }: Items, ts: number): void {
    for (const want of wants) receiveWant(from, want, ts);
    for (const grant of grants) receiveGrant(grant, ts);
    for (const key of recalls) {
      const bucket = buckets.get(key);
      if (bucket) giveBack(bucket, ts);
    }
  }

  /** Something may be missing: what the others hold is asked for, and what is held here is told. */
  function onGap(): void {
    ports.send({ from: id, isAskingAll: true });
    tellAll();
  }

  /** Tells what the sums need: a part below the tolerance may be forgotten. */
  function tellAll(): void {
    const ts = now();
    for (const bucket of buckets.values()) {
      const used = bucket.window.count(ts);
      if (bucket.grantedNow(ts) > 0 || used > bucket.limit * tolerance) giveBack(bucket, ts);
    }
    flush();
    ports.send({ from: id, isAll: true });
  }

  function tick(): void {
    const ts = now();
    members.tick();
    for (const bucket of untold) giveBack(bucket, ts);
    untold.clear();
    for (const bucket of busy) look(bucket, ts);
    flush();
    ports.send({ from: id, beat: members.beat() });
  }

  /** What has come to its time in a bucket. */
  function look(bucket: Bucket, ts: number): void {
    const { waiters, queue } = bucket;
    if (bucket.ask && ts - bucket.ask.at >= answerMs) bucket.ask = undefined;
    if (!members.isKeptBy(id)) queue.clear();
    serve(bucket, ts);
    if (waiters[0] && waiters[0].until <= ts) deny(bucket, retryMs, ts);
    else if (waiters.length + queue.size > 0) ask(bucket, ts);
    if (waiters.length + queue.size === 0 && !bucket.ask) busy.delete(bucket);
  }

  function flushSoon(): void {
    if (isFlushDue) return;
    isFlushDue = true;
    ports.defer(flush);
  }

  function flush(): void {
    isFlushDue = false;
    const asked = [...wants].map(([bucket, want]) => describe(bucket, want));
    const granted = grants;
    const recalled = [...recalls];
    wants.clear();
    grants = [];
    recalls.clear();
    for (let from = 0; from < Math.max(asked.length, granted.length, recalled.length); from += maxItems) {
      const items = {
        wants: asked.slice(from, from + maxItems),
        grants: granted.slice(from, from + maxItems),
        recalls: recalled.slice(from, from + maxItems),
      };
      ports.send({ from: id, items });
    }
  }

  return {
    take,
    receive,
    tick,
    leave() {
      tellAll();
      ports.send({ from: id, isLeaving: true });
    },
  };
}
