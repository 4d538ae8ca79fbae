/** What a site asks of robots (RFC 9309): which paths are ours to fetch, and where its sitemaps are. */

/** The name that sites may address us by: the product in the user-agent header. */
const ourName = 'animatedassetservice';

export type Robots = { allows(url: URL): boolean; sitemaps: readonly string[] };

type Line = { isAllowed: boolean; path: string };

const maxLines = 5_000;
const maxPatternChars = 500;
const maxSitemaps = 5;

/** Everything is allowed: there is no robots.txt. */
export const openRobots: Robots = { allows: () => true, sitemaps: [] };
/** Nothing is: the server fails when it is asked (RFC 9309, 2.3.1.4). */
export const closedRobots: Robots = { allows: () => false, sitemaps: [] };

export function parseRobots(text: string): Robots {
  const reading = new Reading();
  for (const raw of text
    .slice(0, maxTextChars)
    .split(/\r\n?|\n/)
    .slice(0, maxLines)) {
    const [, field = '', value = ''] =
      /^\s*([\w-]+)\s*:\s*(.*)$/.exec(raw.replace(/#.*$/, '').trimEnd()) ?? [];
    reading.take(field.toLowerCase(), value);
  }
  const { groups, sitemaps } = reading;
  const isOurs = (name: string) =>
    name !== '*' && name !== '' && ourName.startsWith(name.split('/')[0] ?? '');
  const ours = [...groups].filter(([name]) => isOurs(name));
  const lines = ours.length > 0 ? ours.flatMap(([, some]) => some) : (groups.get('*') ?? []);
  return { allows: (url) => judge(lines, url.pathname + url.search), sitemaps };
}

/** Lines for several names in a row hold for all of them. */
class Reading {
  readonly groups = new Map<string, Line[]>();
  readonly sitemaps: string[] = [];
  private names: string[] = [];
  private isNaming = false;

  take(field: string, value: string): void {
    if (field === 'user-agent') this.name(value.toLowerCase());
    else if (field === 'allow' || field === 'disallow') this.rule(field === 'allow', value);
    else if (field === 'sitemap' && this.sitemaps.length < maxSitemaps) this.sitemaps.push(value.trim());
  }

  private name(name: string): void {
    this.names = this.isNaming ? [...this.names, name] : [name];
    this.isNaming = true;
    if (!this.groups.has(name)) this.groups.set(name, []);
  }

  private rule(isAllowed: boolean, path: string): void {
    this.isNaming = false;
    if (path === '') return;
    for (const name of this.names) this.groups.get(name)?.push({ isAllowed, path });
  }
}

const maxTextChars = 512 * 1024;

/** The longest path that matches decides; an allowance wins a draw. */
function judge(lines: readonly Line[], path: string): boolean {
  let best: Line | undefined;
  for (const line of lines) {
    if (line.path.length > maxPatternChars || !matches(line.path, path)) continue;
    const isLonger = !best || line.path.length > best.path.length;
    if (isLonger || (best?.path.length === line.path.length && line.isAllowed)) best = line;
  }
  return best?.isAllowed ?? true;
}

/** `*` stands for anything, `$` for the end. Without regular expressions, whose time a stranger could choose. */
function matches(pattern: string, path: string): boolean {
  const isWhole = pattern.endsWith('$');
  const parts = (isWhole ? pattern.slice(0, -1) : pattern).split('*');
  const [first = ''] = parts;
  if (!path.startsWith(first)) return false;
  let at = first.length;
  for (let i = 1; i < parts.length; i += 1) {
    const part = parts[i] ?? '';
    const isLast = i === parts.length - 1;
    if (isWhole && isLast) return path.length - part.length >= at && path.endsWith(part);
    const found = path.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return !isWhole || at === path.length;
}

/** Addresses of a sitemap, and of the sitemaps that it lists. */
export function parseSitemap(text: string): { pages: string[]; sitemaps: string[] } {
  const isIndex = /<sitemapindex[\s>]/i.test(text.slice(0, 2_000));
  const found: string[] = [];
  const location = /<loc>\s*(?:<!\[CDATA\[)?\s*([^<\]]{1,1000}?)\s*(?:\]\]>)?\s*<\/loc>/gi;
  for (let match = location.exec(text); match && found.length < maxLocations; match = location.exec(text))
    found.push((match[1] ?? '').replace(/&amp;/g, '&'));
  return isIndex ? { pages: [], sitemaps: found.slice(0, maxSitemaps) } : { pages: found, sitemaps: [] };
}

const maxLocations = 2_000;
