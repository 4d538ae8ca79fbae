/**
 * The front end: routes on uWebSockets.js.
 *
 * The order in which a request is judged: its head (400), method and path (404, 405), cross-site (403), session
 * or API token (401, 403; 404 where only operators may), rate limit (429), body (413, 415, 400), Idempotency-Key
 * (400, 409, 422), then its handler. Every answer has an X-Request-Id, every finished request one line in the log.
 */

import uws, { type HttpRequest, type HttpResponse, type us_listen_socket } from 'uWebSockets.js';
import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import { EffectError } from '../../schemas/errors.ts';
import { http as limits } from '../../schemas/limits.ts';
import { BusyError } from '../auth/passwords.ts';
import type { Session } from '../auth/sessions.ts';
import { StorageError } from '../media/storage.ts';
import { HttpMeter, type RouteMeter } from '../metrics/http-meter.ts';
import type { Turn } from '../quota/rate-limit.ts';
import { isStoreOutage } from '../store/client.ts';
import { addressOf } from './address.ts';
import { after } from './after.ts';
import { type Body, type BodyTimes, collectBody, SlowBodyError, streamBody } from './body.ts';
import { type Credential, findSession, readCredential, unauthorized } from './credential.ts';
import {
  type Answer,
  answerJson,
  clientGone,
  type Exchange,
  type ExchangeHost,
  OpenExchange,
} from './exchange.ts';
import { type Fault, type Head, readHead } from './head.ts';
import { answerOnce, fingerprintOf } from './idempotency.ts';
import { isJson, parseJson } from './json.ts';
import { rateLimited, rateLines, takeTurn } from './rate-policy.ts';
import type { AnyRoute, RawRoute, Route, RouteInput } from './route.ts';
import type { Services } from './services.ts';
import { waitOut } from './wait-out.ts';

export type ServerOptions = {
  host: string;
  /** 0: any free one. */
  port: number;
  routes: readonly AnyRoute[];
  services: Services;
  /** Lets several processes share the port. */
  sharePort?: boolean;
  /** How long bodies may take; those of the contract when absent. */
  bodyTimes?: BodyTimes;
  /**
   * How long a stop goes on answering on the connections that are there, each answer with close: one that is cut while
   * a request is on its way is an error to its client. 0 where no other process would take them.
   */
  drainMs?: number;
  /** Counts requests; made here when absent. */
  meter?: HttpMeter;
  /** Told of every finished request. */
  onFinished?: OnFinished;
};

/** `status` as in the log; `ms` is how long it took. */
export type OnFinished = (exchange: OpenExchange, status: number, ms: number) => void;

export type Server = {
  port: number;
  /** Stops listening, lets running requests finish for at most ten seconds, then closes every connection. */
  close(): Promise<void>;
};

/** @throws when the binary of uWebSockets.js is not the real one, or the port is not to be had. */
export async function startServer(options: ServerOptions): Promise<Server> {
  checkBinary(uws, process.versions.modules);
  const { services, routes, host, port, sharePort = false, bodyTimes = limits, drainMs = 0 } = options;
  const { meter = new HttpMeter(), onFinished } = options;
  const app = uws.App();
  const running = createRunning(services, meter, onFinished);
  const context: Context = {
    services,
    running,
    meter,
    bodyTimes,
    warnForwarded: createForwardedWarning(services),
  };
  for (const route of routes) register(app, route, context);
  registerRest(app, routes, context);

  const listening = await listen(app, host, port, sharePort);
  return {
    port: uws.us_socket_local_port(listening),
    async close() {
      uws.us_listen_socket_close(listening);
      await running.stop(drainMs);
      app.close();
    },
  };
}

/**
 * The package falls back without a word to a server in JavaScript when its binary does not load.
 *
 * @throws naming the Node that is needed.
 */
export function checkBinary(loaded: { App: unknown }, modules: string): void {
  const isNative = /\[native code\]/.test(Function.prototype.toString.call(loaded.App));
  if (!isNative) {
    throw new Error(
      `uWebSockets.js has no binary for this Node (ABI ${modules}, ${process.platform} ${process.arch}): use Node 20`,
    );
  }
}

type App = ReturnType<typeof uws.App>;
type Context = {
  services: Services;
  running: Running;
  meter: HttpMeter;
  bodyTimes: BodyTimes;
  warnForwarded(forwardedFor: string): void;
};

const methodNames = {
  get: 'get',
  head: 'head',
  options: 'options',
  post: 'post',
  put: 'put',
  delete: 'del',
} as const;

function register(app: App, route: AnyRoute, context: Context): void {
  const pattern = toPattern(route.path);
  if (route.kind === 'raw') {
    const meter = context.meter.route(route.method, route.path);
    app[methodNames[route.method]](pattern, (res, req) => handleRaw(route, res, req, context, meter));
    return;
  }
  const meter = context.meter.route(route.method, route.path);
  app[methodNames[route.method]](pattern, (res, req) => handleJson(route, res, req, context, meter));
  if (route.method !== 'get') return;
  const headMeter = context.meter.route('head', route.path);
  app.head(pattern, (res, req) => handleJson(route, res, req, context, headMeter, true));
}

/** Known paths with another method, and everything else. */
function registerRest(app: App, routes: readonly AnyRoute[], context: Context): void {
  const methods = new Map<string, Set<string>>();
  for (const route of routes) {
    const { path, method, kind } = route;
    // To everybody who is no operator these paths are unknown ones.
    if (kind === 'json' && route.auth === 'operator') continue;
    const pattern = toPattern(path);
    const known = methods.get(pattern) ?? new Set(['OPTIONS']);
    known.add(method.toUpperCase());
    if (kind === 'json' && method === 'get') known.add('HEAD');
    methods.set(pattern, known);
  }
  for (const [pattern, known] of methods) {
    const headers = { Allow: [...known].sort().join(', ') };
    app.any(pattern, (res, req) =>
      handleRest(res, req, context, { status: 405, body: { error: 'method not allowed' }, headers }),
    );
  }
  app.any('/*', (res, req) => handleRest(res, req, context, { status: 404, body: { error: 'not found' } }));
}

/** Names of parameters are dropped, so that two routes of one path with different names are one path. */
function toPattern(path: string): string {
  return path.replace(/:[^/]+/g, ':p');
}

function handleRest(res: HttpResponse, req: HttpRequest, context: Context, answer: Answer): void {
  const head = readHead(req);
  const exchange = context.running.open(
    res,
    head,
    'none',
    req.getMethod(),
    context.meter.route('any', 'none'),
  );
  const isHead = req.getMethod() === 'head';
  const isOptions = req.getMethod() === 'options' && answer.status === 405;
  if (head.fault) refuse(exchange, head.fault, isHead);
  else answerJson(exchange, isOptions ? { status: 204, headers: answer.headers ?? {} } : answer, { isHead });
}

function handleRaw(
  route: RawRoute,
  res: HttpResponse,
  req: HttpRequest,
  context: Context,
  meter: RouteMeter,
): void {
  const head = readHead(req);
  head.isHead = route.method === 'head';
  const exchange = context.running.open(res, head, route.path, route.method, meter);
  if (head.fault) {
    refuse(exchange, head.fault, route.method === 'head');
    return;
  }
  try {
    const handled = route.handle(res, req, context.services, exchange);
    if (handled) handled.catch((cause: unknown) => answerFailure(exchange, cause));
  } catch (cause) {
    answerFailure(exchange, cause);
  }
  exchange.leaveHandler();
}

/** What is read of a JSON request before its handler returns to uWebSockets.js. */
type Incoming = {
  route: Route;
  head: Head;
  exchange: Exchange;
  params: string[];
  query: string;
  body: Promise<Body> | undefined;
  stream: ReturnType<typeof streamBody> | undefined;
  isHead: boolean;
  context: Context;
  /** Who asks, once it is known; for the log. */
  userId: string | undefined;
};

function handleJson(
  route: Route,
  res: HttpResponse,
  req: HttpRequest,
  context: Context,
  meter: RouteMeter,
  isHead = false,
): void {
  const head = readHead(req);
  const exchange = context.running.open(res, head, route.path, isHead ? 'head' : route.method, meter);
  if (head.fault) {
    refuse(exchange, head.fault, isHead);
    return;
  }
  context.warnForwarded(head.forwardedFor);
  const incoming: Incoming = {
    route,
    head,
    exchange,
    params: route.params.length === 0 ? noParams : route.params.map((_, index) => req.getParameter(index)),
    query: route.query || route.idempotent ? (req.getQuery() ?? '') : '',
    stream: route.stream ? streamBody(exchange, head, context.bodyTimes) : undefined,
    body:
      route.stream || route.method === 'get'
        ? undefined
        : collectBody(exchange, head.length, limits.maxJsonBytes, context.bodyTimes),
    isHead,
    context,
    userId: undefined,
  };
  try {
    answer(incoming);
  } catch (cause) {
    answerFailure(exchange, cause);
  }
  exchange.leaveHandler();
}

const noParams: string[] = [];

/** Answers at once where nothing has to be waited for: most reads of a signed-in user. */
function answer(incoming: Incoming): void {
  let outcome: Refused | Promise<Refused>;
  try {
    outcome = judge(incoming);
  } catch (cause) {
    outcome = Promise.reject(cause);
  }
  if (outcome instanceof Promise || incoming.stream) answerLater(incoming, Promise.resolve(outcome));
  else send(incoming, outcome);
}

function answerLater(incoming: Incoming, outcome: Promise<Refused>): void {
  outcome
    .then(
      (answer) => finish(incoming, answer),
      (cause: unknown) => finish(incoming, toAnswer(cause), cause),
    )
    .catch((cause: unknown) => answerFailure(incoming.exchange, cause));
}

/** Answers once a streamed body has been dealt with. */
async function finish(incoming: Incoming, answer: Refused, err?: unknown): Promise<void> {
  const { stream } = incoming;
  const close = answer.close === true || (stream !== undefined && !(await stream.finish()));
  send(incoming, close ? { ...answer, close } : answer, err);
}

function send({ exchange, isHead, userId }: Incoming, answer: Refused, err?: unknown): void {
  const fields = err === undefined ? { userId } : { userId, err };
  answerJson(exchange, answer, { isHead, close: answer.close === true, fields });
}

type Refused = Answer & { close?: boolean };

function judge(incoming: Incoming): Refused | Promise<Refused> {
  const { route, head, context } = incoming;
  const { services } = context;
  const credential = readCredential(head);
  const isForged =
    credential?.kind === 'cookie' &&
    route.method !== 'get' &&
    services.isCrossSite(head.origin, head.secFetchSite);
  // Who is no operator is told nothing of an operator's route, this neither.
  if (isForged && route.auth !== 'operator') return crossSite;
  const found =
    route.auth === 'none' ? undefined : waitOut(() => findSession(credential, services), isOutage);
  return after(found, (session) => {
    const refusal = refuseUser(route, credential, session, services);
    if (refusal) return refusal;
    if (isForged) return crossSite;
    if (!session) return answerInput(incoming, undefined, credential);
    incoming.userId = session.userId;
    const counted = countRequest(incoming, session.userId);
    return after(counted, (limited) => limited ?? answerInput(incoming, session, credential));
  });
}

/** The answer to who is let in. */
function answerInput(
  incoming: Incoming,
  session: Session | undefined,
  credential: Credential | undefined,
): Refused | Promise<Refused> {
  const { route, head } = incoming;
  if (route.method !== 'get' && !plainEncoding.test(head.contentEncoding)) return encoded;
  return after(toInput(incoming, session, credential), (input) => {
    if ('status' in input) return input;
    const reply = handle(incoming, input.value);
    const { renewed } = session ?? {};
    if (renewed === undefined) return reply;
    return after(reply, (answer) => ({ ...answer, headers: { 'Set-Cookie': renewed, ...answer.headers } }));
  });
}

/** Counts a request of a user; the answer when there is no room for it. */
function countRequest(
  { route: { policy }, exchange, context: { services } }: Incoming,
  userId: string,
): Answer | undefined | Promise<Answer | undefined> {
  const settle = (turn: Turn) => {
    exchange.rateLimit = rateLines(services, policy, turn);
    return turn.waitMs > 0 ? rateLimited(turn) : undefined;
  };
  const taken = takeTurn(services, userId, policy);
  return taken instanceof Promise ? taken.then(settle) : settle(taken);
}

const crossSite: Answer = { status: 403, body: { error: 'cross-site request refused' } };

/** The answer to who may not use a route. */
function refuseUser(
  { auth }: Route,
  credential: Credential | undefined,
  session: Session | undefined,
  { isOperator }: Services,
): Answer | undefined {
  if (auth === 'operator') {
    const isAllowed = credential?.kind === 'cookie' && isOperator(session);
    return isAllowed ? undefined : { status: 404, body: { error: 'not found' } };
  }
  if (auth !== 'session' && auth !== 'cookie') return undefined;
  if (!session) return unauthorized;
  if (auth === 'cookie' && credential?.kind === 'bearer') {
    return { status: 403, body: { error: 'not allowed with an API token' } };
  }
  return undefined;
}

/** By the route's handler, or with an Idempotency-Key by what it answered before. */
function handle(incoming: Incoming, input: RouteInput): Answer | Promise<Answer> {
  const { route, head, context } = incoming;
  const { idempotencyKey: key } = head;
  const { userId } = input;
  if (!route.idempotent || key === undefined || userId === undefined) {
    const run = () => route.handle(input, context.services);
    return route.repeatable ? waitOut(run, isOutage) : run();
  }
  return handleOnce(incoming, input, { key, userId });
}

async function handleOnce(
  incoming: Incoming,
  input: RouteInput,
  { key, userId }: { key: string; userId: string },
): Promise<Answer> {
  const { route, params, query, stream, exchange, context } = incoming;
  const { services } = context;
  const { method, path, idempotent } = route;
  const asked = [method, path, ...params, query];
  const body = await incoming.body;
  const fingerprint =
    typeof idempotent === 'object' && stream
      ? () => idempotent.fingerprint(stream, exchange.signal)
      : fingerprintOf([...asked, body?.kind === 'whole' ? body.bytes : '']);
  return answerOnce(
    { key, userId, route: `${method} ${path}`, fingerprint },
    async (operation) => route.handle(Object.assign(input, { operation }), services),
    {
      store: services.store.idempotency,
      now: services.now,
      onTrouble: (err) =>
        services.log.warn({ err, requestId: exchange.requestId }, 'an answer may not be kept'),
    },
  );
}

/** What a body may be packed in (RFC 9110, 8.4): nothing. */
const plainEncoding = /^\s*(?:identity)?\s*$/i;
const encoded: Answer = {
  status: 415,
  body: { error: 'the body must not be encoded' },
  headers: { 'Accept-Encoding': 'identity' },
};

function toInput(
  incoming: Incoming,
  session: Session | undefined,
  credential: Credential | undefined,
): Refused | { value: RouteInput } | Promise<Refused | { value: RouteInput }> {
  const { route, head, body } = incoming;
  if (!body) return checkInput(incoming, session, credential, undefined);
  return readBody(body, head, route).then((read) =>
    'status' in read ? read : checkInput(incoming, session, credential, read.value),
  );
}

function checkInput(
  incoming: Incoming,
  session: Session | undefined,
  credential: Credential | undefined,
  body: unknown,
): Refused | { value: RouteInput } {
  const { route, exchange, head, stream, context } = incoming;
  const query = check(route.query, route.query && Object.fromEntries(new URLSearchParams(incoming.query)));
  if ('status' in query) return query;
  const parsed = check(route.body, body);
  if ('status' in parsed) return parsed;
  const input = new Input(exchange, head, context.services);
  input.userId = session?.userId;
  input.session = session;
  input.sessionToken = credential?.kind === 'cookie' ? credential.token : undefined;
  input.query = query.value;
  input.body = parsed.value;
  input.stream = stream;
  if (incoming.params.length === 0) return { value: input as unknown as RouteInput };
  // The path's own parameters, whose names routes choose.
  return { value: Object.assign(input, decodeParams(incoming)) as unknown as RouteInput };
}

/** A class for the same reason as OpenExchange: `signal` and `address` are made only when asked for. */
class Input {
  readonly requestId: string;
  userId: string | undefined = undefined;
  session: Session | undefined = undefined;
  sessionToken: string | undefined = undefined;
  query: unknown = undefined;
  body: unknown = undefined;
  stream: RouteInput['stream'] = undefined;
  private readonly exchange: Exchange;
  private readonly head: Head;
  private readonly services: Services;

  constructor(exchange: Exchange, head: Head, services: Services) {
    this.requestId = exchange.requestId;
    this.exchange = exchange;
    this.head = head;
    this.services = services;
  }

  get signal(): AbortSignal {
    return this.exchange.signal;
  }

  get address(): string {
    return addressOf(this.exchange, this.head, this.services);
  }

  get userAgent(): string {
    return this.head.userAgent;
  }
}

/** The JSON of a body, or the answer to one that cannot be read. */
async function readBody(
  pending: Promise<Body>,
  head: Head,
  route: Route,
): Promise<Refused | { value: unknown }> {
  const body = await pending;
  switch (body.kind) {
    case 'aborted':
      return { status: clientGone };
    case 'too slow':
      return { ...tooSlow, close: true };
    case 'too large':
      return { status: 413, body: { error: 'the body is larger than 1 MB' }, close: !body.isDrained };
    case 'whole':
      break;
  }
  if (body.bytes.byteLength > 0 && !isJson(head.contentType)) {
    return { status: 415, body: { error: 'the body must be application/json' } };
  }
  if (!route.body) return { value: undefined };
  const json = parseJson(body.bytes);
  return json.ok ? { value: json.value } : { status: 400, body: { error: json.reason } };
}

/** The head was refused if an escape is not UTF-8. */
function decodeParams({ route, params }: Incoming): Record<string, string> {
  return Object.fromEntries(params.map((text, index) => [route.params[index], decodeURIComponent(text)]));
}

/** A value as its schema has it, or the 400 that says what is wrong with it. */
function check(schema: z.ZodType | undefined, value: unknown): Refused | { value: unknown } {
  if (!schema) return { value: undefined };
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  const issues = result.error.issues
    .slice(0, maxIssues)
    .map(({ path, message }) => ({ path: path.join('.'), message }));
  const [first] = issues;
  const error = first
    ? `invalid request: ${first.path === '' ? '' : `${first.path}: `}${first.message}`
    : 'invalid request';
  return { status: 400, body: { error, issues } };
}

const maxIssues = 50;
const tooSlow = { status: 408, body: { error: 'the body took too long' } };

/** A head that two servers could read in two ways: nothing that follows on its connection can be trusted. */
function refuse(exchange: Exchange, { status, error }: Fault, isHead: boolean): void {
  // It tells nothing, so pages of any origin may read it: those of the proxy must.
  const headers = { 'Access-Control-Allow-Origin': '*' };
  answerJson(exchange, { status, body: { error }, headers }, { close: true, isHead });
}

function answerFailure(exchange: Exchange, cause: unknown): void {
  if (exchange.hasBegun && exchange.isOpen) {
    // Too late for another status: the client must see that the answer is not whole.
    const { res } = exchange;
    exchange.done(toAnswer(cause).status, { err: cause });
    res.close();
    return;
  }
  answerJson(exchange, toAnswer(cause), { close: true, fields: { err: cause } });
}

/** What a client learns of a failure: nothing but what to do (decisions 9). */
function toAnswer(cause: unknown): Answer {
  if (cause instanceof BusyError) {
    const { retryAfterMs } = cause;
    return {
      status: 503,
      body: { error: 'busy', retry_after_ms: retryAfterMs },
      headers: { 'Retry-After': toSeconds(retryAfterMs) },
    };
  }
  if (cause instanceof SlowBodyError) return tooSlow;
  if (isOutage(cause)) {
    return { status: 503, body: { error: 'unavailable' }, headers: { 'Retry-After': outageRetrySeconds } };
  }
  return { status: 500, body: { error: 'internal error' } };
}

const outageRetrySeconds = '2';

/** Whether store, bus or storage cannot be reached, rather than that a request was wrong. */
function isOutage(cause: unknown): boolean {
  if (isStoreOutage(cause) || cause instanceof StorageError) return true;
  if (cause instanceof EffectError) return cause.code === 'store_write_failed';
  return cause instanceof Error && cause.name === 'NatsError';
}

function toSeconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1_000)));
}

type Running = ReturnType<typeof createRunning>;

/** The requests that are being answered, and the log line of each. */
function createRunning({ log, config }: Services, meter: HttpMeter, onFinished: OnFinished | undefined) {
  let count = 0;
  let idle: (() => void) | undefined;
  const host: ExchangeHost = {
    isStopping: false,
    errorDocs: `${config.baseUrl}/docs/errors/`,
    meter,
    finished: (exchange, status, { userId, err }) => {
      const { requestId, method, path, startedAt } = exchange;
      count -= 1;
      meter.running = count;
      if (count === 0) idle?.();
      const ms = Math.round((performance.now() - startedAt) * 100) / 100;
      exchange.meter.finished(status, ms);
      if (onFinished) onFinished(exchange, status, ms);
      const line = { requestId, method, route: path, status, ms, userId };
      if (log.request && err === undefined && status < 500) log.request(line);
      else if (status < 500) log.info({ ...line, err }, 'request');
      else log.error({ ...line, err }, 'request');
    },
  };

  return {
    open(res: HttpResponse, head: Head, path: string, method: string, routeMeter: RouteMeter): OpenExchange {
      count += 1;
      meter.running = count;
      return new OpenExchange(res, head, method, path, host, routeMeter);
    },

    /** Resolves when nothing runs any more, or the time is up. */
    async stop(drainMs: number): Promise<void> {
      host.isStopping = true;
      if (drainMs > 0) await sleep(drainMs);
      if (count === 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limits.stopMs - drainMs);
        idle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}

/** X-Forwarded-For that nobody vouches for: either a proxy that is not configured, or a forgery. */
function createForwardedWarning({ log, config }: Services): (forwardedFor: string) => void {
  let isDue = config.trustedProxies.length === 0;
  return (forwardedFor) => {
    if (!isDue || forwardedFor === '') return;
    isDue = false;
    log.warn({}, 'X-Forwarded-For is ignored: TRUSTED_PROXIES names no proxy');
  };
}

function listen(app: App, host: string, port: number, sharePort: boolean): Promise<us_listen_socket> {
  const options = sharePort ? 0 : uws.LIBUS_LISTEN_EXCLUSIVE_PORT;
  return new Promise((resolve, reject) => {
    app.listen(host, port, options, (socket) => {
      if (socket) resolve(socket);
      else reject(new Error(`cannot listen on ${host}:${port}: is another process using the port?`));
    });
  });
}
