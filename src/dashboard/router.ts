/**
 * Where the page is. Plain links within /dashboard are followed without a reload; back and forward bring the place on
 * the page back too.
 */
import { createStore } from '@xstate/store';

export type Place = {
  path: string;
  query: URLSearchParams;
  /** Another number for every visit: what is drawn anew and gets the focus. */
  visit: number;
};

export const root = '/dashboard';

const read = (visit: number): Place => ({
  path: location.pathname.replace(/\/+$/, '') || '/',
  query: new URLSearchParams(location.search),
  visit,
});

export const place = createStore({
  context: read(0),
  on: {
    moved: (context, { isSameVisit = false }: { isSameVisit?: boolean }) =>
      read(context.visit + (isSameVisit ? 0 : 1)),
  },
});

/** Goes to a path of the dashboard. `replace` leaves no step to come back to. */
export function navigate(to: string, { replace = false } = {}): void {
  rememberScroll();
  if (replace) history.replaceState({ key: newStep() }, '', to);
  else history.pushState({ key: newStep() }, '', to);
  place.trigger.moved({});
}

/** Changes the query of this very page, e.g. for a filter: no new visit, no step to come back to. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.size > 0 ? `?${query}` : '';
  history.replaceState(history.state, '', `${location.pathname}${text}`);
  place.trigger.moved({ isSameVisit: true });
}

/** The parameters of a path that has the pattern's form: `/dashboard/projects/:projectId`, `…/operator/*`. */
export function matchPath(pattern: string, path: string): Record<string, string> | undefined {
  const names: string[] = [];
  const source = pattern.replace(/\/\*$/, '(?:/(.*))?').replace(/:(\w+)/g, (_, name: string) => {
    names.push(name);
    return '([^/]+)';
  });
  if (pattern.endsWith('/*')) names.push('rest');
  const found = new RegExp(`^${source}$`).exec(path);
  return found
    ? Object.fromEntries(names.map((name, index) => [name, decode(found[index + 1] ?? '')]))
    : undefined;
}

/** Names of a path's parameters, as types; `rest` is what `*` stands for. */
export type PathParams<P extends string> = P extends `${infer Head}/*`
  ? PathParams<Head> & { rest: string }
  : P extends `${string}:${infer Name}/${infer Rest}`
    ? { [K in Name]: string } & PathParams<`/${Rest}`>
    : P extends `${string}:${infer Name}`
      ? { [K in Name]: string }
      : unknown;

/** Follows links, and keeps where each page was scrolled to. To be called once. */
export function startRouter(): void {
  history.scrollRestoration = 'manual';
  if (history.state?.key === undefined) history.replaceState({ key: newStep() }, '');
  addEventListener('popstate', () => place.trigger.moved({}));
  addEventListener('pagehide', rememberScroll);
  addEventListener('scroll', rememberScroll, { passive: true });
  document.addEventListener('click', (event) => {
    const to = linkOf(event);
    if (to === undefined) return;
    event.preventDefault();
    navigate(to);
  });
}

/** Scrolls to where this step of the history was left, as soon as the page is high enough for that. */
export function restoreScroll(): void {
  const wanted = Number(scrolls.get(history.state?.key) ?? 0);
  const untilTs = performance.now() + 1_500;
  const step = () => {
    scrollTo(0, wanted);
    if (Math.abs(scrollY - wanted) > 2 && performance.now() < untilTs) requestAnimationFrame(step);
  };
  step();
}

function rememberScroll(): void {
  if (history.state?.key !== undefined) scrolls.set(history.state.key, scrollY);
}

const scrolls = new Map<string, number>();
let steps = 0;

function newStep(): string {
  steps += 1;
  return `${performance.timeOrigin}-${steps}`;
}

/** The path that a click goes to here; undefined when the browser is to follow it. */
function linkOf(event: MouseEvent): string | undefined {
  if (event.defaultPrevented || event.button !== 0) return undefined;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return undefined;
  const link = (event.target as Element | null)?.closest('a');
  if (link?.target !== '' || link.hasAttribute('download')) return undefined;
  const { origin, pathname, search, hash } = new URL(link.href, location.href);
  const isOurs = origin === location.origin && (pathname === root || pathname.startsWith(`${root}/`));
  if (!isOurs || (hash !== '' && pathname === location.pathname)) return undefined;
  return `${pathname}${search}${hash}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    if (!(cause instanceof URIError)) throw cause;
    return text;
  }
}
