/**
 * Hands spans to a collector by OTLP over HTTP, as JSON. Nothing here may ever be felt by what is traced: a collector
 * that hangs, refuses, or answers nonsense costs spans, which are counted, and nothing else.
 *
 * Of our own: the ids are made of request ids here and not by a tracer, so of the OpenTelemetry packages only this one
 * exchange would be used, out of a dozen packages and protobuf.
 */
import type { SpanContext } from './ids.ts';

export type Attributes = Record<string, string | number | boolean | undefined>;

export type Span = SpanContext & {
  parentSpanId?: string | undefined;
  name: string;
  kind: 'internal' | 'server' | 'client';
  /** Unix ms, with fractions. */
  startTs: number;
  endTs: number;
  attributes: Attributes;
  /** Why it failed. */
  error?: string | undefined;
  links?: readonly SpanContext[];
};

export type ExporterOptions = {
  /** The whole address: `…/v1/traces`. */
  url: string;
  headers: Record<string, string>;
  serviceName: string;
  version: string;
  instance: string;
  log: { warn(fields: object, message: string): void };
  /** Shorter times for tests. */
  delayMs?: number;
  timeoutMs?: number;
};

export type ExporterStats = { exported: number; dropped: number; failures: number; queued: number };

const maxQueued = 4_096;
const maxBatch = 512;
const defaultDelayMs = 2_000;
const defaultTimeoutMs = 10_000;
const closeMs = 2_000;
const maxTries = 3;
/** Longest wait for a collector that asks for one. */
const maxWaitMs = 30_000;
const firstWaitMs = 1_000;
/** A collector that says so will take the same spans soon. */
const busyStatuses = new Set([429, 502, 503, 504]);

export type Exporter = ReturnType<typeof createExporter>;

export function createExporter(options: ExporterOptions) {
  const { delayMs = defaultDelayMs, timeoutMs = defaultTimeoutMs } = options;
  const stats = { exported: 0, dropped: 0, failures: 0 };
  let queue: Span[] = [];
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  let isClosed = false;
  let isWarned = false;
  let wake: (() => void) | undefined;
  let current: AbortController | undefined;

  /** Once for each trouble: it may last for days. */
  const warnOnce = (fields: object): void => {
    if (!isWarned) options.log.warn(fields, 'spans cannot be handed to the collector');
    isWarned = true;
  };

  const sendBatch = async (batch: readonly Span[]): Promise<void> => {
    const body = JSON.stringify(toRequest(batch, options));
    for (let tries = 1; ; tries += 1) {
      current = new AbortController();
      const outcome = await post(options, body, timeoutMs, current);
      if (outcome.isTaken) {
        stats.exported += batch.length;
        isWarned = false;
        return;
      }
      stats.failures += 1;
      warnOnce({ reason: outcome.reason });
      if (!outcome.isPassing || tries === maxTries || isClosed) {
        stats.dropped += batch.length;
        return;
      }
      await pause(Math.min(maxWaitMs, outcome.waitMs ?? firstWaitMs * 2 ** (tries - 1)));
    }
  };

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const waiting = setTimeout(resolve, ms).unref();
      wake = () => {
        clearTimeout(waiting);
        resolve();
      };
    });

  const sendAll = async (): Promise<void> => {
    while (queue.length > 0) await sendBatch(queue.splice(0, maxBatch));
  };

  const begin = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (queue.length > 0 && !isClosed) plan();
    });
    return sending;
  };

  const plan = (): void => {
    timer ??= setTimeout(() => void begin(), delayMs).unref();
  };

  return {
    add(span: Span): void {
      if (isClosed || queue.length >= maxQueued) {
        stats.dropped += 1;
        return;
      }
      queue.push(span);
      if (queue.length >= maxBatch && !sending) void begin();
      else if (!sending) plan();
    },

    stats: (): ExporterStats => ({ ...stats, queued: queue.length }),

    /** Sends what is there, for at most two seconds. */
    async close(): Promise<void> {
      isClosed = true;
      wake?.();
      const sent = begin();
      const cut = setTimeout(() => {
        stats.dropped += queue.length;
        queue = [];
        current?.abort(new Error('the service stops'));
      }, closeMs);
      await sent;
      clearTimeout(cut);
    },
  };
}

type Outcome =
  | { isTaken: true }
  | { isTaken: false; reason: string; isPassing: boolean; waitMs?: number | undefined };

/** One exchange. What is answered is not read: there is nothing in it that would change anything. */
async function post(
  { url, headers }: ExporterOptions,
  body: string,
  timeoutMs: number,
  control: AbortController,
): Promise<Outcome> {
  const timer = setTimeout(() => control.abort(new Error('no answer in time')), timeoutMs);
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      redirect: 'error',
      signal: control.signal,
    });
    void answer.body?.cancel().catch(() => undefined);
    if (answer.ok) return { isTaken: true };
    const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
    return {
      isTaken: false,
      reason: `status ${answer.status}`,
      isPassing: busyStatuses.has(answer.status),
      waitMs: seconds >= 0 ? seconds * 1_000 : undefined,
    };
  } catch (cause) {
    const reason = String((cause as { cause?: Error }).cause?.message ?? (cause as Error).message);
    return { isTaken: false, reason, isPassing: true };
  } finally {
    clearTimeout(timer);
  }
}

const kinds = { internal: 1, server: 2, client: 3 } as const;
const errorStatus = 2;

/** ExportTraceServiceRequest, as JSON (OTLP 1). */
function toRequest(spans: readonly Span[], { serviceName, version, instance }: ExporterOptions): object {
  const resource = {
    'service.name': serviceName,
    'service.version': version,
    'service.instance.id': instance,
  };
  return {
    resourceSpans: [
      {
        resource: { attributes: toAttributes(resource) },
        scopeSpans: [{ scope: { name: 'animated-asset-service', version }, spans: spans.map(toSpan) }],
      },
    ],
  };
}

function toSpan({
  traceId,
  spanId,
  parentSpanId,
  name,
  kind,
  startTs,
  endTs,
  attributes,
  error,
  links,
}: Span) {
  return {
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name,
    kind: kinds[kind],
    startTimeUnixNano: toNanos(startTs),
    endTimeUnixNano: toNanos(Math.max(startTs, endTs)),
    attributes: toAttributes(attributes),
    ...(links && links.length > 0 ? { links } : {}),
    ...(error === undefined ? {} : { status: { code: errorStatus, message: error.slice(0, maxTextChars) } }),
  };
}

const maxTextChars = 300;

/** Nanoseconds are beyond what a number holds: digits. */
const toNanos = (ms: number): string => `${Math.round(ms * 1_000)}000`;

function toAttributes(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: toValue(value) }],
  );
}

function toValue(value: string | number | boolean): object {
  if (typeof value === 'string') return { stringValue: value.slice(0, maxTextChars) };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
