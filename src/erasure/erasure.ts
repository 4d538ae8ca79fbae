/** Erasing assets and accounts: what requests begin, and the scheduler brings to its end. */
import { type Clock, every } from '../actors/clock.ts';
import { type AccountErasurePorts, createAccountErasure } from './accounts.ts';
import { type AssetErasurePorts, createAssetErasure } from './assets.ts';
import { createErasers, type EraserPorts } from './erasers.ts';

export type Erasure = ReturnType<typeof createErasure>;

export type ErasurePorts = AssetErasurePorts & Omit<AccountErasurePorts, 'erasers'> & EraserPorts;

/** Assets that one process erases at once. */
const atOnce = 8;
/** How long accounts, and then assets, are gone on with at once, in ms. */
const roundMs = 2_000;
const pauseMs = 1_000;

export function createErasure(ports: ErasurePorts) {
  const assets = createAssetErasure(ports);
  const accounts = createAccountErasure({ ...ports, erasers: createErasers(ports) });

  /** Everything that is due, as far as it fits a round. Two processes at once are harmless. */
  const round = async (clock: Pick<Clock, 'monotonic'>): Promise<void> => {
    const repeat = async (next: () => Promise<boolean>) => {
      const endAt = clock.monotonic() + roundMs;
      while (clock.monotonic() < endAt && (await next()));
    };
    await repeat(accounts.next);
    // Mostly there is none, which one look tells.
    if (!(await assets.next())) return;
    await Promise.all(Array.from({ length: atOnce }, () => repeat(assets.next)));
  };

  return {
    eraseAsset: assets.erase,
    eraseAccount: accounts.erase,
    round,

    /** A duty of the scheduler. */
    start: (clock: Clock, onError: (cause: unknown) => void): { stop(): Promise<void> } =>
      every(clock, pauseMs, () => round(clock), onError),
  };
}
