/**
 * How hard an endpoint may be tried: ten at once, and one now and then while everything fails.
 *
 * What waits meanwhile waits without an attempt, so that an endpoint that is down for an hour loses nothing.
 */

/** Failures without a success in between after which an endpoint counts as down. */
const failuresToOpen = 20;
const failuresToSuspect = 3;
const firstWaitMs = 1_000;
const maxWaitMs = 30_000;

export class Circuit {
  private failures = 0;
  private openedAt = 0;
  private waitMs = 0;
  private nextAt = 0;

  get isOpen(): boolean {
    return this.failures >= failuresToOpen;
  }

  /** Some failures in a row: it is not down yet, but others need not wait for it. */
  get isSuspect(): boolean {
    return this.failures >= failuresToSuspect;
  }

  /** How many attempts may be under way now (monotonic ms), of at most `most`. */
  allowed(now: number, most: number): number {
    if (!this.isOpen) return most;
    return now >= this.nextAt ? 1 : 0;
  }

  succeeded(): void {
    this.failures = 0;
  }

  /** @param startedAt of the attempt: those that were under way when the circuit opened are no probes. */
  failed(startedAt: number, now: number): void {
    const wasOpen = this.isOpen;
    this.failures += 1;
    if (!this.isOpen || (wasOpen && startedAt < this.openedAt)) return;
    if (!wasOpen) this.openedAt = now;
    this.waitMs = wasOpen ? Math.min(maxWaitMs, this.waitMs * 2) : firstWaitMs;
    this.nextAt = now + this.waitMs;
  }

  /** Somebody waits in front of a screen: the next probe begins at once. */
  hurry(): void {
    this.nextAt = 0;
  }
}
