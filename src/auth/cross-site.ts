/**
 * Requests that another site made a browser send (decisions 1, Cross-site requests). The session cookie comes
 * along with some of them; this tells them from our own pages' by headers that no page can forge.
 */
import { isLoopback } from './client-address.ts';

export type CrossSiteCheck = (origin: string, secFetchSite: string) => boolean;

export type CrossSiteOptions = {
  baseUrl: string;
  /** Further origins that may send requests with the cookie. */
  trustedOrigins?: readonly string[];
  /** Development: the loopback names on base_url's port count as one origin. */
  joinLoopback: boolean;
};

/**
 * @returns whether a request with these header values (empty when absent) comes from elsewhere. Without
 * either header it is no browser's, and nobody's cookie was borrowed.
 */
export function createCrossSiteCheck(options: CrossSiteOptions): CrossSiteCheck {
  const base = new URL(options.baseUrl);
  const own = new Set([base.origin, ...(options.trustedOrigins ?? [])]);
  if (options.joinLoopback && isLoopbackName(base.hostname)) {
    const port = base.port === '' ? '' : `:${base.port}`;
    for (const name of loopbackNames) own.add(`${base.protocol}//${name}${port}`);
  }
  return (origin, secFetchSite) => secFetchSite === 'cross-site' || (origin !== '' && !own.has(origin));
}

const loopbackNames = ['localhost', '127.0.0.1', '[::1]'];

function isLoopbackName(hostname: string): boolean {
  return loopbackNames.includes(hostname) || isLoopback(hostname);
}
