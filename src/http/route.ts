/**
 * Routes as values: what a request must look like, what may be answered, and who answers. server.ts makes
 * handlers of them, openapi.ts the document.
 */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { z } from 'zod';
import type { JsonSchema } from '../../schemas/openapi.ts';
import type { Session } from '../auth/sessions.ts';
import type { BodyStream } from './body.ts';
import type { Answer, Exchange } from './exchange.ts';
import type { Operation } from './idempotency.ts';
import type { HeaderName } from './openapi-headers.ts';
import { policyOf, type RatePolicy } from './rate-policy.ts';
import type { Services } from './services.ts';

/**
 * `session`: 401 without a session or an API token. `cookie`: an API token does not do (403).
 * `operator`: 404 for everybody who is none, so that nothing is told. `optional`: a session or token is looked at
 * when there is one.
 */
export type Auth = 'session' | 'cookie' | 'operator' | 'optional' | 'none';

export type Reply<S extends number = number, B = unknown> = {
  status: S;
  body: B;
  headers?: Record<string, string>;
};

export type Responses = Record<number, z.ZodType>;

/**
 * Two requests are the same when method, path and body are; of a stream the route itself reads what matters, and
 * answers a SHA-256 of it, or how a body is refused. Its handler says the same by `operation.identify`.
 */
export type Idempotent =
  | boolean
  | { fingerprint(stream: BodyStream, signal: AbortSignal): Promise<string | Answer> };

/** A body that the handler reads itself, for those too large to be kept. */
export type StreamSpec = { contentType: string; schema: JsonSchema };

export type Route = {
  kind: 'json';
  method: 'get' | 'post' | 'put' | 'delete';
  path: string;
  /** Names of the path's parameters, in order. */
  params: string[];
  summary: string | undefined;
  description: string | undefined;
  auth: Auth;
  /** Requests a minute and user; without a number the route shares one bucket with all that have none. */
  perMinute: number | undefined;
  /** What `perMinute` makes of it. */
  policy: RatePolicy;
  /** An Idempotency-Key is obeyed; elsewhere it is ignored. */
  idempotent: Idempotent;
  /** Its handler may run again after a failure, and comes to the same: an outage is waited out. */
  repeatable: boolean;
  query: z.ZodType | undefined;
  body: z.ZodType | undefined;
  stream: StreamSpec | undefined;
  responses: Responses;
  /** Headers of answers beside those that all JSON answers have. */
  answerHeaders: Record<number, AnswerHeaders> | undefined;
  handle(input: RouteInput, services: Services): Promise<Reply> | Reply;
};

/** Headers of an answer: there always, or only sometimes. */
export type AnswerHeaders = Partial<Record<HeaderName, 'always' | 'sometimes'>>;

/** One answer of a raw route. Bodies by content type; without them the answer has none. */
export type AnswerSpec = {
  description: string;
  content?: Record<string, z.ZodType | JsonSchema>;
  headers?: AnswerHeaders;
};

/** What the document says of a raw route, or of one of the forms that its path has. */
export type RawSpec = {
  summary?: string;
  description?: string;
  auth?: Auth;
  /** What the path's parameters are, by name. */
  params?: Record<string, { description: string; example?: string }>;
  query?: z.ZodType;
  /** Request headers that matter, with what they do. */
  headers?: Record<string, string>;
  responses?: Record<number, AnswerSpec>;
};

/** A route that reads its request and writes its response itself: media, streams, pages. */
export type RawRoute = RawSpec & {
  kind: 'raw';
  method: 'get' | 'head' | 'options' | 'post' | 'put' | 'delete';
  path: string;
  /** Forms of a path that ends in a wildcard, each with its own entry in the document: `/v1/{key}/{source}.mp4`. */
  forms?: readonly (RawSpec & { path: string })[];
  /** For the document; a route without one, and without forms, is left out. */
  summary?: string;
  /**
   * Must read what it needs of `req` before its first await, answer with `exchange.requestId` in X-Request-Id
   * (writeHead does), and call `exchange.done(status)` when the response has ended. What it throws is answered
   * by 500 when nothing was written yet.
   */
  handle(res: HttpResponse, req: HttpRequest, services: Services, exchange: Exchange): Promise<void> | void;
};

export type AnyRoute = Route | RawRoute;

/** What every handler gets; a typed route adds its path's parameters, query, body and user. */
export type CommonInput = {
  requestId: string;
  /** Aborted when the client goes away. */
  signal: AbortSignal;
  /** Address of the client: see src/auth/client-address.ts. */
  address: string;
  /** What the client says it is; empty when it says nothing. */
  userAgent: string;
  /** Of a request with an Idempotency-Key, on routes that obey it. */
  operation?: Operation | undefined;
};

export type RouteInput = CommonInput & {
  userId: string | undefined;
  session: Session | undefined;
  sessionToken: string | undefined;
  query: unknown;
  body: unknown;
  stream: BodyStream | undefined;
} & Record<string, unknown>;

/** Answers with a status that the route lists and a body of its schema. */
export function reply<const S extends number, B>(
  status: S,
  body: B,
  headers?: Record<string, string>,
): Reply<S, B> {
  return headers ? { status, body, headers } : { status, body };
}

/**
 * A route with its types: parameters from the path, `query` and `body` from their schemas, `userId` when a
 * session is asked for; `handle` may answer only with what `responses` lists.
 */
export function route<
  const P extends string,
  R extends Responses,
  const A extends Auth = 'session',
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
  const T extends StreamSpec | undefined = undefined,
>(spec: {
  method: Route['method'];
  path: P;
  summary?: string;
  description?: string;
  auth?: A;
  perMinute?: number;
  idempotent?: Idempotent;
  /** Reads are when nothing is said. */
  repeatable?: boolean;
  query?: Q;
  body?: B;
  stream?: T;
  responses: R;
  answerHeaders?: Record<number, AnswerHeaders>;
  handle(
    input: CommonInput &
      PathParams<P> &
      UserInput<A> &
      StreamInput<T> & { query: z.output<Q>; body: z.output<B> },
    services: Services,
  ): Promise<ReplyOf<R>> | ReplyOf<R>;
}): Route {
  const { method, path, summary, auth = 'session', perMinute, query, body, stream, responses } = spec;
  const { idempotent = false, repeatable = spec.method === 'get' } = spec;
  const { description, answerHeaders } = spec;
  // The types of one route are checked above; from here on all routes are alike.
  const handle = spec.handle as unknown as Route['handle'];
  const params = paramNames(path);
  return {
    kind: 'json',
    method,
    path,
    params,
    summary,
    description,
    auth,
    perMinute,
    policy: policyOf(method, path, perMinute),
    idempotent,
    repeatable,
    query,
    body,
    stream,
    responses,
    answerHeaders,
    handle,
  };
}

export function rawRoute(spec: Omit<RawRoute, 'kind'>): RawRoute {
  return { kind: 'raw', ...spec };
}

/** Names of a path's parameters, in order. */
function paramNames(path: string): string[] {
  return path
    .split('/')
    .filter((segment) => segment.startsWith(':'))
    .map((segment) => segment.slice(1));
}

type PathParams<P extends string> = P extends `${string}:${infer Name}/${infer Rest}`
  ? { [K in Name]: string } & PathParams<`/${Rest}`>
  : P extends `${string}:${infer Name}`
    ? { [K in Name]: string }
    : unknown;

type UserInput<A extends Auth> = A extends 'session'
  ? { userId: string; session: Session }
  : A extends 'cookie' | 'operator'
    ? { userId: string; session: Session; sessionToken: string }
    : A extends 'optional'
      ? { userId: string | undefined; session: Session | undefined }
      : unknown;

type StreamInput<T> = T extends StreamSpec ? { stream: BodyStream } : unknown;

type ReplyOf<R extends Responses> = {
  [S in keyof R & number]: Reply<S, z.output<R[S]>>;
}[keyof R & number];
