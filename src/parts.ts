/** What a service is put together of: opened by service.ts, shared by the roles of a process. */
import type { ActorKind } from './actors/kind.ts';
import type { Bus } from './bus/bus.ts';
import type { Config } from './config.ts';
import type { createWebhookRequests } from './deliveries.ts';
import type { SourceDeps } from './effects/fetch-source.ts';
import type { createErasure } from './erasure/erasure.ts';
import type { createAssetRequests } from './http/asset-requests.ts';
import type { Log } from './log.ts';
import type { createEngine } from './media/engine.ts';
import type { Storage } from './media/storage.ts';
import type { ModelProviderParts, ModelProviders } from './model-providers.ts';
import type { Observer } from './observe/observer.ts';
import type { createOutbound } from './outbound/outbound.ts';
import type { openStore } from './store/client.ts';

/** What the roles share. */
export type Parts = {
  config: Config;
  log: Log;
  observer: Observer;
  opened: Opened;
  store: Awaited<ReturnType<typeof openStore>>;
  bus: Bus;
  storage: Storage;
  outbound: ReturnType<typeof createOutbound>;
  /** The service's own, which nobody outside may name. */
  deniedPorts: readonly number[];
  engine: ReturnType<typeof createEngine>;
  kinds: Map<string, ActorKind>;
  tempDir: string;
  requests: ReturnType<typeof createAssetRequests>;
  erasure: ReturnType<typeof createErasure>;
  webhooks: ReturnType<typeof createWebhookRequests>;
  models: ModelProviders;
  modelParts: ModelProviderParts;
  /** Storage key of a source that was uploaded here; undefined for an address outside. */
  uploadKey(url: string): string | undefined;
  /** Signs what a browser keeps while it signs in elsewhere. */
  oauthKey: Buffer;
  /** What reads a source, from storage or from outside: see effects/fetch-source.ts. */
  sources: SourceDeps;
};

/** Keeps what was opened, to close it when the service stops. Answers it. */
export type Opened = <Thing>(thing: Thing, close: (thing: Thing) => Promise<unknown>) => Thing;
