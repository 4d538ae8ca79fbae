/**
 * One world: virtual time, one source of chance, one queue of events, and a hash of everything that has happened.
 *
 * An event belongs to a host, whose code it runs, or to a server. Between two events of hosts every promise is
 * followed to its end, so that the order of everything follows from the seed alone.
 */
import type { Clock } from '../actors/clock.ts';
import { createRandom } from '../random.ts';

export type Task = {
  at: number;
  serial: number;
  host: Host | undefined;
  call: () => void;
  isCancelled: boolean;
};

export const startTs = 1_700_000_000_000;
/** Turns of the event loop that are asked for at once. */
const turnsAtOnce = 64;
/** Lines of the trace that a violation shows. */
const maxLines = 400;

export class World {
  /** Ms since the beginning. */
  now = 0;
  steps = 0;
  /** The first thing that was wrong: nothing happens after it. */
  violation: string | undefined;
  readonly random: () => number;
  private hash = 0x811c9dc5;
  private serial = 0;
  private readonly queue: Task[] = [];
  private readonly lines: string[] = [];

  constructor(seed: number) {
    this.random = createRandom(seed);
  }

  /** A whole number from `low` to `high`. */
  between(low: number, high: number): number {
    return low + Math.floor(this.random() * (high - low + 1));
  }

  chance(share: number): boolean {
    return share > 0 && this.random() < share;
  }

  pick<Thing>(things: readonly Thing[]): Thing | undefined {
    return things[Math.floor(this.random() * things.length)];
  }

  /** Calls after some ms; `host` is whose code that runs. */
  after(ms: number, host: Host | undefined, call: () => void): Task {
    this.serial += 1;
    const task = {
      at: this.now + Math.max(0, Math.ceil(ms)),
      serial: this.serial,
      host,
      call,
      isCancelled: false,
    };
    push(this.queue, task);
    return task;
  }

  /** Notes what has happened, for the hash and for who reads the trace of a violation. */
  note(text: string): void {
    for (let n = 0; n < text.length; n += 1) this.mix(text.charCodeAt(n));
    if (this.lines.length >= maxLines) this.lines.splice(0, maxLines / 2);
    this.lines.push(`${this.now} ${text}`);
  }

  fail(invariant: string, text: string): void {
    this.violation ??= `${invariant}: ${text}`;
  }

  trace(): { hash: string; lines: readonly string[] } {
    return { hash: (this.hash >>> 0).toString(16).padStart(8, '0'), lines: this.lines };
  }

  /** Lets some ms pass with everything that they bring. Ends early at a violation. */
  advance(ms: number): Promise<void> {
    const end = this.now + ms;
    return new Promise((resolve) => {
      let left = 0;
      let isOver = false;
      const turn = () => {
        if (isOver) return;
        if (this.violation !== undefined || !this.performOne(end)) {
          isOver = true;
          resolve();
          return;
        }
        left -= 1;
        if (left === 0) ask();
      };
      const ask = () => {
        left = turnsAtOnce;
        for (let n = 0; n < turnsAtOnce; n += 1) setImmediate(turn);
      };
      ask();
    });
  }

  /** Performs events up to the first that has run a host's code, whose promises are then to be followed. */
  private performOne(end: number): boolean {
    for (;;) {
      const [next] = this.queue;
      if (!next || next.at > end) {
        this.now = end;
        return false;
      }
      pop(this.queue);
      this.now = next.at;
      if (this.perform(next)) return true;
    }
  }

  private perform(task: Task): boolean {
    const { host, call, isCancelled } = task;
    if (isCancelled || host?.isDead) return false;
    if (host?.isPaused) {
      host.hold(task);
      return false;
    }
    this.steps += 1;
    this.mix(task.at);
    this.mix(task.serial);
    call();
    return host !== undefined;
  }

  private mix(value: number): void {
    this.hash = Math.imul(this.hash ^ value, 0x01000193);
  }
}

/** A process: its clock, and whether its code runs. */
export class Host implements Clock {
  readonly name: string;
  readonly world: World;
  isDead = false;
  isPaused = false;
  /** How far its wall clock is off, in ms. */
  skewMs = 0;
  /** Of what it had sent when it died, nothing arrives after the first that does not. */
  isSilent = false;
  private held: Task[] = [];

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
  }

  now = (): number => startTs + this.world.now + this.skewMs;
  monotonic = (): number => this.world.now;
  after = (ms: number, call: () => void): (() => void) => {
    const task = this.world.after(ms, this, call);
    return () => {
      task.isCancelled = true;
    };
  };
  nextTurn = (call: () => void): void => {
    this.world.after(0, this, call);
  };

  /** Nothing of it happens any more: what it waits for never comes. */
  kill(): void {
    this.isDead = true;
    this.held = [];
  }

  pause(): void {
    this.isPaused = true;
  }

  /** Everything that was due meanwhile happens now, in its order. */
  resume(): void {
    this.isPaused = false;
    for (const { call, isCancelled } of this.held) if (!isCancelled) this.world.after(0, this, call);
    this.held = [];
  }

  hold(task: Task): void {
    this.held.push(task);
  }

  /** Whether something that it sent arrives: what a process had sent when it died may or may not. */
  isHeard(): boolean {
    if (this.isDead && !this.isSilent) this.isSilent = this.world.chance(0.5);
    return !this.isSilent;
  }
}

// ── A heap by time, then by order of asking ─────────────────────────────────────────────────────

function isBefore(a: Task, b: Task): boolean {
  return a.at < b.at || (a.at === b.at && a.serial < b.serial);
}

function push(heap: Task[], task: Task): void {
  let place = heap.length;
  heap.push(task);
  while (place > 0) {
    const above = (place - 1) >> 1;
    const parent = heap[above] as Task;
    if (!isBefore(task, parent)) break;
    heap[place] = parent;
    place = above;
  }
  heap[place] = task;
}

function pop(heap: Task[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let place = 0;
  for (;;) {
    const child = firstChild(heap, place);
    const below = heap[child];
    if (below === undefined || !isBefore(below, last)) break;
    heap[place] = below;
    place = child;
  }
  heap[place] = last;
}

/** The earlier of an entry's two children. */
function firstChild(heap: Task[], place: number): number {
  const left = 2 * place + 1;
  const [a, b] = [heap[left], heap[left + 1]];
  return a && b && isBefore(b, a) ? left + 1 : left;
}
