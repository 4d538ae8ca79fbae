/** What is known of the process itself, under the names that dashboards for Node know. */
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import {
  constants,
  monitorEventLoopDelay,
  type PerformanceEntry,
  PerformanceObserver,
  performance,
} from 'node:perf_hooks';
import type { Registry, Sample } from './registry.ts';

/** How often the event loop is looked at, in ms. */
const resolutionMs = 20;
const nsPerSecond = 1e9;
const microsPerSecond = 1e6;
/** Delays are told of this long: several readers see the same. */
const windowMs = 5_000;

const gcKinds: Record<number, string> = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weakcb',
};

/** Begins to watch. @returns what ends it. */
export function watchProcess(registry: Registry): { stop(): void } {
  watchCpu(registry);
  watchMemory(registry);
  const delays = watchDelays(registry);
  const collections = watchGc(registry);
  return {
    stop() {
      delays.stop();
      collections.stop();
    },
  };
}

function watchCpu(registry: Registry): void {
  registry.total(
    { name: 'process_cpu_seconds_total', help: 'CPU time of all threads, user and system.' },
    () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / microsPerSecond;
    },
  );
  const startedSeconds = performance.timeOrigin / 1_000;
  registry.gauge(
    { name: 'process_start_time_seconds', help: 'When the process began, in unix seconds.' },
    () => startedSeconds,
  );
  registry.gauge({ name: 'assets_process_cpus', help: 'Processors that the process may use.' }, () =>
    availableParallelism(),
  );
}

function watchMemory(registry: Registry): void {
  registry.gauge({ name: 'process_resident_memory_bytes', help: 'Memory of the process, all of it.' }, () =>
    process.memoryUsage.rss(),
  );
  registry.gauge(
    { name: 'nodejs_heap_size_used_bytes', help: 'Memory that JavaScript uses.' },
    () => process.memoryUsage().heapUsed,
  );
  registry.gauge(
    { name: 'nodejs_external_memory_bytes', help: 'Memory of buffers outside the heap.' },
    () => process.memoryUsage().external,
  );
  registry.gauge({ name: 'process_open_fds', help: 'Open files and connections.' }, countFiles);
}

/** Only Linux tells. */
function countFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return undefined;
  }
}

function watchDelays(registry: Registry): { stop(): void } {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
  histogram.enable();
  let idle = performance.eventLoopUtilization();
  let seen = { p50: 0, p99: 0, max: 0, utilization: 0 };
  let seenAt = Number.NEGATIVE_INFINITY;
  const look = () => {
    const now = performance.now();
    if (now - seenAt < windowMs) return seen;
    seenAt = now;
    const { utilization } = performance.eventLoopUtilization(idle);
    idle = performance.eventLoopUtilization();
    // The histogram counts the time between two of its own looks.
    const beyond = (ns: number) => Math.max(0, ns / nsPerSecond - resolutionMs / 1_000);
    const { max } = histogram;
    seen = {
      p50: beyond(histogram.percentile(50)),
      p99: beyond(histogram.percentile(99)),
      max: beyond(max),
      utilization,
    };
    histogram.reset();
    return seen;
  };
  const quantiles = { p50: 'half', p99: 'all but one in a hundred', max: 'all' } as const;
  for (const [name, share] of Object.entries(quantiles) as [keyof typeof quantiles, string][]) {
    registry.gauge(
      {
        name: `nodejs_eventloop_lag_${name}_seconds`,
        help: `How late the event loop was at most for ${share} of the looks since the last reading.`,
      },
      () => look()[name],
    );
  }
  registry.gauge(
    {
      name: 'nodejs_eventloop_utilization',
      help: 'Share of its time that the event loop was at work, 0 to 1.',
    },
    () => look().utilization,
  );
  return { stop: () => histogram.disable() };
}

function watchGc(registry: Registry): { stop(): void } {
  const seconds = new Map<string, number>();
  const observer = new PerformanceObserver((list) => {
    // The types leave out what Node says of them.
    for (const { duration, detail } of list.getEntries() as (PerformanceEntry & {
      detail?: { kind?: number };
    })[]) {
      const kind = gcKinds[detail?.kind ?? -1] ?? 'other';
      seconds.set(kind, (seconds.get(kind) ?? 0) + duration / 1_000);
    }
  });
  observer.observe({ entryTypes: ['gc'] });
  registry.total(
    { name: 'nodejs_gc_seconds_total', help: 'Time that collecting garbage took.', labels: ['kind'] },
    () => [...seconds].map(([kind, value]): Sample => [[kind], value]),
  );
  return { stop: () => observer.disconnect() };
}
