/** Whole runs: from a source to an animation, by every provider, through proxies and lost streams. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/service.test.ts',
  'test/providers/service.test.ts',
  'test/deploy/proxies.test.ts',
  'test/lost-streams.test.ts',
);
