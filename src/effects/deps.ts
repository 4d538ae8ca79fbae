/** What effects are handed: time, storage, providers, the media engine. They reach for nothing themselves. */
import type { Aspect, LoopMode, Mode, Model } from '../../schemas/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import type { PlanName } from '../../schemas/plans.ts';
import type { VideoProvider, VisionProvider } from '../providers/provider.ts';

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
  deletePrefix(prefix: string, signal: AbortSignal): Promise<void>;
};

export type ClipFacts = { width: number; height: number; seconds: number; bytes: number };

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
  /** The provider that makes the clips of a model. */
  videoFor(model: Model): VideoProvider;
  /** The provider that a stored prediction belongs to. */
  videoNamed(name: string): VideoProvider | undefined;
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
  /** Copies a provider's output into a file. @throws {EffectError} */
  copyOutput(url: string, file: string, signal: AbortSignal): Promise<void>;
  /** Public addresses of stored media. */
  mediaUrl(key: string): string;
  /** How long vision may take, in ms. */
  visionTimeoutMs: number;
};
