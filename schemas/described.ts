/**
 * Names of schemas in the documents, what their fields mean, and examples, which tests hold against their schema. A
 * schema without a row stands in the documents without a name.
 */
import { z } from 'zod';
import * as assets from './asset.ts';
import * as crawl from './crawl.ts';
import * as errors from './errors.ts';
import * as events from './events.ts';
import { PlanName } from './plans.ts';
import * as projects from './project.ts';
import * as users from './user.ts';
import * as webhooks from './webhook.ts';

const assetId = 'ast_4fJq0aZbR2mXc7LdTn8W';
const projectId = 'prj_Ty4Lq8WmZx1RbN6KvD0c';
const deliveryId = 'dlv_2sVb7QxTn5Wc9RkLm0Yd';
const eventId = 'evt_8Hq3ZtLw6Xn1VbPd4KcR';
const proxyKey = 'pk_5hT9bXqLw2NfZr8KcYd3Vm1A';
const createdTs = 1_767_225_600_000;
const createdAt = '2026-01-01T00:00:00.000Z';
const src = 'https://example.com/cat.png';

// ── Errors ──────────────────────────────────────────────────────────────────────────────────────

const errorFields = {
  error: 'What went wrong, for people.',
  code: 'The same for programs: branch on it, not on the text.',
  docs_url: 'The page on the code.',
};
const limited = { error: 'rate limited', retry_after_ms: 8_200, code: 'rate_limited' };

add(errors.ApiErrorCode, 'ApiErrorCode', 'Code of an error answer.');
add(errors.ErrorCode, 'ErrorCode', 'Why a run failed.');
add(errors.ErrorBody, 'ErrorBody', 'An error.', errorFields, { error: 'not found', code: 'not_found' });
add(errors.ValidationErrorBody, 'ValidationErrorBody', 'A request that does not fit its schema.', {
  ...errorFields,
  issues: 'Each field that is wrong, with what is wrong about it.',
});
add(errors.UpgradeErrorBody, 'UpgradeErrorBody', 'A refusal that another plan would lift.', {
  ...errorFields,
  upgrade_url: 'Where the plan is changed.',
});
add(
  errors.RetryErrorBody,
  'RetryErrorBody',
  'A refusal that time lifts.',
  { ...errorFields, retry_after_ms: 'Milliseconds until the request would be accepted.' },
  limited,
);
add(errors.GenerationFailedBody, 'GenerationFailedBody', 'The last generation failed.', {
  ...errorFields,
  asset_id: 'The asset.',
  hint: 'The request that begins another run, and why the last one failed.',
});

// ── Users ───────────────────────────────────────────────────────────────────────────────────────

const credentials = {
  email: 'Compared trimmed and in lower case.',
  password: 'Any characters, 8 to 128.',
};
const user = { id: 'usr_7kQm3WxZb9TnR2Lc5VdY', email: 'ada@example.com', name: 'Ada' };

add(PlanName, 'PlanName', 'The plans.');
add(
  users.SignupRequest,
  'SignupRequest',
  'A new account.',
  { ...credentials, name: 'Shown to people; trimmed.' },
  { email: user.email, password: 'correct horse battery', name: user.name },
);
add(users.SigninRequest, 'SigninRequest', 'E-mail and password of an account.', credentials, {
  email: user.email,
  password: 'correct horse battery',
});
add(users.SessionUser, 'SessionUser', 'Who is signed in.', {
  id: 'Id of the user.',
  email: 'In lower case.',
  name: 'As given at sign-up.',
});
add(
  users.SessionResponse,
  'SessionResponse',
  'The user of the new session.',
  { user: 'The user.' },
  { user },
);
add(users.MaybeSessionResponse, 'MaybeSessionResponse', 'Who is signed in.', {
  user: 'null when nobody is signed in.',
});
add(users.OkResponse, 'OkResponse', 'It is done.', { ok: 'Always true.' }, { ok: true });
add(
  users.UserProfile,
  'UserProfile',
  'The signed-in user and the present cycle of the quota.',
  {
    id: 'Id of the user.',
    email: 'In lower case.',
    name: 'As given at sign-up.',
    plan: 'The plan.',
    aiGenerationsUsed: 'Generations counted in the present cycle.',
    aiGenerationsResetAt: 'When the count returns to 0; null before the first generation of a cycle.',
    compositionCount: 'Number of the user’s assets.',
    themeCount: 'Number of the user’s projects with a brand.',
    createdAt: 'When the account was made.',
    isOperator: 'Whether the operator’s endpoints answer this user.',
  },
  {
    ...user,
    plan: 'free',
    aiGenerationsUsed: 2,
    aiGenerationsResetAt: '2026-01-31T00:00:00.000Z',
    compositionCount: 2,
    themeCount: 1,
    emailVerified: true,
    hasPassword: true,
    isOperator: false,
    createdAt,
  },
);

// ── Projects ────────────────────────────────────────────────────────────────────────────────────

const brand = {
  colors: {
    primary: '#3b5bdb',
    secondary: '#748ffc',
    accent: '#f76707',
    background: '#ffffff',
    foreground: '#1a1b1e',
  },
  fonts: { heading: 'Inter', body: 'Georgia' },
};
const proxyFields = {
  proxy_key: 'The project key: public. null before the proxy configuration was first saved.',
  signing_secret: 'Secret of signed URLs. Shown once, by the request that makes it; null everywhere else.',
  signing_enabled: 'Whether signed URLs are accepted.',
  allowed_origins: 'JSON text of the array of origins; null before it was first set.',
  source_hosts: 'Hosts that sources may come from, subdomains included; null: any.',
  default_motion: 'Used where a request names no motion.',
  default_dur_seconds: 'Used where a request names no length.',
  default_mode: 'Used where a request names no mode.',
  overage_enabled: 'Whether runs past the monthly limit are accepted and charged.',
  overage_cap_cents: 'Past this sum of overage runs are refused; null: no bound.',
};
const proxyConfig = {
  proxy_key: proxyKey,
  allowed_origins: '["https://example.com"]',
  default_motion: 'medium',
  default_dur_seconds: 4,
  default_mode: 'loop',
  signing_secret: null,
  signing_enabled: false,
  source_hosts: null,
  overage_enabled: false,
  overage_cap_cents: null,
};
const project = {
  id: projectId,
  name: 'Shop',
  domains: ['example.com'],
  brandConfig: brand,
  isDefault: true,
  contentInventory: null,
  messagingContext: null,
  crawledAt: null,
  createdAt,
  updatedAt: createdAt,
  ...proxyConfig,
};
const projectFields = {
  name: '1 to 255 characters, trimmed.',
  domains: 'Domains of the brand.',
  brandConfig: 'Replaces the stored object; `{}` clears it.',
  isDefault: 'The default project; setting it clears it on the others.',
};

add(projects.BrandConfig, 'BrandConfig', 'Colours, fonts and names of a brand.', {
  colors: 'All five, when there are any.',
  fonts: 'Both, when there are any.',
  brandName: 'The brand’s name.',
  logoUrl: 'Address of the logo.',
});
add(
  projects.Project,
  'Project',
  'A project: the home of assets, with its brand and the configuration of its proxy.',
  {
    id: 'Id of the project.',
    ...projectFields,
    brandConfig: 'The brand; `{}` when there is none.',
    contentInventory: 'What the last deep crawl found; null before.',
    messagingContext: 'Tone and audience that the last deep crawl found; null before.',
    crawledAt: 'When the domain was last crawled.',
    createdAt: 'ISO 8601.',
    updatedAt: 'ISO 8601.',
    ...proxyFields,
  },
  project,
);
add(projects.ProjectResponse, 'ProjectResponse', 'A project.', {
  project: 'The project.',
  compositionCount: 'Number of its assets.',
});
add(projects.CreatedProjectResponse, 'CreatedProjectResponse', 'The new project.', {
  project: 'The project.',
});
add(projects.ProjectList, 'ProjectList', 'All projects of the user.', { projects: 'Oldest first.' });
add(projects.CreateProjectRequest, 'CreateProjectRequest', 'A new project.', projectFields, {
  name: 'Shop',
  domains: ['example.com'],
});
add(
  projects.UpdateProjectRequest,
  'UpdateProjectRequest',
  'What is to change; the rest stays.',
  projectFields,
  { name: 'Shop', brandConfig: brand },
);
add(
  projects.ProxyConfigRequest,
  'ProxyConfigRequest',
  'What is to change; the rest stays.',
  {
    ...proxyFields,
    allowed_origins:
      'Origins whose pages may use the proxy: `https://host[:port]`, or `host[:port]` for any scheme. Subdomains are included.',
    enable_signing: 'true makes the signing secret and shows it once; false discards it.',
  },
  { allowed_origins: ['https://example.com'], default_motion: 'medium' },
);
add(
  projects.ProxyConfigResponse,
  'ProxyConfigResponse',
  'The proxy configuration as it is now.',
  { project: 'The configuration.' },
  { project: proxyConfig },
);

// ── Assets ──────────────────────────────────────────────────────────────────────────────────────

const optionFields = {
  motion: 'How much moves.',
  mode: 'What the animation is for: it loops, plays once as it comes into view, or plays while pointed at.',
  dur_seconds: 'Length in seconds.',
  prompt_override: 'What should move and how, in words, instead of what the analysis suggests.',
  seed: 'Another seed makes another animation of the same source.',
  aspect: 'Crops around the point of interest; `source` keeps the image’s own. Needs a paid plan.',
  model: 'Which model animates; what is there depends on the plan.',
};
const urls = {
  mp4_url: 'The finished animation: public, never changing.',
  poster_url: 'The frame to show beside it.',
  embed_url: 'The proxy URL of the asset, once the project has a key: the same for ever.',
};
const media = (name: string) => `https://assets.example.com/media/${assetId}/1-8c1f0e2b7a9d4c35.${name}`;
const embedUrl = `https://assets.example.com/v1/${proxyKey}/a/${assetId}.mp4`;

add(assets.Motion, 'Motion', 'How much moves.');
add(assets.Mode, 'Mode', 'What the animation is for.');
add(assets.Aspect, 'Aspect', 'Width to height.');
add(assets.Model, 'Model', 'The models: `fast` on every plan, `standard` on pro and team, `cinema` on team.');
add(assets.LoopMode, 'LoopMode', 'How the loop was closed; `none` for modes that do not loop.');
add(assets.AssetStatus, 'AssetStatus', 'Where an asset is: being made, finished, or failed.');
add(
  assets.PrepareRequest,
  'PrepareRequest',
  'The source and how it is to move. What is not sent comes from the project’s defaults.',
  {
    project_id: 'The project that the asset belongs to.',
    src: 'Where the source image is: png, jpeg or webp, at most 10 MB. The `url` of an upload, or any public address.',
    ...optionFields,
  },
  { project_id: projectId, src, mode: 'loop', motion: 'medium', dur_seconds: 4 },
);
add(
  assets.PrepareResponse,
  'PrepareResponse',
  'The asset of the source: a new one, or the one that was made before.',
  {
    asset_id: 'Id of the asset: stable across regeneration.',
    status: 'Where it is.',
    eta_seconds: 'Seconds until it is likely to be ready; while pending.',
    ...urls,
  },
  { asset_id: assetId, status: 'pending', eta_seconds: 12, embed_url: embedUrl },
);
add(
  assets.RegenerateRequest,
  'RegenerateRequest',
  'What the new run does otherwise; the rest stays.',
  optionFields,
  { motion: 'kinetic' },
);
add(
  assets.RegenerateResponse,
  'RegenerateResponse',
  'The asset, whose new run has begun.',
  { asset_id: 'Id of the asset: the same as before.', status: 'Where it is.', embed_url: urls.embed_url },
  { asset_id: assetId, status: 'pending', embed_url: embedUrl },
);
add(assets.CancelResponse, 'CancelResponse', 'The asset after its run was cancelled.', {
  asset_id: 'Id of the asset.',
  status: '`ready` when an earlier run has left an animation, else `failed`.',
});
add(
  assets.Asset,
  'Asset',
  'One generated animation.',
  {
    asset_id: 'Id of the asset: stable across regeneration.',
    project_id: 'The project it belongs to.',
    status: 'Where it is.',
    state: 'The state of its machine, finer than the status.',
    src: 'The source, without its fragment.',
    ...optionFields,
    prompt_override: 'The words it was asked with.',
    run: '1 for the first run, one more for each regenerate.',
    ...urls,
    bytes: 'Size of the mp4.',
    loop_mode: 'How the loop was closed.',
    width: 'Pixels.',
    height: 'Pixels.',
    latency_ms: 'From acceptance to ready, of the last run that was.',
    error_code: 'Why the last run failed.',
    error_msg: 'The same in words, for people.',
    hint: 'What to do about it.',
    created_at: 'Unix ms.',
    updated_at: 'Unix ms.',
  },
  {
    asset_id: assetId,
    project_id: projectId,
    status: 'ready',
    state: 'ready',
    src,
    motion: 'medium',
    dur_seconds: 4,
    mode: 'loop',
    seed: null,
    prompt_override: null,
    aspect: 'source',
    model: 'fast',
    run: 1,
    mp4_url: media('mp4'),
    poster_url: media('jpg'),
    bytes: 812_344,
    loop_mode: 'crossfade',
    width: 1280,
    height: 720,
    latency_ms: 9_120,
    error_code: null,
    error_msg: null,
    hint: null,
    embed_url: embedUrl,
    created_at: createdTs,
    updated_at: createdTs + 9_120,
  },
);
add(assets.AssetResponse, 'AssetResponse', 'An asset.', { asset: 'The asset.' });
add(assets.AssetList, 'AssetList', 'A page of assets.', {
  assets: 'Newest first.',
  next_cursor: '`cursor` of the next page; null on the last.',
});
add(
  assets.UploadResponse,
  'UploadResponse',
  'The stored image.',
  { url: 'Its address: `src` of a later prepare.', key: 'Its name in the address.' },
  {
    url: 'https://assets.example.com/uploads/upl_9sKd02LmQxv7Yc3HfRtB.png',
    key: 'upl_9sKd02LmQxv7Yc3HfRtB.png',
  },
);
add(
  assets.PendingBody,
  'PendingBody',
  'The animation is being made.',
  {
    status: 'Always `pending`.',
    asset_id: 'The asset.',
    eta_seconds: 'Seconds until it is likely to be ready.',
  },
  { status: 'pending', asset_id: assetId, eta_seconds: 12 },
);

// ── Events and webhooks ─────────────────────────────────────────────────────────────────────────

add(events.EventName, 'EventName', 'The closed set of events.');
add(events.Stage, 'Stage', 'Stages of the pipeline.');
add(
  events.DeliveryFailure,
  'DeliveryFailure',
  'Why an attempt failed; `status` is an answer that is no 2xx or 3xx.',
);
add(events.WebhookEvent, 'WebhookEvent', 'Types that a webhook can be subscribed to.');
add(
  events.AssetEvent,
  'AssetEvent',
  'An event as streams and timelines show it.',
  {
    event: 'Its name.',
    ts: 'Unix ms, strictly increasing within a project: also the id in streams.',
    attempt: '1 for the first attempt of a stage, one more for each retry.',
    request_id: 'X-Request-Id of the request that began the run.',
    asset_id: 'The asset.',
    project_id: 'Its project.',
    run: 'Which run of the asset.',
    stage: 'The stage, where there is one.',
    latency_ms: 'How long the stage took; on its end.',
    error_code: 'Why; on failures.',
    error_msg: 'The same in words; on failures.',
    next_at_ms: 'When the next attempt begins, unix ms; on retry_scheduled.',
    mp4_url: 'The finished animation; on ready.',
    poster_url: 'Its poster; on ready.',
    bytes: 'Size of the mp4; on ready.',
    loop_mode: 'How the loop was closed; on ready.',
    delivery_id: 'The delivery; on webhook events.',
    event_id: 'Its webhook-id; on webhook events.',
    event_type: 'What was delivered; on webhook events.',
    response_code: 'What the endpoint answered; on webhook events.',
    failure: 'Why the attempt failed; on webhook events.',
  },
  {
    event: 'ready',
    ts: createdTs + 9_120,
    attempt: 1,
    request_id: 'req_1f3a9c27',
    asset_id: assetId,
    project_id: projectId,
    run: 1,
    mp4_url: media('mp4'),
    poster_url: media('jpg'),
    bytes: 812_344,
    loop_mode: 'crossfade',
  },
);
add(events.Timeline, 'Timeline', 'Events of an asset.', { events: 'Oldest first.' });
add(
  events.WebhookEnvelope,
  'WebhookEnvelope',
  'Body of a webhook.',
  {
    id: 'The same as the webhook-id header: deduplicate on it.',
    type: 'What happened.',
    ts: 'Unix ms.',
    asset_id: 'The asset; empty in a test.',
    project_id: 'Its project.',
    request_id: 'X-Request-Id of the request that began the run.',
    data: 'Depends on the type.',
  },
  {
    id: eventId,
    type: 'asset.completed',
    ts: createdTs + 9_120,
    asset_id: assetId,
    project_id: projectId,
    request_id: 'req_1f3a9c27',
    data: { mp4_url: media('mp4'), bytes: 812_344, loop_mode: 'crossfade' },
  },
);

const deliveryFields = {
  id: 'Id of the delivery.',
  event_id: 'The webhook-id that is sent.',
  event_type: 'What is delivered.',
  asset_id: 'The asset; null for a test.',
  attempt: 'The attempt being made or last made.',
  status: 'Where the delivery is.',
  response_code: 'What the endpoint last answered.',
  next_attempt_ts: 'When it is tried again, unix ms; while `retrying`.',
  created_at: 'Unix ms.',
  delivered_at: 'Unix ms.',
};
const delivery = {
  id: deliveryId,
  event_id: eventId,
  event_type: 'asset.completed',
  asset_id: assetId,
  attempt: 1,
  status: 'delivered',
  response_code: 200,
  next_attempt_ts: null,
  created_at: createdTs,
  delivered_at: createdTs + 210,
};

const webhookFields = {
  webhook_url: 'The endpoint; null: none.',
  webhook_events: 'Types it is sent.',
  webhooks_enabled: 'Whether events are sent. Tests always are: the first that arrives turns this on.',
};
const webhook = {
  webhook_url: 'https://example.com/hooks',
  webhook_events: ['asset.completed', 'asset.failed'],
  webhooks_enabled: true,
};
const configFields = {
  ...webhookFields,
  webhook_secret_preview: 'First characters of the secret; null before there is one.',
};
const config = { ...webhook, webhook_secret_preview: 'whsec_k3Lm9Q…' };
const secret = 'whsec_k3Lm9QvT0c2Vb7xRZnW5hJ8yUeI1oP4aSdFgHjKlXzA=';

add(webhooks.WebhookConfig, 'WebhookConfig', 'Where webhooks go, and which.', configFields, config);
add(
  webhooks.WebhookConfigRequest,
  'WebhookConfigRequest',
  'Where webhooks shall go, and which.',
  webhookFields,
  webhook,
);
add(
  webhooks.WebhookConfigSaved,
  'WebhookConfigSaved',
  'The configuration as it is now.',
  { ...configFields, webhook_secret: 'The secret; only in the answer to the save that made it.' },
  config,
);
add(
  webhooks.WebhookSecret,
  'WebhookSecret',
  'A new secret. The one before signs beside it for 24 hours.',
  { webhook_secret: 'The secret. It is not shown again.' },
  { webhook_secret: secret },
);
add(webhooks.DeliveryStatus, 'DeliveryStatus', 'Where a delivery is; `pending`: due now, or being sent.');
add(webhooks.Delivery, 'Delivery', 'A webhook on its way, or there.', deliveryFields, delivery);
add(webhooks.DeliveryDetail, 'DeliveryDetail', 'A delivery with what was sent and answered.', {
  ...deliveryFields,
  response_body_preview: 'First 1,024 bytes of the answer.',
  payload_json: 'The body that is sent.',
  failure: 'Why the last attempt failed.',
});
add(webhooks.DeliveryList, 'DeliveryList', 'A page of deliveries.', {
  deliveries: 'Newest first.',
  next_cursor: '`cursor` of the next page; null on the last.',
});
add(
  webhooks.RedeliverRequest,
  'RedeliverRequest',
  'Which dead deliveries are sent again.',
  { since: 'Those made at this time or after it, unix ms.' },
  { since: createdTs },
);
add(
  webhooks.RedeliverResponse,
  'RedeliverResponse',
  'They are on their way again.',
  {
    ok: 'Always true.',
    redelivered: 'How many.',
    has_more: 'More are dead than one request sends again: the same request takes the next.',
  },
  { ok: true, redelivered: 12, has_more: false },
);
add(
  crawl.CrawlRequest,
  'CrawlRequest',
  'The domain to look at.',
  { domain: 'Host name.' },
  { domain: 'example.com' },
);
add(
  crawl.DetectBrandResponse,
  'DetectBrandResponse',
  'What the domain’s pages say of its brand.',
  { brandConfig: 'Colours and fonts, each when found.' },
  { brandConfig: brand },
);
add(crawl.DeepCrawlResult, 'DeepCrawlResult', 'Brand, content, messaging and design of a domain.', {
  brand: 'Colours, fonts, name and logo.',
  content: 'What its pages say.',
  messaging: 'How they say it, and to whom.',
  design: 'How they look.',
});
add(crawl.DeepCrawlResponse, 'DeepCrawlResponse', 'What was found.', { result: 'The inventory.' });

type FieldsOf<S extends z.ZodType> =
  S extends z.ZodObject<infer Shape> ? { readonly [K in keyof Shape]?: string } : never;

/** Names a schema, for who makes documents of it: see src/http/openapi-schemas.ts. */
function add<S extends z.ZodType>(
  schema: S,
  id: string,
  description: string,
  fields?: FieldsOf<S>,
  example?: unknown,
): void {
  z.globalRegistry.add(schema, {
    ...z.globalRegistry.get(schema),
    id,
    description,
    ...(fields ? { fields } : {}),
    ...(example === undefined ? {} : { examples: [example] }),
  });
}
