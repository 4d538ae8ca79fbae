/** Draws a machine: from its definition to SVG. Slow, and needs a development package: see read.ts for the result. */
import { createAssetMachine } from '../../machines/asset.ts';
import { createDeliveryMachine } from '../../machines/delivery.ts';
import { layOut } from './layout.ts';
import { type ChartModel, readMachine } from './model.ts';
import type { ChartName } from './read.ts';
import { toSvg } from './svg.ts';
import { assetWords, deliveryWords } from './words.ts';

export const models: Record<ChartName, () => ChartModel> = {
  asset: () => readMachine(createAssetMachine(), assetWords),
  delivery: () => readMachine(createDeliveryMachine(), deliveryWords),
};

/** The same machine gives the same drawing, byte for byte. */
export async function draw(name: ChartName): Promise<string> {
  const model = models[name]();
  return toSvg(name, model, await layOut(model));
}
