/**
 * A port for those who watch the process, which workers and schedulers have too: `/metrics`, `/healthz`, `/readyz`.
 * Node's own server: it is asked a few times a minute, and must not share anything with what it tells of.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { contentTypes } from '../metrics/registry.ts';
import { formatFor, type MetricsPorts, mayReadMetrics, refusal } from './metrics.ts';

export type MonitorOptions = MetricsPorts & {
  host: string;
  /** 0: any free one. */
  port: number;
  ready(signal: AbortSignal): Promise<{ ok: boolean; failing: string[] }>;
};

export type Monitor = { port: number; close(): Promise<void> };

const maxConnections = 64;
const requestMs = 5_000;
const readyMs = 2_000;

/** @throws when the port is not to be had. */
export async function startMonitor(options: MonitorOptions): Promise<Monitor> {
  const { host, port } = options;
  const server = createServer({ requestTimeout: requestMs, maxHeaderSize: 8_192 }, (request, response) => {
    answer(request, response, options).catch(() => respond(response, 500, { error: 'internal error' }));
  });
  server.maxConnections = maxConnections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', () =>
      reject(new Error(`METRICS_PORT: cannot listen on ${host}:${port}: is another process using the port?`)),
    );
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { render, token, ready }: MonitorOptions,
): Promise<void> {
  const [path] = (request.url ?? '').split('?', 1);
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return respond(response.setHeader('Allow', 'GET, HEAD'), 405, { error: 'method not allowed' });
  if (path === '/healthz') return respond(response, 200, { ok: true });
  if (path === '/readyz') {
    const readiness = await ready(AbortSignal.timeout(readyMs));
    return respond(response, readiness.ok ? 200 : 503, readiness);
  }
  if (path !== '/metrics') return respond(response, 404, { error: 'not found' });

  const header = (name: string) => String(request.headers[name] ?? '');
  if (!mayReadMetrics({ peer: request.socket.remoteAddress ?? '', header }, token))
    return respond(response.setHeader('WWW-Authenticate', 'Bearer'), 401, refusal);
  const format = formatFor(header('accept'));
  const text = await render(format);
  response.writeHead(200, { 'Content-Type': contentTypes[format], 'Cache-Control': 'no-store' }).end(text);
}

function respond(response: ServerResponse, status: number, body: object): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' };
  response.writeHead(status, headers).end(JSON.stringify(body));
}
