/**
 * Everything the service sends to an address that a user chose: sources, webhooks, crawls, posters.
 *
 * The only module that connects to such addresses (decisions 8). Environment variables for proxies change
 * nothing here, cookies are not kept, alternative services are not followed.
 */
import { Agent, Pool } from 'undici';
import { source } from '../../schemas/limits.ts';
import { createCollector } from './collect.ts';
import { createConnector, type ResolveName, resolveByDns } from './connect.ts';
import { type Downloaded, type DownloadOptions, download } from './download.ts';
import { type Endpoint, type EndpointLimits, openEndpoint } from './endpoint.ts';
import { asOutboundError, createDeadline, decoded, exchange, type Headers, type Method } from './exchange.ts';
import { createPolicy, type Judgement, type PolicyOptions } from './policy.ts';
import { createProxyConnector } from './proxy.ts';
import { type FetchedSource, fetchSource, type SourceLimits, type SourceOptions } from './source.ts';

export type OutboundOptions = PolicyOptions & {
  /** Answers the addresses of a name; the configured name servers when left out. */
  resolver?: ResolveName;
  limits?: Partial<SourceLimits & ConnectLimits>;
  /** Endpoints are reached through this HTTP proxy, by addresses that were checked here. */
  egressProxy?: URL;
  /** Unix ms. */
  now?(): number;
};

/** Longest look-up of one name, and longest wait for one connection with its TLS, in ms. */
export type ConnectLimits = { lookupMs: number; connectMs: number };

export type OutboundRequest = {
  method?: Method;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** From the look-up of the name to the end of the last answer's headers, in ms. */
  timeoutMs: number;
  /** For the body after the headers, in ms; what `timeoutMs` has left when not given. */
  bodyTimeoutMs?: number;
  /** Of the body, after decoding. A longer one is cut and says so. */
  maxBytes: number;
  /** Followed at most, for GET and HEAD; 0, the default, gives a 3xx back as it is. */
  redirects?: number;
  /** Lets the connection serve the next request to the same host. Default false. */
  keepAlive?: boolean;
  /** Undoes gzip, deflate and br when the other side compresses unasked. Default false. */
  decode?: boolean;
  /** A body that is slow or breaks off then ends where it is (`isCut`), instead of failing the request. Default false. */
  acceptPartial?: boolean;
  signal: AbortSignal;
};

export type OutboundAnswer = {
  statusCode: number;
  /** Names in lower case. */
  headers: Headers;
  body: Uint8Array;
  /** Whether the body was longer, or went on, where ours ends. */
  isCut: boolean;
  /** Where the answer came from, after redirects. */
  url: URL;
};

export type Outbound = {
  /** Judges an address by its text alone; what its name resolves to is judged at every connection. */
  judgeUrl(text: string): Judgement;
  /**
   * Makes one request, never a second one by itself. Any status is an answer.
   *
   * @throws {OutboundError} with the class of the failure. The signal's reason when it aborts.
   */
  request(url: string, request: OutboundRequest): Promise<OutboundAnswer>;
  /** Fetches a source image: see fetchSource in source.ts. */
  fetchSource<Type>(url: string, options: SourceOptions<Type>): Promise<FetchedSource<Type>>;
  /** Copies what is at an address into a file: see download.ts. */
  download(url: string, file: string, options: DownloadOptions): Promise<Downloaded>;
  /** Opens an endpoint for webhooks: see endpoint.ts. Its owner ends it. */
  openEndpoint(url: string, limits: EndpointLimits): Endpoint;
  /** Ends every connection; requests under way fail. */
  close(): Promise<void>;
};

/** @throws {TypeError} when an entry of `allow` is neither an address range nor a name. */
export function createOutbound({
  allow,
  denyPorts,
  resolver = resolveByDns,
  limits: changed = {},
  egressProxy,
  now = Date.now,
}: OutboundOptions): Outbound {
  const policy = createPolicy({ allow, denyPorts });
  const limits = { ...connectLimits, ...source, ...changed };
  const rules = { policy, resolve: resolver, ...limits };
  const agent = new Agent({
    ...connectionOptions,
    connect: createConnector(rules),
    connections: maxConnectionsPerHost,
  });
  const toEndpoint = egressProxy ? createProxyConnector(rules, egressProxy) : createConnector(rules);
  const pool = (origin: string, connections: number) =>
    new Pool(origin, { ...connectionOptions, connect: toEndpoint, connections });

  return {
    judgeUrl: policy.judgeUrl,
    request: (url, wish) => request({ agent, policy }, url, wish),
    fetchSource: (url, options) =>
      fetchSource({ agent, policy, limits, headers: standardHeaders, now }, url, options),
    download: (url, file, options) =>
      download({ agent, policy }, url, file, {
        ...options,
        headers: { ...standardHeaders, ...options.headers },
      }),
    openEndpoint: (url, wish) => openEndpoint({ policy, pool }, url, wish),
    close: () => agent.destroy(),
  };
}

const connectLimits = { lookupMs: 5_000, connectMs: 10_000 } satisfies ConnectLimits;
const maxConnectionsPerHost = 64;
const maxHeaderBytes = 16 * 1024;
const keepAliveMs = 4_000;
const connectionOptions = {
  maxHeaderSize: maxHeaderBytes,
  keepAliveTimeout: keepAliveMs,
  keepAliveMaxTimeout: keepAliveMs,
  // Deadlines of our own are exact, and count what these leave out: the look-up and the connection.
  headersTimeout: 0,
  bodyTimeout: 0,
};

const standardHeaders = { 'user-agent': 'AnimatedAssetService/1.0', 'accept-encoding': 'identity' };

async function request(
  connection: { agent: Agent; policy: ReturnType<typeof createPolicy> },
  url: string,
  wish: OutboundRequest,
): Promise<OutboundAnswer> {
  const { timeoutMs, bodyTimeoutMs, decode = false } = wish;
  const deadline = createDeadline(wish.signal);
  try {
    deadline.limit(timeoutMs, 'the answer');
    const answer = await exchange(connection, {
      url,
      method: wish.method ?? 'GET',
      headers: { ...standardHeaders, ...wish.headers },
      redirects: wish.redirects ?? 0,
      keepAlive: wish.keepAlive ?? false,
      signal: deadline.signal,
      ...(wish.body === undefined ? {} : { body: wish.body }),
    });

    if (bodyTimeoutMs !== undefined) deadline.limit(deadline.elapsedMs() + bodyTimeoutMs, 'the body');
    const { statusCode, headers } = answer;
    const body = decode ? decoded(answer) : answer.body;
    return { statusCode, headers, url: answer.url, ...(await readBody(body, wish)) };
  } catch (error) {
    throw asOutboundError(error, deadline.signal);
  } finally {
    deadline.end();
  }
}

async function readBody(
  body: AsyncIterable<Buffer>,
  { maxBytes, acceptPartial = false, signal }: OutboundRequest,
): Promise<{ body: Uint8Array; isCut: boolean }> {
  const collector = createCollector(maxBytes);
  let isCut = false;
  try {
    for await (const chunk of body) {
      isCut = !collector.add(chunk);
      if (isCut) break;
    }
  } catch (error) {
    if (!acceptPartial || signal.aborted) throw error;
    isCut = true;
  }
  return { body: collector.bytes(), isCut };
}
