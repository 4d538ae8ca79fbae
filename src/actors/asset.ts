/** The asset as a kind of actor: what the durable runtime must know to drive its machine. */
import {
  type AssetContext,
  assetMachineVersion,
  createAssetMachine,
  type PipelineTimes,
} from '../../machines/asset.ts';
import type { AssetStatus } from '../../schemas/asset.ts';
import { asset as limits } from '../../schemas/limits.ts';
import type { ActorKind, ActorStorePort } from './kind.ts';
import { createStepper, type StoredSnapshot } from './step.ts';

export function createAssetKind(store: ActorStorePort, times: PipelineTimes): ActorKind {
  return {
    name: 'asset',
    stepper: createStepper(createAssetMachine(times)),
    machineVersion: assetMachineVersion,
    migrate: refuseUnknownVersion,
    store,
    startMessage: { type: 'START' },
    lostMessage: { type: 'RECONCILE' },
    publishedFact: ({ options, ...fact }, { id, project }) => ({
      ...fact,
      asset_id: id,
      project_id: project,
      ...(options ? { options } : {}),
    }),
    index(snapshot) {
      const context = contextOf(snapshot);
      const { mode, model } = context.options;
      return { status: statusOf(snapshot), run: context.run, mode, model, requestId: context.requestId };
    },
    beginsRun: (event) => event === 'queued',
    isErased: ({ value }) => value === 'erased',
    earlierFactsKept: limits.earlierFactsKept,
    workFields(snapshot) {
      const { plan, runStartedTs, requestId } = contextOf(snapshot);
      return { plan, since: runStartedTs, requestId };
    },
  };
}

export const contextOf = ({ context }: StoredSnapshot): AssetContext => context as AssetContext;

/** Status as clients see it. A cancelled run leaves what an earlier one made (decisions 3, Cancel). */
export function statusOf(snapshot: StoredSnapshot): AssetStatus {
  switch (snapshot.value) {
    case 'ready':
      return 'ready';
    case 'failed':
    // Nobody is shown an erased asset: it only must not count as pending.
    case 'erased':
      return 'failed';
    case 'cancelled':
      return contextOf(snapshot).media ? 'ready' : 'failed';
    default:
      return 'pending';
  }
}

function refuseUnknownVersion(_: StoredSnapshot, fromVersion: number): never {
  throw new Error(
    `no migration leads from version ${fromVersion} of the asset machine to ${assetMachineVersion}`,
  );
}
