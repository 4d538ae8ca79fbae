/**
 * Connections to user-chosen hosts: a name is resolved once, every answer is checked, and the connection goes
 * to a checked address and no other. Host header and SNI keep the name.
 *
 * undici alone would not do: it looks up no literal address, so a lookup that checks never sees one.
 */
import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { blocked, OutboundError } from './error.ts';
import { bareHost, isLocalhost, type Policy } from './policy.ts';

/** Answers every address of a name, in the order to be tried. Rejects, or answers none, for an unknown name. */
export type ResolveName = (name: string, signal: AbortSignal) => Promise<string[]>;

export type ConnectorOptions = {
  policy: Policy;
  resolve: ResolveName;
  /** Longest look-up of one name, in ms. */
  lookupMs: number;
  /** Longest wait for one connection with its TLS, in ms, look-up included. */
  connectMs: number;
};

/** A connector for an undici Agent. Fails with OutboundError: `blocked_address`, `dns`, `connect`, `tls`, `timeout`. */
export function createConnector(options: ConnectorOptions): buildConnector.connector {
  const { policy, connectMs } = options;
  const connect = buildConnector({
    timeout: connectMs,
    lookup: createLookup(options),
    autoSelectFamily: true,
  } as buildConnector.BuildOptions);

  return (target, callback) => {
    const host = bareHost(target.hostname);
    if (isIP(host) && !policy.allowsAddress(host)) return callback(blocked(), null);

    connect(target, (...[error, socket]) => {
      if (error) return callback(asConnectError(error, target.protocol), null);
      // The look-up has checked this already; it holds even if a later runtime connects another way.
      if (socket.remoteAddress && !policy.allowsAddress(socket.remoteAddress)) {
        socket.destroy();
        return callback(blocked(), null);
      }
      callback(null, socket);
    });
  };
}

/**
 * Asks the configured name servers directly: the system's own look-up would occupy one of the process's few
 * threads for as long as a stranger's name server is silent. The hosts file is not read. `servers` (`ip:port`)
 * stand in for the configured ones.
 */
export async function resolveByDns(name: string, signal: AbortSignal, servers?: string[]): Promise<string[]> {
  const resolver = new Resolver({ timeout: queryMs, tries: 2 });
  if (servers) resolver.setServers(servers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    // IPv4 first: it works on networks of either kind more often.
    const [v4, v6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    if (v4.status === 'rejected' && v6.status === 'rejected') throw v4.reason;
    return [v4, v6].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

const queryMs = 2_000;
/** More answers than this are checked, but not tried. */
const maxTried = 8;
const loopback = ['127.0.0.1', '::1'];

/** Looks a name up for a connection: answers checked addresses, or fails with OutboundError. */
export function createLookup(options: ConnectorOptions): LookupFunction {
  return (name, { all }, callback) => {
    findAddresses(name, options).then(
      (found) => {
        const [first] = found;
        if (all) callback(null, found);
        else callback(null, first.address, first.family);
      },
      (error) => callback(error, ''),
    );
  };
}

type Found = { address: string; family: number };

/** Checked addresses of a name, at least one. @throws {OutboundError} `blocked_address`, `dns`. */
export async function findAddresses(hostname: string, { policy, resolve, lookupMs }: ConnectorOptions) {
  const name = bareHost(hostname);
  if (!policy.allowsName(name)) throw blocked();
  // Never asked of a name server (RFC 6761).
  if (isLocalhost(name)) return atLeastOne(loopback.filter(policy.allowsAddress), blocked);

  const addresses = await withinLimit(lookupMs, (signal) => resolve(name, signal));
  // One bad answer refuses the name: picking the good ones would leave the choice to the next connection.
  if (!addresses.every(policy.allowsAddress)) throw blocked();
  return atLeastOne(addresses, () => new OutboundError('dns', 'the name has no address'));
}

function atLeastOne(addresses: string[], otherwise: () => OutboundError): [Found, ...Found[]] {
  const [first, ...rest] = addresses
    .slice(0, maxTried)
    .map((address) => ({ address, family: isIP(address) }));
  if (!first) throw otherwise();
  return [first, ...rest];
}

async function withinLimit(
  limitMs: number,
  look: (signal: AbortSignal) => Promise<string[]>,
): Promise<string[]> {
  const control = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new OutboundError('dns', 'the look-up took too long')), limitMs);
  });
  try {
    return await Promise.race([look(control.signal), late]);
  } catch (cause) {
    if (cause instanceof OutboundError) throw cause;
    throw new OutboundError('dns', 'the name was not found', { cause });
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}

export function asConnectError(error: Error & { code?: string }, protocol: string): OutboundError {
  if (error instanceof OutboundError) return error;

  const code = error.code ?? '';
  if (code === 'UND_ERR_CONNECT_TIMEOUT') {
    return new OutboundError('timeout', 'the connection took too long', { cause: error });
  }
  // With https, what is no failure of the transport is one of the handshake: certificate, protocol, early end.
  const isTransport = transportCodes.has(code) || protocol === 'http:';
  const failure = isTransport ? 'connect' : 'tls';
  return new OutboundError(failure, `cannot connect: ${code || error.message}`, { cause: error });
}

const transportCodes = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ETIMEDOUT',
  'EACCES',
  'EPERM',
  'EMFILE',
  'ENFILE',
]);
