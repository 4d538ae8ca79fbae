/** Headers of answers that the document describes: one row each. */
import type { HeaderObject } from '../../schemas/openapi.ts';

type Row = { description: string; schema: HeaderObject['schema'] };

export const answerHeaders = {
  'X-Request-Id': {
    description:
      'Identifies the request in logs, events and webhooks: the one sent, when it has 4 to 64 word characters and hyphens, else a new one.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{4,64}$' },
  },
  'Retry-After': {
    description: 'Whole seconds to wait before the request is sent again.',
    schema: { type: 'string', pattern: '^[0-9]+$' },
  },
  'RateLimit-Policy': {
    description: 'The limit that holds here: its name, `q` requests in `w` seconds.',
    schema: { type: 'string' },
  },
  RateLimit: {
    description: 'What is left of it: `r` requests, and `t` seconds until one more is there.',
    schema: { type: 'string' },
  },
  'Idempotent-Replayed': {
    description: 'This answer was given before, to the same Idempotency-Key.',
    schema: { type: 'string', enum: ['true'] },
  },
  'WWW-Authenticate': { description: 'API tokens are taken.', schema: { type: 'string', enum: ['Bearer'] } },
  'Accept-Encoding': { description: 'Bodies are taken as they are.', schema: { type: 'string' } },
  'X-Service-Eta-Ms': {
    description: 'Milliseconds until the asset is likely to be ready.',
    schema: { type: 'string', pattern: '^[0-9]+$' },
  },
  'X-Service-Asset-Status': {
    description: '`pending` while the previous animation is served and the next is being made.',
    schema: { type: 'string', enum: ['pending'] },
  },
  'Cache-Control': {
    description: 'How long, and by whom, the answer may be kept.',
    schema: { type: 'string' },
  },
  'Content-Range': {
    description: 'Which bytes the body holds, of how many; with 416 the number alone.',
    schema: { type: 'string', pattern: '^bytes (\\d+-\\d+|\\*)/\\d+$' },
  },
  'Accept-Ranges': {
    description: 'Ranges of bytes may be asked for.',
    schema: { type: 'string', enum: ['bytes'] },
  },
  ETag: {
    description: 'Changes with the content; for If-None-Match and If-Range.',
    schema: { type: 'string' },
  },
  'Last-Modified': { description: 'When the content was made.', schema: { type: 'string' } },
  'Set-Cookie': {
    description: 'The session cookie: when it is set, extended or cleared.',
    schema: { type: 'string' },
  },
  'Referrer-Policy': {
    description: 'The next page does not learn this address.',
    schema: { type: 'string' },
  },
  Link: { description: 'The same in another form.', schema: { type: 'string' } },
  Location: { description: 'Where to go on.', schema: { type: 'string' } },
  Vary: { description: 'Request headers on which the answer depends.', schema: { type: 'string' } },
  'X-Content-Type-Options': {
    description: 'The body is what its type says and nothing else.',
    schema: { type: 'string', enum: ['nosniff'] },
  },
  'Access-Control-Allow-Origin': {
    description: 'Pages that may read the answer: `*`, or the origin that was let in.',
    schema: { type: 'string' },
  },
  'Content-Security-Policy': {
    description: 'What the page may load: nothing foreign.',
    schema: { type: 'string' },
  },
  'Content-Encoding': {
    description: 'How the body is compressed.',
    schema: { type: 'string', enum: ['br', 'gzip'] },
  },
} as const satisfies Record<string, Row>;

export type HeaderName = keyof typeof answerHeaders;
