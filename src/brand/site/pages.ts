/** What kind of page an address leads to, and which pages of a site are worth a visit. */
import { closest, type Page, textOf } from './dom.ts';
import { isFooter, isPageHeader } from './look.ts';

const kinds: [type: string, words: RegExp][] = [
  ['pricing', /pric(e|es|ing)|plans?$|tarife?|preise?|料金|価格|precios|tarifs/i],
  ['features', /features?|funktionen|product-?tour|leistungen|機能|caracteristicas|fonctionnalites/i],
  [
    'about',
    /about|über-?uns|ueber-?uns|company|team|unternehmen|wir$|会社|企業情報|について|acerca|a-propos|who-we-are|our-story|story/i,
  ],
  ['contact', /contact|kontakt|お問い?合わせ|contacto|anfahrt/i],
  [
    'blog',
    /blog|news|posts?|articles?|aktuelles|magazin|neuigkeiten|journal|ニュース|お知らせ|changelog|announcements?|press/i,
  ],
  [
    'docs',
    /docs?|documentation|guides?|getting-?started|api|reference|tutorials?|handbuch|anleitung|dokumentation|ドキュメント|ガイド|manual|learn/i,
  ],
  ['shop', /shop|store|products?|produkte?|collections?|catalog|ショップ|商品|tienda|boutique/i],
  [
    'portfolio',
    /portfolio|work|projects?|projekte|referenzen|gallery|galerie|case-stud(y|ies)|showcase|実績|作品/i,
  ],
  ['services', /services?|leistungen|angebot|solutions?|lösungen|サービス|servicios/i],
  ['testimonials', /testimonials?|customers?|reviews?|kunden|stories|お客様/i],
  ['faq', /faqs?|help|hilfe|support|questions|よくある|ヘルプ/i],
  ['careers', /careers?|jobs?|karriere|stellen|採用|join-us/i],
  [
    'legal',
    /privacy|terms|imprint|impressum|datenschutz|agb|legal|cookies?|disclaimer|プライバシー|利用規約|特定商取引/i,
  ],
  ['login', /log-?in|sign-?in|sign-?up|register|account|anmelden|registrieren|ログイン|登録/i],
];

/** The type of a page: its path first, then what links call it, then its title. */
export function typeOfPage(url: URL, linkText: string, title: string): string {
  if (isHome(url)) return 'home';
  const path = decoded(url.pathname)
    .toLowerCase()
    .replace(/\.(html?|php|aspx?)$/, '');
  const segments = path.split('/').filter((one) => one !== '');
  const words = (text: string) => text.split(/[-_.\s]+/);
  for (const segment of segments) {
    const kind = kinds.find(
      ([, sign]) => fits(segment, sign) || words(segment).some((word) => fits(word, sign)),
    );
    if (kind) return kind[0];
  }
  for (const text of [linkText, title.split(/\s[|–—·-]\s/)[0] ?? '']) {
    const kind = kinds.find(
      ([, sign]) =>
        fits(text.trim(), sign) ||
        (/[\u3040-\u9fff]/.test(text) && sign.test(text)) ||
        words(text).some((word) => text.length < 40 && fits(word, sign)),
    );
    if (kind) return kind[0];
  }
  return 'other';
}

export const isHome = ({ pathname }: URL): boolean => /^\/(index\.(html?|php))?$/.test(pathname);

function fits(text: string, sign: RegExp): boolean {
  const match = sign.exec(text);
  return match !== null && match[0].length >= text.length - 1;
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    // A path that is no UTF-8 is read as it is.
    return path;
  }
}

export type Lead = { url: string; text: string; rank: number };

/** What a visitor would look at first. */
const interest = [
  'pricing',
  'features',
  'about',
  'testimonials',
  'services',
  'docs',
  'blog',
  'shop',
  'portfolio',
  'faq',
  'contact',
  'careers',
  'other',
  'legal',
  'login',
];
const maxLinks = 600;
const noPages =
  /\.(?:pdf|zip|gz|tgz|png|jpe?g|gif|webp|avif|svg|ico|mp[34]|webm|mov|css|js|mjs|json|xml|rss|atom|txt|exe|dmg|woff2?|ttf|docx?|xlsx?|pptx?|csv|ics)$/i;

/** Pages of the same site that a page links to, without their fragments; those that tell most come first. */
export function leadsOf(page: Page, base: URL): Lead[] {
  const leads = new Map<string, Lead>();
  for (const element of page.all) {
    if (leads.size >= maxLinks) break;
    if (element.tag !== 'a' || !element.attributes.has('href') || /nofollow/.test(element.get('rel')))
      continue;
    const url = pageUrl(element.get('href'), base);
    if (url === undefined || leads.has(url)) continue;
    const text = textOf(element, undefined, 120);
    const inHeader = closest(element, isPageHeader) !== undefined;
    const inFooter = !inHeader && closest(element, isFooter) !== undefined;
    leads.set(url, { url, text, rank: rankOf(new URL(url), text) + (inHeader ? 0 : inFooter ? 2 : 4) });
  }
  return [...leads.values()];
}

/** Leads in the order in which they are worth it; the same for the same site. */
export function sortLeads(leads: readonly Lead[]): Lead[] {
  return [...leads].sort(
    (a, b) => a.rank - b.rank || a.url.length - b.url.length || (a.url < b.url ? -1 : 1),
  );
}

export function rankOf(url: URL, text: string): number {
  const depth = url.pathname.split('/').filter((one) => one !== '').length;
  return Math.max(0, interest.indexOf(typeOfPage(url, text, ''))) + depth * 2 + (url.search === '' ? 0 : 6);
}

/** The address of a page of the same site, in one form. Undefined for others. */
export function pageUrl(text: string, base: URL): string | undefined {
  if (!URL.canParse(text, base.href)) return undefined;
  const url = new URL(text, base);
  url.hash = '';
  if (!/^https?:$/.test(url.protocol) || siteOf(url) !== siteOf(base) || noPages.test(url.pathname))
    return undefined;
  for (const name of [...url.searchParams.keys()])
    if (/^(utm_\w+|ref|fbclid|gclid)$/.test(name)) url.searchParams.delete(name);
  // One page has one address here.
  url.protocol = base.protocol;
  url.host = base.host;
  if (/\/index\.html?$/.test(url.pathname)) url.pathname = url.pathname.replace(/index\.html?$/, '');
  return url.href.length <= 1_000 ? url.href : undefined;
}

const siteOf = ({ host }: URL) => host.replace(/^www\./, '');
