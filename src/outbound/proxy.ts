/**
 * Connections through an HTTP proxy of the operator's (`WEBHOOK_EGRESS_PROXY`).
 *
 * Names are looked up and checked here all the same, and the proxy is asked for the checked address: it must not
 * be the one who decides where a name leads. Host header and SNI keep the name.
 */
import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { buildConnector } from 'undici';
import { asConnectError, type ConnectorOptions, findAddresses } from './connect.ts';
import { blocked, OutboundError } from './error.ts';
import { bareHost } from './policy.ts';

const maxHeadBytes = 16 * 1024;

/** A connector for an undici Pool, like createConnector. `http:` and `https:` proxies, with credentials or without. */
export function createProxyConnector(options: ConnectorOptions, proxy: URL): buildConnector.connector {
  const secure = buildConnector({ timeout: options.connectMs });

  return (target, callback) => {
    const port = Number(target.port) || (target.protocol === 'https:' ? 443 : 80);
    openTunnel(options, proxy, bareHost(target.hostname), port).then(
      (socket) => {
        if (target.protocol !== 'https:') return callback(null, socket);
        secure({ ...target, httpSocket: socket }, (...[error, secured]) => {
          if (error) callback(asConnectError(error, target.protocol), null);
          else callback(null, secured);
        });
      },
      (error) => callback(asConnectError(error, 'http:'), null),
    );
  };
}

/** @throws {OutboundError} `blocked_address`, `dns`, `connect`, `timeout`. */
async function openTunnel(
  options: ConnectorOptions,
  proxy: URL,
  host: string,
  port: number,
): Promise<Socket> {
  const address = await checkedAddress(options, host);
  const socket = connectTo(proxy);
  const timer = setTimeout(() => {
    socket.destroy(new OutboundError('timeout', 'the connection took too long'));
  }, options.connectMs);
  try {
    await once(socket, proxy.protocol === 'https:' ? 'secureConnect' : 'connect');
    const name = isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`;
    socket.write(`CONNECT ${name} HTTP/1.1\r\nHost: ${name}\r\n${credentials(proxy)}\r\n`);
    const status = await readStatus(socket);
    if (status === 200) return socket;
    throw new OutboundError('connect', `the proxy answered ${status}`);
  } catch (cause) {
    socket.on('error', () => undefined).destroy();
    throw cause;
  } finally {
    clearTimeout(timer);
  }
}

async function checkedAddress(options: ConnectorOptions, host: string): Promise<string> {
  if (!isIP(host)) return (await findAddresses(host, options))[0].address;
  if (!options.policy.allowsAddress(host)) throw blocked();
  return host;
}

function connectTo({ protocol, hostname, port }: URL): Socket {
  const host = bareHost(hostname);
  return protocol === 'https:'
    ? connectTls({ host, port: Number(port) || 443, servername: host })
    : connectTcp({ host, port: Number(port) || 80 });
}

function credentials({ username, password }: URL): string {
  if (username === '') return '';
  const text = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Proxy-Authorization: Basic ${Buffer.from(text).toString('base64')}\r\n`;
}

/** Reads the proxy's answer up to the end of its head, and not a byte of what follows. */
async function readStatus(socket: Socket): Promise<number> {
  let head = '';
  while (!head.endsWith('\r\n\r\n')) {
    const byte: Buffer | null = socket.read(1);
    if (byte === null) {
      if (socket.readableEnded) throw new OutboundError('connect', 'the proxy closed the connection');
      await readableOrEnd(socket);
    } else head += byte.toString('latin1');
    if (head.length > maxHeadBytes) throw new OutboundError('connect', 'the answer of the proxy is too long');
  }
  return Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0);
}

function readableOrEnd(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: unknown) => {
      socket.off('readable', done).off('end', done).off('error', done).off('close', ended);
      if (error instanceof Error) reject(error);
      else resolve();
    };
    const ended = () => done(new OutboundError('connect', 'the proxy closed the connection'));
    socket.once('readable', done).once('end', done).once('error', done).once('close', ended);
  });
}
