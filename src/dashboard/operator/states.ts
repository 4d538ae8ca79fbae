/** Names of states to choose from; test/dashboard/operator.test.ts holds them against the machines. */
import type { MachineKind } from '../../../schemas/operator-console.ts';

const clip = ['submitting', 'waiting', 'copying', 'retrying'];
const stages: Record<string, readonly string[]> = {
  source: ['fetching', 'retrying'],
  vision: ['asked', 'describing', 'retrying'],
  stage1: clip,
  stage2: clip,
  single: clip,
  merge: ['asked', 'merging', 'retrying'],
  storing: ['writing', 'retrying'],
};

export const stateNames: Record<MachineKind, readonly string[]> = {
  asset: [
    'new',
    'pending',
    ...Object.entries(stages).flatMap(([stage, steps]) => [
      `pending.${stage}`,
      ...steps.map((step) => `pending.${stage}.${step}`),
    ]),
    ...['ready', 'failed', 'cancelled', 'erased'],
  ],
  delivery: ['pending', 'sending', 'retrying', 'delivered', 'dead', 'cancelled'],
};
