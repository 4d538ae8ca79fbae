/** What is around the service: its settings, commands, client, sites that are read. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/config.test.ts',
  'test/temp-dir.test.ts',
  'test/together.test.ts',
  'test/load.test.ts',
  'test/readme.test.ts',
  'test/cli.test.ts',
  'test/outbound/*.test.ts',
  'test/brand/sites.test.ts',
  'test/brand/bad-sites.test.ts',
  'test/brand/crawler.test.ts',
  'test/cluster/settings.test.ts',
  'test/embedded/lock.test.ts',
  'test/http/raw-fuzz.test.ts',
);
