/**
 * Ids of traces and spans (W3C Trace Context). What happens for a request, in whatever process and however much later,
 * is one trace: its ids are made of the request id, which travels with all of it anyway.
 */
import { createHash, randomBytes } from 'node:crypto';

/** Hex, 32 and 16 digits. */
export type SpanContext = { traceId: string; spanId: string };

const traceDigits = 32;
const spanDigits = 16;

/** The trace of what a request has caused, and its first span. */
export function contextOf(requestId: string): SpanContext {
  const hash = createHash('sha256').update(`request:${requestId}`).digest('hex');
  return { traceId: hash.slice(0, traceDigits), spanId: hash.slice(traceDigits, traceDigits + spanDigits) };
}

/** The same span is told of once however often it is told: an id of what it stands for. */
export function spanIdOf(...parts: readonly (string | number)[]): string {
  return createHash('sha256')
    .update(`span:${parts.join('\n')}`)
    .digest('hex')
    .slice(0, spanDigits);
}

export const newSpanId = (): string => randomBytes(spanDigits / 2).toString('hex');

const form = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-|$)/;
const sampledFlag = 1;

/** The span that a request belongs to, by its header; undefined for what is none. */
export function parseTraceparent(text: string): (SpanContext & { isSampled: boolean }) | undefined {
  const [, traceId = '', spanId = '', flags = ''] = form.exec(text) ?? [];
  if (!/[^0]/.test(traceId) || !/[^0]/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & sampledFlag) !== 0 };
}

export function toTraceparent({ traceId, spanId }: SpanContext): string {
  return `00-${traceId}-${spanId}-01`;
}

/** Whether a trace is among the share of traces that are told of: every process judges alike. */
export function isSampled(traceId: string, share: number): boolean {
  return Number.parseInt(traceId.slice(-sampleDigits), 16) < share * 16 ** sampleDigits;
}

const sampleDigits = 8;
