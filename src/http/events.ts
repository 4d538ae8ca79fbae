/**
 * The three streams of server-sent events (specification 4.4, decisions 5): by project key for pages, by session
 * or API token for one asset and for a whole project. What they show is src/sse; here is who may see it.
 *
 * A browser never comes back after a refusal, so a stream that was open before (it sends Last-Event-ID) is not
 * refused for a passing trouble: it is answered 200, a long `retry:`, and the end.
 */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { StreamEventName } from '../../schemas/events.ts';
import { proxy } from '../../schemas/limits.ts';
import type { Hub } from '../sse/hub.ts';
import type { Client, Filter, Grant } from '../sse/listener.ts';
import { isStoreOutage } from '../store/client.ts';
import type { ProjectRecord } from '../store/projects.ts';
import { findSession, readCredential, unauthorized } from './credential.ts';
import { type Answer, answerJson, type Exchange, writeHead } from './exchange.ts';
import { shared } from './media-files.ts';
import { rateFields, rateLimited, sharedPolicy, takeTurn } from './rate-policy.ts';
import { streamSpecs } from './raw-specs.ts';
import { type RawRoute, type RawSpec, rawRoute } from './route.ts';
import type { Services } from './services.ts';

export type EventPorts = {
  hub: Pick<Hub, 'open' | 'postpone'>;
  /** At once where they can: clients come back by the thousand. */
  findAsset(id: string): MaybeLater<{ projectId: string } | undefined>;
  findProjectByKey(key: string): MaybeLater<{ id: string } | undefined>;
};

type MaybeLater<Value> = Value | Promise<Value>;

type EventServices = Pick<Services, 'sessions' | 'tokens' | 'rateLimit' | 'config'> & {
  store: { projects: Pick<Services['store']['projects'], 'findOwned'> };
};

/** The routes of the three streams, with HEAD, and OPTIONS for the one that other origins read. */
export function eventRoutes(ports: EventPorts): RawRoute[] {
  const findOwned = createOwnedReads();
  const streams: StreamRoute[] = [
    {
      path: '/v1/:key/events/:asset',
      summary: 'Stream the events of an asset by project key',
      spec: streamSpecs.byKey,
      judge: (head) => judgeKey(head, ports),
      headers: anyOrigin,
    },
    {
      path: '/api/assets/:id/events',
      summary: 'Stream the events of an asset',
      spec: streamSpecs.ofAsset,
      judge: (head, services) => judgeAsset(head, services, ports, findOwned),
      headers: {},
    },
    {
      path: '/api/projects/:id/activity',
      summary: 'Stream the events of a project',
      spec: streamSpecs.ofProject,
      judge: (head, services) => judgeProject(head, services, findOwned),
      headers: {},
    },
  ];
  const routes = streams.flatMap(({ path, summary, spec, judge, headers }) =>
    (['get', 'head'] as const).map((method) =>
      rawRoute({
        method,
        path,
        ...(method === 'get' ? { summary, ...spec } : {}),
        handle: (res, req, services, exchange) =>
          answerStream(readStreamHead(req), { res, services, exchange, ports, judge, headers }),
      }),
    ),
  );
  const preflight = rawRoute({
    method: 'options',
    path: '/v1/:key/events/:asset',
    handle(res, _req, _services, exchange) {
      writeHead(exchange, 204, preflightHeaders);
      res.endWithoutBody();
      exchange.done(204);
    },
  });
  return [...routes, preflight];
}

type StreamRoute = {
  path: string;
  summary: string;
  spec: RawSpec;
  judge: Judge;
  headers: Record<string, string>;
};

/** What is read of a request before anything is awaited. */
type StreamHead = {
  isHead: boolean;
  params: [string, string];
  lastEventId: string;
  types: string | null;
  authorization: string;
  cookie: string;
};

/** Who may see what; or the answer that refuses. `headers` go to either. */
type Verdict =
  | { projectId: string; filter: Filter; grant: Grant; headers?: Record<string, string> }
  | Refusal;

type Refusal = Answer & { isPassing?: boolean };

type Judge = (head: StreamHead, services: EventServices) => Promise<Verdict>;

type StreamContext = {
  res: HttpResponse;
  services: EventServices;
  exchange: Exchange;
  ports: EventPorts;
  judge: Judge;
  headers: Record<string, string>;
};

const anyOrigin = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'X-Request-Id' };

const preflightHeaders = {
  ...anyOrigin,
  'Access-Control-Allow-Methods': 'GET, HEAD, OPTIONS',
  'Access-Control-Allow-Headers': 'Last-Event-ID, Cache-Control, X-Request-Id',
  'Access-Control-Max-Age': String(proxy.preflightMaxAgeSeconds),
};

const unavailable: Refusal = {
  status: 503,
  body: { error: 'unavailable' },
  headers: { 'Retry-After': '2' },
  isPassing: true,
};
const notFound: Refusal = { status: 404, body: { error: 'not found' } };

function readStreamHead(req: HttpRequest): StreamHead {
  const query = new URLSearchParams(req.getQuery() ?? '');
  return {
    isHead: req.getMethod() === 'head',
    params: [decode(req.getParameter(0)), decode(req.getParameter(1))],
    lastEventId: req.getHeader('last-event-id') || (query.get('last_event_id') ?? ''),
    types: query.get('types'),
    authorization: req.getHeader('authorization'),
    cookie: req.getHeader('cookie'),
  };
}

async function answerStream(head: StreamHead, context: StreamContext): Promise<void> {
  const { exchange, services, ports, judge } = context;
  const client = new StreamClient(exchange);
  exchange.onAborted(leaving(client));
  const verdict = await judge(head, services).catch((cause: unknown): Verdict => {
    if (isStoreOutage(cause)) return unavailable;
    throw cause;
  });
  if (!exchange.isOpen) return;
  const headers = { 'X-Request-Id': exchange.requestId, ...context.headers, ...verdict.headers };
  if ('status' in verdict) return refuse(verdict, head, context, headers);
  if (head.isHead) return answerHead(exchange, headers);

  // From here on a failure can no longer be answered: it cuts the stream.
  const opened = await ports.hub.open(exchange.res, {
    projectId: verdict.projectId,
    filter: verdict.filter,
    grant: verdict.grant,
    lastEventId: head.lastEventId,
    headers,
    client,
  });
  if (opened === 'open') {
    exchange.hasBegun = true;
    exchange.forgetHead();
  }
  if (opened === 'unavailable') refuse(unavailable, head, context, headers);
  if (opened === 'stopping') postpone(context, headers);
}

/** All that is kept of a request while its stream is open. */
class StreamClient implements Client {
  isGone = false;
  onGone: (() => void) | undefined = undefined;
  private readonly exchange: Exchange;

  constructor(exchange: Exchange) {
    this.exchange = exchange;
  }

  onEnd(): void {
    this.exchange.done(200);
  }
}

/** Made by itself: a closure keeps whatever the others of its function use. */
const leaving = (client: StreamClient) => () => {
  client.isGone = true;
  client.onGone?.();
};

function refuse(
  { status, body, isPassing, headers: own }: Refusal,
  head: StreamHead,
  context: StreamContext,
  headers: Record<string, string>,
): void {
  const { exchange, headers: common } = context;
  if (!exchange.isOpen) return;
  if (isPassing && head.lastEventId !== '' && !head.isHead) {
    postpone(context, headers);
    return;
  }
  answerJson(exchange, { status, body, headers: { ...common, ...own } }, { isHead: head.isHead });
}

/** A stream that says when to come back, and ends. */
function postpone({ exchange, ports }: StreamContext, headers: Record<string, string>): void {
  if (!exchange.isOpen) return;
  ports.hub.postpone(exchange.res, headers);
  exchange.done(200);
}

function answerHead(exchange: Exchange, { 'X-Request-Id': _, ...headers }: Record<string, string>): void {
  exchange.res.cork(() => {
    writeHead(exchange, 200, {
      ...headers,
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store, no-transform',
    });
    exchange.res.endWithoutBody();
  });
  exchange.done(200);
}

// ── Who may see what ────────────────────────────────────────────────────────────────────────────

async function judgeKey(head: StreamHead, ports: EventPorts): Promise<Verdict> {
  const [key, assetId] = head.params;
  const types = parseTypes(head.types);
  if ('status' in types) return types;
  const project = await ports.findProjectByKey(key);
  if (!project) return { status: 403, body: { error: 'unknown project key' } };
  const asset = await ports.findAsset(assetId);
  if (asset?.projectId !== project.id) return notFound;
  const filter = { assetId, isLifecycleOnly: true, ...types };
  return { projectId: project.id, filter, grant: { kind: 'key', key } };
}

type FindOwned = (
  services: EventServices,
  projectId: string,
  userId: string,
) => Promise<ProjectRecord | undefined>;

/** Reads of a user's projects, one at a time for each: after a restart streams come back by the thousand. */
function createOwnedReads(): FindOwned {
  const reading = new Map<string, Promise<ProjectRecord | undefined>>();
  return ({ store }, projectId, userId) =>
    shared(reading, `${userId} ${projectId}`, () => store.projects.findOwned(projectId, userId));
}

async function judgeAsset(
  head: StreamHead,
  services: EventServices,
  ports: EventPorts,
  findOwned: FindOwned,
): Promise<Verdict> {
  const [assetId] = head.params;
  return judgeOwner(head, services, async (userId) => {
    const asset = await ports.findAsset(assetId);
    const project = asset && (await findOwned(services, asset.projectId, userId));
    return project && { projectId: project.id, assetId };
  });
}

async function judgeProject(
  head: StreamHead,
  services: EventServices,
  findOwned: FindOwned,
): Promise<Verdict> {
  const [projectId] = head.params;
  return judgeOwner(head, services, async (userId) => {
    const project = await findOwned(services, projectId, userId);
    return project && { projectId: project.id };
  });
}

/** @param find what the user may see of what is asked for; undefined: it is not there, or someone else's. */
async function judgeOwner(
  head: StreamHead,
  services: EventServices,
  find: (userId: string) => Promise<{ projectId: string; assetId?: string } | undefined>,
): Promise<Verdict> {
  const session = await findSession(readCredential(head), services);
  if (!session) return unauthorized;
  const { id: sessionId, userId, renewed } = session;
  const turn = await takeTurn(services, userId, sharedPolicy);
  const fields = rateFields(services, sharedPolicy, turn);
  const verdict = turn.waitMs > 0 ? { ...rateLimited(turn), isPassing: true } : await judgeOwned();
  return { ...verdict, headers: { ...fields, ...verdict.headers } };

  async function judgeOwned(): Promise<Verdict> {
    const types = parseTypes(head.types);
    if ('status' in types) return types;
    const found = await find(userId);
    if (!found) return notFound;
    const { projectId, ...asset } = found;
    return {
      projectId,
      filter: { ...asset, isLifecycleOnly: false, ...types },
      grant: { kind: 'user', userId, sessionId },
      ...(renewed === undefined ? {} : { headers: { 'Set-Cookie': renewed } }),
    };
  }
}

/** Names of events, separated by commas; all of them when nothing is asked for. */
function parseTypes(text: string | null): { types?: ReadonlySet<StreamEventName> } | Answer {
  if (text === null || text === '') return {};
  const types = new Set<StreamEventName>();
  for (const name of text.split(',').slice(0, StreamEventName.options.length + 1)) {
    const { data } = StreamEventName.safeParse(name.trim());
    // A misspelt name would be a stream that is silent for ever.
    if (!data) return { status: 400, body: { error: 'types: unknown event name' } };
    types.add(data);
  }
  return { types };
}

/** A path segment as text; half an escape is nobody's id. */
function decode(segment: string | undefined): string {
  try {
    return decodeURIComponent(segment ?? '');
  } catch {
    return '';
  }
}
