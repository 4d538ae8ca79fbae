/** Brand detection and deep crawl (specification 2 and 4.2). */
import { z } from 'zod';
import { ErrorBody } from './errors.ts';
import { project } from './limits.ts';
import { BrandConfig } from './project.ts';

/** `https://Example.com/path` is understood as `example.com`. */
export const CrawlRequest = z.object({ domain: z.string().trim().min(1).max(project.domainMaxChars) });

export const DetectBrandResponse = z.object({ brandConfig: BrandConfig });

const Brand = BrandConfig.required();

export const DeepCrawlResult = z.object({
  brand: Brand,
  content: z.object({
    tagline: z.string(),
    description: z.string(),
    features: z.array(z.object({ title: z.string(), description: z.string(), icon: z.string().optional() })),
    pricing: z.array(z.object({ tier: z.string(), price: z.string(), features: z.array(z.string()) })),
    testimonials: z.array(z.object({ quote: z.string(), author: z.string(), role: z.string().optional() })),
    stats: z.array(z.object({ label: z.string(), value: z.string() })),
    announcements: z.array(z.object({ title: z.string(), body: z.string(), date: z.string().optional() })),
    codeExamples: z.array(z.object({ language: z.string(), code: z.string(), label: z.string().optional() })),
    pages: z.array(z.object({ url: z.string(), title: z.string(), type: z.string() })),
  }),
  messaging: z.object({
    tone: z.string(),
    targetAudience: z.string(),
    valueProps: z.array(z.string()),
    ctas: z.array(z.string()),
  }),
  design: z.object({
    vibe: z.string(),
    borderRadius: z.string(),
    hasGlassmorphism: z.boolean(),
    hasGradientBorders: z.boolean(),
    hasRadialGlows: z.boolean(),
    colorScheme: z.enum(['dark', 'light']),
    backgroundPattern: z.string().optional(),
    monoFont: z.string().optional(),
    sectionLabelStyle: z.string().optional(),
  }),
});
export type DeepCrawlResult = z.infer<typeof DeepCrawlResult>;

export const DeepCrawlResponse = z.object({ result: DeepCrawlResult });

/** 500 of a deep crawl (specification 7): `detail` says why in a few words. */
export const DeepCrawlErrorBody = ErrorBody.extend({ detail: z.string().optional() });
