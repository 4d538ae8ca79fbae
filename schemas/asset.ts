/** Assets as clients see them (specification 2 and 4.3, decisions 3). */
import { z } from 'zod';
import { ErrorCode } from './errors.ts';
import * as limits from './limits.ts';

export const Motion = z.enum(['subtle', 'medium', 'kinetic']);
export type Motion = z.infer<typeof Motion>;

export const Mode = z.enum(['loop', 'animate-in', 'animate-on-hover']);
export type Mode = z.infer<typeof Mode>;

/** `source` keeps the aspect of the image; the others crop around its attention point (decisions 3). */
export const Aspect = z.enum(['source', '1:1', '16:9', '9:16', '4:3', '3:4']);
export type Aspect = z.infer<typeof Aspect>;

export const Model = z.enum(['fast', 'standard', 'cinema']);
export type Model = z.infer<typeof Model>;

/** How the loop was closed; `none` for the modes that do not loop (decisions 3). */
export const LoopMode = z.enum(['crossfade', 'native', 'none']);
export type LoopMode = z.infer<typeof LoopMode>;

export const AssetStatus = z.enum(['pending', 'ready', 'failed']);
export type AssetStatus = z.infer<typeof AssetStatus>;

export const Seconds = z.int().min(limits.asset.minSeconds).max(limits.asset.maxSeconds);
export const Seed = z.int().min(0).max(limits.asset.maxSeed);
export const PromptOverride = z.string().max(limits.asset.promptMaxChars);

/** An http or https address without credentials; the address itself is judged by src/outbound. */
export const SourceUrl = z
  .url({ protocol: /^https?$/ })
  .max(limits.source.maxUrlChars)
  .meta({ format: 'uri' });

/** Options that prepare and regenerate share. All optional: the project's defaults fill in. */
export const AssetOptions = z.object({
  motion: Motion.optional(),
  mode: Mode.optional(),
  dur_seconds: Seconds.optional(),
  prompt_override: PromptOverride.optional(),
  seed: Seed.optional(),
  aspect: Aspect.optional(),
  model: Model.optional(),
});
export type AssetOptions = z.infer<typeof AssetOptions>;

/** POST /api/v1/prepare (specification 4.3). */
export const PrepareRequest = AssetOptions.extend({
  project_id: z.string().min(1).max(64),
  src: SourceUrl,
});
export type PrepareRequest = z.infer<typeof PrepareRequest>;

export const PrepareResponse = z.object({
  asset_id: z.string(),
  status: AssetStatus,
  eta_seconds: z.number().optional(),
  mp4_url: z.string().optional(),
  poster_url: z.string().optional(),
  embed_url: z.string().optional(),
});
export type PrepareResponse = z.infer<typeof PrepareResponse>;

/** POST /api/assets/{id}/regenerate (specification 4.3). */
export const RegenerateRequest = AssetOptions.omit({ aspect: true, model: true });
export type RegenerateRequest = z.infer<typeof RegenerateRequest>;

export const RegenerateResponse = z.object({
  asset_id: z.string(),
  status: AssetStatus,
  embed_url: z.string().optional(),
});
export type RegenerateResponse = z.infer<typeof RegenerateResponse>;

/** POST /api/assets/{id}/cancel (decisions 3). */
export const CancelResponse = z.object({ asset_id: z.string(), status: AssetStatus });
export type CancelResponse = z.infer<typeof CancelResponse>;

/** The asset record (decisions 3). Times are unix ms. */
export const Asset = z.object({
  asset_id: z.string(),
  project_id: z.string(),
  status: AssetStatus,
  state: z.string(),
  src: z.string(),
  motion: Motion,
  dur_seconds: Seconds,
  mode: Mode,
  seed: Seed.nullable(),
  prompt_override: z.string().nullable(),
  aspect: Aspect,
  model: Model,
  run: z.int(),
  mp4_url: z.string().nullable(),
  poster_url: z.string().nullable(),
  bytes: z.int().nullable(),
  loop_mode: LoopMode.nullable(),
  width: z.int().nullable(),
  height: z.int().nullable(),
  latency_ms: z.int().nullable(),
  error_code: ErrorCode.nullable(),
  error_msg: z.string().nullable(),
  hint: z.string().nullable(),
  embed_url: z.string().nullable(),
  created_at: z.int(),
  updated_at: z.int(),
});
export type Asset = z.infer<typeof Asset>;

export const AssetResponse = z.object({ asset: Asset });
export const AssetList = z.object({ assets: z.array(Asset), next_cursor: z.string().nullable() });
export type AssetList = z.infer<typeof AssetList>;

/** POST /api/v1/upload (specification 4.3). */
export const UploadResponse = z.object({ url: z.string(), key: z.string() });
export type UploadResponse = z.infer<typeof UploadResponse>;

/** 202 of the proxy while generating (specification 4.4). */
export const PendingBody = z.object({
  status: z.literal('pending'),
  asset_id: z.string(),
  eta_seconds: z.number(),
});
export type PendingBody = z.infer<typeof PendingBody>;
