/**
 * The processes that share rate limits: who is there, and which one of them keeps the ledger (the keeper, the
 * one that has been there longest).
 *
 * Each beats every tick, and hears its own beats too. The bus delivers in order, so a beat of one's own that
 * has come back says that everything sent before it was heard. Only while that is recent (`leaseMs`) does a
 * process act as keeper; the others wait for longer than that (`silentTicks`) before they take its place, so
 * two never act at once, however long one of them stands still. Silence is counted in one's own ticks: a
 * process that was stopped itself must not take that for the others' silence.
 */

export type Beat = {
  /** When its sender took its place in the order of keepers, unix ms; null while it is still looking around. */
  since: number | null;
  /** Its sender's clock. */
  at: number;
};

export type MemberPorts = {
  id: string;
  /** Monotonic, in ms. */
  now(): number;
  /** Unix ms. */
  wallTs(): number;
  isConnected(): boolean;
  /** What was sent and heard until now may be incomplete: this process was cut off, or is the new keeper. */
  onGap(): void;
};

export const tickMs = 100;
const leaseMs = 1_500;
const silentTicks = 20;
/** How long a new process looks around for others before it takes its place. */
const joinMs = 250;
/** How long a new keeper waits for what the others hold. */
const settleMs = 1_000;
/** A process that is gone is remembered for as long as what it accepted counts. */
const rememberedMs = 120_000;

type Member = { since: number | null; ticks: number };

export class Members {
  private readonly ports: MemberPorts;
  private readonly others = new Map<string, Member>();
  private readonly diedAt = new Map<string, number>();
  private since: number | null = null;
  private firstHeardAt: number | undefined;
  /** Sending time of the newest own beat that came back. */
  private echoAt = Number.NEGATIVE_INFINITY;
  private ticksUnheard = 0;
  private keeper: string | undefined;
  private settlingUntil = Number.NEGATIVE_INFINITY;
  private unsettled = new Set<string>();

  constructor(ports: MemberPorts) {
    this.ports = ports;
  }

  /** Processes that are there, this one included. */
  get count(): number {
    return this.others.size + 1;
  }

  /** With those that are gone but remembered. */
  get countRecent(): number {
    return this.count + this.diedAt.size;
  }

  /** Nobody can be heard: this process is on its own. */
  isCutOff(): boolean {
    return this.ticksUnheard >= silentTicks || !this.ports.isConnected();
  }

  /** Whether what this process knows is recent enough to be relied on. */
  isFresh(): boolean {
    return this.ports.now() - this.echoAt < leaseMs;
  }

  isKeeper(): boolean {
    return this.keeper === this.ports.id && this.isFresh() && this.isSettled();
  }

  isKeptBy(id: string): boolean {
    return this.keeper === id;
  }

  isThere(id: string): boolean {
    return this.others.has(id);
  }

  /** When a process was last found to be gone, by the own clock. */
  goneAt(id: string): number {
    return this.diedAt.get(id) ?? Number.POSITIVE_INFINITY;
  }

  beat(): Beat {
    return { since: this.since, at: this.ports.now() };
  }

  heard(from: string, beat: Beat): void {
    if (from === this.ports.id) this.heardSelf(beat);
    else {
      this.others.set(from, { since: beat.since, ticks: 0 });
      this.diedAt.delete(from);
    }
    this.elect();
  }

  /** A process goes, and says so. */
  left(from: string): void {
    if (this.others.delete(from)) this.diedAt.set(from, this.ports.now());
    this.unsettled.delete(from);
    this.elect();
  }

  /** A process has told what it holds. */
  reported(from: string): void {
    this.unsettled.delete(from);
  }

  /** To be called every `tickMs`. */
  tick(): void {
    const now = this.ports.now();
    this.ticksUnheard += 1;
    for (const [id, member] of this.others) {
      member.ticks += 1;
      if (member.ticks >= silentTicks) this.left(id);
    }
    for (const [id, at] of this.diedAt) if (now - at > rememberedMs) this.diedAt.delete(id);
    const hasLooked = this.firstHeardAt !== undefined && now - this.firstHeardAt >= joinMs;
    if (this.since === null && hasLooked) {
      const known = [...this.others.values()].map(({ since }) => since ?? 0);
      this.since = Math.max(this.ports.wallTs(), ...known.map((since) => since + 1));
    }
    this.elect();
  }

  private isSettled(): boolean {
    return this.unsettled.size === 0 || this.ports.now() >= this.settlingUntil;
  }

  private heardSelf(beat: Beat): void {
    const wasCutOff = beat.at - this.echoAt >= leaseMs;
    this.firstHeardAt ??= this.ports.now();
    this.echoAt = Math.max(this.echoAt, beat.at);
    this.ticksUnheard = 0;
    if (wasCutOff) this.begin();
  }

  private elect(): void {
    const before = this.keeper;
    let first = this.since;
    this.keeper = this.since === null ? undefined : this.ports.id;
    for (const [id, { since }] of this.others) {
      if (since === null || (first !== null && !isBefore(since, id, first, this.keeper))) continue;
      first = since;
      this.keeper = id;
    }
    if (this.keeper !== before && this.keeper === this.ports.id) this.begin();
  }

  /** What is known may be incomplete: the others are asked, before this process acts as keeper. */
  private begin(): void {
    this.unsettled = new Set(this.others.keys());
    this.settlingUntil = this.ports.now() + settleMs;
    this.ports.onGap();
  }
}

function isBefore(since: number, id: string, than: number, thanId: string | undefined): boolean {
  return since < than || (since === than && id < (thanId ?? ''));
}
