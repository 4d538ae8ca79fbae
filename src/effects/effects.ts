/** Every effect of an asset, with the slots it needs. A machine's effect without a line here does not compile. */
import type { AssetEffects } from '../../machines/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import type { ErrorCode } from '../../schemas/errors.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { animate } from './animate.ts';
import { cancelVideo } from './cancel-video.ts';
import { cleanUp } from './clean-up.ts';
import type { EffectContext, EffectDeps } from './deps.ts';
import { fetchSource } from './fetch-source.ts';
import { merge } from './merge.ts';
import { storeWrite } from './store-write.ts';
import { vision } from './vision.ts';

type EffectOf<Params> = {
  slot: 'cpu' | 'io' | 'video';
  errorCode: ErrorCode;
  run(params: Params, context: EffectContext, deps: EffectDeps): Promise<AssetMessage | undefined>;
};

const assetEffects: { [Name in keyof AssetEffects]: EffectOf<AssetEffects[Name]> } = {
  fetchSource: { slot: 'io', errorCode: 'source_unfetchable', run: fetchSource },
  vision: { slot: 'cpu', errorCode: 'vision_timeout', run: vision },
  animate: { slot: 'video', errorCode: 'i2v_failed', run: animate },
  merge: { slot: 'cpu', errorCode: 'merge_failed', run: merge },
  storeWrite: { slot: 'io', errorCode: 'store_write_failed', run: storeWrite },
  cancelVideo: { slot: 'io', errorCode: 'i2v_failed', run: cancelVideo },
  cleanUp: { slot: 'io', errorCode: 'store_write_failed', run: cleanUp },
};

/** The effects as the worker runs them. */
export function createAssetEffects(deps: EffectDeps) {
  return Object.fromEntries(
    Object.entries(assetEffects).map(([name, { slot, errorCode, run }]) => [
      name,
      {
        slot,
        errorCode,
        perProject: (plan: string) => plans[plan as PlanName].concurrentRuns,
        run: (params: never, context: EffectContext) => run(params, context, deps),
      },
    ]),
  );
}
