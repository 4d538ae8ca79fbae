/** Addresses of the public proxy (specification 4.4 and 5.6), made with Web Crypto where they are signed. */

/** What an animation is made with, where the project has no other defaults. */
export type ProxyOptions = {
  motion?: 'subtle' | 'medium' | 'kinetic' | undefined;
  dur?: number | undefined;
  mode?: 'loop' | 'animate-in' | 'animate-on-hover' | undefined;
  seed?: number | undefined;
  aspect?: string | undefined;
};

export type ProxyAddress = {
  baseUrl: string;
  /** `pk_…`: public. */
  key: string;
  /** URL of the image, or `asset:<asset_id>`. */
  source: string;
  options?: ProxyOptions | undefined;
  /** `jpg` is the poster, which is free and starts nothing. */
  extension?: 'mp4' | 'jpg' | undefined;
};

export type SignedAddress = ProxyAddress & {
  /** `sk_…`: of your server alone. */
  secret: string;
  /** Unix ms; without it in an hour. */
  expiresTs?: number | undefined;
};

const hourMs = 3_600_000;

/** For pages of allowed origins. */
export function proxyUrl({ baseUrl, key, source, options, extension = 'mp4' }: ProxyAddress): string {
  const query = toQuery(options);
  return `${trimSlash(baseUrl)}/v1/${key}/${toSegment(source)}.${extension}${query === '' ? '' : `?${query}`}`;
}

/**
 * For pages of any origin, until it expires. The options go into the fragment of the source, which the signature
 * covers; the same signature serves `.mp4` and `.jpg`.
 */
export async function signUrl(address: SignedAddress): Promise<string> {
  const { baseUrl, key, secret, options, extension = 'mp4', expiresTs = Date.now() + hourMs } = address;
  const fragment = toQuery(options);
  const source = fragment === '' ? address.source : `${address.source.replace(/#.*/, '')}#${fragment}`;
  const exp = String(Math.floor(expiresTs / 1_000));
  const hmac = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', encode(secret), hmac, false, ['sign']);
  const digest = await crypto.subtle.sign('HMAC', imported, encode(`${key}:${source}:${exp}`));
  const sig = toBase64url(new Uint8Array(digest));
  return `${trimSlash(baseUrl)}/v1/${key}/${toSegment(source)}.${extension}?exp=${exp}&sig=${sig}`;
}

export function trimSlash(url: string): string {
  return url.replace(/\/+$/, '');
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function toQuery(options: ProxyOptions = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(options))
    if (value !== undefined) given.set(name, String(value));
  return given.toString();
}

function toSegment(source: string): string {
  return source.startsWith('asset:') ? `a/${source.slice(6)}` : toBase64url(encode(source));
}

function toBase64url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
