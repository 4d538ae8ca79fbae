/** What is stored: database, streams, quotas, media in files and buckets. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/store/*.test.ts',
  'test/bus/*.test.ts',
  'test/quota/*.test.ts',
  'test/media/storage.test.ts',
  'test/media/upload.test.ts',
  'test/media/s3-storage.test.ts',
  'test/media/s3-service.test.ts',
);
