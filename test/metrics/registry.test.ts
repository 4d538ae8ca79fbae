/** Numbers as Prometheus reads them: their text, their bounds, and what becomes of a look that hangs. */
import t from 'tap';
import { HttpMeter } from '../../src/metrics/http-meter.ts';
import { createLagWatch } from '../../src/metrics/lag.ts';
import { createRegistry } from '../../src/metrics/registry.ts';

t.test('every kind of metric is written in the text format', async (t) => {
  const registry = createRegistry();
  const requests = registry.counter({ name: 'requests_total', help: 'Requests.', labels: ['route'] });
  requests.of('/a"b\\c\nd').add(2);
  registry.counter({ name: 'plain_total', help: 'One.' });
  registry.gauge({ name: 'unknown', help: 'Nobody knows.' }, () => undefined);
  registry.gauge({ name: 'now', help: 'Of now.', labels: ['of'] }, () => [[['x'], 1.5]]);
  const times = registry.histogram({ name: 'time_seconds', help: 'Times.', bounds: [0.1, 1] }).of();
  for (const value of [0.05, 0.1, 0.5, 7]) times.observe(value);
  t.equal(
    await registry.render(),
    `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{route="/a\\"b\\\\c\\nd"} 2
# HELP plain_total One.
# TYPE plain_total counter
plain_total 0
# HELP unknown Nobody knows.
# TYPE unknown gauge
# HELP now Of now.
# TYPE now gauge
now{of="x"} 1.5
# HELP time_seconds Times.
# TYPE time_seconds histogram
time_seconds_bucket{le="0.1"} 2
time_seconds_bucket{le="1"} 3
time_seconds_bucket{le="+Inf"} 4
time_seconds_count 4
time_seconds_sum 7.65
`,
  );
  const open = await registry.render('openMetrics');
  t.match(open, /# TYPE requests counter\nrequests_total\{/, 'a counter is declared without its ending');
  t.match(open, /# EOF\n$/);
  t.throws(() => registry.gauge({ name: 'now', help: 'Twice.' }, () => 1), /there twice/);
});

t.test('sets of labels are bounded: what comes after is counted together', async (t) => {
  const registry = createRegistry();
  const family = registry.counter({ name: 'many_total', help: 'Many.', labels: ['id'] });
  for (let n = 0; n < 3_000; n += 1) family.of(String(n)).add();
  t.ok(family.children.size <= 1_001);
  t.match(await registry.render(), /many_total\{id="other"\} 2000/);
});

t.test('a look that fails or hangs costs its own values alone, and is not begun twice', async (t) => {
  const registry = createRegistry();
  let begun = 0;
  let end: (() => void) | undefined;
  registry.prepare('hangs', () => {
    begun += 1;
    return new Promise((resolve) => {
      end = resolve;
    });
  });
  registry.prepare('fails', () => Promise.reject(new Error('no')));
  registry.gauge({ name: 'here', help: 'Here.' }, () => 1);
  t.match(await registry.render(), /here 1/);
  t.match(await registry.render(), /here 1/);
  t.equal(begun, 1);
  t.strictSame(registry.failures(), [
    [['hangs'], 2],
    [['fails'], 2],
  ]);
  end?.();
});

t.test('requests are counted by route, status and class; streams have no duration', async (t) => {
  const meter = new HttpMeter();
  const registry = createRegistry();
  meter.describe(registry);
  const route = meter.route('get', '/api/assets/:id');
  t.equal(meter.route('get', '/api/assets/:id'), route, 'one for each');
  route.finished(200, 30);
  route.finished(499, 30);
  meter.route('get', '/api/assets/:id/events').finished(200, 300_000);
  meter.refused('rate_limited');
  const text = await registry.render();
  const labels = 'method="GET",route="/api/assets/:id"';
  t.ok(text.includes(`assets_http_requests_total{${labels},status="2xx",code="200"} 1`));
  t.ok(text.includes(`assets_http_requests_total{${labels},status="4xx",code="499"} 1`));
  t.ok(text.includes(`assets_http_request_duration_seconds_bucket{${labels},le="0.025"} 0`));
  t.ok(text.includes(`assets_http_request_duration_seconds_bucket{${labels},le="0.1"} 2`));
  t.notMatch(text, /duration_seconds_count\{method="GET",route="\/api\/assets\/:id\/events"/);
  t.ok(text.includes('assets_http_errors_total{code="rate_limited"} 1'));
  t.strictSame([route.count(200, 499), route.count(500)], [2, 0]);
});

t.test('a partition is as far behind as the first end of the stream that it has not reached', async (t) => {
  const lag = createLagWatch();
  lag.note(10, 1_000);
  lag.note(20, 2_000);
  lag.note(20, 5_000);
  t.equal(lag.secondsBehind(20, 9_000), 0);
  t.equal(lag.secondsBehind(15, 9_000), 7);
  t.equal(lag.secondsBehind(0, 9_000), 8);
  for (let n = 0; n < 2_000; n += 1) lag.note(100 + n, 10_000 + n);
  t.equal(lag.secondsBehind(5, 20_000), 19, 'the oldest is kept');
  lag.note(3, 30_000);
  t.equal(lag.secondsBehind(0, 31_000), 1, 'a stream that was made anew');
  t.equal(lag.secondsBehind(3, 31_000), 0);
});
