/** How an animation comes about: machines, their owners and timers, effects, providers, clips. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/machines/*.test.ts',
  'test/actors/*.test.ts',
  'test/effects/*.test.ts',
  'test/providers/local-video.test.ts',
  'test/providers/local-vision.test.ts',
  'test/providers/contract.test.ts',
  'test/providers/signatures.test.ts',
  'test/media/clip-check.test.ts',
  'test/media/render.test.ts',
  'test/charts/*.test.ts',
);
