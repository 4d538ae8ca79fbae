/**
 * `/metrics` (decisions 10, Health): for Prometheus on this machine, and for whoever has the token. A request that a
 * proxy has passed on comes from somewhere else, whatever its connection says.
 */
import type { HttpRequest } from 'uWebSockets.js';
import { createHash, timingSafeEqual } from 'node:crypto';
import { ErrorBody } from '../../schemas/errors.ts';
import { normaliseAddress } from '../auth/client-address.ts';
import { contentTypes, type Format } from '../metrics/registry.ts';
import { answerJson, endHead, writeHead } from './exchange.ts';
import { type RawRoute, type RawSpec, rawRoute } from './route.ts';

export type MetricsPorts = {
  render(format: Format): Promise<string>;
  /** undefined: nobody but this machine. */
  token: string | undefined;
};

/** What decides who may read: the connection's other end, and headers. */
export type Reader = { peer: string; header(name: string): string };

export function metricsRoutes(ports: MetricsPorts): RawRoute[] {
  return (['get', 'head'] as const).map((method) =>
    rawRoute({
      method,
      path: '/metrics',
      ...(method === 'get' ? spec : {}),
      async handle(res, req, _services, exchange) {
        const peer = Buffer.from(res.getRemoteAddressAsText()).toString('latin1');
        const format = formatFor(req.getHeader('accept'));
        if (!mayReadMetrics(readerOf(req, peer), ports.token)) {
          const headers = { 'WWW-Authenticate': 'Bearer' };
          answerJson(exchange, { status: 401, body: refusal, headers }, { isHead: method === 'head' });
          return;
        }
        const text = await ports.render(format);
        if (!exchange.isOpen) return;
        const headers = { 'Content-Type': contentTypes[format], 'Cache-Control': 'no-store' };
        exchange.res.cork(() => {
          writeHead(exchange, 200, headers);
          if (method === 'head') endHead(exchange, Buffer.byteLength(text), exchange.isStopping);
          else exchange.res.end(text, exchange.isStopping);
        });
        exchange.done(200);
      },
    }),
  );
}

/** Before anything is awaited: the request is gone afterwards. */
function readerOf(req: HttpRequest, peer: string): Reader {
  return { peer, header: (name) => req.getHeader(name) };
}

export const refusal = { error: 'metrics are for this machine, or need METRICS_TOKEN as a bearer token' };

/** Headers of proxies: with one of them the peer is not who asks. */
const forwarding = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

export function mayReadMetrics({ peer, header }: Reader, token: string | undefined): boolean {
  const given = /^Bearer +(\S+)$/i.exec(header('authorization'))?.[1];
  if (token !== undefined && given !== undefined && isSame(given, token)) return true;
  return isLoopback(peer) && forwarding.every((name) => header(name) === '');
}

function isLoopback(peer: string): boolean {
  const address = normaliseAddress(peer) ?? peer;
  return address === '::1' || /^127(\.\d{1,3}){3}$/.test(address);
}

function isSame(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => createHash('sha256').update(text).digest());
  return first !== undefined && second !== undefined && timingSafeEqual(first, second);
}

export function formatFor(accept: string): Format {
  return accept.includes('application/openmetrics-text') ? 'openMetrics' : 'text';
}

const fixed = { 'Cache-Control': 'always' } as const;
const json = (description: string, headers: Record<string, 'always'> = {}) => ({
  description,
  content: { 'application/json': ErrorBody },
  headers: { ...fixed, 'X-Content-Type-Options': 'always' as const, ...headers },
});

const spec: RawSpec = {
  summary: 'What the process counts, for Prometheus',
  description:
    'For readers on the same machine, and for those with METRICS_TOKEN as a bearer token. The Prometheus text format, or OpenMetrics for those who accept it.',
  auth: 'none',
  responses: {
    200: {
      description: 'Every metric of this process',
      content: { 'text/plain': { type: 'string' }, 'application/openmetrics-text': { type: 'string' } },
      headers: fixed,
    },
    400: json('The request is malformed'),
    401: json('Neither on this machine nor with the token', { 'WWW-Authenticate': 'always' }),
    431: json('The head of the request is too large'),
    500: json('Internal error'),
    503: json('Unavailable: try again', { 'Retry-After': 'always' }),
  },
};
