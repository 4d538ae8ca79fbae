/**
 * Items with a title and a sentence that say nothing of what is offered: steps, addresses, years, demonstrations; and
 * the panels of a program, which look the same.
 */
import { closest, descendants, type Element, type Page } from './dom.ts';
import { isMost } from './groups.ts';
import type { Item } from './outline.ts';

export function areOfOtherKind(items: readonly Item[]): boolean {
  const kinds = [isStep, isWayToReach, isOfPast, isPost, isDemonstration];
  return (
    kinds.some((isOne) => isMost(items.filter(isOne).length, items)) || areElsewhere(items) || arePages(items)
  );
}

/** So many entries of which each as a whole leads on are an index: of chapters, examples, places. */
const leastPages = 9;

function arePages(items: readonly Item[]): boolean {
  return items.length >= leastPages && items.every((item) => linkOf(item) !== undefined);
}

/** The link that an entry is as a whole, or that its title is in. */
function linkOf({ element, heading }: Item): Element | undefined {
  const link = heading && closest(heading, (one) => one.tag === 'a' || one === element);
  return link?.tag === 'a' ? link : undefined;
}

/** Each as a whole leads to a host of its own: where else people meet, what others made. */
function areElsewhere(items: readonly Item[]): boolean {
  const hosts = items.map(hostOf).filter((one) => one !== undefined);
  return hosts.length === items.length && new Set(hosts).size > items.length / 2;
}

function hostOf(item: Item): string | undefined {
  return /^(?:https?:)?\/\/([^/?#]+)/i.exec(linkOf(item)?.get('href') ?? '')?.[1]?.toLowerCase();
}

const step = /^(?:(?:step|schritt|étape|paso|passo|krok)\s*\d|\d{1,2}[.)]\s)/i;
const isStep = ({ text, title }: Item) => step.test(title) || step.test(text);

const wayToReach =
  /^(?:(?:our |postal |e-?mail |office |mailing )?address|phone(?: number)?|telephone|fax|e-?mail(?: us)?|call us|visit us|write us|our office|locations?|(?:opening |business |office )?hours|adresse|anschrift|telefon|öffnungszeiten|téléphone|dirección|teléfono|indirizzo|telefono|(?:unsere? )?standorte?|anfahrt|ubicación|horarios?(?: de atención)?|contacto|localização|horários?(?: de funcionamento)?|contato|horaires(?: d['’]ouverture)?|nous trouver|dove siamo|orari(?: di apertura)?|contatti|godziny otwarcia|адрес|контакты|часы работы|телефон)[.!:]?$/iu;
const isWayToReach = ({ title }: Item) => wayToReach.test(title);

const year = '(?:19|20)\\d\\d';
const fromYear = new RegExp(`^(?:\\p{L}{3,9}\\.? )?${year}(?!\\d)`, 'u');
const toYear = new RegExp(
  `${year}\\s*[-–—]\\s*(?:\\p{L}{3,9}\\.? )?(?:${year}|present|today|now|heute|aujourd)`,
  'iu',
);
/** A history, or what somebody has done and learnt. */
const isOfPast = ({ text, title }: Item) =>
  fromYear.test(text) || fromYear.test(text.slice(title.length).trim()) || toYear.test(text.slice(0, 200));

/** Who wrote it when, as people count back. */
const isPost = ({ text }: Item) =>
  /\b(?:\d+|an?) (?:sec(?:ond)?|min(?:ute)?|hour|day|week|month|year)s? ago\b|\bvor (?:\d+|einer|einem) (?:minuten?|stunden?|tag(?:en)?|wochen?|monat(?:en)?)\b|il y a \d+ (?:heures?|jours?|mois)|hace \d+ (?:horas?|días?|meses)|\d+(?:分|時間|日)前/iu.test(
    text,
  );

/** Something to try, beside what it does. A button that leads on is a link by another name. */
const isDemonstration = ({ element }: Item) => [...descendants(element)].some(isTrial);
const leadsOn = /more|mehr|plus|más|di più|détails|details|start|read|buy|sign|contact|詳し/i;
const isTrial = (one: Element) => one.tag === 'button' && !leadsOn.test(buttonText(one));
const buttonText = (button: Element) =>
  button.children.map((one) => ('text' in one ? one.text : '')).join(' ');

const programs = new WeakMap<Page, boolean>();

/** Whether a page is one of a program or a manual: the way around it is a long list at its side. */
export function isOfProgram(page: Page): boolean {
  const known = programs.get(page);
  if (known !== undefined) return known;
  const content = page.all.find(({ tag }) => /^(?:main|h1|h2)$/.test(tag));
  const isOne = page.all.some((one) => isSideMenu(one, one.order < (content?.order ?? page.all.length)));
  programs.set(page, isOne);
  return isOne;
}

/** A page that sells has a menu; a table of contents is longer. */
const leastContents = 15;
const manuals = new WeakMap<Page, number>();

/** Whether something stands in a manual: in what a long table of contents leads to. */
export function isInManual(page: Page, { order }: Element): boolean {
  const from = manuals.get(page) ?? manualFrom(page);
  manuals.set(page, from);
  return order >= from;
}

/** Where the first of these places is. */
function manualFrom({ all }: Page): number {
  const links = all.filter(({ tag }) => tag === 'a').map((one) => one.get('href'));
  const wanted = new Set(links.filter((one) => /^#./.test(one)).map((one) => one.slice(1)));
  const places = all.filter((one) => wanted.has(one.get('id') || one.get('name')));
  return places.length >= leastContents ? (places[0]?.order ?? 0) : Number.POSITIVE_INFINITY;
}

const sideNames =
  /^(?:(?:main|left|page|app|nav|layout)[-_]?)?(?:sidebar|sidenav|side[-_]nav|side[-_]menu|left[-_]col|navbar-vertical)(?:[-_](?:wrapper|nav|menu|main|left|inner))?$/i;
/** A menu that slides in on a page that sells has fewer. */
const leastLinks = 8;

function isSideMenu(element: Element, isBeforeContent: boolean): boolean {
  const isAside =
    isBeforeContent && element.tag === 'aside' && [...descendants(element)].some(({ tag }) => tag === 'ul');
  if (!isAside && ![element.get('id'), ...element.classes].some((one) => sideNames.test(one))) return false;
  if (element.tag === 'body' || closest(element, ({ tag }) => tag === 'main' || tag === 'article'))
    return false;
  let links = 0;
  for (const { tag } of descendants(element)) if (tag === 'a') links += 1;
  return links >= leastLinks;
}
