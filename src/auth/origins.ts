/**
 * Allowed origins and source hosts of a project (decisions 2): their normal form, and who matches them.
 *
 *   https://example.com       https alone, default port           and its subdomains
 *   http://example.com:8080   http alone, port 8080               and its subdomains
 *   example.com               any scheme, any port                and its subdomains
 *   example.com:8080          any scheme, port 8080               and its subdomains
 */

/** Whether an origin (`scheme://host[:port]`, as browsers send it) is one of a list in normal form. */
export function isOriginAllowed(allowed: readonly string[], origin: string): boolean {
  const asked = parse(origin);
  if (asked?.scheme === undefined) return false;
  const port = asked.port ?? defaultPorts.get(asked.scheme);
  return allowed.some((entry) => {
    const listed = split(entry);
    return (
      (listed.scheme === undefined || listed.scheme === asked.scheme) &&
      isPortAllowed(listed, port) &&
      (asked.host === listed.host || asked.host.endsWith(`.${listed.host}`))
    );
  });
}

/**
 * The normal form of an allowed origin: lower case, IDN as punycode, no default port. Normalising it again
 * changes nothing.
 *
 * @returns undefined for what is none: a path, a wildcard, credentials, another scheme than http and https.
 */
export function normaliseOrigin(text: string): string | undefined {
  const origin = parse(text);
  if (!origin) return undefined;
  const { scheme, host, port } = origin;
  const suffix = port === undefined ? '' : `:${port}`;
  if (scheme === undefined) return `${host}${suffix}`;
  return defaultPorts.has(scheme) ? `${scheme}://${host}${suffix}` : undefined;
}

/** The normal form of a host name or address without a port; undefined for what is none. */
export function normaliseHost(text: string): string | undefined {
  // What a URL parser would drop or decode (tabs, percent signs) is not part of a name that anybody means.
  if (forbidden.test(text) || text.length > maxHostChars * maxUtf8Growth) return undefined;
  // A colon belongs to a port, but for those within an IPv6 address.
  if (text.includes(':') && !/^\[[^\]]*\]$/.test(text)) return undefined;
  if (!URL.canParse(`https://${text}`)) return undefined;
  const { hostname } = new URL(`https://${text}`);
  return isHostForm(hostname) ? hostname : undefined;
}

/** `port` undefined: none was written, or the scheme's default. */
type Origin = { scheme: string | undefined; host: string; port: number | undefined };

const defaultPorts = new Map([
  ['http', 80],
  ['https', 443],
]);
const maxHostChars = 253;
const maxLabelChars = 63;
/** Longer text is not looked at: no name of lawful length is so long, however it is written. */
const maxUtf8Growth = 4;
const maxPort = 65_535;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const forbidden = /[\u0000-\u0020\u007f/\\?#@%*]/;

function isPortAllowed({ scheme, port }: Origin, asked: number | undefined): boolean {
  if (port !== undefined) return port === asked;
  return scheme === undefined || asked === defaultPorts.get(scheme);
}

function parse(text: string): Origin | undefined {
  const { scheme, rest } = splitScheme(text);
  const [, name = '', digits] = /^(.*?)(?::(\d{1,5}))?$/.exec(rest) ?? [];
  const host = normaliseHost(name);
  const port = digits === undefined ? undefined : Number(digits);
  if (host === undefined || port === 0 || (port ?? 1) > maxPort) return undefined;
  const isDefault = scheme !== undefined && port === defaultPorts.get(scheme);
  return { scheme, host, port: isDefault ? undefined : port };
}

/** The parts of an entry that is known to be in normal form. */
function split(entry: string): Origin {
  const { scheme, rest } = splitScheme(entry);
  const [, host = '', digits] = /^(.*?)(?::(\d{1,5}))?$/.exec(rest) ?? [];
  return { scheme, host, port: digits === undefined ? undefined : Number(digits) };
}

function splitScheme(text: string): { scheme: string | undefined; rest: string } {
  const [, scheme, rest = text] = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(text) ?? [];
  return { scheme: scheme?.toLowerCase(), rest };
}

function isHostForm(host: string): boolean {
  if (host.startsWith('[')) return true;
  return (
    host.length > 0 &&
    host.length <= maxHostChars &&
    host.split('.').every((label) => label.length > 0 && label.length <= maxLabelChars)
  );
}
