/** What a client gets for all it may ask: every status, every spoilt request, pages, streams, webhooks. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/http/statuses.test.ts',
  'test/http/operator-console.test.ts',
  'test/http/h1.test.ts',
  'test/http/docs.test.ts',
  'test/sse/browser.test.ts',
  'test/webhooks/service.test.ts',
  'test/webhooks/receiver.test.ts',
);
