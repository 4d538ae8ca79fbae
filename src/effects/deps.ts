/** What effects are handed: time, storage, providers, the media engine. They reach for nothing themselves. */
import type { Aspect, LoopMode, Mode, Model } from '../../schemas/asset.ts';
import type { AssetMessage, VideoJobRef } from '../../schemas/asset-messages.ts';
import type { PlanName } from '../../schemas/plans.ts';
import type { Failure, VideoProvider, VisionProvider } from '../providers/provider.ts';

export type EffectContext = {
  /** The asset. */
  id: string;
  project: string;
  plan: string;
  requestId: string;
  /** Aborted when the run has ended or the process stops. */
  signal: AbortSignal;
  hasEnded(): boolean;
  /** Delivers a message to the asset and waits until it is stored for good. */
  send(message: AssetMessage): Promise<void>;
};

export type EffectStorage = {
  put(
    key: string,
    body: Uint8Array | { file: string },
    options: { contentType: string; ifAbsent?: boolean; signal: AbortSignal },
  ): Promise<{ bytes: number }>;
  /** The whole object; undefined when there is none. */
  read(key: string, signal: AbortSignal, maxBytes: number): Promise<Uint8Array | undefined>;
  delete(key: string, signal: AbortSignal): Promise<void>;
  deletePrefix(prefix: string, signal: AbortSignal): Promise<void>;
};

export type ClipFacts = { width: number; height: number; seconds: number; bytes: number };

/** Which attempt a callback is about. */
export type CallbackPlace = { asset: string; project: string; run: number; stage: string; attempt: number };

/** Word of an attempt's prediction. `next` ends with the next one, and never fails. */
export type Hints = { next(): Promise<void>; stop(): void };

type Purchase = { token: string; stageKey: string; provider: string };

/** What was bought of remote providers, and the gates in front of them, over all processes. */
export type Purchases = {
  /** Waits for a place at a provider's gate. @throws the signal's reason. */
  enter(provider: string, token: string, untilTs: number, signal: AbortSignal): Promise<void>;
  /** Holds a place for what was bought before. */
  hold(provider: string, token: string, untilTs: number): Promise<void>;
  leave(provider: string, token: string): Promise<void>;
  /** The prediction to go on with, if there is one. */
  find(purchase: Purchase): Promise<VideoJobRef | undefined>;
  /** To be called before a submit, which only who is answered `fresh` may make. */
  begin(
    purchase: Purchase,
  ): Promise<
    { state: 'fresh' } | { state: 'known'; job: VideoJobRef } | { state: 'pending'; sinceTs: number }
  >;
  bought(token: string, job: VideoJobRef): Promise<void>;
  /** For certain: nothing was bought. */
  refused(token: string): Promise<void>;
  look(token: string): Promise<{ job?: VideoJobRef; isRefused: boolean }>;
  /** Nobody waits for word any more, unless there is some. */
  giveUp(token: string): Promise<VideoJobRef | undefined>;
  /** The prediction is of no use any more. */
  over(job: VideoJobRef): Promise<void>;
  /** What an attempt's prediction costs, in millionths of a dollar. */
  priced(token: string, costMicros: number): Promise<void>;
  /** Predictions of a stage that were heard of too late. */
  late(stageKey: string, except: VideoJobRef): Promise<VideoJobRef[]>;
  onHint(token: string): Hints;
  /** How a provider is doing: see the circuit breaker in src/store/model-providers.ts. */
  succeeded(provider: string): Promise<void>;
  failed(provider: string, failure: Failure): Promise<void>;
};

export type EffectDeps = {
  now(): number;
  storage: EffectStorage;
  /** A folder for files of one effect, which removes them afterwards. */
  tempDir: string;
  /** Fetches a source from outside. @throws {EffectError} */
  fetchSource(url: string, signal: AbortSignal): Promise<{ bytes: Uint8Array; contentType: string }>;
  /** Storage key of a source that was uploaded here; undefined for an address outside. */
  uploadKey(url: string): string | undefined;
  /** Type of an image by its first bytes. */
  sniffImage(bytes: Uint8Array): 'png' | 'jpeg' | 'webp' | undefined;
  /** Whether the owner's plan, as it is now, still allows a run that was accepted on `plan`. */
  mayRun(project: string, run: { plan: PlanName; model: Model; aspect: Aspect }): Promise<boolean>;
  vision: VisionProvider;
  /** Providers for clips of a model: the one to ask first, then those to fall back to. */
  videosFor(wish: { model: Model; needsLastFrame: boolean }): Promise<VideoProvider[]>;
  /** The provider that a stored prediction belongs to. */
  videoNamed(name: string): VideoProvider | undefined;
  purchases: Purchases;
  /** Where a provider reports about a prediction; undefined when it cannot reach this installation. */
  callbackUrl(provider: string, place: CallbackPlace): string | undefined;
  merge(
    job: {
      clips: [out: string, back: string];
      loopMode: LoopMode;
      seconds: number;
      model: Model;
      output: string;
    },
    signal: AbortSignal,
  ): Promise<void>;
  /** Last frame of a clip as a png. */
  lastFrame(job: { clip: string; output: string }, signal: AbortSignal): Promise<unknown>;
  poster(job: { clip: string; mode: Mode; output: string }, signal: AbortSignal): Promise<void>;
  /** Checks a produced file. @throws {EffectError} when a browser would not play it. */
  checkClip(path: string): Promise<ClipFacts>;
  /** Checks a file of a remote provider: a clip of whatever make. @throws {EffectError} when it is none. */
  checkForeignClip(path: string): Promise<unknown>;
  /** Brings a clip of whatever make to the service's own form. */
  conform(
    job: { clip: string; seconds: number; model: Model; output: string },
    signal: AbortSignal,
  ): Promise<unknown>;
  /** Copies a provider's output into a file. @throws {EffectError} `isResumable` when it may go better again. */
  copyOutput(
    url: string,
    file: string,
    options: { headers: Record<string, string>; signal: AbortSignal },
  ): Promise<void>;
  /** Public addresses of stored media. */
  mediaUrl(key: string): string;
  /** How long vision may take, in ms. */
  visionTimeoutMs: number;
};
