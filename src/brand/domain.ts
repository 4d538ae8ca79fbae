/** The normal form of a domain that a user names for a crawl: what is cached and asked for. */

/**
 * A host name in lower case, IDN as punycode, without the dot at its end, with its port when that is not 80 or 443.
 * What people copy from the address bar is understood: a scheme, a path and all that follows are dropped.
 *
 * @returns undefined for what names no host, another scheme than http and https, credentials, and for addresses:
 *   a brand has a name. Whether the name may be connected to is judged elsewhere.
 */
export function normaliseDomain(text: string): string | undefined {
  const trimmed = text.trim();
  if (forbidden.test(trimmed)) return undefined;
  const [, scheme = 'https:', rest = trimmed] = /^([a-z][a-z0-9+.-]*:)\/\/(.*)$/i.exec(trimmed) ?? [];
  if (!/^https?:$/i.test(scheme) || rest.startsWith('/')) return undefined;
  const address = `${scheme}//${rest}`;
  if (!URL.canParse(address)) return undefined;
  const { hostname, port, username, password } = new URL(address);
  const name = hostname.replace(/\.$/, '');
  if (username || password || name === '' || isAddress(name)) return undefined;
  return port === '' || port === '80' || port === '443' ? name : `${name}:${port}`;
}

/** What a URL parser would drop, decode or turn around is not part of a name that anybody means. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const forbidden = /[\u0000-\u0020\u007f-\u009f\\]/;

/** URL has turned every notation of an IPv4 address into this one. */
function isAddress(name: string): boolean {
  return name.startsWith('[') || /^\d+(\.\d+){3}$/.test(name);
}
