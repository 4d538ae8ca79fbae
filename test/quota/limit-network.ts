/** Processes that share rate limits, in virtual time over a network that delays, loses, reorders and splits. */

import { tickMs } from '../../src/quota/limit-members.ts';
import {
  createSharedRateLimit,
  type LimitMessage,
  type SharedRateLimit,
} from '../../src/quota/shared-rate-limit.ts';
import { createRandom } from '../../src/random.ts';

export type Weather = {
  /** Delay of a message in ms, by a random number in [0, 1). */
  delayMs(random: number): number;
  /** Share of messages between processes that never arrive. */
  loss: number;
};

type Process = {
  id: string;
  limit: SharedRateLimit;
  isUp: boolean;
  /** Stands still until then: nothing runs, what arrives waits. */
  stoppedUntil: number;
  isCut: boolean;
};

type Happening = { at: number; serial: number; call(): void };

export const minuteMs = 60_000;

export class LimitNetwork {
  now = 1_000_000;
  /** Times of accepted requests, and of refused ones with what they were told. */
  readonly accepted: number[] = [];
  readonly refused: { at: number; waitMs: number }[] = [];
  /** Longest wait of a request for its answer. */
  longestHeldMs = 0;
  sent = 0;
  readonly processes = new Map<string, Process>();
  weather: Weather = { delayMs: (random) => 1 + random * 4, loss: 0 };
  private readonly random: () => number;
  private readonly lastArrival = new Map<string, number>();
  private happenings: Happening[] = [];
  private serial = 0;

  constructor(seed: number) {
    this.random = createRandom(seed);
  }

  start(id: string): void {
    const process: Process = { id, isUp: true, stoppedUntil: 0, isCut: false, limit: undefined as never };
    process.limit = createSharedRateLimit({
      id,
      now: () => this.now,
      wallTs: () => this.now,
      isConnected: () => !process.isCut,
      send: (message) => this.send(process, message),
      defer: (call) => this.run(process, 0, call),
    });
    this.processes.set(id, process);
    const tick = () => {
      process.limit.tick();
      this.run(process, tickMs, tick);
    };
    this.run(process, this.random() * tickMs, tick);
  }

  /** Ends a process without a word. */
  kill(id: string): void {
    this.get(id).isUp = false;
  }

  leave(id: string): void {
    this.get(id).limit.leave();
    this.kill(id);
  }

  stop(id: string, ms: number): void {
    this.get(id).stoppedUntil = this.now + ms;
  }

  cut(id: string, isCut: boolean): void {
    this.get(id).isCut = isCut;
  }

  /** A request, now. Nothing comes of one to a process that is down. */
  request(id: string, key: string, limit: number): void {
    const process = this.get(id);
    this.run(process, 0, () => {
      const at = this.now;
      const decided = ({ waitMs }: { waitMs: number }) => {
        if (waitMs === 0) this.accepted.push(this.now);
        else this.refused.push({ at: this.now, waitMs });
        this.longestHeldMs = Math.max(this.longestHeldMs, this.now - at);
      };
      const turn = process.limit.take(key, limit);
      if (turn instanceof Promise) void turn.then(decided);
      else decided(turn);
    });
  }

  at(ms: number, call: () => void): void {
    this.push(this.now + ms, call);
  }

  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (let next = this.next(end); next; next = this.next(end)) {
      this.now = Math.max(this.now, next.at);
      next.call();
      // What was promised is taken note of at this very time.
      await null;
      await null;
    }
    this.now = end;
  }

  /** The most that any minute holds, of what was accepted since a time. */
  mostInMinute(since = 0): number {
    const times = this.accepted.filter((at) => at >= since).sort((a, b) => a - b);
    let first = 0;
    let most = 0;
    for (const [index, at] of times.entries()) {
      while (at - (times[first] ?? 0) >= minuteMs) first += 1;
      most = Math.max(most, index - first + 1);
    }
    return most;
  }

  /** Requests accepted in the minute that ends at a time. */
  inMinuteTo(ts: number): number {
    return this.accepted.filter((at) => at <= ts && ts - at < minuteMs).length;
  }

  private get(id: string): Process {
    const found = this.processes.get(id);
    if (!found) throw new Error(`no process ${id}`);
    return found;
  }

  private send(from: Process, message: LimitMessage): void {
    this.sent += 1;
    if (from.isCut) return;
    for (const to of this.processes.values()) {
      if (to !== from && this.random() < this.weather.loss) continue;
      const path = `${from.id}>${to.id}`;
      // One connection delivers in order.
      const due = this.now + this.weather.delayMs(this.random());
      const at = Math.max(due, this.lastArrival.get(path) ?? 0);
      this.lastArrival.set(path, at);
      this.run(to, at - this.now, () => {
        if (!to.isCut) to.limit.receive(message);
      });
    }
  }

  /** Runs something in a process, if it lives, after its stop. */
  private run(process: Process, ms: number, call: () => void): void {
    this.push(this.now + ms, () => {
      if (!process.isUp) return;
      if (process.stoppedUntil > this.now) this.run(process, process.stoppedUntil - this.now, call);
      else call();
    });
  }

  private push(at: number, call: () => void): void {
    this.serial += 1;
    const happening = { at, serial: this.serial, call };
    let index = this.happenings.length;
    while (index > 0 && (this.happenings[index - 1]?.at ?? 0) <= at) index -= 1;
    // Latest first, so that the next one is the last.
    this.happenings.splice(index, 0, happening);
  }

  private next(end: number): Happening | undefined {
    const next = this.happenings.at(-1);
    return next && next.at <= end ? this.happenings.pop() : undefined;
  }
}
