/** What guides say in numbers comes from the contract: `{{name}}` in a guide stands for one of these. */
import {
  account,
  asset,
  brandModel,
  browser,
  crawl,
  http,
  mail,
  perMinute,
  proxy,
  source,
  sse,
  upload,
  usage,
  webhook,
} from '../../schemas/limits.ts';
import { type Plan, PlanName, plans } from '../../schemas/plans.ts';

const megabyte = 1024 * 1024;
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const values = {
  sourceMb: source.maxBytes / megabyte,
  sourceMegapixels: source.maxPixels / 1_000_000,
  sourceUrlChars: source.maxUrlChars,
  proxySourceBytes: proxy.maxSourceUrlBytes,
  jsonMb: http.maxJsonBytes / megabyte,
  unusedMb: upload.maxUnusedBytesPerUser / megabyte,
  unusedDays: upload.unusedKeptDays,
  waitMs: proxy.maxWaitMs,
  cacheSeconds: proxy.cacheMaxAgeSeconds,
  passwordMin: account.passwordMinChars,
  passwordMax: account.passwordMaxChars,
  sessionDays: account.sessionSlidingDays,
  sessionMaxDays: account.sessionAbsoluteDays,
  perMinutePrepare: perMinute.prepare,
  perMinuteRegenerate: perMinute.regenerate,
  perMinuteDeepCrawl: perMinute.deepCrawl,
  perMinuteDetectBrand: perMinute.detectBrand,
  perMinuteWebhookTest: perMinute.webhookTest,
  perMinuteOther: perMinute.other,
  sseMinutes: sse.maxMs / minuteMs,
  sseHeartbeatSeconds: sse.heartbeatMs / 1_000,
  sseKeptHours: sse.keptHours,
  earlierFacts: asset.earlierFactsKept,
  historyCycles: usage.historyCycles,
  mailboxDays: mail.mailboxDays,
  webhookSeconds: webhook.timeoutMs / 1_000,
  webhookAttempts: webhook.maxAttempts,
  webhookToleranceMinutes: webhook.toleranceMs / minuteMs,
  webhookListed: webhook.maxListed,
  webhookKeptDays: webhook.keptDays,
  webhookRotationHours: webhook.rotationMs / hourMs,
  requestIdMin: http.requestIdMinChars,
  requestIdMax: http.requestIdMaxChars,
  crawlPages: crawl.maxPages,
  drawSeconds: browser.totalMs / 1_000,
  drawMb: browser.maxMemoryMb,
  drawPages: browser.pagesOfCrawl,
  modelConfidence: brandModel.leastConfidence,
  modelSeconds: brandModel.answerMs / 1_000,
  plans: planTable(),
};

/** @throws for a name that has no value: a guide must not be served with a hole. */
export function fillGuide(text: string, baseUrl: string): string {
  const known: Record<string, string | number> = { ...values, baseUrl };
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = known[name];
    if (value === undefined) throw new Error(`a guide names ${name}, which has no value`);
    return String(value);
  });
}

function planTable(): string {
  const row = (title: string, of: (plan: Plan) => string | number) =>
    `| ${title} | ${PlanName.options.map((name) => of(plans[name])).join(' | ')} |`;
  const dollars = (cents: number) => `$${cents % 100 === 0 ? cents / 100 : (cents / 100).toFixed(2)}`;
  return [
    `| | ${PlanName.options.map((name) => name.charAt(0).toUpperCase() + name.slice(1)).join(' | ')} |`,
    `|---|${PlanName.options.map(() => '---|').join('')}`,
    row('Price a month', ({ pricePerMonthCents }) => dollars(pricePerMonthCents)),
    row('Generations a month', ({ generationsPerMonth }) => generationsPerMonth),
    row('Generation past them', ({ overageCents }) =>
      overageCents === null ? 'none' : dollars(overageCents),
    ),
    row('Models', ({ models }) => models.join(', ')),
    row('Loop', ({ loopMode }) => loopMode),
    row('Aspect', ({ aspectOverride }) => (aspectOverride ? 'any' : 'the source’s')),
    row('Brand crawls a month', ({ crawlsPerMonth }) => crawlsPerMonth),
    row('Projects with a deep crawl', ({ deepCrawlProjects }) => deepCrawlProjects),
  ].join('\n');
}
