/** Spans on their way to a collector that hangs, refuses, floods or is not there: nothing but spans is lost. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { createExporter, type Span } from '../../src/tracing/exporter.ts';
import { contextOf, isSampled } from '../../src/tracing/ids.ts';
import { createTracer } from '../../src/tracing/tracer.ts';

const span: Span = {
  ...contextOf('req_1'),
  name: 'work',
  kind: 'internal',
  startTs: 1_700_000_000_000.25,
  endTs: 1_700_000_000_001,
  attributes: { text: 'x'.repeat(1_000), whole: 1, half: 0.5, yes: true, none: undefined },
  error: 'it failed',
};

async function startCollector(
  t: Test,
  answer: (response: ServerResponse, request: IncomingMessage, count: number) => void,
) {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => {
      body += piece;
    });
    request.on('end', () => answer(response, request, bodies.push(body)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { bodies, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces` };
}

/** @param timeoutMs for those that hang; what answers has all the time that it needs */
function open(url: string, timeoutMs = 10_000) {
  const warned: object[] = [];
  const log = { warn: (fields: object) => void warned.push(fields) };
  const about = { serviceName: 'assets', version: '1', instance: 'a', headers: { 'x-key': 'k' } };
  const options = { ...about, url, log, delayMs: 10, timeoutMs };
  return { exporter: createExporter(options), warned, options };
}

t.test('spans come as OTLP, in bounded batches', async (t) => {
  const { bodies, url } = await startCollector(t, (response) => response.end('{}'));
  const { exporter } = open(url);
  for (let n = 0; n < 600; n += 1) exporter.add(span);
  await exporter.close();
  const sizes = bodies.map((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans.length);
  t.strictSame(sizes, [512, 88]);
  const { resource, scopeSpans } = JSON.parse(bodies[0] ?? '').resourceSpans[0];
  t.match(resource.attributes[0], { key: 'service.name', value: { stringValue: 'assets' } });
  t.strictSame(scopeSpans[0].spans[0], {
    ...contextOf('req_1'),
    name: 'work',
    kind: 1,
    startTimeUnixNano: '1700000000000250000',
    endTimeUnixNano: '1700000000001000000',
    attributes: [
      { key: 'text', value: { stringValue: 'x'.repeat(300) } },
      { key: 'whole', value: { intValue: '1' } },
      { key: 'half', value: { doubleValue: 0.5 } },
      { key: 'yes', value: { boolValue: true } },
    ],
    status: { code: 2, message: 'it failed' },
  });
  t.match(exporter.stats(), { exported: 600, dropped: 0, failures: 0, queued: 0 });
});

t.test('a collector that is busy is asked again as it likes, one that refuses is not', async (t) => {
  const { url } = await startCollector(t, (response, _, count) => {
    response.writeHead(count === 1 ? 503 : count === 2 ? 200 : 400, { 'retry-after': '0' }).end();
  });
  const { exporter, warned } = open(url);
  exporter.add(span);
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await until(() => exporter.stats().exported === 1);
  exporter.add(span);
  await until(() => exporter.stats().dropped === 1);
  t.match(exporter.stats(), { exported: 1, dropped: 1, failures: 2 });
  t.strictSame(warned, [{ reason: 'status 503' }, { reason: 'status 400' }], 'once for each trouble');
  await exporter.close();
});

t.test('one that hangs, floods, is gone or sends elsewhere costs spans and a bounded queue', async (t) => {
  const hanging = await startCollector(t, () => undefined);
  const flooding = await startCollector(t, (response) => {
    response.writeHead(500);
    const more = setInterval(() => response.write(Buffer.alloc(65_536)), 1);
    response.on('close', () => clearInterval(more));
  });
  const moved = await startCollector(t, (response) =>
    response.writeHead(307, { location: flooding.url }).end(),
  );
  const gone = 'http://127.0.0.1:1/v1/traces';
  for (const url of [hanging.url, flooding.url, moved.url, gone]) {
    const { exporter, warned } = open(url, 200);
    for (let n = 0; n < 10_000; n += 1) exporter.add(span);
    t.ok(exporter.stats().queued <= 4_096);
    const startedAt = performance.now();
    await exporter.close();
    t.ok(performance.now() - startedAt < 8_000, 'it ends');
    t.match(exporter.stats(), { exported: 0, dropped: 10_000, queued: 0 });
    t.equal(warned.length, 1, 'it is said once');
    exporter.add(span);
    t.equal(exporter.stats().dropped, 10_001, 'after the end too');
  }
});

t.test('a share of the traces is told of, whole traces each', async (t) => {
  const { bodies, url } = await startCollector(t, (response) => response.end());
  const tracer = createTracer({ ...open(url).options, share: 0.5 });
  const ids = Array.from({ length: 200 }, (_, n) => `req_${n}`);
  for (const requestId of ids) {
    for (const name of ['one', 'two'])
      tracer.work({ requestId, name, kind: 'internal', startTs: 1, endTs: 2, attributes: {} });
    const inside = tracer.within(
      {
        requestId,
        spanId: 'a'.repeat(16),
        name: 'effect',
        kind: 'internal',
        startTs: 1,
        endTs: 2,
        attributes: {},
      },
      async () => tracer.traceparent(),
    );
    const { traceId } = contextOf(requestId);
    t.equal(await inside, isSampled(traceId, 0.5) ? `00-${traceId}-${'a'.repeat(16)}-01` : undefined);
  }
  tracer.outside({ name: 'nobody’s', kind: 'client', startTs: 1, endTs: 2, attributes: {} });
  await tracer.close();
  const told = ids.filter((id) => isSampled(contextOf(id).traceId, 0.5));
  t.ok(told.length > 60 && told.length < 140);
  const sent = bodies.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
  t.equal(sent.length, told.length * 2);
});
