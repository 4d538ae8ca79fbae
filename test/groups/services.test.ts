/** The whole service, several times: what it measures, keeps, erases, and does with the providers' faults. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/metrics/*.test.ts',
  'test/tracing/*.test.ts',
  'test/erasure/*.test.ts',
  'test/care/*.test.ts',
  'test/providers/fallback.test.ts',
  'test/no-secrets-told.test.ts',
);
