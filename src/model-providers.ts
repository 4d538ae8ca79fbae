/**
 * Model providers, put together: the adapters that the configuration names, the ledger and the gates behind them,
 * their callbacks.
 */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Model } from '../schemas/asset.ts';
import { EffectError } from '../schemas/errors.ts';
import { provider as limits } from '../schemas/limits.ts';
import type { ProviderStatus } from '../schemas/operator.ts';
import type { Bus } from './bus/bus.ts';
import type { Config } from './config.ts';
import type { CallbackPlace, EffectDeps, Purchases } from './effects/deps.ts';
import type { ProviderCallback } from './http/provider-callbacks.ts';
import type { Log } from './log.ts';
import { maxClipBytes } from './media/clip-check.ts';
import { OutboundError } from './outbound/error.ts';
import type { Outbound } from './outbound/outbound.ts';
import { createChatVision } from './providers/chat-vision.ts';
import { createFal } from './providers/fal.ts';
import { createGate } from './providers/gate.ts';
import { createLocalVision } from './providers/local-vision.ts';
import { createLuma } from './providers/luma.ts';
import type { VideoProvider, VisionProvider } from './providers/provider.ts';
import { takesLastFrame } from './providers/provider.ts';
import { createReplicate } from './providers/replicate.ts';
import { createRunway } from './providers/runway.ts';
import type { Store } from './store/client.ts';
import type { ProviderRecord } from './store/model-providers.ts';
import { patient } from './store/patient.ts';

export type ModelProviderParts = {
  config: Pick<Config, 'providers' | 'baseUrl' | 'mediaBaseUrl'>;
  log: Log;
  store: Pick<Store, 'predictions' | 'modelProviders'>;
  bus: Pick<Bus, 'send' | 'listen' | 'publish' | 'subjects'>;
  outbound: Pick<Outbound, 'request' | 'download'>;
  /** Signs the addresses of callbacks. */
  callbackKey: Buffer;
  /** Unix ms. */
  now(): number;
};

export type ModelProviders = {
  vision: VisionProvider;
  /** The remote ones, in the order of the configuration. */
  videos: VideoProvider[];
  /** How a place of a provider is reached: see effects/deps.ts. */
  callbackUrl: EffectDeps['callbackUrl'];
  copyOutput: EffectDeps['copyOutput'];
  /** Whether clips of a model can be made into a loop without a seam. */
  canLoopNatively(model: Model): boolean;
  /** Answers a callback with a status. */
  onCallback(callback: ProviderCallback): Promise<number>;
  status(): Promise<ProviderStatus[]>;
};

const hintSubject = 'provider.hint';
const maxOutputRedirects = 3;
const hourMs = 3_600_000;

export function createModelProviders(parts: ModelProviderParts): ModelProviders {
  const { config, store, callbackKey, now } = parts;
  const videos = createVideos(parts);
  const named = new Map(videos.map((video) => [video.name, video]));
  const local = createLocalVision();
  const { openai } = config.providers;

  return {
    vision: openai
      ? createChatVision({ ...openai, local, outbound: parts.outbound, log: parts.log, now })
      : local,
    videos,
    callbackUrl(provider, place) {
      const video = named.get(provider);
      if (!video || video.capabilities.callback === 'none') return undefined;
      if (!canReach(config.baseUrl, baseUrlOf(config, provider))) return undefined;
      return `${config.baseUrl}/hooks/video/${provider}?${signPlace(callbackKey, provider, place)}`;
    },
    copyOutput: (url, file, options) => copyOutput(parts.outbound, url, file, options),
    canLoopNatively: (model) =>
      config.providers.video.includes('local') || videos.some((video) => takesLastFrame(video, model)),
    onCallback: (callback) => receive(parts, named, callback),
    async status() {
      const records = new Map((await store.modelProviders.list(now())).map((one) => [one.name, one]));
      const names = [...(openai ? ['openai'] : []), ...config.providers.video];
      return Promise.all(
        names.map(async (name) => {
          const { predictions, costMicros } = await store.predictions.spentSince(name, now() - hourMs);
          return {
            ...describe(name, records.get(name), config.providers.limits, now()),
            predictions_last_hour: predictions,
            cost_last_hour_micros: costMicros,
          };
        }),
      );
    },
  };
}

/** What effects do with what was bought. To be made once in a worker. */
export function createPurchases({ store, bus, config, now }: ModelProviderParts): Purchases & {
  stop(): void;
} {
  const { predictions, modelProviders } = store;
  const limitsOf = (name: string) => gateLimits(config.providers.limits, name);
  const gate = createGate(
    patient((name, token, untilTs) => modelProviders.enter(name, { token, untilTs }, limitsOf(name), now())),
  );
  const listeners = new Map<string, Set<() => void>>();
  const listening = bus.listen(hintSubject, (body) => {
    for (const wake of listeners.get((body as { token: string }).token) ?? []) wake();
  });

  return {
    enter: gate.enter,
    hold: patient((name, token, untilTs) => modelProviders.hold(name, token, untilTs, now())),
    leave: patient(modelProviders.leave),
    find: patient(predictions.find),
    begin(purchase) {
      const claim = randomUUID();
      return patient(() => predictions.begin(purchase, claim, now()))();
    },
    bought: patient(predictions.bought),
    refused: patient(predictions.refused),
    look: patient(predictions.look),
    giveUp: patient(predictions.giveUp),
    over: patient(predictions.over),
    priced: patient(predictions.priced),
    late: patient(predictions.late),
    onHint(token) {
      let wakeUp: (() => void) | undefined;
      let isTold = false;
      const wake = () => {
        isTold = true;
        wakeUp?.();
      };
      const all = listeners.get(token) ?? new Set();
      listeners.set(token, all.add(wake));
      return {
        async next() {
          if (!isTold) {
            await new Promise<void>((resolve) => {
              wakeUp = resolve;
            });
          }
          isTold = false;
        },
        stop() {
          wakeUp?.();
          all.delete(wake);
          if (all.size === 0) listeners.delete(token);
        },
      };
    },
    succeeded: patient((name) => modelProviders.succeeded(name, now())),
    failed: patient(async (name, { reason, retryAfterMs }) => {
      // What is wrong with one source says nothing about the provider.
      if (reason === 'rejected_content' || reason === 'bad_input' || reason === 'gone') return;
      if (reason === 'rate_limited') {
        await modelProviders.pause(name, now() + (retryAfterMs ?? limits.throttledMs));
        return;
      }
      await modelProviders.failed(name, reason, now());
    }),
    stop: () => listening.stop(),
  };
}

/** Providers for a clip: as configured, but those that are failing come last. */
export function createVideoChoice(
  { config, store, now }: Pick<ModelProviderParts, 'config' | 'store' | 'now'>,
  videos: readonly VideoProvider[],
): EffectDeps['videosFor'] {
  const order = config.providers.video;
  return async ({ model, needsLastFrame }) => {
    const fit = order.flatMap((name) => {
      const video = videos.find((one) => one.name === name);
      return video && (!needsLastFrame || takesLastFrame(video, model)) ? [video] : [];
    });
    if (fit.length < 2) return fit;
    const failing = new Set(
      (await patient(store.modelProviders.list)(now()))
        .filter(({ openUntilTs }) => openUntilTs > now())
        .map(({ name }) => name),
    );
    return [...fit.filter(({ name }) => !failing.has(name)), ...fit.filter(({ name }) => failing.has(name))];
  };
}

function createVideos({ config, outbound, log, now }: ModelProviderParts): VideoProvider[] {
  const { replicate, fal, runway, luma, video } = config.providers;
  const shared = (baseUrl: string) => ({
    canFetch: canReach(config.mediaBaseUrl, baseUrl),
    outbound,
    log,
    now,
  });
  const made = [
    replicate && createReplicate({ ...replicate, ...shared(replicate.baseUrl) }),
    fal && createFal({ ...fal, ...shared(fal.baseUrl) }),
    runway && createRunway({ ...runway, ...shared(runway.baseUrl) }),
    luma && createLuma({ ...luma, ...shared(luma.baseUrl) }),
  ];
  return video.flatMap((name) => made.filter((one) => one?.name === name)).filter((one) => one !== undefined);
}

function baseUrlOf({ providers }: ModelProviderParts['config'], name: string): string {
  const found = { replicate: providers.replicate, fal: providers.fal, luma: providers.luma }[name];
  return found?.baseUrl ?? '';
}

/** A provider out in the world reads https addresses; one on this machine, for tests, reads ours as they are. */
function canReach(address: string, providerUrl: string): boolean {
  const isOnLoopback = /^https?:\/\/(localhost|127\.|\[::1\])/.test(providerUrl);
  return address.startsWith('https:') || isOnLoopback;
}

function gateLimits(configured: Config['providers']['limits'], name: string) {
  return configured[name] ?? { concurrent: limits.concurrent, submitsPerMinute: limits.submitsPerMinute };
}

// ── Callbacks ───────────────────────────────────────────────────────────────────────────────────

const placeNames = ['asset', 'project', 'run', 'stage', 'attempt'] as const;

/** The query of a callback's address: the attempt, and a token that only we can make. */
export function signPlace(key: Buffer, provider: string, place: CallbackPlace): string {
  const query = new URLSearchParams(
    Object.fromEntries(placeNames.map((name) => [name, String(place[name])])),
  );
  query.set('t', tokenFor(key, provider, query));
  return query.toString();
}

function tokenFor(key: Buffer, provider: string, query: URLSearchParams): string {
  const parts = [provider, ...placeNames.map((name) => query.get(name) ?? '')];
  return createHmac('sha256', key).update(parts.join('\n')).digest('base64url');
}

/** The attempt that an address names; undefined when the address is not one of ours. */
function readPlace(key: Buffer, provider: string, query: URLSearchParams): CallbackPlace | undefined {
  const given = Buffer.from(query.get('t') ?? '');
  const expected = Buffer.from(tokenFor(key, provider, query));
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
  const text = (name: string) => query.get(name) ?? '';
  return {
    asset: text('asset'),
    project: text('project'),
    stage: text('stage'),
    run: Number(text('run')),
    attempt: Number(text('attempt')),
  };
}

/**
 * A callback is a hint: the status of its prediction is read at once (wire formats 5.1). One that tells of a
 * prediction nobody had heard of, after a submit without an answer, is told to the asset as well.
 */
async function receive(
  parts: ModelProviderParts,
  videos: ReadonlyMap<string, VideoProvider>,
  { provider, query, ...raw }: ProviderCallback,
): Promise<number> {
  const video = videos.get(provider);
  if (!video?.readCallback) return 404;
  const place = readPlace(parts.callbackKey, provider, query);
  if (!place) return 401;
  const verdict = await video.readCallback(raw);
  if (!verdict.ok) return verdict.why === 'signature' ? 401 : 400;
  const { asset, project, run, stage, attempt } = place;
  const token = `${asset}-${run}-${stage}-${attempt}`;
  const job = { provider, ...verdict.job };
  const noted = await parts.store.predictions.note(token, job);
  parts.log.info({ provider, providerId: job.id, asset, run, stage, attempt, noted }, 'provider callback');
  if (noted === 'foreign') parts.log.warn({ provider, providerId: job.id, asset }, 'callback of another’s');
  if (noted === 'new') {
    await parts.bus.publish({
      subject: parts.bus.subjects.command(project, 'asset', asset),
      id: `${asset}:${run}:${stage}:${attempt}:SUBMITTED:${job.id}`,
      body: { type: 'SUBMITTED', run, stage, attempt, job },
    });
  }
  if (noted === 'new' || noted === 'known') parts.bus.send(hintSubject, { token });
  return 204;
}

// ── Outputs ─────────────────────────────────────────────────────────────────────────────────────

async function copyOutput(
  outbound: Pick<Outbound, 'download'>,
  url: string,
  file: string,
  { headers, signal }: { headers: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  if (url.startsWith('file:')) {
    await copyFile(fileURLToPath(url), file).catch((cause: unknown) => {
      throw new EffectError('i2v_failed', `the output ${url} is gone`, { retry: 'transient', cause });
    });
    return;
  }
  const { host } = new URL(url);
  const options = { headers, timeoutMs: limits.downloadMs, maxBytes: maxClipBytes, signal };
  const got = await outbound
    .download(url, file, { ...options, redirects: maxOutputRedirects })
    .catch((cause: unknown) => {
      throw lostOutput(host, cause);
    });
  if (got.isTooLarge)
    throw new EffectError('i2v_failed', `the output at ${host} is over ${maxClipBytes} bytes`);
  if (got.statusCode === 200) return;
  const isGone = got.statusCode >= 400 && got.statusCode < 500 && got.statusCode !== 429;
  throw new EffectError('i2v_failed', `the output at ${host} answers ${got.statusCode}`, {
    isResumable: !isGone,
  });
}

function lostOutput(host: string, cause: unknown): unknown {
  if (!(cause instanceof OutboundError)) return cause;
  const isRefused = cause.failure === 'blocked_address';
  return new EffectError('i2v_failed', `the output at ${host} was lost: ${cause.failure}`, {
    retry: isRefused ? 'permanent' : 'transient',
    isResumable: !isRefused,
    cause,
  });
}

// ── For operators ───────────────────────────────────────────────────────────────────────────────

function describe(
  name: string,
  record: ProviderRecord | undefined,
  configured: Config['providers']['limits'],
  now: number,
): Omit<ProviderStatus, 'predictions_last_hour' | 'cost_last_hour_micros'> {
  const { concurrent, submitsPerMinute } = gateLimits(configured, name);
  const time = (ts: number | undefined) => (ts === undefined || ts <= 0 ? null : new Date(ts).toISOString());
  const isOpen = (record?.openUntilTs ?? 0) > now;
  return {
    name,
    state: isOpen ? 'failing' : (record?.closedUntilTs ?? 0) > now ? 'paused' : 'ok',
    running: record?.running ?? 0,
    concurrent,
    submits_last_minute: record?.submits.length ?? 0,
    submits_per_minute: submitsPerMinute,
    paused_until: (record?.closedUntilTs ?? 0) > now ? time(record?.closedUntilTs) : null,
    asked_last_until: isOpen ? time(record?.openUntilTs) : null,
    failures_in_a_row: record?.failures ?? 0,
    last_failure: record?.lastFailure
      ? { at: new Date(record.lastFailure.ts).toISOString(), reason: record.lastFailure.reason }
      : null,
    last_success_at: time(record?.lastSuccessTs),
  };
}
