/** Counts and traces what is asked of model providers, sites and mail servers, in the way of work.ts. */
import type { Crawls } from '../brand/crawls.ts';
import type { Deliver } from '../mail/mailer.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { ProviderError, type VideoProvider, type VisionProvider } from '../providers/provider.ts';
import type { Watching } from './work.ts';

/** Clips whose submit is remembered, to tell how long they took. */
const maxRemembered = 5_000;

export function watchVideo(video: VideoProvider, watching: Watching): VideoProvider {
  const { name } = video;
  for (const operation of ['submit', 'clip']) tellEarly(name, operation, watching);
  const submittedAt = new Map<string, number>();
  return {
    ...video,
    async submit(job, signal) {
      const submitted = await timed(name, 'submit', signal, () => video.submit(job, signal), watching);
      if (submittedAt.size >= maxRemembered) forgetOldest(submittedAt);
      submittedAt.set(submitted.id, performance.now());
      return submitted;
    },
    async status(submitted, signal) {
      const status = await timed(name, 'status', signal, () => video.status(submitted, signal), watching);
      if (status.state === 'queued' || status.state === 'running') return status;
      const at = submittedAt.get(submitted.id);
      submittedAt.delete(submitted.id);
      const { instruments } = watching;
      if (status.state === 'succeeded' && at !== undefined)
        instruments.clipDuration.of(name).observe((performance.now() - at) / 1_000);
      const outcome = status.state === 'failed' ? status.failure.reason : status.state;
      instruments.providerRequests.of(name, 'clip', outcome === 'succeeded' ? 'ok' : outcome).add();
      return status;
    },
    cancel: (submitted, signal) =>
      timed(name, 'cancel', signal, () => video.cancel(submitted, signal), watching),
  };
}

export function watchVision(vision: VisionProvider, watching: Watching): VisionProvider {
  tellEarly(vision.name, 'describe', watching);
  return {
    ...vision,
    describe: (request, signal) =>
      timed(vision.name, 'describe', signal, () => vision.describe(request, signal), watching),
  };
}

/** See instruments.ts. */
function tellEarly(provider: string, operation: string, { instruments }: Watching): void {
  const reasons = ['unavailable', 'network', 'timeout', 'auth', 'billing', 'gone', 'unknown', 'error'];
  for (const outcome of ['ok', 'rate_limited', ...reasons])
    instruments.providerRequests.of(provider, operation, outcome);
}

type Operation = 'submit' | 'status' | 'cancel' | 'describe';

async function timed<Result>(
  provider: string,
  operation: Operation,
  signal: AbortSignal,
  ask: () => Promise<Result>,
  { instruments, tracer }: Watching,
): Promise<Result> {
  const startedAt = performance.now();
  const startTs = Date.now();
  let outcome = 'ok';
  try {
    return await ask();
  } catch (cause) {
    outcome = signal.aborted ? 'aborted' : cause instanceof ProviderError ? cause.failure.reason : 'error';
    throw cause;
  } finally {
    instruments.providerRequests.of(provider, operation, outcome).add();
    instruments.providerDuration.of(provider, operation).observe((performance.now() - startedAt) / 1_000);
    // A clip is looked at again and again: only a look that fails says something.
    if (tracer && (operation !== 'status' || outcome !== 'ok')) {
      tracer.outside({
        name: `${provider} ${operation}`,
        kind: 'client',
        startTs,
        endTs: Date.now(),
        attributes: { provider, operation, outcome },
        error: outcome === 'ok' ? undefined : outcome,
      });
    }
  }
}

function forgetOldest(map: Map<string, number>): void {
  for (const key of map.keys()) {
    map.delete(key);
    return;
  }
}

/** Model providers learn which span asks: theirs can then be found beside ours. */
export function passTraceOn<Port extends Pick<Outbound, 'request'>>(
  outbound: Port,
  { tracer }: Pick<Watching, 'tracer'>,
): Port {
  if (!tracer) return outbound;
  return {
    ...outbound,
    request(url: Parameters<Outbound['request']>[0], options: Parameters<Outbound['request']>[1]) {
      const traceparent = tracer.traceparent();
      const headers = { ...options.headers, ...(traceparent === undefined ? {} : { traceparent }) };
      return outbound.request(url, { ...options, headers });
    },
  };
}

export function watchCrawls(crawls: Crawls, { instruments }: Pick<Watching, 'instruments'>): Crawls {
  return {
    async find(kind, domain, userId) {
      let outcome = 'error';
      try {
        const found = await crawls.find(kind, domain, userId);
        ({ outcome } = found);
        return found;
      } finally {
        instruments.crawls.of(kind, outcome).add();
      }
    },
  };
}

export function watchMail(deliver: Deliver, { instruments }: Pick<Watching, 'instruments'>): Deliver {
  return async (letter, signal) => {
    let outcome = 'failed';
    try {
      await deliver(letter, signal);
      outcome = 'sent';
    } finally {
      instruments.mails.of(outcome).add();
    }
  };
}
