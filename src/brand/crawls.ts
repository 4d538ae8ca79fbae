/**
 * Asking for a crawl (specification 4.2, decisions 7): from the cache that all users share, from one that is under
 * way, or by a new one that a worker makes and the asking user's quota counts.
 *
 *   cached in the last 24 hours ──────────────▶ found, free
 *   claimed by another request, any process ──▶ its end, free
 *   claimed by this one ─▶ quota ─▶ worker ───▶ found, counted; failed or busy, given back
 *
 * The claim comes before the quota: of one user's many requests for one domain the last crawl of the month serves all.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { crawl as limits } from '../../schemas/limits.ts';
import type { CrawlHold, CrawlQuota } from '../quota/crawls.ts';
import type { CrawlState, CrawlStore } from '../store/crawls.ts';
import type { CrawlKind, CrawlReply, CrawlResults } from './crawl-request.ts';

export type Crawled<Result> =
  | { outcome: 'found'; result: Result }
  /** `detail` is for the customer. */
  | { outcome: 'failed'; detail: string }
  | { outcome: 'exhausted' }
  | { outcome: 'busy' };

export type CrawlPorts = {
  store: CrawlStore;
  quota: CrawlQuota;
  /** Has a worker do it. @throws when none answers in time. */
  askWorker(work: { kind: CrawlKind; domain: string; timeoutMs: number }): Promise<CrawlReply>;
  now(): number;
  newId(prefix: string): string;
};

export type Crawls = {
  /**
   * @param domain in normal form: see domain.ts.
   * @throws when no worker or no store answers; nothing is counted then.
   */
  find<Kind extends CrawlKind>(
    kind: Kind,
    domain: string,
    userId: string,
  ): Promise<Crawled<CrawlResults[Kind]>>;
};

const totalMs: Record<CrawlKind, number> = { detect: limits.detectMs, deep: limits.deepMs };
/** A claim of a process that has died is free after this long. */
const leaseMs = 15_000;
const renewMs = 5_000;
const pollMs = 200;

export function createCrawls(ports: CrawlPorts): Crawls {
  const { store, quota, askWorker, now, newId } = ports;
  const waits = new Map<string, Promise<CrawlState>>();

  const find = async (kind: CrawlKind, domain: string, userId: string): Promise<Crawled<unknown>> => {
    const key = `${kind}:${domain}`;
    const startedMs = performance.now();
    const leftMs = () => startedMs + totalMs[kind] - performance.now();
    for (let awaited: string | undefined; leftMs() > 0; ) {
      const state =
        awaited === undefined ? await store.look(key, now()) : await whenOver(key, awaited, leftMs());
      const ended = endOf(state, awaited);
      if (ended) return ended;
      awaited = state.claimId;
      if (awaited !== undefined) continue;
      const claimId = newId('clm');
      const isOurs = await store.claim(key, { id: claimId, untilTs: now() + leaseMs }, now());
      if (isOurs) return make({ kind, domain, timeoutMs: Math.max(1, leftMs()) }, { key, claimId, userId });
    }
    return { outcome: 'busy' };
  };

  /** Makes the crawl that this process has claimed. */
  const make = async (
    work: { kind: CrawlKind; domain: string; timeoutMs: number },
    { key, claimId, userId }: { key: string; claimId: string; userId: string },
  ): Promise<Crawled<unknown>> => {
    let hold: CrawlHold | 'exhausted' | undefined;
    const undo = async () => {
      await store.release(key, claimId);
      if (typeof hold === 'object') await quota.giveBack(hold);
    };
    const lease = keepLease(key, claimId);
    try {
      hold = await quota.take(userId);
      const reply = hold === 'exhausted' ? { outcome: hold } : await askWorker(work);
      if (reply.outcome === 'found') {
        await store.finish(key, claimId, reply.result, now());
        if (hold !== 'exhausted') await quota.settle(hold);
        return { outcome: 'found', result: reply.result };
      }
      if (reply.outcome === 'failed') await store.fail(key, claimId, reply.detail);
      await undo();
      return reply;
    } catch (cause) {
      // Should the store be away as well, the lease ends by itself, and the hold counts no more after a while.
      await undo().catch(() => undefined);
      throw cause;
    } finally {
      clearInterval(lease);
    }
  };

  /** Where the store does not answer the lease is lost, and another process crawls too: harmless. */
  const keepLease = (key: string, id: string) =>
    setInterval(() => void store.renew(key, { id, untilTs: now() + leaseMs }).catch(() => false), renewMs);

  /** Resolves when a claim is over, or the time is up. All of this process who wait for one share the looking. */
  const whenOver = (key: string, claimId: string, ms: number): Promise<CrawlState> => {
    const known = waits.get(claimId);
    if (known) return known;
    const waiting = pollUntilOver(key, claimId, ms).finally(() => waits.delete(claimId));
    waits.set(claimId, waiting);
    return waiting;
  };

  const pollUntilOver = async (key: string, claimId: string, ms: number): Promise<CrawlState> => {
    const untilMs = performance.now() + ms;
    for (;;) {
      const state = await store.look(key, now());
      if (state.claimId !== claimId || performance.now() >= untilMs) return state;
      await sleep(pollMs);
    }
  };

  // The kind decides what the worker answers: see crawl-request.ts.
  return { find: find as Crawls['find'] };
}

/** What a state means for who has waited for a claim; undefined when there is nothing yet. */
function endOf({ result, failure }: CrawlState, awaited: string | undefined): Crawled<unknown> | undefined {
  if (result !== undefined) return { outcome: 'found', result };
  if (failure && failure.claimId === awaited) return { outcome: 'failed', detail: failure.detail };
  return undefined;
}
