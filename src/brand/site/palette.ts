/**
 * The five colours of a page. Every element that shows a colour votes for it, with the weight of its role and place;
 * colours that look alike are one; grey loses against colour.
 */
import {
  between,
  Color,
  chromaOf,
  contrastOf,
  distance,
  isDark,
  lightnessOf,
  parseColor,
  white,
} from './color.ts';
import { closest, type Element, textOf } from './dom.ts';
import type { Look, Part, Seen } from './look.ts';
import type { Style } from './style.ts';

export type Evidence = { role: string; weight: number; hex: string };

export type Palette = {
  primary: Color;
  secondary: Color;
  accent: Color;
  background: Color;
  foreground: Color;
  /** Whether the page itself shows a brand colour; otherwise it is made of background and text. */
  isFound: boolean;
  /** What could be the primary colour, with what speaks for it; the first one is. */
  candidates: readonly Cluster[];
  /** The same page, had another candidate been taken. */
  withPrimary(index: number): Palette;
};

type Role =
  | 'button'
  | 'outline'
  | 'link'
  | 'section'
  | 'header'
  | 'heading'
  | 'theme'
  | 'variable'
  | 'shape'
  | 'logo';

/** What one vote of a role weighs, and how much all of a role may weigh together. */
const weights: Record<Role, { one: number; most: number }> = {
  button: { one: 6, most: 22 },
  outline: { one: 2.5, most: 8 },
  link: { one: 1.2, most: 6 },
  section: { one: 4, most: 10 },
  header: { one: 3, most: 6 },
  heading: { one: 2.5, most: 5 },
  theme: { one: 4, most: 4 },
  variable: { one: 5, most: 9 },
  shape: { one: 1, most: 5 },
  logo: { one: 3, most: 6 },
};

/** Looks the same, CIEDE2000. */
const sameBelow = 6;
/** Grounds of cards and bands that are set apart from the page and no more. */
const closeBelow = 12;
/** Clearly another colour. */
const otherAbove = 14;

export function readPalette(look: Look): Palette {
  const background = findBackground(look);
  const foreground = findForeground(look, background);
  const ballot = new Ballot(background, foreground);
  voteOfAll(look, ballot);
  voteOfMeta(look, ballot);
  voteOfVariables(look, ballot);
  const clusters = ballot.results();
  const first = strongest(clusters);
  const found = clusters.filter(({ score }) => score >= minScore);
  const candidates =
    first && found.includes(first) ? [first, ...found.filter((one) => one !== first)] : found;
  return paint({ ballot, clusters, candidates, background, foreground }, candidates[0]);
}

function voteOfAll(look: Look, ballot: Ballot): void {
  const statuses = look.seen.filter(({ element }) => isStatus(element));
  const elsewhere = look.seen.filter(({ element }) => isOfOtherHost(element));
  const apart = new Set([...statuses, ...elsewhere]);
  for (const one of look.seen) if (!apart.has(one)) voteOf(one, look, ballot);
  // Where all that can be clicked leads to others, it is drawn in the site's own colour all the same.
  if (!ballot.isDecided) for (const one of elsewhere) voteOf(one, look, ballot);
  // Some sites have made the colour of danger their own, or call to action in the colour of success alone.
  const isCall = (one: Seen) => one.element.tag === 'a' && isButton(one);
  const own = ballot.isDecided ? statuses.filter((one) => !ballot.hasButtons && isCall(one)) : statuses;
  for (const one of own) voteOf(one, look, ballot);
}

type Voted = {
  ballot: Ballot;
  clusters: readonly Cluster[];
  /** Enough votes to be the primary colour, the likeliest first. */
  candidates: readonly Cluster[];
  background: Color;
  foreground: Color;
};

/** The palette that has one of the candidates as its primary colour. */
function paint(voted: Voted, first: Cluster | undefined): Palette {
  const { ballot, clusters, candidates, background, foreground } = voted;
  const primary = first?.color ?? foreground;
  const rest = clusters.filter(
    ({ color, score }) =>
      score >= minScore / 2 &&
      distance(color, primary) > otherAbove &&
      distance(color, background) > sameBelow,
  );
  const secondary =
    ballot.named('secondary', primary, background) ?? rest[0]?.color ?? between(primary, background, 0.4);
  const third = rest.find(({ color }) => distance(color, secondary) > otherAbove)?.color;
  const accent = ballot.named('accent', primary, background) ?? third ?? (rest[0] ? secondary : primary);
  return {
    primary,
    secondary,
    accent,
    background,
    foreground,
    isFound: first !== undefined,
    candidates,
    withPrimary: (index) => paint(voted, candidates[index]),
  };
}

const minScore = 0.8;

/** Dark and pale greys are on every page: a colour with half of their votes is the brand's. */
function strongest(clusters: readonly Cluster[]): Cluster | undefined {
  const [first] = clusters;
  if (!first || chromaOf(first.color) > 0.05) return first;
  return clusters.find(({ color, score }) => score >= first.score / 2 && chromaOf(color) > 0.1) ?? first;
}

/** The ground that most text stands on; the body's when it is close. */
function findBackground({ seen, page, styles }: Look): Color {
  const canvas = page.body ? styles.of(page.body).ground : white;
  const grounds = new Map<string, { color: Color; chars: number }>();
  let chars = 0;
  for (const { style, ownChars, part, element } of seen) {
    if (ownChars === 0 || beside.has(part) || isInSidebar(element)) continue;
    const { hex } = style.ground;
    const known = grounds.get(hex) ?? { color: style.ground, chars: 0 };
    known.chars += ownChars;
    chars += ownChars;
    grounds.set(hex, known);
  }
  const [most] = [...grounds.values()].sort(
    (a, b) => b.chars - a.chars || a.color.hex.localeCompare(b.color.hex),
  );
  if (!most || most.color.hex === canvas.hex) return canvas;
  const onCanvas = grounds.get(canvas.hex)?.chars ?? 0;
  // Cards and bands cover a part of the page; a wrapper covers it.
  const isWrapper = most.chars > chars * 0.55 && onCanvas < chars * 0.12;
  return isWrapper && chromaOf(most.color) < 0.12 ? most.color : canvas;
}

/** Text that is not what the page is about. */
const beside: ReadonlySet<Part> = new Set(['code', 'footer', 'header']);

const sidebarMemo = new WeakMap<Element, boolean>();

/** What stands beside the content on each page, as the navigation of an application does. */
function isInSidebar(element: Element): boolean {
  const known = sidebarMemo.get(element);
  if (known !== undefined) return known;
  const isIn =
    (element.parent !== null && isInSidebar(element.parent)) ||
    element.tag === 'aside' ||
    element.classes.some((one) => /^(?:sidebar|side-?nav|side-?menu|drawer)(?:[-_]|$)/i.test(one));
  sidebarMemo.set(element, isIn);
  return isIn;
}

/** The colour that the page gives its text; where it gives none, the one that most text has. */
function findForeground({ seen, page, styles }: Look, background: Color): Color {
  const counts = new Map<string, { color: Color; chars: number }>();
  for (const { style, ownChars, part, element } of seen) {
    const isText = ownChars > 0 && part !== 'code' && element.tag !== 'a' && !isInSidebar(element);
    if (!isText || distance(style.ground, background) > closeBelow) continue;
    const color = style.textColor;
    const known = counts.get(color.hex) ?? { color, chars: 0 };
    const share = /^(p|li|h[1-6]|body|main|div|td|dd|blockquote)$/.test(element.tag) ? 1 : 0.6;
    known.chars += ownChars * share;
    counts.set(color.hex, known);
  }
  const isReadable = (color: Color) => contrastOf(color, background) > 2.5;
  const own = ownColor({ page, styles }, counts);
  if (own?.isMeant && isReadable(own.color)) return own.color;
  const [most] = [...counts.values()]
    .filter(({ color }) => isReadable(color))
    .sort((a, b) => b.chars - a.chars || a.color.hex.localeCompare(b.color.hex));
  if (most) return most.color;
  if (own && isReadable(own.color)) return own.color;
  return isDark(background) ? white : new Color(17, 17, 17);
}

/** The body's colour; meant when it is stated, or seen on much of the text. */
function ownColor(
  { page, styles }: Pick<Look, 'page' | 'styles'>,
  counts: ReadonlyMap<string, { chars: number }>,
) {
  const body = page.body && styles.of(page.body);
  if (!body) return undefined;
  const color = body.textColor;
  const most = Math.max(...[...counts.values()].map(({ chars }) => chars));
  const isSeen = (counts.get(color.hex)?.chars ?? 0) > most * leastShare;
  return { color, isMeant: body.inherited('color') !== undefined || isSeen };
}

/** Of the text: below, a colour that nobody stated is that of a few forgotten words. */
const leastShare = 0.15;

export type Cluster = { color: Color; score: number; evidence: Evidence[] };

/** Gathers votes and counts them. */
class Ballot {
  private readonly background: Color;
  private readonly foreground: Color;
  private readonly votes: { color: Color; role: Role; weight: number }[] = [];
  private readonly names: { name: string; color: Color }[] = [];

  constructor(background: Color, foreground: Color) {
    this.background = background;
    this.foreground = foreground;
  }

  vote(color: Color | undefined, role: Role, factor = 1): void {
    if (!color || color.alpha < 0.3 || this.votes.length >= maxVotes) return;
    const seen = color.alpha < 1 ? between(this.background, color, color.alpha) : color;
    if (distance(seen, this.background) < sameBelow) return;
    if (ofText.has(role) && distance(seen, this.foreground) < sameBelow) return;
    this.votes.push({ color: seen, role, weight: weights[role].one * factor * colourfulness(seen, role) });
  }

  /** Remembers a colour that the site itself gives a name to. */
  name(name: string, color: Color): void {
    this.names.push({ name, color });
  }

  /** A named colour that something on the page also has. */
  named(name: string, primary: Color, background: Color): Color | undefined {
    return this.names.find(
      (one) =>
        one.name === name &&
        distance(one.color, primary) > sameBelow &&
        distance(one.color, background) > sameBelow &&
        this.votes.some(({ color, role }) => wide.has(role) && distance(color, one.color) < sameBelow),
    )?.color;
  }

  /** Whether a colour, no grey, has enough votes. */
  get isDecided(): boolean {
    return this.results().some(({ color, score }) => score >= minScore && chromaOf(color) > 0.03);
  }

  /** Whether anything to click is filled with a colour, no grey. */
  get hasButtons(): boolean {
    return this.votes.some(({ color, role }) => role === 'button' && chromaOf(color) > 0.03);
  }

  isSeen(color: Color): boolean {
    return this.votes.some((one) => one.role !== 'variable' && distance(one.color, color) < sameBelow);
  }

  /** Clusters of colours that look alike, strongest first. */
  results(): Cluster[] {
    const exact = new Map<string, { color: Color; roles: Map<Role, number>; sum: number }>();
    for (const { color, role, weight } of this.votes) {
      const known = exact.get(color.hex) ?? { color, roles: new Map<Role, number>(), sum: 0 };
      known.roles.set(role, (known.roles.get(role) ?? 0) + weight);
      known.sum += weight;
      exact.set(color.hex, known);
    }
    const sorted = [...exact.values()].sort(
      (a, b) => b.sum - a.sum || a.color.hex.localeCompare(b.color.hex),
    );
    const clusters: { color: Color; roles: Map<Role, number> }[] = [];
    for (const { color, roles } of sorted) {
      const near = clusters.find((one) => distance(one.color, color) < sameBelow);
      if (!near) clusters.push({ color, roles: new Map(roles) });
      else for (const [role, sum] of roles) near.roles.set(role, (near.roles.get(role) ?? 0) + sum);
    }
    return clusters
      .map(({ color, roles }) => {
        const evidence = [...roles].map(([role, sum]) => ({
          role,
          weight: Math.min(sum, weights[role].most),
          hex: color.hex,
        }));
        evidence.sort((a, b) => b.weight - a.weight || a.role.localeCompare(b.role));
        return { color, score: evidence.reduce((sum, { weight }) => sum + weight, 0), evidence };
      })
      .sort((a, b) => b.score - a.score || a.color.hex.localeCompare(b.color.hex));
  }
}

const maxVotes = 6_000;
/** Where the colour of the text says nothing. */
const ofText = new Set<Role>(['heading', 'link', 'shape', 'outline']);
/** What a second colour has to be seen in, other than small print. */
const wide = new Set<Role>(['button', 'section', 'header']);

/** From 0.12 for grey to 1 for a plain colour; nearly black and nearly white count as grey. */
function colourfulness(color: Color, role: Role): number {
  const lightness = lightnessOf(color);
  // A dark bar or band is meant.
  const least = lightness < 0.4 && (role === 'section' || role === 'header') ? 0.35 : 0.12;
  const chroma = chromaOf(color) * (lightness > 0.93 || lightness < 0.2 ? 0.5 : 1);
  return Math.min(1, Math.max(least, (chroma - 0.015) / 0.07));
}

const statusNames =
  /(^|[-_])(success|danger|error|warning|warn|info|alert|notice|invalid|valid|destructive|delete|positive|negative|toast)([-_]|$)/i;
const otherBrands =
  /facebook|twitter|instagram|google|linkedin|youtube|pinterest|whatsapp|github|gitlab|dribbble|tiktok|discord|slack|apple|paypal|visa|mastercard|stripe|telegram|reddit|snapchat|tumblr|vimeo|behance|xing|(^|[\s_-])line([\s_-]|$)/i;
const secondaryNames =
  /(^|[-_])(secondary|light|dark|outline|ghost|link|text|default|neutral|white|black|subtle|tertiary)([-_]|$)/i;
const primaryNames = /(^|[-_])(primary|cta|brand|main|action|hero)([-_]|$)/i;

function isStatus(element: Element): boolean {
  return (
    closest(element, ({ classes }) =>
      classes.some((one) => (statusNames.test(one) && !/^(bg|text)-info$/.test(one)) || /^alert/.test(one)),
    ) !== undefined
  );
}

function isOtherBrand(element: Element): boolean {
  const { classes, attributes } = element;
  const [inside] = /^(a|button)$/.test(element.tag) ? element.elements : [];
  const names = `${classes.join(' ')} ${inside?.classes.join(' ') ?? ''} ${attributes.get('aria-label') ?? ''}`;
  return otherBrands.test(names);
}

/** A site's own code lies with others: only a link that names them is theirs. */
function isOfOtherHost(element: Element): boolean {
  const host = hostOf(element.get('href'));
  if (!otherBrands.test(host)) return false;
  const words = codeHosts.test(host) ? textOf(element, undefined, 80) : '';
  return words === '' || otherBrands.test(words);
}

const codeHosts = /github|gitlab/i;

const hostOf = (href: string) => /^(?:https?:)?\/\/([^/]*)/i.exec(href)?.[1] ?? '';

const partFactor = { header: 1.3, hero: 1.6, main: 1, footer: 0.4, code: 0 } as const;

function voteOf(seen: Seen, look: Look, ballot: Ballot): void {
  const { element, style, part } = seen;
  const factor = partFactor[part];
  if (factor === 0 || isOtherBrand(element)) return;
  if (isButton(seen)) voteOfButton(seen, factor, ballot);
  else if (element.tag === 'a' && seen.ownChars > 0) voteOfLink(seen, ballot);
  else if (isBand(seen) || isPanel(seen)) voteOfBand(seen, look, ballot);
  else voteOfSmall(seen, factor, ballot);
  if (
    /^(h1|h2|h3)$/.test(closest(element, ({ tag }) => /^h[1-3]$/.test(tag))?.tag ?? '') &&
    seen.ownChars > 0
  )
    ballot.vote(style.textColor, 'heading', element.tag === 'span' || part === 'hero' ? 1 : 0.5);
}

/** Something to click that looks like it: filled, framed, or named so. */
export function isButton({ element, style, ownChars }: Seen): boolean {
  const { tag } = element;
  const isNamed = isNamedButton(element);
  if (tag === 'button') return ownChars > 0 || element.elements.length > 0;
  if (tag === 'input') return /^(submit|button)$/.test(element.get('type'));
  if (tag !== 'a' && !(isNamed && tag === 'span')) return false;
  return (
    isNamed || ((style.background.alpha > 0.5 || style.gradient.length > 0) && ownChars > 0 && ownChars < 40)
  );
}

const isNamedButton = (element: Element) =>
  element.classes.some((one) => /(^|[-_])(btn|button|cta)([-_]|$)/i.test(one)) ||
  element.get('role') === 'button';

function voteOfButton({ element, style, part }: Seen, factor: number, ballot: Ballot): void {
  const names = element.classes.join(' ');
  if (
    /close|toggler|carousel|hamburger|dropdown-toggle|menu-toggle|tab|page-link/i.test(names) &&
    !primaryNames.test(names)
  )
    return;
  let share = factor;
  if (primaryNames.test(names)) share *= 1.4;
  else if (secondaryNames.test(names)) share *= 0.6;
  const fill =
    style.gradient.find(({ alpha }) => alpha > 0.5) ??
    (style.background.alpha > 0.3 ? style.ground : undefined);
  const isDefault = element.tag === 'button' && fill?.hex === '#efefef';
  // Links are marked with pale grounds, as words are with a pen.
  const isMarked = element.tag === 'a' && !isNamedButton(element) && fill && lightnessOf(fill) > 0.9;
  if (isMarked) ballot.vote(fill, 'shape', share * 0.2);
  else if (fill && !isDefault) ballot.vote(fill, 'button', share);
  else {
    ballot.vote(style.border, 'outline', share);
    ballot.vote(style.textColor, 'link', part === 'header' ? 0.3 : 1);
  }
}

function voteOfLink({ element, style, part, ownChars }: Seen, ballot: Ballot): void {
  const isPlain = element.get('href') !== '' && style.color.hex === '#0000ee';
  if (isPlain) return;
  const share = { header: 0.35, hero: 1, main: 1, footer: 0.3, code: 0 }[part];
  ballot.vote(style.textColor, 'link', share * Math.min(1, ownChars / 8));
}

/** A wide part of the page. */
function isBand({ element, style }: Seen): boolean {
  if (style.background.alpha < 0.3 && style.gradient.length === 0) return false;
  return (
    /^(section|header|footer|nav|main|aside|article)$/.test(element.tag) ||
    /section|hero|banner|jumbotron|masthead|navbar|sidebar|header|callout|footer|cta/i.test(
      element.get('class'),
    )
  );
}

/** A card or another part that is filled with a colour and has something to say. */
function isPanel({ element, style, ownChars }: Seen): boolean {
  if (style.background.alpha < 0.9 || ownChars > 0 || element.elements.length === 0) return false;
  return chromaOf(style.background) > 0.08 && textOf(element, undefined, 100).length >= 60;
}

function voteOfBand({ element, style, part }: Seen, { chars }: Look, ballot: Ballot): void {
  const text = textOf(element, undefined, 2_000).length;
  const isTall = /(^|[\s_-])side-?(bar|nav|menu)/i.test(element.get('class'));
  const share = isTall ? 1 : Math.min(1, 0.35 + text / Math.max(chars, 400));
  const role = part === 'header' ? 'header' : 'section';
  const gradient = style.gradient.filter(({ alpha }) => alpha > 0.5);
  const colors = gradient.length > 0 ? gradient.slice(0, 2) : [style.ground];
  for (const [at, color] of colors.entries()) {
    // Pale bands set things apart; they are nobody's colour.
    const pale = lightnessOf(color) > 0.9 ? 0.2 : 1;
    const ofGradient = colors.length === 1 ? 1 : (gradientShares[at] ?? 0);
    ballot.vote(color, role, share * pale * ofGradient * (part === 'footer' ? 0.5 : 1));
  }
}

/** A gradient begins with its main colour. */
const gradientShares = [0.6, 0.4];

function voteOfSmall({ element, style, ownChars }: Seen, factor: number, ballot: Ballot): void {
  if (/svg$/.test(element.namespace)) {
    voteOfDrawing(element, style, factor, ballot);
    return;
  }
  if (style.background.alpha > 0.3 && element.tag !== 'body' && element.tag !== 'html')
    ballot.vote(style.ground, 'shape', 0.6 * factor);
  const isInParagraph = ownChars > 0 && element.parent !== null;
  if (isInParagraph && chromaOf(style.color) > 0.06) ballot.vote(style.textColor, 'shape', 0.5 * factor);
  const isIcon = element.tag === 'i' && element.classes.length > 0;
  if (isIcon) ballot.vote(style.textColor, 'shape', 0.7 * factor);
  if (element.classes.some((one) => /logo|brand/i.test(one)) && ownChars > 0)
    ballot.vote(style.textColor, 'logo', 0.7);
}

function voteOfDrawing(element: Element, style: Style, factor: number, ballot: Ballot): void {
  const fill = style.value('fill') ?? '';
  const isNamed = ({ classes, tag }: Element) =>
    tag === 'a' && classes.some((one) => /logo|brand/i.test(one));
  const isLogo = closest(element, isNamed) !== undefined;
  const color = fill === '' || fill === 'none' ? undefined : parseColor(fill, style.color);
  ballot.vote(color, isLogo ? 'logo' : 'shape', isLogo ? 1 : 0.3 * factor);
}

function voteOfMeta({ page }: Look, ballot: Ballot): void {
  for (const element of page.all) {
    if (element.tag !== 'meta') continue;
    const name = element.get('name').toLowerCase();
    const isTheme = name === 'theme-color' && !/dark/.test(element.get('media'));
    if (!isTheme && name !== 'msapplication-tilecolor') continue;
    ballot.vote(parseColor(element.get('content')), 'theme', isTheme ? 1 : 0.3);
  }
}

/** Frameworks define colours that no element shows: a name alone says little. */
function voteOfVariables({ page, styles }: Look, ballot: Ballot): void {
  const tops = [page.all.find(({ tag }) => tag === 'html'), page.body].filter((one) => one !== undefined);
  for (const top of tops) {
    const style = styles.of(top);
    for (const variable of style.variableNames) voteOfVariable(variable, style, ballot);
  }
}

function voteOfVariable(variable: string, style: Style, ballot: Ballot): void {
  const role = telling.exec(variable)?.[1]?.toLowerCase();
  const color = role && colorOfVariable(style.variable(variable) ?? '');
  if (!color || color.alpha < 0.9) return;
  const name = role === 'brand' ? 'primary' : role;
  ballot.name(name, color);
  const share = ballot.isSeen(color) ? 1 : 0.1;
  ballot.vote(color, 'variable', name === 'primary' ? share : share / 4);
}

const telling =
  /^--(?:[a-z]{1,12}-){0,2}(primary|secondary|accent|brand)(?:-color|-500|-600|-base|-main|-default)?$/i;

/** `221 83% 53%` is how some frameworks keep an HSL colour. */
function colorOfVariable(value: string): Color | undefined {
  if (/^[\d.]+(deg)?\s+[\d.]+%\s+[\d.]+%$/.test(value.trim())) return parseColor(`hsl(${value.trim()})`);
  if (/^\d{1,3}[,\s]+\d{1,3}[,\s]+\d{1,3}$/.test(value.trim())) return parseColor(`rgb(${value.trim()})`);
  return parseColor(value);
}
