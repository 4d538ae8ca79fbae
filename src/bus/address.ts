/** NATS_URL taken apart: the client would read neither what is before the `@` nor `tls://`. */
import type { ConnectionOptions } from 'nats';

/**
 * @param url `nats://[user:password@ or token@]host:port[,…]`; the first that names credentials names them for all, and one
 *   `tls://` asks for TLS with every server
 */
export function readAddress(url: string): ConnectionOptions {
  const parts = url.split(',').map((one) => {
    const [, scheme = '', credentials, host = ''] =
      /^([a-z]+:\/\/)?(?:([^@]*)@)?(.*)$/.exec(one.trim()) ?? [];
    return { scheme, credentials, host };
  });
  const credentials = parts.map((part) => part.credentials).find((one) => one !== undefined);
  return {
    servers: parts.map(({ host }) => host),
    ...(parts.some(({ scheme }) => scheme === 'tls://') ? { tls: {} } : {}),
    ...(credentials === undefined ? {} : readCredentials(credentials)),
  };
}

function readCredentials(text: string): Pick<ConnectionOptions, 'user' | 'pass' | 'token'> {
  const at = text.indexOf(':');
  if (at < 0) return { token: decodeURIComponent(text) };
  return { user: decodeURIComponent(text.slice(0, at)), pass: decodeURIComponent(text.slice(at + 1)) };
}
