/** Waits for the end of an asset's run: told by its stream, or asked for where streams do not come through. */
import type { Asset } from '../../schemas/asset.ts';
import type { AssetEvent, EventName } from '../../schemas/events.ts';
import { ServiceError } from './error.ts';
import { ask, createLimit, pause, type Transport } from './request.ts';
import { connect } from './stream.ts';

/** An asset that can be played. */
export type ReadyAsset = Asset & { mp4_url: string; poster_url: string };

export type WaitOptions = {
  signal?: AbortSignal | undefined;
  /** How long to wait in all; a run ends within ten minutes. */
  timeoutMs?: number | undefined;
  /** Told of each event on the way, when streams come through. */
  onEvent?: ((event: AssetEvent) => void) | undefined;
};

/** A run has ended after ten minutes, one way or the other. */
const patienceMs = 11 * 60_000;
/** Whoever has lost so many streams is behind something that does not let them through. */
const maxLostStreams = 2;
const firstPauseMs = 500;
const longestPauseMs = 5_000;
const ends: readonly EventName[] = ['ready', 'failed', 'cancelled'];

/**
 * Answers the asset when it can be played.
 *
 * @throws {ServiceError} with the run's `error_code` when it has failed, `cancelled` when it was cancelled and there
 * is no earlier animation, `timeout`; or the reason of the signal
 */
export async function waitFor(
  transport: Transport,
  assetId: string,
  { signal, timeoutMs = patienceMs, onEvent }: WaitOptions = {},
): Promise<ReadyAsset> {
  const limit = createLimit(timeoutMs, signal);
  const path = `/api/assets/${encodeURIComponent(assetId)}`;
  let lost = 0;
  let pauseMs = firstPauseMs;
  try {
    for (;;) {
      const { asset } = await ask<{ asset: Asset }>(transport, 'GET', path, { signal: limit.signal });
      if (asset.status !== 'pending') return toReady(asset);
      if (lost < maxLostStreams && (await followed(transport, path, limit.signal, onEvent))) continue;
      lost += 1;
      await pause(pauseMs, limit.signal);
      pauseMs = Math.min(pauseMs * 1.5, longestPauseMs);
    }
  } finally {
    limit.end();
  }
}

/** Follows one stream; answers whether the run has ended by what it said. */
async function followed(
  transport: Transport,
  path: string,
  signal: AbortSignal,
  onEvent?: (event: AssetEvent) => void,
): Promise<boolean> {
  const place = { lastEventId: undefined, pauseMs: 0 };
  try {
    for await (const event of connect(transport, `${path}/events`, { signal }, place)) {
      onEvent?.(event);
      if (ends.includes(event.event)) return true;
    }
  } catch (cause) {
    if (signal.aborted || !(cause instanceof ServiceError)) throw cause;
  }
  return false;
}

function toReady(asset: Asset): ReadyAsset {
  const { mp4_url, poster_url, error_code, error_msg, hint, asset_id: assetId } = asset;
  if (asset.status === 'ready' && mp4_url !== null && poster_url !== null)
    return { ...asset, mp4_url, poster_url };
  throw new ServiceError(error_code ?? 'cancelled', hint ?? error_msg ?? 'the run was cancelled', {
    assetId,
  });
}
