/** Projects, their brand and proxy configuration (specification 2 and 4.2, decisions 2). */
import { z } from 'zod';
import { Mode, Motion, Seconds } from './asset.ts';
import { project as limits } from './limits.ts';
import { printable } from './user.ts';

const BrandText = z.string().max(limits.brandTextMaxChars);

export const BrandConfig = z.object({
  colors: z
    .object({
      primary: BrandText,
      secondary: BrandText,
      accent: BrandText,
      background: BrandText,
      foreground: BrandText,
    })
    .optional(),
  fonts: z.object({ heading: BrandText, body: BrandText }).optional(),
  brandName: BrandText.optional(),
  logoUrl: BrandText.optional(),
});
export type BrandConfig = z.infer<typeof BrandConfig>;

const Name = z.string().trim().min(1).max(limits.nameMaxChars).regex(printable, 'control characters');
const Domains = z.array(z.string().max(limits.domainMaxChars)).max(limits.maxDomains);

/** A project as its owner reads it. Times are ISO 8601; `signing_secret` is null but where it is made. */
export const Project = z.object({
  id: z.string(),
  name: z.string(),
  domains: z.array(z.string()),
  brandConfig: BrandConfig,
  isDefault: z.boolean(),
  contentInventory: z.record(z.string(), z.unknown()).nullable(),
  messagingContext: z.record(z.string(), z.unknown()).nullable(),
  crawledAt: z.string().nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
  proxy_key: z.string().nullable(),
  signing_secret: z.string().nullable(),
  signing_enabled: z.boolean(),
  /** JSON text of the array, null before it is first set (decisions 2). */
  allowed_origins: z.string().nullable(),
  source_hosts: z.array(z.string()).nullable(),
  default_motion: Motion.nullable(),
  default_dur_seconds: z.number().nullable(),
  default_mode: Mode.nullable(),
  overage_enabled: z.boolean(),
  overage_cap_cents: z.int().nullable(),
});
export type Project = z.infer<typeof Project>;

export const ProjectResponse = z.object({ project: Project, compositionCount: z.number() });
export const CreatedProjectResponse = z.object({ project: Project });
export const ProjectList = z.object({ projects: z.array(Project) });

export const CreateProjectRequest = z.object({
  name: Name,
  domains: Domains.optional(),
  brandConfig: BrandConfig.optional(),
  isDefault: z.boolean().optional(),
});
export type CreateProjectRequest = z.infer<typeof CreateProjectRequest>;

export const UpdateProjectRequest = CreateProjectRequest.partial();
export type UpdateProjectRequest = z.infer<typeof UpdateProjectRequest>;

export const ProxyConfigRequest = z.object({
  allowed_origins: z
    .array(z.string().max(limits.domainMaxChars + 16))
    .max(limits.maxOrigins)
    .optional(),
  source_hosts: z
    .array(z.string().max(limits.domainMaxChars))
    .max(limits.maxSourceHosts)
    .nullable()
    .optional(),
  default_motion: Motion.optional(),
  default_dur_seconds: Seconds.optional(),
  default_mode: Mode.optional(),
  enable_signing: z.boolean().optional(),
  overage_enabled: z.boolean().optional(),
  overage_cap_cents: z.int().min(0).nullable().optional(),
});
export type ProxyConfigRequest = z.infer<typeof ProxyConfigRequest>;

export const ProxyConfigResponse = z.object({
  project: z.object({
    proxy_key: z.string().nullable(),
    allowed_origins: z.string().nullable(),
    default_motion: Motion.nullable(),
    default_dur_seconds: z.number().nullable(),
    default_mode: Mode.nullable(),
    signing_secret: z.string().nullable(),
    signing_enabled: z.boolean(),
    source_hosts: z.array(z.string()).nullable(),
    overage_enabled: z.boolean(),
    overage_cap_cents: z.int().nullable(),
  }),
});
export type ProxyConfigResponse = z.infer<typeof ProxyConfigResponse>;

export const RotateKeyQuery = z.object({ which: z.enum(['proxy', 'signing']) });
export const RotateKeyResponse = z.union([
  z.object({ proxy_key: z.string() }),
  z.object({ signing_secret: z.string() }),
]);
