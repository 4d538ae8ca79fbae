/**
 * Traces: what a request has caused, from its answer to the last webhook, under the trace of its request id.
 *
 * Loaded only where a collector is configured. A caller's own trace (traceparent) gets the request as its span, with a
 * link to the trace of the work: one caller's trace may hold many requests, a request id stands for one.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  createExporter,
  type Exporter,
  type ExporterOptions,
  type Span,
} from './exporter.ts';
import { contextOf, isSampled, newSpanId, parseTraceparent, type SpanContext, toTraceparent } from './ids.ts';

export type TracerOptions = ExporterOptions & {
  /** Share of the traces that are told of, 0 to 1. */
  share: number;
};

/** A finished request. */
export type RequestSpan = {
  requestId: string;
  /** As it came; empty without one. */
  traceparent: string;
  method: string;
  route: string;
  status: number;
  startTs: number;
  endTs: number;
};

export type WorkSpan = Omit<Span, 'traceId' | 'spanId' | 'parentSpanId'> & {
  requestId: string;
  spanId?: string;
};

export type Tracer = {
  request(span: RequestSpan): void;
  /** Something that a request has caused, a child of it. */
  work(span: WorkSpan): void;
  /** Runs work within a span of its own: what it asks for outside is a child of that. */
  within<Result>(span: WorkSpan & { spanId: string }, run: () => Promise<Result>): Promise<Result>;
  /** Something asked for outside, a child of the span around it; without one it is nobody's and left out. */
  outside(span: Omit<WorkSpan, 'requestId'>): void;
  /** Header for what is asked for outside now. */
  traceparent(): string | undefined;
  stats: Exporter['stats'];
  close(): Promise<void>;
};

export function createTracer({ share, ...options }: TracerOptions): Tracer {
  const exporter = createExporter(options);
  const around = new AsyncLocalStorage<SpanContext>();
  const isTold = ({ traceId }: SpanContext) => isSampled(traceId, share);

  const work = ({ requestId, spanId = newSpanId(), attributes, ...span }: WorkSpan): void => {
    const root = contextOf(requestId);
    if (!isTold(root)) return;
    const { traceId, spanId: parentSpanId } = root;
    exporter.add({ ...span, traceId, spanId, parentSpanId, attributes: withId(attributes, requestId) });
  };

  return {
    request({ requestId, traceparent, method, route, status, startTs, endTs }) {
      const root = contextOf(requestId);
      const caller = parseTraceparent(traceparent);
      const span = {
        name: `${method.toUpperCase()} ${route}`,
        kind: 'server' as const,
        startTs,
        endTs,
        attributes: withId(
          {
            'http.request.method': method.toUpperCase(),
            'http.route': route,
            'http.response.status_code': status,
          },
          requestId,
        ),
        error: status >= firstServerError ? `status ${status}` : undefined,
      };
      if (caller?.isSampled) {
        const { traceId, spanId: parentSpanId } = caller;
        exporter.add({ ...span, traceId, spanId: newSpanId(), parentSpanId, links: [root] });
      }
      if (isTold(root)) exporter.add({ ...span, ...root, links: caller ? [toContext(caller)] : [] });
    },

    work,

    within(span, run) {
      const { traceId } = contextOf(span.requestId);
      return isTold({ traceId, spanId: span.spanId })
        ? around.run({ traceId, spanId: span.spanId }, run)
        : run();
    },

    outside({ spanId = newSpanId(), ...span }) {
      const parent = around.getStore();
      if (parent) exporter.add({ ...span, traceId: parent.traceId, spanId, parentSpanId: parent.spanId });
    },

    traceparent() {
      const parent = around.getStore();
      return parent && toTraceparent(parent);
    },

    stats: exporter.stats,
    close: exporter.close,
  };
}

const firstServerError = 500;

const toContext = ({ traceId, spanId }: SpanContext): SpanContext => ({ traceId, spanId });

/** The request id is what logs, events and webhooks name too. */
const withId = (attributes: Attributes, requestId: string): Attributes => ({
  ...attributes,
  request_id: requestId,
});
