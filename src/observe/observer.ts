/** Everything that watches this process, put together once at the start: numbers, traces, and who is told of them. */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assetMachineVersion } from '../../machines/asset.ts';
import { deliveryMachineVersion } from '../../machines/delivery.ts';
import type { OpenExchange } from '../http/exchange.ts';
import { HttpMeter } from '../metrics/http-meter.ts';
import { watchProcess } from '../metrics/process-metrics.ts';
import { createRegistry, type Registry } from '../metrics/registry.ts';
import type { Tracer } from '../tracing/tracer.ts';
import { createInstruments, type Instruments } from './instruments.ts';
import { watchTracing } from './sources.ts';

export type Observer = {
  registry: Registry;
  instruments: Instruments;
  meter: HttpMeter;
  /** Only where a collector is configured. */
  tracer: Tracer | undefined;
  /** Told of every finished request; absent without a tracer: most requests are then not told of one by one. */
  onFinished: ((exchange: OpenExchange, status: number, ms: number) => void) | undefined;
  close(): Promise<void>;
};

/** Where traces go. */
export type TracingSettings = {
  url: string;
  headers: Record<string, string>;
  serviceName: string;
  share: number;
};

export type ObserverOptions = {
  roles: readonly string[];
  tracing: TracingSettings | undefined;
  log: { warn(fields: object, message: string): void };
};

export async function createObserver({ roles, tracing, log }: ObserverOptions): Promise<Observer> {
  const registry = createRegistry();
  const version = readVersion();
  registry.gauge(
    {
      name: 'assets_build_info',
      help: 'What runs here: versions of the service, of Node and of the machines, and roles.',
      labels: ['version', 'node', 'asset_machine', 'delivery_machine', 'roles'],
    },
    () => [
      [
        [
          version,
          process.version,
          String(assetMachineVersion),
          String(deliveryMachineVersion),
          roles.join(','),
        ],
        1,
      ],
    ],
  );
  registry.total(
    {
      name: 'assets_metrics_failures_total',
      help: 'Looks that failed or took too long, so that values are missing here.',
      labels: ['look'],
    },
    registry.failures,
  );
  const watched = watchProcess(registry);
  const tracer = tracing && (await openTracer(tracing, version, log));
  if (tracer) watchTracing(registry, tracer.stats);
  return {
    registry,
    instruments: createInstruments(registry),
    meter: new HttpMeter(),
    tracer,
    onFinished: tracer && ((exchange, status, ms) => traceRequest(tracer, exchange, status, ms)),
    async close() {
      watched.stop();
      await tracer?.close();
    },
  };
}

/** Its code is loaded only here: without a collector nothing of it is. */
async function openTracer(
  tracing: TracingSettings,
  version: string,
  log: ObserverOptions['log'],
): Promise<Tracer> {
  const { createTracer } = await import('../tracing/tracer.ts');
  const instance = `${hostname()}-${randomBytes(4).toString('hex')}`;
  return createTracer({ ...tracing, version, instance, log });
}

/** Asked every few seconds by machines: nobody follows these. */
const untold = new Set(['/healthz', '/readyz', '/metrics']);

function traceRequest(tracer: Tracer, exchange: OpenExchange, status: number, ms: number): void {
  const { requestId, method, path: route, head } = exchange;
  if (untold.has(route)) return;
  const endTs = Date.now();
  const { traceparent } = head;
  tracer.request({ requestId, traceparent, method, route, status, startTs: endTs - ms, endTs });
}

const maxFolders = 6;

/** Of package.json above this file, which lies at another depth in the build than in the sources. */
function readVersion(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (let depth = 0; depth < maxFolders && !existsSync(join(folder, 'package.json')); depth += 1) {
    folder = dirname(folder);
  }
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  return version;
}
