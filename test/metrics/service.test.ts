/** What a service tells of itself while it works: numbers, traces, lines of the log. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { contextOf, parseTraceparent } from '../../src/tracing/ids.ts';
import { startStandIn } from '../fixtures/model-providers.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { startTestService } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

type SentSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  attributes: { key: string; value: { stringValue?: string } }[];
  links?: { traceId: string }[];
};

/** A collector of traces on loopback. */
const collector = { spans: [] as SentSpan[], authorization: '' };
const collecting = createServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const body = JSON.parse(String(Buffer.concat(pieces)));
    collector.authorization = String(request.headers['authorization']);
    collector.spans.push(...body.resourceSpans[0].scopeSpans[0].spans);
    response.end('{}');
  });
}).listen(0, '127.0.0.1');
await once(collecting, 'listening');

const standIn = await startStandIn(t);
const lines: Record<string, unknown>[] = [];
const token = 'metrics-token-0123456789';
const service = await startTestService(
  t,
  {
    ...standIn.settings,
    VIDEO_PROVIDER: 'runway',
    METRICS_TOKEN: token,
    METRICS_PORT: '0',
    LOG_LEVEL: 'info',
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collecting.address() as AddressInfo).port}`,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector',
  },
  { write: (line) => void lines.push(JSON.parse(line)) },
);
t.teardown(() => {
  collecting.close();
  collecting.closeAllConnections();
});
const user = await service.signUp();
const receiver = await startReceiver(t);
await user.call('PUT', `/api/projects/${user.projectId}/webhooks`, {
  webhook_url: receiver.url,
  webhook_events: ['asset.completed'],
  webhooks_enabled: true,
});
const { asset } = await standIn.make(user, '');
const refused = await standIn.make(user, 'fault:402');

async function metrics(headers: Record<string, string> = {}): Promise<string> {
  return (await fetch(`${service.base}/metrics`, { headers })).text();
}

/** The value of the first sample that begins so. */
function numberAt(text: string, begin: string): number {
  const line = text.split('\n').find((one) => one.startsWith(begin));
  return Number(line?.slice(line.lastIndexOf(' ')) ?? Number.NaN);
}

t.test('numbers say what was done, in every part', async (t) => {
  t.equal(asset.status, 'ready');
  t.equal(refused.asset.status, 'failed');
  const delivered = 'assets_webhook_attempts_total{outcome="delivered"}';
  const text = await until(metrics, (one) => numberAt(one, delivered) >= 1);
  const atLeast = (begin: string, least: number) =>
    t.ok(numberAt(text, begin) >= least, `${begin} ${numberAt(text, begin)}`);
  atLeast('assets_runs_ended_total{outcome="ready",error_code=""}', 1);
  atLeast('assets_runs_ended_total{outcome="failed",error_code="i2v_failed"}', 1);
  atLeast('assets_transitions_total{kind="asset",state="ready"}', 1);
  atLeast('assets_steps_total', 10);
  atLeast('assets_step_latency_seconds_count', 10);
  atLeast('assets_batch_commands_count', 5);
  atLeast('assets_effects_total{effect="storeWrite",outcome="done"}', 1);
  atLeast('assets_effect_wait_seconds_count{slot="video"}', 1);
  atLeast('assets_effect_slots{slot="cpu",state="waiting"}', 0);
  atLeast('assets_provider_requests_total{provider="runway",operation="submit",outcome="ok"}', 1);
  atLeast('assets_provider_requests_total{provider="runway",operation="submit",outcome="billing"}', 1);
  atLeast('assets_provider_request_duration_seconds_count{provider="local",operation="describe"}', 1);
  atLeast('assets_provider_clip_seconds_count{provider="runway"}', 1);
  atLeast('assets_http_requests_total{method="POST",route="/api/v1/prepare",status="2xx",code="200"}', 2);
  atLeast('assets_partitions_owned', 64);
  atLeast('assets_partition_lag_seconds{partition="63"}', 0);
  atLeast('assets_provider_state{provider="runway",state="ok"}', 0);
  atLeast('process_resident_memory_bytes', 1_000_000);
  atLeast('nodejs_eventloop_lag_max_seconds', 0);
  for (const begin of ['assets_bus_connected', 'assets_store_up', 'assets_build_info'])
    t.equal(numberAt(text, begin), 1, begin);
  t.equal(numberAt(text, 'assets_metrics_failures_total{look="survey"}'), 0);
  t.equal(numberAt(text, 'assets_mail_outbox'), 0);
  const cost = numberAt(text, 'assets_provider_cost_cents_total{provider="runway"}');
  const stored = await service.store.assets.find(asset.asset_id);
  const { costMicros } = stored?.machine.context ?? {};
  t.equal(cost, (costMicros ?? 0) / 10_000, 'cents');
  const form = /^[a-z0-9_]+(\{([a-z_]+="[^"\n]*",?)+\})? -?[\d.e+-]+(Inf)?$/;
  const lines = text.split('\n').filter((one) => one !== '' && !one.startsWith('#'));
  t.strictSame(
    lines.filter((line) => !form.test(line)),
    [],
  );
});

t.test('what dashboard, rules and runbooks name is there', async (t) => {
  const there = new Set([...(await metrics()).matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name));
  const files = ['deploy/grafana/dashboard.json', 'deploy/prometheus/alerts.yml'];
  const named = files.map((file) => [
    ...new Set(readFileSync(file, 'utf8').match(/\b(?:assets|nodejs|process)_[a-z0-9_]+/g) ?? []),
  ]);
  t.ok(named.every(({ length }) => length > 20));
  const missing = named.flat().filter((name) => !there.has(name.replace(/_(bucket|count|sum)$/, '')));
  t.strictSame(
    missing.filter((name) => !there.has(name)),
    [],
  );
  const shown = new Set(named.flat().map((name) => name.replace(/_(bucket|count|sum)$/, '')));
  t.strictSame(
    [...there].filter((name) => name?.startsWith('assets_') && !shown.has(name)),
    ['assets_process_cpus'],
    'what is counted is shown',
  );
});

t.test('200 for this machine and with the token, 401 for what a proxy passed on', async (t) => {
  const read = async (headers: Record<string, string>, method = 'GET') => {
    const answer = await fetch(`${service.base}/metrics`, { method, headers });
    await answer.arrayBuffer();
    return [answer.status, answer.headers.get('content-type')?.split(';')[0]];
  };
  t.strictSame(await read({}), [200, 'text/plain']);
  t.strictSame(await read({ accept: 'application/openmetrics-text;version=1.0.0,text/plain' }), [
    200,
    'application/openmetrics-text',
  ]);
  t.strictSame(await read({}, 'HEAD'), [200, 'text/plain']);
  for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip', 'via']) {
    t.strictSame(await read({ [name]: '127.0.0.1' }), [401, 'application/json'], name);
    t.strictSame(await read({ [name]: '1.2.3.4', authorization: `Bearer ${token}` }), [200, 'text/plain']);
    t.strictSame(await read({ [name]: '1.2.3.4', authorization: 'Bearer wrong' }), [401, 'application/json']);
  }
});

t.test('a trace leads from the request to states, providers and the webhook', async (t) => {
  const queued = (await user.timeline(asset.asset_id)).find(({ event }) => event === 'queued');
  const root = contextOf(queued?.request_id ?? '');
  const wanted = [
    'POST /api/v1/prepare',
    'effect animate',
    'runway submit',
    'local describe',
    'webhook attempt',
  ];
  const ofTrace = () => collector.spans.filter(({ traceId }) => traceId === root.traceId);
  const spans = await until(ofTrace, (all) => wanted.every((name) => all.some((span) => span.name === name)));
  t.equal(collector.authorization, 'Bearer collector');
  const named = (name: string) => spans.find((span) => span.name === name);
  t.match(named('POST /api/v1/prepare'), { spanId: root.spanId, parentSpanId: undefined });
  for (const name of ['effect animate', 'webhook attempt', 'asset pending.storing.writing'])
    t.equal(named(name)?.parentSpanId, root.spanId, name);
  t.equal(named('runway submit')?.parentSpanId, named('effect animate')?.spanId);
  t.ok(spans.some(({ name }) => name.startsWith('asset pending.single')));
  for (const span of spans.filter(({ parentSpanId }) => parentSpanId === root.spanId)) {
    const id = span.attributes.find(({ key }) => key === 'request_id')?.value.stringValue;
    t.equal(id, queued?.request_id);
  }
});

t.test('a caller’s trace gets the request, linked to the trace of the work', async (t) => {
  const [traceId, parent] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
  const get = (traceparent: string, id: string) =>
    fetch(`${service.base}/api/user/session`, { headers: { traceparent, 'x-request-id': id } });
  await get(`00-${traceId}-${parent}-01`, 'asked-by-a-caller');
  await get('00-not-a-trace', 'asked-by-nobody');
  const streamTraceId = 'a'.repeat(32);
  const leaving = new AbortController();
  await fetch(`${service.base}/api/assets/${asset.asset_id}/events`, {
    headers: { traceparent: `00-${streamTraceId}-${parent}-01`, cookie: user.cookie },
    signal: leaving.signal,
  });
  leaving.abort();
  const root = contextOf('asked-by-a-caller').traceId;
  const found = await until(
    () => collector.spans,
    (all) => all.some((span) => span.traceId === contextOf('asked-by-nobody').traceId),
  );
  const callers = found.filter((span) => span.traceId === traceId);
  t.match(callers, [{ name: 'GET /api/user/session', parentSpanId: parent, links: [{ traceId: root }] }]);
  t.match(
    found.filter((span) => span.traceId === root),
    [{ links: [{ traceId }] }],
  );
  const ofStream = (all: typeof found) => all.filter((span) => span.traceId === streamTraceId);
  const told = await until(
    () => collector.spans,
    (all) => ofStream(all).length > 0,
  );
  t.match(ofStream(told), [{ name: 'GET /api/assets/:id/events', parentSpanId: parent }], 'when it ends');
  t.equal(parseTraceparent(`00-${'0'.repeat(32)}-${parent}-01`), undefined);
});

t.test('one line of the log for each finished thing, with the request that caused it', async (t) => {
  const queued = (await user.timeline(asset.asset_id)).find(({ event }) => event === 'queued');
  const requestId = queued?.request_id ?? '';
  const of = (message: string) => lines.filter(({ msg }) => msg === message);
  t.match(
    of('request').find((line) => line['requestId'] === requestId),
    { method: 'post', route: '/api/v1/prepare', status: 200, ms: Number, userId: user.userId },
  );
  t.match(
    of('effect').find((line) => line['requestId'] === requestId && line['effect'] === 'animate'),
    { outcome: 'done', run: 1, attempt: 1, stage: 'single', ms: Number },
  );
  t.match(
    of('webhook attempt').find((line) => line['requestId'] === requestId),
    { attempt: 1, ms: Number, code: 200 },
  );
  const batch = of('transitions').find((line) => (line['requestIds'] as string[]).includes(requestId));
  t.match(batch, { commands: Number, steps: Number, published: Number, ms: Number, waitedMs: Number });
});
