/**
 * The service as one object: what its roles need is opened in order, and closed in the opposite one.
 *
 * `http` answers requests, `worker` owns actors and runs effects, `scheduler` finds what was lost. All three
 * may be one process, the default, or many.
 */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  mail as mailLimits,
  proxy as proxyLimits,
  runtime,
  upload as uploadLimits,
} from '../schemas/limits.ts';
import { createAssetKind } from './actors/asset.ts';
import { every, sleep, systemClock } from './actors/clock.ts';
import type { ActorKind } from './actors/kind.ts';
import { answerLooks } from './actors/look.ts';
import { startOwner } from './actors/owner.ts';
import { startReconciler } from './actors/reconcile.ts';
import { createSlots, type Slots } from './actors/slots.ts';
import { startWorker, type Worker } from './actors/worker.ts';
import { loadKeys } from './auth/key-file.ts';
import { createSecretBox, deriveKey } from './auth/secret-box.ts';
import { siteProgress } from './brand/crawl-progress.ts';
import { crawlRequest } from './brand/crawl-request.ts';
import { createCrawlWork } from './brand/crawl-work.ts';
import { withEngines } from './brand/engines.ts';
import { createThreadCrawler } from './brand/thread-crawler.ts';
import { openBus } from './bus/bus.ts';
import { judgeSync } from './bus/monitor.ts';
import type { Config } from './config.ts';
import { createWebhookRequests, startDeliveries } from './deliveries.ts';
import type { EffectDeps, Purchases } from './effects/deps.ts';
import { createAssetEffects } from './effects/effects.ts';
import { readSource } from './effects/fetch-source.ts';
import { startEmbedded } from './embedded/embedded.ts';
import { createErasure } from './erasure/erasure.ts';
import { startFrontEnd } from './front-end.ts';
import { createAssetRequests } from './http/asset-requests.ts';
import { startMonitor } from './http/monitor.ts';
import { createLoad, loadBeatMs, loadSubject } from './load.ts';
import type { Log } from './log.ts';
import { createMailer } from './mail/mailer.ts';
import { createSmtp } from './mail/smtp.ts';
import { checkClip, checkForeignClip } from './media/clip-check.ts';
import { createEngine } from './media/engine.ts';
import { createFileStorage } from './media/file-storage.ts';
import { sniffImage } from './media/image.ts';
import { openS3Storage } from './media/s3-storage.ts';
import type { Storage } from './media/storage.ts';
import { createModelProviders, createPurchases, createVideoChoice } from './model-providers.ts';
import { passTraceOn, watchMail, watchVideo, watchVision } from './observe/asked-outside.ts';
import { createObserver } from './observe/observer.ts';
import {
  watchBus,
  watchOwner,
  watchSender,
  watchStore,
  watchSurvey,
  watchWorker,
} from './observe/sources.ts';
import { watchAttempts, watchEffects, watchSlots, watchSteps } from './observe/work.ts';
import { lookSubject, seenSubject } from './operator/workers.ts';
import { startBulkRunner } from './operator-console.ts';
import { createOutbound } from './outbound/outbound.ts';
import type { Opened, Parts } from './parts.ts';
import { type PosterRequest, posterMs, posterRequest } from './poster-request.ts';
import { createLocalVideo } from './providers/local-video.ts';
import { recordCycles } from './quota/history.ts';
import { mayStillRun } from './quota/runs.ts';
import { readinessOf } from './readiness.ts';
import { openStore } from './store/client.ts';
import { openTempDir } from './temp-dir.ts';
import { createStarter } from './webhooks/dispatcher.ts';

export type Service = {
  /** Port of the front end; 0 without the role http. */
  port: number;
  /** Ends everything in order, within ten seconds. Safe to repeat. */
  stop(): Promise<void>;
};

/** @throws when something that it needs is not to be had; what was opened before is closed again. */
export async function startService(
  config: Config,
  log: Log,
  onFatal: (cause: Error) => void,
): Promise<Service> {
  const closers: (() => Promise<void>)[] = [];
  const opened = <Thing>(thing: Thing, close: (thing: Thing) => Promise<unknown>): Thing => {
    closers.push(async () => {
      await close(thing);
    });
    return thing;
  };
  let stopping: Promise<void> | undefined;
  const closeAll = async () => {
    for (const close of closers.reverse()) {
      await close().catch((err: unknown) => log.error({ err }, 'could not be closed cleanly'));
    }
  };
  const stop = () => {
    stopping ??= closeAll();
    return stopping;
  };

  try {
    const port = await open(config, log, opened, (cause) => stopping === undefined && onFatal(cause));
    return { port, stop };
  } catch (cause) {
    await stop();
    throw cause;
  }
}

async function open(
  config: Config,
  log: Log,
  opened: Opened,
  onFatal: (cause: Error) => void,
): Promise<number> {
  const observer = opened(await createObserver({ ...config, log }), (one) => one.close());
  if (!config.isDevelopment && !config.baseUrl.startsWith('https:'))
    log.warn({}, 'BASE_URL is not https: sessions and project keys can be read on the way');
  const embedded = opened(
    await startEmbedded({
      dataDir: config.dataDir,
      log,
      ...config.isEmbedded,
      onExit: (name, code) => onFatal(new Error(`${name} ended by itself (${code})`)),
    }),
    (servers) => servers.stop(),
  );
  const keys = await loadKeys(config, true);
  const box = createSecretBox(keys);
  const store = opened(
    await openStore(config.mongodbUrl ?? embedded.mongodbUrl ?? '', config.mongodbDatabase, {
      log,
      box,
      minMembers: config.isSafetyNeeded ? membersNeeded : 1,
      access: 'upgrade',
    }),
    (one) => one.close(),
  );
  await store.secrets.checkKeys(systemClock.now());
  await store.partitions.ensure(runtime.partitions);
  await checkSync(config, log);
  const lastPosition = async () =>
    Math.max(0, ...(await store.partitions.all()).map(({ position }) => position));
  const beginAfter = async () => store.streams.beginAfter(await lastPosition());
  const bus = opened(
    await openBus({
      url: config.natsUrl ?? embedded.natsUrl ?? '',
      prefix: config.natsPrefix,
      replicas: config.natsReplicas,
      lastPosition,
      beginAfter,
      log,
    }),
    (one) => one.close(),
  );
  watchStore(observer.registry, store);
  watchBus(observer.registry, bus);
  const { path: tempDir } = opened(await openTempDir(join(config.dataDir, 'tmp')), (one) => one.remove());
  const storage = await openStorage(config, tempDir, opened);
  const deniedPorts = ownPorts(config, embedded);
  const outbound = opened(
    createOutbound({
      allow: config.outboundAllow,
      denyPorts: deniedPorts,
      ...(config.webhook.egressProxy ? { egressProxy: new URL(config.webhook.egressProxy) } : {}),
    }),
    (one) => one.close(),
  );
  const kind = createAssetKind(store.assets.actors, config.pipeline);
  const kinds = new Map<string, ActorKind>([[kind.name, kind]]);
  const engine = opened(
    createEngine({ ffmpegPath: embedded.ffmpegPath, tempDir, threads: config.renderThreads }),
    (one) => one.close(),
  );
  const uploads = `${config.baseUrl}/uploads/`;
  const uploadKey = (url: string) => {
    const key = url.startsWith(uploads) ? url.slice(config.baseUrl.length + 1) : '';
    return /^uploads\/\w{1,64}\.(png|jpg|webp)$/.test(key) ? key : undefined;
  };
  const modelParts = {
    config,
    log,
    store,
    bus,
    outbound: passTraceOn(outbound, observer),
    callbackKey: deriveKey(keys, 'callbacks of model providers'),
    now: systemClock.now,
  };
  const models = createModelProviders(modelParts);
  const load = createLoad(bus.listen, systemClock.now);
  const requests = createAssetRequests({
    assets: store.assets,
    quota: store.quota,
    bus,
    kind,
    queueWaitMs: load.waitMs,
    canLoopNatively: models.canLoopNatively,
    async onSourceUsed(src) {
      const key = uploadKey(src);
      if (key !== undefined) await store.uploads.markUsed(key, systemClock.now());
    },
    now: systemClock.now,
  });
  const erasure = createErasure({
    store,
    storage,
    bus,
    kindName: kind.name,
    uploadKey,
    uploadUrl: (key) => `${config.baseUrl}/${key}`,
    now: systemClock.now,
    log,
  });
  const parts: Parts = {
    config,
    log,
    observer,
    opened,
    store,
    bus,
    storage,
    outbound,
    deniedPorts,
    engine,
    kinds,
    tempDir,
    requests,
    erasure,
    models,
    modelParts,
    webhooks: createWebhookRequests({ config, log, store, bus, outbound }),
    uploadKey,
    oauthKey: deriveKey(keys, 'sign-in elsewhere'),
    sources: {
      storage,
      uploadKey,
      sniffImage,
      async fetchSource(url, signal) {
        const { bytes, type } = await outbound.fetchSource(url, { accepts: sniffImage, signal });
        return { bytes, contentType: `image/${type}` };
      },
    },
  };

  const startEffects = config.roles.includes('worker') ? await startWorkerRole(parts) : undefined;
  if (config.roles.includes('scheduler')) {
    opened(
      startReconciler({
        kinds,
        bus,
        records: store.partitions,
        streams: store.streams,
        startDeliveries: createStarter({ bus, webhooks: store.webhooks }),
        clock: systemClock,
        log,
        duties: [
          requests.settleHolds,
          parts.webhooks.settle,
          () => recordCycles(store, systemClock.now()),
          () => removeUnusedUploads(parts),
        ],
      }),
      (one) => one.stop(),
    );
    startMail(parts);
    startBulkRunner(parts);
    const { status: providerStatus } = models;
    watchSurvey(observer.registry, { store, bus, providerStatus, now: systemClock.now });
  }
  if (config.roles.includes('scheduler')) {
    const onError = (err: unknown) => log.error({ err }, 'erasing failed');
    opened(erasure.start(systemClock, onError), (one) => one.stop());
  }
  const port = config.roles.includes('http') ? await startFrontEnd(parts) : 0;
  if (config.metricsPort !== undefined)
    opened(await openMonitor(parts, config.metricsPort), (one) => one.close());
  await startEffects?.();
  return port;
}

const membersNeeded = 3;

function openMonitor({ config, observer, store, bus }: Parts, port: number) {
  return startMonitor({
    host: config.metricsHost,
    port,
    token: config.metricsToken,
    render: observer.registry.render,
    ready: (signal) => readinessOf({ store, bus }, signal),
  });
}

/** @throws in production, when NATS could lose what it has confirmed; on one machine and in development it is said. */
async function checkSync({ natsUrl, natsMonitorUrls, isDevelopment, isSafetyNeeded }: Config, log: Log) {
  if (!isDevelopment && !isSafetyNeeded)
    log.warn({}, 'everything is on one machine: what its disk loses is lost');
  if (natsUrl === undefined) return;
  if (natsMonitorUrls === undefined) {
    if (!isDevelopment)
      log.warn({}, 'NATS_MONITOR_URL is not set: whether NATS syncs each message to disk cannot be seen');
    return;
  }
  const flaw = await judgeSync(natsMonitorUrls);
  if (flaw === undefined) return;
  if (isSafetyNeeded) throw new Error(flaw);
  log.warn({}, flaw);
}

async function openStorage({ s3, storageFolder }: Config, tempDir: string, opened: Opened): Promise<Storage> {
  if (!s3) {
    return createFileStorage(storageFolder).catch((cause: unknown) => {
      const code = (cause as { cause?: NodeJS.ErrnoException }).cause?.code;
      throw new Error(`STORAGE_URL: files cannot be kept in ${storageFolder} (${code})`, { cause });
    });
  }
  return opened(await openS3Storage({ ...s3, tempDir }), (one) => one.close());
}

/** Fetches and writes at once in one worker: they wait more than they work. */
const ioSlots = 32;
/** Clips of a remote provider that one worker follows at once: they wait, too, and its gate says how many there are. */
const remoteSlots = 64;
/** Workers beat four times as often. */
const hearPeersMs = 1_000;

/** Owns actors at once; the answer begins to take work, last, when the other workers have been heard. */
async function startWorkerRole(parts: Parts): Promise<() => Promise<void>> {
  const { config, log, observer, opened, bus, store, kinds, tempDir, engine } = parts;
  const { registry } = observer;
  const workerId = `${hostname()}-${randomBytes(6).toString('hex')}`;
  const video = opened(
    await createLocalVideo({ engine, tempDir: join(tempDir, 'clips'), poolSize: config.renderThreads }),
    (one) => one.close(),
  );
  const videoSlots = config.renderThreads + parts.models.videos.length * remoteSlots;
  const capacity = { cpu: config.renderThreads, video: videoSlots, io: ioSlots };
  const slots = watchSlots(createSlots(capacity), observer);
  const purchases = opened(createPurchases(parts.modelParts), async (one) => one.stop());
  const effects = watchEffects(createAssetEffects(effectDeps(parts, video, purchases)), observer);
  const deliveries = await startDeliveries({ ...parts, onAttempt: watchAttempts(observer) }, workerId);
  watchSender(registry, deliveries.stats);
  kinds.set(deliveries.kind.name, deliveries.kind);
  const owner = opened(
    startOwner({
      workerId,
      partitions: runtime.partitions,
      kinds,
      bus,
      records: store.partitions,
      clock: systemClock,
      log,
      onOwned: deliveries.onOwned,
      ...watchSteps(observer),
    }),
    (one) => one.stop(),
  );
  watchOwner(registry, owner);
  let worker: Worker | undefined;
  watchWorker(registry, slots, () => worker);
  opened(deliveries, (one) => one.stop());
  const beat = setInterval(
    () =>
      bus.send(loadSubject, {
        workerId,
        threads: config.renderThreads,
        waiting: slots.waitingByProject('video'),
      }),
    loadBeatMs,
  );
  opened(beat, async () => clearInterval(beat));
  const looks = answerLooks(bus, { look: lookSubject, seen: seenSubject }, workerId, slots);
  opened(looks, async (one) => one.stop());

  const serving = bus.serve(posterRequest, async (body) => {
    const { project, source } = body as PosterRequest;
    return makePoster(parts, slots, { project, source });
  });
  opened(serving, async (one) => one.stop());
  const crawler = opened(
    createThreadCrawler(
      withEngines(config.brand, { allow: config.outboundAllow, denyPorts: parts.deniedPorts }, log),
    ),
    (one) => one.close(),
  );
  const crawling = bus.serve(
    crawlRequest,
    createCrawlWork(crawler, log, (progress) => bus.send(siteProgress, progress)),
  );
  opened(crawling, async (one) => one.stop());

  const startedAt = systemClock.monotonic();
  return async () => {
    await sleep(systemClock, startedAt + hearPeersMs - systemClock.monotonic());
    // What a dead worker held would else come back only when its time is over.
    if (owner.isAlone()) await bus.reclaimWork(Object.keys(effects));
    worker = opened(await startWorker({ effects, bus, slots, clock: systemClock, log }), (one) => one.stop());
    log.info({ worker: workerId, partitions: owner.stats().owned }, 'worker started');
  };
}

async function makePoster(
  { sources, engine }: Parts,
  slots: Slots,
  { project, source }: PosterRequest,
): Promise<Uint8Array> {
  const signal = AbortSignal.timeout(posterMs);
  const perProject = proxyLimits.maxPosterFetchesPerProject;
  const release = await slots.acquire({ slot: 'io', project, perProject, since: Date.now() }, signal);
  try {
    const { bytes } = await readSource(source, signal, sources);
    return await engine.sourcePoster(bytes, signal);
  } finally {
    release();
  }
}

const dayMs = 86_400_000;
const maxRemoved = 100;

/** Uploads that no asset has used in a week (decisions 3), and rooms that a killed process has kept for some. */
async function removeUnusedUploads({ store, storage }: Parts): Promise<void> {
  const unused = await store.uploads.unusedBefore(
    Date.now() - uploadLimits.unusedKeptDays * dayMs,
    maxRemoved,
  );
  for (const { id, key } of unused) {
    if (key !== null) await storage.delete(key);
    await store.uploads.remove(id);
  }
}

/** Sends the outbox: to the mail server, or without one to the mailbox of the operator page. */
function startMail({ config, log, observer, opened, store }: Parts): void {
  const { outbox, users, mailTokens, mailbox } = store;
  if (config.smtpUrl === undefined && !config.isDevelopment) {
    log.warn({}, 'SMTP_URL is not set: mails are kept for the operator page and reach nobody else');
  }
  const mailer = createMailer({
    outbox,
    users,
    mailTokens,
    deliver: watchMail(
      config.smtpUrl === undefined
        ? (letter) => mailbox.add({ ...letter, ts: Date.now() })
        : createSmtp(config.smtpUrl, config.mailFrom),
      observer,
    ),
    baseUrl: config.baseUrl,
    now: systemClock.now,
    log,
  });
  const sending = every(systemClock, mailLimits.lookEveryMs, mailer.sendDue, (err) =>
    log.error({ err }, 'the outbox cannot be read'),
  );
  opened(sending, async (one) => {
    mailer.stop();
    await one.stop();
  });
}

function effectDeps(
  { config, observer, store, sources, engine, tempDir, models, modelParts }: Parts,
  video: Awaited<ReturnType<typeof createLocalVideo>>,
  purchases: Purchases,
): EffectDeps {
  const videos = [video, ...models.videos].map((one) => watchVideo(one, observer));
  return {
    now: systemClock.now,
    ...sources,
    tempDir,
    async mayRun(projectId, run) {
      const project = await store.projects.find(projectId);
      const user = project && (await store.quota.find(project.userId));
      return project && user ? mayStillRun(user, project, run, systemClock.now()) : false;
    },
    vision: watchVision(models.vision, observer),
    videosFor: createVideoChoice(modelParts, videos),
    videoNamed: (name) => videos.find((one) => one.name === name),
    purchases,
    callbackUrl: models.callbackUrl,
    merge: async (job, signal) => {
      await engine.merge(job, signal);
    },
    lastFrame: (job, signal) => engine.lastFrame(job, signal),
    poster: async (job, signal) => {
      await engine.poster(job, signal);
    },
    checkClip,
    checkForeignClip,
    conform: (job, signal) => engine.conform(job, signal),
    copyOutput: models.copyOutput,
    mediaUrl: (key) => `${config.mediaBaseUrl}/${key}`,
    visionTimeoutMs: config.pipeline.visionTimeoutMs,
  };
}

function ownPorts(
  config: Config,
  embedded: { mongodbUrl: string | undefined; natsUrl: string | undefined },
): number[] {
  const urls = [
    config.mongodbUrl,
    config.natsUrl,
    embedded.mongodbUrl,
    embedded.natsUrl,
    config.tracing?.url,
  ];
  const ports = urls
    .filter((url) => url !== undefined)
    .flatMap((url) => [...url.matchAll(/:(\d{2,5})(?=[/,?]|$)/g)].map(([, port]) => Number(port)));
  return [...ports, ...(config.metricsPort ? [config.metricsPort] : [])];
}
