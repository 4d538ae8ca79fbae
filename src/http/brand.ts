/**
 * Brand detection and deep crawl, with and without a project (specification 4.2, decisions 7).
 *
 * With a project, detection changes nothing: the dashboard shows what was found beside what is there, and saves what
 * the user takes. A deep crawl is stored with the project: `content` as contentInventory, `messaging` as
 * messagingContext. `brand` and `design` are in the answer alone.
 */
import { z } from 'zod';
import {
  CrawlRequest,
  DeepCrawlErrorBody,
  DeepCrawlResponse,
  type DeepCrawlResult,
  DetectBrandResponse,
} from '../../schemas/crawl.ts';
import { ErrorBody, RetryErrorBody, UpgradeErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { crawl as limits, perMinute } from '../../schemas/limits.ts';
import { plans } from '../../schemas/plans.ts';
import type { CrawlResults } from '../brand/crawl-request.ts';
import type { Crawled } from '../brand/crawls.ts';
import { normaliseDomain } from '../brand/domain.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';

const detected = {
  200: DetectBrandResponse,
  400: ValidationErrorBody,
  429: z.union([UpgradeErrorBody, RetryErrorBody]),
  500: ErrorBody,
  503: z.union([RetryErrorBody, ErrorBody]),
};
const crawled = { ...detected, 200: DeepCrawlResponse, 500: DeepCrawlErrorBody };

const detectBrand = route({
  method: 'post',
  path: '/api/projects/detect-brand',
  summary: 'Find the colors and fonts of a site',
  body: CrawlRequest,
  responses: detected,
  async handle({ userId, body }, services) {
    const domain = judgeDomain(body.domain, services);
    if (typeof domain !== 'string') return domain;
    return answerDetected(await services.crawls.find('detect', domain, userId), services);
  },
});

const detectProjectBrand = route({
  method: 'post',
  path: '/api/projects/:projectId/detect-brand',
  summary: 'Find the colors and fonts of a site for a project; its brand configuration stays as it is',
  perMinute: perMinute.detectBrand,
  body: CrawlRequest,
  responses: { ...detected, 404: ErrorBody },
  async handle({ userId, projectId, body }, services) {
    if (!(await services.store.projects.findOwned(projectId, userId))) return reply(404, notFound);
    const domain = judgeDomain(body.domain, services);
    if (typeof domain !== 'string') return domain;
    return answerDetected(await services.crawls.find('detect', domain, userId), services);
  },
});

const deepCrawl = route({
  method: 'post',
  path: '/api/projects/deep-crawl',
  summary: 'Make the content inventory of a site',
  body: CrawlRequest,
  responses: crawled,
  async handle({ userId, body }, services) {
    const domain = judgeDomain(body.domain, services);
    if (typeof domain !== 'string') return domain;
    const found = await services.crawls.find('deep', domain, userId);
    return found.outcome === 'found' ? reply(200, { result: found.result }) : refuseDeep(found, services);
  },
});

const deepCrawlProject = route({
  method: 'post',
  path: '/api/projects/:projectId/deep-crawl',
  summary: 'Make the content inventory of a site and store it with a project',
  perMinute: perMinute.deepCrawl,
  body: CrawlRequest,
  responses: { ...crawled, 403: z.union([UpgradeErrorBody, ErrorBody]), 404: ErrorBody },
  async handle({ userId, projectId, body }, services) {
    const { store, crawls, config, newId, now } = services;
    if (!(await store.projects.findOwned(projectId, userId))) return reply(404, notFound);
    const domain = judgeDomain(body.domain, services);
    if (typeof domain !== 'string') return domain;
    const user = await store.users.find(userId);
    // Erased in this very moment.
    if (!user) return reply(404, notFound);

    const place = { id: newId('plc'), untilTs: now() + placeKeptMs };
    const limit = plans[user.plan].deepCrawlProjects;
    if (!(await store.deepCrawls.reserve({ projectId, userId, limit }, place, now()))) {
      return reply(403, {
        error: `the plan has deep crawls for ${limit} of your projects`,
        ...upgrade(config),
      });
    }
    const watched = services.crawlWatch.watch(domain, projectId);
    try {
      const found = await crawls.find('deep', domain, userId);
      if (found.outcome !== 'found') return refuseDeep(found, services);
      const isSaved = await store.deepCrawls.save(projectId, userId, toStored(found.result), now());
      return isSaved ? reply(200, { result: found.result }) : reply(404, notFound);
    } finally {
      watched.stop();
      await store.deepCrawls.leave(projectId, place.id);
    }
  },
});

export const brandRoutes: AnyRoute[] = [detectBrand, detectProjectBrand, deepCrawl, deepCrawlProject];

// Someone else's project answers like none at all, so that ids cannot be probed.
const notFound = { error: 'not found' };
/** Longer than any crawl takes: a place that is older is of a process that died. */
const placeKeptMs = 2 * limits.deepMs;
const busyRetryMs = 5_000;

/** The domain in its normal form, or the 400 that says what is wrong with it. */
function judgeDomain(text: string, { judgeUrl }: Services) {
  const domain = normaliseDomain(text);
  if (domain === undefined) return wrongDomain('a domain such as example.com is needed');
  const judgement = judgeUrl(`https://${domain}/`);
  return judgement.ok ? domain : wrongDomain(judgement.reason);
}

function wrongDomain(message: string) {
  return reply(400, { error: `domain: ${message}`, issues: [{ path: 'domain', message }] });
}

type Refused = Exclude<Crawled<unknown>, { outcome: 'found' }>;

function answerDetected(found: Crawled<CrawlResults['detect']>, services: Services) {
  if (found.outcome === 'found') return reply(200, { brandConfig: found.result });
  if (found.outcome === 'failed') return reply(500, { error: `brand detection failed: ${found.detail}` });
  return refuse(found, services);
}

function refuseDeep(found: Refused, services: Services) {
  if (found.outcome === 'failed') return reply(500, { error: 'deep crawl failed', detail: found.detail });
  return refuse(found, services);
}

function refuse({ outcome }: Exclude<Refused, { outcome: 'failed' }>, { config }: Services) {
  if (outcome === 'exhausted') return reply(429, { error: 'monthly limit reached', ...upgrade(config) });
  const headers = { 'Retry-After': String(busyRetryMs / 1_000) };
  return reply(503, { error: 'busy', retry_after_ms: busyRetryMs }, headers);
}

const upgrade = ({ baseUrl }: Services['config']) => ({ upgrade_url: `${baseUrl}/dashboard/billing` });

function toStored({ content, messaging }: DeepCrawlResult) {
  return { contentInventory: content, messagingContext: messaging };
}
