/**
 * What the document says of routes that write their answers themselves: media, the proxy, streams, uploads, pages.
 * Tests hold every answer against it.
 */
import { z } from 'zod';
import { Aspect, Mode, Motion, PendingBody, Seconds, Seed } from '../../schemas/asset.ts';
import { ErrorBody, GenerationFailedBody, RetryErrorBody, UpgradeErrorBody } from '../../schemas/errors.ts';
import { EventName } from '../../schemas/events.ts';
import { proxy, sse } from '../../schemas/limits.ts';
import type { JsonSchema } from '../../schemas/openapi.ts';
import type { AnswerHeaders, AnswerSpec, RawSpec } from './route.ts';

type Answers = Record<number, AnswerSpec>;

const binary: JsonSchema = { type: 'string', format: 'binary' };

/** What server.ts answers for any route: a head that is not clear, and a handler that fails. */
const failures: Answers = {
  400: json('The request is malformed', ErrorBody),
  431: json('The head of the request is too large', ErrorBody),
  500: json('Internal error', ErrorBody),
  503: json('Unavailable: try again', ErrorBody, { 'Retry-After': 'always' }),
};

/** A redirect to or from another provider of identities. */
export const oauthSpec = {
  params: { provider: { description: '`google` or `github`.', example: 'google' } },
  responses: {
    302: {
      description: 'To the provider, to the dashboard, or to the sign-in page with `error`',
      headers: {
        Location: 'always',
        'Cache-Control': 'always',
        'Referrer-Policy': 'always',
        'Set-Cookie': 'sometimes',
      },
    },
    ...failures,
    404: json('No such provider', ErrorBody),
    429: json('Too many redirects for one address', RetryErrorBody, { 'Retry-After': 'always' }),
  },
} as const satisfies RawSpec;

/** A page or file of this process, of one of these types. */
export const staticAnswers = (
  description: string,
  types: readonly string[],
  headers: AnswerHeaders = {},
): Answers => ({
  200: {
    description,
    content: Object.fromEntries(
      types.map((type) => [type, type === 'application/json' ? {} : { type: 'string' }]),
    ),
    headers: {
      ETag: 'always',
      'Cache-Control': 'always',
      Vary: 'always',
      'Content-Encoding': 'sometimes',
      ...headers,
    },
  },
  304: unchanged({ 'Cache-Control': 'always', ...headers }),
  ...failures,
});

const conditionalHeaders = {
  'If-None-Match': 'ETags that are known: 304 when one of them still holds.',
};

export const staticRequestHeaders = {
  ...conditionalHeaders,
  'Accept-Encoding': 'br and gzip are understood.',
};

/** What lies below `/dashboard`. */
export const dashboardForms: readonly (RawSpec & { path: string })[] = [
  {
    path: '/dashboard/{page}',
    summary: 'A page of the dashboard',
    auth: 'none',
    params: { page: { description: 'Name of the page; deeper ones are answered alike.', example: 'signin' } },
    headers: staticRequestHeaders,
    responses: {
      ...staticAnswers('The page', ['text/html'], {
        'Content-Security-Policy': 'always',
        'X-Content-Type-Options': 'always',
      }),
      404: json('A name with a dot that no file has', ErrorBody),
    },
  },
  {
    path: '/dashboard/assets/{file}',
    summary: 'What the dashboard loads',
    auth: 'none',
    params: { file: { description: 'Name with a hash of the content.' } },
    headers: staticRequestHeaders,
    responses: {
      ...staticAnswers('The file', ['text/javascript', 'text/css', 'image/svg+xml', 'font/woff2'], {
        'X-Content-Type-Options': 'always',
      }),
      404: json('No such file', ErrorBody),
    },
  },
];

const mediaRequestHeaders = {
  Range: 'One range of bytes (`bytes=0-1023`); several are answered with the whole.',
  'If-Range': 'The range holds only for this ETag or date.',
  ...conditionalHeaders,
  'If-Modified-Since': 'Looked at when If-None-Match is absent.',
};

// ── Media ───────────────────────────────────────────────────────────────────────────────────────

const anyPage: AnswerHeaders = { 'Access-Control-Allow-Origin': 'always' };

const fileHeaders: AnswerHeaders = {
  ETag: 'always',
  'Last-Modified': 'always',
  'Accept-Ranges': 'always',
  'Cache-Control': 'always',
  'X-Content-Type-Options': 'always',
  ...anyPage,
};

const fileAnswers = (what: string, types: readonly string[], headers = fileHeaders): Answers => {
  const content = Object.fromEntries(types.map((type) => [type, binary]));
  return {
    200: { description: what, content, headers },
    206: {
      description: 'The range that was asked for',
      content,
      headers: { ...headers, 'Content-Range': 'always' },
    },
    304: unchanged(headers),
    416: json('The range lies outside of the file', ErrorBody, { 'Content-Range': 'always', ...anyPage }),
  };
};

/** `/media/:asset/:file` */
export const mediaSpec: RawSpec = {
  description:
    'The addresses in `mp4_url` and `poster_url`: public, never changing, and impossible to guess. They need no key, and caches may keep them for ever.',
  auth: 'none',
  params: {
    asset: { description: 'Id of the asset.', example: 'ast_4fJq0aZbR2mXc7LdTn8W' },
    file: { description: '`{run}-{hash}.mp4` or `.jpg`.', example: '1-8c1f0e2b7a9d4c35.mp4' },
  },
  headers: mediaRequestHeaders,
  responses: {
    ...fileAnswers('The animation or its poster', ['video/mp4', 'image/jpeg']),
    ...failures,
    404: json('No such file, or its asset was deleted', ErrorBody, anyPage),
  },
};

/** `/uploads/:key` */
export const uploadSpec: RawSpec = {
  description: 'The address that an upload was answered with. Who has it may read the image.',
  auth: 'none',
  params: { key: { description: '`key` of the upload.', example: 'upl_9sKd02LmQxv7Yc3HfRtB.png' } },
  headers: conditionalHeaders,
  responses: {
    200: {
      description: 'The image',
      content: { 'image/png': binary, 'image/jpeg': binary, 'image/webp': binary },
      headers: {
        ETag: 'always',
        'Last-Modified': 'always',
        'Cache-Control': 'always',
        'X-Content-Type-Options': 'always',
        'Content-Security-Policy': 'always',
      },
    },
    304: unchanged({ 'Cache-Control': 'always' }),
    ...failures,
    404: json('No such upload', ErrorBody),
  },
};

// ── The proxy ───────────────────────────────────────────────────────────────────────────────────

const Integer = z.string().regex(/^\d+$/);

const Options = z.object({
  motion: Motion.optional().describe('How much moves. Default: the project’s, else `subtle`.'),
  dur: Seconds.optional().describe(
    'Length in seconds; also spelt `dur_seconds`. Default: the project’s, else 4.',
  ),
  mode: Mode.optional().describe('What the animation is for. Default: the project’s, else `loop`.'),
  seed: Seed.optional().describe('Another seed makes another animation of the same source.'),
  aspect: Aspect.optional().describe('Crops around the point of interest; needs a paid plan.'),
});

const Signature = z.object({
  exp: Integer.optional().describe('Signed mode: unix seconds at which the signature ends.'),
  sig: z
    .string()
    .optional()
    .describe(
      'Signed mode: base64url of HMAC-SHA256 over `<project_key>:<source_url>:<exp>`, keyed with the signing secret.',
    ),
});

const Wait = z.object({
  wait_ms: Integer.optional().describe(
    `Wait up to so many milliseconds for the animation; more than ${proxy.maxWaitMs} is taken as ${proxy.maxWaitMs}.`,
  ),
});

const proxyAccess =
  'Needs the project key and either an `Origin` (or `Referer`) that the project allows, or a signature: a request with `sig` or `exp` is judged by its signature alone.';

const proxyRequestHeaders = {
  Origin: 'The page that asks. Browsers send it with `crossorigin="anonymous"`.',
  Referer: 'Stands in for Origin: a plain `<video>` or `<img>` sends no Origin.',
  ...mediaRequestHeaders,
};

const proxyFileHeaders: AnswerHeaders = { ...fileHeaders, 'X-Service-Asset-Status': 'sometimes' };

const refusedSource: Answers = {
  403: json(
    'Unknown project key, origin not allowed, invalid signature, source host not allowed, or not in the plan',
    UpgradeErrorBody.or(ErrorBody),
    anyPage,
  ),
  404: json('Nothing there', ErrorBody, anyPage),
};

const refusedAsset: Answers = {
  403: json('Unknown project key, origin not allowed, or invalid signature', ErrorBody, anyPage),
  404: json('No such asset in the project', ErrorBody, anyPage),
};

const pendingAnswers: Answers = {
  202: json('The animation is being made: ask again', PendingBody, {
    'Retry-After': 'always',
    'X-Service-Eta-Ms': 'always',
    ...anyPage,
  }),
  502: json('The last generation failed; the hint says how to begin another', GenerationFailedBody, anyPage),
};

const malformed: Answers = {
  400: json('Malformed proxy URL', ErrorBody, { 'Access-Control-Allow-Origin': 'sometimes' }),
};

const key = {
  description: 'Project key: public, from the proxy configuration.',
  example: 'pk_5hT9bXqLw2NfZr8KcYd3Vm1A',
};
const source = {
  description: 'The source’s URL in base64url without padding; at most 1,500 bytes before encoding.',
  example: Buffer.from('https://example.com/cat.png').toString('base64url'),
};
const asset = { description: 'Id of the asset.', example: 'ast_4fJq0aZbR2mXc7LdTn8W' };

/** The forms of `/v1/*`. */
export const proxyForms: readonly (RawSpec & { path: string })[] = [
  {
    path: '/v1/{key}/{source}.mp4',
    summary: 'Animate a source by its URL',
    description: `The first request of a source starts its animation and counts one generation; from then on the same URL answers with the finished mp4. Until then it answers 202, or waits with \`wait_ms\`. ${proxyAccess} In signed mode options stand in the fragment of the signed source, never in the query.`,
    auth: 'none',
    params: { key, source },
    query: Options.extend(Wait.shape).extend(Signature.shape),
    headers: proxyRequestHeaders,
    responses: {
      ...failures,
      ...fileAnswers('The animation', ['video/mp4'], proxyFileHeaders),
      ...refusedSource,
      ...pendingAnswers,
      ...malformed,
      429: json('The monthly limit is reached: no run was started', UpgradeErrorBody, anyPage),
      503: json('Unavailable or busy: try again', RetryErrorBody.or(ErrorBody), { 'Retry-After': 'always' }),
    },
  },
  {
    path: '/v1/{key}/{source}.jpg',
    summary: 'Read the poster of a source',
    description: `The frame that stands beside the animation, or a jpeg of the source while there is none. Free: it never starts a generation. ${proxyAccess}`,
    auth: 'none',
    params: { key, source },
    query: Options.extend(Wait.shape).extend(Signature.shape),
    headers: proxyRequestHeaders,
    responses: {
      ...failures,
      ...fileAnswers('The poster', ['image/jpeg'], proxyFileHeaders),
      ...refusedSource,
      ...malformed,
      404: json('The source gives no poster', ErrorBody, anyPage),
    },
  },
  {
    path: '/v1/{key}/a/{asset_id}.mp4',
    summary: 'Play an asset by its id',
    description: `The \`embed_url\` of an asset. It stays the same when the asset is regenerated. ${proxyAccess} The signed source is \`asset:<asset_id>\`.`,
    auth: 'none',
    params: { key, asset_id: asset },
    query: Wait.extend(Signature.shape),
    headers: proxyRequestHeaders,
    responses: {
      ...failures,
      ...fileAnswers('The animation', ['video/mp4'], proxyFileHeaders),
      ...refusedAsset,
      ...pendingAnswers,
      ...malformed,
    },
  },
  {
    path: '/v1/{key}/a/{asset_id}.jpg',
    summary: 'Read the poster of an asset',
    description: `Free, like every poster. ${proxyAccess}`,
    auth: 'none',
    params: { key, asset_id: asset },
    query: Wait.extend(Signature.shape),
    headers: proxyRequestHeaders,
    responses: {
      ...failures,
      ...fileAnswers('The poster', ['image/jpeg'], proxyFileHeaders),
      ...refusedSource,
      ...malformed,
    },
  },
];

// ── Streams ─────────────────────────────────────────────────────────────────────────────────────

const StreamQuery = z.object({
  last_event_id: Integer.optional().describe(
    'Goes on after this event: for EventSource, which cannot set the header on its first connection.',
  ),
  types: z
    .string()
    .optional()
    .describe(`Names of events, separated by commas: ${EventName.options.slice(0, 3).join(', ')} …`),
});

const stream = (description: string, headers: AnswerHeaders = {}): Answers => ({
  200: {
    description,
    content: { 'text/event-stream': { type: 'string' } },
    headers: { 'Cache-Control': 'always', ...headers },
  },
  ...failures,
  400: json('`types` names an unknown event', ErrorBody, {
    ...(headers['Access-Control-Allow-Origin'] ? { 'Access-Control-Allow-Origin': 'sometimes' } : {}),
  }),
});

const streamAnswer =
  'Frames of `id` (unix ms of the event), `event` (its name) and `data` (JSON), as long as the stream lives';
const streamText = `A stream lives for at most ${sse.maxMs / 60_000} minutes and says how long to wait before coming back. Come back with \`Last-Event-ID\`: everything after it follows, nothing twice.`;
const streamRequestHeaders = {
  'Last-Event-ID': 'Unix ms of the last event seen: everything after it follows.',
};

const ownStream: Answers = {
  ...stream(streamAnswer, { 'Set-Cookie': 'sometimes' }),
  401: json('Authentication required', ErrorBody),
  404: json('Not found, or not owned by the caller', ErrorBody),
  429: json('Rate limited', RetryErrorBody, { 'Retry-After': 'always' }),
};

/** The three streams. */
export const streamSpecs = {
  byKey: {
    description: `For pages: needs nothing but the project key, and any page may read it. Carries the events of the asset’s life, not those of webhooks. ${streamText}`,
    auth: 'none',
    params: { key, asset },
    query: StreamQuery,
    headers: streamRequestHeaders,
    responses: {
      ...stream(streamAnswer, anyPage),
      403: json('Unknown project key', ErrorBody, anyPage),
      404: json('No such asset in the project', ErrorBody, anyPage),
    },
  },
  ofAsset: {
    description: `Without a Last-Event-ID it begins with the present run’s first event, so that a finished asset shows its end at once. ${streamText}`,
    auth: 'session',
    params: { id: asset },
    query: StreamQuery,
    headers: streamRequestHeaders,
    responses: ownStream,
  },
  ofProject: {
    description: `Every event of every asset of the project, webhooks included, from now on or after Last-Event-ID. While the project’s site is crawled also \`crawl_progress\`, without an id: \`pages_fetched\` of \`pages_planned\`. ${streamText}`,
    auth: 'session',
    params: { id: { description: 'Id of the project.', example: 'prj_Ty4Lq8WmZx1RbN6KvD0c' } },
    query: StreamQuery,
    headers: streamRequestHeaders,
    responses: ownStream,
  },
} as const satisfies Record<string, RawSpec>;

// ── Parts ───────────────────────────────────────────────────────────────────────────────────────

/** An answer in JSON, with the headers that every one has. */
function json(description: string, schema: z.ZodType, headers: AnswerHeaders = {}): AnswerSpec {
  return {
    description,
    content: { 'application/json': schema },
    headers: { 'Cache-Control': 'always', 'X-Content-Type-Options': 'always', ...headers },
  };
}

function unchanged(headers: AnswerHeaders): AnswerSpec {
  return { description: 'What is known still holds', headers: { ETag: 'always', ...headers } };
}
