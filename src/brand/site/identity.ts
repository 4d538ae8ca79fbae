/** Name and logo of a site, each by a ladder: what the site says about itself for machines first, icons last. */
import { project as limits } from '../../../schemas/limits.ts';
import { closest, descendants, Element, type Page, TextNode, textOf, tidy } from './dom.ts';
import { isFooter, isPageHeader } from './look.ts';
import { isForeign, type Style, type Styles } from './style.ts';

export type Found = { value: string; from: string };
/** What the name and the logo could be, the likeliest first, each once. */
export type Identity = { names: Found[]; logos: Found[] };

export function readIdentity(page: Page, url: URL, styles: Styles): Identity {
  const things = readJsonLd(page);
  const links = homeLinks(page, url);
  const names = findNames(page, url, things, links);
  const known = { things, links, name: names[0]?.value ?? '' };
  return { names, logos: onlyOnce(findLogos(page, url, known, styles)) };
}

const onlyOnce = (found: readonly Found[]): Found[] =>
  found.filter(({ value }, at) => found.findIndex((one) => one.value === value) === at);

/** Content of the first meta element with one of the names. */
export function metaOf(page: Page, ...names: string[]): string {
  for (const name of names) {
    for (const element of page.all) {
      const isNamed =
        (element.get('name') || element.get('property') || element.get('itemprop')).toLowerCase() === name;
      const content = element.tag === 'meta' && isNamed ? tidy(element.get('content')) : '';
      if (content !== '') return content.slice(0, maxMetaChars);
    }
  }
  return '';
}

export function titleOf(page: Page): string {
  const title = page.all.find(({ tag, parent }) => tag === 'title' && parent?.tag === 'head');
  return title ? textOf(title, undefined, 500) : '';
}

const maxMetaChars = 1_000;
const maxNameChars = 60;

type Thing = Record<string, unknown>;

const organisations =
  /^(Organization|Corporation|Brand|WebSite|LocalBusiness|OnlineStore|OnlineBusiness|Store|Restaurant|NGO|EducationalOrganization|SoftwareApplication|Person|.*Business|.*Organization)$/;

/** Everything that JSON-LD says about who is behind the site, organisations before the site. */
function readJsonLd({ all }: Page): Thing[] {
  const found: Thing[] = [];
  for (const element of all) {
    if (element.tag !== 'script' || !/ld\+json/i.test(element.get('type'))) continue;
    const text = element.children.map((one) => (one instanceof TextNode ? one.text : '')).join('');
    if (text.length < maxJsonChars) collectThings(parseJson(text), found);
  }
  const isSite = ({ '@type': type }: Thing) => (type === 'WebSite' ? 1 : 0);
  return found.sort((a, b) => isSite(a) - isSite(b));
}

const maxJsonChars = 200_000;
const maxThings = 200;

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\s*(?:<!--|\/\/<!\[CDATA\[)|(?:-->|\/\/\]\]>)\s*$/g, ''));
  } catch {
    // Broken JSON-LD is as good as none.
    return undefined;
  }
}

function collectThings(value: unknown, found: Thing[]): void {
  const stack = [value];
  for (let seen = 0; stack.length > 0 && seen < maxThings; seen += 1) {
    const next = stack.shift();
    if (Array.isArray(next)) stack.push(...next.slice(0, maxThings));
    else if (typeof next === 'object' && next !== null) {
      const thing = next as Thing;
      if (isOrganisation(thing)) found.push(thing);
      stack.push(...within.map((key) => thing[key]));
    }
  }
}

const within = ['@graph', 'publisher', 'mainEntity', 'brand', 'about'];

function isOrganisation(thing: Thing): boolean {
  const types = [thing['@type']].flat().filter((one) => typeof one === 'string');
  return types.some((one) => organisations.test(one.replace(/^.*[/#]/, '')));
}

/** Links of the header that lead home: there a name or a logo stands. */
function homeLinks({ all }: Page, url: URL): Element[] {
  const isHome = (element: Element) => {
    const href = element.get('href').trim();
    if (/^(?:#top|#page-top|#home|(?:\.{0,2}\/)+(?:index\.html?)?|index\.html?)$/.test(href)) return true;
    if (href === '' || href.startsWith('#') || !URL.canParse(href, url.href)) return false;
    const target = new URL(href, url);
    return (
      target.host === url.host &&
      target.hash === '' &&
      (target.pathname === '/' ||
        target.pathname === url.pathname ||
        /^\/[a-z]{2}(-[a-z]{2})?\/?$/i.test(target.pathname))
    );
  };
  const endOfTop = all.filter(({ tag }) => tag === 'h1' || tag === 'h2')[1]?.order ?? all.length;
  const scored = all
    .filter(
      (one) =>
        (one.tag === 'a' || (isNamedLogo(one) && ![...descendants(one)].some(({ tag }) => tag === 'a'))) &&
        !isForeign(one) &&
        !isMentioned(one) &&
        closest(one, ({ tag }) => tag === 'footer') === undefined,
    )
    .map((element) => {
      const inHeader = closest(element, isPageHeader) !== undefined;
      const named = closest(element, (one) => isNamedLogo(one)) !== undefined;
      const isListed = isMenuItem(element) || closest(element, isSubmenu) !== undefined;
      const home = element.tag === 'a' && isHome(element) && (named || !isListed);
      const isFarBelow = element.tag !== 'a' && !inHeader && element.order > endOfTop;
      return { element, score: isFarBelow ? 0 : (named ? 4 : 0) + (inHeader ? 2 : 0) + (home ? 1.5 : 0) };
    })
    .filter(({ score }) => score >= 3.5);
  return scored
    .sort((a, b) => b.score - a.score || a.element.order - b.element.order)
    .slice(0, 8)
    .map(({ element }) => element);
}

/** In a sentence of the text stands the name or the logo of somebody who is spoken of. */
function isMentioned(element: Element): boolean {
  const paragraph = closest(element.parent, ({ tag }) => tag === 'p');
  if (!paragraph || closest(paragraph, isPageHeader)) return false;
  return textOf(paragraph, undefined, 200).length - textOf(element, undefined, 200).length >= sentenceChars;
}

const sentenceChars = 20;

/** What opens under an entry of a menu: the page itself may be listed there. */
const isSubmenu = ({ classes }: Element) =>
  classes.some((one) => /^(?:dropdown|sub-?menu|mega-?menu)(?:[-_]|$)/i.test(one));

/** One of several entries of a menu, not the first: it may lead home as well. */
function isMenuItem(element: Element): boolean {
  return [element, element.parent].some((one) => {
    const entries = one?.parent?.elements.filter(
      ({ tag, classes }) => tag === one.tag && classes[0] === one.classes[0],
    );
    return entries !== undefined && entries.length >= 3 && entries[0] !== one;
  });
}

const isNamedLogo = ({ classes, attributes, tag }: Element) =>
  tag !== 'body' &&
  tag !== 'html' &&
  [...classes, attributes.get('id') ?? ''].some(
    (one) =>
      /(^|[-_]|__|nav|site|header)(brand|logo|logotype|wordmark|site-?title|site-?name)([-_]|$|link|text|img|image)/i.test(
        one,
      ) && !/logos|brands|partner|client|customer|sponsor/i.test(one),
  );

function findNames(page: Page, url: URL, things: Thing[], links: Element[]): Found[] {
  const title = titleOf(page);
  const parts = partsOfTitle(title);
  const heading = page.all.find(({ tag }) => tag === 'h1');
  const word = heading ? textOf(heading, undefined, 200) : '';
  const candidates: Found[] = [
    ...things.map(({ name }) => ({ value: typeof name === 'string' ? name : '', from: 'JSON-LD' })),
    { value: metaOf(page, 'og:site_name'), from: 'og:site_name' },
    { value: metaOf(page, 'application-name', 'apple-mobile-web-app-title'), from: 'application-name' },
    ...titledFirst(
      links.flatMap((link) => namesOf(link, parts)).map((one) => inFull(one, parts, word)),
      title,
    ),
  ];
  const host = hostWords(url);
  const part = parts.find((one) => sameWord(one, host));
  if (part !== undefined) candidates.push({ value: part, from: 'title and host' });
  for (const value of headedBy(page, host)) candidates.push({ value, from: 'heading and host' });
  for (const part of byLikeness(page, url, parts))
    candidates.push({ value: isKindOf(part, word) ? word : part, from: 'title' });
  if (title === '' && word.split(' ').length <= 4) candidates.push({ value: word, from: 'heading' });
  const isName = ({ value }: Found) =>
    value !== '' && value.length <= maxNameChars && !meaningless.test(value);
  const names = candidates
    .map(({ value, from }) => ({ value: cleanName(withoutSlogan(value)), from }))
    .filter(isName);
  // Whoever had no name to fill in gave the address.
  const isAddress = ({ value }: Found) => addresses.test(value) || value === url.hostname;
  return onlyOnce([...names.filter((one) => !isAddress(one)), ...names.filter(isAddress)]);
}

/** What the title says as well is the name; an image may be called after what it once showed. */
const titledFirst = (found: readonly Found[], title: string): Found[] => {
  const isInTitle = ({ value }: Found) => value !== '' && title.toLowerCase().includes(value.toLowerCase());
  return [...found.filter(isInTitle), ...found.filter((one) => !isInTitle(one))];
};

/** An image may be called by the first word of the name that title and heading have in full. */
function inFull({ value, from }: Found, parts: readonly string[], word: string): Found {
  const short = `${cleanName(value).toLowerCase()} `;
  const whole = parts.find((one) => one.toLowerCase().startsWith(short) && sameWord(one, word));
  return whole !== undefined && from === 'logo alt' ? { value: whole, from } : { value, from };
}

/** `Acme - The tool for everything`: a short name, then words about it. */
function withoutSlogan(value: string): string {
  const [name = '', ...others] = value.split(/\s+[|–—·•-]\s+|:\s+/);
  const isShort = name !== '' && name.split(' ').length <= maxNameWords;
  return isShort && others.join(' ').split(' ').length >= minSloganWords ? name : value;
}

const maxNameWords = 3;
const minSloganWords = 3;

/** `Acme plugin`, where the heading says `Acme`: what is said of it in lower case is no part of its name. */
const isKindOf = (part: string, word: string): boolean =>
  word.length >= 3 &&
  part.toLowerCase().startsWith(`${word.toLowerCase()} `) &&
  /^\p{Ll}/u.test(part.slice(word.length + 1));

/** Headings at the top that say what the site's address says. */
function headedBy({ all }: Page, host: string): string[] {
  return all
    .filter(({ tag }) => /^h[1-3]$/.test(tag))
    .slice(0, 3)
    .map((one) => cleanName(textOf(one, undefined, 200)))
    .filter((one) => sameWord(one, host));
}

/** Of the web, or of a house that gives room to others: `Booking.com` and `three.min.js` are names. */
const addresses =
  /^www\.[\w.-]+\.\p{L}{2,}$|^[\w-]+\.(?:(?:github|gitlab)\.io|(?:netlify|vercel|web)\.app|pages\.dev|herokuapp\.com)$/iu;

/** Initials in the place of a logo. */
const isMark = (name: string) => /^\p{Lu}{1,2}$/u.test(name);

const partsOfTitle = (title: string): string[] =>
  title
    .split(/\s+[|–—·•:»/-]\s+|\s*[|｜»•·]\s*|:\s+|\s+–\s*/)
    .map(tidy)
    .filter((one) => one !== '');

/** Parts of a title that could be the name, best first: who holds the rights is, what the page alone is called is not. */
function byLikeness(page: Page, url: URL, parts: readonly string[]): string[] {
  const ofPage = (url.pathname.split('/').at(-1) ?? '').replace(/\.\w+$/, '');
  const rights = page.all
    .filter((one) => one.elements.length < 6 && isInFooter(one))
    .map((one) => textOf(one, undefined, 200))
    .filter((text) => /©|\bcopyright\b|\(c\)/i.test(text))
    .join(' ')
    .toLowerCase();
  const labels = new Set(
    page.all
      .filter((one) => one.tag === 'a' && isMenuItem(one) && closest(one, isPageHeader) !== undefined)
      .map((one) => textOf(one, undefined, 80).toLowerCase()),
  );
  const scoreOf = (part: string) =>
    (labels.has(part.toLowerCase()) || sameWord(part, ofPage) ? -1 : 0) +
    (rights.includes(part.toLowerCase()) ? 1 : 0);
  return parts.toSorted((a, b) => scoreOf(b) - scoreOf(a) || a.length - b.length);
}

const isInFooter = (element: Element) => closest(element, isFooter) !== undefined;

const meaningless =
  /^(home|homepage|start|startseite|ホーム|index|untitled|website|my site|logo|menu|navigation|toggle navigation|brand|document|welcome|willkommen|page|site|dashboard|demo|examples?|docs|documentation|overview|about(?: us)?|contact(?: us)?|blog|pricing|faq|features|services|testimonials|login|sign in|getting started|über uns|kontakt|preise|skip to .*|http.*)$/i;

function namesOf(link: Element, parts: readonly string[]): Found[] {
  const images = [...descendants(link)].filter(({ tag }) => tag === 'img' || tag === 'svg');
  const alts = [link, ...images].map(
    (one) => one.get('alt') || (one.tag === 'svg' ? one.get('aria-label') || titleIn(one) : ''),
  );
  const text = textOf(
    link,
    (one) => one === link || !(one.tag === 'small' || one.classes.some((name) => besideName.test(name))),
    120,
  );
  // Beside the name a logo may have what the title has after it.
  const [name = '', ...others] = parts;
  const slogan = others
    .join(' ')
    .replace(/[.!?…\s]+$/, '')
    .toLowerCase();
  const isWhole =
    slogan !== '' &&
    text
      .toLowerCase()
      .replace(/[.!?…\s]+$/, '')
      .endsWith(` ${slogan}`);
  const before = isWhole ? text.slice(0, text.toLowerCase().lastIndexOf(` ${slogan}`)) : '';
  const isNamed = before !== '' && name.toLowerCase().startsWith(before.toLowerCase());
  const found = [
    { value: isNamed ? before : text, from: 'header link' },
    ...alts.map((value) => ({ value, from: 'logo alt' })),
  ];
  if (/home|logo|start/i.test(link.get('aria-label')))
    found.push({ value: link.get('aria-label'), from: 'logo alt' });
  return found.filter(({ value }) => value !== '' && !isMark(value));
}

/** What stands with a name and is none: a slogan, a number. */
const besideName = /sr-only|visually-hidden|badge|version|tooltip|slogan|tagline|subtitle|claim/i;

const titleIn = (svg: Element) => {
  const title = svg.elements.find(({ tag }) => tag === 'title');
  return title ? textOf(title) : '';
};

function cleanName(text: string): string {
  return tidy(text)
    .replace(/^(?:the\s+)?logo\s*(?:of|von|de)?[\s:–-]+/i, '')
    .replace(/[\s–-]+(?:logo(?:type)?|ロゴ)(?:\s+[|–—-]\s.*)?$/i, '')
    .replace(/[\s–-]+(?:homepage|home ?page|startseite|home)$/i, '')
    .replace(/のロゴ$/, '')
    .replace(/(?<=\S)\s+(?:examples?|demos?|demo page|documentation|docs)$/i, '')
    .replace(/\s+(?:by|von|powered by)\s+\p{L}.*$/iu, '')
    .replace(/\s+(?:\(v?\d+(?:\.\d+)+\)|v\d+(?:\.\d+)*)$/, '')
    .replace(/[\s,.:;|·–—-]+$/, '')
    .replace(/^[\s,.:;|·–—-]+/, '')
    .trim();
}

const hostWords = ({ hostname }: URL) => hostname.replace(/^www\./, '').split('.')[0] ?? '';
const sameWord = (text: string, host: string) =>
  text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '') === host.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');

type Known = { things: Thing[]; links: Element[]; name: string };

function findLogos(page: Page, url: URL, { things, links, name }: Known, styles: Styles): Found[] {
  const stated = things.map(({ logo }): Found | undefined => {
    const text = addressIn(logo);
    const address = typeof text === 'string' ? absolute(text, url) : undefined;
    return address === undefined ? undefined : { value: address, from: 'JSON-LD' };
  });
  const linked = links.map((link) => imageIn(link, url, styles));
  const placed = [
    namedImage(page, url, name),
    headingImage(page, url, name, styles),
    namedGround(page, url, name, styles),
  ];
  const all = [...stated, ...linked, ...placed, iconOf(page, url)];
  return all.filter((one) => one !== undefined);
}

/** An image of JSON-LD is an address, or a thing that has one. */
function addressIn(image: unknown): unknown {
  if (typeof image !== 'object' || image === null) return image;
  const { url, contentUrl } = image as Thing;
  return url ?? contentUrl;
}

/** The image of a link, or its inline SVG as a data URL. */
function imageIn(link: Element, url: URL, styles: Styles): Found | undefined {
  for (const element of [link, ...descendants(link)]) {
    const style = styles.of(element);
    const image = style.isShown ? pictureOf(element, url, style) : undefined;
    if (image?.value !== undefined) return { value: image.value, from: image.from };
  }
  return undefined;
}

function pictureOf(element: Element, url: URL, style: Style): { value: string | undefined; from: string } {
  if (element.tag === 'img') return { value: sourceOf(element, url), from: 'header image' };
  const names = element.get('class');
  if (element.tag === 'svg') {
    const isControl = /icon|chevron|arrow|menu|caret/i.test(names);
    return { value: isControl ? undefined : asDataUrl(element, style.color.hex), from: 'header svg' };
  }
  const background = /url\(\s*["']?([^"')]+)/.exec(style.value('background-image') ?? '')?.[1];
  const isNamed = background !== undefined && /logo|brand/i.test(`${background} ${names}`);
  return { value: isNamed ? absolute(background, url) : undefined, from: 'header background' };
}

function sourceOf(element: Element, url: URL): string | undefined {
  const sources = [
    element.get('src'),
    element.get('data-src'),
    element.get('data-lazy-src'),
    element.get('srcset').split(/\s/)[0] ?? '',
  ];
  const source = sources.find(
    (one) =>
      one !== '' && !/^data:image\/(gif|svg\+xml;base64,PHN2ZyB4bWxucz0naHR0|png;base64,.{0,120}$)/.test(one),
  );
  return source === undefined ? undefined : absolute(source, url);
}

/** Outside of the header a logo is the site's own when its name is there too. */
function namedImage({ all }: Page, url: URL, name: string): Found | undefined {
  const [word = ''] = name.toLowerCase().split(/[^\p{L}\p{N}]+/u);
  const named = all.filter(
    (one) =>
      one.tag === 'img' &&
      /logo|brand|wordmark/i.test(
        `${one.get('src').replace(/^.*\//, '')} ${one.get('alt')} ${one.get('class')} ${one.get('id')}`,
      ) &&
      closest(
        one,
        (above) =>
          /logos|partner|client|customer|sponsor|brands|trusted|footer|testimonial/i.test(
            `${above.get('class')} ${above.get('id')}`,
          ) || above.tag === 'footer',
      ) === undefined &&
      !isForeign(one),
  );
  const inHeader = named.find((one) => closest(one, isPageHeader) !== undefined);
  const image =
    inHeader ??
    named.find(
      (one) => word.length >= 3 && `${one.get('src')} ${one.get('alt')}`.toLowerCase().includes(word),
    );
  const address = image && sourceOf(image, url);
  return address ? { value: address, from: inHeader ? 'header image' : 'image' } : undefined;
}

/** An image in the place of the words of the first heading, or before them where they are the name. */
function headingImage({ all }: Page, url: URL, name: string, styles: Styles): Found | undefined {
  const heading = all.find(({ tag }) => tag === 'h1');
  const words = heading && textOf(heading, (one) => styles.of(one).isShown, 80);
  const begin = heading?.children.find((one) => one instanceof Element || tidy(one.text) !== '');
  const isBefore = begin instanceof Element && begin.tag === 'img' && sameWord(words ?? '', name);
  return heading && (words === '' || isBefore) ? imageIn(heading, url, styles) : undefined;
}

/** A logo that is painted behind the name. */
function namedGround({ all }: Page, url: URL, name: string, styles: Styles): Found | undefined {
  const isNamed = (one: Element) => {
    const text = name === '' || one.tag === 'body' || one.tag === 'html' ? '' : textOf(one, undefined, 120);
    return text !== '' && text.length < 120 && text.toLowerCase().startsWith(name.toLowerCase());
  };
  for (const element of all.filter(isNamed)) {
    const { value, from } = pictureOf(element, url, styles.of(element));
    if (value !== undefined && from === 'header background') return { value, from };
  }
  return undefined;
}

/** Icons: the one for home screens, a vector, the largest. */
function iconOf({ all }: Page, url: URL): Found | undefined {
  const icons = all
    .filter(
      ({ tag, attributes }) =>
        tag === 'link' &&
        /(^|\s)(shortcut icon|icon|apple-touch-icon(-precomposed)?|fluid-icon)(\s|$)/i.test(
          attributes.get('rel') ?? '',
        ),
    )
    .map((element) => {
      const rel = element.get('rel').toLowerCase();
      const size = Number.parseInt(element.get('sizes'), 10) || (rel.includes('apple') ? 180 : 16);
      const isVector = /svg/.test(element.get('type')) || /\.svg(\?|$)/i.test(element.get('href'));
      return { address: absolute(element.get('href'), url), score: isVector ? 1_000 : size };
    })
    .sort((a, b) => b.score - a.score);
  const address = icons.find((one) => one.address !== undefined)?.address;
  return address === undefined ? undefined : { value: address, from: 'icon' };
}

/** An address that fits the result. Undefined for a broken or a too long one. */
function absolute(text: string, url: URL): string | undefined {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed === '#' || !URL.canParse(trimmed, url.href)) return undefined;
  const { href, protocol } = new URL(trimmed, url);
  const isUsable = /^https?:$/.test(protocol) || /^data:image\//i.test(href);
  return isUsable && href.length <= limits.brandTextMaxChars ? href : undefined;
}

const maxSvgElements = 60;

function asDataUrl(svg: Element, color: string): string | undefined {
  const all = [...descendants(svg)];
  if (
    all.length === 0 ||
    all.length > maxSvgElements ||
    all.some(({ tag }) => /^(script|foreignobject|use|image|a|style|animate|set)$/i.test(tag))
  )
    return undefined;
  for (const digits of [2, 1, 0]) {
    const text = serialise(svg, color, digits);
    const address = `data:image/svg+xml,${text.replace(/[%#<>{}|\\^`\s"]/g, encodeURIComponent)}`;
    if (address.length <= limits.brandTextMaxChars) return address;
    if (digits === 1 && !isLargeDrawing(svg)) return undefined;
  }
  return undefined;
}

/** Drawn on so many units that a tenth of one is not seen. */
function isLargeDrawing(svg: Element): boolean {
  const [, , width = 0] = svg
    .get('viewBox')
    .split(/[\s,]+/)
    .map(Number);
  return width >= 100;
}

/** Elements and the attributes that draw: nothing that runs or loads. Coordinates have at most so many decimals. */
function serialise(element: Element, color: string, digits: number): string {
  const attributes = [...element.attributes]
    .filter(
      ([name, value]) =>
        !/^(on|class|style|id|data-|aria-|href|xlink|role|focusable)/i.test(name) &&
        !/url\s*\(\s*(?!#)/i.test(value),
    )
    .map(([name, value]) => {
      const drawn = /^(d|points|viewBox)$/.test(name) ? compact(value, digits) : value;
      return ` ${name}='${escaped(drawn.replace(/currentcolor/gi, color))}'`;
    });
  const space =
    element.tag === 'svg' && !element.attributes.has('xmlns') ? " xmlns='http://www.w3.org/2000/svg'" : '';
  const inside = element.children.map((one) =>
    one instanceof Element ? serialise(one, color, digits) : escaped(one.text.trim()),
  );
  return `<${element.tag}${space}${attributes.join('')}>${inside.join('')}</${element.tag}>`;
}

/** Coordinates in fewer characters: a space takes three in an address, a comma one. */
function compact(value: string, digits: number): string {
  return value
    .trim()
    .split(/(?=[a-df-z])/i)
    .map((part) => (/^a/i.test(part) ? part : rounded(part, digits)))
    .join('')
    .replace(/[\s,]*([a-df-z])[\s,]*/gi, '$1')
    .replace(/[\s,]+/g, ',');
}

/** The flags of an arc may stand close before a number: arcs are left as they are. */
const rounded = (part: string, digits: number): string =>
  part.replace(/-?\d*\.\d+(?:e-?\d+)?/gi, (one, at: number) => {
    const number = String(Number(Number(one).toFixed(digits)));
    return /[\d.]/.test(part[at - 1] ?? '') && !number.startsWith('-') ? ` ${number}` : number;
  });

const escaped = (text: string) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/'/g, '&apos;');
