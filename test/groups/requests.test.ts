/** What the service is asked for over HTTP, and what it asks others for. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/http/server.test.ts',
  'test/http/asset-requests.test.ts',
  'test/http/brand.test.ts',
  'test/http/events.test.ts',
  'test/http/idempotency.test.ts',
  'test/http/media.test.ts',
  'test/http/monitor.test.ts',
  'test/http/oauth.test.ts',
  'test/http/openapi.test.ts',
  'test/http/proxy.test.ts',
  'test/http/ranges.test.ts',
  'test/dashboard/history.test.ts',
  'test/dashboard/serve.test.ts',
  'test/sse/behaviour.test.ts',
  'test/sse/hub.test.ts',
  'test/webhooks/endpoint.test.ts',
  'test/webhooks/sender.test.ts',
);
